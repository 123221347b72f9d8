//! The stop order of runs started under an earlier graph. It has the present edges, and those that
//! each up run was started with, in the order of the units' names. An edge that would close a ring
//! is left out. It is a topological order repaired edge by edge (after Pearce and Kelly), so a
//! whole reload costs little.

use super::{Ix, Machine};
use crate::graph::Graph;
use crate::text::name::Name;
use crate::unit::generation::UnitId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

struct Order<'a> {
    graph: &'a Graph,
    /// Position of each unit; providers come before dependents.
    place: Vec<u32>,
    /// dependent → providers.
    added: BTreeMap<Ix, Vec<Ix>>,
    /// provider → dependents.
    added_back: BTreeMap<Ix, Vec<Ix>>,
    /// An edge was left out.
    cut: bool,
}

impl Machine {
    /// Derives the additional edges from those that up runs remember.
    pub(super) fn order_old_runs(&mut self) {
        self.stop_order.clear();
        self.stop_order_cut = false;
        let mut remembered: Vec<_> = self
            .runs
            .values()
            .filter_map(|ix| Some((self.key(*ix), self.cell(*ix).phase.run()?.order.clone()?)))
            .collect();
        if remembered.is_empty() {
            return;
        }
        remembered.sort_by_key(|(key, _)| *key);
        let graph = Arc::clone(&self.graph);
        let mut order = Order::new(&graph, self.cells.len());
        for ((_, _, ix), providers) in remembered {
            for name in providers.iter() {
                if let Some(provider) = self.index_of(name).filter(|provider| *provider != ix) {
                    order.add(ix, provider);
                }
            }
        }
        self.stop_order_cut = order.cut;
        self.stop_order = order.added;
    }

    /// Finds the index of a unit by name, up runs of removed units included.
    pub(super) fn index_of(&self, name: &Name) -> Option<Ix> {
        if let Some(unit) = self.generation.find_unit(name.as_str()) {
            return Some(unit.0);
        }
        let removed = self.removed_units.binary_search(name).ok()?;
        u32::try_from(self.generation.units.len() + removed).ok()
    }
}

impl<'a> Order<'a> {
    fn new(graph: &'a Graph, count: usize) -> Order<'a> {
        let mut place = vec![0; count];
        let removed = (0u32..).take(count).map(UnitId).skip(graph.order().len());
        for (number, unit) in (0u32..).zip(graph.order().iter().copied().chain(removed)) {
            if let Some(slot) = place.get_mut(unit.index()) {
                *slot = number;
            }
        }
        Order { graph, place, added: BTreeMap::new(), added_back: BTreeMap::new(), cut: false }
    }

    fn place(&self, ix: Ix) -> u32 {
        self.place.get(ix as usize).copied().unwrap_or(0)
    }

    fn providers(&self, ix: Ix) -> Vec<Ix> {
        let edges = self.graph.edges(UnitId(ix)).iter().filter(|edge| edge.kind.orders());
        let present = edges.filter_map(|edge| edge.provider).map(|unit| unit.0);
        present.chain(self.added.get(&ix).into_iter().flatten().copied()).collect()
    }

    fn dependents(&self, ix: Ix) -> Vec<Ix> {
        let back = self.graph.back(UnitId(ix)).iter().filter(|back| back.kind.orders());
        let present = back.map(|back| back.dependent.0);
        present.chain(self.added_back.get(&ix).into_iter().flatten().copied()).collect()
    }

    /// Adds an edge unless it exists already or would close a ring.
    fn add(&mut self, dependent: Ix, provider: Ix) {
        if self.providers(dependent).contains(&provider) {
            return;
        }
        if self.place(provider) > self.place(dependent) && !self.make_room(dependent, provider) {
            self.cut = true;
            return;
        }
        self.added.entry(dependent).or_default().push(provider);
        self.added_back.entry(provider).or_default().push(dependent);
    }

    /// Moves the provider and its own providers before the dependent and the dependent's
    /// dependents. Returns false if the provider needs the dependent.
    fn make_room(&mut self, dependent: Ix, provider: Ix) -> bool {
        let (low, high) = (self.place(dependent), self.place(provider));
        let after = self.reach(dependent, |order, ix| order.dependents(ix), low, high);
        if after.contains(&provider) {
            return false;
        }
        let before = self.reach(provider, |order, ix| order.providers(ix), low, high);
        let by_place = |set: BTreeSet<Ix>| {
            let mut list: Vec<Ix> = set.into_iter().collect();
            list.sort_by_key(|ix| self.place(*ix));
            list
        };
        let moved: Vec<Ix> = by_place(before).into_iter().chain(by_place(after)).collect();
        let mut places: Vec<u32> = moved.iter().map(|ix| self.place(*ix)).collect();
        places.sort_unstable();
        for (ix, place) in moved.into_iter().zip(places) {
            if let Some(slot) = self.place.get_mut(ix as usize) {
                *slot = place;
            }
        }
        true
    }

    fn reach(
        &self,
        from: Ix,
        next: impl Fn(&Order<'_>, Ix) -> Vec<Ix>,
        low: u32,
        high: u32,
    ) -> BTreeSet<Ix> {
        let mut seen = BTreeSet::from([from]);
        let mut stack = vec![from];
        while let Some(ix) = stack.pop() {
            for other in next(self, ix) {
                if (low..=high).contains(&self.place(other)) && seen.insert(other) {
                    stack.push(other);
                }
            }
        }
        seen
    }
}
