//! How the operator's wishes change what is stored, and which are refused. What
//! follows from it is settled afterwards by [`crate::oracle`].

use crate::generation::Generation;
use crate::machine::event::Event;
use crate::name::Name;
use crate::oracle::graph::Graph;
use crate::oracle::set::Set;
use crate::oracle::{Deed, Oracle, Phase, Stored};
use crate::spec::{DependencyKind, OnChange};
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

impl Oracle {
    /// False: refused, and nothing changed.
    pub(crate) fn apply(&mut self, event: &Event) -> bool {
        match event {
            Event::Boot { generation, targets } => {
                let default = || vec![generation.settings.default_target.clone()];
                self.goal = if targets.is_empty() { default() } else { targets.clone() };
                self.policy = generation.policy.clone();
                self.flip(generation.clone(), false);
                true
            }
            Event::SetGoal(goal) => {
                let mut next = self.clone();
                if !goal.targets.is_empty() {
                    next.goal.clone_from(&goal.targets);
                }
                next.want = goal.want.iter().cloned().collect();
                next.drop.clone_from(&goal.drop);
                let known = goal.drop.iter().all(|name| self.claimed(name));
                next.look_again();
                let (roots, wished) = next.roots();
                let had = roots.into_iter().take(wished).all(|root| next.can_be_had(root));
                known && had && next.losers().is_empty() && self.accept(next)
            }
            Event::Want { target, until } => {
                let mut next = self.clone();
                next.want.insert(target.clone(), *until);
                next.drop.retain(|name| name != target);
                next.look_again();
                let had = next.can_be_had(self.universe.target(target));
                had && next.losers().less(self.losers()).is_empty() && self.accept(next)
            }
            Event::Unwant(target) => {
                let mut next = self.clone();
                let wanted = next.want.remove(target).is_some();
                let dropped = next.drop.contains(target);
                next.drop.retain(|name| name != target);
                next.look_again();
                (wanted || dropped) && self.accept(next)
            }
            Event::SetPolicy(policy) => {
                let mut next = self.clone();
                next.policy = policy.clone();
                next.look_again();
                self.accept(next)
            }
            Event::Reload { generation, no_restart, tolerant } => {
                self.reload(generation, *no_restart, *tolerant)
            }
            Event::Restart(targets) => {
                self.prod(targets, |oracle, unit| match &mut oracle.stored[unit].run {
                    Some(run) => run.asked = true,
                    None => oracle.forgive(unit),
                })
            }
            Event::Retry(targets) => self.prod(targets, |oracle, unit| {
                oracle.forgive(unit);
                oracle.stored[unit].n = 0;
                oracle.stored[unit].failures.clear();
            }),
            Event::ReloadUnit(targets) => {
                targets.iter().all(|name| self.can_reload(name)) && self.reload_all(targets)
            }
            Event::Shutdown(how) => {
                if self.shutdown.is_some() {
                    return false;
                }
                let span = self.generation.settings.shutdown_deadline;
                let span = span.unwrap_or(Duration::from_secs(90));
                self.shutdown = Some((*how, self.now.after(span)));
                true
            }
            Event::Fire(name) => {
                self.fire(name);
                true
            }
            Event::Tick => {
                while let Some(due) = self.next_due().filter(|due| *due <= self.now) {
                    self.timer(due);
                }
                true
            }
            fact => {
                self.fact(fact);
                true
            }
        }
    }

    /// Takes `next`, unless the end has begun or something needed would become unusable.
    fn reload(&mut self, generation: &Arc<Generation>, no_restart: bool, tolerant: bool) -> bool {
        let mut next = self.clone();
        next.policy = generation.policy.clone();
        next.flip(generation.clone(), no_restart);
        if tolerant {
            return self.take(next);
        }
        let somebody = |graph: &Graph, root: &Option<usize>| {
            root.is_some_and(|t| graph.provider[t].is_some() || graph.hidden[t])
        };
        let (roots, wished) = self.roots();
        let gone =
            |root: &Option<usize>| somebody(&self.graph, root) && !somebody(&next.graph, root);
        !roots.iter().take(wished).any(gone)
            && next.needed.and(next.graph.broken).is_empty()
            && next.losers().less(self.losers()).is_empty()
            && self.accept(next)
    }

    fn accept(&mut self, next: Oracle) -> bool {
        let worse = next.needed.and(next.graph.broken).less(self.graph.broken);
        worse.is_empty() && self.take(next)
    }

    fn take(&mut self, next: Oracle) -> bool {
        let going_on = self.shutdown.is_none();
        if going_on {
            *self = next;
        }
        going_on
    }

    fn claimed(&self, name: &Name) -> bool {
        let target = self.universe.target(name);
        target.is_some_and(|t| self.graph.provider[t].is_some() || self.graph.hidden[t])
    }

    fn can_be_had(&self, target: Option<usize>) -> bool {
        let unit = target.and_then(|target| self.graph.provider[target]);
        unit.is_some_and(|unit| !self.graph.broken.has(unit))
    }

    /// `restart`, `retry`, `reload-unit` of known units that are not broken.
    fn prod(&mut self, targets: &[Name], each: fn(&mut Oracle, usize)) -> bool {
        let unit =
            |name: &Name| self.universe.target(name).and_then(|target| self.graph.provider[target]);
        let units: Option<Vec<usize>> = targets.iter().map(unit).collect();
        let Some(units) = units else { return false };
        if self.shutdown.is_some() || units.iter().any(|unit| self.graph.broken.has(*unit)) {
            return false;
        }
        units.into_iter().for_each(|unit| each(self, unit));
        true
    }

    fn can_reload(&self, name: &Name) -> bool {
        let target = self.universe.target(name);
        let Some(unit) = target.and_then(|target| self.graph.provider[target]) else {
            return false;
        };
        let run = self.stored[unit].run.as_ref();
        let running = run.is_some_and(|run| {
            matches!(run.phase, Phase::Running | Phase::Reloading) && run.has_exec_reload
        });
        running && !self.must_stop().has(unit)
    }

    /// Its run has a way to reload.
    pub(crate) fn can_reload_unit(&self, unit: usize) -> bool {
        self.stored[unit].run.as_ref().is_some_and(|run| run.has_exec_reload)
    }

    /// And those that reload with them, and with those, and so on.
    fn reload_all(&mut self, targets: &[Name]) -> bool {
        if !self.prod(targets, Oracle::reload_unit) {
            return false;
        }
        let unit = |name: &Name| self.graph.provider[self.universe.target(name)?];
        let mut told: Set = targets.iter().filter_map(unit).collect();
        let stopping = self.must_stop();
        loop {
            let next = self.graph.edges.iter().find(|edge| {
                let run = self.stored[edge.from].run.as_ref();
                edge.kind == DependencyKind::ReloadWith
                    && edge.to.is_some_and(|to| told.has(to))
                    && !told.has(edge.from)
                    && !stopping.has(edge.from)
                    && self.can_reload_unit(edge.from)
                    && run.is_some_and(|run| matches!(run.phase, Phase::Running | Phase::Reloading))
            });
            let Some(unit) = next.map(|edge| edge.from) else { return true };
            told.add(unit);
            self.reload_unit(unit);
        }
    }

    fn reload_unit(&mut self, unit: usize) {
        let now = self.now;
        let Some(run) = &mut self.stored[unit].run else { return };
        if run.phase == Phase::Running {
            run.phase = Phase::Reloading;
            run.announced = false;
            run.reload_by = run.live.start_timeout.map_or(Time::NEVER, |span| now.after(span));
        }
        self.deeds.push(Deed::Reload(unit, run.id));
    }

    /// Policy or overlay changed: the graph anew, and who lost a provider by it.
    pub(crate) fn look_again(&mut self) {
        let graph = Graph::new(&self.universe, &self.generation, &self.policy, &self.drop);
        let stopping = self.must_stop();
        let old = std::mem::replace(&mut self.graph, graph);
        self.rebind(&old, stopping);
        self.renew_need();
    }

    /// An up run whose depends-on target changed its provider is lost; an added edge
    /// binds it when the provider is active, else it is lost.
    fn rebind(&mut self, old: &Graph, stopping: Set) {
        let of = |kind| move |edge: &&crate::oracle::graph::Edge| edge.kind == kind;
        let hard = of(DependencyKind::DependsOn);
        for unit in self.up().iter() {
            let before = |target| {
                let mut edges = old.of(unit).filter(hard).filter(|edge| edge.target == target);
                edges.next().and_then(|edge| edge.to)
            };
            let lost = self.graph.of(unit).filter(hard).any(|edge| {
                let bound = before(edge.target);
                let active = |to: usize| {
                    let run = self.stored[to].run.as_ref();
                    run.is_some_and(|run| run.phase.is_active()) && !stopping.has(to)
                };
                match edge.to {
                    None => bound.is_some() || !edge.optional,
                    Some(to) => bound != Some(to) && (bound.is_some() || !active(to)),
                }
            });
            let held =
                old.of(unit).filter(of(DependencyKind::DependsMs)).filter(|e| e.to.is_some());
            let provider = &self.graph.provider;
            let Some(run) = &mut self.stored[unit].run else { continue };
            run.lost |= lost && run.told.is_none();
            run.orphaned.extend(held.map(|edge| edge.target));
            run.orphaned.sort_unstable();
            run.orphaned.dedup();
            run.orphaned.retain(|target| provider[*target].is_none());
        }
    }

    /// The pointer flip of a reload.
    fn flip(&mut self, generation: Arc<Generation>, no_restart: bool) {
        let old = std::mem::replace(&mut self.generation, generation);
        let before = self.graph.clone();
        self.graph = Graph::new(&self.universe, &self.generation, &self.policy, &self.drop);
        for unit in 0..self.stored.len() {
            let was = old.units.get(before.place[unit]);
            let Some(is) = self.unit(unit).cloned() else {
                if self.stored[unit].run.is_none() {
                    self.stored[unit] = Stored::default();
                }
                continue;
            };
            if was.is_some_and(|was| !same(&old, was, &self.generation, &is)) {
                self.forgive(unit);
                self.stored[unit].n = 0;
                self.stored[unit].failures.clear();
            }
            let Some(run) = &mut self.stored[unit].run else { continue };
            if run.told.is_some() {
                continue;
            }
            if run.hash == is.run_hash {
                run.changed = false;
            } else if was.is_none_or(|was| was.run_hash != is.run_hash) {
                let keep = no_restart || is.live.essential;
                run.changed = false;
                match is.live.on_change {
                    _ if keep => {}
                    OnChange::Keep => {}
                    OnChange::Reload if run.phase == Phase::Running && is.has_exec_reload => {
                        (run.hash, run.has_exec_reload) = (is.run_hash, true);
                        run.live.start_timeout = is.live.start_timeout;
                        self.reload_unit(unit);
                    }
                    OnChange::Restart | OnChange::Reload => run.changed = true,
                }
            }
        }
        self.graph = before;
        self.look_again();
    }
}

/// The two mean the same: no key changed.
fn same(
    old: &Generation,
    was: &crate::generation::Unit,
    new: &Generation,
    is: &crate::generation::Unit,
) -> bool {
    let meaning = |generation: &Generation, unit: &crate::generation::Unit| {
        let name = |id: &crate::generation::TargetId| {
            generation.targets.get(id.0 as usize).map(|target| target.name.clone())
        };
        let edges: Vec<_> = unit
            .dependencies
            .iter()
            .map(|edge| (edge.kind, name(&edge.target), edge.optional, edge.imported))
            .collect();
        let lists = [&unit.provides, &unit.wanted_by, &unit.required_by];
        let lists = lists.map(|list| list.iter().map(name).collect::<Vec<_>>());
        (edges, lists, unit.activates.as_ref().map(name))
    };
    was.run_hash == is.run_hash
        && was.live == is.live
        && was.fault == is.fault
        && meaning(old, was) == meaning(new, is)
}
