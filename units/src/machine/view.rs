//! What may be asked of a machine. Nothing here changes it.

use super::Machine;
use super::cell::Cell;
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
    /// The present set of units.
    pub fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// The present graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The present policy, without the overlay's masks.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What the overlay drops that keeps this target, or the unit of that name, from being
    /// started; None where the policy masks it all the same.
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

    /// The goal and the overlay.
    pub fn wish(&self) -> &Wish {
        &self.wish
    }

    /// The end under way.
    pub fn ending(&self) -> Option<Shutdown> {
        self.ending.map(|ending| ending.how)
    }

    /// In N.
    pub fn is_needed(&self, unit: UnitId) -> bool {
        self.cell(unit.0).needed
    }

    /// A dependency of this kind makes the provider needed now, provided that the unit is.
    pub fn brings_in(&self, unit: UnitId, kind: DependencyKind, provider: UnitId) -> bool {
        let stands = |occasion| {
            let of = if occasion == Occasion::Connected { provider } else { unit };
            self.stands(of.0, occasion)
        };
        kind.pulls_in() || Occasion::of(kind).is_some_and(stands)
    }

    /// What an operator sees.
    pub fn state(&self, unit: UnitId) -> State {
        self.shown(unit.0)
    }

    /// Why.
    pub fn reason(&self, unit: UnitId) -> Option<Reason> {
        self.reason_of(unit.0)
    }

    /// Since when it is shown so.
    pub fn since(&self, unit: UnitId) -> Time {
        self.cell(unit.0).since
    }

    /// Failures in a row.
    pub fn failures(&self, unit: UnitId) -> u32 {
        self.cell(unit.0).failures
    }

    /// Its failures count for others until it is active again.
    pub fn has_verdict(&self, unit: UnitId) -> bool {
        self.cell(unit.0).verdict
    }

    /// Its last failure, until it is forgiven.
    pub fn last_failure(&self, unit: UnitId) -> Option<&Reason> {
        self.cell(unit.0).last.as_deref()
    }

    /// A trigger that has fired, and whose activation has not ended.
    pub fn has_fired(&self, unit: UnitId) -> bool {
        self.cell(unit.0).triggered
    }

    /// Runs that were killed and are not gone.
    pub fn killed(&self) -> Vec<RunId> {
        let killed = |cell: &Cell| match &cell.phase {
            Phase::Stopping(run, Stop { kill: Kill::Sent(_) | Kill::Hopeless, .. }) => Some(run.id),
            Phase::Stopping(_, _)
            | Phase::Idle
            | Phase::Starting(_, _)
            | Phase::Ready(_, _, _)
            | Phase::Backoff(_)
            | Phase::Failed(_) => None,
        };
        self.cells.iter().filter_map(killed).collect()
    }

    /// Its present run.
    pub fn run(&self, unit: UnitId) -> Option<RunId> {
        self.cell(unit.0).phase.run().map(|run| run.id)
    }

    /// It failed and is not tried again by itself.
    pub fn has_failed_for_good(&self, unit: UnitId) -> bool {
        matches!(self.cell(unit.0).phase, Phase::Failed(_))
    }

    /// Starting, active or stopping.
    pub fn is_up(&self, unit: UnitId) -> bool {
        self.cell(unit.0).phase.is_up()
    }

    /// Up, and it has to stop.
    pub fn must_stop(&self, unit: UnitId) -> bool {
        self.cell(unit.0).phase.is_up() && self.cell(unit.0).must_stop
    }

    /// Its run has another definition than the generation.
    pub fn is_stale(&self, unit: UnitId) -> bool {
        self.cell(unit.0).phase.run().is_some_and(|run| run.stale || run.changed)
    }

    /// The last STATUS= of its run; may be empty.
    pub fn status(&self, unit: UnitId) -> &str {
        self.cell(unit.0).phase.run().map_or("", |run| run.status.as_str())
    }

    /// Its last reload of itself failed or timed out.
    pub fn reload_failed(&self, unit: UnitId) -> bool {
        self.cell(unit.0).phase.run().is_some_and(|run| run.reload_failed)
    }

    /// It has failed for good: only a wish or a new definition starts it again.
    pub fn gives_up(&self, unit: UnitId) -> bool {
        matches!(self.cell(unit.0).phase, Phase::Failed(_))
    }

    /// Its run has ended well and is over: it is exited, and nothing of it is left to stop.
    pub fn is_over(&self, unit: UnitId) -> bool {
        self.cell(unit.0).phase.is_over()
    }

    /// When a failed unit is tried again by itself, or an exited one runs again.
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

    /// The type a run was started with; None when it is no more.
    pub fn kind_of_run(&self, run: RunId) -> Option<Kind> {
        let ix = self.unit_of(run)?;
        self.cell(ix).phase.run().map(|run| run.definition.kind)
    }

    /// How an exited run ended.
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

    /// Up runs of units that are no longer in the generation, by name, and their state.
    pub fn removed(&self) -> Vec<(Name, RunId, State)> {
        let removed = self.removed_ixs().into_iter();
        let run = |ix| Some((self.name(ix), self.cell(ix).phase.run()?.id, self.shown(ix)));
        removed.filter_map(run).collect()
    }

    /// The unit and state a run belongs to; None when it is no more.
    pub fn name_of_run(&self, run: RunId) -> Option<Name> {
        self.unit_of(run).map(|ix| self.name(ix))
    }

    /// How many units the last step looked at.
    pub fn visited(&self) -> usize {
        self.visited
    }

    /// No end, no run: [`Machine::step`] has said `Finish`, or nothing was ever started.
    pub fn is_down(&self) -> bool {
        self.runs.is_empty()
    }
}
