//! Settles the machine: the second half of a step. It tells every unit to stop that may stop, until
//! nothing changes, and then starts every unit that may start, in order. Only this file emits
//! [`Action::Start`] and [`Action::Stop`].

use super::mutant::Mutant;
use super::phase::Failure;
use super::phase::{Form, Kill, Phase, Start, Stop, Then};
use super::run::Run;
use super::timer::Key;
use super::{Ix, Machine};
use crate::machine::action::{Action, StopReason};
use crate::machine::event::{RunId, Shutdown};
use crate::machine::reason::Reason;
use crate::spec::{DependencyKind, Exit, Readiness};
use crate::text::time::Time;
use crate::unit::generation::UnitId;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// The longest time a start holds its slot of `max-starting`.
const SLOT: Duration = Duration::from_secs(60);

impl Machine {
    /// Settles the machine. Each unit is told to stop at most once per run and started at most once
    /// per idle phase, so the loop ends. The bound only limits the effect of a bug.
    pub(super) fn settle(&mut self, now: Time, out: &mut Vec<Action>) {
        let mut bound = self.cells.len().saturating_mul(8).saturating_add(64);
        // Sweeps in the order of names. A unit that becomes free behind the cursor waits for the
        // next sweep.
        let mut cursor: Option<Key> = None;
        while bound > 0 {
            bound -= 1;
            self.propagate();
            if let Some(code) = self.exit_code.take() {
                self.end(now, Shutdown::Exit(code));
            }
            if self.search_due {
                self.recompute();
                continue;
            }
            let after = cursor.map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.may_stop.range((after, Bound::Unbounded)).next();
            if let Some(key) = next.or(self.may_stop.first()).copied() {
                let (_, _, ix) = key;
                cursor = Some(key);
                let reason = self.stop_reason(ix);
                self.tell(now, ix, reason, Then::Idle, out);
                continue;
            }
            match self.next_start() {
                Some(ix) => {
                    cursor = None;
                    self.begin(now, ix, out);
                }
                None => break,
            }
        }
        self.finish(out);
    }

    fn next_start(&self) -> Option<Ix> {
        let slots = self.slots.saturating_add(u32::from(self.planted(Mutant::OneSlotTooMany)));
        let free = self.slots == 0 || self.slots_used < slots;
        let ready = self.may_start.iter().map(|(_, ix)| *ix);
        if free && self.planted(Mutant::Moody) && super::mutant::mood() {
            return { ready }.next_back();
        }
        if free {
            return { ready }.next();
        }
        self.may_start_freely.first().map(|(_, ix)| *ix)
    }

    /// Starts a run.
    pub(super) fn begin(&mut self, now: Time, ix: Ix, out: &mut Vec<Action>) {
        let Some(unit) = self.unit(ix) else { return };
        let id = RunId(self.next_run);
        let run = Box::new(Run::new(id, unit));
        // A socket unit has no process and needs no slot, but is active only when it listens.
        let (name, instant) = (unit.name.clone(), unit.readiness == Readiness::Instant);
        let limited = self.slots > 0 && unit.kind.has_process();
        let ready_by = unit.live.start_timeout.map(|span| now.after(span));
        let repeats = self.planted(Mutant::RunIdTwice) && id.0.is_multiple_of(8);
        self.next_run = self.next_run.saturating_add(u64::from(!repeats));
        self.cell_mut(ix).must_stop = false;
        out.push(Action::Start { unit: UnitId(ix), name, run: id });
        if instant {
            self.set_phase(ix, Phase::Ready(run, Form::Running { ping_by: None }, now));
            self.became_active(ix);
        } else {
            let slot_until = limited.then(|| now.after(SLOT));
            let start = Start { began: now, ready_by, slot_until, ready_at: None, leaves: false };
            self.set_phase(ix, Phase::Starting(run, start));
        }
    }

    /// Handles a unit that became active: its verdict ends.
    pub(super) fn became_active(&mut self, ix: Ix) {
        let (keeps, fresh) =
            (self.planted(Mutant::VerdictOutlivesActive), self.planted(Mutant::FirstStartForEver));
        let cell = self.cell_mut(ix);
        cell.verdict &= keeps;
        cell.untried &= fresh;
        self.mark(ix);
    }

    /// Tells a run to stop, or forgets it if nothing of it is left.
    pub(super) fn tell(
        &mut self,
        now: Time,
        ix: Ix,
        reason: StopReason,
        then: Then,
        out: &mut Vec<Action>,
    ) {
        let by_itself = matches!(reason, StopReason::Leftovers | StopReason::Done);
        let phase = std::mem::take(&mut self.cell_mut(ix).phase);
        let active = matches!(phase, Phase::Ready(_, _, _));
        let skipped = phase.is_skipped() && !self.planted(Mutant::SkippedIsStopped);
        let over = phase.is_over() && !self.planted(Mutant::OverIsStopped);
        self.disarm(ix, &phase);
        let Some(run) = phase.into_ended(now) else { return };
        let definition = Arc::clone(&run.definition);
        // A skipped run has never started; a run that is over has already run its exec-stop.
        let nothing_left = active && !run.alive && (skipped || over || !definition.has_exec_stop);
        out.push(Action::Stop { name: self.name(ix), run: run.id, reason, nothing_left });
        let kill = Kill::At(definition.live.stop_timeout.map(|span| now.after(span)));
        self.put_phase(ix, Phase::Stopping(run, Stop { kill, timed_out: false, then }));
        self.require_stop(ix);
        if !by_itself && !self.planted(Mutant::RestartWithIgnored) {
            self.restart_with(ix);
        }
        if nothing_left {
            self.propagate();
            self.gone(now, ix);
        }
    }

    /// Marks the present runs of the units that restart with this one.
    pub(super) fn restart_with(&mut self, ix: Ix) {
        let graph = Arc::clone(&self.graph);
        let with = graph.back(UnitId(ix)).iter().filter(|b| b.kind == DependencyKind::RestartWith);
        let with = with.map(|back| back.dependent.0);
        let of_held = self.followers.get(&ix).cloned().unwrap_or_default();
        for other in with.chain(of_held) {
            // A run that stops because it succeeded is replaced too, instead of resting as exited.
            self.ask_restart(other);
        }
    }

    /// Handles the end of a run that was told to stop or had exited.
    pub(super) fn gone(&mut self, now: Time, ix: Ix) {
        let (then, timed_out) = if let Phase::Stopping(_, stop) = &self.cell(ix).phase {
            (stop.then.clone(), stop.timed_out)
        } else {
            (Then::Idle, false)
        };
        self.reset_old_failures(ix);
        self.cell_mut(ix).must_stop = false;
        // A connection cannot be made again, so the failure of its run is shown but not counted.
        let then = match then {
            then if !self.disconnected(ix) => then,
            Then::Fail(failure) => {
                let cell = self.cell_mut(ix);
                (cell.last, cell.connection_lost) = (Some(Box::new(failure.reason)), true);
                Then::Idle
            }
            Then::Idle | Then::Again | Then::Rest { .. } => Then::Idle,
        };
        match then {
            _ if timed_out
                && !self.cell(ix).needed
                && !self.planted(Mutant::StopTimeoutNotShown) =>
            {
                self.set_phase(ix, Phase::Failed(Reason::StopTimeout));
            }
            Then::Fail(failure) => self.count_failure(now, ix, *failure),
            Then::Again => self.again(now, ix),
            Then::Rest { exit, since } => self.rest(now, ix, exit, (since, timed_out)),
            Then::Idle => self.set_phase(ix, Phase::Idle),
        }
    }

    /// Shows the unit as exited after its successful run is over. The unit becomes idle instead if
    /// it is not needed any more, or if it needs another run.
    fn rest(&mut self, now: Time, ix: Ix, exit: Exit, (since, timed_out): (Time, bool)) {
        let cell = self.cell(ix);
        let unwanted = !cell.needed || cell.conflict.is_some() || cell.broken;
        let replaced = |run: &Run| run.restart || run.changed || run.lost.is_some();
        if unwanted || self.lacks_provider(ix) || cell.phase.run().is_none_or(replaced) {
            return self.set_phase(ix, Phase::Idle);
        }
        if timed_out {
            let failure = Failure { exit: Some(exit), ..Failure::new(Reason::StopTimeout) };
            return self.count_failure(now, ix, failure);
        }
        let present = self.unit(ix).map(|unit| &unit.live);
        let is_stale = |run: &Run| {
            run.hold.is_some() || present.is_some_and(|live| run.definition.live != *live)
        };
        // While the run stopped, it kept the targets and keys of an older definition.
        self.search_due |= self.cell(ix).phase.run().is_some_and(is_stale);
        let form = Form::Exited { exit: Some(exit), skipped: None, again: None, over: true };
        self.amend(ix, |phase| {
            if let Some(mut run) = std::mem::take(phase).into_run() {
                run.alive = false;
                *phase = Phase::Ready(run, form, since);
            }
        });
        self.became_active(ix);
        // The run stopped by itself, so a stopping provider had no effect on it yet.
        if self.provider_stops(ix) {
            self.require_stop(ix);
        }
    }

    /// Returns the reason why a unit in must_stop is told to stop.
    fn stop_reason(&self, ix: Ix) -> StopReason {
        if self.ending.is_some() {
            return StopReason::Shutdown;
        }
        let cell = self.cell(ix);
        if !cell.needed || cell.conflict.is_some() {
            return StopReason::NotNeeded;
        }
        let Some(run) = cell.phase.run() else { return StopReason::NotNeeded };
        if let Some(target) = &run.lost {
            return StopReason::Lost(target.clone());
        }
        if run.changed || cell.broken {
            return StopReason::Changed;
        }
        if run.restart {
            return StopReason::RestartAsked;
        }
        let stops = |provider: UnitId| self.cell(provider.0).must_stop;
        self.graph
            .edges(UnitId(ix))
            .iter()
            .filter(|edge| edge.kind == DependencyKind::DependsOn)
            .find(|edge| edge.provider.is_some_and(stops))
            .and_then(|edge| self.generation.target(edge.target))
            .map_or(StopReason::RestartAsked, |t| StopReason::ProviderStops(t.name.clone()))
    }
}
