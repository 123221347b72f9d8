//! Ways out other than files: init's stdout (echo), the console, the kernel's ring, syslog.
//! Each is the end of a [lane](super::sink_thread), so it may wait; what it can not deliver is gone,
//! because these are copies or places that keep nothing themselves.

use super::limit;
use super::sink_thread::Lines;
use groundstate_units::control::log_line::{LogLine, printable};
use groundstate_units::unit::settings::Echo;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;

/// One line a line to a terminal or whatever init's stdout is.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// None: it can not be had.
    fd: Option<OwnedFd>,
    raw: bool,
    shown: Vec<u8>,
}

impl Terminal {
    /// init's stdout. The descriptor is shared with others, so its flags are left alone.
    pub(crate) fn stdout(echo: Echo) -> Terminal {
        let fd = std::io::stdout().as_fd().try_clone_to_owned().ok();
        Terminal { fd, raw: echo == Echo::Raw, shown: Vec::new() }
    }

    /// /dev/console.
    pub(crate) fn console() -> Terminal {
        let flags = libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = File::options().write(true).custom_flags(flags).open("/dev/console");
        Terminal { fd: file.ok().map(OwnedFd::from), raw: false, shown: Vec::new() }
    }

    /// Shows the lines, however long that takes.
    pub(crate) fn take(&mut self, lines: &Lines) {
        self.shown.clear();
        for stored in lines.text.split_inclusive(|byte| *byte == b'\n') {
            let Some(line) = LogLine::parse(stored) else { continue };
            if self.raw {
                self.shown.extend_from_slice(line.text);
                if !line.continued {
                    self.shown.push(b'\n');
                }
            } else {
                self.shown.extend_from_slice(lines.target.as_str().as_bytes());
                self.shown.extend_from_slice(b" | ");
                self.shown.extend_from_slice(printable(line.text).as_bytes());
                self.shown.push(b'\n');
            }
        }
        let Some(fd) = &self.fd else { return };
        if write_all(fd.as_fd(), &self.shown).is_err() {
            // The reader of a pipe is gone for good; a terminal that hung up too.
            self.fd = None;
        }
        self.shown.shrink_to(limit::READ);
    }
}

/// Writes everything, waiting where the descriptor says "not now".
fn write_all(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match nix::unistd::write(fd, rest) {
            Ok(done) => rest = rest.get(done..).unwrap_or_default(),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                poll(&mut [PollFd::new(fd, PollFlags::POLLOUT)], PollTimeout::NONE)?;
            }
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// One record a line to /dev/kmsg or /dev/log.
#[derive(Debug)]
pub(crate) enum Records {
    /// The kernel's ring. One write a record; the kernel never waits.
    Kernel(Option<File>),
    /// The socket of a syslog daemon; opened anew when it went away.
    Syslog(Option<UnixDatagram>),
}

impl Records {
    /// /dev/kmsg. None within: there is none, or we may not.
    pub(crate) fn kernel() -> Records {
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
        Records::Kernel(File::options().write(true).custom_flags(flags).open("/dev/kmsg").ok())
    }

    /// /dev/log.
    pub(crate) fn syslog() -> Records {
        Records::Syslog(None)
    }

    /// Sends each line as a record of its own.
    pub(crate) fn take(&mut self, lines: &Lines) {
        for stored in lines.text.split_inclusive(|byte| *byte == b'\n') {
            let Some(line) = LogLine::parse(stored) else { continue };
            let name = if lines.tag.is_empty() { lines.unit.as_str() } else { &lines.tag };
            // Facility and level of syslog(3). The text of a line decides them only where the unit's
            // keys let it.
            let priority = lines.facility.saturating_mul(8) | line.priority();
            let who = match line.run {
                Some(run) => format!("<{priority}>{name}[{}]: ", run.0),
                None => format!("<{priority}>groundstate: {name}: "),
            };
            let text = printable(line.text);
            match self {
                Records::Kernel(Some(file)) => {
                    let record = cut(&who, &text, limit::KERNEL_RECORD);
                    // Refused by the kernel's own rate limit: it says so in its ring.
                    let _ = nix::unistd::write(&*file, record.as_bytes());
                }
                Records::Kernel(None) => {}
                Records::Syslog(socket) => {
                    let record = cut(&who, &text, limit::SYSLOG_RECORD);
                    send(socket, record.as_bytes());
                }
            }
        }
    }
}

fn send(socket: &mut Option<UnixDatagram>, record: &[u8]) {
    for _ in 0..2 {
        if socket.is_none() {
            let connected = UnixDatagram::unbound().and_then(|fresh| {
                fresh.set_nonblocking(true)?;
                fresh.connect("/dev/log")?;
                Ok(fresh)
            });
            *socket = connected.ok();
        }
        let Some(open) = socket.as_ref() else { return };
        match open.send(record) {
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => *socket = None,
            _ => return,
        }
    }
}

/// Both together, cut at a character so that it is at most that many bytes.
fn cut(who: &str, text: &str, most: usize) -> String {
    let mut end = most.saturating_sub(who.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{who}{}", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::text::name::Name;
    use std::io::Read;

    fn lines(text: &[u8]) -> Lines {
        let name = |text| Name::new(text).unwrap();
        let (unit, target) = (name("nginx"), name("web"));
        let (tag, facility) = (String::new(), groundstate_units::text::log_level::DAEMON);
        Lines { unit, target, tag, facility, text: text.to_vec(), mark: None }
    }

    fn shown(raw: bool, text: &[u8]) -> String {
        let (mut read, write) = std::io::pipe().unwrap();
        let mut terminal = Terminal { fd: Some(write.into()), raw, shown: Vec::new() };
        terminal.take(&lines(text));
        drop(terminal);
        let mut got = String::new();
        read.read_to_string(&mut got).unwrap();
        got
    }

    #[test]
    fn echo_names_the_target_and_shows_nothing_a_terminal_acts_on() {
        let text = b"2026-11-21T05:25:46.123Z 17 hello\n2026-11-21T05:25:46.123Z 17 \x1b[2Jx\rdb | forged\n";
        assert_eq!(shown(false, text), "web | hello\nweb | \\x1b[2Jx\\x0ddb | forged\n");
    }

    #[test]
    fn raw_echo_is_what_the_service_wrote() {
        let text = b"2026-11-21T05:25:46.123Z 17+ \x1b[1mlong \n2026-11-21T05:25:46.123Z 17 line\n";
        assert_eq!(shown(true, text), "\u{1b}[1mlong line\n");
    }

    #[test]
    fn a_reader_that_is_gone_is_not_written_to_again() {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let mut terminal = Terminal { fd: Some(write.into()), raw: true, shown: Vec::new() };
        terminal.take(&lines(b"2026-11-21T05:25:46.123Z 17 x\n"));
        assert!(terminal.fd.is_none());
    }

    #[test]
    fn a_record_is_cut_at_a_character() {
        assert_eq!(cut("<30>x: ", "ääää", 12), "<30>x: ää");
        assert_eq!(cut("<30>x: ", "ä", 3), "<30>x: ");
    }
}
