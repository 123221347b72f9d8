//! The command sequence of one run: which command is started when, and what its exit means. It is pure: facts
//! come in, effects go out, and [`crate::event_loop`] applies them. [`start`] begins a run, [`ending`] ends it.
//!
//! | type | the lines | main process | told ready by |
//! |---|---|---|---|
//! | foreground-* | condition…, pre…, start, post… | the start line | READY=1, a line, a descriptor, ready-exec, the exec, a time (the last two by the machine, where no post follows) |
//! | background-pidfile | condition…, pre…, start, post… | the pid in the file, once accepted; or the one that is left | that |
//! | background-scripted | condition…, pre…, start, post… | none | the end of the last (by the machine) |
//! | oneshot | condition…, pre…, start… in order, post… | none to speak of | the end of the last (by the machine) |
//!
//! `Gone` is told once, after the exit was told and when no process is left; `Ended` is
//! both in one. Before either, what the unit wants done at the very end is done.

mod ending;
mod start;
#[cfg(test)]
mod tests;

use crate::state::carried;
pub(crate) use ending::{Outcome, result_of};
use groundstate_units::machine::event::{Event, ExecFailure, RunId};
use groundstate_units::spec::{ExecLine, Exit, Kind, Live, Particular, Prefixes, Run};
use groundstate_units::text::fields::is_default;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// One of a known few.
type Word = &'static str;

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    /// Others start first.
    Idle,
    /// A line of the start is running.
    Line(CommandKind),
    /// The launcher has ended well; its pid file is looked for.
    Seeking,
    /// The main process has ended; its last lines may still make it ready.
    Draining(Exit),
    /// Started, as far as init's part goes; or ended.
    Up,
    /// exec-stop is running.
    StopLine(usize),
    /// Waiting for the main process (or the line under way) to end.
    StopMain,
    /// Waiting for the rest.
    StopRest,
    /// What is done when nothing is left.
    Last,
}

/// The course of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CommandSequence {
    run: RunId,
    plan: Plan,
    stop_signal: u8,
    /// As at its start.
    #[serde(default)]
    live: Arc<Live>,
    step: Step,
    #[serde(default, skip_serializing_if = "is_default")]
    main_alive: bool,
    /// It is up without a main process.
    #[serde(default, skip_serializing_if = "is_default")]
    headless: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    reloading: bool,
    /// Commands of reloads that have not ended.
    #[serde(default, skip_serializing_if = "is_default")]
    reloads: u8,
    /// The main process has ended during a reload, which may name another one.
    #[serde(default, skip_serializing_if = "is_default")]
    ended_in_reload: Option<Exit>,
    #[serde(default, skip_serializing_if = "is_default")]
    was_ready: bool,
    /// exec-start-post has begun.
    #[serde(default, skip_serializing_if = "is_default")]
    posted: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    executed_told: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    exit_told: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    gone_told: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    stopping: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    failure: Option<Box<ExecFailure>>,
    /// Why it is skipped.
    #[serde(default, skip_serializing_if = "is_default")]
    skipped: Option<Box<str>>,
    /// The main process has ended; whether it left something is being looked at.
    #[serde(default, skip_serializing_if = "is_default")]
    ended: Option<Exit>,
    /// How the main process ended, for those who ask at the very end.
    #[serde(default, skip_serializing_if = "is_default")]
    exit: Option<Exit>,
    /// Why it ended, where its exit does not tell.
    #[serde(
        default,
        deserialize_with = "carried::word::maybe",
        skip_serializing_if = "is_default"
    )]
    result: Option<Word>,
    /// A oneshot that does not remain has done its work, and is ending by itself.
    #[serde(default, skip_serializing_if = "is_default")]
    closing: bool,
    /// What lives on is none of its business any more.
    #[serde(default, skip_serializing_if = "is_default")]
    abandoned: bool,
    /// Lines of exec-stop-post that were begun.
    #[serde(default, skip_serializing_if = "is_default")]
    last: usize,
    /// What the unit leaves has been removed.
    #[serde(default, skip_serializing_if = "is_default")]
    cleaned: bool,
    /// It is started again after this stop.
    #[serde(default, skip_serializing_if = "is_default")]
    again: bool,
    /// Its stop has taken too long.
    #[serde(default, skip_serializing_if = "is_default")]
    killed: bool,
}

type Effects = Vec<Effect>;

impl CommandSequence {
    /// Of a unit with a process.
    pub(crate) fn new(run: RunId, spec: &Run, live: &Arc<Live>) -> Self {
        CommandSequence {
            run,
            plan: Plan::new(spec),
            stop_signal: live.stop_signal,
            live: live.clone(),
            step: Step::Up,
            main_alive: false,
            headless: false,
            reloading: false,
            reloads: 0,
            ended_in_reload: None,
            was_ready: false,
            posted: false,
            executed_told: false,
            exit_told: false,
            gone_told: false,
            stopping: false,
            failure: None,
            skipped: None,
            ended: None,
            exit: None,
            result: None,
            closing: false,
            abandoned: false,
            last: 0,
            cleaned: false,
            again: false,
            killed: false,
        }
    }

    fn particular(&self) -> Option<&Particular> {
        self.plan.particular.as_deref()
    }

    /// The exit of the main process was told.
    pub(crate) fn has_ended(&self) -> bool {
        self.exit_told
    }

    /// The machine wants it to end.
    pub(crate) fn is_told_to_stop(&self) -> bool {
        self.stopping
    }

    /// It is on its way to being ready.
    pub(crate) fn is_starting(&self) -> bool {
        !self.was_ready && !self.exit_told && !self.stopping && self.step != Step::Idle
    }

    /// It lets others start first.
    pub(crate) fn is_idle(&self) -> bool {
        self.step == Step::Idle
    }

    /// It may be over as soon as its last process has ended.
    pub(crate) fn waits_for_the_last(&self) -> bool {
        let ends = self.exit_told
            || self.stopping
            || self.closing
            || self.failure.is_some()
            || self.skipped.is_some()
            || self.headless;
        // One that stayed up though nothing was left of it is over once more as it is stopped.
        (ends && (!self.gone_told || self.stopping)) || self.step == Step::Seeking
    }

    fn main_ended(&mut self, exit: Exit) -> Effects {
        self.main_alive = false;
        if self.reloads > 0 && self.was_ready && !self.stopping && !self.exit_told {
            self.ended_in_reload = Some(exit);
            let limit = self.live.start_timeout.map(|span| Effect::Wake(Alarm::Reload, span));
            return limit.into_iter().collect();
        }
        if self.plan.has_grep && !self.was_ready && !self.posted && !self.stopping {
            self.step = Step::Draining(exit);
            return vec![Effect::Drain];
        }
        self.told_exit(exit)
    }

    /// The logger has read the last lines of a run that has ended, or did not in time.
    pub(crate) fn drained(&mut self) -> Effects {
        if let Step::Draining(exit) = self.step { self.told_exit(exit) } else { Vec::new() }
    }

    fn told_exit(&mut self, exit: Exit) -> Effects {
        self.main_alive = false;
        if matches!(self.step, Step::Line(_) | Step::Draining(_) | Step::Seeking) {
            self.step = Step::Up;
        }
        if !std::mem::replace(&mut self.exit_told, true) {
            self.was_ready |= exit == Exit::Code(0) && self.is_script();
            self.ended = Some(exit);
            self.exit = Some(exit);
        }
        // After a start that failed beside it, the exit is still that of the main process.
        self.exit = self.exit.or(Some(exit).filter(|_| self.executed_told));
        if self.step == Step::StopMain { self.stop_rest() } else { vec![Effect::Look] }
    }

    /// It has no main process that anything waits for.
    pub(crate) fn is_script(&self) -> bool {
        matches!(self.plan.kind, Kind::Oneshot | Kind::BackgroundScripted)
    }

    fn protocol(&mut self, message: String) -> Effects {
        self.exit_told = true;
        self.result.get_or_insert("protocol");
        self.step = Step::Up;
        vec![Effect::Tell(Event::Protocol(self.run, message)), Effect::Look]
    }

    /// The pid file holds this run's main process; it is watched from now on.
    pub(crate) fn main_found(&mut self) -> Effects {
        if self.step != Step::Seeking {
            return Vec::new();
        }
        self.step = Step::Up;
        self.main_alive = true;
        let mut effects: Effects = self.first_ping().into_iter().collect();
        effects.extend(self.ready());
        effects
    }

    /// There is no telling which process is the main one: it is up as long as any is.
    pub(crate) fn main_unknown(&mut self) -> Effects {
        if self.step != Step::Seeking {
            return Vec::new();
        }
        self.step = Step::Up;
        self.headless = true;
        let mut effects = self.ready();
        effects.push(Effect::Look);
        effects
    }

    /// There will be no acceptable pid file.
    pub(crate) fn main_not_found(&mut self, message: String) -> Effects {
        if self.step == Step::Seeking { self.protocol(message) } else { Vec::new() }
    }

    /// Told ready by what the run said or wrote.
    pub(crate) fn ready(&mut self) -> Effects {
        if self.stopping || self.exit_told || self.is_ready_by_itself() {
            return Vec::new();
        }
        if !self.plan.has(CommandKind::Post(0)) || self.was_ready {
            return self.told_ready();
        }
        if std::mem::replace(&mut self.posted, true) {
            return Vec::new();
        }
        vec![self.line(CommandKind::Post(0))]
    }

    /// Whatever it says: by the end of its last line, or once its main process is known.
    fn is_ready_by_itself(&self) -> bool {
        let is_launched = matches!(self.step, Step::Line(_) | Step::Seeking);
        self.is_script() || (self.plan.kind == Kind::BackgroundPidfile && is_launched)
    }

    fn told_ready(&mut self) -> Effects {
        self.was_ready = true;
        self.reloading = false;
        vec![Effect::Tell(Event::Ready(self.run))]
    }

    /// The machine counts it as active: by its exec, by time.
    pub(crate) fn counts_as_ready(&mut self) {
        self.was_ready = true;
    }

    /// What it waited for has come.
    pub(crate) fn alarm(&mut self, alarm: Alarm) -> Effects {
        match alarm {
            Alarm::Idle if self.step == Step::Idle => self.go(),
            Alarm::ReadyWait => self.ready(),
            Alarm::ReadyAgain if self.is_starting() => vec![Effect::Spawn(CommandKind::Ready)],
            Alarm::Kill => vec![self.last_kill(), Effect::Look],
            Alarm::Reload => match self.ended_in_reload.take() {
                Some(exit) => self.told_exit(exit),
                None => Vec::new(),
            },
            Alarm::Idle | Alarm::ReadyAgain => Vec::new(),
        }
    }

    /// RELOADING=1 came.
    pub(crate) fn reloading(&mut self) -> Effects {
        if self.stopping || self.exit_told || self.is_ready_by_itself() {
            return Vec::new();
        }
        self.reloading = true;
        vec![Effect::Tell(Event::Reloading(self.run))]
    }

    /// A new main process has been named.
    pub(crate) fn main_changed(&mut self) -> Effects {
        if self.is_script() {
            return Vec::new();
        }
        self.main_alive = true;
        self.headless = false;
        self.ended_in_reload = None;
        if self.stopping && self.step == Step::StopMain {
            // The one before it was told to stop, and this one was not.
            return self.signal_main();
        }
        // There is nothing to look for any more.
        self.main_found()
    }

    /// Let it reload its own configuration.
    pub(crate) fn reload(&mut self) -> Effects {
        let told = |well| vec![Effect::Tell(Event::Reloaded(self.run, well))];
        if self.stopping {
            return told(false);
        }
        // The machine may have given up one that was announced.
        self.reloading = false;
        if self.plan.has(CommandKind::Reload(0)) {
            self.reloads = self.reloads.saturating_add(1);
            return vec![Effect::Spawn(CommandKind::Reload(0))];
        }
        let Some(signal) = self.particular().and_then(|p| p.ending.reload_signal) else {
            return told(false);
        };
        let mut effects = vec![Effect::Signal(Whom::Main, signal)];
        // Who speaks says RELOADING=1, and READY=1 at the end; the others say nothing.
        if self.plan.kind != Kind::ForegroundNotified {
            effects.extend(told(true));
        }
        effects
    }

    /// The last command of a reload has ended. The daemon may have replaced itself meanwhile.
    fn reload_commands_ended(&mut self, well: bool) -> Effects {
        self.reloads = self.reloads.saturating_sub(1);
        let names_main = self.plan.has_pid_file && !self.stopping && !self.exit_told;
        match names_main {
            true => vec![Effect::RereadPidFile(well)],
            false => self.reload_settled(well),
        }
    }

    /// Which process is the main one after a reload is known. Without any, the run has ended.
    pub(crate) fn reload_settled(&mut self, well: bool) -> Effects {
        let ended = self.ended_in_reload.filter(|_| self.reloads == 0);
        let mut effects = self.reload_ended(well && ended.is_none());
        if ended.is_some() {
            self.ended_in_reload = None;
        }
        if let Some(exit) = ended.filter(|_| !self.main_alive && !self.exit_told) {
            effects.extend(self.told_exit(exit));
        }
        effects
    }

    /// A run that said RELOADING=1 by itself will say READY=1 too: that ends the reload.
    fn reload_ended(&mut self, well: bool) -> Effects {
        if self.stopping || (well && self.reloading) {
            return Vec::new();
        }
        self.reloading = false;
        vec![Effect::Tell(Event::Reloaded(self.run, well))]
    }
}

// The words of a run's course: its lines, what it waits for in time, what is to be done.

/// Which line of the unit a process runs. Counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum CommandKind {
    /// exec-condition.
    Condition(usize),
    /// exec-start-pre.
    Pre(usize),
    /// exec-start.
    Start(usize),
    /// ready-exec.
    Ready,
    /// exec-start-post.
    Post(usize),
    /// exec-stop.
    Stop(usize),
    /// exec-stop-post.
    StopPost(usize),
    /// exec-reload.
    Reload(usize),
    /// No line: init's own child removes what the unit leaves.
    Clean,
    /// No line: a main process that init did not start itself.
    Main,
    /// No line: init's own child removes the pid file of an earlier run.
    Unlink,
    /// No line: init's own child looks at the pid file.
    Look,
}

impl CommandKind {
    /// Its line of the unit.
    pub(crate) fn of(self, spec: &Run) -> Option<&ExecLine> {
        match self {
            CommandKind::Condition(n) => spec.exec_condition.get(n),
            CommandKind::Pre(n) => spec.exec_start_pre.get(n),
            CommandKind::Start(n) => spec.exec_start.get(n),
            CommandKind::Ready => spec.particular.as_ref().and_then(|p| p.ready_exec.as_ref()),
            CommandKind::Post(n) => spec.exec_start_post.get(n),
            CommandKind::Stop(n) => spec.exec_stop.get(n),
            CommandKind::StopPost(n) => spec.exec_stop_post.get(n),
            CommandKind::Reload(n) => spec.exec_reload.get(n),
            CommandKind::Clean | CommandKind::Main | CommandKind::Unlink | CommandKind::Look => {
                None
            }
        }
    }

    /// A command beside the main process, whose cgroup may have become one for other cgroups only.
    pub(crate) fn is_helper(self) -> bool {
        matches!(
            self,
            CommandKind::Ready
                | CommandKind::Post(_)
                | CommandKind::Stop(_)
                | CommandKind::StopPost(_)
                | CommandKind::Reload(_)
        )
    }

    /// The word of its key.
    pub(crate) fn key(self) -> &'static str {
        match self {
            CommandKind::Condition(_) => "exec-condition",
            CommandKind::Pre(_) => "exec-start-pre",
            CommandKind::Start(_) | CommandKind::Main => "exec-start",
            CommandKind::Ready => "ready-exec",
            CommandKind::Post(_) => "exec-start-post",
            CommandKind::Stop(_) => "exec-stop",
            CommandKind::StopPost(_) => "exec-stop-post",
            CommandKind::Reload(_) => "exec-reload",
            CommandKind::Clean => "runtime-dir",
            CommandKind::Unlink | CommandKind::Look => "pid-file",
        }
    }
}

/// Whom a signal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Whom {
    /// The main process; while starting, the process of the line under way.
    Main,
    /// Every process of the run.
    All,
}

/// What a run waits for in time, besides what the machine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Alarm {
    /// Others start first.
    Idle,
    /// `ready-wait` before an exec-start-post.
    ReadyWait,
    /// The next ready-exec.
    ReadyAgain,
    /// `abort-timeout`, or the end of what survived another last signal than KILL.
    Kill,
    /// The main process has ended during a reload that does not end.
    Reload,
}

/// What the event loop is to do for a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Effect {
    /// Start this line.
    Spawn(CommandKind),
    /// Send this signal, and CONT after it: a stopped process can not end.
    Signal(Whom, u8),
    /// SIGKILL to everything, however often.
    Kill,
    /// SIGKILL to the main process and the lines under way alone.
    KillMain,
    /// Report to the machine.
    Tell(Event),
    /// Remove the pid file of an earlier run, then go on as after a line.
    RemovePidFile,
    /// Look for the pid file, now and again until told a verdict.
    SeekPidFile,
    /// A reload has ended, well or not: read the pid file once more, then call
    /// [`CommandSequence::reload_settled`].
    RereadPidFile(bool),
    /// Look which process the launcher has left, then say so.
    GuessMain,
    /// Let the logger read the last lines, then call [`CommandSequence::drained`].
    Drain,
    /// Look whether anything is left, then call [`CommandSequence::looked`].
    Look,
    /// Call [`CommandSequence::alarm`] after that long.
    Wake(Alarm, Duration),
    /// The run is over; forget it.
    Forget,
}

// What a run's course has to know of its unit while the run is up: a few numbers, so that
// the whole definition need not be kept.

/// Lines of each key, counted; and what hangs on them.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Plan {
    kind: Kind,
    /// A oneshot's stop waits until it is stopped.
    #[serde(default, skip_serializing_if = "is_default")]
    remain: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    has_grep: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    has_pid_file: bool,
    /// [`Run::has_stop_work`].
    #[serde(default, skip_serializing_if = "is_default")]
    has_stop_work: bool,
    lines: [u16; 7],
    /// Lines whose failure counts as success.
    #[serde(default, skip_serializing_if = "is_default")]
    forgiven: Box<[CommandKind]>,
    /// What few units ask for.
    #[serde(default, skip_serializing_if = "is_default")]
    particular: Option<Box<Particular>>,
}

impl Plan {
    fn new(spec: &Run) -> Plan {
        let keys = [
            &spec.exec_condition,
            &spec.exec_start_pre,
            &spec.exec_start,
            &spec.exec_start_post,
            &spec.exec_stop,
            &spec.exec_stop_post,
            &spec.exec_reload,
        ];
        let parts: [fn(usize) -> CommandKind; 7] = [
            CommandKind::Condition,
            CommandKind::Pre,
            CommandKind::Start,
            CommandKind::Post,
            CommandKind::Stop,
            CommandKind::StopPost,
            CommandKind::Reload,
        ];
        let forgiven = keys.iter().zip(parts).flat_map(|(lines, part)| {
            let those = lines.iter().enumerate();
            let those = those.filter(|(_, line)| line.prefixes.has(Prefixes::FORGIVEN));
            those.map(move |(n, _)| part(n))
        });
        Plan {
            kind: spec.kind,
            remain: spec.remain,
            has_grep: spec.ready_grep.is_some(),
            has_pid_file: spec.pid_file.is_some(),
            has_stop_work: spec.has_stop_work(),
            lines: keys.map(|lines| u16::try_from(lines.len()).unwrap_or(u16::MAX)),
            forgiven: forgiven.collect(),
            particular: spec.particular.clone(),
        }
    }

    /// The line is there.
    fn has(&self, part: CommandKind) -> bool {
        let [condition, pre, start, post, stop, stop_post, reload] = self.lines;
        let (n, count) = match part {
            CommandKind::Condition(n) => (n, condition),
            CommandKind::Pre(n) => (n, pre),
            CommandKind::Start(n) => (n, start),
            CommandKind::Post(n) => (n, post),
            CommandKind::Stop(n) => (n, stop),
            CommandKind::StopPost(n) => (n, stop_post),
            CommandKind::Reload(n) => (n, reload),
            CommandKind::Ready => {
                return self.particular.as_ref().is_some_and(|p| p.ready_exec.is_some());
            }
            CommandKind::Clean | CommandKind::Main | CommandKind::Unlink | CommandKind::Look => {
                return false;
            }
        };
        n < usize::from(count)
    }

    /// A failure of the line is none.
    fn forgives(&self, part: CommandKind) -> bool {
        self.forgiven.contains(&part)
    }
}
