//! What services write where an init has given up ([`crate::boot::nothing_left`]) and no logger of an image
//! before it reads that any more: it is read and lost, by a child of init's own, for whoever writes into a
//! full pipe stands still, and dies of one that nobody has open. What a logger has it goes on with.

use crate::pipes::Pipes;
use crate::process;
use crate::sys::wait::{self, Ended};
use crate::sys::{Pid, process as maker};
use groundstate_units::spec::Exit;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

const KILL: u8 = 9;
/// Bytes that are read at a time.
const PORTION: usize = 16 * 1024;

/// All read ends there are, and who empties them.
pub(crate) struct Drain {
    pipes: Pipes,
    pid: Option<Pid>,
    /// Nobody writes any more.
    is_over: bool,
    /// Loggers, and what other helpers images before this one have left.
    helpers: BTreeSet<i32>,
}

impl Drain {
    /// What images before this one had. It begins with [`Drain::turn`].
    pub(crate) fn of_the_rest() -> Drain {
        let children = process::children().into_iter();
        let helpers = children.filter(|pid| process::runs_this_program(Pid::from_raw(*pid)));
        let helpers = helpers.collect();
        Drain { pipes: Pipes::again(), pid: None, is_over: false, helpers }
    }

    /// Begins it where it is not at work. False: it could not be begun, and is to be tried again.
    pub(crate) fn turn(&mut self) -> bool {
        if self.pid.is_none() && !self.is_over {
            let unread = self.pipes.unread(&self.helpers);
            self.is_over = unread.is_empty();
            if !self.is_over {
                self.pid = maker::fork(&unread, || empty(&unread)).ok();
            }
        }
        self.pid.is_some() || self.is_over
    }

    /// A child was reaped.
    pub(crate) fn reaped(&mut self, ended: Ended) {
        if self.pid.take_if(|of| *of == ended.pid).is_some() {
            self.is_over |= ended.exit == Exit::Code(0);
        } else if self.helpers.remove(&ended.pid.as_raw()) {
            // What it has read nobody reads any more.
            self.is_over = false;
            if let Some(pid) = self.pid {
                // It has ended already, or begins anew with its end.
                let _ = wait::kill_made(pid, KILL);
            }
        }
    }
}

/// In the child: until nobody writes any more.
fn empty(unread: &[BorrowedFd<'_>]) -> u8 {
    let _ = maker::die_with_parent(KILL);
    let _ = maker::set_name(c"init: drains");
    let mut open: Vec<BorrowedFd<'_>> = unread.to_vec();
    while !open.is_empty() {
        let mut asked: Vec<PollFd<'_>> =
            open.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
        match poll(&mut asked, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return 1,
        }
        let told: Vec<PollFlags> =
            asked.iter().map(|asked| asked.revents().unwrap_or(PollFlags::empty())).collect();
        let mut told = told.into_iter();
        open.retain(|fd| told.next().is_none_or(|told| told.is_empty() || has_more(*fd)));
    }
    0
}

/// Takes a portion. False: it is empty, and nobody has the other end.
fn has_more(pipe: BorrowedFd<'_>) -> bool {
    let mut bytes = [0u8; PORTION];
    match nix::unistd::read(pipe, &mut bytes) {
        Ok(0) => false,
        Ok(_) | Err(Errno::EINTR | Errno::EAGAIN) => true,
        Err(_) => false,
    }
}
