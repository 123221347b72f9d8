//! Computes the derived fields of every cell from the stored ones. This happens after a change of
//! goal, policy or generation, when a trigger fires or its activation ends, and when `on-failure`
//! or `on-success` changes the needed set. The cost grows with the generation.

use super::mutant::Mutant;
use super::needed_set::{NeededSet, Occasion};
use super::phase::{Form, Phase};
use super::propagation::{self, is_dead, spoils};
use super::{Ix, Machine};
use crate::graph::Graph;
use crate::spec::DependencyKind;
use crate::text::time::Time;
use crate::unit::generation::{Unit, UnitId};
use std::sync::Arc;

impl Machine {
    /// Searches the needed set N and derives everything that follows from it.
    pub(super) fn recompute(&mut self) {
        self.search_due = false;
        self.order_old_runs();
        let need = self.search();
        self.enter_and_leave(&need);
        let graph = Arc::clone(&self.graph);
        self.rank(&graph);
        self.require_stops(&graph);
        self.settle_definitions();
        self.find_holders();
        self.derive_facets(&graph);
        self.derive_counters(&graph);
    }

    /// Computes every derived field as if the step were over.
    pub(super) fn derive(&mut self) {
        self.slots = self.generation.settings.max_starting;
        self.triggers = self.find_triggers();
        self.rearm();
        self.recompute();
        self.touched.clear();
        for ix in self.all() {
            self.cell_mut(ix).touched = false;
        }
    }

    /// Searches N for the present wish; empty once a shutdown has started.
    pub(super) fn search(&self) -> NeededSet {
        let nothing = super::needed_set::Wish::default();
        if self.ending.is_some() && !self.planted(Mutant::ShutdownKeepsGoal) {
            let empty = crate::unit::generation::Generation::default();
            return NeededSet::search(&empty, &self.graph, &nothing, |_, _| false);
        }
        let stands = |unit: UnitId, occasion: Occasion| self.stands(unit.0, occasion);
        NeededSet::search(&self.generation, &self.graph, &self.wish, stands)
    }

    /// Returns true if the unit is in this state.
    pub(super) fn stands(&self, ix: Ix, occasion: Occasion) -> bool {
        let cell = self.cell(ix);
        match occasion {
            Occasion::Fired => cell.triggered && !self.planted(Mutant::FiringPullsNothing),
            Occasion::Connected => self.is_connected(ix),
            Occasion::Failed => cell.verdict && !self.planted(Mutant::FailurePullsNothing),
            Occasion::Unfinished => self.is_unfinished(ix),
            Occasion::Succeeded => {
                let skipped_too = self.planted(Mutant::SkippedIsSuccess);
                matches!(&cell.phase, Phase::Ready(_, Form::Exited { skipped, .. }, _)
                    if skipped.is_none() || skipped_too)
            }
        }
    }

    /// A failure or a success made the unit needed, and its run, which ends by itself, is still
    /// working.
    pub(super) fn is_unfinished(&self, ix: Ix) -> bool {
        let cell = self.cell(ix);
        let works = match &cell.phase {
            Phase::Starting(_, _) => true,
            Phase::Ready(_, form, _) => form.is_working(),
            Phase::Idle | Phase::Stopping(_, _) | Phase::Backoff(_) | Phase::Failed(_) => false,
        };
        let all = self.planted(Mutant::DaemonOutlivesCause);
        let finishes = |unit: &Unit| unit.finishes() || all && unit.kind.has_process();
        let cut = self.planted(Mutant::CauseTakesHandlerAlong);
        cell.brought && works && !cut && self.unit(ix).is_some_and(finishes)
    }

    fn enter_and_leave(&mut self, need: &NeededSet) {
        let graph = Arc::clone(&self.graph);
        let losers = need.conflicts(&graph);
        for ix in self.all() {
            let unit = UnitId(ix);
            let counted = self.planted(Mutant::NeedByReferenceCounts)
                && self.cell(ix).needed
                && graph
                    .back(unit)
                    .iter()
                    .any(|back| back.kind.pulls_in() && self.cell(back.dependent.0).needed);
            let needed = need.has(unit) || counted;
            let broken = graph.broken(unit).is_some();
            let winner = losers.get(&unit).and_then(|winner| self.generation.unit(*winner));
            let conflict = winner.and_then(|winner| winner.provides.first()).copied();
            let was = std::mem::replace(&mut self.cell_mut(ix).needed, needed);
            let cell = self.cell_mut(ix);
            cell.broken = broken;
            cell.conflict = conflict;
            cell.brought = need.is_brought(unit);
            if was && !needed && !self.planted(Mutant::LeavingForgivesNothing) {
                self.forgive(ix, true);
                let cell = self.cell_mut(ix);
                cell.triggered = false;
                cell.ended = Time::ZERO;
            }
            if needed && !was {
                let cell = self.cell_mut(ix);
                cell.untried = !matches!(cell.phase, Phase::Ready(_, _, _));
                // A failed stop is shown until the unit is needed again; it is no failure of the
                // next run.
                if matches!(cell.phase, Phase::Failed(_)) && cell.failures == 0 {
                    self.set_phase(ix, Phase::Idle);
                }
            }
            self.show_later(ix);
        }
        // A trigger that is not needed any more releases the unit it had activated.
        let lapsed = |cell: &super::cell::Cell| cell.triggered && !cell.needed;
        for ix in self.triggers.clone() {
            if lapsed(self.cell(ix)) {
                self.cell_mut(ix).triggered = false;
            }
        }
    }

    /// Ranks each unit by the longest chain of needed units that waits for it; longer chains start
    /// first.
    fn rank(&mut self, graph: &Graph) {
        for ix in self.all() {
            self.cell_mut(ix).rank = 0;
        }
        if self.planted(Mutant::StartsByNameOnly) {
            return;
        }
        for unit in graph.order().iter().rev() {
            if !self.cell(unit.0).needed {
                continue;
            }
            let next = self.cell(unit.0).rank.saturating_add(1);
            for edge in graph.edges(*unit).iter().filter(|edge| edge.kind.orders()) {
                if let Some(provider) = edge.provider {
                    let cell = self.cell_mut(provider.0);
                    cell.rank = cell.rank.max(next);
                }
            }
        }
    }

    /// Computes the least must_stop set, providers first.
    fn require_stops(&mut self, graph: &Graph) {
        if self.planted(Mutant::LossCleared) {
            for ix in self.all() {
                if let Some(run) = self.cell_mut(ix).phase.run_mut() {
                    run.lost = None;
                }
            }
        }
        for removed in self.removed_ixs() {
            let cell = self.cell_mut(removed);
            cell.must_stop = cell.phase.is_up();
        }
        for unit in graph.order() {
            let cell = self.cell(unit.0);
            let up = cell.phase.is_up();
            let of_itself = cell.phase.run().is_some_and(|run| {
                run.changed || run.restart || run.lost.is_some() || cell.phase.is_told()
            });
            let unwanted = !cell.needed || cell.conflict.is_some() || cell.broken;
            let must = up && (of_itself || unwanted || self.provider_stops(unit.0));
            self.cell_mut(unit.0).must_stop = must;
        }
    }

    /// Returns true if a depends-on target has no active provider. `Run::lost` is not enough,
    /// because the edge may be newer than the run.
    pub(super) fn lacks_provider(&self, ix: Ix) -> bool {
        let active = |provider: UnitId| {
            let phase = &self.cell(provider.0).phase;
            matches!(phase, Phase::Ready(_, _, _)) && !phase.is_over()
        };
        let mut edges = self.graph.edges(UnitId(ix)).iter();
        edges.any(|edge| {
            let is_lost = edge.provider.map_or(!edge.optional, |provider| !active(provider));
            edge.kind == DependencyKind::DependsOn && is_lost
        })
    }

    /// Returns true if a depends-on provider has to stop.
    pub(super) fn provider_stops(&self, ix: Ix) -> bool {
        let edges = self.graph.edges(UnitId(ix)).iter();
        let providers = edges.filter(|edge| edge.kind == DependencyKind::DependsOn);
        { providers }
            .filter_map(|edge| edge.provider)
            .any(|provider| self.cell(provider.0).must_stop)
    }

    fn derive_facets(&mut self, graph: &Graph) {
        for removed in self.removed_ixs() {
            // A removed unit has no dependencies.
            self.cell_mut(removed).failed_deps = 0;
            let facets = self.facets(removed);
            self.cell_mut(removed).facets = facets;
        }
        for unit in graph.order() {
            let bad = graph.edges(*unit).iter().filter(|edge| match edge.provider {
                Some(provider) => spoils(edge.kind, self.cell(provider.0).facets),
                None => is_dead(edge),
            });
            let bad = u32::try_from(bad.count()).unwrap_or(u32::MAX);
            self.cell_mut(unit.0).failed_deps = bad;
            let facets = self.facets(unit.0);
            self.cell_mut(unit.0).facets = facets;
        }
    }

    fn derive_counters(&mut self, graph: &Graph) {
        self.queue.clear();
        self.may_start.clear();
        self.may_start_freely.clear();
        self.may_stop.clear();
        for ix in self.all() {
            let closed = graph.edges(UnitId(ix)).iter().filter(|edge| match edge.provider {
                Some(provider) => self.closes(edge.kind, self.cell(provider.0).facets),
                None => is_dead(edge),
            });
            let closed = u32::try_from(closed.count()).unwrap_or(u32::MAX);
            let cell = self.cell_mut(ix);
            cell.closed_gates = closed;
            cell.dependents_up = 0;
            cell.queued = false;
        }
        for held_up in self.holders.values().flatten().copied().collect::<Vec<Ix>>() {
            let cell = self.cell_mut(held_up);
            cell.closed_gates = cell.closed_gates.saturating_add(1);
        }
        for (holder, followers) in self.followers.clone() {
            if self.cell(holder).facets & propagation::STOPPING != 0 {
                for follower in followers {
                    let cell = self.cell_mut(follower);
                    cell.closed_gates = cell.closed_gates.saturating_add(1);
                }
            }
        }
        for ix in self.all() {
            if self.cell(ix).facets & propagation::STOPPING != 0 {
                for provider in self.order_providers(ix) {
                    let cell = self.cell_mut(provider);
                    cell.dependents_up = cell.dependents_up.saturating_add(1);
                }
            }
        }
        for ix in self.all() {
            self.review(ix);
        }
    }
}
