//! Providers and dependencies of a set of definitions under a policy, computed from scratch each
//! time. The oracle and the invariants use it; it shares nothing with [`crate::graph`]. Target ids
//! are the numbers of the universe's targets, because every generation lists them all.

use crate::simulator::set::Set;
use crate::spec::DependencyKind as D;
use crate::text::name::Name;
use crate::unit::generation::{Generation, Unit};
use crate::unit::policy::Policy;
use std::sync::Arc;

/// All names of a world, sorted. Unit and target numbers are indices into these, and so survive a
/// reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Universe {
    /// The names, at most 64.
    pub units: Vec<Name>,
    /// The names, at most 64.
    pub targets: Vec<Name>,
}

impl Universe {
    /// Returns the number of a unit.
    pub fn unit(&self, name: &Name) -> Option<usize> {
        self.units.binary_search(name).ok()
    }

    /// Returns the number of a target.
    pub fn target(&self, name: &Name) -> Option<usize> {
        self.targets.binary_search(name).ok()
    }

    /// Returns the definitions of a generation by number; unchanged ones are shared with the old
    /// generation.
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

/// One dependency of a unit. `before` is reversed to `After`; `wanted-by` and `required-by` become
/// the edges they add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The provider of the target; `None` if there is none or all are masked.
    pub to: Option<usize>,
    /// The kind; never `Before`.
    pub kind: D,
    /// The target.
    pub target: usize,
    /// The dependency is optional, written `t?`.
    pub optional: bool,
}

/// The graph at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Broken units: their text is no unit, they are on a ring, or they claim a target of another
    /// unit.
    pub broken: Set,
    /// The selected provider, by target.
    pub provider: Vec<Option<usize>>,
    /// Targets that are masked, or that only masked units provide.
    pub hidden: Set,
    /// The dependencies by dependent.
    pub edges: Vec<Vec<Edge>>,
}

impl Graph {
    /// Resolves `units` under `policy`, with the overlay's `drop` as additional masks.
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
            let seen =
                if unit.has_synonyms { hidden == 0 } else { targets.any(|it| !is_masked(it)) };
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
                let has_no_provider = |target: &usize| graph.provider[*target].is_none();
                let masked = unit.activates.map(|target| target.index()).filter(has_no_provider);
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
            // A conflict applies in both directions.
            graph.edges[unit].retain(|edge| edge.kind == D::Conflicts);
        }
        graph
    }

    /// Adds the edges that the lists of `me` name.
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

    /// Adds the edges that `me`, broken or not, gives to other units.
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

    /// Returns the edges of `unit`.
    pub fn of(&self, unit: usize) -> impl Iterator<Item = &Edge> {
        self.edges.get(unit).into_iter().flatten()
    }

    /// Returns every edge with its dependent.
    pub fn all(&self) -> impl Iterator<Item = (usize, &Edge)> {
        self.edges.iter().enumerate().flat_map(|(from, edges)| edges.iter().map(move |e| (from, e)))
    }

    /// Returns the providers of `unit` through edges of these kinds.
    pub fn to(&self, unit: usize, kinds: impl Fn(D) -> bool) -> Set {
        self.edges[unit].iter().filter(|edge| kinds(edge.kind)).filter_map(|edge| edge.to).collect()
    }

    /// Returns the units with an edge of this kind to `unit`.
    pub fn from(&self, unit: usize, kind: D) -> Set {
        let leans = |edge: &Edge| edge.kind == kind && edge.to == Some(unit);
        (0..self.edges.len()).filter(|other| self.edges[*other].iter().any(leans)).collect()
    }

    /// Returns the targets that `unit` is selected to provide.
    pub fn selected(&self, unit: usize) -> Set {
        let mine = |target: &usize| self.provider[*target] == Some(unit);
        (0..self.provider.len()).filter(mine).collect()
    }

    /// Returns, by unit, the length of the longest chain of `needed` units ordered after it.
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

    /// Returns `units` with all units that they pull in.
    pub fn closure(&self, units: Set) -> Set {
        units.least(|all| all.union(|unit| self.to(unit, D::pulls_in)))
    }

    /// Returns true if the two conflict.
    pub fn conflict(&self, a: usize, b: usize) -> bool {
        let one_way = |a: usize, b| self.to(a, |kind| kind == D::Conflicts).has(b);
        a != b && (one_way(a, b) || one_way(b, a))
    }

    /// Returns the units on rings of ordering edges.
    fn rings(&self) -> Set {
        let behind = |unit: usize| self.to(unit, D::orders).less(self.broken);
        let on_ring = |unit: &usize| behind(*unit).least(|all| all.union(behind)).has(*unit);
        (0..self.edges.len()).filter(|unit| !self.broken.has(*unit)).filter(on_ring).collect()
    }
}
