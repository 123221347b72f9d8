//! The operator's wishes: each is tried on a copy, then refused or granted as a whole; and the
//! operations on runs, which leave the goal alone.

use super::settle::later;
use super::{Deed, Due, Oracle, Run, Stored};
use crate::machine::event::Event;
use crate::machine::reason::State;
use crate::simulator::graph::{Edge, Graph};
use crate::simulator::set::Set;
use crate::spec::{DependencyKind as D, OnChange};
use crate::text::name::Name;
use crate::unit::generation::Generation;
use std::sync::Arc;

impl Oracle {
    pub(crate) fn is_masked(&self, name: &Name) -> bool {
        self.policy.mask.contains(name) || self.drop.contains(name)
    }

    pub(super) fn provider(&self, name: &Name) -> Option<usize> {
        self.graph.provider[self.universe.target(name)?]
    }

    /// Tries a wish on a copy, then refuses or grants it as a whole.
    pub(super) fn wish(&mut self, wish: &Event) -> bool {
        let (mut next, active) = (self.clone(), self.active().less(self.over_and_done()));
        let usable = |next: &Oracle, name: &Name| {
            next.provider(name).is_some_and(|unit| !next.graph.broken.has(unit))
        };
        let is_known = |it: &Oracle, name: &Name| {
            it.provider(name).is_some()
                || it.universe.target(name).is_some_and(|t| it.graph.hidden.has(t))
        };
        let fits = match wish {
            Event::Boot { generation, targets, .. } => {
                next.boot(generation, targets);
                *self = next;
                return true;
            }
            Event::SetGoal(goal) => {
                if !goal.targets.is_empty() {
                    next.goal.clone_from(&goal.targets);
                    if next.goal != self.goal {
                        next.stored.iter_mut().for_each(|it| it.brought = false);
                    }
                }
                next.want = goal.want.iter().cloned().collect();
                next.drop.clone_from(&goal.drop);
                next.resolve_graph(active);
                goal.drop.iter().all(|name| is_known(self, name))
                    && next.goal.iter().chain(next.want.keys()).all(|name| usable(&next, name))
                    && next.need().2.is_empty()
            }
            Event::Want { target, until } => {
                next.want.insert(target.clone(), *until);
                next.drop.retain(|name| name != target);
                next.resolve_graph(active);
                usable(&next, target) && next.need().2.less(self.need().2).is_empty()
            }
            Event::Unwant(target) => {
                let dropped = next.drop.len();
                next.drop.retain(|name| name != target);
                let wanted = next.want.remove(target).is_some();
                let fits = wanted || next.drop.len() < dropped;
                next.resolve_graph(active);
                fits
            }
            Event::SetPolicy(policy) => {
                next.policy.clone_from(policy);
                next.resolve_graph(active);
                true
            }
            Event::Reload { generation, no_restart, tolerant } => {
                next.apply_generation(generation, *no_restart);
                if *tolerant && self.end.is_none() {
                    *self = next;
                    return true;
                }
                let kept = |name| is_known(&next, name) || !is_known(self, name);
                next.goal.iter().chain(next.want.keys()).all(kept)
                    && next.concerned().and(next.graph.broken).is_empty()
                    && next.need().2.less(self.need().2).is_empty()
            }
            _ => false,
        };
        // No needed unit may become unusable.
        let worse = next.concerned().and(next.graph.broken).less(self.graph.broken);
        let accepted = fits && self.end.is_none() && worse.is_empty();
        if accepted {
            *self = next;
        }
        accepted
    }

    /// Returns needed units, and places of needed sockets.
    fn concerned(&self) -> Set {
        let places = |unit: usize| self.graph.to(unit, |kind| kind == D::Accepts);
        self.needed.iter().fold(self.needed, |all, unit| all.or(places(unit)))
    }

    /// Sets the first goal, or the emergency target if no part of the goal can be reached.
    fn boot(&mut self, generation: &Arc<Generation>, targets: &[Name]) {
        let (default, emergency) =
            (&generation.settings.default_target, &generation.settings.emergency_target);
        self.goal = targets.to_vec();
        if targets.is_empty() {
            self.goal = vec![default.clone()];
        }
        self.apply_generation(generation, false);
        let lost = self.graph.broken.or(self.failed_by_dependency());
        let dead = |name: &Name| self.provider(name).is_none_or(|unit| lost.has(unit));
        if self.goal.iter().all(dead) && !dead(emergency) {
            self.goal = vec![emergency.clone()];
        }
    }

    /// Applies `restart`, `retry` or `reload-unit` to known units that are not broken: to all or
    /// none.
    pub(super) fn prod(&mut self, names: &[Name], each: fn(&mut Oracle, usize)) -> bool {
        let units: Option<Set> = names.iter().map(|name| self.provider(name)).collect();
        let units = units.filter(|units| units.and(self.graph.broken).is_empty());
        let units = units.filter(|_| self.end.is_none());
        units.iter().flat_map(|units| units.iter()).for_each(|unit| each(self, unit));
        units.is_some()
    }

    pub(super) fn able_to_reload(&self) -> Set {
        let able = |run: &Run| {
            let works = matches!(run.form, State::Running | State::Reloading) && !run.leaving;
            works && run.unit.has_exec_reload
        };
        self.whose(able).less(self.must_stop())
    }

    /// Reloads, transitively, the units that reload with these.
    pub(super) fn reload_with(&mut self, names: &[Name], able: Set) -> bool {
        let told: Set = names.iter().filter_map(|name| self.provider(name)).collect();
        let with = |unit: usize| self.graph.to(unit, |kind| kind == D::ReloadWith);
        let all = told.least(|told| able.filter(|unit| !with(unit).and(told).is_empty()));
        all.less(told).iter().for_each(|unit| self.reload_unit(unit));
        true
    }

    pub(super) fn reload_unit(&mut self, unit: usize) {
        let Some(run) = &mut self.stored[unit].run else { return };
        if run.works() {
            run.form = State::Reloading;
            run.announced = false;
            run.due[Due::Reload as usize] = later(self.now, run.unit.live.start_timeout);
        }
        self.deeds.push(Deed::Reload(unit, run.id));
    }

    /// Resolves the graph after a change of policy or overlay. An up run loses a depends-on target
    /// that changed its provider; an added edge binds if the provider was `active` before, and is
    /// lost otherwise.
    fn resolve_graph(&mut self, active: Set) {
        let enabled = self.generation.settings.enabled_by_default;
        let graph = Graph::new(&self.universe, &self.units, &self.policy, &self.drop, enabled);
        let old = std::mem::replace(&mut self.graph, Arc::new(graph));
        let of = |kind| move |edge: &&Edge| edge.kind == kind;
        for unit in 0..self.stored.len() {
            let bound = |target| {
                let mut before = old.edges[unit].iter().filter(of(D::DependsOn));
                before.find(|edge| edge.target == target).and_then(|edge| edge.to)
            };
            let lost = |edge: &Edge| match (bound(edge.target), edge.to) {
                (None, None) => !edge.optional,
                (None, Some(to)) => !active.has(to),
                (bound, to) => bound != to,
            };
            let Some(run) = &mut self.stored[unit].run else { continue };
            let lost = self.graph.edges[unit].iter().filter(of(D::DependsOn)).any(lost);
            run.lost |= lost && run.form != State::Stopping;
            let held = old.edges[unit].iter().filter(of(D::DependsMs)).filter(|e| e.to.is_some());
            let held = held.map(|edge| edge.target).collect::<Set>().or(run.orphaned);
            run.orphaned = held.filter(|target| self.graph.provider[target].is_none());
        }
        self.renew_need();
    }

    /// Applies the generation of a reload.
    fn apply_generation(&mut self, generation: &Arc<Generation>, no_restart: bool) {
        let active = self.active().less(self.over_and_done());
        self.generation = generation.clone();
        self.policy.clone_from(&generation.policy);
        let units = self.universe.definitions(generation, &self.units);
        let old = std::mem::replace(&mut self.units, units);
        for (unit, was) in old.iter().enumerate() {
            let Some(is) = self.units[unit].clone() else {
                if self.run(unit).is_none() {
                    self.stored[unit] = Stored::default();
                }
                continue;
            };
            if was.as_ref().is_none_or(|was| *was != is) {
                self.forgive(unit, true);
            }
            let Some(run) = &mut self.stored[unit].run else { continue };
            if run.form == State::Stopping {
                let kept = no_restart || is.live.essential || is.live.on_change == OnChange::Keep;
                let new = was.as_ref().is_none_or(|was| was.run_hash != is.run_hash);
                run.rests = run.rests.filter(|_| kept || !new);
                continue;
            }
            let same = run.unit.run_hash == is.run_hash;
            if same || was.as_ref().is_none_or(|was| was.run_hash != is.run_hash) {
                let keep = same || no_restart || is.live.essential;
                run.changed = false;
                match is.live.on_change {
                    _ if keep => {}
                    OnChange::Keep => {}
                    OnChange::Reload if run.works() && is.has_exec_reload => {
                        let unit_of_run = Arc::make_mut(&mut run.unit);
                        (unit_of_run.run_hash, unit_of_run.has_exec_reload) = (is.run_hash, true);
                        Arc::make_mut(&mut unit_of_run.live).start_timeout = is.live.start_timeout;
                        self.reload_unit(unit);
                    }
                    OnChange::Restart | OnChange::Reload => run.changed = true,
                }
            }
        }
        self.resolve_graph(active);
    }
}
