//! Descriptors over an exec of init itself: every one goes along, whoever goes on takes over by
//! number those its state names, and closes the rest. fcntl(2), close_range(2).
//!
//! [`keep_all`] may run in the handler of a fault: it allocates nothing and calls the kernel by
//! [`super::raw`] alone.

use super::listing::{self, BYTES};
use super::raw;
use super::socket::unix_name;
use nix::sys::socket::{SockType, getsockopt, sockopt};
use nix::sys::stat::fstat;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Without /proc every number below this is asked.
const NUMBERS: usize = 65_536;

/// What was taken over.
static TAKEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// From now on no exec of this process closes a descriptor.
pub(crate) fn keep_all() {
    if !keep_listed() {
        keep_each();
    }
}

/// The same by asking for each number.
pub(crate) fn keep_each() {
    (3..NUMBERS).for_each(keep);
}

/// The exec was refused: all are closed by the next one as before.
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

/// By the list in /proc. False: there is none.
fn keep_listed() -> bool {
    let path = c"/proc/self/fd".as_ptr() as usize;
    let how = (libc::O_RDONLY | libc::O_DIRECTORY) as usize;
    // SAFETY: the path is terminated.
    let opened =
        unsafe { raw::call(libc::SYS_openat, [libc::AT_FDCWD as usize, path, how, 0, 0, 0]) };
    let Ok(directory) = usize::try_from(opened) else { return false };
    let mut bytes = [0u8; BYTES];
    loop {
        let args = [directory, bytes.as_mut_ptr() as usize, BYTES, 0, 0, 0];
        // SAFETY: the kernel writes at most BYTES bytes into `bytes`.
        let read = unsafe { raw::call(libc::SYS_getdents64, args) };
        let read = match usize::try_from(read) {
            Ok(length) if length > 0 => bytes.get(..length).unwrap_or_default(),
            Ok(_) | Err(_) => break,
        };
        for entry in listing::entries(read) {
            if let Some(number) = number_in(entry.name).filter(|n| *n > 2 && *n != directory) {
                keep(number);
            }
        }
    }
    // SAFETY: opened above, and nobody else's.
    unsafe { raw::call(libc::SYS_close, [directory, 0, 0, 0, 0, 0]) };
    true
}

/// Digits alone.
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

/// A copy of a descriptor, CLOEXEC, with a number of `from` or above.
pub(crate) fn duplicate(fd: BorrowedFd<'_>, from: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes a number.
    let copy = super::check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, from) })?;
    // SAFETY: a fresh descriptor, ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// The descriptor of that number is ours from now on, CLOEXEC. Taken a second time: a duplicate.
/// EBADF: it is not open, or is one of the first three.
pub(crate) fn take(number: RawFd) -> io::Result<OwnedFd> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if number < 3 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: F_SETFD takes numbers; one that is not open is refused.
    super::check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    if taken.insert(number) {
        // SAFETY: it is open, and nobody in this process owned it so far.
        return Ok(unsafe { OwnedFd::from_raw_fd(number) });
    }
    // SAFETY: it is open, and stays so for the length of the call.
    let copy = duplicate(unsafe { BorrowedFd::borrow_raw(number) }, 3)?;
    taken.insert(copy.as_raw_fd());
    Ok(copy)
}

/// What tells a descriptor from another that got its number: device and inode, and of which
/// process a pidfd is: before Linux 6.9 all of them are one inode. 0: none is open.
pub(crate) fn identity(number: RawFd) -> u64 {
    // SAFETY: borrowed for the length of the call; one that is not open is refused.
    let found = (number >= 0).then(|| fstat(unsafe { BorrowedFd::borrow_raw(number) }));
    match found {
        Some(Ok(found)) => {
            let is_pidfd = found.st_mode & libc::S_IFMT == 0;
            let pid = Some(number).filter(|_| is_pidfd).and_then(pid_of).unwrap_or(0);
            let pid = u64::try_from(pid).unwrap_or(0);
            found.st_ino ^ found.st_dev.rotate_left(40) ^ pid.rotate_left(20)
        }
        Some(Err(_)) | None => 0,
    }
}

/// Of a pidfd; -1: it was reaped. See proc_pid_fdinfo(5).
fn pid_of(number: RawFd) -> Option<i64> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    info.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok())
}

/// The descriptor is one of a process, and not what stands in for it.
pub(crate) fn is_process(number: RawFd) -> bool {
    pid_of(number).is_some()
}

/// The descriptor of that number and identity. A socket whose other end is gone stands in for one that was
/// closed: its owner finds that out as with any other end.
pub(crate) fn take_same(number: RawFd, identity_then: u64) -> io::Result<OwnedFd> {
    // Whose process was reaped since is nobody's any more, whoever has the number.
    if identity(number) == identity_then || pid_of(number) == Some(-1) {
        return take(number);
    }
    let stand_in = stand_in()?;
    is_new(stand_in.as_fd());
    Ok(stand_in)
}

/// What stands in for a descriptor that is gone.
pub(crate) fn stand_in() -> io::Result<OwnedFd> {
    super::socket::pair().map(|(stand_in, _)| stand_in)
}

/// The socket of datagrams that is bound to this path: taken over.
pub(crate) fn take_socket_at(path: &str) -> Option<OwnedFd> {
    let is_it = |socket: BorrowedFd<'_>| {
        let name = unix_name(socket);
        let is_of_datagrams =
            || getsockopt(&socket, sockopt::SockType).is_ok_and(|kind| kind == SockType::Datagram);
        name.is_some_and(|name| name.path() == Some(Path::new(path))) && is_of_datagrams()
    };
    take_sockets(1, is_it).pop()
}

/// The first of which this is so, which asks for what sockets alone have: taken over.
pub(crate) fn take_sockets(most: usize, is_it: impl Fn(BorrowedFd<'_>) -> bool) -> Vec<OwnedFd> {
    let is_one = |number: &RawFd| {
        // SAFETY: borrowed for the length of the call; one that is not open is refused.
        *number > 2 && is_it(unsafe { BorrowedFd::borrow_raw(*number) })
    };
    let found = listed().unwrap_or_default().into_iter().filter(is_one);
    found.filter_map(|number| take(number).ok()).take(most).collect()
}

/// Opened by this image before [`rest`] is asked for, which spares it.
pub(crate) fn is_new(fd: BorrowedFd<'_>) {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(fd.as_raw_fd());
}

/// What nobody took, and what was not told to be new: the caller's from now on.
pub(crate) fn rest() -> Vec<OwnedFd> {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let each = || (3..RawFd::try_from(NUMBERS).unwrap_or(0)).collect();
    let numbers: Vec<RawFd> = listed().unwrap_or_else(each);
    // SAFETY: F_GETFD takes numbers; one that is not open is refused.
    let is_open = |number: RawFd| unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0;
    let rest = numbers.into_iter().filter(|n| *n > 2 && !taken.contains(n) && is_open(*n));
    // SAFETY: it is open, and nobody in this process owns it.
    rest.map(|number| unsafe { OwnedFd::from_raw_fd(number) }).collect()
}

/// Numbers that are open, and that by which it was asked. None: there is no /proc.
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
    fn what_is_taken_stays_and_the_rest_is_closed() {
        let opened = || File::open("/dev/null").unwrap().into_raw_fd();
        let child = process::fork(&[], || {
            // What another test has taken is nothing of this one's.
            TAKEN.lock().unwrap_or_else(PoisonError::into_inner).clear();
            let (kept, other) = (opened(), opened());
            keep_all();
            let taken = take(kept).unwrap();
            let twice = take(kept).unwrap();
            let (new, forgotten) = (File::open("/dev/null").unwrap(), opened());
            is_new(std::os::fd::AsFd::as_fd(&new));
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
    fn pidfds_of_two_processes_are_two_though_they_may_be_one_inode() {
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
        // It was reaped, and is what it was.
        let number = one.into_raw_fd();
        // Another test may have taken an earlier descriptor of this number.
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        assert_eq!(take_same(number, then).unwrap().as_raw_fd(), number);
    }

    #[test]
    fn names_of_descriptors_are_numbers() {
        assert_eq!(number_in(b"17"), Some(17));
        assert_eq!(number_in(b"."), None);
        assert_eq!(number_in(b""), None);
    }
}
