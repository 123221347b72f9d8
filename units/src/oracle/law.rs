//! The function itself: every set and every state that the design computes from
//! what is stored, as the plainest fixed point there is. Changes nothing.
//! What is stored, and how facts change it: [`crate::oracle`].

use crate::machine::reason::State;
use crate::oracle::set::Set;
use crate::oracle::{Oracle, Phase, Rest};
use crate::spec::DependencyKind as D;
use crate::time::Time;

/// What the whole system is, as `status` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Shutting down.
    Stopping,
    /// A goal can not be had.
    Failed,
    /// Something is in its first start.
    Starting,
    /// Something needed is not active, or is degraded.
    Degraded,
    /// All is well.
    Running,
}

impl Oracle {
    /// Units with a run: starting, active, stopping.
    pub(crate) fn up(&self) -> Set {
        (0..self.stored.len()).filter(|unit| self.stored[*unit].run.is_some()).collect()
    }

    pub(crate) fn must_stop(&self) -> Set {
        let up = self.up();
        let mut stop: Set = up
            .iter()
            .filter(|unit| {
                let Some(run) = &self.stored[*unit].run else { return false };
                run.told.is_some()
                    || !self.needed.has(*unit)
                    || self.broken_or_refused().has(*unit)
                    || run.changed
                    || run.asked
                    || run.lost
            })
            .collect();
        loop {
            let before = stop;
            for unit in up.less(before).iter() {
                let mut hard = self.graph.of(unit).filter(|edge| edge.kind == D::DependsOn);
                if hard.any(|edge| edge.to.is_some_and(|to| before.has(to))) {
                    stop.add(unit);
                }
            }
            if stop == before {
                return stop;
            }
        }
    }

    pub(crate) fn broken_or_refused(&self) -> Set {
        self.graph.broken.or(self.refused)
    }

    /// dependent → provider: the present edges, then those the up runs began with,
    /// by unit name, less any that would close a ring.
    fn stop_order(&self) -> Vec<Set> {
        let mut after = vec![Set::EMPTY; self.stored.len()];
        let present = self.graph.edges.iter().filter(|edge| edge.kind.orders());
        for (from, to) in present.filter_map(|edge| Some((edge.from, edge.to?))) {
            after[from].add(to);
        }
        for unit in self.up().iter() {
            let Some(run) = &self.stored[unit].run else { continue };
            for &to in &run.before {
                if !after[unit].has(to) && !reaches(&after, to, unit) {
                    after[unit].add(to);
                }
            }
        }
        after
    }

    /// Those that may be told to stop now.
    pub(crate) fn may_stop(&self) -> Set {
        let stop = self.must_stop();
        let told = |unit: usize| self.stored[unit].run.as_ref().is_some_and(|r| r.told.is_some());
        let waiting: Set = stop.iter().filter(|unit| !told(*unit)).collect();
        if waiting.is_empty() {
            return waiting;
        }
        let order = self.stop_order();
        let immortal = |unit: usize| self.stored[unit].run.as_ref().is_some_and(|r| r.unkillable);
        let holds = stop.iter().filter(|unit| !immortal(*unit)).collect::<Set>();
        waiting.iter().filter(|unit| !holds.iter().any(|v| order[v].has(*unit))).collect()
    }

    /// `unit`'s run is running, reloading or exited, and is not to be stopped.
    fn active(&self, unit: usize, must_stop: Set) -> bool {
        let ready = self.stored[unit].run.as_ref().is_some_and(|run| run.phase.is_active());
        ready && !must_stop.has(unit)
    }

    fn immortal(&self, unit: usize) -> bool {
        self.stored[unit].run.as_ref().is_some_and(|run| run.unkillable)
    }

    pub(crate) fn skipped(&self, unit: usize) -> bool {
        self.stored[unit].run.as_ref().is_some_and(|run| run.skipped)
    }

    /// Its own failure is final, or its verdict stands, or it can not be killed.
    fn own_failure(&self, unit: usize) -> bool {
        let it = &self.stored[unit];
        let ruled_out = it.run.is_none() && self.broken_or_refused().has(unit);
        it.verdict || self.immortal(unit) || ruled_out || matches!(it.rest, Rest::Failed(_))
    }

    /// failed (dependency).
    pub(crate) fn starved(&self) -> Set {
        let candidates = self.needed.less(self.up());
        let stop = self.must_stop();
        let mut starved = Set::EMPTY;
        loop {
            let before = starved;
            for unit in candidates.less(before).iter().filter(|unit| !self.own_failure(*unit)) {
                let mut hard = self.graph.of(unit);
                if hard.any(|edge| match (edge.kind, edge.to) {
                    (D::DependsOn | D::DependsMs | D::RequiresActive, None) => !edge.optional,
                    (D::DependsOn | D::DependsMs, Some(to)) => {
                        self.own_failure(to) || before.has(to)
                    }
                    (D::RequiresActive, Some(to)) => {
                        let comes = self.needed.has(to) && !self.own_failure(to) && !before.has(to);
                        !self.active(to, stop) && !comes
                    }
                    _ => false,
                }) {
                    starved.add(unit);
                }
            }
            if starved == before {
                return starved;
            }
        }
    }

    /// Every gate of `unit` is open.
    fn gates_open(&self, unit: usize, must_stop: Set, starved: Set) -> bool {
        self.graph.of(unit).all(|edge| match (edge.kind, edge.to) {
            (D::DependsOn | D::DependsMs | D::RequiresActive, None) => edge.optional,
            (D::DependsOn, Some(to)) => self.active(to, must_stop) && !self.skipped(to),
            (D::DependsMs | D::RequiresActive, Some(to)) => self.active(to, must_stop),
            (D::WaitsFor | D::After, Some(to)) => {
                edge.kind == D::After && !self.needed.has(to)
                    || self.active(to, must_stop)
                    || self.own_failure(to)
                    || starved.has(to)
            }
            (D::RestartWith, Some(to)) => to == unit || !must_stop.has(to) || self.immortal(to),
            (D::Conflicts, Some(_)) | (D::Wants | D::Before, _) | (_, None) => true,
            (D::ReloadWith | D::OnFailure | D::OnSuccess, Some(_)) => true,
        })
    }

    /// Nothing but a free slot is missing.
    pub(crate) fn may_start_but_slot(&self, unit: usize, must_stop: Set, starved: Set) -> bool {
        let it = &self.stored[unit];
        let up = self.up();
        let held = |target: &usize| {
            let holder = |v: usize| {
                v != unit
                    && self.stored[v].run.as_ref().is_some_and(|run| run.targets.contains(target))
            };
            up.iter().any(holder)
        };
        self.needed.has(unit)
            && !self.broken_or_refused().has(unit)
            && it.rest == Rest::Idle
            && it.run.is_none()
            && self.gates_open(unit, must_stop, starved)
            && !up.iter().any(|other| self.graph.conflict(unit, other))
            && !self.selected(unit).iter().any(held)
    }

    pub(crate) fn slot_free(&self) -> bool {
        let max = self.generation.settings.max_starting as usize;
        let takes = |unit: &usize| {
            let run = self.stored[*unit].run.as_ref();
            run.is_some_and(|run| run.slot_until < Time::NEVER)
        };
        max == 0 || (0..self.stored.len()).filter(takes).count() < max
    }

    /// Those that may start but for a slot, in the order of the law.
    pub(crate) fn start_order(&self) -> Vec<usize> {
        let (must_stop, starved) = (self.must_stop(), self.starved());
        let may: Vec<usize> = (0..self.stored.len())
            .filter(|unit| self.may_start_but_slot(*unit, must_stop, starved))
            .collect();
        if may.len() < 2 {
            return may;
        }
        let chain = self.chains();
        let mut order = may;
        order.sort_by_key(|unit| (std::cmp::Reverse(chain[*unit]), *unit));
        order
    }

    /// The longest chain of needed units that come after each.
    fn chains(&self) -> Vec<u32> {
        let mut chain = vec![0u32; self.stored.len()];
        for _ in 0..self.stored.len() {
            for edge in self.graph.edges.iter().filter(|edge| edge.kind.orders()) {
                if let Some(to) = edge.to.filter(|_| self.needed.has(edge.from)) {
                    chain[to] = chain[to].max(chain[edge.from] + 1);
                }
            }
        }
        chain
    }

    /// The table of states: the first row that fits.
    pub fn state(&self, unit: usize) -> State {
        self.state_in(unit, self.must_stop(), self.starved())
    }

    pub(crate) fn state_in(&self, unit: usize, must_stop: Set, starved: Set) -> State {
        let it = &self.stored[unit];
        match &it.run {
            Some(run) if run.unkillable => return State::Failed,
            Some(_) if must_stop.has(unit) => return State::Stopping,
            Some(run) => {
                return match run.phase {
                    Phase::Starting => State::Starting,
                    Phase::Running => State::Running,
                    Phase::Reloading => State::Reloading,
                    Phase::Exited => State::Exited,
                    Phase::Stopping => State::Stopping,
                };
            }
            None => {}
        }
        if self.own_failure(unit) {
            State::Failed
        } else if !self.needed.has(unit) {
            State::Disabled
        } else if starved.has(unit) {
            State::Failed
        } else {
            State::Waiting
        }
    }

    /// All states at once.
    pub fn states(&self) -> Vec<State> {
        let (must_stop, starved) = (self.must_stop(), self.starved());
        (0..self.stored.len()).map(|unit| self.state_in(unit, must_stop, starved)).collect()
    }

    /// Needed units that are in their first start.
    pub(crate) fn first_start(&self) -> Set {
        let starved = self.starved();
        let first = |unit: &usize| {
            !self.stored[*unit].tried && !starved.has(*unit) && !self.own_failure(*unit)
        };
        self.needed.iter().filter(first).collect()
    }

    /// Active units with the flag.
    pub fn degraded(&self) -> Set {
        let (must_stop, first) = (self.must_stop(), self.first_start());
        let active: Set = self.up().iter().filter(|unit| self.active(*unit, must_stop)).collect();
        let down = self.needed.less(active).less(first);
        let orphaned = |unit: &usize| {
            self.stored[*unit].run.as_ref().is_some_and(|run| !run.orphaned.is_empty())
        };
        let mut bad = down.or(active.iter().filter(orphaned).collect());
        loop {
            let before = bad;
            for unit in self.needed.less(before).iter() {
                let mut pulls = self.graph.of(unit).filter(|edge| edge.kind.pulls_in());
                if pulls.any(|edge| edge.to.is_some_and(|to| before.has(to))) {
                    bad.add(unit);
                }
            }
            if bad == before {
                return bad.and(active);
            }
        }
    }

    /// Targets with the flag.
    pub fn coincidental(&self) -> Vec<usize> {
        let roots = self.roots().0;
        let named = |target: usize| {
            roots.contains(&Some(target))
                || self.graph.edges.iter().any(|edge| {
                    edge.target == target && self.brings_in(edge) && self.needed.has(edge.from)
                })
        };
        let needed =
            |target: &usize| self.graph.provider[*target].is_some_and(|unit| self.needed.has(unit));
        (0..self.graph.provider.len()).filter(needed).filter(|t| !named(*t)).collect()
    }

    /// The first that fits.
    pub fn system(&self) -> System {
        if self.shutdown.is_some() {
            return System::Stopping;
        }
        let (must_stop, starved) = (self.must_stop(), self.starved());
        let lost = |target: &Option<usize>| match target.and_then(|t| self.graph.provider[t]) {
            None => true,
            Some(unit) => {
                self.own_failure(unit) || self.state_in(unit, must_stop, starved) == State::Failed
            }
        };
        if self.roots().0.iter().any(lost) {
            return System::Failed;
        }
        if !self.first_start().is_empty() {
            return System::Starting;
        }
        let active = |unit: usize| self.active(unit, must_stop);
        if self.needed.iter().all(active) && self.degraded().is_empty() {
            System::Running
        } else {
            System::Degraded
        }
    }
}

fn reaches(edges: &[Set], from: usize, goal: usize) -> bool {
    let mut seen = Set::EMPTY.with(from);
    loop {
        let before = seen;
        before.iter().for_each(|unit| seen = seen.or(edges[unit]));
        if seen.has(goal) || seen == before {
            return seen.has(goal);
        }
    }
}
