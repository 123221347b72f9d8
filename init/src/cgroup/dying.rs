//! Who was killed after a crash as nobody's, and may take a moment to end: what is begun next waits for that, and finds
//! ports free and locks open. Not for long: what can not be killed is begun beside. Whoever is of a run is
//! waited for by the machine ([`super::tracker`]).

use super::group;
use super::hierarchy::Hierarchy;
use super::tracker::Tracker;
use crate::clock;
use crate::limit;
use crate::sys::{Pid, signal, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::time::Time;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsFd, BorrowedFd};

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Dying {
    children: Vec<Pid>,
    cgroups: Vec<String>,
    /// Since the first of them was killed.
    until: Option<Time>,
}

impl Dying {
    /// A child of init.
    pub(super) fn add_child(&mut self, pid: Pid) {
        if self.has_room() {
            self.children.push(pid);
        }
    }

    /// All that is in it.
    pub(super) fn add_cgroup(&mut self, name: &str) {
        if self.has_room() {
            self.cgroups.push(name.to_string());
        }
    }

    fn has_room(&mut self) -> bool {
        self.until.get_or_insert_with(|| clock::now().after(limit::DYING));
        self.children.len().saturating_add(self.cgroups.len()) < limit::DYING_KNOWN
    }

    /// Until they have ended.
    pub(super) fn wait(&mut self, hierarchy: Option<&Hierarchy>) {
        let Dying { children, cgroups, until } = std::mem::take(self);
        let Some(until) = until else { return };
        for pid in children {
            // Not reaped, so the pid is its own.
            let pidfd = signal::pidfd(pid).ok().filter(|_| wait::is_living_child(pid));
            if let Some(pidfd) = pidfd {
                wait_for(pidfd.as_fd(), PollFlags::POLLIN, until);
            }
        }
        let Some(hierarchy) = hierarchy else { return };
        for name in cgroups {
            let Some(events) = group::events(hierarchy.as_fd(), &name) else { continue };
            // It is to be read before each wait: it tells of what is another since then.
            while group::tells_of_life(&events)
                && wait_for(events.as_fd(), PollFlags::POLLPRI, until)
            {}
        }
    }
}

impl Tracker {
    /// Of those that were killed as nobody's none is left, or those that are can not be waited for.
    pub(crate) fn let_die(&mut self) {
        self.dying.wait(self.hierarchy.as_ref());
    }

    /// A child of init, which is of no run, was killed.
    pub(crate) fn is_dying(&mut self, child: Pid) {
        self.dying.add_child(child);
    }

    /// What is left of this run is killed, and more may be begun for it at once.
    pub(crate) fn kill_and_go_on(&mut self, run: RunId) {
        if let Some(name) = self.runs.get(&run).and_then(|tracked| tracked.cgroup.as_deref()) {
            self.dying.add_cgroup(name);
        }
        self.kill(run);
    }
}

/// False: it has taken too long.
fn wait_for(what: BorrowedFd<'_>, flags: PollFlags, until: Time) -> bool {
    let left = until.since(clock::now());
    let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
    poll(&mut [PollFd::new(what, flags)], left).is_ok_and(|told| told > 0)
}
