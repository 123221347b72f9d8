//! Tracks the processes of a run without cgroups. Orphans of a run become children of init, its
//! subreaper. So a run's processes are the children that init started for it, its orphans, and
//! their descendants.
//!
//! The mark of an orphan tells its run. Without a mark, its session or process group does. A daemon
//! with its own session is assigned to the run whose process exited at that moment, because daemons
//! start in this way. That can be wrong if two runs do so at once.

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
    /// Children of init, started or adopted, each with its start time.
    heads: BTreeMap<i32, u64>,
    /// Their sessions and process groups. A number belongs to them as long as a process uses it.
    #[serde(rename = "bands")]
    sessions_and_groups: BTreeSet<i32>,
}

impl ProcessTree {
    /// Adds a child of init, started for this run or left by it.
    pub(super) fn add(&mut self, pid: Pid) {
        let stat = procfs::stat(pid);
        // Without /proc no other process is ever compared with it.
        let began = stat.map_or(0, |stat| stat.began);
        self.heads.insert(pid.as_raw(), began);
        let numbers: BTreeSet<i32> = match stat {
            // Just started: the child itself will create its session.
            Some(stat) if stat.parent == own() && stat.session == own_session() => {
                [pid.as_raw()].into()
            }
            // 0 is outside this pid namespace.
            Some(stat) => [stat.session, stat.group].into_iter().filter(|n| *n > 1).collect(),
            None => [pid.as_raw()].into(),
        };
        self.sessions_and_groups.extend(&numbers);
    }

    /// Removes a reaped process, because its pid may be reused. Returns its start time if it
    /// belonged to this run.
    pub(super) fn remove(&mut self, pid: Pid) -> Option<u64> {
        self.heads.remove(&pid.as_raw())
    }

    /// Removes a pid that a new process has got.
    pub(super) fn forget_reused_pid(&mut self, pid: Pid) {
        self.heads.remove(&pid.as_raw());
        self.sessions_and_groups.remove(&pid.as_raw());
    }

    /// Returns true for one of these children, or a process in one of their sessions or groups.
    pub(super) fn has(&self, stat: &Stat) -> bool {
        self.heads.get(&stat.pid) == Some(&stat.began)
            || self.sessions_and_groups.contains(&stat.session)
            || self.sessions_and_groups.contains(&stat.group)
    }

    /// Returns true if one of these children, sessions or groups has this number.
    pub(super) fn has_number(&self, pid: i32) -> bool {
        self.heads.contains_key(&pid) || self.sessions_and_groups.contains(&pid)
    }

    /// Returns true if this child of init is one of them.
    pub(super) fn leads(&self, pid: i32) -> bool {
        self.heads.contains_key(&pid)
    }

    /// Returns true if no process is left: all others would descend from a child of init.
    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// All running processes, each with its start time. Without /proc, only the children of init.
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

    /// Returns true if a process is still one of them, when looked up again. A process whose parent
    /// has exited meanwhile is init's child now: it still counts if its start time is the same.
    fn is_still(&self, pid: i32, members: &BTreeMap<i32, u64>) -> bool {
        let stat = procfs::stat(Pid::from_raw(pid));
        self.is_head(stat.as_ref(), pid)
            || stat.is_some_and(|stat| {
                let parent = stat.parent;
                let is_of_them = self.has(&stat) || members.contains_key(&parent);
                (is_of_them || parent == own()) && members.get(&pid) == Some(&stat.began)
            })
    }

    /// Returns true if the child of init with this pid is one of them. After a crash, the state may
    /// name a child whose exit is not handled yet, and a later process may have its pid. Without
    /// /proc they cannot be told apart.
    fn is_head(&self, stat: Option<&Stat>, pid: i32) -> bool {
        let is_it = |began: &u64| *began == 0 || stat.is_none_or(|stat| stat.began == *began);
        self.heads.get(&pid).is_some_and(is_it)
    }

    /// Signals all processes except `except`. SIGKILL is sent in rounds while new ones appear.
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

// Marks: without cgroups, all processes of a run have a mark, whatever their session or parent. It
// is a resource limit, which children inherit, without any effect: Linux has ignored RLIMIT_LOCKS
// since 2.4.24 (getrlimit(2)). Any process can read it in /proc/PID/limits without waiting for the
// other process. A process can only lower its own mark; root may change it. So a mark is no
// stronger proof than a parent pid.

/// Bits for the run id.
const RUN: u32 = 40;

/// Bits for the init that set the mark.
const MARKER: u32 = 22;

/// Higher than any other limit in use, and lower than the highest possible one.
const FIRST: u64 = 1 << (RUN + MARKER);

/// The lowest mark of this init, derived from its start time. The start time is in ticks modulo
/// [`MARKER`] bits, about half a day. An init that is a service of another one and started later
/// gets lower marks, which it may set although it has the other's mark. If the start times are
/// further apart, its marks may be too high to set ([`mark_of`]), or rarely equal to the other's.
/// Then it sets and recognizes no marks.
fn first_mark() -> Option<u64> {
    let began = procfs::stat(nix::unistd::getpid())?.began;
    let left = ((1 << MARKER) - 1) & !began;
    let first = FIRST | left << RUN;
    let (_, most) = getrlimit(Resource::RLIMIT_LOCKS).ok()?;
    run_in(most, first).is_none().then_some(first)
}

/// The run of this mark.
fn run_in(mark: u64, first: u64) -> Option<RunId> {
    (mark >> RUN == first >> RUN).then_some(RunId(mark & ((1 << RUN) - 1)))
}

/// The mark for the programs of this run. Returns `None` if init may not set it, or has no /proc.
pub(super) fn mark_of(run: RunId) -> Option<Limit> {
    let (_, most) = getrlimit(Resource::RLIMIT_LOCKS).ok()?;
    let number = (run.0 < 1 << RUN).then_some(run.0)?;
    let mark = first_mark()? | number;
    let resource = libc::RLIMIT_LOCKS;
    (mark <= most).then_some(Limit { resource, soft: mark, hard: mark })
}

/// The run whose mark this process has. Returns `None` if it has no mark of this init.
pub(crate) fn run_marked_on(pid: Pid) -> Option<RunId> {
    run_in(procfs::most_locks(pid)?, first_mark()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn descendants_of_a_marked_child_have_the_mark_of_its_run() {
        let mark = mark_of(RunId(7)).expect("no limit of locks is set");
        assert_eq!((mark_of(RunId(1 << RUN)), run_marked_on(nix::unistd::getpid())), (None, None));
        let script = format!("ulimit -x {} && setsid cat", mark.hard);
        let mut child = Command::new("bash");
        child.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = child.spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"x").unwrap();
        // The child has executed the program that reads.
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let below = procfs::snapshot();
        let of_it =
            below.values().filter(|stat| stat.pid == pid.as_raw() || stat.parent == pid.as_raw());
        let marked: Vec<_> = of_it.map(|stat| run_marked_on(Pid::from_raw(stat.pid))).collect();
        assert!(
            !marked.is_empty() && marked.iter().all(|run| *run == Some(RunId(7))),
            "{marked:?}"
        );
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
