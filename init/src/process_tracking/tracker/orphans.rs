//! Processes without cgroups: which run a child or an orphan is of.

use crate::base::procfs::{self, Stat};
use crate::process_tracking::process_tree::{ProcessTree, of, on};
use crate::process_tracking::tracker::{Tracked, Tracker};
use crate::sys::child_setup::Limit;
use crate::sys::{Pid, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::ResourceLimit;
use std::collections::BTreeSet;

impl Tracker {
    /// What programs of this run are given to bear, where there are no cgroups. None where its unit has asked for
    /// that limit itself: what it asks for may be above the mark, and out of reach behind it.
    pub(crate) fn mark(&self, run: RunId, asked: &[ResourceLimit]) -> Option<Limit> {
        let mark = self.hierarchy.is_none().then(|| of(run))??;
        asked.iter().all(|limit| u32::from(limit.resource) != mark.resource).then_some(mark)
    }

    /// A child was cloned for this run: whatever had its pid before is gone.
    pub(in crate::process_tracking) fn has_begun(&mut self, run: RunId, pid: Pid) {
        if self.hierarchy.is_some() {
            return;
        }
        // What is begun after a kill, an exec-stop-post, is not killed.
        self.killed.remove(&run);
        let had = |(of, family): &(&RunId, &ProcessTree)| **of != run && family.names(pid.as_raw());
        let before: Vec<RunId> = self.families.iter().filter(had).map(|(of, _)| *of).collect();
        for of in before {
            self.families.get_mut(&of).into_iter().for_each(|family| family.not_ours(pid));
        }
        // Or it is one that had been started, and is known.
        if wait::is_made(pid) {
            let family = self.families.get_or_default(run);
            family.not_ours(pid);
            family.add(pid);
        }
    }

    /// As another image, without cgroups: what was killed is killed again, with what it has begun meanwhile.
    pub(crate) fn chase(&mut self, killed: impl IntoIterator<Item = RunId>) {
        if self.hierarchy.is_some() {
            return;
        }
        // An exec-stop-post is begun after the kill.
        let is_alone = |tracked: &Tracked| tracked.children.is_empty();
        for run in killed {
            if self.runs.get(&run).is_some_and(is_alone) {
                self.kill(run);
            }
        }
    }

    /// After all of [`Tracker::ended`] and before any question about a run: finds the runs of processes that
    /// have become children of init by that. It is one look at all children.
    pub(crate) fn adopt_left(&mut self) {
        // Runs whose processes have just ended, and when these began.
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
            // With the mark of a run that is over it was left by that, whoever ends now.
            let run = marked.or_else(band).or_else(|| left().filter(|_| mark.is_none()));
            if let Some(family) = run.and_then(|run| self.families.get_mut(&run)) {
                family.add(pid);
            }
        }
        self.kill_on(&parted);
    }

    /// The run it is of by its session, or as one of those init had begun.
    pub(in crate::process_tracking) fn family_of(&self, stat: &Stat) -> Option<RunId> {
        self.families.iter().find(|(_, family)| family.has(stat)).map(|(run, _)| *run)
    }

    /// What multiplies as it is killed has begun more meanwhile.
    fn kill_on(&self, parted: &[(RunId, u64)]) {
        let killed: BTreeSet<RunId> =
            parted.iter().map(|(run, _)| *run).filter(|run| self.killed.contains(run)).collect();
        for family in killed.iter().filter_map(|run| self.families.get(run)) {
            family.signal(9, None);
        }
    }
}

impl Tracker {
    /// Whose it is by the mark of the child of init that it is, or descends from: one that was left without anybody's
    /// end that init has seen, and is looked for at the next ([`Tracker::adopt_left`]).
    pub(in crate::process_tracking) fn lost(&self, pid: Pid) -> Option<RunId> {
        let own = nix::unistd::getpid();
        let line = [pid].into_iter().chain(procfs::ancestors(pid));
        let child = line.take_while(|one| *one != own).last()?;
        let is_lost = wait::is_child(child) && !wait::is_made(child);
        is_lost.then(|| on(child))?.filter(|run| self.families.contains_key(run))
    }
}
