//! Makes log files exact: a logger killed at any moment loses and duplicates no line. PID 1 keeps
//! one pipe and one memfd, and passes them to each successive logger.
//!
//! The logger copies the content of a run's pipe with tee(2), splits it into lines and writes them
//! to the memfd. Then it moves the bytes from the run's pipe to the stage pipe with one splice(2).
//! The kernel's count of bytes in the stage pipe tells the next logger whether that happened. Lines
//! stay in the memfd until they are in their file; [`Progress`] in the memfd records how much of
//! them is. An unfinished line stays in the run's pipe.

use super::limit;
use crate::state::carried::KeptFd;
use crate::sys::{device, memfd};
use groundstate_units::text::fields::{self, bytes};
use groundstate_units::text::name::Name;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice, tee};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::io::{Error, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// PID 1's part: both ends of the pipe, and the memory.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stage {
    memory: KeptFd<OwnedFd>,
    into: KeptFd<OwnedFd>,
    out: KeptFd<OwnedFd>,
}

impl Stage {
    /// Creates an empty stage.
    pub(crate) fn new() -> io::Result<Stage> {
        let memory = memfd::create(c"groundstate-log")?;
        let (out, into) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        Ok(Stage { memory: memory.into(), into: into.into(), out: out.into() })
    }

    /// The descriptors for the logger.
    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 3] {
        [self.memory.as_fd(), self.into.as_fd(), self.out.as_fd()]
    }

    /// Duplicates it in the logger's process.
    pub(super) fn copy(&self) -> io::Result<Stage> {
        let [memory, into, out] = self.fds().map(|fd| fd.try_clone_to_owned());
        Ok(Stage { memory: memory?.into(), into: into?.into(), out: out?.into() })
    }
}

/// The layout of the memory: the first page is the head; records follow, in a ring.
const PROGRESS_AT: u64 = 512;
const RECORDS_AT: u64 = 4096;

/// The positions of the records, and the bytes being moved out of a run's pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Head {
    /// The first unfinished record and the end, as ever growing offsets.
    first: u64,
    end: u64,
    /// The `end` once `bytes` bytes are in the stage pipe. `bytes` is 0 if no move is in progress.
    next: u64,
    bytes: u64,
}

/// The progress of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Progress {
    /// The record that is being written, or was last.
    record: u64,
    /// Bytes of it that are in the file.
    written: u64,
    /// The file being appended to and its previous size; no inode if there is none.
    inode: u64,
    size: u64,
}

/// Writes a part of the head in one step of the kernel, because it lies within one page.
fn put<T: Serialize>(memory: &File, at: u64, value: &T) -> io::Result<()> {
    let bytes = fields::encode(value).map_err(Error::other)?;
    memory.write_all_at(&bytes, at)
}

fn get<T: DeserializeOwned + Default>(memory: &File, at: u64) -> T {
    let mut bytes = [0; 256];
    let length = memory.read_at(&mut bytes, at).unwrap_or(0);
    let found = fields::decode_front(bytes.get(..length).unwrap_or_default());
    found.map(|(value, _)| value).unwrap_or_default()
}

/// Stored lines of one run, for all lanes. Those for files are a record in the ring.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Lines {
    pub(crate) unit: Name,
    /// The name that echo shows.
    pub(crate) target: Name,
    /// The name in other logs; empty means the unit's name.
    #[serde(default)]
    pub(crate) tag: String,
    /// The facility for other logs.
    #[serde(default)]
    pub(crate) facility: u8,
    /// In stored form.
    #[serde(default, with = "bytes")]
    pub(crate) text: Vec<u8>,
    /// The record that keeps them until they are written.
    #[serde(skip)]
    pub(super) mark: Option<Mark>,
}

impl Lines {
    /// The number of lines.
    pub(crate) fn count(&self) -> u64 {
        count_lines(&self.text)
    }

    /// Other lines of the same origin.
    pub(super) fn with(&self, text: Vec<u8>) -> Lines {
        let (unit, target, tag) = (self.unit.clone(), self.target.clone(), self.tag.clone());
        Lines { unit, target, tag, facility: self.facility, text, mark: None }
    }
}

/// The number of lines in stored form.
pub(super) fn count_lines<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u64 {
    bytes.into_iter().fold(0, |lines, byte| lines + u64::from(*byte == b'\n'))
}

/// Marks a record as done when its lines are dropped.
#[derive(Debug)]
pub(super) struct Mark {
    memory: Arc<File>,
    record: u64,
    done: Arc<AtomicBool>,
    /// The progress of an earlier logger in this record.
    before: Option<Progress>,
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
    }
}

impl Mark {
    /// Returns how many bytes of the record an earlier logger has written. If it wrote them to the
    /// file with this inode, also returns the file's size before its last write, which may be
    /// incomplete.
    pub(super) fn resume_point(&self, inode: u64) -> (usize, Option<u64>) {
        let Some(before) = self.before else { return (0, None) };
        let written = usize::try_from(before.written).unwrap_or(usize::MAX);
        (written, Some(before.size).filter(|_| before.inode == inode && inode != 0))
    }

    /// Records that so many bytes are written, and that the next ones go to this file of this size.
    pub(super) fn record_progress(&self, written: usize, inode: u64, size: u64) {
        let written = u64::try_from(written).unwrap_or(u64::MAX);
        let progress = Progress { record: self.record, written, inode, size };
        // Writing fails only without memory; then a kill may duplicate a line.
        let _ = put(&self.memory, PROGRESS_AT, &progress);
    }
}

/// The logger's part.
#[derive(Debug)]
pub(super) struct Intake {
    memory: Arc<File>,
    into: OwnedFd,
    out: OwnedFd,
    /// A pipe for the copies.
    copy: (OwnedFd, OwnedFd),
    head: Head,
    waiting: VecDeque<(u64, Arc<AtomicBool>)>,
}

impl Intake {
    /// Continues the work of the previous logger. Also returns its unwritten lines.
    pub(super) fn new(stage: Stage) -> io::Result<(Intake, Vec<Lines>)> {
        let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        // Both pipes must hold the same number of buffers.
        let size = fcntl(&stage.into, FcntlArg::F_GETPIPE_SZ)?;
        fcntl(&write, FcntlArg::F_SETPIPE_SZ(size))?;
        let memory = Arc::new(File::from(stage.memory.into_inner()));
        let mut head: Head = get(&memory, 0);
        if head.bytes > 0 && device::unread(&stage.out)? > 0 {
            head.end = head.next;
        }
        (head.bytes, head.next) = (0, 0);
        let mut intake = Intake {
            memory,
            into: stage.into.into_inner(),
            out: stage.out.into_inner(),
            copy: (read, write),
            head,
            waiting: VecDeque::new(),
        };
        put(&intake.memory, 0, &intake.head)?;
        intake.clear();
        let left = intake.left();
        Ok((intake, left))
    }

    /// Empties the stage pipe.
    fn clear(&self) {
        let mut bytes = vec![0; limit::READ];
        while nix::unistd::read(&self.out, &mut bytes).is_ok_and(|count| count > 0) {}
    }

    /// The unfinished records.
    fn left(&mut self) -> Vec<Lines> {
        let progress: Progress = get(&self.memory, PROGRESS_AT);
        let (mut at, mut left) = (self.head.first, Vec::new());
        while at < self.head.end {
            let Some((mut lines, after)) = self.record(at) else { break };
            if at >= progress.record {
                let before = (at == progress.record).then_some(progress);
                lines.mark = Some(self.mark(at, after, before));
                left.push(lines);
            }
            at = after;
        }
        if left.is_empty() {
            self.head.first = self.head.end;
        }
        left
    }

    fn mark(&mut self, at: u64, after: u64, before: Option<Progress>) -> Mark {
        let done = Arc::new(AtomicBool::new(false));
        self.waiting.push_back((after, Arc::clone(&done)));
        Mark { memory: Arc::clone(&self.memory), record: at, done, before }
    }

    fn record(&self, at: u64) -> Option<(Lines, u64)> {
        let length = u64::from_le_bytes(*self.read(at, 8)?.first_chunk()?);
        if length > limit::STAGE {
            return None;
        }
        let bytes = self.read(at + 8, length)?;
        Some((fields::decode(&bytes).ok()?, at + 8 + length))
    }

    fn read(&self, at: u64, length: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        let read = self.ring(at, length, |place, range| {
            let part = bytes.get_mut(range).ok_or(ErrorKind::InvalidData)?;
            self.memory.read_exact_at(part, place)
        });
        read.ok().map(|()| bytes)
    }

    /// Calls `piece` for the one or two parts of a range of the ring.
    fn ring(
        &self,
        at: u64,
        length: u64,
        mut piece: impl FnMut(u64, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let size = |number: u64| usize::try_from(number).map_err(Error::other);
        let place = at % limit::STAGE;
        let first = length.min(limit::STAGE - place);
        piece(RECORDS_AT + place, 0..size(first)?)?;
        if first < length {
            piece(RECORDS_AT, size(first)?..size(length)?)?;
        }
        Ok(())
    }

    /// Copies the content of the pipe without removing it. Returns 0 if the pipe is empty and has
    /// no writer.
    pub(super) fn look(&self, pipe: &OwnedFd, bytes: &mut [u8]) -> nix::Result<usize> {
        let most = bytes.len().min(limit::READ);
        let seen = tee(pipe, &self.copy.1, most, SpliceFFlags::SPLICE_F_NONBLOCK)?;
        let mut length = 0;
        while length < seen {
            let rest = bytes.get_mut(length..).unwrap_or_default();
            match nix::unistd::read(&self.copy.0, rest) {
                Ok(0) | Err(nix::errno::Errno::EAGAIN) => break,
                Ok(count) => length += count,
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(length)
    }

    /// Removes the first bytes from the pipe, once the lines made from them are in memory. On an
    /// error, nothing was removed.
    pub(super) fn take(&mut self, pipe: &OwnedFd, bytes: usize, lines: &Lines) -> io::Result<Mark> {
        self.forget_done();
        let record = fields::encode(lines).map_err(Error::other)?;
        let length = record.len() as u64;
        let at = self.head.end;
        let after = at + 8 + length;
        if after - self.head.first > limit::STAGE {
            return Err(Error::from(ErrorKind::OutOfMemory));
        }
        let whole = [&length.to_le_bytes()[..], &record].concat();
        self.ring(at, whole.len() as u64, |place, range| {
            self.memory.write_all_at(whole.get(range).unwrap_or_default(), place)
        })?;
        (self.head.next, self.head.bytes) = (after, bytes as u64);
        put(&self.memory, 0, &self.head)?;
        let mut left = bytes;
        while left > 0 {
            match splice(pipe, None, &self.into, None, left, SpliceFFlags::SPLICE_F_NONBLOCK) {
                Ok(0) => break,
                Ok(count) => left = left.saturating_sub(count),
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) if left == bytes => {
                    (self.head.next, self.head.bytes) = (0, 0);
                    put(&self.memory, 0, &self.head)?;
                    return Err(error.into());
                }
                // The stage pipe is full, because the bytes came in too many buffers. They are in
                // memory already.
                Err(_) => self.clear(),
            }
        }
        (self.head.end, self.head.next, self.head.bytes) = (after, 0, 0);
        put(&self.memory, 0, &self.head)?;
        self.clear();
        Ok(self.mark(at, after, None))
    }

    /// Makes room by forgetting finished records.
    fn forget_done(&mut self) {
        while let Some((after, done)) = self.waiting.front() {
            if !done.load(Ordering::Acquire) {
                return;
            }
            self.head.first = *after;
            self.waiting.pop_front();
        }
    }
}
