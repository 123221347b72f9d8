//! The state of the whole system: degraded units, coincidental targets, and one word for the
//! system. The machine never acts on these flags.

use super::mutant::Mutant;
use super::phase::Phase;
use super::propagation::STOPPING;
use super::{Ix, Machine};
use crate::machine::reason::{State, System};
use crate::unit::generation::{TargetId, UnitId};
use std::collections::BTreeSet;

impl Machine {
    /// Returns true while the first start lasts: the unit is needed, and since it became needed it has
    /// neither been active, nor failed by itself or by a dependency.
    fn is_first_start(&self, ix: Ix) -> bool {
        let cell = self.cell(ix);
        cell.needed && cell.untried && !self.is_active(ix) && self.shown(ix) != State::Failed
    }

    /// The unit is needed and should be active by now, but is not.
    pub(super) fn is_amiss(&self, ix: Ix) -> bool {
        let first = self.is_first_start(ix) && !self.planted(Mutant::FirstStartDegrades);
        self.cell(ix).needed && !self.is_active(ix) && !first
    }

    fn has_lost_milestone(&self, ix: Ix) -> bool {
        !self.planted(Mutant::LostMilestoneUnseen)
            && self.cell(ix).phase.run().is_some_and(|run| !run.milestones_lost.is_empty())
    }

    /// Returns active units that reach, by pulling dependencies, a unit that is amiss; sorted by
    /// name. One search runs from the units amiss back along the edges.
    pub fn degraded(&self) -> BTreeSet<UnitId> {
        let units = || self.generation.unit_ids();
        let mut reached = vec![false; self.generation.units.len()];
        let mut degraded = BTreeSet::new();
        let mut stack: Vec<UnitId> = Vec::new();
        for unit in units() {
            let lost = self.has_lost_milestone(unit.0) && self.is_active(unit.0);
            if lost {
                degraded.insert(unit);
            }
            if lost || self.is_amiss(unit.0) {
                stack.push(unit);
            }
        }
        while let Some(unit) = stack.pop() {
            for back in self.graph.back(unit).iter().filter(|back| back.kind.pulls_in()) {
                let kind = back.kind;
                let milestone = kind == crate::spec::DependencyKind::DependsMs;
                let want = kind == crate::spec::DependencyKind::Wants;
                if milestone && self.planted(Mutant::DegradedIgnoresMilestones)
                    || want && self.planted(Mutant::DegradedIgnoresWants)
                {
                    continue;
                }
                let Some(seen) = reached.get_mut(back.dependent.index()) else { continue };
                if std::mem::replace(seen, true) {
                    continue;
                }
                if !self.planted(Mutant::DegradedOneStep) {
                    stack.push(back.dependent);
                }
                if self.is_active(back.dependent.0) {
                    degraded.insert(back.dependent);
                }
            }
        }
        degraded
    }

    /// Returns targets that are up only because their unit provides others that are needed; sorted
    /// by name.
    pub fn coincidental(&self) -> BTreeSet<TargetId> {
        let mut named: BTreeSet<TargetId> = BTreeSet::new();
        let (goals, roots) = self.goals();
        named.extend(goals.iter().filter_map(|name| self.generation.find_target(name.as_str())));
        if self.planted(Mutant::GoalCoincidental) {
            named.clear();
        }
        named.extend(roots);
        for unit in self.generation.unit_ids().filter(|unit| self.cell(unit.0).needed) {
            let edges = self.graph.edges(unit).iter();
            let brings = |edge: &&crate::graph::Edge| {
                let provider = edge.provider.unwrap_or(unit);
                self.brings_in(unit, edge.kind, provider)
            };
            let edges = edges.filter(brings);
            named.extend(edges.map(|edge| edge.target));
        }
        let count = u32::try_from(self.generation.targets.len()).unwrap_or(u32::MAX);
        (0..count)
            .map(TargetId)
            .filter(|target| !named.contains(target))
            .filter(|target| {
                let provider = self.graph.provider(*target).unit();
                provider.is_some_and(|unit| self.cell(unit.0).needed)
            })
            .collect()
    }

    /// Returns true if a goal is masked, missing, or its provider is failed in any way.
    fn has_failed_goal(&self) -> bool {
        let (goals, roots) = self.goals();
        let goals = goals.iter().map(|name| self.graph.meant(&self.generation, name));
        let roots = roots.iter().map(|target| self.graph.provider(*target));
        goals.chain(roots).any(|provider| match provider.unit() {
            Some(unit) => self.cell(unit.0).verdict || self.shown(unit.0) == State::Failed,
            None => !self.planted(Mutant::MissingGoalIsWell),
        })
    }

    /// Returns the state of the system.
    pub fn system(&self) -> System {
        if self.ending.is_some() {
            return System::Stopping;
        }
        if !self.booted {
            return System::Starting;
        }
        if self.has_failed_goal() {
            return System::Failed;
        }
        let mut state = System::Running;
        for ix in self.generation.unit_ids().map(|unit| unit.0) {
            let is_active = self.is_active(ix);
            if !is_active && self.is_first_start(ix) {
                return System::Starting;
            }
            if !is_active && self.cell(ix).needed || is_active && self.has_lost_milestone(ix) {
                state = System::Degraded;
            }
        }
        state
    }

    /// Returns true if no unit is starting, stopping or waiting, except for retries after a
    /// verdict.
    pub fn is_settled(&self) -> bool {
        self.booted
            && (0..self.record_count()).all(|ix| {
                let cell = self.cell(ix);
                match &cell.phase {
                    phase if phase.is_hopeless() => true,
                    Phase::Stopping(_, _) => false,
                    Phase::Starting(_, _) => cell.verdict && !cell.must_stop,
                    Phase::Ready(_, _, _) => cell.facets & STOPPING == 0,
                    Phase::Failed(_) => true,
                    Phase::Idle | Phase::Backoff(_) => self.shown(ix) != State::Waiting,
                }
            })
    }
}
