//! Queries of the machine. None of them changes it.

use super::Machine;
use super::needed_set::{Occasion, Wish};
use super::phase::{Form, Kill, Phase, Stop};
use crate::graph::Graph;
use crate::machine::event::{RunId, Shutdown};
use crate::machine::reason::{Reason, State};
use crate::spec::{DependencyKind, Exit, Kind};
use crate::text::name::Name;
use crate::text::time::Time;
use crate::unit::generation::{Generation, UnitId};
use crate::unit::policy::Policy;
use std::sync::Arc;

impl Machine {
    /// Returns the present generation.
    pub fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// Returns the present graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the present policy, without the masks of the overlay.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the name in the overlay's masks that keeps this target, or the unit of that name,
    /// from starting. Returns `None` if the policy masks it anyway.
    pub fn dropped(&self, target: &Name) -> Option<&Name> {
        let found = self.generation.find_target(target.as_str());
        let found = found.and_then(|target| self.generation.target(target));
        let candidates = found.map(|target| target.candidates.as_slice()).unwrap_or_default();
        let named = self.generation.find_unit(target.as_str());
        let units = candidates.iter().copied().chain(named);
        let units = units.filter_map(|unit| self.generation.unit(unit));
        let names = units.flat_map(|unit| {
            let provided = unit.provides.iter().filter_map(|it| self.generation.target(*it));
            std::iter::once(&unit.name).chain(provided.map(|target| &target.name))
        });
        let names: Vec<&Name> = std::iter::once(target).chain(names).collect();
        if names.iter().any(|name| self.policy.mask.contains(*name)) {
            return None;
        }
        names.into_iter().find_map(|name| self.wish.drop.get(name))
    }

    /// Returns the goal and the overlay.
    pub fn wish(&self) -> &Wish {
        &self.wish
    }

    /// Returns the shutdown in progress.
    pub fn ending(&self) -> Option<Shutdown> {
        self.ending.map(|ending| ending.how)
    }

    /// Returns true if the unit is needed.
    pub fn is_needed(&self, unit: UnitId) -> bool {
        self.cell(unit.0).needed
    }

    /// Returns true if a dependency of this kind makes the provider needed now, given that the unit
    /// is needed.
    pub fn brings_in(&self, unit: UnitId, kind: DependencyKind, provider: UnitId) -> bool {
        let stands = |occasion| {
            let of = if occasion == Occasion::Connected { provider } else { unit };
            self.stands(of.0, occasion)
        };
        kind.pulls_in() || Occasion::of(kind).is_some_and(stands)
    }

    /// Returns the shown state.
    pub fn state(&self, unit: UnitId) -> State {
        self.shown(unit.0)
    }

    /// Returns the reason for the shown state.
    pub fn reason(&self, unit: UnitId) -> Option<Reason> {
        self.reason_of(unit.0)
    }

    /// Returns the start of the shown state.
    pub fn since(&self, unit: UnitId) -> Time {
        self.cell(unit.0).since
    }

    /// Returns the number of consecutive failures.
    pub fn failures(&self, unit: UnitId) -> u32 {
        self.cell(unit.0).failures
    }

    /// Returns true if the unit counts as failed for its dependents until it is active again.
    pub fn has_verdict(&self, unit: UnitId) -> bool {
        self.cell(unit.0).verdict
    }

    /// Returns the last failure, until it is forgiven.
    pub fn last_failure(&self, unit: UnitId) -> Option<&Reason> {
        self.cell(unit.0).last.as_deref()
    }

    /// Returns runs that were killed but are not gone.
    pub fn killed(&self) -> Vec<RunId> {
        let is_killed = |phase: &&Phase| {
            matches!(phase, Phase::Stopping(_, Stop { kill: Kill::Sent(_) | Kill::Hopeless, .. }))
        };
        let killed = self.cells.iter().map(|cell| &cell.phase).filter(is_killed);
        killed.filter_map(Phase::run).map(|run| run.id).collect()
    }

    /// Returns the present run.
    pub fn run(&self, unit: UnitId) -> Option<RunId> {
        self.cell(unit.0).phase.run().map(|run| run.id)
    }

    /// Returns the unit that waits only for this run to become ready, and the id of its run if no
    /// other unit starts before it.
    pub fn start_after(&self, run: RunId) -> Option<(&Name, RunId)> {
        let waits = |ix: &u32| {
            let cell = self.cell(*ix);
            cell.needed && cell.closed_gates == 1 && matches!(cell.phase, Phase::Idle)
        };
        let of = UnitId(self.unit_of(run)?);
        let mut dependents = self.graph.back(of).iter().map(|back| back.dependent.0);
        let next = self.unit(dependents.find(waits)?)?;
        next.kind.has_process().then_some((&next.name, RunId(self.next_run)))
    }

    /// Returns true if the unit failed and is not retried.
    pub fn has_failed_for_good(&self, unit: UnitId) -> bool {
        matches!(self.cell(unit.0).phase, Phase::Failed(_))
    }

    /// Returns true if the unit is starting, active or stopping.
    pub fn is_up(&self, unit: UnitId) -> bool {
        self.cell(unit.0).phase.is_up()
    }

    /// Returns true if the unit is up and has to stop.
    pub fn must_stop(&self, unit: UnitId) -> bool {
        self.cell(unit.0).phase.is_up() && self.cell(unit.0).must_stop
    }

    /// Returns true if the run has another definition than the generation.
    pub fn is_stale(&self, unit: UnitId) -> bool {
        self.cell(unit.0).phase.run().is_some_and(|run| run.stale || run.changed)
    }

    /// Returns the last STATUS= of the run; may be empty.
    pub fn status(&self, unit: UnitId) -> &str {
        self.cell(unit.0).phase.run().map_or("", |run| run.status.as_str())
    }

    /// Returns true if the last reload failed or timed out.
    pub fn reload_failed(&self, unit: UnitId) -> bool {
        self.cell(unit.0).phase.run().is_some_and(|run| run.reload_failed)
    }

    /// Returns true if the run has succeeded and is over: the unit is exited, and nothing is left
    /// to stop.
    pub fn is_over(&self, unit: UnitId) -> bool {
        self.cell(unit.0).phase.is_over()
    }

    /// Returns the time of the next retry of a failed unit, or of the next run of an exited one.
    pub fn next_try(&self, unit: UnitId) -> Option<Time> {
        match &self.cell(unit.0).phase {
            Phase::Backoff(at) => Some(*at),
            Phase::Ready(_, Form::Exited { again, .. }, _) => *again,
            Phase::Ready(
                _,
                Form::Running { .. } | Form::Reloading { .. } | Form::Leaving { .. },
                _,
            )
            | Phase::Starting(_, _)
            | Phase::Stopping(_, _)
            | Phase::Idle
            | Phase::Failed(_) => None,
        }
    }

    /// Returns the type that a run was started with, or `None` if the run is gone.
    pub fn kind_of_run(&self, run: RunId) -> Option<Kind> {
        let ix = self.unit_of(run)?;
        self.cell(ix).phase.run().map(|run| run.definition.kind)
    }

    /// Returns the exit of an exited run.
    pub fn exit(&self, unit: UnitId) -> Option<Exit> {
        match &self.cell(unit.0).phase {
            Phase::Ready(_, Form::Exited { exit, .. }, _) => *exit,
            Phase::Ready(
                _,
                Form::Running { .. } | Form::Reloading { .. } | Form::Leaving { .. },
                _,
            )
            | Phase::Starting(_, _)
            | Phase::Stopping(_, _)
            | Phase::Idle
            | Phase::Backoff(_)
            | Phase::Failed(_) => None,
        }
    }

    /// Returns up runs of removed units, by name, and their state.
    pub fn removed(&self) -> Vec<(Name, RunId, State)> {
        let removed = self.removed_ixs().into_iter();
        let run = |ix| Some((self.name(ix), self.cell(ix).phase.run()?.id, self.shown(ix)));
        removed.filter_map(run).collect()
    }

    /// Returns the name of the run's unit, or `None` if the run is gone.
    pub fn name_of_run(&self, run: RunId) -> Option<Name> {
        self.unit_of(run).map(|ix| self.name(ix))
    }

    /// Returns the number of units that the last step visited.
    pub fn visited(&self) -> usize {
        self.visited
    }

    /// Returns true if nothing is up.
    pub fn is_down(&self) -> bool {
        self.runs.is_empty()
    }
}
