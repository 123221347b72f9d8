//! Assigns children and orphans to runs without cgroups.

use crate::base::procfs::{self, Stat};
use crate::process_tracking::process_tree::{ProcessTree, of, on};
use crate::process_tracking::tracker::{Tracked, Tracker};
use crate::sys::child_setup::Limit;
use crate::sys::{Pid, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::ResourceLimit;
use std::collections::BTreeSet;

impl Tracker {
    /// The mark for programs of this run without cgroups. `None` if its unit sets that limit
    /// itself: its value may be above the mark, and the mark would make it unreachable.
    pub(crate) fn mark(&self, run: RunId, asked: &[ResourceLimit]) -> Option<Limit> {
        let mark = self.hierarchy.is_none().then(|| of(run))??;
        asked.iter().all(|limit| u32::from(limit.resource) != mark.resource).then_some(mark)
    }

    /// Notes that a child was cloned for this run, so that its pid no longer belongs to an earlier
    /// process.
    pub(in crate::process_tracking) fn has_begun(&mut self, run: RunId, pid: Pid) {
        if self.hierarchy.is_some() {
            return;
        }
        // A process started after a kill, such as an exec-stop-post, must not be killed.
        self.killed.remove(&run);
        let had = |(of, family): &(&RunId, &ProcessTree)| **of != run && family.names(pid.as_raw());
        let before: Vec<RunId> = self.families.iter().filter(had).map(|(of, _)| *of).collect();
        for of in before {
            self.families.get_mut(&of).into_iter().for_each(|family| family.not_ours(pid));
        }
        // Otherwise the child was started earlier and is known.
        if wait::is_made(pid) {
            let family = self.families.get_or_default(run);
            family.not_ours(pid);
            family.add(pid);
        }
    }

    /// Kills killed runs again in a new image without cgroups, because they may have forked
    /// meanwhile.
    pub(crate) fn chase(&mut self, killed: impl IntoIterator<Item = RunId>) {
        if self.hierarchy.is_some() {
            return;
        }
        // A run with children may be running an exec-stop-post, which starts after the kill.
        let is_alone = |tracked: &Tracked| tracked.children.is_empty();
        for run in killed {
            if self.runs.get(&run).is_some_and(is_alone) {
                self.kill(run);
            }
        }
    }

    /// Finds the runs of orphans that have become children of init, by one look at all children.
    /// Called after all calls of [`Tracker::ended`] and before any query about a run.
    pub(crate) fn adopt_left(&mut self) {
        // Runs of processes that have just exited, with their start times.
        let parted = std::mem::take(&mut self.parted);
        let reaped = std::mem::take(&mut self.reaped);
        if self.hierarchy.is_some() {
            return;
        }
        for pid in procfs::children().into_iter().map(Pid::from_raw) {
            let known = |family: &ProcessTree| family.leads(pid.as_raw());
            let is_new = reaped.contains(&pid.as_raw()) || wait::is_made(pid);
            if is_new || self.families.values().any(known) {
                continue;
            }
            let Some(stat) = procfs::stat(pid) else { continue };
            let band = || self.family_of(&stat);
            let left =
                || parted.iter().find(|(_, began)| stat.began >= *began).map(|(run, _)| *run);
            let mark = on(pid);
            let marked = mark.filter(|run| self.families.contains_key(run));
            // An orphan with the mark of an ended run belongs to that run, not to the one whose
            // process exited now.
            let run = marked.or_else(band).or_else(|| left().filter(|_| mark.is_none()));
            if let Some(family) = run.and_then(|run| self.families.get_mut(&run)) {
                family.add(pid);
            }
        }
        self.kill_on(&parted);
    }

    /// The run of a process by its session or group, or as a known child.
    pub(in crate::process_tracking) fn family_of(&self, stat: &Stat) -> Option<RunId> {
        self.families.iter().find(|(_, family)| family.has(stat)).map(|(run, _)| *run)
    }

    /// Kills again: runs that fork while they are killed have new processes.
    fn kill_on(&self, parted: &[(RunId, u64)]) {
        let killed: BTreeSet<RunId> =
            parted.iter().map(|(run, _)| *run).filter(|run| self.killed.contains(run)).collect();
        for family in killed.iter().filter_map(|run| self.families.get(run)) {
            family.signal(9, None);
        }
    }
}

impl Tracker {
    /// The run of a process by the mark of the child of init that it is or descends from. That
    /// child is an orphan whose parent's exit init has not handled; the next call of
    /// [`Tracker::adopt_left`] finds it.
    pub(in crate::process_tracking) fn lost(&self, pid: Pid) -> Option<RunId> {
        let own = nix::unistd::getpid();
        let line = [pid].into_iter().chain(procfs::ancestors(pid));
        let child = line.take_while(|one| *one != own).last()?;
        let is_lost = wait::is_child(child) && !wait::is_made(child);
        is_lost.then(|| on(child))?.filter(|run| self.families.contains_key(run))
    }
}
