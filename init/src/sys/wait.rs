//! Waits for children and reaps them. waitid(2).

use crate::sys::{Pid, check, inbox};
use groundstate_units::spec::Exit;
use nix::errno::Errno;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

/// A child that has exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub pid: Pid,
    pub exit: Exit,
}

/// Reaps any exited child. Its pid may be reused from now on, so the caller forgets it before the
/// next clone. Returns `None` if no child has exited.
pub(crate) fn reap_any() -> io::Result<Option<Ended>> {
    wait(libc::P_ALL, 0, libc::WNOHANG)
}

/// The pid of this child if it has exited. It is not reaped.
#[cfg(test)]
pub(crate) fn peek_one(pid: Pid) -> io::Result<Option<i32>> {
    Ok(changed(pid, libc::WEXITED).filter(|pid| *pid != 0))
}

/// Returns true if this child is stopped by a signal.
pub(crate) fn is_stopped(pid: Pid) -> bool {
    changed(pid, libc::WSTOPPED).is_some_and(|changed| changed != 0)
}

/// Returns true for a child of this process, alive or unreaped: its pid is not reused. Needs no
/// /proc.
pub(crate) fn is_child(pid: Pid) -> bool {
    changed(pid, libc::WEXITED).is_some()
}

/// Returns true for a child of this process that has not exited.
pub(crate) fn is_living_child(pid: Pid) -> bool {
    changed(pid, libc::WEXITED) == Some(0)
}

/// Returns true if the process behind a pidfd is a child of this one, exited or not, whatever
/// process has its pid now. Returns `None` if the descriptor is no pidfd.
pub(crate) fn is_child_behind(pidfd: BorrowedFd<'_>) -> Option<bool> {
    let id = libc::id_t::try_from(pidfd.as_raw_fd()).ok()?;
    match look(libc::P_PIDFD, id, libc::WEXITED) {
        Ok(_) => Some(true),
        Err(Errno::ECHILD) => Some(false),
        Err(_) => None,
    }
}

/// The child's pid if it has changed in this way, else 0. Returns `None` if it is not a child. The
/// child stays waitable.
fn changed(pid: Pid, how: libc::c_int) -> Option<i32> {
    look(libc::P_PID, id(pid).ok()?, how).ok()
}

fn look(kind: libc::idtype_t, id: libc::id_t, how: libc::c_int) -> Result<i32, Errno> {
    // SAFETY: siginfo_t is plain data; all zeroes is a value of it.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = how | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is valid for writing during the call; on success the kernel fills the SIGCHLD
    // part of the union, or leaves it zero (waitid(2), WNOHANG).
    unsafe { Errno::result(libc::waitid(kind, id, &raw mut info, options)).map(|_| info.si_pid()) }
}

/// Reaps this child if it has exited. Its pid may be reused from now on.
pub(crate) fn reap(pid: Pid) -> io::Result<Option<Ended>> {
    wait(libc::P_PID, id(pid)?, libc::WNOHANG)
}

/// Waits for this child to exit and reaps it. Only before the loop.
pub(crate) fn await_end(pid: Pid) -> io::Result<Exit> {
    loop {
        match wait(libc::P_PID, id(pid)?, 0) {
            Ok(Some(ended)) => return Ok(ended.exit),
            Ok(None) => return Err(io::Error::from_raw_os_error(libc::ECHILD)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Unreaped children that this process created. Its other children are adopted orphans (PID 1 and
/// subreapers get them). The lock never blocks, because there is one thread.
static MADE: Mutex<Made> = Mutex::new(Made { all: BTreeSet::new(), changed: BTreeSet::new() });

struct Made {
    all: BTreeSet<i32>,
    /// Pids added or removed since the last commit.
    changed: BTreeSet<i32>,
}

/// Returns true for an unreaped child that this process created.
pub(crate) fn is_made(pid: Pid) -> bool {
    MADE.lock().unwrap_or_else(PoisonError::into_inner).all.contains(&pid.as_raw())
}

/// Sends `signal` to a child that this process, or an earlier image, created. Fails with ESRCH if
/// it was reaped, because its pid may be reused.
pub(crate) fn kill_made(pid: Pid, signal: u8) -> io::Result<()> {
    if is_made(pid) { super::signal::kill(pid, signal) } else { Err(Errno::ESRCH.into()) }
}

/// The children added (true) or removed since the last call.
pub(crate) fn take_made_changes() -> Vec<(i32, bool)> {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let changed = std::mem::take(&mut made.changed);
    changed.into_iter().map(|pid| (pid, made.all.contains(&pid))).collect()
}

/// Records children that count as created by this process: those of an earlier image, and an orphan
/// that became the main process of a run.
pub(crate) fn count_as_made(pids: impl IntoIterator<Item = i32>) {
    pids.into_iter().for_each(|pid| note_made(Pid::from_raw(pid)));
}

pub(super) fn note_made(pid: Pid) {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.all.insert(pid.as_raw());
    made.changed.insert(pid.as_raw());
}

/// Records that this child is reaped.
pub(crate) fn note_reaped(pid: Pid) {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.all.remove(&pid.as_raw()) {
        made.changed.insert(pid.as_raw());
    }
}

fn id(pid: Pid) -> io::Result<libc::id_t> {
    libc::id_t::try_from(pid.as_raw())
        .ok()
        .filter(|id| *id > 0)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Attempts of one wait. The kernel reports an exit only once, so a first error is retried.
const TRIES: usize = 3;

/// Returns `None` if no child has exited or there is no child.
fn wait(which: libc::idtype_t, id: libc::id_t, options: libc::c_int) -> io::Result<Option<Ended>> {
    let mut tries = (1..TRIES).map(|_| wait_once(which, id, options));
    match tries.find(Result::is_ok).unwrap_or_else(|| wait_once(which, id, options)) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        ended => ended,
    }
}

fn wait_once(
    which: libc::idtype_t,
    id: libc::id_t,
    options: libc::c_int,
) -> io::Result<Option<Ended>> {
    // SAFETY: siginfo_t is plain data; all zeroes is a value of it.
    let mut own: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let noted = inbox::end_in_hand();
    let info = if noted.is_null() { &raw mut own } else { noted };
    // SAFETY: `info` is valid for writing during the call.
    check(unsafe { libc::waitid(which, id, info, options | libc::WEXITED) })?;
    // SAFETY: waitid fills the SIGCHLD part of the union, or leaves it zero (waitid(2), WNOHANG).
    let (pid, status, code) = unsafe { ((*info).si_pid(), (*info).si_status(), (*info).si_code) };
    if pid == 0 {
        return Ok(None);
    }
    inbox::record_exit(pid, code, status);
    let pid = Pid::from_raw(pid);
    note_reaped(pid);
    Ok(Some(Ended { pid, exit: inbox::exit(code, status) }))
}

#[cfg(test)]
mod tests {
    use super::super::{process, signal};
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn reaped_child_behind_a_pidfd_is_no_child() {
        let child = process::fork(&[], || 0).unwrap();
        let [ours, other] = [child, nix::unistd::getppid()].map(|pid| signal::pidfd(pid).unwrap());
        assert_eq!(is_child_behind(ours.as_fd()), Some(true));
        assert_eq!(is_child_behind(other.as_fd()), Some(false));
        await_end(child).unwrap();
        assert_eq!(is_child_behind(ours.as_fd()), Some(false), "it is reaped");
    }
}
