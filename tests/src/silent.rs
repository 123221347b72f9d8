//! A file system that does not answer when its file is read, closed or (optionally) written, or
//! when the name `never` is looked up. It uses fuse(4), which any user may mount. Processes block
//! in the kernel until [`Silent`] is dropped.

use crate::deadline::until;
use crate::process::Process;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{File, OpenOptions};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// Request numbers of linux/fuse.h.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

/// The file system, with one file, `file`. Do not open it here: processes that other tests start
/// would inherit the descriptor and block too.
#[derive(Debug)]
pub struct Silent {
    seen: Seen,
    stop: Option<PipeWriter>,
    server: Option<JoinHandle<()>>,
}

/// The requests that are not answered, in addition to reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unanswered {
    Closes,
    Writes,
}

/// Counters of the requests for which a test can wait.
#[derive(Clone, Debug, Default)]
struct Seen {
    closes: Arc<AtomicUsize>,
    looks: Arc<AtomicUsize>,
    reads: Arc<AtomicUsize>,
    writes: Arc<AtomicUsize>,
}

impl Silent {
    /// Mounts it where this process sees `dir`. Returns `None` if the kernel or the permissions do
    /// not allow it.
    pub fn new(whose: Process, dir: &Path) -> Option<Silent> {
        Silent::mounted(whose, dir, Unanswered::Closes)
    }

    /// Like [`Silent::new`], with unanswered writes instead of closes.
    pub fn with_unanswered_writes(whose: Process, dir: &Path) -> Option<Silent> {
        Silent::mounted(whose, dir, Unanswered::Writes)
    }

    fn mounted(whose: Process, dir: &Path, unanswered: Unanswered) -> Option<Silent> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").ok()?;
        let (stopped, stop) = std::io::pipe().ok()?;
        let seen = Seen::default();
        let (at, noted) = (dir.to_owned(), seen.clone());
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let there = File::open(format!("/proc/{}/ns/mnt", whose.0)).ok()?;
        // setns(2) needs a thread of its own.
        let server = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_FS).ok()?;
            setns(&there, CloneFlags::CLONE_NEWNS).ok()?;
            let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
            mount(Some("silent"), &at, Some("fuse"), flags, Some(options.as_str())).ok()?;
            Some(std::thread::spawn(move || serve(device, &stopped, &noted, unanswered)))
        });
        let server = server.join().ok()??;
        Some(Silent { seen, stop: Some(stop), server: Some(server) })
    }

    /// Waits until this many closes are blocked.
    pub fn until_closing(&self, count: usize) {
        until("a process closes the file", || {
            (self.seen.closes.load(Ordering::SeqCst) >= count).then_some(())
        });
    }

    /// Waits until this many reads were requested.
    pub fn until_reading(&self, count: usize) {
        until("a process reads the file", || {
            (self.seen.reads.load(Ordering::SeqCst) >= count).then_some(())
        });
    }
}

impl Silent {
    /// Waits until the unanswered name was looked up.
    pub fn until_looking(&self) {
        let looks = || self.seen.looks.load(Ordering::SeqCst);
        until("a process looks up the name", || (looks() > 0).then_some(()));
    }

    /// Waits until a write was requested.
    pub fn until_writing(&self) {
        let writes = || self.seen.writes.load(Ordering::SeqCst);
        until("a process writes the file", || (writes() > 0).then_some(()));
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // When the server ends, the kernel fails the requests.
        drop(self.stop.take());
        let _ = self.server.take().map(JoinHandle::join);
    }
}

fn serve(mut device: File, stopped: &PipeReader, seen: &Seen, unanswered: Unanswered) {
    let mut request = vec![0; 256 * 1024];
    loop {
        let mut fds = [
            PollFd::new(device.as_fd(), PollFlags::POLLIN),
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
        ];
        if poll(&mut fds, PollTimeout::NONE).is_err() {
            continue;
        }
        if fds[1].revents().is_some_and(|found| !found.is_empty()) {
            return;
        }
        let Ok(length) = device.read(&mut request) else { return };
        let word = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().expect("4"));
        let (opcode, node) = (word(4), word(16));
        let unique: [u8; 8] = request[8..16].try_into().expect("8 bytes");
        assert!(length >= 40, "a request has a head");
        let answer = match opcode {
            FLUSH if unanswered == Unanswered::Closes => {
                seen.closes.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            READ => {
                seen.reads.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            FLUSH => Ok(Vec::new()),
            WRITE => {
                seen.writes.fetch_add(1, Ordering::SeqCst);
                if unanswered == Unanswered::Writes {
                    continue;
                }
                // Accepts all data and stores nothing.
                Ok(numbers(&[word(56), 0]))
            }
            FORGET | BATCH_FORGET | INTERRUPT => continue,
            INIT => Ok(numbers(&[7, 31, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
            // The requesting process blocks and cannot be killed.
            LOOKUP if request[40..length].starts_with(b"never\0") => {
                seen.looks.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            LOOKUP => {
                // Node, generation, validity times.
                let mut entry = numbers(&[2, 0, 0, 0, 60, 0, 60, 0, 0, 0]);
                entry.extend(attributes(2));
                Ok(entry)
            }
            GETATTR => Ok([numbers(&[60, 0, 0, 0]), attributes(node)].concat()),
            // Each read is a request, whatever the size (FOPEN_DIRECT_IO).
            OPEN => Ok(numbers(&[1, 0, 1, 0])),
            RELEASE => Ok(Vec::new()),
            _ => Err(nix::errno::Errno::ENOSYS as i32),
        };
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(error) => (-error, Vec::new()),
        };
        let length = u32::try_from(16 + body.len()).expect("short");
        let head = [length.to_le_bytes().as_slice(), &error.to_le_bytes(), &unique].concat();
        let _ = device.write_all(&[head, body].concat());
    }
}

fn numbers(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The attributes of the root directory or of the file.
fn attributes(node: u32) -> Vec<u8> {
    let mode = if node == 1 { 0o40755 } else { 0o100_644 };
    let mut all = [0; 22];
    (all[0], all[15], all[16], all[20]) = (node, mode, 1, 4096);
    numbers(&all)
}
