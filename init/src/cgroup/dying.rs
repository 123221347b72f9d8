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
use groundstate_units::text::time::Time;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Dying {
    children: Vec<Pid>,
    cgroups: Vec<String>,
    /// Since the first of them was killed.
    until: Option<Time>,
    /// So long others have been waited for.
    waited: Duration,
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
        let Some(until) = self.until.take() else { return };
        let (children, cgroups) =
            (std::mem::take(&mut self.children), std::mem::take(&mut self.cgroups));
        let began = clock::now();
        // Who does not end is no reason to wait that long for each of many.
        let until = until.min(began.after(limit::DYING.saturating_sub(self.waited)));
        wait_for_all(&children, &cgroups, hierarchy, until);
        self.waited = self.waited.saturating_add(clock::now().since(began));
    }
}

fn wait_for_all(children: &[Pid], cgroups: &[String], hierarchy: Option<&Hierarchy>, until: Time) {
    for pid in children {
        // Not reaped, so the pid is its own.
        let pidfd = signal::pidfd(*pid).ok().filter(|_| wait::is_living_child(*pid));
        if let Some(pidfd) = pidfd {
            wait_for(pidfd.as_fd(), PollFlags::POLLIN, until);
        }
    }
    let Some(hierarchy) = hierarchy else { return };
    for name in cgroups {
        let Some(events) = group::events(hierarchy.as_fd(), name) else { continue };
        // It is to be read before each wait: it tells of what is another since then.
        while group::tells_of_life(&events) && wait_for(events.as_fd(), PollFlags::POLLPRI, until) {
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
    loop {
        // Not a moment longer, however often it tells something.
        let left = until.since(clock::now());
        if left.is_zero() {
            return false;
        }
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        match poll(&mut [PollFd::new(what, flags)], left) {
            Err(Errno::EINTR) => {}
            told => return told.is_ok_and(|told| told > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::process;

    #[test]
    fn who_does_not_end_is_waited_for_once_however_many_there_are() {
        let stays = || {
            process::fork(&[], || {
                loop {
                    nix::unistd::pause();
                }
            })
            .unwrap()
        };
        let (children, began) = ([stays(), stays(), stays()], clock::now());
        let mut dying = Dying::default();
        for child in children {
            dying.add_child(child);
            dying.wait(None);
        }
        let took = clock::now().since(began);
        children.into_iter().for_each(|child| {
            signal::kill(child, 9).unwrap();
            wait::await_end(child).unwrap();
        });
        assert!(took >= limit::DYING / 2 && took < limit::DYING * 2, "{took:?}");
    }

    #[test]
    fn who_ends_is_waited_for_no_longer_than_that_and_the_next_one_too() {
        let mut dying = Dying::default();
        let began = clock::now();
        for _ in 0..3 {
            let child = process::fork(&[], || {
                loop {
                    nix::unistd::pause();
                }
            })
            .unwrap();
            signal::kill(child, 9).unwrap();
            dying.add_child(child);
            dying.wait(None);
            assert!(!wait::is_living_child(child));
            wait::await_end(child).unwrap();
        }
        assert!(clock::now().since(began) < limit::DYING);
    }
}
