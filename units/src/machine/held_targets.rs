//! Targets that a run holds, and targets it conflicts with, although the present graph says
//! otherwise. A run holds them until it is gone: the units selected to provide them wait, and units
//! that restart with the provider follow it. [`super::apply_generation`] records them when the
//! graph changes.

use super::mutant::Mutant;
use super::{Ix, Machine};
use crate::spec::DependencyKind;
use crate::text::name::Name;
use crate::unit::generation::{Generation, TargetId, Unit, UnitId};
use std::collections::{BTreeMap, BTreeSet};

impl Machine {
    /// Finds the units that wait until another unit's run releases a target: the selected providers
    /// of the target and the units that conflict with it.
    pub(super) fn find_holders(&mut self) {
        self.holders.clear();
        self.followers.clear();
        if self.planted(Mutant::TargetNotHeld) {
            return;
        }
        let forgets = self.planted(Mutant::ConflictForgotten);
        // Computed only if a run holds a target it is not selected for any more.
        let (mut opposed, mut restarting) = (None, None);
        for ix in self.all() {
            let Some(run) = self.cell(ix).phase.run() else { continue };
            let Some(hold) = run.hold.clone() else { continue };
            let (held, against) = (hold.targets, hold.against);
            let target = |name: &Name| self.generation.find_target(name.as_str());
            let provider = |target: TargetId| self.graph.provider(target).unit().map(|unit| unit.0);
            let (mut waiting, mut followers) = (BTreeSet::new(), BTreeSet::new());
            for target in held.iter().flat_map(|held| held.iter()).filter_map(target) {
                waiting.extend(provider(target));
                if !forgets {
                    let opposed: &BTreeMap<_, _> =
                        opposed.get_or_insert_with(|| opposed_by(&self.generation));
                    waiting.extend(opposed.get(&target).into_iter().flatten().copied());
                }
                let restarting: &BTreeMap<_, _> =
                    restarting.get_or_insert_with(|| self.restarting_with());
                followers.extend(restarting.get(&target).into_iter().flatten().copied());
            }
            let against = against.iter().flat_map(|against| against.iter()).filter(|_| !forgets);
            waiting.extend(against.filter_map(target).filter_map(provider));
            // Followers of an unkillable run were released when it was declared unkillable.
            if self.cell(ix).phase.is_hopeless() {
                followers.clear();
            }
            for (of, mut others) in [(&mut self.holders, waiting), (&mut self.followers, followers)]
            {
                others.remove(&ix);
                if !others.is_empty() {
                    of.insert(ix, others.into_iter().collect());
                }
            }
        }
    }

    /// By target, the units that restart with its provider.
    fn restarting_with(&self) -> BTreeMap<TargetId, Vec<Ix>> {
        let mut with: BTreeMap<TargetId, Vec<Ix>> = BTreeMap::new();
        if self.planted(Mutant::RestartWithForgotten) {
            return with;
        }
        for unit in self.generation.unit_ids() {
            let edges = self.graph.edges(unit).iter();
            for edge in edges.filter(|edge| edge.kind == DependencyKind::RestartWith) {
                with.entry(edge.target).or_default().push(unit.0);
            }
        }
        with
    }
}

/// Returns the targets of a unit's `conflicts`.
pub(super) fn conflicting(generation: &Generation, unit: UnitId) -> Vec<Name> {
    let unit = generation.unit(unit).filter(|unit| unit.fault.is_none());
    let targets = unit.into_iter().flat_map(conflicts_of);
    let mut names: Vec<Name> =
        targets.filter_map(|target| Some(generation.target(target)?.name.clone())).collect();
    names.sort();
    names.dedup();
    names
}

fn conflicts_of(unit: &Unit) -> impl Iterator<Item = TargetId> {
    let conflicts = unit.dependencies.iter().filter(|it| it.kind == DependencyKind::Conflicts);
    conflicts.map(|dependency| dependency.target)
}

/// By target, the units that conflict with it.
fn opposed_by(generation: &Generation) -> BTreeMap<TargetId, Vec<Ix>> {
    let mut opposed: BTreeMap<TargetId, Vec<Ix>> = BTreeMap::new();
    for (id, unit) in generation.unit_ids().zip(&generation.units) {
        for target in
            Some(unit).filter(|unit| unit.fault.is_none()).into_iter().flat_map(conflicts_of)
        {
            opposed.entry(target).or_default().push(id.0);
        }
    }
    opposed
}
