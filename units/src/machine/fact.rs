//! Applies facts and timers: the first half of a step. A report about a run that no longer exists
//! changes nothing.

use super::failure;
use super::mutant::Mutant;
use super::phase::Failure;
use super::phase::{Form, Kill, Phase, Stop, Then};
use super::timer::TimerKind;
use super::{Ix, Machine};
use crate::machine::action::{Action, StopReason};
use crate::machine::event::{Event, ExecFailure, RunId, Stage};
use crate::machine::reason::Reason;
use crate::spec::{Exit, Kind};
use crate::text::time::Time;
use std::time::Duration;

/// A run that still exists this long after SIGKILL is unkillable.
const HOPELESS: Duration = Duration::from_secs(2);

impl Machine {
    /// Returns the unit whose present run this is.
    pub(super) fn unit_of(&self, run: RunId) -> Option<Ix> {
        let later = self.runs.range(run..).map(|(_, ix)| *ix).next();
        let known = self.runs.get(&run).copied();
        known.or(later.filter(|_| self.planted(Mutant::AnyRunWillDo)))
    }

    fn kind(&self, ix: Ix) -> Option<Kind> {
        self.cell(ix).phase.run().map(|run| run.definition.kind)
    }

    /// Returns true if the present run of a unit can report this event. An active run without a
    /// process can only report that a trigger's listening failed, or that a reload by a command
    /// ended.
    pub(super) fn can_report(&self, ix: Ix, event: &Event) -> bool {
        let Phase::Ready(run, _, _) = &self.cell(ix).phase else { return true };
        if matches!(event, Event::StartFailed(_, _)) {
            return run.definition.kind.is_trigger();
        }
        run.alive || matches!(event, Event::Reloaded(_, _))
    }

    /// Changes a phase in place and updates its deadlines.
    pub(super) fn amend(&mut self, ix: Ix, change: impl FnOnce(&mut Phase)) {
        let mut phase = std::mem::take(&mut self.cell_mut(ix).phase);
        self.disarm(ix, &phase);
        change(&mut phase);
        self.put_phase(ix, phase);
    }

    /// Handles the exit of the main process; `empty` means that nothing of the run is left.
    pub(super) fn exited(
        &mut self,
        now: Time,
        ix: Ix,
        exit: Exit,
        empty: bool,
        out: &mut Vec<Action>,
    ) {
        match &self.cell(ix).phase {
            Phase::Stopping(_, _) if empty => return self.gone(now, ix),
            Phase::Ready(_, Form::Exited { .. }, _) => return self.emptied(now, ix, empty, out),
            Phase::Ready(run, _, _) if run.definition.kind == Kind::BackgroundScripted => {
                return self.emptied(now, ix, empty, out);
            }
            Phase::Stopping(_, _) | Phase::Idle | Phase::Backoff(_) | Phase::Failed(_) => return,
            Phase::Starting(_, _) | Phase::Ready(_, _, _) => {}
        }
        if self.is_success(ix, exit) {
            self.succeeded(now, ix, exit, empty, out);
        } else {
            let killed = self.cell(ix).phase.run().is_some_and(|run| run.out_of_memory);
            let reason = if killed { Reason::OutOfMemory } else { Reason::Exit(exit) };
            let failure = Failure { exit: Some(exit), ..Failure::new(reason) };
            self.failed(now, ix, failure, empty, out);
        }
    }

    fn is_success(&self, ix: Ix, exit: Exit) -> bool {
        let Some(run) = self.cell(ix).phase.run() else { return false };
        let definition = &run.definition;
        let by_status = definition.live.success_status.lists(exit)
            && !self.planted(Mutant::SuccessStatusIgnored);
        let zero = self.planted(Mutant::ExitZeroIsSuccess) && exit == Exit::Code(0);
        let by_purpose = Machine::ends_by_itself(definition.kind) || self.is_served(ix);
        by_status || zero || (by_purpose && exit == Exit::Code(0))
    }

    fn succeeded(&mut self, now: Time, ix: Ix, exit: Exit, empty: bool, out: &mut Vec<Action>) {
        let Some(run) = self.cell(ix).phase.run() else { return };
        let definition = std::sync::Arc::clone(&run.definition);
        let again = failure::is_restarted(&definition.live, None, Some(exit));
        let must = self.cell(ix).must_stop;
        let never = self.planted(Mutant::AlwaysIsOnFailure);
        let again = (again && !never) || self.planted(Mutant::EverySuccessRestarts);
        let followed = self.planted(Mutant::SuccessFollowed) && definition.kind == Kind::Oneshot;
        let scripted = definition.kind == Kind::BackgroundScripted;
        let over = !scripted && !definition.remains && !self.planted(Mutant::SuccessRemains);
        if followed || again && !Machine::ends_by_itself(definition.kind) && !self.is_served(ix) {
            let then = if must { Then::Idle } else { Then::Again };
            self.cell_mut(ix).untried = false;
            self.activation_ended(ix);
            let reason = if over { StopReason::Done } else { StopReason::Leftovers };
            return self.over(now, ix, (reason, then), empty, out);
        }
        let phase = std::mem::take(&mut self.cell_mut(ix).phase);
        self.disarm(ix, &phase);
        let since = if let Phase::Ready(_, _, since) = phase { since } else { now };
        let Some(mut run) = phase.into_run() else { return };
        run.alive = !empty;
        let form = if scripted {
            Form::Running { ping_by: None }
        } else {
            let again = again.then(|| now.after(definition.live.restart_delay));
            Form::Exited { exit: Some(exit), skipped: None, again, over: over && empty }
        };
        let is_last = matches!(form, Form::Exited { again: None, .. });
        self.put_phase(ix, Phase::Ready(run, form, since));
        self.became_active(ix);
        if !scripted {
            self.activation_ended(ix);
        }
        if is_last {
            self.over_for_good(ix, &Reason::Exit(exit));
        }
        if over && !empty {
            let then = if must { Then::Idle } else { Then::Rest { exit, since } };
            self.tell(now, ix, StopReason::Done, then, out);
        }
    }

    /// Handles a run that failed by itself. Its remaining processes are stopped before the next
    /// run.
    fn failed(&mut self, now: Time, ix: Ix, failure: Failure, empty: bool, out: &mut Vec<Action>) {
        let expected = self.cell(ix).must_stop && !self.planted(Mutant::ExpectedExitCounts);
        let then = if expected { Then::Idle } else { Then::Fail(Box::new(failure)) };
        self.over(now, ix, (StopReason::Leftovers, then), empty, out);
    }

    fn over(
        &mut self,
        now: Time,
        ix: Ix,
        (reason, then): (StopReason, Then),
        empty: bool,
        out: &mut Vec<Action>,
    ) {
        if self.planted(Mutant::RestartWithOnExit) {
            self.restart_with(ix);
        }
        if empty {
            let stop = Stop { kill: Kill::At(None), timed_out: false, then };
            let phase = std::mem::take(&mut self.cell_mut(ix).phase);
            self.disarm(ix, &phase);
            if let Some(run) = phase.into_ended(now) {
                self.put_phase(ix, Phase::Stopping(run, stop));
                self.propagate();
                self.gone(now, ix);
            }
        } else {
            self.tell(now, ix, reason, then, out);
        }
    }

    /// Handles the end of the remaining processes of a run whose main process exited earlier.
    fn emptied(&mut self, now: Time, ix: Ix, empty: bool, out: &mut Vec<Action>) {
        if empty {
            self.nothing_left(now, ix, out);
        }
    }

    /// Handles a run of which nothing is left.
    pub(super) fn nothing_left(&mut self, now: Time, ix: Ix, out: &mut Vec<Action>) {
        let failure = |message: &str| {
            let reason = Reason::Protocol { message: message.to_string() };
            Failure::new(reason)
        };
        match &self.cell(ix).phase {
            Phase::Stopping(_, _) => self.gone(now, ix),
            Phase::Ready(_, Form::Exited { .. }, _) => self.amend(ix, |phase| {
                if let Some(run) = phase.run_mut() {
                    run.alive = false;
                }
            }),
            Phase::Ready(run, _, _) if !run.alive => {}
            Phase::Ready(_, _, _) => {
                let failure = failure("its last process has ended");
                self.failed(now, ix, failure, true, out);
            }
            Phase::Starting(_, _) => {
                let failure = failure("nothing of it was left before it was ready");
                self.failed(now, ix, failure, true, out);
            }
            Phase::Idle | Phase::Backoff(_) | Phase::Failed(_) => {}
        }
    }

    pub(super) fn start_failed(
        &mut self,
        now: Time,
        ix: Ix,
        failure: ExecFailure,
        out: &mut Vec<Action>,
    ) {
        if self.cell(ix).phase.is_told() {
            return self.gone(now, ix);
        }
        let needs_change = !failure.is_transient() && failure.stage != Stage::Listen;
        let failure = Failure { needs_change, ..Failure::new(Reason::Exec(failure)) };
        self.failed(now, ix, failure, true, out);
    }

    pub(super) fn broke_protocol(
        &mut self,
        now: Time,
        ix: Ix,
        message: String,
        out: &mut Vec<Action>,
    ) {
        if !self.cell(ix).phase.is_told() {
            let reason = Reason::Protocol { message };
            let failure = Failure::new(reason);
            self.failed(now, ix, failure, false, out);
        }
    }

    /// Handles a failed stop command. A run that is to be replaced is replaced nevertheless, and an
    /// earlier failure of the run still counts.
    pub(super) fn stop_failed(&mut self, ix: Ix, reason: Reason) {
        let cell = self.cell(ix);
        // A run that succeeded stops by itself; no replacement was requested.
        let is_replaced = if let Phase::Stopping(run, stop) = &cell.phase
            && matches!(stop.then, Then::Rest { .. })
        {
            run.restart || run.changed || run.lost.is_some()
        } else {
            cell.needed && cell.must_stop
        };
        if is_replaced {
            return;
        }
        if let Phase::Stopping(_, stop) = &mut self.cell_mut(ix).phase
            && !matches!(stop.then, Then::Fail(_))
        {
            // restart-except and restart-also look at the exit of the main process.
            let exit = if let Then::Rest { exit, .. } = stop.then { Some(exit) } else { None };
            let failure = Failure { exit, of_stop: true, ..Failure::new(reason) };
            stop.then = Then::Fail(Box::new(failure));
        }
    }

    /// Handles a condition that is not met: nothing ran, and that is no failure.
    pub(super) fn skipped(&mut self, now: Time, ix: Ix, condition: String) {
        let phase = std::mem::take(&mut self.cell_mut(ix).phase);
        self.disarm(ix, &phase);
        match phase {
            Phase::Starting(mut run, _) => {
                run.alive = false;
                let reason = Reason::Skipped { condition: condition.clone() };
                let form =
                    Form::Exited { exit: None, skipped: Some(condition), again: None, over: false };
                self.put_phase(ix, Phase::Ready(run, form, now));
                self.became_active(ix);
                self.activation_ended(ix);
                self.over_for_good(ix, &reason);
            }
            Phase::Stopping(run, stop) => {
                self.put_phase(ix, Phase::Stopping(run, stop));
                self.gone(now, ix);
            }
            other
            @ (Phase::Ready(_, _, _) | Phase::Idle | Phase::Backoff(_) | Phase::Failed(_)) => {
                self.put_phase(ix, other);
            }
        }
    }

    /// Handles a deadline of a unit.
    pub(super) fn fire_timer(
        &mut self,
        now: Time,
        ix: Ix,
        timer: TimerKind,
        out: &mut Vec<Action>,
    ) {
        match timer {
            TimerKind::ReadyWait => self.ready(now, ix),
            TimerKind::Retry => self.set_phase(ix, Phase::Idle),
            TimerKind::Again => self.run_again(now, ix),
            TimerKind::Slot if self.planted(Mutant::SlotKept) => {}
            TimerKind::Slot => self.amend(ix, |phase| {
                if let Phase::Starting(_, start) = phase {
                    start.slot_until = None;
                }
            }),
            TimerKind::Reload if self.planted(Mutant::SlowReloadFails) => {
                let failure = Failure::new(Reason::Watchdog);
                self.failed(now, ix, failure, false, out);
            }
            TimerKind::Reload => self.reloaded(ix, false),
            TimerKind::Watchdog => self.watchdog(now, ix, out),
            TimerKind::RunTimeout => self.run_timeout(now, ix, out),
            TimerKind::Leaving => self.fail_leaving(now, ix, out),
            TimerKind::StartTimeout => {
                let failure = Failure::new(Reason::StartTimeout);
                let forgiven =
                    self.cell(ix).must_stop && self.planted(Mutant::StartTimeoutForgiven);
                let then = if forgiven { Then::Idle } else { Then::Fail(Box::new(failure)) };
                self.tell(now, ix, StopReason::StartTimeout, then, out);
            }
            TimerKind::Kill if self.planted(Mutant::NeverKills) => {}
            TimerKind::Kill => self.kill(now, ix, true, out),
            TimerKind::Hopeless if self.planted(Mutant::HopesForEver) => {}
            TimerKind::Hopeless if self.planted(Mutant::BesideOwnRun) => self.gone(now, ix),
            TimerKind::Hopeless => self.amend(ix, |phase| {
                if let Phase::Stopping(_, stop) = phase {
                    stop.kill = Kill::Hopeless;
                }
            }),
        }
    }

    /// Runs an exited unit again, as `restart` says.
    fn run_again(&mut self, now: Time, ix: Ix) {
        let Some(run) = self.cell(ix).phase.run() else { return };
        if run.alive || run.definition.has_exec_stop {
            self.amend(ix, |phase| {
                if let Phase::Ready(_, Form::Exited { again, .. }, _) = phase {
                    *again = None;
                }
            });
            self.ask_restart(ix);
            return;
        }
        let phase = std::mem::take(&mut self.cell_mut(ix).phase);
        self.disarm(ix, &phase);
        if let Some(run) = phase.into_ended(now) {
            let stop = Stop { kill: Kill::At(None), timed_out: false, then: Then::Idle };
            self.put_phase(ix, Phase::Stopping(run, stop));
            self.propagate();
            self.gone(now, ix);
        }
    }

    /// Marks the present run, if there is one, for replacement.
    pub(super) fn ask_restart(&mut self, ix: Ix) {
        if let Some(run) = self.cell_mut(ix).phase.run_mut() {
            run.restart = true;
        }
        self.require_stop(ix);
    }

    /// Sends SIGKILL to all remaining processes of a run.
    pub(super) fn kill(&mut self, now: Time, ix: Ix, timed_out: bool, out: &mut Vec<Action>) {
        let phase = std::mem::take(&mut self.cell_mut(ix).phase);
        self.disarm(ix, &phase);
        let then = match &phase {
            Phase::Stopping(_, stop) => stop.then.clone(),
            Phase::Starting(_, _) | Phase::Ready(_, _, _) => Then::Idle,
            Phase::Idle | Phase::Backoff(_) | Phase::Failed(_) => {
                return self.put_phase(ix, phase);
            }
        };
        let Some(run) = phase.into_ended(now) else { return };
        out.push(Action::Kill { name: self.name(ix), run: run.id });
        let kill = Kill::Sent(now.after(HOPELESS));
        self.put_phase(ix, Phase::Stopping(run, Stop { kill, timed_out, then }));
        self.require_stop(ix);
    }

    /// Returns true if the run has a process (its own, or one that opens its sockets) whose exit
    /// may never come.
    pub(super) fn may_hang(&self, ix: Ix) -> bool {
        let listens = matches!(self.cell(ix).phase, Phase::Ready(_, _, _));
        let is_opened = |kind| kind == Kind::Socket && !listens;
        self.kind(ix).is_some_and(|kind| kind.has_process() || is_opened(kind))
    }
}
