//! The end of a run.
//!
//! 1. exec-stop, if the run was ready and has one; otherwise, or if it fails, the stop signal to
//!    the main process.
//! 2. After the exit of the main process, TERM to the rest of the cgroup.
//! 3. KILL when the machine orders it.
//! 4. When no process is left that kill-mode lets init kill, exec-stop-post and the removal of the
//!    unit's files.
//!
//! `kill-mode`, `kill-final` and `stop-final-signal` change the receivers and the signals.

use super::{Alarm, CommandKind, CommandSequence, Effect, Effects, Step, Whom};
use groundstate_units::machine::action::StopReason;
use groundstate_units::machine::event::Event;
use groundstate_units::machine::reason::Reason;
use groundstate_units::spec::{
    DirectoryKind, Ending, Exit, Keep, KillMode, Kind, OomPolicy, Particular,
};
use std::borrow::Cow;

const HUP: u8 = 1;
const ABRT: u8 = 6;
const KILL: u8 = 9;
/// The signal for the rest of the cgroup.
const TERM: u8 = 15;
/// Exit status when no exit was observed.
const UNKNOWN: Exit = Exit::Code(255);

/// `$SERVICE_RESULT` of a run without a failure.
const SUCCESS: &str = "success";

/// `$SERVICE_RESULT` of a process that failed like this.
pub(crate) fn result_of(exit: Exit) -> &'static str {
    match exit {
        Exit::Code(_) => "exit-code",
        Exit::Signal { core: true, .. } => "core-dump",
        Exit::Signal { .. } => "signal",
    }
}

/// The outcome of a run, for its exec-stop-post. systemd.exec(5), `$SERVICE_RESULT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// `$SERVICE_RESULT`.
    pub(crate) result: Cow<'static, str>,
    /// The exit of the main process, if it ran: `$EXIT_CODE` and `$EXIT_STATUS`.
    pub(crate) exit: Option<Exit>,
}

impl CommandSequence {
    fn ending(&self) -> Ending {
        self.particular().map(|p| p.ending).unwrap_or_default()
    }

    /// Starts to stop the run.
    pub(crate) fn stop(&mut self, reason: &StopReason, nothing_left: bool) -> Effects {
        if nothing_left {
            return vec![Effect::Forget];
        }
        if self.stopping {
            return Vec::new();
        }
        self.stopping = true;
        if let Some(exit) = self.ended_in_reload.take() {
            (self.exit_told, self.ended, self.exit) = (true, Some(exit), Some(exit));
        }
        self.again =
            !matches!(reason, StopReason::NotNeeded | StopReason::Shutdown | StopReason::Done);
        let mut effects = Vec::new();
        let is_late = matches!(reason, StopReason::StartTimeout | StopReason::RunTimeout);
        if is_late {
            self.result = Some("timeout".into());
        } else if *reason == StopReason::Watchdog {
            self.result = Some("watchdog".into());
            effects.extend(self.abort());
        }
        if self.step == Step::Idle {
            self.step = Step::StopRest;
            return vec![Effect::Look];
        }
        if self.closing {
            return vec![Effect::Look];
        }
        let starting = matches!(self.step, Step::Line(_));
        if starting && (!self.is_foreground() || !self.was_ready) {
            self.step = Step::StopMain;
            effects.extend(self.signal_main());
            return effects;
        }
        let broken = is_late || matches!(reason, StopReason::Leftovers | StopReason::Watchdog);
        // A oneshot without `remain` runs its stop commands before its exit is reported. Then they
        // are not run again.
        let is_undone = self.plan.kind == Kind::Oneshot && !self.plan.remain && self.exit_told;
        effects.extend(match self.was_ready && !broken && !is_undone {
            true => self.stop_lines(),
            false => self.stop_by_signal(),
        });
        effects
    }

    /// Runs exec-stop, if the unit has one; otherwise sends the stop signal.
    pub(super) fn stop_lines(&mut self) -> Effects {
        if !self.plan.has(CommandKind::Stop(0)) {
            return self.stop_by_signal();
        }
        self.step = Step::StopLine(0);
        vec![Effect::Spawn(CommandKind::Stop(0))]
    }

    /// Sends ABRT after a watchdog timeout and allows time for a core dump.
    fn abort(&mut self) -> Effects {
        self.aborts = true;
        match self.ending().abort_timeout {
            Some(span) => vec![
                Effect::Tell(Event::ExtendTimeout(self.run, span)),
                Effect::Wake(Alarm::Kill, span),
            ],
            None => Vec::new(),
        }
    }

    /// Sends the stop signal to the main process. Kill-mode `none` never gets here.
    pub(super) fn signal_main(&self) -> Effects {
        // systemd.kill(5): in the mode control-group all processes get the signal at once.
        let is_group = self.ending().mode == KillMode::Group && self.was_ready;
        let at_once = is_group && self.particular().is_some_and(|p| p.lenient);
        self.signal(if at_once { Whom::All } else { Whom::Main })
    }

    fn signal(&self, whom: Whom) -> Effects {
        let number = if self.aborts { ABRT } else { self.live.stop_signal };
        let mut effects = vec![Effect::Signal(whom, number)];
        if self.ending().hup {
            effects.push(Effect::Signal(whom, HUP));
        }
        effects
    }

    pub(super) fn stop_by_signal(&mut self) -> Effects {
        if self.ending().mode == KillMode::None {
            return self.abandon();
        }
        let draining = matches!(self.step, Step::Draining(_));
        if self.main_alive {
            self.step = Step::StopMain;
            return self.signal_main();
        }
        if draining {
            return self.drained().into_iter().chain(self.stop_rest()).collect();
        }
        if (self.exit_told || self.closing) && !self.headless {
            return self.stop_rest();
        }
        if self.ending().mode == KillMode::Process {
            return self.abandon();
        }
        // No main process is known: all processes get the unit's stop signal.
        self.step = Step::StopRest;
        let mut effects = self.signal(Whom::All);
        effects.push(Effect::Look);
        effects
    }

    /// Stops tracking the remaining processes, which keep running.
    fn abandon(&mut self) -> Effects {
        self.abandoned = true;
        self.step = Step::StopRest;
        vec![Effect::Look]
    }

    pub(super) fn stop_ended(&mut self, n: usize, exit: Exit) -> Effects {
        if self.step != Step::StopLine(n) {
            return vec![Effect::Look];
        }
        if !self.is_success(exit) {
            return self.stop_command_failed(
                CommandKind::Stop(n),
                result_of(exit),
                Reason::Exit(exit),
            );
        }
        let next = CommandKind::Stop(n + 1);
        if self.plan.has(next) {
            self.step = Step::StopLine(n + 1);
            return vec![Effect::Spawn(next)];
        }
        if self.ending().mode == KillMode::None {
            return self.abandon();
        }
        if self.main_alive && self.particular().is_some_and(|p| p.lenient) {
            return self.stop_by_signal();
        }
        if self.main_alive {
            // The exec-stop has asked the process to exit; the machine's stop timeout applies.
            self.step = Step::StopMain;
            return Vec::new();
        }
        self.stop_rest()
    }

    /// Handles a failed command of the stop: later commands are skipped and the run has failed.
    pub(super) fn stop_command_failed(
        &mut self,
        part: CommandKind,
        result: &'static str,
        reason: Reason,
    ) -> Effects {
        if self.outcome().result == SUCCESS {
            self.result = Some(result.into());
        }
        if let (true, Reason::Exit(exit)) = (self.closing, &reason) {
            // The machine has not got the exit yet; it will get this one.
            self.exit = Some(*exit);
        }
        let mut effects = vec![Effect::Tell(Event::StopFailed(self.run, reason))];
        if let CommandKind::Stop(_) = part {
            effects.extend(self.stop_by_signal());
        } else {
            self.last = usize::MAX;
            effects.push(Effect::Look);
        }
        effects
    }

    pub(super) fn stop_rest(&mut self) -> Effects {
        self.step = Step::StopRest;
        let ending = self.ending();
        match ending.mode {
            KillMode::Group => vec![Effect::Signal(Whom::All, TERM), Effect::Look],
            // Processes that may not be killed are waited for.
            KillMode::Mixed if !ending.kill => vec![Effect::Look],
            KillMode::Mixed => self.end_all(),
            KillMode::Process | KillMode::None => self.abandon(),
        }
    }

    /// Kills the run.
    pub(crate) fn kill(&mut self) -> Effects {
        self.stopping = true;
        // The commands after the end still run, unless one is in progress or the stop must be
        // prompt.
        if self.step == Step::Last || self.live.stop_promptly {
            self.last = usize::MAX;
        }
        self.killed = true;
        let ending = self.ending();
        if self.outcome().result == SUCCESS {
            self.result = Some("timeout".into());
        }
        if !ending.kill && ending.mode != KillMode::None {
            return self.keep_waiting();
        }
        self.step = Step::StopRest;
        if ending.mode == KillMode::None { self.abandon() } else { self.end_all() }
    }

    /// Returns true if any process that survives the stop may be killed.
    pub(crate) fn may_kill_all(&self) -> bool {
        let ending = self.ending();
        ending.kill && matches!(ending.mode, KillMode::Group | KillMode::Mixed)
    }

    /// Sends KILL, or the final signal first, to the processes that the kill mode names.
    fn end_all(&mut self) -> Effects {
        let ending = self.ending();
        self.abandoned |= ending.mode == KillMode::Process;
        if ending.final_signal == KILL {
            return vec![self.last_kill(), Effect::Look];
        }
        let whom = if ending.mode == KillMode::Process { Whom::Main } else { Whom::All };
        let later = Effect::Wake(Alarm::Kill, Ending::FINAL_PATIENCE);
        vec![Effect::Signal(whom, ending.final_signal), later, Effect::Look]
    }

    pub(super) fn last_kill(&self) -> Effect {
        if self.ending().mode == KillMode::Process { Effect::KillMain } else { Effect::Kill }
    }

    /// Handles a stop timeout when processes may not be killed: the run stays until they have
    /// exited. A stop command that still runs gets the stop signal.
    fn keep_waiting(&mut self) -> Effects {
        let mut effects = Vec::new();
        if matches!(self.step, Step::StopLine(_)) {
            effects.extend(self.signal(Whom::All));
        }
        let waits_for_main = self.ending().mode == KillMode::Process && self.main_alive;
        self.step = if waits_for_main { Step::StopMain } else { Step::StopRest };
        self.abandoned |= self.ending().mode == KillMode::Process && !waits_for_main;
        effects.push(Effect::Look);
        effects
    }

    /// Handles an OOM kill of a process of the run.
    pub(crate) fn out_of_memory(&mut self) -> Effects {
        if self.ending().oom_policy == OomPolicy::Continue {
            return Vec::new();
        }
        let mut effects = self.main_out_of_memory();
        if self.main_alive && !effects.is_empty() {
            effects.extend(self.signal_main());
        }
        effects
    }

    /// Handles an OOM kill of the main process.
    pub(crate) fn main_out_of_memory(&mut self) -> Effects {
        if self.stopping || self.exit_told {
            return Vec::new();
        }
        self.result = Some("oom-kill".into());
        vec![Effect::Tell(Event::OutOfMemory(self.run))]
    }

    /// The outcome, as far as it is known.
    pub(crate) fn outcome(&self) -> Outcome {
        let by_exit = match self.exit {
            None if self.failure.is_some() => "resources",
            None | Some(Exit::Code(0)) => SUCCESS,
            Some(exit) if self.live.success_status.lists(exit) => SUCCESS,
            // It exited by the stop signal.
            Some(Exit::Signal { signal: HUP | 2 | 13 | TERM, .. }) if self.stopping => SUCCESS,
            Some(exit) => result_of(exit),
        };
        // The exit of a command before the main process does not count as the main process's exit.
        let exit = self.exit.filter(|_| self.executed_told);
        Outcome { result: self.result.clone().unwrap_or(by_exit.into()), exit }
    }

    /// The next command to run when no process is left.
    fn next_last(&mut self) -> Option<CommandKind> {
        let part = CommandKind::StopPost(self.last);
        if self.plan.has(part) {
            self.last = self.last.saturating_add(1);
            return Some(part);
        }
        let due = self.has_something_to_clean() && !std::mem::replace(&mut self.cleaned, true);
        due.then_some(CommandKind::Clean)
    }

    fn has_something_to_clean(&self) -> bool {
        let kept = |particular: &Particular| match particular.runtime_dir_keep {
            Keep::No => false,
            Keep::Restart => self.again,
            Keep::Yes => true,
        };
        let runtime = |particular: &Particular| {
            particular.directories.iter().any(|d| d.kind == DirectoryKind::Runtime)
        };
        self.particular().is_some_and(|p| (runtime(p) && !kept(p)) || !p.stdio.utmp_id.is_empty())
    }

    pub(super) fn is_success(&self, exit: Exit) -> bool {
        exit == Exit::Code(0) || self.live.success_status.lists(exit)
    }

    /// Returns true if exec-stop follows a successful end.
    fn has_stop_when_over(&self) -> bool {
        !self.plan.remain && self.plan.has(CommandKind::Stop(0))
    }

    fn has_last_work(&self) -> bool {
        self.plan.has(CommandKind::StopPost(0)) || self.has_something_to_clean()
    }

    /// Handles a check of the cgroup. `something` means that processes are left. `lines` means that
    /// init has not reaped all processes that it started for the run.
    pub(crate) fn looked(&mut self, something: bool, lines: bool) -> Effects {
        let ending = self.ending();
        let unwaited = ending.mode == KillMode::None;
        let left = match self.abandoned {
            // The commands after the end are always awaited.
            true if self.step == Step::Last => lines && !self.main_alive,
            true => lines && !unwaited,
            false => something || lines,
        };
        if let Some(exit) = self.ended.take() {
            // A successful script stays up until it is stopped; every other run ends now, and the
            // machine waits for its final commands.
            let well = self.is_success(exit) && !self.stopping;
            let stays = self.is_script() && well;
            // Without `remain`, a successful run is stopped like any other.
            let stops = well && !stays && !self.closing && self.has_stop_when_over();
            self.gone_told = !left && (stays || !self.has_last_work() && !stops);
            if self.gone_told {
                return vec![Effect::Tell(Event::Ended(self.run, exit))];
            }
            let again = (!left).then_some(Effect::Look);
            let told = Effect::Tell(Event::Exited(self.run, exit));
            return [told].into_iter().chain(again).collect();
        }
        if left {
            return Vec::new();
        }
        if self.step == Step::Seeking {
            return self.main_not_found(
                "the launcher exited, no process is left, and there is no pid file".to_string(),
            );
        }
        if self.headless && !self.exit_told && !self.stopping {
            // The exit status of a script that was still running is unknown.
            return self.told_exit(if self.is_script() { UNKNOWN } else { Exit::Code(0) });
        }
        self.nothing_left()
    }

    /// Handles a run without processes.
    fn nothing_left(&mut self) -> Effects {
        let waits = matches!(self.step, Step::StopLine(_) | Step::Line(_) | Step::Draining(_));
        let unbegun = self.failure.is_some() || self.skipped.is_some();
        if !unbegun && (self.stopping || self.closing) {
            let over = self.exit_told || !self.main_alive || self.abandoned;
            if !over || waits {
                return Vec::new();
            }
        } else if !unbegun {
            if !self.exit_told || waits || self.gone_told {
                return Vec::new();
            }
            let well = self.exit.is_some_and(|exit| self.is_success(exit));
            let once = self.plan.kind == Kind::Oneshot;
            // A run that stays up without a process reports Gone twice: after its last process, and
            // after its stop.
            if once && well && self.plan.has_stop_work {
                self.gone_told = true;
                return vec![Effect::Tell(Event::Gone(self.run))];
            }
            // The machine orders a stop; the final commands run then.
            let fails = self.plan.kind == Kind::BackgroundScripted && well;
            let stops = well && self.has_stop_when_over();
            if (self.has_last_work() || stops) && !fails {
                return Vec::new();
            }
        }
        if let Some(part) = self.next_last() {
            self.step = Step::Last;
            // The machine's own stop timeout has passed already.
            let limit = self.live.stop_timeout.unwrap_or(Ending::FINAL_PATIENCE);
            let late = self.killed.then_some(Effect::Wake(Alarm::Kill, limit));
            return late.into_iter().chain([Effect::Spawn(part)]).collect();
        }
        self.gone_told = true;
        if let (true, Some(exit)) = (std::mem::take(&mut self.closing), self.exit) {
            self.exit_told = true;
            return vec![Effect::Tell(Event::Ended(self.run, exit))];
        }
        let told = match (self.skipped.take(), self.failure.take()) {
            (Some(condition), _) => Event::Skipped(self.run, condition.into()),
            (None, Some(failure)) => Event::StartFailed(self.run, *failure),
            (None, None) => Event::Gone(self.run),
        };
        vec![Effect::Tell(told), Effect::Forget]
    }
}
