//! Log lines of init itself. Writing never blocks, and lines are limited in number.
//!
//! They go to the console of a machine (to the kernel log without a console), elsewhere to stderr.
//! Output of units goes through the logger, never through this module.

use crate::base::Level;
use crate::base::Mode;
use crate::base::mount_table::FsKind;
use crate::base::{clock, limit, mount_table};
use crate::output::oom_score;
use crate::sys::no_linger::close_without_linger;
use crate::sys::{Pid, process, signal};
use groundstate_units::text::encoding::is_unprintable;
use groundstate_units::text::time::Time;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal::{self, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGXFSZ};
use nix::sys::socket::{MsgFlags, getsockopt, send, sockopt};
use nix::sys::stat::{Mode as FileMode, SFlag, fstat};
use nix::unistd::{getpid, isatty, write};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::{fmt, io};

/// The destination of lines.
enum Outlet {
    /// Opened by init itself, with O_NONBLOCK, or inherited stderr if that is a file in memory:
    /// never blocks.
    Own(OwnedFd),
    /// /dev/kmsg, which needs a priority.
    Kernel(OwnedFd),
    /// Inherited stderr, a file on a disk, on a remote file system, or of unknown kind: may block
    /// for ever.
    Writer,
    /// Inherited stderr, a socket.
    Socket,
    /// Inherited stderr that could not be reopened: written to when poll(2) says it is writable.
    Shared,
    /// No destination.
    None,
}

/// How a socket is written to: without waiting, and without SIGPIPE.
const NOW: MsgFlags = MsgFlags::MSG_DONTWAIT.union(MsgFlags::MSG_NOSIGNAL);

/// Writes init's log lines.
pub(crate) struct ConsoleLog {
    outlet: Outlet,
    least: Level,
    allowance: u32,
    counted_from: Time,
    dropped: u64,
    /// Number of all lines that were not written, for any reason.
    pub(crate) not_said: u64,
    /// Lines that are not written yet, at most PIPE_BUF bytes.
    unsaid: Vec<u8>,
    is_terminal: bool,
}

impl ConsoleLog {
    /// The log for this mode, with lines of at least this level.
    pub(crate) fn of(mode: Mode, least: Option<Level>) -> ConsoleLog {
        let mut voice =
            if mode == Mode::Machine { ConsoleLog::console() } else { ConsoleLog::stderr() };
        voice.least = least.unwrap_or(voice.least);
        voice
    }

    /// Logs to stderr.
    pub(crate) fn stderr() -> ConsoleLog {
        ConsoleLog::with(stderr_outlet())
    }

    /// Logs to the console of a machine.
    pub(crate) fn console() -> ConsoleLog {
        let how = OFlag::O_WRONLY | OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        ConsoleLog::with(match open("/dev/console", how, FileMode::empty()) {
            Ok(fd) => Outlet::Own(fd),
            Err(_) => match open("/dev/kmsg", how, FileMode::empty()) {
                Ok(fd) => Outlet::Kernel(fd),
                Err(_) => stderr_outlet(),
            },
        })
    }

    fn with(outlet: Outlet) -> ConsoleLog {
        ConsoleLog {
            is_terminal: matches!(&outlet, Outlet::Own(fd) if isatty(fd).unwrap_or(false)),
            outlet,
            unsaid: Vec::new(),
            least: Level::Info,
            allowance: limit::LINES_AT_ONCE,
            counted_from: Time::ZERO,
            dropped: 0,
            not_said: 0,
        }
    }

    /// Logs a line, given without its newline. Control characters are shown as `?`.
    pub(crate) fn say(&mut self, now: Time, level: Level, text: fmt::Arguments<'_>) {
        if level < self.least {
            return;
        }
        if !self.allowed(now) {
            self.dropped = self.dropped.saturating_add(1);
            self.not_said = self.not_said.saturating_add(1);
            return;
        }
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            self.put(Level::Warning, &format!("{dropped} lines dropped: too many at once"));
        }
        let text: String =
            text.to_string().chars().map(|c| if is_unprintable(c) { '?' } else { c }).collect();
        self.put(level, &text);
    }

    fn allowed(&mut self, now: Time) -> bool {
        let whole = now.since(self.counted_from).as_secs();
        if whole > 0 {
            let more =
                u32::try_from(whole).unwrap_or(u32::MAX).saturating_mul(limit::LINES_A_SECOND);
            self.allowance = self.allowance.saturating_add(more).min(limit::LINES_AT_ONCE);
            self.counted_from = now;
        }
        let yes = self.allowance > 0;
        self.allowance = self.allowance.saturating_sub(1);
        yes
    }

    fn put(&mut self, level: Level, text: &str) {
        // A line longer than PIPE_BUF could block in the middle on an inherited pipe.
        let mut line = format!("groundstate: {text}").into_bytes();
        line.truncate(libc::PIPE_BUF - 8);
        line.extend_from_slice(if self.is_terminal { b"\r\n" } else { b"\n" });
        if let Outlet::Kernel(fd) = &self.outlet {
            let mut with = format!("<{}>", level.priority()).into_bytes();
            with.append(&mut line);
            // A line that cannot be written is lost and counted.
            self.not_said = self.not_said.saturating_add(u64::from(write(fd, &with).is_err()));
            return;
        }
        if self.unsaid.len() + line.len() > libc::PIPE_BUF {
            self.flush();
        }
        self.unsaid.append(&mut line);
        if matches!(self.outlet, Outlet::Socket) {
            // A record of a datagram socket is one line; a full socket loses one line.
            self.flush();
        }
    }

    /// Writes the pending lines. Called before each wait, so that a burst of lines is one write.
    pub(crate) fn flush(&mut self) {
        if self.unsaid.is_empty() {
            return;
        }
        let stderr = std::io::stderr();
        let written = match &self.outlet {
            Outlet::Own(fd) => write(fd, &self.unsaid),
            Outlet::Writer => say(&self.unsaid),
            Outlet::Socket => send(stderr.as_raw_fd(), &self.unsaid, NOW),
            Outlet::Shared => write_now(stderr.as_fd(), &self.unsaid),
            Outlet::Kernel(_) | Outlet::None => Ok(self.unsaid.len()),
        };
        let rest = self.unsaid.get(written.unwrap_or(0)..).unwrap_or_default();
        let lines = rest.iter().fold(0, |lines: u64, byte| lines + u64::from(*byte == b'\n'));
        self.not_said = self.not_said.saturating_add(lines);
        self.unsaid.clear();
    }
}

impl Drop for ConsoleLog {
    fn drop(&mut self) {
        self.flush();
    }
}

fn stderr_outlet() -> Outlet {
    let stderr = std::io::stderr();
    if fcntl(&stderr, FcntlArg::F_GETFD).is_err() {
        return Outlet::None;
    }
    if getsockopt(&stderr, sockopt::SockType).is_ok() {
        return Outlet::Socket;
    }
    let kind = mount_table::fs_kind_of(stderr.as_fd());
    if !matches!(kind, Some(FsKind::Memory | FsKind::Here)) {
        // Reopening it, or checking its type, may block too.
        return match fcntl(&stderr, FcntlArg::F_GETPIPE_SZ) {
            Ok(_) => Outlet::Shared,
            Err(_) => through_writer(),
        };
    }
    let Ok(status) = fstat(stderr.as_fd()) else { return Outlet::None };
    if SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG {
        if kind != Some(FsKind::Memory) {
            return through_writer();
        }
        return stderr.as_fd().try_clone_to_owned().map_or(Outlet::None, Outlet::Own);
    }
    let how = OFlag::O_WRONLY | OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    match open("/proc/self/fd/2", how, FileMode::empty()) {
        Ok(fd) => Outlet::Own(fd),
        Err(_) => Outlet::Shared,
    }
}

/// Makes this process log through a writer from now on.
fn through_writer() -> Outlet {
    LOGGING_PROCESS.get_or_init(getpid);
    Outlet::Writer
}

/// Writes as much as fits now to a blocking descriptor that other processes share: its buffer may
/// have room for less, or for nothing.
fn write_now(fd: BorrowedFd<'_>, bytes: &[u8]) -> nix::Result<usize> {
    let mut asked = [PollFd::new(fd, PollFlags::POLLOUT)];
    match poll(&mut asked, PollTimeout::ZERO) {
        Ok(1) => close_without_linger(|| write(fd, bytes)),
        _ => Ok(0),
    }
}

// If stderr is a file on a disk, a network or FUSE, write(2) blocks while the file system does (a
// dead disk, fsfreeze(8) of a snapshot). A child, the writer, then writes init's lines to stderr.
// Init sends them through a socket and never waits: a line that does not fit is lost and counted.
// Files in memory, consoles, pipes and sockets need no writer.
//
// Init starts the writer at its own start, and again if it was killed. Each image of init starts
// its own. The writer ends when init shuts its end of the socket down. Closing is not enough: a
// closer ([`crate::fd`]) that cannot be killed may still have that end open.

/// Signals that the writer ignores, so that it ends with init and not before the last line.
const IGNORED_BY_THE_WRITER: [Signal; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXFSZ];

/// The process that logs through the writer. Its children may block, and write to stderr directly.
static LOGGING_PROCESS: OnceLock<Pid> = OnceLock::new();

thread_local! {
    /// The socket to the writer. `None` if no writer runs.
    static PRESENT: RefCell<Option<UnixStream>> = const { RefCell::new(None) };
}

/// Starts the writer, if this process needs one. Called before the first turn of the event loop.
pub(crate) fn begin() {
    if LOGGING_PROCESS.get().is_some() {
        // If the start fails, the first line tries it again.
        let _ = say(&[]);
    }
}

/// Writes whole lines, at most PIPE_BUF bytes. Either all of them are taken or none.
pub(crate) fn say(lines: &[u8]) -> nix::Result<usize> {
    if LOGGING_PROCESS.get() != Some(&getpid()) {
        return write(std::io::stderr().as_fd(), lines);
    }
    let say = |present: &RefCell<Option<UnixStream>>| {
        let mut present = present.try_borrow_mut().map_err(|_| Errno::EAGAIN)?;
        // The writer was killed: the lines that it had not written are lost.
        match say_by(&mut present, lines) {
            Err(Errno::EPIPE | Errno::ECONNRESET) => say_by(&mut present, lines),
            said => said,
        }
    };
    PRESENT.try_with(say).unwrap_or(Err(Errno::EAGAIN))
}

fn say_by(present: &mut Option<UnixStream>, lines: &[u8]) -> nix::Result<usize> {
    let socket = match present.take() {
        Some(socket) => socket,
        None => start_writer().map_err(|why| Errno::try_from(why).unwrap_or(Errno::EAGAIN))?,
    };
    let said = if lines.is_empty() { Ok(0) } else { send(socket.as_raw_fd(), lines, NOW) };
    if !matches!(said, Err(Errno::EPIPE | Errno::ECONNRESET)) {
        *present = Some(socket);
    }
    said
}

fn start_writer() -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    process::fork(&[theirs.as_fd()], || write_on(&theirs))?;
    Ok(ours)
}

/// Runs the writer: a child that copies init's lines to stderr until init closes the socket.
/// Returns its exit code.
fn write_on(mut lines: &UnixStream) -> u8 {
    // The name is only shown by ps(1), so a failure is ignored.
    let _ = process::set_name(c"groundstate-say");
    oom_score::protect_from_oom();
    IGNORED_BY_THE_WRITER.into_iter().for_each(|signal| drop(signal::ignore(signal)));
    let mut buffer = [0; libc::PIPE_BUF];
    loop {
        match lines.read(&mut buffer) {
            Ok(0) => return 0,
            // A line that cannot be written is lost: stderr was the only place to report it.
            Ok(length) => drop(io::stderr().write_all(buffer.get(..length).unwrap_or_default())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return 1,
        }
    }
}

/// Ends the writer before another image of init takes over, because that image starts its own.
/// Returns the socket to the writer, or `None` without a writer or in a child of init.
pub(crate) fn dismiss() -> Option<UnixStream> {
    if LOGGING_PROCESS.get() != Some(&getpid()) {
        return None;
    }
    let socket = PRESENT.try_with(|present| present.try_borrow_mut().ok()?.take()).ok()??;
    let _ = socket.shutdown(Shutdown::Write);
    Some(socket)
}

/// Ends the writer before init ends, and gives it a moment to write the last lines.
pub(crate) fn finish() {
    let Some(socket) = dismiss() else { return };
    let until = clock::now().after(limit::LAST_WORDS);
    loop {
        let left = PollTimeout::try_from(until.since(clock::now())).unwrap_or(PollTimeout::ZERO);
        // poll(2) reports the hangup at the end of the writer without being asked for it.
        let ended = poll(&mut [PollFd::new(socket.as_fd(), PollFlags::empty())], left);
        // A signal interrupted poll(2).
        if ended != Err(Errno::EINTR) || clock::now() >= until {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::no_linger::tests::assert_ends;

    #[test]
    fn full_pipe_blocks_no_writer() {
        assert_ends(|| {
            let (_read, write) = std::io::pipe().unwrap();
            let _ = write_now(write.as_fd(), &[b'x'; 1 << 20]);
        });
    }
}
