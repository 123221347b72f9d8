//! What the kernel tells of cgroups by inotify(7): that one has emptied, that it has killed in
//! one for want of memory. All watches are behind one descriptor. What follows from it is
//! [`super::tracker`]'s and [`super::cgroup_settings`]'s.

use super::tracker::Tracker;
use crate::base::limit;
use groundstate_units::machine::event::RunId;
use nix::sys::inotify::{AddWatchFlags, Inotify};
use std::collections::BTreeSet;

impl Tracker {
    pub(super) fn watch(&mut self, run: RunId) {
        let Some(name) = self.runs.get(&run).and_then(|tracked| tracked.cgroup.clone()) else {
            return;
        };
        self.watch_cgroup(&name);
    }

    pub(super) fn watch_cgroup(&mut self, name: &str) {
        if self.watches.values().any(|watched| **watched == *name) {
            return;
        }
        let (Some(hierarchy), Some(inotify)) = (&self.hierarchy, &self.inotify) else {
            self.look_again = true;
            return;
        };
        let path = format!("{}/{name}/cgroup.events", hierarchy.path);
        match inotify.add_watch(path.as_str(), AddWatchFlags::IN_MODIFY) {
            Ok(watch) => {
                self.watches.insert(watch, name.into());
            }
            // Too many watches: asked again after each round of reaping.
            Err(_) => self.look_again = true,
        }
    }

    pub(super) fn unwatch(&mut self, name: &str) {
        let found = self.watches.iter().find(|(_, watched)| ***watched == *name).map(|(w, _)| *w);
        if let (Some(watch), Some(inotify)) = (found, &self.inotify) {
            let _ = inotify.rm_watch(watch);
            self.watches.remove(&watch);
        }
    }

    /// [`Tracker::emptied`] is to be asked again although the poll has nothing to say.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    /// [`Tracker::emptied`] or [`Tracker::short_of_memory`] may have something to tell.
    pub(crate) fn may_have_news(&self) -> bool {
        let watches = !self.watches.is_empty() || !self.memory_watches.is_empty();
        let is_behind = self.more || self.look_again || !self.short.is_empty();
        watches || is_behind || self.hierarchy.is_none()
    }

    /// Somebody waits for a cgroup to empty that can not be watched: it is to be looked at from time to
    /// time. Where there are no cgroups each end is told of.
    pub(crate) fn has_to_look(&self) -> bool {
        self.look_again && self.hierarchy.is_some()
    }

    /// The cgroups of which something was told: of those that somebody waits for by their names,
    /// of the others in [`Tracker::short`]. Never waits.
    pub(super) fn heard(&mut self) -> BTreeSet<Box<str>> {
        let mut touched = BTreeSet::new();
        let watches = !self.watches.is_empty() || !self.memory_watches.is_empty();
        let inotify = self.inotify.as_ref().filter(|_| watches);
        self.more = inotify.is_some();
        for _ in 0..limit::WATCHES_READ_A_TURN {
            let Some(Ok(events)) = inotify.map(Inotify::read_events) else {
                self.more = false;
                break;
            };
            for event in events {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    self.look_again = true;
                }
                touched.extend(self.watches.get(&event.wd).cloned());
                self.short.extend(self.memory_watches.get(&event.wd).copied());
                if event.mask.contains(AddWatchFlags::IN_IGNORED) {
                    self.memory_watches.remove(&event.wd);
                    self.watches.remove(&event.wd);
                }
            }
        }
        touched
    }
}
