//! How a change of one unit reaches its neighbours.
//!
//! Each unit shows its neighbours a few bits, its *facets*. If one changes, the edges to the
//! neighbours are walked once and their counters (closed gates, failed hard dependencies,
//! dependents still up) change by one. A unit whose counter reaches or leaves zero enters the
//! worklist. The cost of an event therefore follows the units it touches, and nothing recurses.

use super::mutant::Mutant;
use super::needed_set::Occasion;
use super::phase::Phase;
use super::{Ix, Machine};
use crate::graph::Edge;
use crate::spec::DependencyKind;
use crate::unit::generation::UnitId;
use std::cmp::Reverse;
use std::sync::Arc;

/// The unit is needed.
pub(super) const NEEDED: u16 = 1;
/// The unit is starting, active or stopping.
pub(super) const UP: u16 = 1 << 1;
/// The run is active and not over, even if it has to stop.
pub(super) const READY: u16 = 1 << 2;
/// The run is active and does not have to stop: opens depends-ms and, unless the run is [`OVER`],
/// requires-active.
pub(super) const ACTIVE: u16 = 1 << 3;
/// The run is [`ACTIVE`], was not skipped and is not over: opens depends-on.
pub(super) const SOLID: u16 = 1 << 4;
/// Opens waits-for.
pub(super) const SETTLED: u16 = 1 << 5;
/// The unit makes hard dependents failed (dependency).
pub(super) const FAILED: u16 = 1 << 6;
/// The unit is up, has to stop, and its run is not unkillable.
pub(super) const STOPPING: u16 = 1 << 7;
/// The unit has to stop.
pub(super) const MUST_STOP: u16 = 1 << 8;

/// The unit has a verdict.
pub(super) const ALARM: u16 = 1 << 9;
/// The unit has exited and was not skipped.
pub(super) const DONE: u16 = 1 << 10;
/// The run has succeeded and is over: a success for units ordered after it, but not active.
pub(super) const OVER: u16 = 1 << 11;

/// See [`Occasion::Unfinished`].
pub(super) const UNFINISHED: u16 = 1 << 12;

/// Returns true if an edge of this kind to a provider with these facets keeps the dependent from
/// starting.
pub(super) fn closes(kind: DependencyKind, facets: u16) -> bool {
    match kind {
        DependencyKind::DependsOn => facets & SOLID == 0,
        DependencyKind::DependsMs => facets & ACTIVE == 0,
        DependencyKind::WaitsFor => facets & SETTLED == 0,
        DependencyKind::After => facets & NEEDED != 0 && facets & SETTLED == 0,
        DependencyKind::RestartWith => facets & STOPPING != 0,
        DependencyKind::Conflicts => facets & UP != 0,
        DependencyKind::RequiresActive => facets & ACTIVE == 0 || facets & OVER != 0,
        DependencyKind::Wants
        | DependencyKind::Before
        | DependencyKind::ReloadWith
        | DependencyKind::OnFailure
        | DependencyKind::OnSuccess
        | DependencyKind::Accepts => false,
    }
}

/// Returns true if an edge of this kind to a provider with these facets makes the dependent failed
/// (dependency).
pub(super) fn spoils(kind: DependencyKind, facets: u16) -> bool {
    let (failed, over) = (facets & FAILED != 0, facets & OVER != 0);
    match kind {
        DependencyKind::DependsOn => failed || over,
        DependencyKind::DependsMs => failed,
        // Nothing starts the provider.
        DependencyKind::RequiresActive => {
            over || facets & ACTIVE == 0 && (failed || facets & NEEDED == 0)
        }
        DependencyKind::WaitsFor
        | DependencyKind::Wants
        | DependencyKind::After
        | DependencyKind::Before
        | DependencyKind::RestartWith
        | DependencyKind::Conflicts
        | DependencyKind::ReloadWith
        | DependencyKind::OnFailure
        | DependencyKind::OnSuccess
        | DependencyKind::Accepts => false,
    }
}

/// The dependent cannot start without the provider.
pub(super) fn is_hard(kind: DependencyKind) -> bool {
    matches!(
        kind,
        DependencyKind::DependsOn | DependencyKind::DependsMs | DependencyKind::RequiresActive
    )
}

/// Returns true for an edge without a provider that can never be satisfied.
pub(super) fn is_dead(edge: &Edge) -> bool {
    edge.provider.is_none() && is_hard(edge.kind) && !edge.optional
}

fn step(count: &mut u32, was: bool, is: bool) -> bool {
    match (was, is) {
        (false, true) => {
            *count = count.saturating_add(1);
            *count == 1
        }
        (true, false) => {
            *count = count.saturating_sub(1);
            *count == 0
        }
        (true, true) | (false, false) => false,
    }
}

impl Machine {
    /// Computes the facets of a unit from its own state and its counters.
    pub(super) fn facets(&self, ix: Ix) -> u16 {
        let cell = self.cell(ix);
        let up = cell.phase.is_up();
        let hopeless = cell.phase.is_hopeless();
        let must = up && cell.must_stop;
        let over = cell.phase.is_over() && !self.planted(Mutant::OverSatisfiesHard);
        let ready = matches!(cell.phase, Phase::Ready(_, _, _));
        let skipped = cell.phase.is_skipped();
        let active = ready && !must;
        let own = cell.broken || cell.conflict.is_some() || matches!(cell.phase, Phase::Failed(_));
        let by_others = cell.needed && cell.failed_deps > 0;
        let failed = cell.verdict || hopeless || (!up && (own || by_others));
        let settled = active || (failed && !(up && self.planted(Mutant::VerdictHoldsWaits)));
        let done = self.stands(ix, Occasion::Succeeded);
        let skipped = skipped && !self.planted(Mutant::SkippedSatisfiesHard);
        let shown_up =
            up && !(cell.phase.is_told() && self.planted(Mutant::ConflictBesideStopping));
        let holds = !hopeless || self.planted(Mutant::ImmortalHoldsUp);
        let active = active || (ready && self.planted(Mutant::GateOpenWhileStopping));
        let bit = |on: bool, facet: u16| if on { facet } else { 0 };
        bit(cell.needed, NEEDED)
            | bit(shown_up, UP)
            | bit(ready && !over, READY)
            | bit(active, ACTIVE)
            | bit(active && !skipped && !over, SOLID)
            | bit(settled, SETTLED)
            | bit(failed, FAILED)
            | bit(up && must && holds, STOPPING)
            | bit(must, MUST_STOP)
            | bit(cell.verdict, ALARM)
            | bit(done, DONE)
            | bit(over && !must, OVER)
            | bit(self.is_unfinished(ix), UNFINISHED)
    }

    /// The function [`closes`], with its planted bug.
    pub(super) fn closes(&self, kind: DependencyKind, facets: u16) -> bool {
        let lax = kind == DependencyKind::RequiresActive && self.planted(Mutant::RequiresNothing);
        closes(kind, facets) && !lax
    }

    /// Puts a changed unit into the worklist.
    pub(super) fn mark(&mut self, ix: Ix) {
        let cell = self.cell_mut(ix);
        let (queued, touched) = (cell.queued, cell.touched);
        cell.queued = true;
        cell.touched = true;
        if !queued {
            self.queue.push(ix);
        }
        if !touched {
            self.touched.push(ix);
        }
    }

    /// Empties the worklist. The loop ends because facets only move forward within one event:
    /// must_stop only grows, and gates follow an order without rings.
    pub(super) fn propagate(&mut self) {
        while let Some(ix) = self.queue.pop() {
            self.cell_mut(ix).queued = false;
            let now = self.facets(ix);
            let before = std::mem::replace(&mut self.cell_mut(ix).facets, now);
            if before != now {
                self.tell_neighbours(ix, before, now);
                let lingers = self.planted(Mutant::AlarmLingers) && now & ALARM == 0;
                let turned = (before ^ now) & (ALARM | DONE) != 0 && !lingers;
                let mut edges = self.graph.edges(UnitId(ix)).iter();
                self.search_due |= turned && edges.any(|edge| edge.kind.pulls_in_at_end());
                let stays = self.planted(Mutant::HandlerForEver);
                self.search_due |= (before ^ now) & UNFINISHED != 0 && !stays;
            }
            self.review(ix);
        }
    }

    fn tell_neighbours(&mut self, ix: Ix, before: u16, now: u16) {
        let graph = Arc::clone(&self.graph);
        for back in graph.back(UnitId(ix)) {
            let (other, kind) = (back.dependent.0, back.kind);
            let one_sided = self.planted(Mutant::OneSidedConflict)
                && kind == DependencyKind::Conflicts
                && other > ix;
            let unlatched =
                kind == DependencyKind::DependsMs && self.planted(Mutant::MilestoneNotLatched);
            let closed =
                (!one_sided && self.closes(kind, before), !one_sided && self.closes(kind, now));
            let cell = self.cell_mut(other);
            let gate = step(&mut cell.closed_gates, closed.0, closed.1);
            let bad = step(&mut cell.failed_deps, spoils(kind, before), spoils(kind, now));
            if gate || bad {
                self.mark(other);
            }
            if kind == DependencyKind::DependsOn || unlatched {
                if before & READY != 0 && now & READY == 0 {
                    self.lose(other, ix);
                }
                let alone = self.planted(Mutant::StopDoesNotSpread);
                if before & MUST_STOP == 0 && now & MUST_STOP != 0 && !alone {
                    self.require_stop(other);
                }
            }
        }
        if (before ^ now) & STOPPING != 0 {
            let (was, is) = (before & STOPPING != 0, now & STOPPING != 0);
            for provider in self.order_providers(ix) {
                if step(&mut self.cell_mut(provider).dependents_up, was, is) {
                    self.mark(provider);
                }
            }
        }
        if before & STOPPING != 0 && now & STOPPING == 0 {
            for follower in self.followers.remove(&ix).unwrap_or_default() {
                if step(&mut self.cell_mut(follower).closed_gates, true, false) {
                    self.mark(follower);
                }
            }
        }
        if before & UP != 0 && now & UP == 0 {
            // This run did not delay the remaining followers, because its STOPPING facet was off
            // already.
            self.followers.remove(&ix);
            self.stop_order.remove(&ix);
            // An edge that was left out of the stop order may not close a ring any more.
            self.search_due |= self.stop_order_cut;
            for held_up in self.holders.remove(&ix).unwrap_or_default() {
                if step(&mut self.cell_mut(held_up).closed_gates, true, false) {
                    self.mark(held_up);
                }
            }
        }
    }

    /// Returns the providers that may not be told to stop before this unit is down.
    pub(super) fn order_providers(&self, ix: Ix) -> Vec<Ix> {
        if self.planted(Mutant::NoStopOrder) {
            return Vec::new();
        }
        let soft = !self.planted(Mutant::SoftStopOrderDropped);
        let edges = self.graph.edges(UnitId(ix)).iter();
        let edges = edges.filter(|edge| soft || is_hard(edge.kind));
        let present =
            edges.filter(|edge| edge.kind.orders()).filter_map(|edge| edge.provider).map(|p| p.0);
        let old = self.stop_order.get(&ix).filter(|_| !self.planted(Mutant::OldOrderForgotten));
        present.chain(old.into_iter().flatten().copied()).collect()
    }

    /// Records that the run of a depends-on provider left the active state.
    fn lose(&mut self, ix: Ix, provider: Ix) {
        let cell = self.cell(ix);
        let forgets = self.planted(Mutant::LossNotMarked);
        if forgets || cell.phase.run().is_none_or(|run| run.lost.is_some()) {
            return;
        }
        let target = self
            .graph
            .edges(UnitId(ix))
            .iter()
            .find(|e| e.kind == DependencyKind::DependsOn && e.provider == Some(UnitId(provider)))
            .and_then(|edge| self.generation.target(edge.target))
            .map(|target| target.name.clone());
        if let Some(run) = self.cell_mut(ix).phase.run_mut() {
            run.lost = target;
        }
        self.require_stop(ix);
    }

    /// Marks an up unit as having to stop.
    pub(super) fn require_stop(&mut self, ix: Ix) {
        let cell = self.cell_mut(ix);
        if cell.phase.is_up() && !cell.must_stop {
            cell.must_stop = true;
            self.mark(ix);
        }
    }

    /// The run stops without waiting for its dependents.
    pub(super) fn stops_promptly(&self, ix: Ix) -> bool {
        self.cell(ix).phase.run().is_some_and(|run| run.definition.live.stop_promptly)
    }

    /// Updates whether the unit is among those that may be told to stop and those that may start.
    pub(super) fn review(&mut self, ix: Ix) {
        let key = self.key(ix);
        let cell = self.cell(ix);
        let held = cell.dependents_up > 0
            && (!self.stops_promptly(ix) || self.planted(Mutant::PromptStopWaits));
        let may_stop = cell.phase.is_up() && cell.must_stop && !cell.phase.is_told() && !held;
        let usable = cell.needed && !cell.broken && cell.conflict.is_none();
        let idle = matches!(cell.phase, Phase::Idle);
        let may_start = idle && usable && cell.closed_gates == 0;
        let rank = (Reverse(cell.rank), ix);
        if may_stop {
            self.may_stop.insert(key);
        } else {
            self.may_stop.remove(&key);
        }
        let instant = self.unit(ix).is_some_and(|unit| unit.kind.is_instant());
        let instant = instant && !self.planted(Mutant::InstantWaitsForSlot);
        let freely = may_start && instant;
        for (set, is_in) in [(&mut self.may_start, may_start), (&mut self.may_start_freely, freely)]
        {
            if is_in {
                set.insert(rank);
            } else {
                set.remove(&rank);
            }
        }
    }
}
