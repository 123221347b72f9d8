//! What a lane has of the logger's descriptors: a table of its own, with little in it. All else is the
//! loop's alone, so it is closed as that dies, though a lane that waits for a disk can not be killed:
//! the socket by which PID 1 hears of that death, the runs' pipes, and the connections of those who ask.
//!
//! And what a lane of files waits for that is begun beside such a one: to be alone.

use crate::sys::process;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

/// For all lanes together.
#[derive(Debug)]
pub(crate) struct Held {
    bell: EventFd,
    /// Where lines are kept until they are out.
    memory: Option<Arc<File>>,
    /// The logger before, if it was killed and has not ended: its pidfd.
    before: Option<OwnedFd>,
}

impl Held {
    /// EMFILE, ENFILE, ENOMEM.
    pub(super) fn new(memory: Option<Arc<File>>, before: Option<OwnedFd>) -> io::Result<Held> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Held { bell: EventFd::from_value_and_flags(0, flags)?, memory, before })
    }

    /// For the loop's poll: each [`Held::wake`] is an event.
    pub(super) fn bell(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// Wakes the loop.
    pub(crate) fn wake(&self) {
        // Refused only with 2^64 of them unheard.
        let _ = self.bell.write(1);
    }

    /// From now on this thread has no other descriptors of the loop's.
    pub(super) fn alone(&self) {
        let memory = self.memory.as_ref().map(|memory| memory.as_fd());
        let before = self.before.as_ref().map(AsFd::as_fd);
        let kept: Vec<BorrowedFd<'_>> =
            [Some(self.bell.as_fd()), memory, before].into_iter().flatten().collect();
        // Refused (Linux before 5.9): the loop's death is heard of when it owes an answer.
        let _ = process::own_descriptors(&kept);
    }

    /// Waits until the logger before has ended. It is in the middle of a write, and may go on with that.
    pub(super) fn await_end_of_the_one_before(&self) {
        let Some(before) = &self.before else { return };
        let mut ended = [PollFd::new(before.as_fd(), PollFlags::POLLIN)];
        while matches!(
            poll(&mut ended, PollTimeout::NONE),
            Ok(0) | Err(Errno::EINTR | Errno::ENOMEM)
        ) {}
    }
}
