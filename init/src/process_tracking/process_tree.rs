//! Which processes belong to a run where there are no cgroups. What a run leaves behind becomes
//! a child of init, its subreaper; so the living processes of a run are those init started for
//! it, those it was left by it, and what descends from either.
//!
//! What was left is told by the mark it bears ([`super::process_tree`]). Without one, by its session or process
//! group; a daemon that made a session of its own is taken for the run whose process ended at that moment: that
//! is how programs go into the background. It can be wrong where two runs do so at once.

use super::group::Held;
use crate::base::procfs;
use crate::base::procfs::Stat;
use crate::sys::Pid;
use crate::sys::child_setup::Limit;
use groundstate_units::machine::event::RunId;
use nix::sys::resource::{Resource, getrlimit};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The children of init that belong to one run.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ProcessTree {
    /// Children of init, started or left, each with the moment it began.
    heads: BTreeMap<i32, u64>,
    /// Sessions and process groups of theirs. A number stays theirs as long as anybody is in it.
    bands: BTreeSet<i32>,
}

impl ProcessTree {
    /// A child of init, started for this run or left by it.
    pub(super) fn add(&mut self, pid: Pid) {
        let stat = procfs::stat(pid);
        // Where there is no /proc no other process is ever compared with it.
        let began = stat.map_or(0, |stat| stat.began);
        self.heads.insert(pid.as_raw(), began);
        let bands: BTreeSet<i32> = match stat {
            // Started this moment: its session is made by the child itself.
            Some(stat) if stat.parent == own() && stat.session == own_session() => {
                [pid.as_raw()].into()
            }
            // 0: outside this pid namespace.
            Some(stat) => [stat.session, stat.group].into_iter().filter(|n| *n > 1).collect(),
            None => [pid.as_raw()].into(),
        };
        self.bands.extend(&bands);
    }

    /// It is reaped: its pid may be another's from now on. When it began, if it was ours.
    pub(super) fn remove(&mut self, pid: Pid) -> Option<u64> {
        self.heads.remove(&pid.as_raw())
    }

    /// A new process has this pid: whatever had the number before is gone.
    pub(super) fn not_ours(&mut self, pid: Pid) {
        self.heads.remove(&pid.as_raw());
        self.bands.remove(&pid.as_raw());
    }

    /// It is one of them, or in one of their sessions or groups.
    pub(super) fn has(&self, stat: &Stat) -> bool {
        self.heads.get(&stat.pid) == Some(&stat.began)
            || self.bands.contains(&stat.session)
            || self.bands.contains(&stat.group)
    }

    /// It is one of them, or one of their sessions or groups has its number.
    pub(super) fn names(&self, pid: i32) -> bool {
        self.heads.contains_key(&pid) || self.bands.contains(&pid)
    }

    /// This child of init is one of them.
    pub(super) fn leads(&self, pid: i32) -> bool {
        self.heads.contains_key(&pid)
    }

    /// Nothing of it lives: what else there might be descends from a child of init.
    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// All that live, each with the moment it began. Without /proc: the children of init.
    pub(super) fn living(&self) -> BTreeMap<i32, u64> {
        let now = procfs::snapshot();
        let heads = self.heads.keys().copied();
        let mut members: BTreeSet<i32> =
            heads.filter(|pid| self.is_head(now.get(pid), *pid)).collect();
        members.extend(now.values().filter(|stat| self.has(stat)).map(|stat| stat.pid));
        let mut below: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for stat in now.values() {
            below.entry(stat.parent).or_default().push(stat.pid);
        }
        let mut due: Vec<i32> = members.iter().copied().collect();
        while let Some(pid) = due.pop() {
            let children = below.remove(&pid).unwrap_or_default();
            due.extend(children.into_iter().filter(|child| members.insert(*child)));
        }
        members.remove(&own());
        members.retain(|pid| now.get(pid).is_none_or(|stat| !stat.ended));
        let began = |pid: i32| now.get(&pid).map_or(0, |stat| stat.began);
        members.into_iter().map(|pid| (pid, began(pid))).collect()
    }

    /// Looked for once more, it is there still, and one of them. What began when that one did has lost its
    /// parent meanwhile where it is init's.
    fn is_still(&self, pid: i32, members: &BTreeMap<i32, u64>) -> bool {
        let stat = procfs::stat(Pid::from_raw(pid));
        self.is_head(stat.as_ref(), pid)
            || stat.is_some_and(|stat| {
                let parent = stat.parent;
                let is_of_them = self.has(&stat) || members.contains_key(&parent);
                (is_of_them || parent == own()) && members.get(&pid) == Some(&stat.began)
            })
    }

    /// The child of init with this pid is one of them, and not who has had it since: what is put again after a
    /// crash is so before its end is heard. Nothing tells them apart where there is no /proc.
    fn is_head(&self, stat: Option<&Stat>, pid: i32) -> bool {
        let is_it = |began: &u64| *began == 0 || stat.is_none_or(|stat| stat.began == *began);
        self.heads.get(&pid).is_some_and(is_it)
    }

    /// Signals all but `except`. With SIGKILL in rounds, as long as new ones turn up.
    pub(super) fn signal(&self, signal: u8, except: Option<Pid>) {
        const ROUNDS: usize = 8;
        let rounds = if signal == 9 { ROUNDS } else { 1 };
        let mut done = BTreeSet::new();
        for _ in 0..rounds {
            let living = self.living();
            let left: Vec<i32> = living.keys().copied().filter(|pid| !done.contains(pid)).collect();
            if left.is_empty() {
                return;
            }
            for pid in left {
                if except.is_some_and(|except| except.as_raw() == pid) {
                    done.insert(pid);
                    continue;
                }
                let held = Held::of(pid);
                if self.is_still(pid, &living) {
                    held.signal(signal);
                    done.insert(pid);
                }
            }
        }
    }
}

pub(super) fn own() -> i32 {
    nix::unistd::getpid().as_raw()
}

fn own_session() -> i32 {
    nix::unistd::getsid(None).map_or(0, Pid::as_raw)
}

// The mark that all processes of a run bear where there are no cgroups, whatever sessions they make and whoever
// their parents were: a limit that the kernel hands on to each child and that limits nothing. RLIMIT_LOCKS is
// looked at by no Linux since 2.4.24 (getrlimit(2)), and anybody may read it in /proc/PID/limits, without waiting
// for the process. A process can only lower its own, root's may change it: it says whose child of
// init a process is, as its parent would, and no more.

/// Bits for the number of a run.
const RUN: u32 = 40;

/// Bits for who marked it.
const MARKER: u32 = 22;

/// No mark is as low as this, nor the highest a limit may be.
const FIRST: u64 = 1 << (RUN + MARKER);

/// Of this init's, by when it began, in ticks that come round after [`MARKER`] bits of them: half a day. Of two
/// within each other, less than that apart, the one that began later, which may be a service of the other and have
/// its mark, has the lower ones: those it may set. Further apart it may be any: one that it may not set is none
/// ([`of`]), and one in so many times it is the other's. Then init bears a mark of its own, marks nobody, and takes
/// nobody for marked.
fn first() -> Option<u64> {
    let began = procfs::stat(nix::unistd::getpid())?.began;
    let left = ((1 << MARKER) - 1) & !began;
    let first = FIRST | left << RUN;
    let (_, most) = getrlimit(Resource::RLIMIT_LOCKS).ok()?;
    run_in(most, first).is_none().then_some(first)
}

/// The run this mark is of.
fn run_in(mark: u64, first: u64) -> Option<RunId> {
    (mark >> RUN == first >> RUN).then_some(RunId(mark & ((1 << RUN) - 1)))
}

/// What a program of this run is to be given. None: init may not, or has no /proc.
pub(super) fn of(run: RunId) -> Option<Limit> {
    let (_, most) = getrlimit(Resource::RLIMIT_LOCKS).ok()?;
    let number = (run.0 < 1 << RUN).then_some(run.0)?;
    let mark = first()? | number;
    let resource = libc::RLIMIT_LOCKS;
    (mark <= most).then_some(Limit { resource, soft: mark, hard: mark })
}

/// The run this process is marked as. None: it bears no mark of ours.
pub(crate) fn on(pid: Pid) -> Option<RunId> {
    run_in(procfs::most_locks(pid)?, first()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_bears_its_runs_mark_and_so_does_what_it_begins() {
        let mark = of(RunId(7)).expect("nobody has a limit of locks");
        assert_eq!((of(RunId(1 << RUN)), on(nix::unistd::getpid())), (None, None));
        let script = format!("ulimit -x {} && setsid cat", mark.hard);
        let mut child = Command::new("bash");
        child.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = child.spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"x").unwrap();
        // It has become what reads.
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let below = procfs::snapshot();
        let of_it =
            below.values().filter(|stat| stat.pid == pid.as_raw() || stat.parent == pid.as_raw());
        let marked: Vec<_> = of_it.map(|stat| on(Pid::from_raw(stat.pid))).collect();
        assert!(
            !marked.is_empty() && marked.iter().all(|run| *run == Some(RunId(7))),
            "{marked:?}"
        );
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
