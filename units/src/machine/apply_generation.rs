//! Replaces the generation, or applies a new policy to the same one, in one step. First it records
//! the stop order, the held targets and the conflicts that the old graph gave to each up run. Then
//! it carries every unit over by name.

use super::Machine;
use super::cell::Cell;
use super::held_targets::conflicting;
use super::mutant::Mutant;
use super::phase::{Form, Phase};
use super::run::{Definition, Run};
use crate::graph::{Edge, Graph};
use crate::machine::action::{Action, Note};
use crate::machine::reason::State;
use crate::spec::{DependencyKind, OnChange};
use crate::text::name::Name;
use crate::text::time::Time;
use crate::unit::generation::{Generation, Unit, UnitId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The generation and graph to apply.
pub(super) struct Next {
    pub(super) generation: Arc<Generation>,
    pub(super) graph: Arc<Graph>,
    /// Changed units keep their runs and are shown as stale.
    pub(super) no_restart: bool,
}

impl Machine {
    pub(super) fn apply_generation(&mut self, now: Time, mut next: Next, out: &mut Vec<Action>) {
        self.propagate();
        next.no_restart |= self.planted(Mutant::ReloadReplacesNothing);
        let ids_after = ids_after(&self.generation, &next.generation);
        // The next generation may contain a removed unit that is still up; then its run is compared
        // with the new definition too.
        let returned = self.removed_units.iter();
        let returned = returned.map(|name| next.generation.find_unit(name.as_str()));
        let all_after: Vec<_> = ids_after.iter().copied().chain(returned).collect();
        for (ix, unit_after) in self.all().into_iter().zip(all_after) {
            if self.cell(ix).phase.is_up() {
                self.write_down(UnitId(ix), unit_after, &next);
            }
        }
        if !Arc::ptr_eq(&self.generation, &next.generation) {
            self.carry_over(now, &next, &ids_after, out);
            if self.planted(Mutant::ReloadReplacesAll) {
                let up = self.cells.iter_mut().filter_map(|cell| cell.phase.run_mut());
                up.for_each(|run| run.changed = true);
            }
        }
        self.graph = next.graph;
        self.generation = next.generation;
        self.triggers = self.find_triggers();
        self.slots = self.generation.settings.max_starting;
        self.touched = Vec::new();
        self.all_changed = true;
        self.rearm();
        self.recompute();
    }

    /// Records the stop order, the held targets and the conflicts of this unit's run if the next
    /// graph changes them. Also records the target that the run loses.
    fn write_down(&mut self, unit: UnitId, unit_after: Option<UnitId>, next: &Next) {
        let (old, new) = (&self.generation, &next.generation);
        let order = providers(old, &self.graph, unit);
        let order_after = unit_after.map(|unit| providers(new, &next.graph, unit));
        let held = selected(old, &self.graph, unit);
        let held_after = unit_after.map(|unit| selected(new, &next.graph, unit));
        let against = conflicting(old, unit);
        let against_after = unit_after.map(|unit| conflicting(new, unit));
        let lost = unit_after.and_then(|after| self.loses(unit, after, next));
        let milestones = self.milestones_lost(unit, next);
        let Some(run) = self.cell_mut(unit.0).phase.run_mut() else { return };
        if run.order.is_none() && order_after.as_ref() != Some(&order) {
            run.order = Some(order.into());
        }
        let mut hold = run.hold.take().unwrap_or_default();
        if hold.targets.is_none() && held_after.as_ref() != Some(&held) {
            hold.targets = Some(held);
        }
        if hold.against.is_none() && against_after.as_ref() != Some(&against) {
            hold.against = Some(against);
        }
        run.hold = Some(hold).filter(|hold| hold.targets.is_some() || hold.against.is_some());
        run.milestones_lost = milestones;
        if run.lost.is_none() {
            run.lost = lost;
        }
    }

    /// Returns the first depends-on target that the run loses. A target whose provider changes or
    /// disappears is lost. A new depends-on is lost unless its provider is active now.
    fn loses(&self, unit: UnitId, unit_after: UnitId, next: &Next) -> Option<Name> {
        if self.cell(unit.0).phase.is_told() || self.planted(Mutant::NewProviderBinds) {
            return None;
        }
        let hard = |edge: &&Edge| edge.kind == DependencyKind::DependsOn;
        let before: BTreeMap<&Name, Option<&Name>> = self
            .graph
            .edges(unit)
            .iter()
            .filter(hard)
            .filter_map(|edge| names(&self.generation, edge))
            .collect();
        let is_active = |provider: &Name| {
            self.generation.find_unit(provider.as_str()).is_some_and(|provider| {
                let cell = self.cell(provider.0);
                let is_active = matches!(cell.phase, Phase::Ready(_, _, _)) && !cell.must_stop;
                is_active && !cell.phase.is_over()
            })
        };
        for edge in next.graph.edges(unit_after).iter().filter(hard) {
            let Some((target, provider)) = names(&next.generation, edge) else { continue };
            let kept = match (before.get(target).copied().flatten(), provider) {
                (Some(old), Some(new)) => old == new,
                (None, Some(new)) => is_active(new),
                (Some(_), None) => false,
                (None, None) => edge.optional,
            };
            if !kept {
                return Some(target.clone());
            }
        }
        None
    }

    /// Returns the depends-ms targets of the present run that have no provider in the next graph.
    fn milestones_lost(&self, unit: UnitId, next: &Next) -> Vec<Name> {
        let known = self.cell(unit.0).phase.run().map_or(&[][..], |run| &run.milestones_lost);
        let edges = self.graph.edges(unit).iter();
        let held = edges
            .filter(|e| e.kind == DependencyKind::DependsMs && e.provider.is_some())
            .filter_map(|edge| Some(&self.generation.target(edge.target)?.name));
        let mut lost: Vec<Name> = known.iter().chain(held).cloned().collect();
        lost.sort();
        lost.dedup();
        lost.retain(|target| {
            let target_after = next.generation.find_target(target.as_str());
            target_after.is_none_or(|target| next.graph.provider(target).unit().is_none())
        });
        lost
    }

    /// Moves every cell to its index in the next generation; up runs of removed units follow
    /// behind.
    fn carry_over(
        &mut self,
        now: Time,
        next: &Next,
        ids_after: &[Option<UnitId>],
        out: &mut Vec<Action>,
    ) {
        let old = Arc::clone(&self.generation);
        let new = &next.generation;
        let mut before: Vec<Option<(usize, Cell)>> = Vec::new();
        before.resize_with(new.units.len(), || None);
        let mut removed: BTreeMap<Name, Cell> = BTreeMap::new();
        let of_units = old.units.iter().map(|unit| &unit.name).zip(ids_after.iter().copied());
        let removed_before = std::mem::take(&mut self.removed_units);
        let of_removed = removed_before.iter().map(|name| (name, new.find_unit(name.as_str())));
        let cells = std::mem::take(&mut self.cells).into_iter().enumerate();
        for ((name, unit_after), (index, cell)) in of_units.chain(of_removed).zip(cells) {
            if index >= old.units.len() && !cell.phase.is_up() {
                Machine::note_removed(name.clone(), &cell, out);
            } else if let Some(slot) = unit_after.and_then(|after| before.get_mut(after.index())) {
                *slot = Some((index, cell));
            } else {
                removed.insert(name.clone(), cell);
            }
        }
        for (unit, before) in new.units.iter().zip(before) {
            let cell = match before {
                Some((index, mut cell)) => {
                    let before = old.units.get(index);
                    carry(&mut cell, (&old, before), (new, unit), next, now, out);
                    cell
                }
                None => Cell::new(now),
            };
            self.cells.push(cell);
        }
        for (name, mut cell) in removed {
            if cell.phase.is_up() {
                cell.needed = false;
                cell.conflict = None;
                cell.broken = false;
                cell.triggered = false;
                self.cells.push(cell);
                self.removed_units.push(name);
            } else {
                Machine::note_removed(name, &cell, out);
            }
        }
    }

    /// Notes that a removed unit is not shown any more.
    fn note_removed(unit: Name, cell: &Cell, out: &mut Vec<Action>) {
        let (from, to) = (cell.shown, State::Disabled);
        if from != to {
            out.push(Action::Note(Note { unit, run: None, from, to, reason: None }));
        }
    }

    /// Recomputes timers, runs and slots from the phases.
    pub(super) fn rearm(&mut self) {
        self.timers.clear();
        self.runs.clear();
        self.slots_used = 0;
        for ix in self.all() {
            let phase = std::mem::take(&mut self.cell_mut(ix).phase);
            self.put_phase(ix, phase);
            let cell = self.cell_mut(ix);
            cell.queued = false;
            cell.touched = false;
        }
        self.queue.clear();
        self.touched.clear();
    }

    /// Gives the present keys of class *live* to each run that does not have to stop. Such a run
    /// holds the targets that the present graph gives it.
    pub(super) fn settle_definitions(&mut self) {
        for unit in self.generation.unit_ids() {
            let ix = unit.0;
            let cell = self.cell(ix);
            if cell.must_stop || cell.phase.is_told() {
                continue;
            }
            let (Some(run), Some(live)) = (cell.phase.run(), self.unit(ix).map(|u| &u.live)) else {
                continue;
            };
            let fresh = (run.definition.live != *live)
                .then(|| Definition { live: live.clone(), ..Definition::clone(&run.definition) });
            let timeout_changed = run.definition.live.start_timeout != live.start_timeout;
            let timeout = live.start_timeout;
            if fresh.is_none() && run.hold.is_none() {
                continue;
            }
            self.amend(ix, |phase| {
                if let Phase::Starting(_, start) = phase
                    && timeout_changed
                {
                    start.ready_by = timeout.map(|span| start.began.after(span));
                }
                if let Some(run) = phase.run_mut() {
                    run.hold = None;
                    if let Some(fresh) = fresh {
                        run.definition = Arc::new(fresh);
                    }
                }
            });
        }
    }
}

/// Finds each unit in the next generation by name. Both lists are sorted by name.
fn ids_after(old: &Generation, new: &Generation) -> Vec<Option<UnitId>> {
    let mut rest = new.unit_ids().zip(&new.units).peekable();
    let id_after = |unit: &Unit| {
        while rest.next_if(|(_, other)| other.name < unit.name).is_some() {}
        rest.next_if(|(_, other)| other.name == unit.name).map(|(id, _)| id)
    };
    old.units.iter().map(id_after).collect()
}

/// Returns the names of the target and the provider of an edge.
fn names<'a>(generation: &'a Generation, edge: &Edge) -> Option<(&'a Name, Option<&'a Name>)> {
    let provider = edge.provider.and_then(|unit| generation.unit(unit)).map(|unit| &unit.name);
    Some((&generation.target(edge.target)?.name, provider))
}

/// Returns the units that a unit's start waits for.
fn providers(generation: &Generation, graph: &Graph, unit: UnitId) -> Vec<Name> {
    let edges = graph.edges(unit).iter().filter(|edge| edge.kind.orders());
    let units = edges.filter_map(|edge| generation.unit(edge.provider?));
    let mut names: Vec<Name> = units.map(|unit| unit.name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the targets that a unit is selected to provide.
fn selected(generation: &Generation, graph: &Graph, unit: UnitId) -> Vec<Name> {
    let provides = generation.unit(unit).map_or(&[][..], |unit| &unit.provides);
    let selected = provides.iter().filter(|t| graph.provider(**t).unit() == Some(unit));
    selected.filter_map(|target| Some(generation.target(*target)?.name.clone())).collect()
}

/// Carries one unit over into the next generation.
fn carry(
    cell: &mut Cell,
    before: (&Generation, Option<&Unit>),
    after: (&Generation, &Unit),
    next: &Next,
    now: Time,
    out: &mut Vec<Action>,
) {
    let (old, unit) = (before, after.1);
    let same = old.1.is_some_and(|old_unit| is_same((old.0, old_unit), after));
    if !same {
        cell.failures = 0;
        cell.verdict = false;
        cell.recent.clear();
        cell.last = None;
        cell.connection_lost = false;
        match &mut cell.phase {
            Phase::Backoff(_) | Phase::Failed(_) => cell.phase = Phase::Idle,
            // The failure is not counted yet, because the run is not gone.
            Phase::Stopping(_, stop) => stop.forgive(),
            Phase::Idle | Phase::Starting(_, _) | Phase::Ready(_, _, _) => {}
        }
    }
    let run_changed_now =
        old.1.is_none_or(|old| old.run_hash != unit.run_hash || old.kind != unit.kind);
    let kept = next.no_restart || unit.live.essential || unit.live.on_change == OnChange::Keep;
    if let Phase::Stopping(_, stop) = &mut cell.phase {
        if run_changed_now && !kept {
            stop.follow();
        }
        return;
    }
    let can_reload = matches!(cell.phase, Phase::Ready(_, Form::Running { .. }, _));
    let Some(run) = cell.phase.run_mut() else { return };
    if run.definition.run_hash == unit.run_hash && run.definition.kind == unit.kind {
        run.changed = false;
        run.stale = false;
        return;
    }
    if !run_changed_now {
        return;
    }
    run.changed = false;
    run.stale = false;
    if kept {
        run.stale = true;
    } else if unit.live.on_change == OnChange::Reload && can_reload && unit.has_exec_reload {
        reload_in_place(run, unit, out);
        let until = unit.live.start_timeout.map(|span| now.after(span));
        if let Phase::Ready(_, form, _) = &mut cell.phase
            && let Form::Running { ping_by } = *form
        {
            *form = Form::Reloading { ping_by, until, announced: false };
        }
    } else {
        run.changed = true;
    }
}

fn reload_in_place(run: &mut Run, unit: &Unit, out: &mut Vec<Action>) {
    let definition = Definition { run_hash: unit.run_hash, ..Definition::clone(&run.definition) };
    run.definition = Arc::new(Definition { has_exec_reload: true, ..definition });
    out.push(Action::ReloadUnit { name: unit.name.clone(), run: run.id });
}

/// Returns true if two definitions are equal, regardless of their files.
pub(super) fn is_same(one: (&Generation, &Unit), other: (&Generation, &Unit)) -> bool {
    fn named<'a>(
        generation: &'a Generation,
        targets: &'a [crate::unit::generation::TargetId],
    ) -> impl Iterator<Item = Option<&'a Name>> {
        targets.iter().map(|target| generation.target(*target).map(|target| &target.name))
    }
    fn dependencies<'a>(
        (generation, unit): (&'a Generation, &'a Unit),
    ) -> impl Iterator<Item = (DependencyKind, bool, Option<&'a Name>)> {
        let name = |target| generation.target(target).map(|target| &target.name);
        unit.dependencies.iter().map(move |edge| (edge.kind, edge.optional, name(edge.target)))
    }
    let same_targets = |one_list: &[_], other_list: &[_]| {
        one_list.len() == other_list.len() && named(one.0, one_list).eq(named(other.0, other_list))
    };
    let (a, b) = (one.1, other.1);
    a.kind == b.kind
        && a.run_hash == b.run_hash
        && a.live == b.live
        && a.fault.is_none() == b.fault.is_none()
        && a.readiness == b.readiness
        && same_targets(&a.provides, &b.provides)
        && same_targets(&a.wanted_by, &b.wanted_by)
        && same_targets(&a.required_by, &b.required_by)
        && same_targets(&a.pulled_by, &b.pulled_by)
        && same_targets(a.activates.as_slice(), b.activates.as_slice())
        && a.dependencies.len() == b.dependencies.len()
        && dependencies(one).eq(dependencies(other))
}
