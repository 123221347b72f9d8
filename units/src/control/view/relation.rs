//! The units that need a unit, and the units that its failure affects.

use super::View;
use crate::control::answer::{Affected, Need, SourceStatus};
use crate::spec::DependencyKind;
use crate::text::name::Name;
use crate::unit::generation::{Generation, TargetId, UnitId};
use std::collections::BTreeSet;

/// Limit of needed units in one `needed-by`.
const NEEDED_BY: usize = 8;
/// Limit of units in one `affects`.
const AFFECTS: usize = 64;

/// Returns the sources with their roots.
pub(super) fn sources(generation: &Generation) -> Vec<SourceStatus> {
    let roots = |source: &Name| {
        let of_it = generation.roots.iter().filter(move |(name, _)| name == source);
        let targets = of_it.flat_map(|(_, roots)| roots);
        targets.filter_map(|root| Some(generation.target(*root)?.name.to_string())).collect()
    };
    let put = generation.revisions.iter();
    put.map(|(source, revision)| SourceStatus {
        source: source.to_string(),
        revision: *revision,
        roots: roots(source),
    })
    .collect()
}

impl View<'_> {
    /// Returns the status text of a run, or the event that a trigger waits for.
    pub(super) fn says(&self, unit: UnitId) -> String {
        let waits = self.machine.run(unit).and_then(|run| self.facts.waits.get(&run));
        waits.map_or_else(|| self.machine.status(unit).to_string(), String::clone)
    }

    pub(super) fn next_try(&self, unit: UnitId) -> Option<String> {
        self.machine.next_try(unit).map(|at| self.facts.wall_of(at))
    }

    /// Returns what pulls the unit in: the goal, then sources, then needed units by name.
    pub(super) fn needed_by(&self, unit: UnitId) -> Vec<String> {
        let generation = self.machine.generation();
        let mut names = Vec::new();
        if self.goal.contains(&unit) {
            names.push("the goal".to_string());
        }
        let sources = self.rooting(unit).into_iter();
        names.extend(sources.map(|(source, _)| format!("source {source}")));
        let mut dependents: Vec<UnitId> = self.pulling(unit).map(|(who, _)| who).collect();
        dependents.dedup();
        let dependents = dependents.iter().filter_map(|who| generation.unit(*who));
        names.extend(dependents.take(NEEDED_BY).map(|unit| unit.name.to_string()));
        names
    }

    pub(super) fn pulling(
        &self,
        unit: UnitId,
    ) -> impl Iterator<Item = (UnitId, DependencyKind)> + '_ {
        let back = self.machine.graph().back(unit).iter();
        back.filter(|back| self.machine.is_needed(back.dependent))
            .filter(move |back| self.machine.brings_in(back.dependent, back.kind, unit))
            .map(|back| (back.dependent, back.kind))
    }

    pub(super) fn needs(&self, unit: UnitId) -> Vec<Need> {
        let generation = self.machine.generation();
        let target_of = |who: UnitId, kind: DependencyKind| {
            let edges = self.machine.graph().edges(who).iter();
            let mut to = edges.filter(|edge| edge.kind == kind && edge.provider == Some(unit));
            to.next().and_then(|edge| generation.target(edge.target))
        };
        let mut needs: Vec<Need> = self
            .pulling(unit)
            .filter_map(|(who, kind)| {
                Some(Need {
                    unit: Some(generation.unit(who)?.name.to_string()),
                    target: target_of(who, kind)?.name.to_string(),
                    kind: Some(kind),
                    source: None,
                })
            })
            .collect();
        // A unit may name several targets of the same unit.
        needs.dedup();
        if self.goal.contains(&unit) {
            let wish = self.machine.wish();
            let graph = self.machine.graph();
            let named = wish.goal.iter().chain(wish.want.keys());
            let named = named.filter(|name| graph.meant(generation, name).unit() == Some(unit));
            needs.extend(named.map(|name| Need { target: name.to_string(), ..Need::default() }));
        }
        needs.extend(self.rooting(unit).into_iter().map(|(source, target)| Need {
            target,
            source: Some(source),
            ..Need::default()
        }));
        needs
    }

    /// Returns the sources that have the unit as a root, with the target.
    fn rooting(&self, unit: UnitId) -> Vec<(String, String)> {
        let generation = self.machine.generation();
        let is_its = |root: &&TargetId| self.machine.graph().provider(**root).unit() == Some(unit);
        let of_one = |(source, roots): &(Name, Vec<TargetId>)| {
            let root = roots.iter().find(is_its)?;
            Some((source.to_string(), generation.target(*root)?.name.to_string()))
        };
        generation.roots.iter().filter_map(of_one).collect()
    }

    /// Returns the direct and indirect dependents that are not active or are degraded, if this unit
    /// is not active or is degraded.
    pub(super) fn affects(&self, unit: UnitId) -> Vec<Affected> {
        if self.machine.state(unit).is_active() && !self.degraded.contains(&unit) {
            return Vec::new();
        }
        let mut seen = BTreeSet::from([unit]);
        let mut open = vec![unit];
        let mut affected = BTreeSet::new();
        while let Some(below) = open.pop() {
            for (above, kind) in self.pulling(below) {
                // A unit that runs because another one failed affects no dependents.
                if !kind.pulls_in() || !seen.insert(above) {
                    continue;
                }
                open.push(above);
                if !self.machine.state(above).is_active() || self.degraded.contains(&above) {
                    affected.insert(above);
                }
            }
        }
        affected.into_iter().take(AFFECTS).filter_map(|id| self.affected(id)).collect()
    }

    /// Returns the triggers that activate this unit.
    pub(super) fn activated_by(&self, unit: UnitId) -> Vec<Affected> {
        let units = self.machine.generation().unit_ids();
        let triggers = units.filter(|trigger| self.machine.activates(*trigger) == Some(unit));
        triggers.take(AFFECTS).filter_map(|id| self.affected(id)).collect()
    }

    fn affected(&self, id: UnitId) -> Option<Affected> {
        Some(Affected {
            unit: self.machine.generation().unit(id)?.name.to_string(),
            state: self.machine.state(id),
            degraded: self.degraded.contains(&id),
            reason: self.machine.reason(id).map(|why| self.told(id, &why, None)),
        })
    }
}
