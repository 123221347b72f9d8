//! The command sequence of one run: which command runs when, and what its exit means. It is pure:
//! facts come in, effects go out, and [`crate::event_loop`] applies them. [`start`] starts a run,
//! [`ending`] ends it.
//!
//! | type | commands | main process | ready by |
//! |---|---|---|---|
//! | foreground-* | condition…, pre…, start, post… | the start command | READY=1, a line, a descriptor, ready-exec, the exec, a time (the machine handles the last two if no post follows) |
//! | background-pidfile | condition…, pre…, start, post… | the accepted pid in the file, or the only process left | the main process being known |
//! | background-scripted | condition…, pre…, start, post… | none | the end of the last command (by the machine) |
//! | oneshot | condition…, pre…, start… in order, post… | none | the end of the last command (by the machine) |
//!
//! `Exited` reports the exit, `Gone` that no process is left, and `Ended` both in one. The final
//! commands of the unit run before `Gone` or `Ended`. The exception is a successful script: it
//! reports at once that no process is left. A oneshot then stays up and reports `Gone` again after
//! its stop.

mod ending;
mod start;
#[cfg(test)]
mod tests;

pub(crate) use ending::{Outcome, result_of};
use groundstate_units::machine::event::{Event, ExecFailure, RunId};
use groundstate_units::spec::{ExecLine, Exit, Kind, Live, Particular, Prefixes, Run};
use groundstate_units::text::fields::is_default;
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// The current step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    /// Waiting for other starts.
    Idle,
    /// A command of the start is running.
    Line(CommandKind),
    /// The launcher has exited successfully; its pid file is awaited.
    Seeking,
    /// The main process has exited; its last lines may still make the run ready.
    Draining(Exit),
    /// The start is finished as far as init is concerned, or the run has ended.
    Up,
    /// exec-stop is running.
    StopLine(usize),
    /// Waiting for the main process or the current command to exit.
    StopMain,
    /// Waiting for the other processes.
    StopRest,
    /// Running the final commands, when no process is left.
    Last,
}

/// The command sequence of one run. Skipped fields are in
/// [`super::run_table::RunConstants`].
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CommandSequence {
    #[serde_with(skip_apply)]
    run: RunId,
    #[serde(skip)]
    #[serde_with(skip_apply)]
    pub(super) plan: Arc<Plan>,
    /// The live settings at the start.
    #[serde(skip)]
    #[serde_with(skip_apply)]
    pub(super) live: Arc<Live>,
    #[serde_with(skip_apply)]
    step: Step,
    main_alive: bool,
    /// True for a run that is up without a main process.
    headless: bool,
    reloading: bool,
    /// The number of reload commands that have not ended.
    reloads: u8,
    /// The exit of the main process during a reload, which may announce another one.
    ended_in_reload: Option<Exit>,
    was_ready: bool,
    /// True once exec-start-post has started.
    posted: bool,
    executed_told: bool,
    exit_told: bool,
    gone_told: bool,
    stopping: bool,
    failure: Option<Box<ExecFailure>>,
    /// The unmet condition because of which the run is skipped.
    skipped: Option<Box<str>>,
    /// The exit of the main process, until the check for other processes.
    ended: Option<Exit>,
    /// The exit of the main process, for the final commands.
    exit: Option<Exit>,
    /// The result, if it differs from the exit.
    result: Option<Cow<'static, str>>,
    /// True while a oneshot without `remain` ends by itself after its last command.
    closing: bool,
    /// True if remaining processes are not tracked any more.
    abandoned: bool,
    /// Number of exec-stop-post commands started.
    last: usize,
    /// True once the files of the unit are removed.
    cleaned: bool,
    /// True if the unit is started again after this stop.
    again: bool,
    /// True if the stop has taken too long.
    killed: bool,
    /// True after a watchdog timeout: ABRT is the stop signal.
    aborts: bool,
}

type Effects = Vec<Effect>;

impl CommandSequence {
    /// The sequence of a unit with a process.
    pub(crate) fn new(run: RunId, spec: &Run, live: &Arc<Live>) -> Self {
        CommandSequence {
            run,
            plan: Arc::new(Plan::new(spec)),
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
            aborts: false,
        }
    }

    fn particular(&self) -> Option<&Particular> {
        self.plan.particular.as_deref()
    }

    /// Returns true if the exit of the main process was reported.
    pub(crate) fn has_ended(&self) -> bool {
        self.exit_told
    }

    /// Returns true if the machine has ordered a stop.
    pub(crate) fn is_told_to_stop(&self) -> bool {
        self.stopping
    }

    /// Returns true while the run is becoming ready.
    pub(crate) fn is_starting(&self) -> bool {
        !self.was_ready && !self.exit_told && !self.stopping && self.step != Step::Idle
    }

    /// Returns true while the run waits for other starts.
    pub(crate) fn is_idle(&self) -> bool {
        self.step == Step::Idle
    }

    /// Returns true if the run may be over once its last process has exited.
    pub(crate) fn waits_for_the_last(&self) -> bool {
        let ends = self.exit_told
            || self.stopping
            || self.closing
            || self.failure.is_some()
            || self.skipped.is_some()
            || self.headless;
        // A run that stayed up without processes ends again when it is stopped.
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

    /// Handles the end of draining: the logger has read the last lines, or timed out.
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
        // Records the exit of the main process even if another start command failed earlier.
        self.exit = self.exit.or(Some(exit).filter(|_| self.executed_told));
        if self.step == Step::StopMain { self.stop_rest() } else { vec![Effect::Look] }
    }

    /// Returns true for a kind without a main process that init waits for.
    pub(crate) fn is_script(&self) -> bool {
        matches!(self.plan.kind, Kind::Oneshot | Kind::BackgroundScripted)
    }

    fn protocol(&mut self, message: String) -> Effects {
        self.exit_told = true;
        self.result.get_or_insert("protocol".into());
        self.step = Step::Up;
        vec![Effect::Tell(Event::Protocol(self.run, message)), Effect::Look]
    }

    /// Handles a main process found through the pid file; it is watched from now on.
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

    /// Handles an unknown main process: the run is up as long as it has any process.
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

    /// Handles a search that found no acceptable pid file.
    pub(crate) fn main_not_found(&mut self, message: String) -> Effects {
        if self.step == Step::Seeking { self.protocol(message) } else { Vec::new() }
    }

    /// Handles a readiness message or line of the run.
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

    /// Returns true if messages cannot make it ready: it is ready after its last command, or once
    /// its main process is known.
    fn is_ready_by_itself(&self) -> bool {
        let is_launched = matches!(self.step, Step::Line(_) | Step::Seeking);
        self.is_script() || (self.plan.kind == Kind::BackgroundPidfile && is_launched)
    }

    fn told_ready(&mut self) -> Effects {
        self.was_ready = true;
        self.reloading = false;
        vec![Effect::Tell(Event::Ready(self.run))]
    }

    /// Notes that the machine counts the run as active, by its exec or by time.
    pub(crate) fn note_counted_ready(&mut self) {
        self.was_ready = true;
    }

    /// Handles a timer of the run.
    pub(crate) fn alarm(&mut self, alarm: Alarm) -> Effects {
        match alarm {
            Alarm::Idle if self.step == Step::Idle => self.start_first_command(),
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

    /// Handles RELOADING=1.
    pub(crate) fn reloading(&mut self) -> Effects {
        if self.stopping || self.exit_told || self.is_ready_by_itself() {
            return Vec::new();
        }
        self.reloading = true;
        vec![Effect::Tell(Event::Reloading(self.run))]
    }

    /// Handles a newly announced main process.
    pub(crate) fn main_changed(&mut self) -> Effects {
        if self.is_script() {
            return Vec::new();
        }
        self.main_alive = true;
        self.headless = false;
        self.ended_in_reload = None;
        if self.stopping && self.step == Step::StopMain {
            // The stop signal went to the previous main process, so the new one gets it now.
            return self.signal_main();
        }
        // The search for a pid file is over.
        self.main_found()
    }

    /// Reloads the service's own configuration.
    pub(crate) fn reload(&mut self) -> Effects {
        let told = |well| vec![Effect::Tell(Event::Reloaded(self.run, well))];
        if self.stopping {
            return told(false);
        }
        // The machine may have given up an earlier announced reload.
        self.reloading = false;
        if self.plan.has(CommandKind::Reload(0)) {
            self.reloads = self.reloads.saturating_add(1);
            return vec![Effect::Spawn(CommandKind::Reload(0))];
        }
        let Some(signal) = self.particular().and_then(|p| p.ending.reload_signal) else {
            return told(false);
        };
        let mut effects = vec![Effect::Signal(Whom::Main, signal)];
        // A notifying service sends RELOADING=1 and then READY=1; other kinds report nothing.
        if self.plan.kind != Kind::ForegroundNotified {
            effects.extend(told(true));
        }
        effects
    }

    /// Handles the end of the last reload command. The daemon may have replaced its process.
    fn reload_commands_ended(&mut self, well: bool) -> Effects {
        self.reloads = self.reloads.saturating_sub(1);
        let names_main = self.plan.has_pid_file && !self.stopping && !self.exit_told;
        match names_main {
            true => vec![Effect::RereadPidFile(well)],
            false => self.reload_settled(well),
        }
    }

    /// Handles the known main process after a reload. Without one, the run has ended.
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

    /// Reports the end of a reload, unless the run announced RELOADING=1: then its READY=1 ends the
    /// reload.
    fn reload_ended(&mut self, well: bool) -> Effects {
        if self.stopping || (well && self.reloading) {
            return Vec::new();
        }
        self.reloading = false;
        vec![Effect::Tell(Event::Reloaded(self.run, well))]
    }
}

// Commands, timers and effects of a run

/// The command of the unit that a process runs, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum CommandKind {
    Condition(usize),
    Pre(usize),
    Start(usize),
    Ready,
    Post(usize),
    Stop(usize),
    StopPost(usize),
    Reload(usize),
    /// A child of init that removes the unit's files.
    Clean,
    /// A main process that init did not start.
    Main,
    /// A child of init that removes the pid file of an earlier run.
    Unlink,
    /// A child of init that reads the pid file.
    Look,
}

impl CommandKind {
    /// The command line in the unit's definition.
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

    /// Returns true for a command beside the main process. The main process's cgroup may allow only
    /// child cgroups by then.
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

    /// The key of the unit file.
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

/// The receivers of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Whom {
    /// The main process, or the process of the current command during the start.
    Main,
    /// Every process of the run.
    All,
}

/// A timer of a run, besides those of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Alarm {
    /// The longest wait for other starts.
    Idle,
    /// `ready-wait` before an exec-start-post.
    ReadyWait,
    /// The next ready-exec.
    ReadyAgain,
    /// `abort-timeout`, or the kill after a final signal other than KILL.
    Kill,
    /// The reload takes too long after the main process has exited.
    Reload,
}

/// An action for the event loop on behalf of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Effect {
    /// Start this command.
    Spawn(CommandKind),
    /// Send this signal, then CONT, because a stopped process cannot exit.
    Signal(Whom, u8),
    /// Send SIGKILL to all processes; may be repeated.
    Kill,
    /// Send SIGKILL to the main process and the current commands only.
    KillMain,
    /// Report to the machine.
    Tell(Event),
    /// Remove the pid file of an earlier run, then continue as after a command.
    RemovePidFile,
    /// Look for the pid file until there is a result.
    SeekPidFile,
    /// Read the pid file again after a reload, then call [`CommandSequence::reload_settled`].
    RereadPidFile(bool),
    /// Find the only process that the launcher has left, then report it.
    GuessMain,
    /// Let the logger read the last lines, then call [`CommandSequence::drained`].
    Drain,
    /// Check whether a process is left, then call [`CommandSequence::looked`].
    Look,
    /// Call [`CommandSequence::alarm`] after that time.
    Wake(Alarm, Duration),
    /// Forget the run, which is over.
    Forget,
}

// The parts of a definition that the sequence needs while the run is up, so that init need not keep
// the whole definition.

/// The commands, and related settings.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Plan {
    #[serde_with(skip_apply)]
    kind: Kind,
    /// True if a oneshot stays up after its last command until it is stopped.
    remain: bool,
    has_grep: bool,
    has_pid_file: bool,
    /// [`Run::has_stop_work`].
    has_stop_work: bool,
    /// The commands except ready-exec, each with true if its failure counts as success.
    #[serde_with(skip_apply)]
    commands: Box<[(CommandKind, bool)]>,
    /// Rarely used settings.
    particular: Option<Box<Particular>>,
}

impl Plan {
    fn new(spec: &Run) -> Plan {
        let keys: [fn(usize) -> CommandKind; 7] = [
            CommandKind::Condition,
            CommandKind::Pre,
            CommandKind::Start,
            CommandKind::Post,
            CommandKind::Stop,
            CommandKind::StopPost,
            CommandKind::Reload,
        ];
        let forgives = |part: CommandKind| {
            part.of(spec).map(|line| (part, line.prefixes.has(Prefixes::FORGIVEN)))
        };
        let commands = keys.into_iter().flat_map(|key| (0..).map(key).map_while(forgives));
        Plan {
            kind: spec.kind,
            remain: spec.remain,
            has_grep: spec.ready_grep.is_some(),
            has_pid_file: spec.pid_file.is_some(),
            has_stop_work: spec.has_stop_work(),
            commands: commands.collect(),
            particular: spec.particular.clone(),
        }
    }

    /// Returns true if the unit has this command.
    fn has(&self, part: CommandKind) -> bool {
        self.commands.iter().any(|(command, _)| *command == part)
    }

    /// Returns true if a failure of the command counts as success.
    fn forgives(&self, part: CommandKind) -> bool {
        self.commands.contains(&(part, true))
    }
}
