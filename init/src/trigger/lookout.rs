//! One lookout as PID 1 sees it: its process and the socket to it. A lookout that ends is
//! replaced, after a pause that grows, and told everything anew.

use super::message::{MESSAGE, Order, Report};
use super::{clock, watcher};
use crate::limit;
use crate::sys::{Pid, process, socket as raw};
use groundstate_units::time::Time;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// What a lookout is for. One process each: a path on a dead file system stops no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Post {
    /// Timers.
    Clock,
    /// Paths.
    Paths,
}

impl Post {
    pub(super) const ALL: [Post; 2] = [Post::Clock, Post::Paths];
}

struct Link {
    pid: Pid,
    socket: OwnedFd,
    since: Time,
    unsent: VecDeque<Vec<u8>>,
}

/// See the module.
pub(super) struct Lookout {
    post: Post,
    link: Option<Link>,
    /// When the next one is started, if it is to be replaced.
    pub(super) start_at: Option<Time>,
    delay: Duration,
}

impl Lookout {
    pub(super) fn new(post: Post) -> Lookout {
        Lookout { post, link: None, start_at: None, delay: limit::LOOKOUT_DELAY }
    }

    pub(super) fn is_there(&self) -> bool {
        self.link.is_some()
    }

    pub(super) fn is(&self, pid: Pid) -> bool {
        self.link.as_ref().is_some_and(|link| link.pid == pid)
    }

    /// Forks it; gives the socket to be watched.
    pub(super) fn start(&mut self, now: Time) -> io::Result<BorrowedFd<'_>> {
        self.start_at = None;
        let begun = raw::pair().and_then(|(ours, theirs)| {
            let post = self.post;
            let pid = process::fork(&[theirs.as_fd()], || match post {
                Post::Clock => clock::run(&theirs),
                Post::Paths => watcher::run(&theirs),
            })?;
            Ok((pid, ours))
        });
        match begun {
            Ok((pid, socket)) => {
                let link = Link { pid, socket, since: now, unsent: VecDeque::new() };
                Ok(self.link.insert(link).socket.as_fd())
            }
            Err(error) => {
                self.later(now);
                Err(error)
            }
        }
    }

    fn later(&mut self, now: Time) {
        self.start_at = Some(now.after(self.delay));
        self.delay = (self.delay * 2).min(limit::LOOKOUT_DELAY_MAX);
    }

    /// It has ended. `needed`: another one is started later.
    pub(super) fn ended(&mut self, now: Time, needed: bool) {
        let Some(link) = self.link.take() else { return };
        if now.since(link.since) >= limit::LOOKOUT_STEADY {
            self.delay = limit::LOOKOUT_DELAY;
        }
        if needed {
            self.later(now);
        }
    }

    /// Nobody needs it: it ends when it sees that the other end is closed.
    pub(super) fn dismiss(&mut self) {
        (self.link, self.start_at) = (None, None);
    }

    /// Sent now, or when it takes it. False: it can not be sent at all.
    pub(super) fn order(&mut self, order: &Order) -> bool {
        let Some(link) = &mut self.link else { return true };
        let Ok(bytes) = postcard::to_allocvec(order) else { return false };
        if bytes.len() > MESSAGE || link.unsent.len() >= limit::LOOKOUT_UNSENT {
            return false;
        }
        link.unsent.push_back(bytes);
        self.flush();
        true
    }

    /// Sends what waits, as far as it is taken.
    pub(super) fn flush(&mut self) {
        let Some(link) = &mut self.link else { return };
        while let Some(bytes) = link.unsent.front() {
            if raw::send(link.socket.as_fd(), bytes, &[]).is_err() {
                return;
            }
            link.unsent.pop_front();
        }
    }

    /// What it says next; None: nothing now.
    pub(super) fn hear(&mut self) -> Option<Report> {
        let link = self.link.as_ref()?;
        let mut buffer = [0; 8192];
        loop {
            let got = raw::receive(link.socket.as_fd(), &mut buffer).ok()?;
            if got.length == 0 {
                return None;
            }
            let report = buffer.get(..got.length).map(postcard::from_bytes);
            // What is no report is passed over: only our own child writes here.
            if let Some(Ok(report)) = report {
                return Some(report);
            }
        }
    }
}
