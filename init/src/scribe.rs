//! Who writes what init says to a file: a child, for write(2) of a file waits for its file system, and
//! that for a disk, a network or anybody (FUSE). Init puts its lines into a pipe that never makes it
//! wait; what finds no room there is lost, and counted. In memory alone a file is written at once.
//!
//! It is begun with init, again when it was killed, and anew by each image of init, for it
//! ends with the pipe. One that waits for ever is among those of [`crate::foreign`] from the next image on,
//! and there are only so many of them.

use crate::clock;
use crate::foreign;
use crate::limit;
use crate::sys::{Pid, process, signal, wait};
use crate::weight;
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
    if foreign::scribes().len() >= limit::SCRIBES_LEFT {
        return Err(Errno::EAGAIN);
    }
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
    weight::sink();
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

/// Whoever writes now, for who goes on as another image.
pub(crate) fn pid() -> Option<Pid> {
    let pid = |present: &RefCell<Option<Scribe>>| Some(present.try_borrow().ok()?.as_ref()?.pid);
    PRESENT.try_with(pid).ok().flatten()
}

/// Another image is about to go on, and begins another. Who waits for ever to close something for this one
/// ([`foreign`]) has the pipe too: its end would never come.
pub(crate) fn dismiss() {
    let Some(Scribe { pid, way }) = taken() else { return };
    // With no room for that it is waiting.
    let _ = write(&way, &[END]);
    // Where this image goes on after all, it is one of those there may be, until it has ended.
    if wait::is_made(pid) {
        foreign::writes_still(pid);
    }
}

/// Nothing is said any more: the last words have a moment to be written, those of images before this one too, as
/// init ends.
pub(crate) fn finish() {
    dismiss();
    let all = foreign::scribes().into_iter().filter(|pid| wait::is_child(*pid));
    let mut at_work: Vec<(Pid, OwnedFd)> =
        all.filter_map(|pid| Some((pid, signal::pidfd(pid).ok()?))).collect();
    let until = clock::now().after(limit::LAST_WORDS);
    loop {
        at_work.retain(|(pid, pidfd)| {
            let has_ended = signal::has_ended(pidfd.as_fd());
            if has_ended {
                let _ = wait::reap(*pid);
                foreign::closer_ended(*pid);
            }
            !has_ended
        });
        let left = until.since(clock::now());
        // Those that take longer are ended with whatever else is left.
        if at_work.is_empty() || left.is_zero() {
            return;
        }
        let all = at_work.iter();
        let mut asked: Vec<_> =
            all.map(|(_, pidfd)| PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)).collect();
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        if poll(&mut asked, left).is_err_and(|why| why != Errno::EINTR) {
            return;
        }
    }
}

/// None in a child: its copy is of no use to it.
fn taken() -> Option<Scribe> {
    if SPEAKER.get() != Some(&getpid()) {
        return None;
    }
    PRESENT.try_with(|present| present.try_borrow_mut().ok()?.take()).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::tests::is_alone;

    #[test]
    fn who_is_done_without_and_does_not_end_is_one_of_those_there_may_be() {
        if !is_alone(
            "scribe::tests::who_is_done_without_and_does_not_end_is_one_of_those_there_may_be",
        ) {
            return;
        }
        is_needed();
        for count in 1..=limit::SCRIBES_LEFT {
            begin();
            signal::kill(pid().unwrap(), 19).unwrap();
            if count % 2 == 0 {
                dismiss()
            } else {
                finish()
            }
            assert_eq!(foreign::scribes().len(), count);
        }
        assert_eq!(say(b""), Err(Errno::EAGAIN));
        for pid in foreign::scribes() {
            signal::kill(pid, 9).unwrap();
            wait::await_end(pid).unwrap();
            assert!(foreign::closer_ended(pid));
        }
        assert_eq!(say(b""), Ok(0));
        // What has ended is none of them.
        let ended = pid().unwrap();
        signal::kill(ended, 9).unwrap();
        wait::await_end(ended).unwrap();
        dismiss();
        assert_eq!(foreign::scribes(), []);
    }
}
