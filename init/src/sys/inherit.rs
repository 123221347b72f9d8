//! Descriptors over an exec of init itself. All stay open; the next image takes over those that its
//! state names and closes the rest. fcntl(2), close_range(2).
//!
//! [`keep_all`] may run in the fault handler: it allocates nothing and calls only functions that
//! are async-signal-safe (signal-safety(7)).

use super::listing;
use super::raw;
use nix::sys::stat::fstat;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

/// Without /proc, all numbers below this are tried.
const NUMBERS: usize = 65_536;

/// The numbers that were taken over.
static TAKEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// Keeps all descriptors open over the next exec of this process.
pub(crate) fn keep_all() {
    if !keep_listed() {
        keep_each();
    }
}

/// Like [`keep_all`], by trying each number.
pub(crate) fn keep_each() {
    (3..NUMBERS).for_each(keep);
}

/// Sets close-on-exec for all descriptors again, after a failed exec.
pub(crate) fn keep_none() {
    /// CLOSE_RANGE_CLOEXEC of linux/close_range.h.
    const CLOEXEC: usize = 4;
    // SAFETY: close_range(2) takes numbers; with this flag it closes nothing.
    unsafe { raw::call(libc::SYS_close_range, [3, u32::MAX as usize, CLOEXEC, 0, 0, 0]) };
}

fn keep(number: usize) {
    // SAFETY: F_SETFD takes numbers; one that is not open is refused.
    unsafe { raw::call(libc::SYS_fcntl, [number, libc::F_SETFD as usize, 0, 0, 0, 0]) };
}

/// Keeps the descriptors listed in /proc open. Returns false without /proc.
fn keep_listed() -> bool {
    let path = c"/proc/self/fd".as_ptr() as usize;
    let how = (libc::O_RDONLY | libc::O_DIRECTORY) as usize;
    // SAFETY: the path is terminated.
    let opened =
        unsafe { raw::call(libc::SYS_openat, [libc::AT_FDCWD as usize, path, how, 0, 0, 0]) };
    let Ok(number) = RawFd::try_from(opened) else { return false };
    if number < 0 {
        return false;
    }
    // SAFETY: a fresh descriptor without another owner.
    let directory = unsafe { OwnedFd::from_raw_fd(number) };
    let see = |entry: listing::Entry<'_>| {
        let listed = number_in(entry.name).filter(|listed| *listed > 2);
        listed.into_iter().for_each(keep);
    };
    // Entries seen before a failure are kept.
    let _ = listing::list(directory.as_fd(), see);
    true
}

/// Parses a name of decimal digits.
fn number_in(name: &[u8]) -> Option<usize> {
    let mut number = None;
    for byte in name {
        if !byte.is_ascii_digit() {
            return None;
        }
        let digit = usize::from(*byte).wrapping_sub(usize::from(b'0'));
        number = Some(number.unwrap_or(0usize).wrapping_mul(10).wrapping_add(digit));
    }
    number
}

/// Duplicates a descriptor with close-on-exec, to a number of `from` or above.
pub(crate) fn duplicate(fd: BorrowedFd<'_>, from: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes a number.
    let copy = super::check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, from) })?;
    // SAFETY: a fresh descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Takes ownership of the descriptor with this number and sets close-on-exec. The second time it
/// returns a duplicate. Fails with EBADF if it is not open or is one of the first three.
pub(crate) fn take(number: RawFd) -> io::Result<OwnedFd> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if number < 3 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: F_SETFD takes numbers; one that is not open is refused.
    super::check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    if taken.insert(number) {
        // SAFETY: it is open and has no owner in this process yet.
        return Ok(unsafe { OwnedFd::from_raw_fd(number) });
    }
    // SAFETY: it is open, and stays open during the call.
    let copy = duplicate(unsafe { BorrowedFd::borrow_raw(number) }, 3)?;
    taken.insert(copy.as_raw_fd());
    Ok(copy)
}

/// Identifies the file of a descriptor, because numbers are reused. It combines device, inode and
/// the pid of a pidfd: before Linux 6.9 all pidfds share one inode. 0 if it is not open.
pub(crate) fn identity(number: RawFd) -> u64 {
    // SAFETY: borrowed during the call; fstat(2) refuses one that is not open.
    let found = (number >= 0).then(|| fstat(unsafe { BorrowedFd::borrow_raw(number) }));
    let Some(Ok(found)) = found else { return 0 };
    let is_pidfd = found.st_mode & libc::S_IFMT == 0;
    let pid = Some(number).filter(|_| is_pidfd).and_then(pid_of).unwrap_or(0);
    let pid = u64::try_from(pid).unwrap_or(0);
    found.st_ino ^ found.st_dev.rotate_left(40) ^ pid.rotate_left(20)
}

/// The pid of a pidfd, or -1 if the process was reaped. See proc_pid_fdinfo(5).
pub(crate) fn pid_of(number: RawFd) -> Option<i64> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    info.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok())
}

/// Takes over the descriptor with this number and identity. If it was closed, returns a socket
/// whose peer is closed, so that its owner notices.
pub(crate) fn take_same(number: RawFd, identity_then: u64) -> io::Result<OwnedFd> {
    // The pidfd of a reaped process belongs to no process any more.
    if identity(number) == identity_then || pid_of(number) == Some(-1) {
        return take(number);
    }
    let stand_in = stand_in()?;
    mark_as_new(stand_in.as_fd());
    Ok(stand_in)
}

/// Stand-in for a lost descriptor.
pub(crate) fn stand_in() -> io::Result<OwnedFd> {
    super::socket::pair().map(|(stand_in, _)| stand_in)
}

/// Takes over the descriptors that match; `is_it` must test for properties of sockets.
pub(crate) fn take_sockets(is_it: impl Fn(BorrowedFd<'_>) -> bool) -> Vec<OwnedFd> {
    let is_one = |number: &RawFd| {
        // SAFETY: borrowed during the call; system calls refuse one that is not open.
        *number > 2 && is_it(unsafe { BorrowedFd::borrow_raw(*number) })
    };
    let found = listed().unwrap_or_default().into_iter().filter(is_one);
    found.filter_map(|number| take(number).ok()).collect()
}

/// Marks a descriptor that this image opened, so that [`rest`] skips it.
pub(crate) fn mark_as_new(fd: BorrowedFd<'_>) {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(fd.as_raw_fd());
}

/// All descriptors that were neither taken over nor marked as new. The caller owns them.
pub(crate) fn rest() -> Vec<OwnedFd> {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let each = || (3..RawFd::try_from(NUMBERS).unwrap_or(0)).collect();
    let numbers: Vec<RawFd> = listed().unwrap_or_else(each);
    // SAFETY: F_GETFD takes numbers; one that is not open is refused.
    let is_open = |number: RawFd| unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0;
    let rest = numbers.into_iter().filter(|n| *n > 2 && !taken.contains(n) && is_open(*n));
    // SAFETY: it is open and has no owner in this process.
    rest.map(|number| unsafe { OwnedFd::from_raw_fd(number) }).collect()
}

/// The open numbers, including the one of the listing. Returns `None` without /proc.
fn listed() -> Option<Vec<RawFd>> {
    let directory = File::open("/proc/self/fd").ok()?;
    let mut numbers = Vec::new();
    let see = |entry: listing::Entry<'_>| {
        numbers.extend(number_in(entry.name).and_then(|number| RawFd::try_from(number).ok()));
    };
    listing::list(directory.as_fd(), see).ok()?;
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::super::{process, wait};
    use super::*;
    use groundstate_units::spec::Exit;
    use std::os::fd::IntoRawFd;

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn taken_descriptors_stay_open_and_the_rest_is_closed() {
        let opened = || File::open("/dev/null").unwrap().into_raw_fd();
        let child = process::fork(&[], || {
            // Forgets the descriptors that other tests have taken.
            TAKEN.lock().unwrap_or_else(PoisonError::into_inner).clear();
            let (kept, other) = (opened(), opened());
            keep_all();
            let taken = take(kept).unwrap();
            let twice = take(kept).unwrap();
            let (new, forgotten) = (File::open("/dev/null").unwrap(), opened());
            mark_as_new(std::os::fd::AsFd::as_fd(&new));
            drop(rest());
            let refused = take(other).is_err() && take(2).is_err() && take(9999).is_err();
            let refused = refused && take(forgotten).is_err();
            let fourth = opened();
            let rest = rest();
            let refused = refused && rest.iter().any(|fd| fd.as_raw_fd() == fourth);
            let refused = refused && rest.iter().all(|fd| fd.as_raw_fd() != kept);
            let alive = [taken.as_raw_fd(), new.as_raw_fd()].into_iter().all(|n| identity(n) != 0);
            u8::from(refused && alive && twice.as_raw_fd() != kept)
        });
        assert_eq!(wait::await_end(child.unwrap()).unwrap(), Exit::Code(1));
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn pidfds_of_two_processes_have_two_identities() {
        let waits = || {
            process::fork(&[], || {
                nix::unistd::pause();
                0
            })
            .unwrap()
        };
        let children = [waits(), waits()];
        let [one, other] = children.map(|pid| super::super::signal::pidfd(pid).unwrap());
        let number = one.as_raw_fd();
        let then = identity(number);
        assert_ne!(then, identity(other.as_raw_fd()));
        assert_eq!(identity(number), then);
        for child in children {
            super::super::signal::kill(child, 9).unwrap();
            wait::await_end(child).unwrap();
        }
        // Its process was reaped; the identity is the same.
        let number = one.into_raw_fd();
        // Another test may have taken an earlier descriptor with this number.
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        assert_eq!(take_same(number, then).unwrap().as_raw_fd(), number);
    }

    #[test]
    fn only_decimal_names_are_descriptor_numbers() {
        assert_eq!(number_in(b"17"), Some(17));
        assert_eq!(number_in(b"."), None);
        assert_eq!(number_in(b""), None);
    }
}
