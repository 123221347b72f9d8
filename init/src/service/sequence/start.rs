//! The start of a run: its commands one after another, until it is ready or has ended.

use super::ending::result_of;
use super::{Alarm, CommandKind, CommandSequence, Effect, Effects, Step};
use groundstate_units::machine::event::{Event, ExecFailure, Stage};
use groundstate_units::machine::reason::Reason;
use groundstate_units::spec::{Exit, Kind, MainPid};
use std::time::Duration;

/// The pause before each ready-exec except the first.
const READY_PAUSE: Duration = Duration::from_millis(250);
/// The longest time that a unit with start-idle waits for others.
const IDLE: Duration = Duration::from_secs(5);

impl CommandSequence {
    /// Starts the sequence.
    pub(crate) fn begin(&mut self) -> Effects {
        if self.particular().is_some_and(|p| p.start_idle) {
            self.step = Step::Idle;
            return vec![Effect::Wake(Alarm::Idle, IDLE)];
        }
        self.start_first_command()
    }

    /// Starts the first command.
    pub(crate) fn start_first_command(&mut self) -> Effects {
        if self.plan.has_pid_file {
            self.step = Step::Line(CommandKind::Unlink);
            return vec![Effect::RemovePidFile];
        }
        self.next(None)
    }

    /// The command of the start after this one.
    fn next(&mut self, part: Option<CommandKind>) -> Effects {
        let (pre, start) = (CommandKind::Pre(0), CommandKind::Start(0));
        let candidates = match part {
            None | Some(CommandKind::Unlink) => vec![CommandKind::Condition(0), pre, start],
            Some(CommandKind::Condition(n)) => vec![CommandKind::Condition(n + 1), pre, start],
            Some(CommandKind::Pre(n)) => vec![CommandKind::Pre(n + 1), start],
            Some(CommandKind::Start(n)) => vec![CommandKind::Start(n + 1)],
            Some(_) => Vec::new(),
        };
        match candidates.into_iter().find(|part| self.plan.has(*part)) {
            Some(part) => vec![self.line(part)],
            // A oneshot that has only stop commands.
            None => self.script_ended(Exit::Code(0)),
        }
    }

    pub(super) fn line(&mut self, part: CommandKind) -> Effect {
        self.step = Step::Line(part);
        Effect::Spawn(part)
    }

    /// Handles the exec of a command.
    pub(crate) fn executed(&mut self, part: CommandKind) -> Effects {
        let main = matches!(part, CommandKind::Start(_));
        if !main || std::mem::replace(&mut self.executed_told, true) {
            return Vec::new();
        }
        self.main_alive |= self.is_foreground();
        let mut effects = vec![Effect::Tell(Event::Executed(self.run))];
        if self.stopping || self.exit_told {
            return effects;
        }
        effects.extend(self.first_ping());
        if self.plan.kind == Kind::ForegroundSupervised {
            effects.extend(self.await_readiness());
        }
        effects
    }

    pub(super) fn first_ping(&self) -> Option<Effect> {
        let every = self.particular()?.watchdog?;
        Some(Effect::Tell(Event::WatchdogEvery(self.run, every)))
    }

    /// Starts the readiness check of a foreground-supervised unit, which sends no READY=1.
    fn await_readiness(&mut self) -> Effects {
        let particular = self.particular();
        if let Some(span) = particular.and_then(|p| p.ready_wait) {
            return vec![Effect::Wake(Alarm::ReadyWait, span)];
        }
        if particular.is_some_and(|p| p.ready_exec.is_some()) {
            return vec![Effect::Spawn(CommandKind::Ready)];
        }
        let tells = self.plan.has_grep || particular.is_some_and(|p| p.ready_fd.is_some());
        if tells || !self.plan.has(CommandKind::Post(0)) { Vec::new() } else { self.ready() }
    }

    /// Returns true if the start command is the main process.
    pub(crate) fn is_foreground(&self) -> bool {
        matches!(self.plan.kind, Kind::ForegroundNotified | Kind::ForegroundSupervised)
    }

    /// Handles a command that could not be executed. Its process, if any, has exited.
    pub(crate) fn not_executed(&mut self, part: CommandKind, failure: ExecFailure) -> Effects {
        if failure.stage == Stage::Condition {
            self.skipped = Some(failure.path.into());
            self.step = Step::Up;
            (self.last, self.cleaned) = (usize::MAX, true);
            return vec![Effect::Look];
        }
        if failure.stage != Stage::Assert && self.plan.forgives(part) {
            return self.exited(part, Exit::Code(0));
        }
        let what = format!("{}: {}", failure.stage.as_str(), failure.path);
        match part {
            // A later command of a oneshot: the run had started, so it ends.
            CommandKind::Condition(_) | CommandKind::Pre(_) | CommandKind::Start(_)
                if self.executed_told =>
            {
                self.protocol(what)
            }
            CommandKind::Condition(_) | CommandKind::Pre(_) | CommandKind::Start(_) => {
                self.failure = Some(Box::new(failure));
                self.main_alive = false;
                self.step = Step::Up;
                vec![Effect::Kill, Effect::Look]
            }
            CommandKind::Ready | CommandKind::Post(_) => self.post_failed(part, &what),
            CommandKind::Stop(_) | CommandKind::StopPost(_) => {
                self.stop_command_failed(part, "resources", Reason::Exec(failure))
            }
            CommandKind::Clean | CommandKind::Look => vec![Effect::Look],
            CommandKind::Unlink => self.exited(part, Exit::Code(0)),
            CommandKind::Reload(_) => self.reload_commands_ended(false),
            CommandKind::Main => Vec::new(),
        }
    }

    /// Handles the exit of a command.
    pub(crate) fn exited(&mut self, part: CommandKind, exit: Exit) -> Effects {
        // The failure of a command with a `-` prefix counts as success.
        let exit = if self.plan.forgives(part) { Exit::Code(0) } else { exit };
        let well = exit == Exit::Code(0);
        match part {
            CommandKind::Condition(_) | CommandKind::Pre(_) => self.pre_ended(part, exit),
            CommandKind::Start(n) => self.start_ended(n, exit),
            CommandKind::Ready if well => self.ready(),
            CommandKind::Ready if self.is_starting() => {
                vec![Effect::Wake(Alarm::ReadyAgain, READY_PAUSE)]
            }
            CommandKind::Ready => vec![Effect::Look],
            CommandKind::Post(n) => self.post_ended(n, exit),
            CommandKind::Stop(n) => self.stop_ended(n, exit),
            CommandKind::StopPost(_) if !self.is_success(exit) => {
                self.stop_command_failed(part, result_of(exit), Reason::Exit(exit))
            }
            CommandKind::StopPost(_) | CommandKind::Clean | CommandKind::Look => vec![Effect::Look],
            CommandKind::Unlink if self.stopping => self.told_exit(exit),
            CommandKind::Unlink => self.next(Some(part)),
            CommandKind::Reload(n) => {
                let next = CommandKind::Reload(n + 1);
                match self.plan.has(next) {
                    true if well && !self.stopping => vec![Effect::Spawn(next)],
                    more => self.reload_commands_ended(well && !more),
                }
            }
            CommandKind::Main if self.is_script() => vec![Effect::Look],
            CommandKind::Main => self.main_ended(exit),
        }
    }

    fn pre_ended(&mut self, part: CommandKind, exit: Exit) -> Effects {
        if self.stopping {
            return self.told_exit(exit);
        }
        match (part, exit) {
            (_, Exit::Code(0)) => self.next(Some(part)),
            (CommandKind::Condition(_), _) if self.live.success_status.lists(exit) => {
                self.next(Some(part))
            }
            (CommandKind::Condition(n), Exit::Code(1..=254)) => {
                let number = n.saturating_add(1);
                let one = !self.plan.has(CommandKind::Condition(1));
                let which = if one { String::new() } else { format!(" {number}") };
                self.skipped = Some(format!("exec-condition{which}").into());
                self.result = Some("exec-condition".into());
                self.step = Step::Up;
                vec![Effect::Look]
            }
            // The status lists apply to the main process only.
            _ if self.is_listed(exit) => {
                self.protocol(format!("{} exited with {exit:?}", part.key()))
            }
            _ => self.told_exit(exit),
        }
    }

    fn is_listed(&self, exit: Exit) -> bool {
        let live = &self.live;
        let lists = [&live.success_status, &live.restart_except, &live.restart_also];
        lists.iter().any(|list| list.lists(exit))
    }

    pub(super) fn start_ended(&mut self, n: usize, exit: Exit) -> Effects {
        let well = exit == Exit::Code(0) || self.live.success_status.lists(exit);
        let kind = self.plan.kind;
        let has_more = kind == Kind::Oneshot && self.plan.has(CommandKind::Start(n + 1));
        if well && has_more && !self.stopping {
            self.next(Some(CommandKind::Start(n)))
        } else if well && self.is_script() {
            self.script_ended(exit)
        } else if well && kind == Kind::BackgroundPidfile && !self.stopping {
            self.find_main()
        } else {
            self.main_ended(exit)
        }
    }

    /// Handles the successful end of the last command of a script.
    fn script_ended(&mut self, exit: Exit) -> Effects {
        if self.stopping || !self.plan.has(CommandKind::Post(0)) {
            return self.script_done(exit);
        }
        self.exit = Some(exit);
        self.posted = true;
        vec![self.line(CommandKind::Post(0))]
    }

    /// Ends a script. A oneshot without `remain` runs its stop commands before it reports its end.
    fn script_done(&mut self, exit: Exit) -> Effects {
        if self.plan.kind != Kind::Oneshot || self.plan.remain || self.stopping {
            return self.told_exit(exit);
        }
        (self.exit, self.closing, self.was_ready) = (Some(exit), true, true);
        self.stop_lines()
    }

    fn post_ended(&mut self, n: usize, exit: Exit) -> Effects {
        if self.step != Step::Line(CommandKind::Post(n)) {
            return self.stopped_beside_post();
        }
        if exit != Exit::Code(0) {
            self.result.get_or_insert(result_of(exit).into());
            return self.post_failed(CommandKind::Post(n), &format!("exited with {}", words(exit)));
        }
        let next = CommandKind::Post(n + 1);
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

    pub(super) fn post_failed(&mut self, part: CommandKind, how: &str) -> Effects {
        if self.stopping || self.exit_told {
            return self.stopped_beside_post();
        }
        self.protocol(format!("{} {how}", part.key()))
    }

    /// Finds the main process after the launcher has exited successfully. MAINPID= may have
    /// announced it.
    pub(super) fn find_main(&mut self) -> Effects {
        self.step = Step::Seeking;
        if self.main_alive {
            return self.main_found();
        }
        match self.particular().map(|p| p.main_pid).unwrap_or_default() {
            MainPid::File => vec![Effect::SeekPidFile],
            MainPid::Guess => vec![Effect::GuessMain],
            MainPid::None => self.main_unknown(),
        }
    }

    /// Handles the end of an exec-start-post during a stop. Without a main process, the stop has
    /// waited for that command.
    fn stopped_beside_post(&mut self) -> Effects {
        let was_awaited = self.step == Step::StopMain && !self.main_alive;
        if was_awaited { self.stop_rest() } else { vec![Effect::Look] }
    }
}

fn words(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("status {code}"),
        Exit::Signal { signal, .. } => format!("signal {signal}"),
    }
}
