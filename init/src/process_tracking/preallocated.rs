//! Cgroups made ahead: for units that wait for others, in moments in which init has nothing
//! else to do. What a start needs then is there, and a chain of units is that much quicker. Each
//! is made for one unit and used by one run of it; who waits no longer loses it.

use super::group;
use super::tracker::Tracker;
use crate::base::limit;
use groundstate_units::machine::event::RunId;
use groundstate_units::text::name::Name;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;

/// Those that are there, and for whom there are to be some.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Ahead {
    wanted: BTreeSet<Name>,
    made: BTreeMap<Name, u64>,
    /// Whose run has which of them now.
    taken: BTreeMap<u64, RunId>,
    last: u64,
}

impl Tracker {
    /// The unit waits for others: it will want a cgroup.
    pub(crate) fn announce(&mut self, unit: &Name) {
        if self.hierarchy.is_some() && !self.ahead.made.contains_key(unit) {
            self.ahead.wanted.insert(unit.clone());
        }
    }

    /// It does not wait any more, and was not started.
    pub(crate) fn withdraw(&mut self, unit: &Name) {
        self.ahead.wanted.remove(unit);
        if let (Some(number), Some(hierarchy)) = (self.ahead.made.remove(unit), &self.hierarchy) {
            // Nobody was ever put into it.
            group::remove_leaf(hierarchy.as_fd(), &group::name_ahead(unit.as_str(), number));
        }
    }

    /// There is something to do in an idle moment.
    pub(crate) fn has_work_ahead(&self) -> bool {
        !self.ahead.wanted.is_empty() && self.ahead.made.len() < limit::CGROUPS_AHEAD
    }

    /// Makes one.
    pub(crate) fn work_ahead(&mut self) {
        let (Some(hierarchy), Some(unit)) = (&self.hierarchy, self.ahead.wanted.pop_first()) else {
            return;
        };
        let number = self.ahead.last.saturating_add(1);
        let name = group::name_ahead(unit.as_str(), number);
        // Opened once, for that is dearer the first time. What can not be made is made, and told
        // of, when it is needed.
        if group::make(hierarchy.as_fd(), &name).is_ok()
            && group::open(hierarchy.as_fd(), &name).is_ok()
        {
            self.ahead.last = number;
            self.ahead.made.insert(unit, number);
        }
    }

    /// The one that was made for this unit, for this run of it.
    pub(super) fn take_ahead(&mut self, unit: &str, run: RunId) -> Option<Box<str>> {
        self.ahead.wanted.remove(unit);
        let number = self.ahead.made.remove(unit)?;
        self.ahead.taken.insert(number, run);
        Some(group::name_ahead(unit, number).into_boxed_str())
    }

    /// The run the name of a cgroup speaks of.
    pub(super) fn run_of(&self, name: &str) -> Option<RunId> {
        match group::number_of(name)? {
            group::Number::Run(run) => Some(run),
            group::Number::Ahead(number) => self.ahead.taken.get(&number).copied(),
        }
    }

    /// No run has this cgroup any more.
    pub(super) fn give_up(&mut self, name: &str) {
        if let Some(group::Number::Ahead(number)) = group::number_of(name) {
            self.ahead.taken.remove(&number);
        }
    }
}
