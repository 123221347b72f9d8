//! Cgroups of runs that are over and in which something still lives: they are removed
//! when they tell that they are empty. Who is in one is [`super::tracker`]'s.

use super::group;
use super::tracker::Tracker;
use super::tracking::Tracking;
use std::os::fd::AsFd;

/// Cgroups that could not be removed yet and are remembered.
pub(super) const LEFTOVERS: usize = 4096;

impl Tracker {
    /// Removes a cgroup, now or when it tells that nothing lives in it any more.
    pub(super) fn discard(&mut self, name: Box<str>) {
        let Some(hierarchy) = &self.hierarchy else { return };
        let removed = group::remove(hierarchy.as_fd(), &name).is_ok();
        let is_full = self.leftovers.len() >= LEFTOVERS && !self.leftovers.contains(&name);
        if removed || is_full {
            self.leftovers.remove(&name);
            self.unwatch(&name);
        } else {
            let is_new = self.leftovers.insert(name.clone());
            self.watch_cgroup(&name);
            if !is_new {
                return;
            }
            // It may have emptied before the watch was there.
            let parent = self.hierarchy.as_ref().map(AsFd::as_fd);
            if parent.is_some_and(|parent| group::remove(parent, &name).is_ok()) {
                self.leftovers.remove(&name);
                self.unwatch(&name);
            }
        }
    }

    /// Which way it is.
    pub(crate) fn tracking(&self) -> Tracking {
        match self.hierarchy {
            Some(_) => Tracking::Cgroup2,
            None => Tracking::ProcessGroup,
        }
    }

    /// Whatever is waited for is looked at in the next turn.
    pub(crate) fn look_again(&mut self) {
        self.look_again = true;
    }
}
