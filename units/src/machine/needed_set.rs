//! The needed set N: the least set of units that the goal needs. It is found by one search from the
//! roots in order of their weight, never by reference counts, because `wants` may be cyclic.

use crate::graph::Graph;
use crate::spec::DependencyKind;
use crate::text::fields::is_default;
use crate::text::name::Name;
use crate::text::time::Time;
use crate::unit::generation::{Generation, UnitId};
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The operator's wish: the goal and the overlay.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wish {
    /// Targets of `set-target`.
    pub goal: Vec<Name>,
    /// Targets added with `+x`, each with the time its wish ends.
    pub want: BTreeMap<Name, Option<Time>>,
    /// Targets that the goal leaves out (`-y`).
    pub drop: BTreeSet<Name>,
}

impl Wish {
    /// Returns the operator's roots, heaviest first.
    pub(super) fn roots(&self) -> impl Iterator<Item = &Name> {
        self.goal.iter().chain(self.want.keys())
    }
}

/// A state that makes the unit itself or another unit needed for as long as it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// The trigger has fired.
    Fired,
    /// The unit has a verdict: on-failure.
    Failed,
    /// The unit has exited: on-success.
    Succeeded,
    /// The unit has a connection that a socket accepted.
    Connected,
    /// A failure or a success made the unit needed, and its run, which ends by itself, has not
    /// ended.
    Unfinished,
}

impl Occasion {
    /// Returns the state that makes an edge of this kind pull: a state of the dependent, and of the
    /// provider for [`DependencyKind::Accepts`].
    pub(super) fn of(kind: DependencyKind) -> Option<Occasion> {
        match kind {
            DependencyKind::OnFailure => Some(Occasion::Failed),
            DependencyKind::OnSuccess => Some(Occasion::Succeeded),
            DependencyKind::Accepts => Some(Occasion::Connected),
            DependencyKind::DependsOn
            | DependencyKind::DependsMs
            | DependencyKind::WaitsFor
            | DependencyKind::Wants
            | DependencyKind::After
            | DependencyKind::Before
            | DependencyKind::RestartWith
            | DependencyKind::Conflicts
            | DependencyKind::RequiresActive
            | DependencyKind::ReloadWith => None,
        }
    }
}

/// Roots beside the wished ones, sorted. Each has the unit that pulls, the unit that it makes
/// needed, and true if the reason is a failure or a success.
type Late = BTreeSet<(UnitId, UnitId, bool)>;

/// The number of all roots made by on-failure, on-success or an unfinished run of either.
const BROUGHT: u32 = u32::MAX;

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub(super) struct NeededSet {
    /// By unit: the number of the first root that needs it, from 1; 0 if it is not needed.
    root: Vec<u32>,
    /// Roots up to this number are the operator's.
    wished: u32,
}

impl NeededSet {
    pub(super) fn has(&self, unit: UnitId) -> bool {
        self.root.get(unit.index()).is_some_and(|root| *root != 0)
    }

    fn root(&self, unit: UnitId) -> u32 {
        self.root.get(unit.index()).copied().unwrap_or(0)
    }

    /// Searches the needed set. `stands` returns true if a unit is in a state. It is called for
    /// units in N and their providers, and for every unit with [`Occasion::Unfinished`].
    pub(super) fn search(
        generation: &Generation,
        graph: &Graph,
        wish: &Wish,
        stands: impl Fn(UnitId, Occasion) -> bool,
    ) -> NeededSet {
        let mut need = NeededSet { root: vec![0; generation.units.len()], wished: 0 };
        let mut late = Late::new();
        let mut number = 0;
        for name in wish.roots() {
            number += 1;
            let from = graph.meant(generation, name).unit();
            need.add_root(generation, graph, from, number, &stands, &mut late);
        }
        need.wished = number;
        for target in generation.roots.iter().flat_map(|(_, targets)| targets) {
            number += 1;
            let from = graph.provider(*target).unit();
            need.add_root(generation, graph, from, number, &stands, &mut late);
        }
        let is_provider = |unit: &UnitId| {
            let provides = generation.unit(*unit).into_iter().flat_map(|unit| &unit.provides);
            { provides }.any(|target| graph.provider(*target).unit() == Some(*unit))
        };
        let unfinished = generation.unit_ids().filter(|unit| stands(*unit, Occasion::Unfinished));
        let mut unfinished = unfinished.filter(is_provider);
        let mut lasting = BTreeSet::new();
        loop {
            let unit = match late.pop_first() {
                Some((by, unit, at_end)) => {
                    lasting.extend((!at_end).then_some((by, unit)));
                    unit
                }
                None => match unfinished.find(|unit| !need.has(*unit)) {
                    Some(unit) => unit,
                    None => break,
                },
            };
            need.add_root(generation, graph, Some(unit), BROUGHT, &stands, &mut late);
        }
        need.number(graph, number, lasting);
        need
    }

    /// Numbers the late roots after the first `number` ones: those of triggers and connections in
    /// the order of units. All others keep [`BROUGHT`]. So the numbers do not depend on the order
    /// of the search, and a second search gives the same.
    fn number(&mut self, graph: &Graph, mut number: u32, lasting: BTreeSet<(UnitId, UnitId)>) {
        for (_, unit) in lasting {
            number += 1;
            let mut queue = vec![unit];
            while let Some(unit) = queue.pop() {
                let root = self.root.get_mut(unit.index());
                if let Some(root) = root.filter(|root| **root == BROUGHT) {
                    *root = number;
                    let pulled = graph.edges(unit).iter().filter(|edge| edge.kind.pulls_in());
                    queue.extend(pulled.filter_map(|edge| edge.provider));
                }
            }
        }
    }

    fn add_root(
        &mut self,
        generation: &Generation,
        graph: &Graph,
        from: Option<UnitId>,
        number: u32,
        stands: &impl Fn(UnitId, Occasion) -> bool,
        late: &mut Late,
    ) {
        let mut queue: VecDeque<UnitId> = from.into_iter().collect();
        while let Some(unit) = queue.pop_front() {
            let Some(root) = self.root.get_mut(unit.index()).filter(|root| **root == 0) else {
                continue;
            };
            *root = number;
            let pulled = graph.edges(unit).iter().filter(|edge| edge.kind.pulls_in());
            queue.extend(pulled.filter_map(|edge| edge.provider));
            if let Some(target) = generation.unit(unit).and_then(|unit| unit.activates)
                && stands(unit, Occasion::Fired)
            {
                late.extend(
                    graph.provider(target).unit().map(|activated| (unit, activated, false)),
                );
            }
            for edge in graph.edges(unit) {
                let (Some(occasion), Some(provider)) = (Occasion::of(edge.kind), edge.provider)
                else {
                    continue;
                };
                let of_provider = occasion == Occasion::Connected;
                if stands(if of_provider { provider } else { unit }, occasion) {
                    late.insert((unit, provider, edge.kind.pulls_in_at_end()));
                }
            }
        }
    }

    /// Returns needed units that may not be up together: loser → winner. The heavier root wins;
    /// within one root, the first unit by name.
    pub(super) fn conflicts(&self, graph: &Graph) -> BTreeMap<UnitId, UnitId> {
        let count = u32::try_from(self.root.len()).unwrap_or(u32::MAX);
        let fighters = |unit: UnitId| {
            let edges = graph.edges(unit).iter();
            edges
                .filter(|edge| edge.kind == DependencyKind::Conflicts)
                .filter_map(|edge| edge.provider)
                .filter(|other| self.has(*other))
        };
        let mut involved: Vec<UnitId> = (0..count)
            .map(UnitId)
            .filter(|unit| self.has(*unit) && fighters(*unit).next().is_some())
            .collect();
        involved.sort_by_key(|unit| (self.root(*unit), *unit));
        let mut losers = BTreeMap::new();
        let mut stay = BTreeSet::new();
        for unit in involved {
            match fighters(unit).filter(|other| stay.contains(other)).min() {
                Some(winner) => {
                    losers.insert(unit, winner);
                }
                None => {
                    stay.insert(unit);
                }
            }
        }
        losers
    }

    /// Returns true if the unit is needed only because another unit failed or succeeded, or because
    /// the run that such an event started has not ended.
    pub(super) fn is_brought(&self, unit: UnitId) -> bool {
        self.root(unit) == BROUGHT
    }

    /// The unit is needed by the operator's wish, not only by a source or a trigger.
    pub(super) fn is_wished(&self, unit: UnitId) -> bool {
        (1..=self.wished).contains(&self.root(unit))
    }
}
