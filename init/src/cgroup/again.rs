//! The cgroups of an image of init whose state is lost: found by the descriptor it had of their
//! directory, and given to the runs that are there. What is done with them is [`crate::found`]'s.

use super::group::{self, Number};
use super::hierarchy::Hierarchy;
use super::tracker::Tracker;
use crate::sys::{Pid, inherit};
use groundstate_units::machine::event::RunId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::fd::AsFd;

/// One of a run, in which something lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Left {
    /// Below ours.
    pub(crate) name: String,
    /// Its unit's name, or how that begins ([`group::short`]).
    pub(crate) unit: String,
    /// Its run; None: it was made ahead, for whichever came.
    pub(crate) run: Option<RunId>,
    /// As this one.
    pub(crate) ahead: Option<u64>,
}

impl Left {
    fn of(name: String) -> Option<Left> {
        let (_, last) = name.rsplit_once('/').unwrap_or(("", &name));
        let (unit, _) = last.rsplit_once('.')?;
        let (run, ahead) = match group::number_of(last)? {
            Number::Run(run) => (Some(run), None),
            Number::Ahead(number) => (None, Some(number)),
        };
        Some(Left { unit: unit.to_string(), run, ahead, name })
    }
}

impl Tracker {
    /// As an image before this one had it; called before the rest of what that one had open is
    /// closed. None: it had none.
    pub(crate) fn again() -> Option<Tracker> {
        let tracker = Tracker::with(Some(Hierarchy::again()?));
        tracker.inotify.iter().for_each(|inotify| inherit::is_new(inotify.as_fd()));
        Some(tracker)
    }

    /// Cgroups of runs in which something lives: the topmost of each.
    pub(crate) fn left(&self) -> Vec<Left> {
        let mut found: Vec<Left> = Vec::new();
        for name in self.unknown_cgroups() {
            let is_within = |left: &Left| {
                name.strip_prefix(&left.name).is_some_and(|rest| rest.starts_with('/'))
            };
            if !found.iter().any(is_within) {
                found.extend(Left::of(name));
            }
        }
        found
    }

    /// Processes in one of them.
    pub(crate) fn living_in(&self, name: &str) -> BTreeSet<i32> {
        let hierarchy = self.hierarchy.as_ref();
        hierarchy.map(|hierarchy| group::processes(hierarchy.as_fd(), name)).unwrap_or_default()
    }

    /// The number of this run's, where it was made ahead.
    pub(crate) fn made_ahead_for(&self, run: RunId) -> Option<u64> {
        match group::number_of(self.runs.get(&run)?.cgroup.as_deref()?)? {
            Number::Ahead(number) => Some(number),
            Number::Run(_) => None,
        }
    }

    /// It is this run's from now on.
    pub(crate) fn take_over(&mut self, run: RunId, name: &str) {
        if let Some(Number::Ahead(number)) = group::number_of(name) {
            self.was_made_ahead(number, run);
        }
        self.leftovers.remove(name);
        let tracked = self.runs.entry(run).or_default();
        (tracked.cgroup, tracked.entered, tracked.killed) = (Some(name.into()), true, true);
    }

    /// Without cgroups: a process that is left to init is this run's.
    pub(crate) fn was_left(&mut self, run: RunId, pid: Pid) {
        self.runs.entry(run).or_default();
        self.families.entry(run).or_default().add(pid);
    }

    /// It is nobody's: it goes as soon as nothing lives in it. None that is made ahead gets its name.
    pub(crate) fn leave(&mut self, name: &str) {
        if let Some(Number::Ahead(number)) = group::number_of(name) {
            self.is_not_ahead(number);
        }
        self.discard(name.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_cgroup_says_whose_it_is() {
        let of = |name: &str| Left::of(name.to_string()).map(|left| (left.unit, left.run));
        let run = |number| Some(RunId(number));
        assert_eq!(of("web.7"), Some(("web".to_string(), run(7))));
        assert_eq!(of("high/low/web.x.7-2"), Some(("web.x".to_string(), run(7))));
        assert_eq!(of("web.a3"), Some(("web".to_string(), None)));
        assert_eq!((of("web"), of("high.7/web"), of("")), (None, None, None));
    }
}
