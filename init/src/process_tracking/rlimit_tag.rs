//! The mark that all processes of a run bear where there are no cgroups, whatever sessions they make and whoever
//! their parents were: a limit that the kernel hands on to each child and that limits nothing. RLIMIT_LOCKS is
//! looked at by no Linux since 2.4.24 (getrlimit(2)), and anybody may read it in /proc/PID/limits, without waiting
//! for the process. A process can only lower its own, root's may change it: it says whose child of
//! init a process is ([`super::process_tree`]), as its parent would, and no more.

use super::Tracker;
use crate::base::procfs;
use crate::sys::Pid;
use crate::sys::child::Limit;
use crate::sys::wait;
use groundstate_units::machine::event::RunId;
use nix::sys::resource::{Resource, getrlimit};

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

impl Tracker {
    /// Whose it is by the mark of the child of init that it is, or descends from: one that was left without anybody's
    /// end that init has seen, and is looked for at the next ([`Tracker::adopt_left`]).
    pub(super) fn lost(&self, pid: Pid) -> Option<RunId> {
        let own = nix::unistd::getpid();
        let line = [pid].into_iter().chain(procfs::ancestors(pid));
        let child = line.take_while(|one| *one != own).last()?;
        let is_lost = wait::is_child(child) && !wait::is_made(child);
        is_lost.then(|| on(child))?.filter(|run| self.families.contains_key(run))
    }
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
