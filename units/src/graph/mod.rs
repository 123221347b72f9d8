//! The graph: who provides which target, and who depends on whom, for one
//! generation under one policy.
//!
//! The same code serves the loader, `initctl check` and PID 1, which proves each
//! generation anew before it takes it. It always resolves *tolerantly*: a mistake
//! breaks the units involved and is reported as a [`Fault`]; whether a fault is a
//! reason to refuse is for the caller, who knows what is needed
//! ([`crate::machine`]). What is promised: ids are in range, at most one unit is
//! selected for a target, no ring is left over the ordering edges.
//!
//! Read on: [`provider`] (who is selected), [`edge`] (what depends on what),
//! [`ring`] (rings and how imported ones are opened).

pub mod edge;
pub mod provider;
pub mod ring;

use crate::spec::DependencyKind;
use crate::text::diagnostic::{Diagnostic, Place};
use crate::text::name::Name;
use crate::unit::generation::{Generation, TargetId, UnitId};
use crate::unit::policy::Policy;
use edge::{Link, Rows};
use provider::Selection;
use std::collections::BTreeMap;

/// Who stands behind a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// This unit. It may be broken: of a contested target the first claimant stands for all.
    Unit(UnitId),
    /// Masked by the policy: counts as nobody.
    Masked,
    /// No unit says that it provides it.
    Nobody,
}

impl Provider {
    /// The unit, if there is one.
    pub fn unit(self) -> Option<UnitId> {
        match self {
            Provider::Unit(unit) => Some(unit),
            Provider::Masked | Provider::Nobody => None,
        }
    }
}

/// One dependency of a unit, with `before` already turned round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Never [`DependencyKind::Before`].
    pub kind: DependencyKind,
    /// By which name.
    pub target: TargetId,
    /// Who stands behind it; None: nobody, or masked.
    pub provider: Option<UnitId>,
    /// Written `t?`.
    pub optional: bool,
}

/// The other end of an [`Edge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Back {
    /// Who depends.
    pub dependent: UnitId,
    /// How.
    pub kind: DependencyKind,
}

/// Why a unit can not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Where.
    pub at: Place,
    /// What.
    pub message: String,
    /// A unit of a source that claims somebody else's target: the target.
    pub claims: Option<Name>,
}

/// A mistake, and the units it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whose.
    pub units: Vec<UnitId>,
    /// How it is said. Warnings break nothing.
    pub diagnostic: Diagnostic,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    providers: Vec<Provider>,
    masked: Vec<bool>,
    broken: BTreeMap<UnitId, Broken>,
    out: Rows<Edge>,
    back: Rows<Back>,
    order: Vec<UnitId>,
}

impl Graph {
    /// Resolves one generation under one policy. Costs what the generation is long.
    pub fn resolve(generation: &Generation, policy: &Policy) -> (Graph, Vec<Fault>) {
        let mut faults = Vec::new();
        let Selection { providers, masked, mut broken } =
            provider::select(generation, policy, &mut faults);
        let mut links = edge::collect(generation, policy, &providers, &masked, &mut faults);
        ring::break_rings(generation, &mut links, &mut broken, &mut faults);
        let count = generation.units.len();
        links.retain(|link| !broken.contains_key(&link.from));
        let out = Rows::new(count, &links, |link| (link.from, link.edge()));
        let backward: Vec<&Link> = links.iter().filter(|link| link.provider.is_some()).collect();
        let back = Rows::new(count, &backward, |link| {
            let back = Back { dependent: link.from, kind: link.kind };
            (link.provider.unwrap_or(link.from), back)
        });
        let order = ring::order(count, &out);
        (Graph { providers, masked, broken, out, back, order }, faults)
    }

    /// Who stands behind a target.
    pub fn provider(&self, target: TargetId) -> Provider {
        self.providers.get(target.index()).copied().unwrap_or(Provider::Nobody)
    }

    /// What a unit depends on, in the order of its file; wanted-by edges after them.
    pub fn edges(&self, unit: UnitId) -> &[Edge] {
        self.out.row(unit)
    }

    /// Who depends on a unit. A conflict is found on both sides.
    pub fn back(&self, unit: UnitId) -> &[Back] {
        self.back.row(unit)
    }

    /// All of this unit's targets are masked, or it is itself.
    pub fn is_masked(&self, unit: UnitId) -> bool {
        self.masked.get(unit.index()).copied().unwrap_or(false)
    }

    /// Why it can not be used, if it can not.
    pub fn broken(&self, unit: UnitId) -> Option<&Broken> {
        self.broken.get(&unit)
    }

    /// All units, every provider of an ordering edge before its dependents.
    pub fn order(&self) -> &[UnitId] {
        &self.order
    }

    /// The unit an operator means: the provider of the target of that name, or, where no target
    /// has the name, the unit of that name.
    pub fn meant(&self, generation: &Generation, name: &Name) -> Provider {
        match generation.find_target(name.as_str()) {
            Some(target) => match self.provider(target) {
                Provider::Nobody => self.unit_named(generation, name),
                found @ (Provider::Unit(_) | Provider::Masked) => found,
            },
            None => self.unit_named(generation, name),
        }
    }

    fn unit_named(&self, generation: &Generation, name: &Name) -> Provider {
        match generation.find_unit(name.as_str()) {
            Some(unit) if self.is_masked(unit) => Provider::Masked,
            Some(unit) => Provider::Unit(unit),
            None => Provider::Nobody,
        }
    }
}

#[cfg(test)]
mod tests;
