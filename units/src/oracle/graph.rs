//! Who provides what and who depends on whom, at one moment: a generation seen
//! through a policy. Computed anew from the two each time; nothing is stored.
//! Read on in [`crate::oracle`].

use crate::generation::{Generation, Unit};
use crate::name::Name;
use crate::oracle::set::Set;
use crate::policy::Policy;
use crate::spec::DependencyKind;

/// All names a world ever has, sorted: the oracle's unit and target numbers are
/// indexes into these, and so outlive a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Universe {
    /// At most 64.
    pub units: Vec<Name>,
    /// Any number.
    pub targets: Vec<Name>,
}

impl Universe {
    /// The number of a unit's name.
    pub fn unit(&self, name: &Name) -> Option<usize> {
        self.units.binary_search(name).ok()
    }

    /// The number of a target's name.
    pub fn target(&self, name: &Name) -> Option<usize> {
        self.targets.binary_search(name).ok()
    }
}

/// One dependency of `from`. `before` stands here the other way round, as `After`;
/// `wanted-by` and `required-by` as the edges they add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The dependent.
    pub from: usize,
    /// The target's provider: none when nobody, or only masked ones.
    pub to: Option<usize>,
    /// Never `Before`.
    pub kind: DependencyKind,
    /// The target.
    pub target: usize,
    /// `t?`.
    pub optional: bool,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// In the generation.
    pub present: Set,
    /// By policy or overlay.
    pub masked: Set,
    /// Their text is no unit, or they are on a ring, or claim a target that others claim too.
    pub broken: Set,
    /// Place in [`Generation::units`], by unit.
    pub place: Vec<usize>,
    /// The selected provider, by target.
    pub provider: Vec<Option<usize>>,
    /// Nobody but masked units provides it, by target.
    pub hidden: Vec<bool>,
    /// All edges.
    pub edges: Vec<Edge>,
}

impl Graph {
    /// What `generation` means under `policy`, with the overlay's `drop` as more masks.
    pub fn new(
        universe: &Universe,
        generation: &Generation,
        policy: &Policy,
        drop: &[Name],
    ) -> Graph {
        let mut graph = Graph {
            place: vec![usize::MAX; universe.units.len()],
            provider: vec![None; universe.targets.len()],
            hidden: vec![false; universe.targets.len()],
            ..Graph::default()
        };
        let number = |unit: &Unit| universe.unit(&unit.name);
        for (place, unit) in generation.units.iter().enumerate() {
            let Some(me) = number(unit) else { continue };
            graph.present.add(me);
            graph.place[me] = place;
            if unit.fault.is_some() {
                graph.broken.add(me);
            }
            let named = |name: &Name| policy.mask.contains(name) || drop.contains(name);
            let mut targets = unit.provides.iter().filter_map(|id| generation.target(*id));
            if named(&unit.name) || targets.all(|target| named(&target.name)) {
                graph.masked.add(me);
            }
        }
        for target in &generation.targets {
            let Some(at) = universe.target(&target.name) else { continue };
            let units = target
                .candidates
                .iter()
                .filter_map(|id| generation.units.get(id.0 as usize).and_then(number));
            let all: Vec<usize> = units.collect();
            let hidden = policy.mask.contains(&target.name) || drop.contains(&target.name);
            let open: Vec<usize> =
                all.iter().copied().filter(|u| !hidden && !graph.masked.has(*u)).collect();
            let preferred = policy.prefer.get(&target.name).and_then(|name| universe.unit(name));
            graph.hidden[at] = open.is_empty() && !all.is_empty();
            graph.provider[at] = match open.as_slice() {
                [] => None,
                [one] => Some(*one),
                several => {
                    let chosen = preferred.filter(|unit| several.contains(unit));
                    if chosen.is_none() {
                        graph.broken = graph.broken.or(several.iter().copied().collect());
                    }
                    chosen.or(open.first().copied())
                }
            };
        }
        graph.connect(universe, generation, policy);
        graph
    }

    fn connect(&mut self, universe: &Universe, generation: &Generation, policy: &Policy) {
        let target_of = |id: crate::generation::TargetId| {
            generation.targets.get(id.0 as usize).and_then(|target| universe.target(&target.name))
        };
        for unit in &generation.units {
            let Some(me) = universe.unit(&unit.name) else { continue };
            if unit.fault.is_some() {
                continue;
            }
            for dependency in &unit.dependencies {
                let Some(target) = target_of(dependency.target) else { continue };
                let to = self.provider[target];
                let optional = dependency.optional;
                let himself = to == Some(me) && !dependency.kind.orders();
                if himself {
                    continue;
                }
                if dependency.kind == DependencyKind::Before {
                    if let Some(other) = to.filter(|_| !self.masked.has(me)) {
                        let own = unit.provides.first().copied().and_then(target_of);
                        self.edges.push(Edge {
                            from: other,
                            to: Some(me),
                            kind: DependencyKind::After,
                            target: own.unwrap_or(target),
                            optional,
                        });
                    }
                } else {
                    self.edges.push(Edge { from: me, to, kind: dependency.kind, target, optional });
                }
            }
            let enabled = if unit_in(generation, unit, &policy.disable) {
                false
            } else {
                unit_in(generation, unit, &policy.enable) || generation.settings.enabled_by_default
            };
            if !enabled || self.masked.has(me) {
                continue;
            }
            for (list, kind) in [
                (&unit.wanted_by, DependencyKind::WaitsFor),
                (&unit.required_by, DependencyKind::DependsMs),
            ] {
                for from in list.iter().filter_map(|id| target_of(*id)) {
                    let Some(from) = self.provider[from] else { continue };
                    for target in unit.provides.iter().filter_map(|id| target_of(*id)) {
                        let to = self.provider[target];
                        if from != me && to != Some(from) {
                            self.edges.push(Edge { from, to, kind, target, optional: true });
                        }
                    }
                }
            }
        }
        self.edges.sort();
        let broken = self.broken.or(self.rings());
        self.broken = broken;
        // A conflict holds from the other side too.
        let kept = |edge: &Edge| edge.kind == DependencyKind::Conflicts || !broken.has(edge.from);
        self.edges.retain(kept);
        self.edges.dedup();
    }

    /// The edges that `unit` has.
    pub fn of(&self, unit: usize) -> impl Iterator<Item = &Edge> {
        let first = self.edges.partition_point(|edge| edge.from < unit);
        self.edges[first..].iter().take_while(move |edge| edge.from == unit)
    }

    /// The two exclude each other.
    pub fn conflict(&self, a: usize, b: usize) -> bool {
        let one_way = |a, b| {
            self.of(a).any(|edge| edge.kind == DependencyKind::Conflicts && edge.to == Some(b))
        };
        a != b && (one_way(a, b) || one_way(b, a))
    }

    /// Usable units on a ring of ordering edges.
    fn rings(&self) -> Set {
        let usable: Set = (0..self.place.len()).filter(|unit| !self.broken.has(*unit)).collect();
        let behind = |unit: usize| -> Set {
            let orders = self.of(unit).filter(|edge| edge.kind.orders());
            orders.filter_map(|edge| edge.to).collect::<Set>().and(usable)
        };
        let on_ring = |unit: &usize| {
            let mut seen = behind(*unit);
            loop {
                let next = seen.iter().fold(seen, |all, other| all.or(behind(other)));
                if next.has(*unit) || next == seen {
                    return next.has(*unit);
                }
                seen = next;
            }
        };
        usable.iter().filter(on_ring).collect()
    }
}

/// One of the names is the unit's, or a target's of it.
fn unit_in(generation: &Generation, unit: &Unit, names: &std::collections::BTreeSet<Name>) -> bool {
    let mut targets = unit.provides.iter().filter_map(|id| generation.target(*id));
    names.contains(&unit.name) || targets.any(|target| names.contains(&target.name))
}
