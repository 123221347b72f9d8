//! PID 1's side of the logger when init goes on as another image: what is kept of each run, what
//! is known of it again, and the pipes of runs that were begun in a crash. The logger itself notices
//! nothing; how it is spoken to is [`super::handle`]'s.

use super::handle::Handle;
use super::message::RunLog;
use super::stash::ReadEnd;
use groundstate_units::machine::event::RunId;
use groundstate_units::text::time::Time;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

impl Handle {
    /// What is told of the run, as long as its pipe is not known to be at its end.
    pub(crate) fn of(&self, run: RunId) -> Option<&RunLog> {
        self.runs.get(&run).map(Box::as_ref)
    }

    /// After a crash: what was handed over since the state was kept is not what it says.
    pub(crate) fn reconcile(&mut self) {
        let there = self.stash.recount();
        self.fresh.retain(|end| !there.contains(&end.run));
        // Put there is not told: the logger may have been behind. Told twice, it heeds the first.
        self.untold.extend(there.into_iter().filter(|run| self.runs.contains_key(run)));
        if let Some(link) = &mut self.link {
            link.owes_nothing();
        }
    }

    /// A pipe an image before this one had made for a run; None: it was passed on already, and lies
    /// in the stash. What is given is a write end of the same pipe.
    pub(crate) fn pipe_again(&mut self, log: RunLog, read: Option<OwnedFd>) -> io::Result<OwnedFd> {
        let run = log.run;
        let write = match &read {
            Some(read) => other_end(read),
            None => self
                .stash
                .copy_of(run)
                .as_ref()
                .map_or_else(|| Err(io::Error::from_raw_os_error(libc::ENOENT)), other_end),
        };
        self.take_up(log, read);
        write
    }

    /// The same of a pipe whose write end is with its process alone.
    pub(crate) fn take_up(&mut self, log: RunLog, read: Option<OwnedFd>) {
        self.fresh.extend(read.map(|fd| ReadEnd { run: log.run, fd }));
        self.runs.insert(log.run, Box::new(log));
    }

    /// In another root: by one that sees that root, and opens its files when it is told to.
    pub(crate) fn replace(&mut self, now: Time) {
        self.files_open = false;
        if let Some(link) = &mut self.link {
            link.kill(now);
        }
    }

    /// The number of the run's read end, as long as it is in the table.
    pub(crate) fn read_end(&self, run: RunId) -> Option<RawFd> {
        let end = self.fresh.iter().rev().find(|end| end.run == run);
        end.map(|end| end.fd.as_raw_fd())
    }
}

/// A write end of the pipe that is read here.
fn other_end(read: &OwnedFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", read.as_fd().as_raw_fd());
    std::fs::OpenOptions::new().write(true).open(path).map(OwnedFd::from)
}
