//! Units that are there before the machine knows of them: it was lost in a crash, and begins anew
//! beside what lives.
//!
//! What is there begins with the boot, at once and under the number it has, whatever gates and slots
//! say: these were open when it began. So nothing is pending: from then on it is a run like all
//! others, and is stopped in order where the law has it stop (it conflicts, it is masked, what it
//! depends on is nobody's). That a provider is not up does not end it: it has lost none that it saw. What
//! lives is needed, as it must have been: its trigger has fired, or else it is wished for. What is
//! there and does not live (a script that is done) is taken so only where it is needed. What was being
//! stopped goes on to its end; those that restart with it were told before, and are not told again. What
//! was to be stopped and waited for the end of another is so still: nobody wishes for it, and nobody
//! is told to stop before all that is there has begun. Where something lives whose file can not be used,
//! or is away, nobody knows for what it waited: then it goes on, wished for, until that is known or over.
//!
//! Nothing else is decided by what was lost: the boot has the goal, the overlay and the end that were asked
//! for ([`super::event::Intent`]). A goal that is dead now stays beside what lives, as with a reload; where the
//! end was asked for nothing but what is there begins.
//!
//! One exception: a unit whose file can not be used, or is away, has nothing to go on by. It stays known
//! by its name, over reloads, and begins so as soon as its file is corrected, or is back.

use super::action::Action;
use super::event::RunId;
use super::mutant::Mutant;
use super::spread::is_dead;
use super::{Ix, Machine};
use crate::generation::UnitId;
use crate::graph::Edge;
use crate::name::Name;
use crate::spec::DependencyKind;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct There {
    /// The number it has.
    pub run: RunId,
    /// Something of it lives; else its work is done.
    pub lives: bool,
    /// Where it had been decided that it ends that stays so, and nobody needs it for its living.
    pub ends: Ends,
}

/// What had been decided about its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Ends {
    /// Nothing.
    No,
    /// It was being stopped.
    Told,
    /// It was to be stopped, and was not told yet: others were to be down first.
    Due,
}

impl Machine {
    /// Before [`super::event::Event::Boot`], and before a generation that may have a unit whose file was
    /// away: of all that has not begun these are there, and nothing else is any more. `highest` is the
    /// highest number that any run ever had.
    pub fn found_alive(&mut self, highest: RunId, units: impl IntoIterator<Item = (Name, There)>) {
        self.there = units.into_iter().collect();
        let all = self.there.values().map(|there| there.run).chain([highest]);
        self.numbered_before(RunId(all.map(|run| run.0).fold(0, u64::max)));
    }

    /// Something else lives, whose name nobody knows.
    pub fn others_live(&mut self) {
        self.others_live = true;
    }

    /// The highest number of a run.
    pub fn highest_run(&self) -> RunId {
        RunId(self.next_run.saturating_sub(1))
    }

    /// A new one that makes the same mistake, as the simulator has it.
    #[cfg(feature = "sim")]
    pub fn as_lost(&self) -> Machine {
        Machine { mutant: self.mutant, ..Machine::new(self.shutdown_deadline) }
    }

    /// Something lives that the machine did not begin itself.
    pub(super) fn something_lives(&self) -> bool {
        self.others_live || self.there.values().any(|there| there.lives)
    }

    /// It begins, whatever keeps others from it.
    pub(super) fn is_there(&self, ix: Ix) -> bool {
        !self.there.is_empty()
            && !self.planted(Mutant::WhatLivesWaits)
            && self
                .unit(ix)
                .is_some_and(|unit| unit.fault.is_none() && self.there.contains_key(&unit.name))
    }

    /// It begins now.
    pub(super) fn take_there(&mut self, ix: Ix) -> Option<There> {
        if self.there.is_empty() {
            return None;
        }
        let name = &self.generation.unit(UnitId(ix))?.name;
        self.there.remove(name)
    }

    /// All that is there, in the order of starts: who is to wait for the end of another knows of it then.
    pub(super) fn begin_there(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.there.is_empty() || self.planted(Mutant::WhatIsDueWaitsForNobody) {
            return;
        }
        self.propagate();
        let units = self.there.keys().filter_map(|name| self.generation.find_unit(name.as_str()));
        let ranks = units.map(|unit| (Reverse(self.cell(unit.0).rank), unit.0));
        let ready: BTreeSet<_> = ranks.filter(|rank| self.may_start.contains(rank)).collect();
        ready.into_iter().for_each(|(_, ix)| self.begin(now, ix, out));
    }

    /// It is to be stopped, whether it was told already or not: that it was is for the shell to know, which
    /// has told it.
    pub fn is_due(&self, run: RunId) -> bool {
        let is_meant = |ix: Ix, name: &Name| {
            self.graph.meant(&self.generation, name).unit() == Some(UnitId(ix))
        };
        let is_spared = |ix| self.spared.iter().any(|name| is_meant(ix, name));
        self.unit_of(run).is_some_and(|ix| self.cell(ix).must || is_spared(ix))
    }

    /// It has to stop at once.
    pub(super) fn may_not_be(&self, ix: Ix) -> bool {
        let (cell, edges) = (self.cell(ix), self.graph.edges(UnitId(ix)).iter());
        let mut hard = edges.filter(|edge| edge.kind == DependencyKind::DependsOn);
        let stops = |provider: UnitId| self.cell(provider.0).must;
        let unwanted = !cell.needed || cell.broken || cell.conflict.is_some();
        unwanted || hard.any(|edge| edge.provider.is_some_and(stops))
    }

    /// A depends-on target that is nobody's any more.
    pub(super) fn lost_already(&self, ix: Ix) -> Option<Name> {
        let mut edges = self.graph.edges(UnitId(ix)).iter();
        let dead = |edge: &&Edge| edge.kind == DependencyKind::DependsOn && is_dead(edge);
        let target = edges.find(dead).and_then(|edge| self.generation.target(edge.target));
        target.map(|target| target.name.clone())
    }
}
