//! The graph of one generation under one policy: the provider of each target, and the dependencies
//! between units.
//!
//! The loader, `initctl check` and PID 1 use the same code; PID 1 checks each generation again
//! before it applies it. Resolving is always *tolerant*: each error is reported as a [`Fault`] and,
//! unless it is a missing target, breaks the units involved. The caller knows which units are
//! needed ([`crate::machine`]) and decides whether a fault is a reason to refuse. Guarantees: ids
//! are in range, each target has at most one provider, and the ordering edges have no ring.
//!
//! Read on: [`provider`] (selection), [`edge`] (dependencies), [`ring`] (rings, and how imported
//! ones are opened).

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

/// The provider of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// This unit, which may be broken. If several units claim the target and the policy prefers
    /// none, it is the first of them.
    Unit(UnitId),
    /// The target is masked by the policy and has no provider.
    Masked,
    /// No unit provides the target.
    NoUnit,
}

impl Provider {
    /// Returns the unit, if there is one.
    pub fn unit(self) -> Option<UnitId> {
        match self {
            Provider::Unit(unit) => Some(unit),
            Provider::Masked | Provider::NoUnit => None,
        }
    }
}

/// One dependency of a unit, with `before` already turned round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The kind; never [`DependencyKind::Before`].
    pub kind: DependencyKind,
    /// The target that the unit names.
    pub target: TargetId,
    /// The provider of the target; `None` if there is none or it is masked.
    pub provider: Option<UnitId>,
    /// The dependency is optional, written `t?`.
    pub optional: bool,
}

/// The other end of an [`Edge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Back {
    /// The dependent.
    pub dependent: UnitId,
    /// The kind of dependency.
    pub kind: DependencyKind,
}

/// The reason why a unit is unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The place of the error.
    pub at: Place,
    /// The error.
    pub message: String,
    /// The target, if a source's unit claims the target of another unit.
    pub claims: Option<Name>,
}

/// An error in the graph, and the units it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The units concerned.
    pub units: Vec<UnitId>,
    /// The message. Warnings break nothing.
    pub diagnostic: Diagnostic,
}

/// The resolved graph.
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
    /// Resolves one generation under one policy. The cost grows with the generation.
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

    /// Returns the provider of a target.
    pub fn provider(&self, target: TargetId) -> Provider {
        self.providers.get(target.index()).copied().unwrap_or(Provider::NoUnit)
    }

    /// Returns the dependencies of a unit, including those that other units' files add to it by
    /// `before`, `conflicts`, `wanted-by` and `required-by`.
    pub fn edges(&self, unit: UnitId) -> &[Edge] {
        self.out.row(unit)
    }

    /// Returns the dependents of a unit. A conflict is listed on both sides.
    pub fn back(&self, unit: UnitId) -> &[Back] {
        self.back.row(unit)
    }

    /// Returns true if the unit, or all of its targets, are masked.
    pub fn is_masked(&self, unit: UnitId) -> bool {
        self.masked.get(unit.index()).copied().unwrap_or(false)
    }

    /// Returns the reason why a unit is unusable, if it is.
    pub fn broken(&self, unit: UnitId) -> Option<&Broken> {
        self.broken.get(&unit)
    }

    /// Returns all units, with every provider of an ordering edge before its dependents.
    pub fn order(&self) -> &[UnitId] {
        &self.order
    }

    /// Returns the unit that an operator means: the provider of the target of that name or, if
    /// there is no such target, the unit of that name.
    pub fn meant(&self, generation: &Generation, name: &Name) -> Provider {
        match generation.find_target(name.as_str()) {
            Some(target) => match self.provider(target) {
                Provider::NoUnit => self.unit_named(generation, name),
                found @ (Provider::Unit(_) | Provider::Masked) => found,
            },
            None => self.unit_named(generation, name),
        }
    }

    fn unit_named(&self, generation: &Generation, name: &Name) -> Provider {
        match generation.find_unit(name.as_str()) {
            Some(unit) if self.is_masked(unit) => Provider::Masked,
            Some(unit) => Provider::Unit(unit),
            None => Provider::NoUnit,
        }
    }
}

#[cfg(test)]
mod tests;
