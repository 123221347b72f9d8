//! The read ends of all runs' pipes, kept while PID 1 itself holds none of them open: they
//! lie as messages in a pair of connected sockets, both ends of which PID 1 keeps.
//!
//! So a logger may die at any moment: its pipes still have a reader, no service gets
//! SIGPIPE, what the pipes hold is not lost, and PID 1's descriptor table has two entries for
//! all runs together (a clone or an exec costs more with each entry). Who is told what is
//! read is not decided here; see [`super::handle`].

use super::{limit, message};
use crate::journal::carried;
use crate::sys::socket;
use groundstate_units::machine::event::RunId;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::{setsockopt, sockopt};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Bytes of socket memory asked for; granted to root only, unneeded below some thousand runs.
const MEMORY: usize = 8 * 1024 * 1024;

/// One run's read end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReadEnd {
    /// Whose.
    pub(crate) run: RunId,
    /// Non-blocking, close-on-exec.
    #[serde(with = "carried")]
    pub(crate) fd: OwnedFd,
}

/// The messages under way between two sockets of ours.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stash {
    #[serde(with = "carried")]
    into: OwnedFd,
    #[serde(with = "carried")]
    out: OwnedFd,
    /// Messages in it.
    messages: usize,
    /// Read ends in it, dead ones too.
    held: usize,
    /// The most to hold. The kernel refuses further descriptors once a user has more than
    /// RLIMIT_NOFILE under way (unix(7), ETOOMANYREFS), and those for the logger go that way too.
    most: usize,
    /// What the kernel did not take (more under way than RLIMIT_NOFILE allows a user, or no
    /// socket memory left): these stay in the table.
    table: Vec<ReadEnd>,
}

impl Stash {
    /// An empty one.
    pub(crate) fn new() -> io::Result<Stash> {
        let (into, out) = socket::pair()?;
        // Refused without CAP_NET_ADMIN; the default holds some thousand runs too.
        let _ = setsockopt(&into, sockopt::SndBufForce, &MEMORY);
        let (allowed, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
        let most = usize::try_from(allowed / 2).unwrap_or(usize::MAX);
        Ok(Stash { into, out, messages: 0, held: 0, most, table: Vec::new() })
    }

    /// How many messages and table entries a full round has to look at.
    pub(crate) fn round(&self) -> usize {
        self.messages + usize::from(!self.table.is_empty())
    }

    /// Read ends kept, dead ones too.
    pub(crate) fn len(&self) -> usize {
        self.held + self.table.len()
    }

    /// Descriptors of PID 1's table in use for it.
    #[cfg(test)]
    pub(crate) fn table_entries(&self) -> usize {
        2 + self.table.len()
    }

    /// Keeps up to [`limit::FDS_A_MESSAGE`] read ends. Never fails: what can not lie in the
    /// sockets stays in the table.
    pub(crate) fn put(&mut self, ends: Vec<ReadEnd>) {
        if ends.is_empty() {
            return;
        }
        if self.held + ends.len() > self.most {
            self.table.extend(ends);
            return;
        }
        let runs: Vec<RunId> = ends.iter().map(|end| end.run).collect();
        let fds: Vec<_> = ends.iter().map(|end| end.fd.as_fd()).collect();
        let sent =
            message::encode(&runs).and_then(|bytes| socket::send(self.into.as_fd(), &bytes, &fds));
        match sent {
            Ok(_) => {
                self.messages += 1;
                self.held += ends.len();
            }
            Err(_) => self.table.extend(ends),
        }
    }

    /// Takes the oldest message's read ends out; when there is none, those of the table.
    pub(crate) fn take(&mut self) -> Vec<ReadEnd> {
        if self.messages == 0 {
            let rest = self.table.len().min(limit::FDS_A_MESSAGE);
            return self.table.drain(..rest).collect();
        }
        self.messages -= 1;
        let mut buffer = [0; 16 * limit::FDS_A_MESSAGE];
        let Ok(got) = socket::receive(self.out.as_fd(), &mut buffer) else {
            // Nothing there though we counted: believe the kernel.
            self.messages = 0;
            self.held = 0;
            return Vec::new();
        };
        self.held = self.held.saturating_sub(got.fds.len());
        let runs: Vec<RunId> =
            buffer.get(..got.length).and_then(|b| message::decode(b).ok()).unwrap_or_default();
        runs.into_iter().zip(got.fds).map(|(run, fd)| ReadEnd { run, fd }).collect()
    }

    /// After a crash: what is in it is not what was written down. Gives the runs it is about.
    pub(crate) fn recount(&mut self) -> BTreeSet<RunId> {
        let mut runs = BTreeSet::new();
        self.go_through(|end| _ = runs.insert(end.run));
        runs
    }

    /// After a crash: a copy of the run's read end, where it is there.
    pub(crate) fn copy_of(&mut self, run: RunId) -> Option<OwnedFd> {
        let mut found = None;
        self.go_through(|end| {
            if end.run == run && found.is_none() {
                found = end.fd.try_clone().ok();
            }
        });
        found
    }

    /// All that is in the sockets, whatever was counted; then the count is right.
    fn go_through(&mut self, mut look: impl FnMut(&ReadEnd)) {
        let mut ends = Vec::new();
        (self.messages, self.held) = (usize::MAX, 0);
        loop {
            let taken = self.take();
            if self.messages == 0 {
                break;
            }
            ends.extend(taken);
        }
        ends.iter().for_each(&mut look);
        while !ends.is_empty() {
            let rest = ends.split_off(ends.len().min(limit::FDS_A_MESSAGE));
            self.put(std::mem::replace(&mut ends, rest));
        }
    }

    /// Forgets the read ends of runs that are over, and packs the rest into full messages.
    pub(crate) fn repack(&mut self, alive: impl Fn(RunId) -> bool) {
        let mut packed: Vec<ReadEnd> = Vec::new();
        for _ in 0..self.messages {
            packed.extend(self.take().into_iter().filter(|end| alive(end.run)));
            if packed.len() >= limit::FDS_A_MESSAGE {
                let rest = packed.split_off(limit::FDS_A_MESSAGE);
                self.put(std::mem::replace(&mut packed, rest));
            }
        }
        self.put(packed);
        let table = std::mem::take(&mut self.table);
        let mut living = table.into_iter().filter(|end| alive(end.run)).peekable();
        while living.peek().is_some() {
            let batch = living.by_ref().take(limit::FDS_A_MESSAGE).collect();
            self.put(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn end(run: u64) -> (ReadEnd, io::PipeWriter) {
        let (read, write) = io::pipe().unwrap();
        (ReadEnd { run: RunId(run), fd: read.into() }, write)
    }

    #[test]
    fn what_is_put_in_comes_out_and_keeps_the_writer_alive() {
        let mut stash = Stash::new().unwrap();
        let mut writers = Vec::new();
        for run in 0..300 {
            let (end, write) = end(run);
            stash.put(vec![end]);
            writers.push(write);
        }
        for (run, write) in writers.iter_mut().enumerate() {
            // EPIPE if the read end were gone.
            write.write_all(run.to_string().as_bytes()).unwrap();
        }
        drop(writers);
        stash.repack(|run| run.0 % 3 == 0);
        assert_eq!((stash.len(), stash.table_entries(), stash.round()), (100, 2, 2));
        let mut seen = Vec::new();
        for _ in 0..stash.round() {
            for end in stash.take() {
                let mut text = String::new();
                std::fs::File::from(end.fd).read_to_string(&mut text).unwrap();
                assert_eq!(text, end.run.0.to_string());
                seen.push(end.run.0);
            }
        }
        assert_eq!(seen, (0..300).step_by(3).collect::<Vec<u64>>());
        assert_eq!((stash.len(), stash.round()), (0, 0));
    }

    #[test]
    fn what_the_sockets_do_not_take_stays_in_the_table() {
        let mut stash = Stash::new().unwrap();
        setsockopt(&stash.into, sockopt::SndBuf, &1usize).unwrap();
        let ends: Vec<_> = (0..200).map(end).collect();
        let mut writers = Vec::new();
        for (end, write) in ends {
            stash.put(vec![end]);
            writers.push(write);
        }
        assert!(stash.table_entries() > 2, "the sockets took everything");
        assert_eq!(stash.len(), 200);
        for write in &mut writers {
            write.write_all(b"x").unwrap();
        }
        stash.repack(|run| run.0 < 64);
        assert_eq!(stash.len(), 64);
    }
}
