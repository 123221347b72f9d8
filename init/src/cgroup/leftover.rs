//! Cgroups of runs that are over and in which something still lives: they are removed
//! when they tell that they are empty. Who is in one is [`super::tracker`]'s.

use super::tracker::Tracker;
use super::tracking::Tracking;
use super::{controller, group};
use crate::sys::Pid;
use groundstate_units::machine::event::RunId;
use std::collections::BTreeSet;
use std::os::fd::AsFd;

/// Cgroups that could not be removed yet and are remembered.
pub(super) const LEFTOVERS: usize = 4096;
/// Among them: there were more than that. No cgroup has this name, and the form that is kept stays as it is.
const MORE: &str = "";

fn is_at_or_below(name: &str, top: &str) -> bool {
    name.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// It was made for this run of the unit, and not by somebody who may make cgroups within one.
fn is_of_run(name: &str, run: RunId, unit: &str, slice: &str) -> bool {
    let (above, last) = name.rsplit_once('/').unwrap_or(("", name));
    let own = last.rsplit_once('.').map(|(own, _)| own);
    let parts = |path| str::split(path, '/').filter(|part| !part.is_empty());
    group::number_of(last) == Some(group::Number::Run(run))
        && own == Some(group::short(unit).as_str())
        && parts(above).eq(parts(slice))
}

impl Tracker {
    /// Removes a cgroup, now or when it tells that nothing lives in it any more.
    pub(super) fn discard(&mut self, name: Box<str>) {
        let Some(hierarchy) = &self.hierarchy else { return };
        if *name == *MORE {
            return;
        }
        let removed = group::remove(hierarchy.as_fd(), &name).is_ok();
        let is_full = self.leftovers.len() >= LEFTOVERS && !self.leftovers.contains(&name);
        if !removed && is_full {
            self.leftovers.insert(MORE.into());
        }
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

    /// There are cgroups.
    pub(crate) fn has_cgroups(&self) -> bool {
        self.hierarchy.is_some()
    }

    /// Some are not remembered: a cgroup that is unknown may be one that was left on purpose.
    pub(crate) fn has_forgotten(&self) -> bool {
        self.leftovers.contains(MORE)
    }

    /// After a crash: cgroups of runs that are in no state that was kept. Not what init itself is
    /// in, or what it has made for itself and its helpers.
    pub(crate) fn unknown_cgroups(&self) -> Vec<String> {
        let Some(hierarchy) = &self.hierarchy else { return Vec::new() };
        let own = self.below(nix::unistd::getpid());
        let known = |name: &str| {
            let is_above = |one: &String| is_at_or_below(one, name);
            if name == controller::OWN || own.as_ref().is_some_and(is_above) {
                return true;
            }
            let of_runs = self.runs.values().filter_map(|tracked| tracked.cgroup.as_deref());
            let mut all = of_runs.chain(self.leftovers.iter().map(|left| &**left));
            // Itself, what it is in, and what a service has made in its own.
            all.any(|one| is_at_or_below(one, name) || is_at_or_below(name, one))
        };
        let found = group::below(hierarchy.as_fd());
        let alive = |name: &String| group::is_populated(hierarchy.as_fd(), name).unwrap_or(false);
        found.into_iter().filter(|name| !known(name)).filter(alive).collect()
    }

    /// The cgroup below ours in which a process is that was started for this run; `ahead`: the number of
    /// the one it was begun in, where that was made ahead. Where it has gone itself since is not its.
    pub(crate) fn cgroup_for(&self, pid: Pid, run: RunId, ahead: Option<u64>) -> Option<String> {
        self.cgroup_around(pid, run, |_, number| Some(number) == ahead)
    }

    fn cgroup_around(
        &self,
        pid: Pid,
        run: RunId,
        is_its: impl Fn(&str, u64) -> bool,
    ) -> Option<String> {
        let below = self.below(pid)?;
        let ends = below.match_indices('/').map(|(at, _)| at).chain([below.len()]);
        let mut names = ends.filter_map(|end| below.get(..end));
        let is_it = |name: &&str| match group::number_of(name) {
            Some(group::Number::Run(of)) => of == run,
            Some(group::Number::Ahead(number)) => is_its(name, number),
            None => false,
        };
        names.find(is_it).map(str::to_string)
    }

    /// Those of [`Tracker::unknown_cgroups`] that may be of these runs.
    pub(crate) fn unknown_cgroups_of(&self, runs: &BTreeSet<RunId>) -> BTreeSet<String> {
        let may_be = |name: &String| match group::number_of(name) {
            Some(group::Number::Run(run)) => runs.contains(&run),
            Some(group::Number::Ahead(_)) => true,
            None => false,
        };
        self.unknown_cgroups().into_iter().filter(may_be).collect()
    }

    /// A process that was started for this run of a unit by an image before this one is, or was, in
    /// its cgroup, in this slice, which was made `ahead` as this one; the `others` are not its.
    pub(crate) fn take_up(
        &mut self,
        run: RunId,
        pid: Pid,
        (unit, slice, ahead): (&str, &str, Option<u64>),
        others: &BTreeSet<String>,
    ) {
        let is_its =
            |name: &str, number| Some(number) == ahead && *name == group::name_ahead(unit, number);
        let left = |tracker: &Tracker| {
            // It has ended; what it left tells where it was.
            let mut names = tracker.unknown_cgroups_of(&BTreeSet::from([run])).into_iter();
            names.find(|name| {
                !others.contains(name)
                    && match group::number_of(name) {
                        Some(group::Number::Ahead(number)) => is_its(name, number),
                        Some(group::Number::Run(_)) => is_of_run(name, run, unit, slice),
                        None => false,
                    }
            })
        };
        let name = self.cgroup_around(pid, run, is_its).or_else(|| left(self));
        if let Some(group::Number::Ahead(number)) = name.as_deref().and_then(group::number_of) {
            self.was_made_ahead(number, run);
        }
        let tracked = self.runs.get_or_default(run);
        if tracked.cgroup.is_none() {
            tracked.cgroup = name.map(String::into_boxed_str);
        }
        tracked.entered = tracked.cgroup.is_some();
        tracked.killed = tracked.entered;
    }

    /// Kills all in it; it goes as soon as it is empty.
    pub(crate) fn kill_unknown(&mut self, name: &str) {
        if let Some(hierarchy) = &self.hierarchy {
            // What can not be killed shows by its cgroup staying.
            let _ = group::kill(hierarchy.as_fd(), &hierarchy.shown, name);
            self.dying.add_cgroup(name);
        }
        if let Some(group::Number::Ahead(number)) = group::number_of(name) {
            self.is_for_nobody(number);
        }
        self.discard(name.into());
    }

    /// Whatever is waited for is looked at in the next turn.
    pub(crate) fn look_again(&mut self) {
        self.look_again = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_a_runs_where_init_makes_it_alone() {
        let is_its = |name: &str, slice: &str| is_of_run(name, RunId(7), "web", slice);
        assert!(
            is_its("web.7", "") && is_its("web.7-2", "") && is_its("high/low/web.7", "/high/low")
        );
        for others in
            ["web.8", "other.7", "other.6/web.7", "other.6/x.7", "web.a7", "web", "high/web.7"]
        {
            assert!(!is_its(others, ""), "{others}");
        }
        assert!(!is_its("web.7", "high") && !is_its("high/other.6/web.7", "high"));
    }
}
