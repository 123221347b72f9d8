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
    /// Their text is no unit.
    pub broken: Set,
    /// Place in [`Generation::units`], by unit.
    pub place: Vec<usize>,
    /// The selected provider, by target.
    pub provider: Vec<Option<usize>>,
    /// Nobody but masked units provides it, by target.
    pub hidden: Vec<bool>,
    /// All edges.
    pub edges: Vec<Edge>,
    /// Targets that several unmasked units claim and no `prefer` decides.
    pub double: Vec<usize>,
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
            if policy.mask.iter().chain(drop).any(|name| named(generation, unit, name)) {
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
            let open: Vec<usize> =
                all.iter().copied().filter(|unit| !graph.masked.has(*unit)).collect();
            let preferred = policy.prefer.get(&target.name).and_then(|name| universe.unit(name));
            graph.hidden[at] = open.is_empty() && !all.is_empty();
            graph.provider[at] = match open.as_slice() {
                [] => None,
                [one] => Some(*one),
                several => {
                    let chosen = preferred.filter(|unit| several.contains(unit));
                    if chosen.is_none() {
                        graph.double.push(at);
                    }
                    chosen
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
        let broken = self.broken;
        self.edges.retain(|edge| !broken.has(edge.from));
        self.edges.sort();
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

    /// Units on, or behind, a ring of ordering edges.
    pub fn ring(&self) -> Set {
        let mut left: Set = (0..self.place.len()).collect();
        loop {
            let free = left.iter().find(|unit| {
                !self.of(*unit).any(|edge| {
                    edge.kind.orders() && edge.to.is_some_and(|provider| left.has(provider))
                })
            });
            match free {
                Some(unit) => left = left.less(Set::EMPTY.with(unit)),
                None => return left,
            }
        }
    }
}

/// `name` means `unit`: a target of it, or its own name where no target is called so.
fn named(generation: &Generation, unit: &Unit, name: &Name) -> bool {
    let target = generation
        .targets
        .iter()
        .find(|target| target.name == *name && !target.candidates.is_empty());
    match target {
        Some(target) => target.candidates.iter().any(|id| {
            generation.units.get(id.0 as usize).is_some_and(|other| other.name == unit.name)
        }),
        None => unit.name == *name,
    }
}

fn unit_in(generation: &Generation, unit: &Unit, names: &std::collections::BTreeSet<Name>) -> bool {
    names.iter().any(|name| named(generation, unit, name))
}
