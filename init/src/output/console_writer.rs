//! A child that writes init's own lines to stderr where that is a file on a disk, a network or FUSE: write(2)
//! blocks there while the file system does (a dead disk, fsfreeze(8) of a snapshot). Init puts its lines into a
//! pipe and never waits; a line without room there is lost, and counted. A file in memory is written at once, and a
//! console, a pipe or a socket needs none of this ([`crate::output::console_log`]).
//!
//! The child starts with init, again when it was killed, and anew with each image of init. It ends with the pipe.

use crate::base::clock;
use crate::base::limit;
use crate::output::oom_score;
use crate::sys::{Pid, process, signal, wait};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{getpid, pipe2, read, write};
use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

/// In no line: the one who reads it ends, whoever has the other end still.
const END: u8 = 0;
/// What asks it to end while there is still something to be said: it ends with init.
const NOT_HEEDED: [i32; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE, libc::SIGXFSZ];

/// The process that speaks. Its children may wait, and write themselves.
static SPEAKER: OnceLock<Pid> = OnceLock::new();

thread_local! {
    static PRESENT: RefCell<Option<Scribe>> = const { RefCell::new(None) };
}

struct Scribe {
    pid: Pid,
    way: OwnedFd,
}

/// From now on this process leaves it to a child.
pub(crate) fn is_needed() {
    SPEAKER.get_or_init(getpid);
}

/// Before the first turn: it is there for as long as init is.
pub(crate) fn begin() {
    if SPEAKER.get().is_some() {
        // Else it is tried again with the first line.
        let _ = say(&[]);
    }
}

/// Whole lines, at most PIPE_BUF bytes: all or none of them are taken.
pub(crate) fn say(lines: &[u8]) -> nix::Result<usize> {
    if SPEAKER.get() != Some(&getpid()) {
        return write(std::io::stderr().as_fd(), lines);
    }
    let say = |present: &RefCell<Option<Scribe>>| {
        let mut present = present.try_borrow_mut().map_err(|_| Errno::EAGAIN)?;
        let said = say_by(&mut present, lines);
        // Killed, it took with it what it had not written.
        if said == Err(Errno::EPIPE) { say_by(&mut present, lines) } else { said }
    };
    PRESENT.try_with(say).unwrap_or(Err(Errno::EAGAIN))
}

fn say_by(present: &mut Option<Scribe>, lines: &[u8]) -> nix::Result<usize> {
    let scribe = match present.take() {
        Some(scribe) => scribe,
        None => one()?,
    };
    // None are said to have it begun.
    let said = if lines.is_empty() { Ok(0) } else { write(&scribe.way, lines) };
    if said != Err(Errno::EPIPE) {
        *present = Some(scribe);
    }
    said
}

fn one() -> nix::Result<Scribe> {
    let (theirs, way) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&way, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let pid = process::fork(&[theirs.as_fd()], || write_on(&theirs));
    let pid = pid.map_err(|why| Errno::from_raw(why.raw_os_error().unwrap_or(libc::EAGAIN)))?;
    Ok(Scribe { pid, way })
}

/// The whole life of it.
fn write_on(lines: &OwnedFd) -> u8 {
    // Only a name, and for `ps`.
    let _ = process::set_name(c"groundstate-say");
    oom_score::sink();
    for number in NOT_HEEDED {
        let _ = signal::ignore(u8::try_from(number).unwrap_or_default());
    }
    let mut buffer = [0; libc::PIPE_BUF];
    loop {
        let length = match read(lines, &mut buffer) {
            Ok(0) => return 0,
            Ok(length) => length,
            Err(Errno::EINTR) => continue,
            Err(_) => return 1,
        };
        let bytes = buffer.get(..length).unwrap_or_default();
        let mut rest = bytes.split(|byte| *byte == END).next().unwrap_or_default();
        let is_over = rest.len() < bytes.len();
        // What the file refuses is lost: there is nobody to tell.
        while !rest.is_empty() {
            match write(std::io::stderr().as_fd(), rest) {
                Ok(0) => break,
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
        if is_over {
            return 0;
        }
    }
}

/// Before another image goes on, which starts its own. A closer ([`crate::fd::passed_fd`]) that cannot be killed has the
/// pipe too, so the end of the pipe may never come: the last byte says it.
pub(crate) fn dismiss() -> Option<Pid> {
    let Scribe { pid, way } = taken()?;
    // Without room for it the child is waiting for the file.
    let _ = write(&way, &[END]);
    Some(pid)
}

/// Init ends: the last words have a moment to be written.
pub(crate) fn finish() {
    let Some(pid) = dismiss() else { return };
    let Ok(pidfd) = signal::pidfd(pid) else { return };
    let until = clock::now().after(limit::LAST_WORDS);
    while !signal::has_ended(pidfd.as_fd()) {
        let left = PollTimeout::try_from(until.since(clock::now())).unwrap_or(PollTimeout::ZERO);
        let ended = poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], left);
        // A signal came; init still has time.
        if ended != Err(Errno::EINTR) || clock::now() >= until {
            break;
        }
    }
    let _ = wait::reap(pid);
}

/// None in a child: its copy is of no use to it.
fn taken() -> Option<Scribe> {
    if SPEAKER.get() != Some(&getpid()) {
        return None;
    }
    PRESENT.try_with(|present| present.try_borrow_mut().ok()?.take()).ok().flatten()
}
