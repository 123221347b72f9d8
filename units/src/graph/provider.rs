//! Selects the provider of each target: the only unmasked candidate, or the one of several that the
//! policy prefers. Neither file order nor running units matter. A source's unit never takes a
//! target from the unit directories, nor from a source whose name sorts earlier. So one controller
//! cannot stop the units of another.

use super::{Broken, Fault, Provider};
use crate::text::diagnostic::Diagnostic;
use crate::unit::generation::{Generation, Target, UnitId};
use crate::unit::policy::Policy;
use std::collections::BTreeMap;

/// The result of [`select`].
pub(super) struct Selection {
    pub(super) providers: Vec<Provider>,
    pub(super) masked: Vec<bool>,
    pub(super) broken: BTreeMap<UnitId, Broken>,
}

/// Selects a provider for each target.
pub(super) fn select(
    generation: &Generation,
    policy: &Policy,
    faults: &mut Vec<Fault>,
) -> Selection {
    let masked: Vec<bool> =
        generation.unit_ids().map(|id| is_masked(generation, policy, id)).collect();
    let mut broken = BTreeMap::new();
    for (id, unit) in generation.unit_ids().zip(&generation.units) {
        if let Some(fault) = &unit.fault {
            let message = fault.message.clone();
            broken.insert(id, Broken { at: fault.at.clone(), message, claims: None });
        }
    }
    let mut selector = Selector { generation, policy, masked: &masked, broken, faults };
    let providers = generation.targets.iter().map(|target| selector.provider(target)).collect();
    let broken = selector.broken;
    Selection { providers, masked, broken }
}

/// Returns true if a name in `mask` masks this unit. A name masks the target of that name. It also
/// masks the unit of that name if the unit provides the target or no such target exists.
fn is_masked(generation: &Generation, policy: &Policy, id: UnitId) -> bool {
    let Some(unit) = generation.unit(id) else { return false };
    let names = || unit.provides.iter().filter_map(|target| generation.target(*target));
    if unit.has_synonyms && names().any(|target| policy.mask.contains(&target.name)) {
        return true;
    }
    if policy.mask.contains(&unit.name) {
        let named = generation.find_target(unit.name.as_str());
        let elsewhere = named.and_then(|target| generation.target(target)).is_some_and(|target| {
            !target.candidates.is_empty() && !target.candidates.contains(&id)
        });
        if !elsewhere {
            return true;
        }
    }
    !unit.provides.is_empty() && names().all(|target| policy.mask.contains(&target.name))
}

struct Selector<'a> {
    generation: &'a Generation,
    policy: &'a Policy,
    masked: &'a [bool],
    broken: BTreeMap<UnitId, Broken>,
    faults: &'a mut Vec<Fault>,
}

impl Selector<'_> {
    fn provider(&mut self, target: &Target) -> Provider {
        if target.candidates.is_empty() {
            return Provider::NoUnit;
        }
        if self.policy.mask.contains(&target.name) {
            return Provider::Masked;
        }
        let unmasked: Vec<UnitId> = target
            .candidates
            .iter()
            .copied()
            .filter(|id| !self.masked.get(id.index()).copied().unwrap_or(true))
            .collect();
        let candidates = self.break_intruders(target, unmasked);
        match *candidates.as_slice() {
            [] => Provider::Masked,
            [only] => Provider::Unit(only),
            [first, ..] => match self.preferred(target, &candidates) {
                Some(preferred) => Provider::Unit(preferred),
                None => {
                    self.contested(target, &candidates);
                    Provider::Unit(first)
                }
            },
        }
    }

    fn preferred(&self, target: &Target, candidates: &[UnitId]) -> Option<UnitId> {
        let preferred =
            self.generation.find_unit(self.policy.prefer.get(&target.name)?.as_str())?;
        candidates.contains(&preferred).then_some(preferred)
    }

    /// Breaks units of a source that claim a target of the unit directories or of an earlier
    /// source.
    fn break_intruders(&mut self, target: &Target, candidates: Vec<UnitId>) -> Vec<UnitId> {
        let source = |id: &UnitId| self.generation.unit(*id).map(|unit| &unit.source);
        let first = candidates.iter().filter_map(source).min();
        let (rightful, foreign): (Vec<UnitId>, Vec<UnitId>) =
            candidates.iter().partition(|id| source(id) == first);
        let Some(owner) = rightful.first().and_then(|id| self.generation.unit(*id)) else {
            return rightful;
        };
        for id in foreign {
            let Some(unit) = self.generation.unit(id) else { continue };
            let message =
                format!("{} claims `{}`, which {} provides", unit.name, target.name, owner.name);
            let diagnostic = Diagnostic::error("double-claim", unit.at.clone(), message.clone())
                .with_related(vec![owner.at.clone()]);
            self.faults.push(Fault { units: vec![id], diagnostic });
            let claims = Some(target.name.clone());
            self.broken.entry(id).or_insert(Broken { at: unit.at.clone(), message, claims });
        }
        rightful
    }

    fn contested(&mut self, target: &Target, candidates: &[UnitId]) {
        let units = || candidates.iter().filter_map(|id| self.generation.unit(*id));
        let claims: Vec<String> =
            units().map(|u| format!("{} ({}:{})", u.name, u.at.file, u.at.line)).collect();
        let message = format!("`{}` is provided by {}", target.name, claims.join(" and "));
        let places: Vec<_> = units().map(|u| u.at.clone()).collect();
        let Some(at) = places.first().cloned() else { return };
        let first = units().next().map_or("", |u| u.name.as_str());
        let hint = format!(
            "mask all but one of them, or choose: `initctl prefer {}={first}`",
            target.name
        );
        let related = places.iter().skip(1).cloned().collect();
        let diagnostic = Diagnostic::error("double-claim", at, message.clone())
            .with_hint(hint)
            .with_related(related);
        self.faults.push(Fault { units: candidates.to_vec(), diagnostic });
        for (id, at) in candidates.iter().zip(places) {
            let message = message.clone();
            self.broken.entry(*id).or_insert(Broken { at, message, claims: None });
        }
    }
}
