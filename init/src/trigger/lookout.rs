//! A lookout as PID 1 sees it: its process and the socket to it. A lookout that exits is replaced
//! after a growing pause and gets all orders again.

use super::message::{MESSAGE, Order, Report};
use super::{clock, path_lookout};
use crate::base::limit;
use crate::state::carried::{self, KeptFd};
use crate::sys::{Pid, process, socket as raw, wait};
use groundstate_units::text::fields;
use groundstate_units::text::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The task of a lookout. Each has its own process, so that a path on a dead file system stops no
/// clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Post {
    /// Timers.
    Clock,
    /// Paths.
    Paths,
    /// Paths where a look may block: one of several such lookouts.
    Apart(usize),
}

impl Post {
    /// The highest number of lookouts of this kind, including those that cannot exit.
    pub(super) fn most(self) -> usize {
        match self {
            Post::Clock | Post::Paths => limit::LOOKOUTS,
            Post::Apart(_) => limit::LOOKOUTS_APART,
        }
    }

    pub(super) fn is_apart(self) -> bool {
        matches!(self, Post::Apart(_))
    }
}

#[derive(Serialize, Deserialize)]
struct Link {
    #[serde(with = "carried::pid")]
    pid: Pid,
    socket: KeptFd<OwnedFd>,
    #[serde(default)]
    since: Time,
    #[serde(default)]
    unsent: VecDeque<Vec<u8>>,
    /// True if it has not accepted orders for so long that it is replaced.
    #[serde(default)]
    given_up: bool,
}

impl Link {
    fn give_up(&mut self) {
        self.given_up = true;
        self.unsent = VecDeque::new();
        // Its exit is handled when it is reaped.
        let _ = wait::kill_made(self.pid, 9);
    }
}

/// The order is longer than a message can be.
#[derive(Debug)]
pub(crate) struct TooLong;

/// A lookout.
#[derive(Serialize, Deserialize)]
pub(crate) struct Lookout {
    post: Post,
    link: Option<Link>,
    /// When its replacement is started, if it is to be replaced.
    pub(crate) start_at: Option<Time>,
    #[serde(default)]
    delay: Duration,
}

impl Lookout {
    pub(super) fn new(post: Post) -> Lookout {
        Lookout { post, link: None, start_at: None, delay: Duration::ZERO }
    }

    pub(crate) fn has_process(&self) -> bool {
        self.link.is_some()
    }

    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(|link| link.socket.as_fd())
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        self.link.as_ref().map(|link| link.pid)
    }

    /// Forks the lookout and returns its socket for the poll. `stuck` is the number of earlier ones
    /// of its kind that have not exited.
    pub(super) fn start(&mut self, now: Time, stuck: usize) -> io::Result<BorrowedFd<'_>> {
        self.start_at = None;
        let post = self.post;
        let started = raw::pair().and_then(|(ours, theirs)| {
            if stuck >= post.most() {
                return Err(io::Error::other("too many earlier ones are blocked on I/O"));
            }
            let pid = process::fork(&[theirs.as_fd()], || match post {
                Post::Clock => clock::run(&theirs),
                Post::Paths => path_lookout::run(&theirs, false),
                Post::Apart(_) => path_lookout::run(&theirs, true),
            })?;
            Ok((pid, ours))
        });
        match started {
            Ok((pid, socket)) => {
                let (socket, unsent) = (socket.into(), VecDeque::new());
                let link = Link { pid, socket, since: now, unsent, given_up: false };
                Ok(self.link.insert(link).socket.as_fd())
            }
            Err(error) => {
                self.later(now);
                Err(error)
            }
        }
    }

    /// Abandons the process: its replacement gets all orders again.
    pub(crate) fn give_up(&mut self) {
        if let Some(link) = &mut self.link {
            link.give_up();
        }
    }

    fn later(&mut self, now: Time) {
        self.delay = (self.delay * 2).clamp(limit::LOOKOUT_DELAY, limit::LOOKOUT_DELAY_MAX);
        self.start_at = Some(now.after(self.delay));
    }

    /// Handles its exit and schedules the replacement.
    pub(crate) fn ended(&mut self, now: Time) {
        let Some(link) = self.link.take() else { return };
        if now.since(link.since) >= limit::LOOKOUT_STEADY {
            self.delay = Duration::ZERO;
        }
        self.later(now);
    }

    /// Sends an order, now or when the socket is writable. Without a working process, the next one
    /// gets all orders.
    pub(crate) fn order(&mut self, order: &Order) -> Result<(), TooLong> {
        let Some(link) = &mut self.link else { return Ok(()) };
        let bytes = fields::encode(order).map_err(|_| TooLong)?;
        if bytes.len() > MESSAGE {
            return Err(TooLong);
        }
        if link.unsent.len() >= limit::LOOKOUT_UNSENT {
            link.give_up();
        }
        if !link.given_up {
            link.unsent.push_back(bytes);
            self.flush();
        }
        Ok(())
    }

    /// Sends queued orders until the socket is full.
    pub(crate) fn flush(&mut self) {
        let Some(link) = &mut self.link else { return };
        while let Some(bytes) = link.unsent.front() {
            match raw::send(link.socket.as_fd(), bytes, &[]) {
                Ok(_) => drop(link.unsent.pop_front()),
                // The poll reports when the socket is writable.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return link.give_up(),
            }
        }
    }

    /// The next report, or `None` for now.
    pub(crate) fn hear(&mut self) -> Option<Report> {
        let link = self.link.as_ref()?;
        let mut buffer = [0; 8192];
        loop {
            let got = match raw::receive(link.socket.as_fd(), &mut buffer) {
                Ok(got) => got,
                Err(error) => {
                    // Its reports are lost, and the poll will not report them again.
                    if error.kind() != io::ErrorKind::WouldBlock {
                        self.link.as_mut()?.give_up();
                    }
                    return None;
                }
            };
            if got.length == 0 {
                return None;
            }
            // Invalid messages are ignored: only our own child writes here.
            let report = buffer.get(..got.length).map(fields::decode);
            if let Some(Ok(report)) = report {
                return Some(report);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::machine::event::RunId;

    #[test]
    fn lookout_that_accepts_no_orders_is_abandoned_and_its_queue_is_bounded() {
        let (ours, theirs) = raw::pair().unwrap();
        let pid = process::fork(&[theirs.as_fd()], || {
            loop {
                nix::unistd::pause();
            }
        });
        let (pid, since) = (pid.unwrap(), Time::ZERO);
        let unsent = VecDeque::new();
        let link = Link { pid, socket: ours.into(), since, unsent, given_up: false };
        let mut lookout = Lookout { link: Some(link), ..Lookout::new(Post::Paths) };
        for number in 0..2 * limit::LOOKOUT_UNSENT as u64 {
            lookout.order(&Order::Rest(RunId(number))).unwrap();
        }
        assert_eq!(lookout.link.as_ref().unwrap().unsent.len(), 0);
        wait::await_end(pid).unwrap();
        lookout.ended(Time::ZERO);
        assert!(lookout.start_at.is_some(), "it is replaced");
    }
}
