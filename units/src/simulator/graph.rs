//! Who provides what and who depends on whom, at one moment: a set of definitions
//! seen through a policy, computed anew from the two each time. The map that the oracle
//! and the invariants read; shares nothing with [`crate::graph`]. Target ids are the
//! numbers of the universe's targets: every generation drawn lists them all.

use crate::simulator::set::Set;
use crate::spec::DependencyKind as D;
use crate::text::name::Name;
use crate::unit::generation::{Generation, Unit};
use crate::unit::policy::Policy;
use std::sync::Arc;

/// All names a world ever has, sorted: unit and target numbers are indexes into these,
/// and so outlive a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Universe {
    /// At most 64.
    pub units: Vec<Name>,
    /// At most 64.
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

    /// The definitions of a generation, by number; those that did not change are the old ones.
    pub fn definitions(
        &self,
        generation: &Generation,
        old: &[Option<Arc<Unit>>],
    ) -> Vec<Option<Arc<Unit>>> {
        let mut definitions = vec![None; self.units.len()];
        for unit in &generation.units {
            let Some(me) = self.unit(&unit.name) else { continue };
            let kept = old[me].clone().filter(|old| **old == *unit);
            definitions[me] = Some(kept.unwrap_or_else(|| Arc::new(unit.clone())));
        }
        definitions
    }
}

/// One dependency of a unit. `before` stands here the other way round, as `After`;
/// `wanted-by` and `required-by` as the edges they add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The target's provider: none when nobody, or only masked ones.
    pub to: Option<usize>,
    /// Never `Before`.
    pub kind: D,
    /// The target.
    pub target: usize,
    /// `t?`.
    pub optional: bool,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Their text is no unit, or they are on a ring, or claim a target that others claim too.
    pub broken: Set,
    /// The selected provider, by target.
    pub provider: Vec<Option<usize>>,
    /// Targets that nobody but masked units provides.
    pub hidden: Set,
    /// By dependent.
    pub edges: Vec<Vec<Edge>>,
}

impl Graph {
    /// What `units` mean under `policy`, with the overlay's `drop` as more masks.
    pub fn new(
        universe: &Universe,
        units: &[Option<Arc<Unit>>],
        policy: &Policy,
        drop: &[Name],
        enabled_by_default: bool,
    ) -> Graph {
        let each = || units.iter().enumerate().filter_map(|(me, unit)| Some((me, unit.as_ref()?)));
        let is_masked = |name: &Name| policy.mask.contains(name) || drop.contains(name);
        let any = |unit: &Unit, hit: &dyn Fn(&Name) -> bool| {
            hit(&unit.name) || unit.provides.iter().any(|t| hit(&universe.targets[t.index()]))
        };
        let seen = |unit: &Unit| {
            let mut targets = unit.provides.iter().map(|t| &universe.targets[t.index()]);
            let hidden = targets.clone().filter(|target| is_masked(target)).count();
            let seen = if unit.is_one { hidden == 0 } else { targets.any(|it| !is_masked(it)) };
            !is_masked(&unit.name) && seen
        };
        let unmasked: Set = each().filter(|(_, unit)| seen(unit)).map(|(me, _)| me).collect();
        let mut graph = Graph {
            broken: each().filter(|(_, unit)| unit.fault.is_some()).map(|(me, _)| me).collect(),
            edges: vec![Vec::new(); units.len()],
            ..Graph::default()
        };
        for (target, name) in universe.targets.iter().enumerate() {
            let claims = |unit: &Unit| unit.provides.iter().any(|t| t.index() == target);
            let all: Set = each().filter(|(_, unit)| claims(unit)).map(|(me, _)| me).collect();
            let open = if is_masked(name) { Set::EMPTY } else { all.and(unmasked) };
            let preferred = policy.prefer.get(name).and_then(|name| universe.unit(name));
            let preferred = preferred.filter(|unit| open.has(*unit));
            if open.len() > 1 && preferred.is_none() {
                graph.broken = graph.broken.or(open);
            }
            if open.is_empty() && !all.is_empty() {
                graph.hidden.add(target);
            }
            graph.provider.push(preferred.or(open.iter().next()));
        }
        for (me, unit) in each() {
            let disabled = any(unit, &|name| policy.disable.contains(name));
            let enabled = enabled_by_default || any(unit, &|name| policy.enable.contains(name));
            if unit.fault.is_none() {
                graph.connect(me, unit, unmasked.has(me));
                let nobody = |target: &usize| graph.provider[*target].is_none();
                let masked = unit.activates.map(|target| target.index()).filter(nobody);
                let edge = |target| Edge { to: None, kind: D::DependsOn, target, optional: false };
                graph.edges[me].extend(masked.map(edge));
            }
            if enabled && !disabled && unmasked.has(me) {
                graph.install(me, unit);
            }
        }
        for edges in &mut graph.edges {
            edges.sort();
            edges.dedup();
        }
        graph.broken = graph.broken.or(graph.rings());
        for unit in graph.broken.iter() {
            // A conflict holds from the other side too.
            graph.edges[unit].retain(|edge| edge.kind == D::Conflicts);
        }
        graph
    }

    /// The edges that the lists of `me` say.
    fn connect(&mut self, me: usize, unit: &Unit, unmasked: bool) {
        for dependency in &unit.dependencies {
            let (kind, target) = (dependency.kind, dependency.target.index());
            let (to, optional) = (self.provider[target], dependency.optional);
            match (kind, to) {
                (D::Before, Some(other)) if unmasked => {
                    let target = unit.provides.first().map_or(target, |own| own.index());
                    self.edges[other].push(Edge { to: Some(me), kind: D::After, target, optional });
                }
                (D::Before, _) => {}
                (_, Some(to)) if to == me && !kind.orders() => {}
                _ => self.edges[me].push(Edge { to, kind, target, optional }),
            }
        }
    }

    /// The edges that others have for `me`'s sake, broken or not.
    fn install(&mut self, me: usize, unit: &Unit) {
        let lists = [
            (&unit.wanted_by, D::WaitsFor),
            (&unit.required_by, D::DependsMs),
            (&unit.pulled_by, D::Wants),
        ];
        for (list, kind) in lists {
            for from in list.iter().filter_map(|target| self.provider[target.index()]) {
                for target in unit.provides.iter().map(|target| target.index()) {
                    let to = self.provider[target];
                    if from != me && to != Some(from) {
                        self.edges[from].push(Edge { to, kind, target, optional: true });
                    }
                }
            }
        }
    }

    /// The edges that `unit` has.
    pub fn of(&self, unit: usize) -> impl Iterator<Item = &Edge> {
        self.edges.get(unit).into_iter().flatten()
    }

    /// Every edge, with its dependent.
    pub fn all(&self) -> impl Iterator<Item = (usize, &Edge)> {
        self.edges.iter().enumerate().flat_map(|(from, edges)| edges.iter().map(move |e| (from, e)))
    }

    /// The providers that `unit` has by edges of these kinds.
    pub fn to(&self, unit: usize, kinds: impl Fn(D) -> bool) -> Set {
        self.edges[unit].iter().filter(|edge| kinds(edge.kind)).filter_map(|edge| edge.to).collect()
    }

    /// Those that have an edge of this kind to `unit`.
    pub fn from(&self, unit: usize, kind: D) -> Set {
        let leans = |edge: &Edge| edge.kind == kind && edge.to == Some(unit);
        (0..self.edges.len()).filter(|other| self.edges[*other].iter().any(leans)).collect()
    }

    /// Targets that `unit` is the selected provider of.
    pub fn selected(&self, unit: usize) -> Set {
        let mine = |target: &usize| self.provider[*target] == Some(unit);
        (0..self.provider.len()).filter(mine).collect()
    }

    /// By unit, how long the longest chain of `needed` units that come after it is.
    pub fn chains(&self, needed: Set) -> Vec<u32> {
        let mut chain = vec![0; self.edges.len()];
        for _ in 0..chain.len() {
            for unit in needed.iter() {
                let longer = chain[unit] + 1;
                self.to(unit, D::orders).iter().for_each(|to| chain[to] = longer.max(chain[to]));
            }
        }
        chain
    }

    /// `units` with all that they pull in.
    pub fn closure(&self, units: Set) -> Set {
        units.least(|all| all.union(|unit| self.to(unit, D::pulls_in)))
    }

    /// The two exclude each other.
    pub fn conflict(&self, a: usize, b: usize) -> bool {
        let one_way = |a: usize, b| self.to(a, |kind| kind == D::Conflicts).has(b);
        a != b && (one_way(a, b) || one_way(b, a))
    }

    /// Units on a ring of ordering edges.
    fn rings(&self) -> Set {
        let behind = |unit: usize| self.to(unit, D::orders).less(self.broken);
        let on_ring = |unit: &usize| behind(*unit).least(|all| all.union(behind)).has(*unit);
        (0..self.edges.len()).filter(|unit| !self.broken.has(*unit)).filter(on_ring).collect()
    }
}
