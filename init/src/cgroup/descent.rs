//! Which processes belong to a run where there are no cgroups: those init started for it, their
//! sessions and process groups, and whatever descends from them. init is their subreaper, so
//! nothing leaves by forking twice; but a process that takes a session of its own between two
//! looks and whose parents are gone by then is nobody's. That is said in the documentation.

use crate::process::{self, Stat};
use crate::sys::{Pid, signal};
use std::collections::{BTreeMap, BTreeSet};

/// Processes remembered for one run.
const MEMBERS: usize = 65_536;

/// The known processes of one run, each with the moment it began.
#[derive(Debug, Default)]
pub(super) struct Family {
    known: BTreeMap<i32, u64>,
}

impl Family {
    /// A child of ours, started for this run; not reaped yet.
    pub(super) fn add(&mut self, pid: Pid) {
        // Where there is no /proc no other process is ever compared with it.
        let began = process::stat(pid).map_or(0, |stat| stat.began);
        self.known.insert(pid.as_raw(), began);
    }

    /// Reaped: its pid means nothing from now on.
    pub(super) fn remove(&mut self, pid: Pid) {
        self.known.remove(&pid.as_raw());
    }

    /// It was seen in this run.
    pub(super) fn knows(&self, pid: Pid, began: u64) -> bool {
        self.known.get(&pid.as_raw()) == Some(&began)
    }

    /// Those of `now` that belong to the run; they are remembered. Called before a dead parent is
    /// reaped as well as when asked, so that the chain is followed while it is whole.
    pub(super) fn look(&mut self, now: &BTreeMap<i32, Stat>) -> BTreeSet<i32> {
        let is_same = |pid: &i32, began: u64| now.get(pid).is_some_and(|s| s.began == began);
        if !now.is_empty() {
            self.known.retain(|pid, began| is_same(pid, *began));
        }
        let mut members: BTreeSet<i32> = self.known.keys().copied().collect();
        let own = nix::unistd::getpid().as_raw();
        // Each round goes one generation further down; a family is rarely deeper than a few.
        loop {
            let joined = |stat: &&Stat| {
                let relatives = [stat.parent, stat.group, stat.session];
                stat.pid != own
                    && !members.contains(&stat.pid)
                    && relatives.iter().any(|r| *r > 1 && *r != own && members.contains(r))
            };
            let new: Vec<i32> = now.values().filter(joined).map(|stat| stat.pid).collect();
            if new.is_empty() || members.len() > MEMBERS {
                break;
            }
            members.extend(new);
        }
        for pid in &members {
            if let Some(stat) = now.get(pid) {
                self.known.insert(*pid, stat.began);
            }
        }
        members
    }

    /// Those that live. Without /proc: the children that are not reaped yet.
    pub(super) fn living(&mut self) -> BTreeSet<i32> {
        let now = process::snapshot();
        let ended = |pid: &i32| now.get(pid).is_some_and(|stat| stat.ended);
        let members = self.look(&now);
        members.into_iter().filter(|pid| !ended(pid)).collect()
    }

    /// Signals all but `except`. With SIGKILL in rounds, as long as new ones turn up.
    pub(super) fn signal(&mut self, signal: u8, except: Option<Pid>) {
        const ROUNDS: usize = 8;
        let rounds = if signal == 9 { ROUNDS } else { 1 };
        let mut done = BTreeSet::new();
        for _ in 0..rounds {
            let left: Vec<i32> = self.living().difference(&done).copied().collect();
            if left.is_empty() {
                return;
            }
            for pid in left {
                done.insert(pid);
                if except.is_some_and(|except| except.as_raw() == pid) {
                    continue;
                }
                let _ = signal::kill(Pid::from_raw(pid), signal);
                // Its session is its own (setsid in the child), so this reaches what it forked
                // since we looked; not without the one left out.
                if except.is_none() && pid > 1 {
                    let _ = signal::kill_group(Pid::from_raw(pid), signal);
                }
            }
        }
    }
}
