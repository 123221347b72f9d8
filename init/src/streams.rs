//! What init was started with: its input, its output, and whatever else was open. Closing a file that somebody
//! else answers for, a network or a file system in user space, may wait for ever (see [`crate::foreign`]), and
//! each child of init has to close its copy of all that init has open, before its exec or at its end.
//!
//! So such a file stands in no table of descriptors. It lies as a message in a socket, which stands in its place
//! and which anybody can close; who wants the file takes a copy out: the one who writes for init, the logger, a
//! service with `log: inherit`. An image that goes on finds those sockets where they are.

use crate::foreign;
use crate::insistence::insist;
use crate::mounted::{self, Ground};
use crate::sys::{Pid, inherit, socket, wrapping};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::socket::{SockType, getsockopt, sockopt};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;

/// Of more than these nothing is put away.
const MOST: usize = 64;
const OUTPUT: RawFd = 1;
const ERRORS: RawFd = 2;
/// What goes along with the descriptor.
const WORD: &[u8] = b"=";

/// The first three that were put away.
static WRAPPED: OnceLock<Vec<RawFd>> = OnceLock::new();

/// What else init was started with, by number and identity: nobody has a use for it, but for what its being open means
/// (a lock).
static OTHERS: OnceLock<Vec<(RawFd, u64)>> = OnceLock::new();

/// Which of them a child takes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Output,
    Errors,
}

impl Stream {
    fn number(self) -> RawFd {
        match self {
            Stream::Output => OUTPUT,
            Stream::Errors => ERRORS,
        }
    }

    /// It was put away.
    pub(crate) fn is_wrapped(self) -> bool {
        WRAPPED.get().is_some_and(|all| all.contains(&self.number()))
    }

    /// A copy of what was put away, for a child of init: closing it may wait. None: it was not.
    pub(crate) fn taken_out(self) -> Option<OwnedFd> {
        let (output, errors) = (io::stdout(), io::stderr());
        let fd = match self {
            Stream::Output => output.as_fd(),
            Stream::Errors => errors.as_fd(),
        };
        let mut word = [0; 1];
        self.is_wrapped().then(|| socket::look(fd, &mut word).ok()?.fds.pop()).flatten()
    }
}

/// This descriptor is a copy of a socket that stands for a file.
pub(crate) fn stands_for_a_file(fd: &OwnedFd) -> bool {
    let same = |number: &RawFd| inherit::identity(*number) == inherit::identity(fd.as_raw_fd());
    WRAPPED.get().is_some_and(|all| all.iter().any(same))
}

/// Before anything else is opened, and anybody begun: what may wait is put away.
pub(crate) fn put_away() {
    let mut wrapped = Vec::new();
    let (waiting, others): (Vec<_>, Vec<_>) = inherit::inherited().into_iter().partition(may_wait);
    // Of a device or a FIFO that is elsewhere, who it is can not be asked without waiting.
    let others = others.iter().filter(|fd| is_local(**fd)).map(AsRawFd::as_raw_fd);
    let others = others.filter(|number| *number > ERRORS);
    OTHERS.get_or_init(|| others.take(MOST).map(|it| (it, inherit::identity(it))).collect());
    for fd in waiting.into_iter().take(MOST) {
        let number = fd.as_raw_fd();
        if wrap(fd).is_ok() && number <= ERRORS {
            wrapped.push(number);
        }
    }
    WRAPPED.get_or_init(|| wrapped);
}

/// What else init was started with, for the state.
pub(crate) fn others() -> &'static [(RawFd, u64)] {
    OTHERS.get().map_or(&[], Vec::as_slice)
}

/// The same, of an image before this one: it stays open.
pub(crate) fn keep_others(others: Vec<(RawFd, u64)>) {
    OTHERS.get_or_init(|| {
        let stays = |other: &(RawFd, u64)| match inherit::take_if_same(*other) {
            Some(fd) => {
                std::mem::forget(fd);
                true
            }
            None => false,
        };
        others.into_iter().filter(stays).collect()
    });
}

/// An image before this one has done it.
pub(crate) fn find_again() {
    let found = |number: &RawFd| inherit::borrowed(*number).is_some_and(is_ours);
    WRAPPED.get_or_init(|| (0..=ERRORS).filter(found).collect());
    // Nobody has a use for the others, but for what their being open means (a lock).
    inherit::take_sockets(MOST, is_ours).into_iter().for_each(std::mem::forget);
}

/// Of a pair that init has made, its other end closed.
fn is_ours(fd: BorrowedFd<'_>) -> bool {
    let own = nix::unistd::getpid().as_raw();
    getsockopt(&fd, sockopt::SockType).is_ok_and(|kind| kind == SockType::Datagram)
        && getsockopt(&fd, sockopt::PeerCredentials).is_ok_and(|peer| peer.pid() == own)
}

/// A file that somebody answers for who is not this machine, or nobody knows who.
fn may_wait(fd: &BorrowedFd<'_>) -> bool {
    fcntl(fd, FcntlArg::F_GETPIPE_SZ).is_err()
        && getsockopt(fd, sockopt::SockType).is_err()
        && !is_local(*fd)
        && wrapping::is_file(fd.as_raw_fd())
}

fn is_local(fd: BorrowedFd<'_>) -> bool {
    matches!(mounted::ground_of(fd), Some(Ground::Memory | Ground::Here))
}

fn wrap(fd: BorrowedFd<'_>) -> io::Result<()> {
    wrap_by(fd, wrapping::replace_elsewhere)
}

fn wrap_by(
    fd: BorrowedFd<'_>,
    replace: impl FnOnce(RawFd, BorrowedFd<'_>) -> io::Result<Pid>,
) -> io::Result<()> {
    let number = fd.as_raw_fd();
    let (ours, theirs) = socket::pair_of_datagrams()?;
    socket::send(theirs.as_fd(), WORD, &[fd])?;
    drop(theirs);
    foreign::closes_also(replace(number, ours.as_fd())?);
    // One call of the child, which may have to wait for a processor first; it is done in any case.
    let is_replaced = || inherit::borrowed(number).is_some_and(is_ours);
    let not_yet = || io::Error::from_raw_os_error(libc::EAGAIN);
    let _ = insist(|| is_replaced().then_some(()).ok_or_else(not_yet));
    // The first three are to be had after an exec; none of it is worth an error.
    let _ = if number > ERRORS { wrapping::close_on_exec(number) } else { Ok(()) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{process, wait};
    use nix::fcntl::FdFlag;
    use std::cell::Cell;
    use std::fs::File;

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn what_no_child_can_be_had_for_is_as_it_was() {
        let file = File::open("/proc/self/stat").unwrap();
        let flags = || FdFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFD).unwrap());
        fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let none = |_: RawFd, _: BorrowedFd<'_>| Err(io::Error::from_raw_os_error(libc::EAGAIN));
        assert!(wrap_by(file.as_fd(), none).is_err());
        assert_eq!(flags(), FdFlag::empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn what_its_child_has_not_come_to_yet_will_be_put_away() {
        let file = File::open("/proc/self/stat").unwrap();
        let child = Cell::new(None);
        let slow = |_: RawFd, _: BorrowedFd<'_>| {
            child.set(Some(process::fork(&[], || 0)?));
            child.get().ok_or_else(|| io::Error::other("there is none"))
        };
        assert!(wrap_by(file.as_fd(), slow).is_ok());
        wait::await_end(child.get().unwrap()).unwrap();
    }
}
