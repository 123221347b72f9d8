//! N, and what entering and leaving it does. What follows for states and gates:
//! [`crate::oracle::law`].

use crate::oracle::graph::Edge;
use crate::oracle::set::Set;
use crate::oracle::{Oracle, Phase, Rest, Run};
use crate::spec::{DependencyKind as D, Live};
use crate::time::Time;

impl Oracle {
    /// N, and those in it that give way to a unit they conflict with.
    pub(crate) fn need(&self) -> (Set, Set) {
        let (root, _) = self.roots_of_need();
        let needed: Set = (0..root.len()).filter(|unit| root[*unit] != 0).collect();
        // What is broken can never be up, and is at odds with nobody.
        let mut order: Vec<usize> = needed.less(self.graph.broken).iter().collect();
        order.sort_by_key(|unit| (root[*unit], *unit));
        let (mut stay, mut refused) = (Set::EMPTY, Set::EMPTY);
        for unit in order {
            if stay.iter().any(|other| self.graph.conflict(unit, other)) {
                refused.add(unit);
            } else {
                stay.add(unit);
            }
        }
        (needed, refused)
    }

    /// Those that give way and are needed by what the operator wishes.
    pub(crate) fn losers(&self) -> Set {
        let (root, wished) = self.roots_of_need();
        self.need().1.iter().filter(|unit| (1..=wished).contains(&root[*unit])).collect()
    }

    /// By unit the first root that needs it, counted from 1 in the order set-target,
    /// overlay, sources, triggers; and how many of them are the operator's.
    fn roots_of_need(&self) -> (Vec<usize>, usize) {
        let mut root = vec![0; self.stored.len()];
        let (targets, wished) = self.roots();
        if self.shutdown.is_some() {
            return (root, 0);
        }
        // By name of the trigger.
        let mut late: std::collections::BTreeSet<(usize, usize)> = Default::default();
        let mut number = 0;
        let mut units = targets.iter().map(|target| target.and_then(|t| self.graph.provider[t]));
        loop {
            let unit = match units.next() {
                Some(unit) => unit,
                None => match late.pop_first() {
                    Some((_, unit)) => Some(unit),
                    None => return (root, wished),
                },
            };
            number += 1;
            let known: Set = (0..root.len()).filter(|unit| root[*unit] != 0).collect();
            let Some(unit) = unit.filter(|unit| !known.has(*unit)) else { continue };
            for grown in self.closure(Set::EMPTY.with(unit)).less(known).iter() {
                root[grown] = number;
                let fired = self.stored[grown].fired;
                let target = self.activates(grown).filter(|_| fired);
                let unit = target.and_then(|target| self.graph.provider[target]);
                late.extend(unit.map(|unit| (grown, unit)));
                let at_end = self.graph.of(grown).filter(|edge| edge.kind.pulls_in_at_end());
                let brought = at_end.filter(|edge| self.brings_in(edge));
                late.extend(brought.filter_map(|edge| Some((grown, edge.to?))));
            }
        }
    }

    /// What stands behind this edge is needed if who has it is.
    pub(crate) fn brings_in(&self, edge: &Edge) -> bool {
        let it = &self.stored[edge.from];
        let exited = |run: &Run| run.phase == Phase::Exited && !run.skipped;
        match edge.kind {
            D::OnFailure => it.verdict,
            D::OnSuccess => it.run.as_ref().is_some_and(exited),
            kind => kind.pulls_in(),
        }
    }

    /// With everything that `from` pulls in.
    pub(crate) fn closure(&self, from: Set) -> Set {
        let mut all = from;
        loop {
            let before = all;
            for unit in before.iter() {
                let pulls = self.graph.of(unit).filter(|edge| edge.kind.pulls_in());
                pulls.filter_map(|edge| edge.to).for_each(|to| _ = all.add(to));
            }
            if all == before {
                return all;
            }
        }
    }

    /// A unit may have come to an end, or from it, that brings others in.
    pub(crate) fn look_at_ends(&mut self) {
        if self.graph.edges.iter().any(|edge| edge.kind.pulls_in_at_end()) {
            self.renew_need();
        }
    }

    /// N anew, with what entering and leaving it does.
    pub(crate) fn renew_need(&mut self) {
        loop {
            let (needed, refused) = self.need();
            let (left, entered) = (self.needed.less(needed), needed.less(self.needed));
            self.refused = refused;
            self.needed = needed;
            for unit in left.iter() {
                self.forgive(unit);
                self.stored[unit].n = 0;
                self.stored[unit].failures.clear();
            }
            let mut dropped = false;
            for unit in left.iter() {
                dropped |= std::mem::take(&mut self.stored[unit].fired);
            }
            for unit in entered.iter() {
                self.stored[unit].rest = Rest::Idle;
                let active = |run: &Run| run.phase.is_active();
                self.stored[unit].tried = self.stored[unit].run.as_ref().is_some_and(active);
            }
            if !dropped {
                return self.follow();
            }
        }
    }

    /// Runs that are not to stop follow the present live keys and provide what they are
    /// selected for; what is to stop keeps its old definition.
    fn follow(&mut self) {
        for unit in self.up().less(self.must_stop()).iter() {
            let targets = self.selected(unit);
            let Some(live) = self.unit(unit).map(|unit| unit.live.clone()) else { continue };
            let Some(run) = &mut self.stored[unit].run else { continue };
            if run.phase == Phase::Starting && live.start_timeout != run.live.start_timeout {
                let span = live.start_timeout;
                run.start_by = span.map_or(Time::NEVER, |span| run.since.after(span));
            }
            run.live = Live::clone(&live);
            run.targets = targets;
        }
    }

    /// Clears verdict, backoff and failed.
    pub(crate) fn forgive(&mut self, unit: usize) {
        let it = &mut self.stored[unit];
        it.verdict = false;
        it.rest = Rest::Idle;
    }
}
