//! The two ways of finding the processes of a run; which one it is stands in `status`. And what
//! becomes of the first where another program has removed init's cgroup directory.

use super::tracker::Tracker;
use crate::sys::Pid;
use groundstate_units::machine::event::RunId;

/// How processes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracking {
    /// By the cgroup they are in: nothing escapes.
    Cgroup2,
    /// By session, process group and parent.
    ProcessGroup,
}

impl Tracking {
    /// As `status` and `stats` say it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Tracking::Cgroup2 => "cgroup2",
            Tracking::ProcessGroup => "process-group",
        }
    }
}

impl Tracker {
    /// Init's cgroup directory was removed, and now a process can be placed: in a directory made
    /// again, or without cgroups. False: the directory is there.
    pub(super) fn replaces_directory(&mut self) -> bool {
        let Some(hierarchy) = self.hierarchy.as_mut().filter(|hierarchy| hierarchy.is_gone())
        else {
            return false;
        };
        let path = hierarchy.path.clone();
        match hierarchy.make_again() {
            Ok(()) => self.complain(format!("{path} was removed: it is made again")),
            Err(why) => {
                self.complain(format!(
                    "{path} was removed and {why}: from now on processes are tracked by their parents, not by cgroups"
                ));
                self.do_without_cgroups();
            }
        }
        true
    }

    /// Present runs are tracked by the children that init knows.
    fn do_without_cgroups(&mut self) {
        if let Some(mut hierarchy) = self.hierarchy.take() {
            hierarchy.is_ours = false;
        }
        self.inotify = None;
        self.watches.clear();
        self.memory_watches.clear();
        self.leftovers.clear();
        self.ahead = super::preallocated::Ahead::default();
        for (_, tracked) in self.runs.iter_mut() {
            (tracked.cgroup, tracked.entered, tracked.counts_memory) = (None, false, false);
        }
        let children: Vec<(i32, RunId)> =
            self.children.iter().map(|(pid, run)| (*pid, *run)).collect();
        for (pid, run) in children {
            self.has_begun(run, Pid::from_raw(pid));
        }
        self.look_again = true;
    }
}
