//! One lookout as PID 1 sees it: its process and the socket to it. A lookout that ends is
//! replaced, after a pause that grows, and told everything anew.

use super::message::{MESSAGE, Order, Report};
use super::{clock, watcher_client};
use crate::base::limit;
use crate::base::retry::retry_now;
use crate::state::carried::{self, KeptFd};
use crate::sys::{Pid, process, socket as raw, wait};
use groundstate_units::text::fields;
use groundstate_units::text::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// What a lookout is for. One process each: a path on a dead file system stops no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Post {
    /// Timers.
    Clock,
    /// Paths.
    Paths,
    /// Paths at which a look may block: one of several such lookouts.
    Apart(usize),
}

impl Post {
    /// How many lookouts of this kind there may be at most, with those that cannot end.
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
    /// It has not taken orders for so long that it is to be replaced.
    #[serde(default)]
    given_up: bool,
    /// It was begun by this image of init, so it says what this one knows of.
    #[serde(skip)]
    is_own: bool,
}

impl Link {
    fn give_up(&mut self) {
        self.given_up = true;
        self.unsent = VecDeque::new();
        // Its end is noticed when it is reaped.
        let _ = wait::kill_made(self.pid, 9);
    }
}

/// An order is longer than a message can be.
#[derive(Debug)]
pub(crate) struct TooLong;

fn delay() -> Duration {
    limit::LOOKOUT_DELAY
}

/// See the module.
#[derive(Serialize, Deserialize)]
pub(crate) struct Lookout {
    post: Post,
    link: Option<Link>,
    /// When the next one is started, if it is to be replaced.
    pub(crate) start_at: Option<Time>,
    #[serde(default = "delay")]
    delay: Duration,
}

impl Lookout {
    pub(super) fn new(post: Post) -> Lookout {
        Lookout { post, link: None, start_at: None, delay: limit::LOOKOUT_DELAY }
    }

    pub(crate) fn is_there(&self) -> bool {
        self.link.is_some()
    }

    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(|link| link.socket.as_fd())
    }

    /// It tells when paths have answered.
    pub(crate) fn tells_of_answers(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.is_own)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.link.as_ref().map(|link| link.pid)
    }

    /// Forks it; gives the socket to be watched. `stuck`: earlier lookouts of its kind that have not ended.
    pub(super) fn start(&mut self, now: Time, stuck: usize) -> io::Result<BorrowedFd<'_>> {
        self.start_at = None;
        let post = self.post;
        let begun = raw::pair().and_then(|(ours, theirs)| {
            if stuck >= post.most() {
                return Err(io::Error::other(
                    "too many earlier ones wait for a disk and can not end",
                ));
            }
            let pid = process::fork(&[theirs.as_fd()], || match post {
                Post::Clock => clock::run(&theirs),
                Post::Paths => watcher_client::run(&theirs, false),
                Post::Apart(_) => watcher_client::run(&theirs, true),
            })?;
            Ok((pid, ours))
        });
        match begun {
            Ok((pid, socket)) => {
                let unsent = VecDeque::new();
                let (given_up, is_own) = (false, true);
                let link =
                    Link { pid, socket: socket.into(), since: now, unsent, given_up, is_own };
                Ok(self.link.insert(link).socket.as_fd())
            }
            Err(error) => {
                self.later(now);
                Err(error)
            }
        }
    }

    /// It can not be spoken with: another one is told everything anew.
    pub(crate) fn give_up(&mut self) {
        if let Some(link) = &mut self.link {
            link.give_up();
        }
    }

    fn later(&mut self, now: Time) {
        self.start_at = Some(now.after(self.delay));
        self.delay = (self.delay * 2).min(limit::LOOKOUT_DELAY_MAX);
    }

    /// It has ended: another one is started later.
    pub(crate) fn ended(&mut self, now: Time) {
        let Some(link) = self.link.take() else { return };
        if now.since(link.since) >= limit::LOOKOUT_STEADY {
            self.delay = limit::LOOKOUT_DELAY;
        }
        self.later(now);
    }

    /// Sent now, or when it takes it. Where there is no lookout, or one that takes nothing any
    /// more, the next one is told everything anew.
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

    /// Sends what waits, as far as it is taken.
    pub(crate) fn flush(&mut self) {
        let Some(link) = &mut self.link else { return };
        while let Some(bytes) = link.unsent.front() {
            match retry_now(|| raw::send(link.socket.as_fd(), bytes, &[])) {
                Ok(_) => drop(link.unsent.pop_front()),
                // The poll says when it takes the next.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return link.give_up(),
            }
        }
    }

    /// What it says next; None: nothing now.
    pub(crate) fn hear(&mut self) -> Option<Report> {
        let link = self.link.as_ref()?;
        let mut buffer = [0; 8192];
        loop {
            let got = match retry_now(|| raw::receive(link.socket.as_fd(), &mut buffer)) {
                Ok(got) => got,
                Err(error) => {
                    // What it has said is lost, and the poll tells of nothing twice.
                    if error.kind() != io::ErrorKind::WouldBlock {
                        self.link.as_mut()?.give_up();
                    }
                    return None;
                }
            };
            if got.length == 0 {
                return None;
            }
            let report = buffer.get(..got.length).map(fields::decode);
            // What is no report is passed over: only our own child writes here.
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
    fn one_that_takes_no_orders_is_given_up_and_nothing_grows() {
        let (ours, theirs) = raw::pair().unwrap();
        let pid = process::fork(&[theirs.as_fd()], || {
            loop {
                nix::unistd::pause();
            }
        });
        let (pid, since) = (pid.unwrap(), Time::ZERO);
        let (unsent, given_up, is_own) = (VecDeque::new(), false, true);
        let link = Link { pid, socket: ours.into(), since, unsent, given_up, is_own };
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
