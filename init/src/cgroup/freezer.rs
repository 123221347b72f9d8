//! Processes that somebody has frozen with the freezer of cgroup v1: not even SIGKILL ends them before
//! they are thawed (freezer-subsystem.rst of the kernel). What init has killed it thaws: each cgroup
//! one of the killed is in or below, but not one that init itself is in or below. The
//! freezer of v2 keeps nobody alive, and needs none of this.
//!
//! Who stands in which cgroup is looked up by PID 1 (/proc, which waits for nobody); the files of the
//! freezer are a child's to read and to write, for a lock of the kernel is behind them.

use super::tracker::Tracker;
use crate::process;
use crate::sys::Pid;
use groundstate_units::machine::event::RunId;
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, statfs};
use std::collections::BTreeSet;

/// Where its hierarchy is mounted.
const MOUNT: &str = "/sys/fs/cgroup/freezer";
/// Processes of a run that are looked at.
const PROCESSES: usize = 256;
/// Cgroups that wait to be thawed.
const WANTED: usize = 4096;
/// Cgroups looked at above one another.
const DEPTH: usize = 32;

impl Tracker {
    /// Thaws all of a run, which was killed.
    pub(super) fn thaw_run(&mut self, run: RunId) {
        if is_there() {
            let mut killed = self.processes(run);
            killed.extend(self.runs.get(&run).iter().flat_map(|tracked| &tracked.children));
            self.thaw(killed);
        }
    }

    /// Thaws those who were killed.
    pub(crate) fn thaw(&mut self, killed: impl IntoIterator<Item = i32>) {
        let Some(own) = process::own_freezer().filter(|_| is_there()) else { return };
        // Nearly all are in init's own.
        for pid in killed.into_iter().take(PROCESSES) {
            let path = process::freezer(Pid::from_raw(pid));
            self.thaw.wanted(path.iter().flat_map(|path| cgroups(path, &own)));
        }
        self.thaw.begin();
    }
}

/// Cgroups that are to be thawed, and the child that is at it: one at a time, for it may wait.
#[derive(Debug, Default)]
pub(super) struct Thaw {
    child: Option<i32>,
    next: BTreeSet<String>,
}

impl Thaw {
    fn wanted<'a>(&mut self, paths: impl Iterator<Item = &'a str>) {
        for path in paths {
            if self.next.len() < WANTED {
                self.next.insert(path.to_string());
            }
        }
    }

    fn begin(&mut self) {
        if self.child.is_some() || self.next.is_empty() {
            return;
        }
        let work = || {
            self.next.iter().for_each(|path| thaw(&format!("{MOUNT}{path}")));
            0
        };
        // Without a process to be had they are tried with those of the next kill.
        if let Ok(child) = crate::sys::process::fork(&[], work) {
            self.child = Some(child.as_raw());
            self.next.clear();
        }
    }

    /// A child was reaped.
    pub(super) fn ended(&mut self, pid: Pid) {
        if self.child.take_if(|child| *child == pid.as_raw()).is_some() {
            self.begin();
        }
    }
}

fn is_there() -> bool {
    statfs(MOUNT).is_ok_and(|found| found.filesystem_type() == CGROUP_SUPER_MAGIC)
}

/// The cgroup and those above it, but those that `own` is in or below.
fn cgroups<'a>(path: &'a str, own: &'a str) -> impl Iterator<Item = &'a str> {
    let is_known = path.starts_with('/') && !path.split('/').any(|name| name == "..");
    let holds_init = |path: &str| {
        own.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let above = |path: &&'a str| path.rsplit_once('/').map(|(above, _)| above);
    std::iter::successors(is_known.then_some(path), above)
        .take(DEPTH)
        .take_while(move |path| !path.is_empty() && *path != "/" && !holds_init(path))
}

fn thaw(path: &str) {
    let file = format!("{path}/freezer.state");
    let state = std::fs::read_to_string(&file).unwrap_or_default();
    if matches!(state.trim(), "FROZEN" | "FREEZING") {
        // Nobody is there to be told that it may not be.
        let _ = std::fs::write(&file, "THAWED");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_init_itself_is_in_is_never_thawed() {
        let of = |path, own| cgroups(path, own).collect::<Vec<_>>();
        assert_eq!(of("/a/b", "/"), ["/a/b", "/a"]);
        assert_eq!(of("/a/b", "/a"), ["/a/b"]);
        assert_eq!(of("/ab/c", "/a"), ["/ab/c", "/ab"]);
        for (path, own) in [("/", "/"), ("/a", "/a"), ("/a", "/a/b"), ("/../a", "/"), ("a", "/")] {
            assert_eq!(of(path, own), [""; 0], "{path} {own}");
        }
        let deep = "/a".repeat(1000);
        assert_eq!(of(&deep, "/").len(), DEPTH);
    }
}
