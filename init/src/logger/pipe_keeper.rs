//! Keeps the read ends of all runs' pipes outside of PID 1's descriptor table: they lie as messages
//! in a pair of connected sockets.
//!
//! If the logger dies, its pipes still have a reader. No service gets SIGPIPE, and no bytes in
//! pipes are lost. PID 1's descriptor table has two entries for all runs; each entry would slow
//! down a clone and an exec.
//!
//! A read end that only PID 1 holds is lost in a crash. So PID 1 looks at copies (MSG_PEEK), and
//! inserts repacked messages before it removes the old ones. A crash in between duplicates some
//! until their run is over.

use super::{channel, limit};
use crate::state::carried::KeptFd;
use crate::sys::socket::{self, Received};
use groundstate_units::machine::event::RunId;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::{setsockopt, sockopt};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Requested socket memory; only root gets it, and it is unneeded below some thousand runs.
const MEMORY: usize = 8 * 1024 * 1024;
/// Size limit of a message.
const BUFFER: usize = 16 * limit::FDS_A_MESSAGE;

/// The read end of one run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReadEnd {
    pub(crate) run: RunId,
    /// Non-blocking, close-on-exec.
    pub(crate) fd: KeptFd<OwnedFd>,
}

/// The sockets that hold the messages.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stash {
    into: KeptFd<OwnedFd>,
    out: KeptFd<OwnedFd>,
    /// Number of messages.
    #[serde(default)]
    messages: usize,
    /// Number of read ends, including those of ended runs.
    #[serde(default)]
    held: usize,
    /// The most read ends to hold. The kernel refuses further descriptors once a user has more than
    /// RLIMIT_NOFILE in flight (unix(7), ETOOMANYREFS); descriptors sent to the logger count too.
    most: usize,
    /// Read ends that the kernel refused (the limit, or no socket memory): they stay in the
    /// descriptor table.
    #[serde(default)]
    table: Vec<ReadEnd>,
}

impl Stash {
    /// Creates an empty stash.
    pub(crate) fn new() -> io::Result<Stash> {
        let (into, out) = socket::pair()?;
        // This fails without CAP_NET_ADMIN; the default holds some thousand runs too.
        let _ = setsockopt(&into, sockopt::SndBufForce, &MEMORY);
        let (allowed, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
        let most = usize::try_from(allowed / 2).unwrap_or(usize::MAX);
        let (into, out) = (into.into(), out.into());
        Ok(Stash { into, out, messages: 0, held: 0, most, table: Vec::new() })
    }

    /// Number of read ends, including those of ended runs.
    pub(crate) fn len(&self) -> usize {
        self.held + self.table.len()
    }

    /// Number of entries in PID 1's descriptor table.
    #[cfg(test)]
    pub(crate) fn table_entries(&self) -> usize {
        2 + self.table.len()
    }

    /// Stores up to [`limit::FDS_A_MESSAGE`] read ends. Never fails: those that the sockets refuse
    /// stay in the table.
    pub(crate) fn put(&mut self, ends: Vec<ReadEnd>) {
        if ends.is_empty() {
            return;
        }
        if !self.send(&ends, self.most) {
            self.table.extend(ends);
        }
    }

    /// Returns false if the kernel refuses them or there are too many.
    fn send(&mut self, ends: &[ReadEnd], most: usize) -> bool {
        if self.held + ends.len() > most {
            return false;
        }
        let runs: Vec<RunId> = ends.iter().map(|end| end.run).collect();
        let fds: Vec<_> = ends.iter().map(|end| end.fd.as_fd()).collect();
        let sent =
            channel::encode(&runs).and_then(|bytes| socket::send(self.into.as_fd(), &bytes, &fds));
        if sent.is_ok() {
            self.messages += 1;
            self.held += ends.len();
        }
        sent.is_ok()
    }

    /// Passes the read ends to `see`, one message at a time, until it returns false.
    pub(crate) fn show(&self, mut see: impl FnMut(&[ReadEnd]) -> bool) {
        // On an error, they are shown the next time.
        let _ = look_into(self.out.as_fd(), |ends| see(&ends));
        let _ = self.table.chunks(limit::FDS_A_MESSAGE).all(see);
    }

    /// Removes the oldest message.
    fn drop_first(&mut self) {
        let mut buffer = [0; BUFFER];
        match socket::receive(self.out.as_fd(), &mut buffer) {
            Ok(got) => {
                self.messages = self.messages.saturating_sub(1);
                self.held = self.held.saturating_sub(got.fds.len());
            }
            // Nothing there although messages were counted: the kernel is right.
            Err(_) => (self.messages, self.held) = (0, 0),
        }
    }

    /// Counts the content after a crash, because the recorded counts may be outdated. Returns its
    /// runs.
    pub(crate) fn recount(&mut self) -> BTreeSet<RunId> {
        let (mut runs, mut messages, mut held) = (BTreeSet::new(), 0, 0);
        let counted = look_into(self.out.as_fd(), |ends| {
            messages += 1;
            held += ends.len();
            runs.extend(ends.iter().map(|end| end.run));
            true
        });
        if counted.is_ok() {
            (self.messages, self.held) = (messages, held);
        }
        runs
    }

    /// Drops the read ends of ended runs and packs the rest into full messages.
    pub(crate) fn repack(&mut self, alive: impl Fn(RunId) -> bool) {
        let mut left = self.messages;
        // A full stash holds the copies of one message in addition to the originals.
        let most = self.most.saturating_add(limit::FDS_A_MESSAGE);
        while left > 0 {
            let (mut packed, mut count) = (Vec::new(), 0);
            let looked = look_into(self.out.as_fd(), |ends| {
                let ends: Vec<_> = ends.into_iter().filter(|end| alive(end.run)).collect();
                let fits = count < left && packed.len() + ends.len() <= limit::FDS_A_MESSAGE;
                if fits {
                    packed.extend(ends);
                    count += 1;
                }
                fits
            });
            if looked.is_err() || count == 0 || !(packed.is_empty() || self.send(&packed, most)) {
                // Retried when more runs have ended.
                break;
            }
            (0..count).for_each(|_| self.drop_first());
            left -= count;
        }
        let table = std::mem::take(&mut self.table);
        let mut living = table.into_iter().filter(|end| alive(end.run)).peekable();
        while living.peek().is_some() {
            let batch = living.by_ref().take(limit::FDS_A_MESSAGE).collect();
            self.put(batch);
        }
    }
}

/// Passes copies of the read ends in this socket, one message at a time, until `see` returns false.
pub(crate) fn look_into(
    out: BorrowedFd<'_>,
    mut see: impl FnMut(Vec<ReadEnd>) -> bool,
) -> io::Result<()> {
    // Each look starts with the oldest message: socket(7).
    socket::set_option(out, libc::SOL_SOCKET, libc::SO_PEEK_OFF, 0)?;
    let mut buffer = [0; BUFFER];
    loop {
        let got = match socket::look(out, &mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            looked => looked?,
        };
        if got.truncated {
            // No descriptor was free for the copies: missing ones must not be taken for lost.
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        // An empty message would be read again and again.
        if got.length == 0 || !see(read_ends(got, &buffer)) {
            return Ok(());
        }
    }
}

/// The read ends of this message.
fn read_ends(got: Received, bytes: &[u8]) -> Vec<ReadEnd> {
    let runs: Vec<RunId> =
        bytes.get(..got.length).and_then(|b| channel::decode(b).ok()).unwrap_or_default();
    runs.into_iter().zip(got.fds).map(|(run, fd)| ReadEnd { run, fd: fd.into() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::resource::setrlimit;
    use std::io::{Read, Write};

    fn end(run: u64) -> (ReadEnd, io::PipeWriter) {
        let (read, write) = io::pipe().unwrap();
        (ReadEnd { run: RunId(run), fd: OwnedFd::from(read).into() }, write)
    }

    #[test]
    fn stored_read_ends_come_out_and_keep_the_writers_alive() {
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
        assert_eq!((stash.len(), stash.table_entries(), stash.messages), (100, 2, 2));
        let mut seen = Vec::new();
        stash.show(|ends| {
            for end in ends {
                let mut text = String::new();
                let copy = end.fd.try_clone().unwrap();
                std::fs::File::from(copy).read_to_string(&mut text).unwrap();
                assert_eq!(text, end.run.0.to_string());
                seen.push(end.run.0);
            }
            true
        });
        assert_eq!(seen, (0..300).step_by(3).collect::<Vec<u64>>());
        assert_eq!(stash.len(), 100, "they are where they were");
        stash.repack(|_| false);
        assert_eq!((stash.len(), stash.messages), (0, 0));
    }

    #[test]
    fn crash_during_packing_or_looking_loses_no_read_end() {
        for crash_at in [0, 1, 63, 64, 65, 100, 199] {
            let mut stash = Stash::new().unwrap();
            let _writers: Vec<_> = (0..200)
                .map(|run| {
                    let (end, write) = end(run);
                    stash.put(vec![end]);
                    write
                })
                .collect();
            let crash = |seen: &std::cell::Cell<u64>| {
                seen.set(seen.get() + 1);
                if seen.get() > crash_at {
                    // The read ends that it holds are lost. The panic prints nothing, because a
                    // thread that prints may have held a lock at the fork.
                    std::panic::resume_unwind(Box::new(()));
                }
            };
            let count = std::cell::Cell::new(0);
            let child = crate::sys::process::fork_whole(|| {
                stash.repack(|_| {
                    crash(&count);
                    true
                });
                0
            });
            let ended = crate::sys::wait::await_end(child.unwrap()).unwrap();
            assert_eq!(ended, groundstate_units::spec::Exit::Code(70));
            let all: BTreeSet<RunId> = (0..200).map(RunId).collect();
            assert_eq!(stash.recount(), all, "crashed at {crash_at}");
            // Duplicates are removed with their run.
            stash.repack(|run| run.0 < 10);
            let there: BTreeSet<RunId> = (0..10).map(RunId).collect();
            assert_eq!(stash.recount(), there);
        }
    }

    #[test]
    fn no_read_end_is_lost_without_free_descriptors_for_looking() {
        for free in [0, 10, 40, 63] {
            let mut stash = Stash::new().unwrap();
            let mut writers = Vec::new();
            for _ in 0..2 {
                let (ends, of_them): (Vec<_>, Vec<_>) =
                    (0..64).map(|n| end(n + writers.len() as u64)).unzip();
                stash.put(ends);
                writers.extend(of_them);
            }
            let child = crate::sys::process::fork_whole(|| {
                let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
                let mut all = Vec::new();
                while let Ok(one) = std::fs::File::open("/dev/null") {
                    all.push(one);
                    if all.len() == 2000 {
                        break;
                    }
                }
                let highest = all.last().map_or(0, std::os::fd::AsRawFd::as_raw_fd);
                let most = u64::try_from(highest + 1).unwrap();
                setrlimit(Resource::RLIMIT_NOFILE, most.min(soft), hard).unwrap();
                all.truncate(all.len() - free);
                stash.repack(|run| run.0.is_multiple_of(2));
                drop(all);
                let there = stash.recount();
                u8::from(!(0..128).step_by(2).all(|run| there.contains(&RunId(run))))
            });
            let ended = crate::sys::wait::await_end(child.unwrap()).unwrap();
            assert_eq!(ended, groundstate_units::spec::Exit::Code(0), "{free} numbers are left");
        }
    }

    #[test]
    fn full_pipe_keeper_is_repacked() {
        let mut stash = Stash::new().unwrap();
        stash.most = 200;
        let mut writers = Vec::new();
        for run in 0..300 {
            let (end, write) = end(run);
            stash.put(vec![end]);
            writers.push(write);
        }
        assert_eq!(stash.table_entries(), 2 + 100);
        // The first and every third run exist.
        stash.repack(|run| run.0.is_multiple_of(3));
        assert_eq!((stash.len(), stash.table_entries()), (100, 2));
    }

    #[test]
    fn read_ends_that_the_sockets_refuse_stay_in_the_table() {
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
