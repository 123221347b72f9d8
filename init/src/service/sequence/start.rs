//! The start of a run: its lines one after another, until it is ready or has ended.

use super::ending::result_of;
use super::{Alarm, CommandSequence, Deed, Deeds, Part, Step};
use groundstate_units::machine::event::{Event, ExecFailure, Stage};
use groundstate_units::machine::reason::Reason;
use groundstate_units::spec::{Exit, Kind, MainPid};
use std::time::Duration;

/// The pause before the second ready-exec and all after it.
const READY_PAUSE: Duration = Duration::from_millis(250);
/// The longest a unit with start-idle waits for others.
const IDLE: Duration = Duration::from_secs(5);

impl CommandSequence {
    /// The beginning.
    pub(crate) fn begin(&mut self) -> Deeds {
        if self.particular().is_some_and(|p| p.start_idle) {
            self.step = Step::Idle;
            return vec![Deed::Wake(Alarm::Idle, IDLE)];
        }
        self.go()
    }

    /// The first line.
    pub(crate) fn go(&mut self) -> Deeds {
        if self.plan.has_pid_file {
            self.step = Step::Line(Part::Unlink);
            return vec![Deed::RemovePidFile];
        }
        self.next(None)
    }

    /// The line of the start after this one.
    fn next(&mut self, part: Option<Part>) -> Deeds {
        let candidates = match part {
            None | Some(Part::Unlink) => [Part::Condition(0), Part::Pre(0), Part::Start(0)],
            Some(Part::Condition(n)) => [Part::Condition(n + 1), Part::Pre(0), Part::Start(0)],
            Some(Part::Pre(n)) => [Part::Pre(n + 1), Part::Start(0), Part::Start(0)],
            Some(Part::Start(n)) => [Part::Start(n + 1); 3],
            Some(_) => [Part::Main; 3],
        };
        match candidates.into_iter().find(|part| self.plan.has(*part)) {
            Some(part) => vec![self.line(part)],
            // A oneshot that only stops something.
            None => self.script_ended(Exit::Code(0)),
        }
    }

    pub(super) fn line(&mut self, part: Part) -> Deed {
        self.step = Step::Line(part);
        Deed::Spawn(part)
    }

    /// With a `-` before the line a failure is none.
    fn forgive(&self, part: Part, exit: Exit) -> Exit {
        if self.plan.forgives(part) { Exit::Code(0) } else { exit }
    }

    /// The line's program was executed.
    pub(crate) fn executed(&mut self, part: Part) -> Deeds {
        let main = matches!(part, Part::Start(_));
        if !main || std::mem::replace(&mut self.executed_told, true) {
            return Vec::new();
        }
        self.main_alive |= self.is_foreground();
        let mut deeds = vec![Deed::Tell(Event::Executed(self.run))];
        if self.stopping || self.exit_told {
            return deeds;
        }
        deeds.extend(self.first_ping());
        if self.plan.kind == Kind::ForegroundSupervised {
            deeds.extend(self.await_readiness());
        }
        deeds
    }

    pub(super) fn first_ping(&self) -> Option<Deed> {
        let every = self.particular()?.watchdog?;
        Some(Deed::Tell(Event::WatchdogEvery(self.run, every)))
    }

    /// What makes a unit ready that does not say so itself, and is not left to the machine.
    fn await_readiness(&mut self) -> Deeds {
        let particular = self.particular();
        if let Some(span) = particular.and_then(|p| p.ready_wait) {
            return vec![Deed::Wake(Alarm::ReadyWait, span)];
        }
        if particular.is_some_and(|p| p.ready_exec.is_some()) {
            return vec![Deed::Spawn(Part::Ready)];
        }
        let tells = self.plan.has_grep || particular.is_some_and(|p| p.ready_fd.is_some());
        if tells || !self.plan.has(Part::Post(0)) { Vec::new() } else { self.ready() }
    }

    /// The process of its start line is its main process.
    pub(crate) fn is_foreground(&self) -> bool {
        matches!(self.plan.kind, Kind::ForegroundNotified | Kind::ForegroundSupervised)
    }

    /// The line's program could not be executed. Its process, if any, has ended.
    pub(crate) fn not_executed(&mut self, part: Part, failure: ExecFailure) -> Deeds {
        if failure.stage == Stage::Condition {
            self.skipped = Some(failure.path.into());
            self.step = Step::Up;
            (self.last, self.cleaned) = (usize::MAX, true);
            return vec![Deed::Look];
        }
        if failure.stage != Stage::Assert && self.plan.forgives(part) {
            return self.exited(part, Exit::Code(0));
        }
        match part {
            Part::Condition(_) | Part::Pre(_) | Part::Start(_) if self.executed_told => {
                // A later line of a oneshot: the run had begun, so it ends.
                self.protocol(format!("{}: {}", failure.stage.as_str(), failure.path))
            }
            Part::Condition(_) | Part::Pre(_) | Part::Start(_) => {
                self.failure = Some(Box::new(failure));
                self.main_alive = false;
                self.step = Step::Up;
                vec![Deed::Kill, Deed::Look]
            }
            Part::Ready | Part::Post(_) => {
                self.post_failed(part, &format!("{}: {}", failure.stage.as_str(), failure.path))
            }
            Part::Stop(_) | Part::StopPost(_) => {
                self.stop_command_failed(part, "resources", Reason::Exec(failure))
            }
            Part::Clean | Part::Look => vec![Deed::Look],
            Part::Unlink => self.exited(part, Exit::Code(0)),
            Part::Reload(_) => self.reload_commands_ended(false),
            Part::Main => Vec::new(),
        }
    }

    /// The line's process has ended.
    pub(crate) fn exited(&mut self, part: Part, exit: Exit) -> Deeds {
        let exit = self.forgive(part, exit);
        let well = exit == Exit::Code(0);
        match part {
            Part::Condition(_) | Part::Pre(_) => self.pre_ended(part, exit),
            Part::Start(n) => self.start_ended(n, exit),
            Part::Ready if well => self.ready(),
            Part::Ready if self.is_starting() => vec![Deed::Wake(Alarm::ReadyAgain, READY_PAUSE)],
            Part::Ready => vec![Deed::Look],
            Part::Post(n) => self.post_ended(n, exit),
            Part::Stop(n) => self.stop_ended(n, exit),
            Part::StopPost(_) if !self.is_success(exit) => {
                self.stop_command_failed(part, result_of(exit), Reason::Exit(exit))
            }
            Part::StopPost(_) | Part::Clean | Part::Look => vec![Deed::Look],
            Part::Unlink if self.stopping => self.told_exit(exit),
            Part::Unlink => self.next(Some(part)),
            Part::Reload(n) => {
                let next = Part::Reload(n + 1);
                match self.plan.has(next) {
                    true if well && !self.stopping => vec![Deed::Spawn(next)],
                    more => self.reload_commands_ended(well && !more),
                }
            }
            Part::Main if self.is_script() => vec![Deed::Look],
            Part::Main => self.main_ended(exit),
        }
    }

    fn pre_ended(&mut self, part: Part, exit: Exit) -> Deeds {
        if self.stopping {
            return self.told_exit(exit);
        }
        match (part, exit) {
            (_, Exit::Code(0)) => self.next(Some(part)),
            (Part::Condition(_), _) if self.live.success_status.lists(exit) => {
                self.next(Some(part))
            }
            (Part::Condition(n), Exit::Code(1..=254)) => {
                let number = n.saturating_add(1);
                let one = !self.plan.has(Part::Condition(1));
                let which = if one { String::new() } else { format!(" {number}") };
                self.skipped = Some(format!("exec-condition{which}").into());
                self.result = Some("exec-condition");
                self.step = Step::Up;
                vec![Deed::Look]
            }
            // The lists are about the main process: its exit is not that of this command.
            _ if self.is_listed(exit) => {
                self.protocol(format!("{} ended with {exit:?}", part.key()))
            }
            _ => self.told_exit(exit),
        }
    }

    fn is_listed(&self, exit: Exit) -> bool {
        let live = &self.live;
        let lists = [&live.success_status, &live.restart_except, &live.restart_also];
        lists.iter().any(|list| list.lists(exit))
    }

    pub(super) fn start_ended(&mut self, n: usize, exit: Exit) -> Deeds {
        let well = exit == Exit::Code(0) || self.live.success_status.lists(exit);
        match self.plan.kind {
            Kind::Oneshot if well && self.plan.has(Part::Start(n + 1)) && !self.stopping => {
                self.next(Some(Part::Start(n)))
            }
            Kind::Oneshot | Kind::BackgroundScripted if well => self.script_ended(exit),
            Kind::BackgroundPidfile if well && !self.stopping => self.seek(),
            Kind::ForegroundNotified
            | Kind::ForegroundSupervised
            | Kind::BackgroundPidfile
            | Kind::BackgroundScripted
            | Kind::Oneshot => self.main_ended(exit),
            Kind::Virtual | Kind::Socket | Kind::Timer | Kind::Path => Vec::new(),
        }
    }

    /// The last line of a script has ended well.
    fn script_ended(&mut self, exit: Exit) -> Deeds {
        if self.stopping || !self.plan.has(Part::Post(0)) {
            return self.script_done(exit);
        }
        self.exit = Some(exit);
        self.posted = true;
        vec![self.line(Part::Post(0))]
    }

    /// A oneshot that leaves nothing behind takes back what it did before it tells its end.
    fn script_done(&mut self, exit: Exit) -> Deeds {
        if self.plan.kind != Kind::Oneshot || self.plan.remain || self.stopping {
            return self.told_exit(exit);
        }
        (self.exit, self.closing, self.was_ready) = (Some(exit), true, true);
        self.stop_lines()
    }

    fn post_ended(&mut self, n: usize, exit: Exit) -> Deeds {
        if self.step != Step::Line(Part::Post(n)) {
            return self.stopped_beside_post();
        }
        if exit != Exit::Code(0) {
            self.result.get_or_insert(result_of(exit));
            return self.post_failed(Part::Post(n), &format!("ended with {}", words(exit)));
        }
        let next = Part::Post(n + 1);
        if self.plan.has(next) {
            return vec![self.line(next)];
        }
        if self.is_script() {
            let exit = self.exit.unwrap_or(Exit::Code(0));
            return self.script_done(exit);
        }
        self.step = Step::Up;
        self.told_ready()
    }

    pub(super) fn post_failed(&mut self, part: Part, how: &str) -> Deeds {
        if self.stopping || self.exit_told {
            return self.stopped_beside_post();
        }
        self.protocol(format!("{} {how}", part.key()))
    }

    /// The launcher has ended well: which process is the main one? A message (MAINPID=) may have named it.
    pub(super) fn seek(&mut self) -> Deeds {
        self.step = Step::Seeking;
        if self.main_alive {
            return self.main_found();
        }
        match self.particular().map(|p| p.main_pid).unwrap_or_default() {
            MainPid::File => vec![Deed::SeekPidFile],
            MainPid::Guess => vec![Deed::GuessMain],
            MainPid::None => self.main_unknown(),
        }
    }

    /// Where there is no main process it was the line under way that the stop has waited for.
    fn stopped_beside_post(&mut self) -> Deeds {
        let was_awaited = self.step == Step::StopMain && !self.main_alive;
        if was_awaited { self.stop_rest() } else { vec![Deed::Look] }
    }
}

fn words(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("status {code}"),
        Exit::Signal { signal, .. } => format!("signal {signal}"),
    }
}
