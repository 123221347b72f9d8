//! Messages of syslog(3), for a machine without a syslog daemon. Each becomes a line on stdout,
//! which init's logger keeps: `<LEVEL>UNIT TAG[PID]: TEXT`.
//!
//! The kernel names the sender, and the unit is that of the sender. The sender chooses the tag and
//! the text.

use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::PassCred;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg, setsockopt};
use std::fs::{self, Permissions};
use std::io::{self, IoSliceMut, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

/// The unit whose log has the messages.
pub(crate) const LOG_UNIT: &str = "dev-log";
/// The most bytes of a message that are kept. The line of a longer message ends with ` (cut off)`.
const MESSAGE: usize = 8 * 1024;
/// The most bytes of `TAG[PID]`. RFC 3164 allows 32 for the tag; names of programs may be longer.
const TAG: usize = 64;
/// The unit of a sender that has exited, belongs to a login, or is in no cgroup of a unit.
const NO_UNIT: &str = "-";
/// The most messages of all users except root in a [`SPAN`]. Without a limit, one user could push
/// the messages of all others out of the log.
pub(super) const MESSAGES: u32 = 1000;
pub(super) const SPAN: Duration = Duration::from_secs(10);
/// /proc/PID/loginuid of a process that no login has started: proc_pid_loginuid(5).
const NO_LOGIN: &str = "4294967295";

/// Makes the socket of syslog(3), to which every user may write.
///
/// # Errors
///
/// The socket cannot be made at this path.
pub(crate) fn listen(path: &Path) -> io::Result<UnixDatagram> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = UnixDatagram::bind(path)?;
    setsockopt(&socket, PassCred, &true)?;
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(socket)
}

/// Prints the messages that arrive at the socket of [`listen`]. Returns only with an error.
///
/// # Errors
///
/// The socket cannot be read, or the log cannot be written.
pub(crate) fn print_messages(socket: &UnixDatagram, log: &mut impl Write) -> io::Result<()> {
    let mut budget = Budget::new("users", MESSAGES);
    let mut bytes = vec![0; MESSAGE];
    loop {
        print_message(socket, &mut bytes, &mut budget, log)?;
        wait(socket.as_fd(), &mut budget, log)?;
    }
}

/// Waits until the source is readable. At the end of a storm, writes the number of dropped
/// messages.
pub(super) fn wait(
    source: BorrowedFd<'_>,
    budget: &mut Budget,
    log: &mut impl Write,
) -> io::Result<()> {
    let rest = budget.rest(Instant::now()).map(|rest| rest.as_millis().saturating_add(1));
    let timeout = rest
        .map_or(PollTimeout::NONE, |rest| PollTimeout::try_from(rest).unwrap_or(PollTimeout::MAX));
    match poll(&mut [PollFd::new(source, PollFlags::POLLIN)], timeout) {
        Ok(_) | Err(Errno::EINTR) => budget.renew(Instant::now(), log),
        Err(error) => Err(error.into()),
    }
}

/// Prints the next message of the socket, if there is one.
fn print_message(
    socket: &UnixDatagram,
    bytes: &mut [u8],
    budget: &mut Budget,
    log: &mut impl Write,
) -> io::Result<()> {
    let mut control = cmsg_space!(UnixCredentials);
    let (sender, is_cut, count) = {
        let mut parts = [IoSliceMut::new(bytes)];
        let fd = socket.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        let received = match recvmsg::<()>(fd, &mut parts, Some(&mut control), flags) {
            Err(Errno::EINTR | Errno::EAGAIN) => return Ok(()),
            received => received?,
        };
        let sender = received.cmsgs()?.find_map(|message| {
            let ControlMessageOwned::ScmCredentials(sender) = message else { return None };
            Some(sender)
        });
        (sender, received.flags.contains(MsgFlags::MSG_TRUNC), received.bytes)
    };
    let text = String::from_utf8_lossy(bytes.get(..count).unwrap_or_default());
    let (pid, uid) = sender.map_or((0, u32::MAX), |sender| (sender.pid(), sender.uid()));
    if uid != 0 && !budget.allows(Instant::now(), log)? {
        return Ok(());
    }
    let of_sender =
        |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    // The processes of a login are in the cgroup of sshd. A user must not write in the name of
    // sshd.
    let is_daemon = uid == 0 || of_sender("loginuid").trim() == NO_LOGIN;
    let cgroup = if is_daemon { of_sender("cgroup") } else { String::new() };
    let end = if is_cut { " (cut off)" } else { "" };
    log.write_all(line(&text, unit_in(&cgroup), pid, end).as_bytes())?;
    log.flush()
}

/// A limit for the messages of some senders in a [`SPAN`].
pub(super) struct Budget {
    senders: &'static str,
    most: u32,
    since: Instant,
    used: u32,
}

impl Budget {
    /// `most` is the limit of the first span; later [`MESSAGES`] is the limit.
    pub(super) fn new(senders: &'static str, most: u32) -> Budget {
        Budget { senders, most, since: Instant::now(), used: 0 }
    }

    /// Counts a message. Returns false if the caller has to drop it.
    ///
    /// # Errors
    ///
    /// The log cannot be written.
    pub(super) fn allows(&mut self, now: Instant, log: &mut impl Write) -> io::Result<bool> {
        self.renew(now, log)?;
        self.used = self.used.saturating_add(1);
        Ok(self.used <= self.most)
    }

    fn dropped(&self) -> u32 {
        self.used.saturating_sub(self.most)
    }

    /// Returns the rest of the span if messages were dropped in it.
    fn rest(&self, now: Instant) -> Option<Duration> {
        (self.dropped() > 0).then(|| SPAN.saturating_sub(now.duration_since(self.since)))
    }

    /// Starts the next span if this one is over, and writes the number of dropped messages to the
    /// log.
    fn renew(&mut self, now: Instant, log: &mut impl Write) -> io::Result<()> {
        if now.duration_since(self.since) < SPAN {
            return Ok(());
        }
        let dropped = self.dropped();
        (self.since, self.used, self.most) = (now, 0, MESSAGES);
        if dropped > 0 {
            writeln!(log, "<4>dropped {dropped} messages of {}", self.senders)?;
            log.flush()?;
        }
        Ok(())
    }
}

/// Returns the unit of a cgroup in the form of /proc/PID/cgroup. Init names a cgroup `UNIT.RUN`; a
/// unit may make cgroups below its own.
fn unit_in(cgroup: &str) -> &str {
    let unit = |name: &'_ str| -> Option<usize> {
        let (unit, run) = name.rsplit_once('.')?;
        (!run.is_empty() && run.bytes().all(|byte| byte.is_ascii_digit())).then_some(unit.len())
    };
    let paths = cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut names = paths.flat_map(|path| path.split('/'));
    names.find_map(|name| name.get(..unit(name)?)).unwrap_or(NO_UNIT)
}

/// Returns the line of a message in the form of syslog(3): `<PRIORITY>Mmm dd hh:mm:ss TAG[PID]:
/// TEXT`. Priority, time and tag may be missing. A text without a tag gets the tag `message`. A
/// newline becomes `#012`, as in the files of rsyslog. `end` follows the text.
fn line(message: &str, unit: &str, pid: i32, end: &str) -> String {
    let message = message.trim_end_matches(['\0', '\n']);
    let (priority, rest) = priority_of(message).unwrap_or((6, message));
    let rest = without_time(rest);
    let (tag, text) = tag_of(rest).unwrap_or(("message", rest));
    let text = text.replace('\n', "#012");
    format!("<{}>{unit} {tag}[{pid}]: {text}{end}\n", priority & 7)
}

/// Splits a line of [`LOG_UNIT`] into the unit and `TAG[PID]: TEXT`. The unit is `None` if the
/// sender has exited, belongs to a login, or is in no cgroup of a unit. Returns `None` for a line
/// of another form, such as an error of the program.
pub(crate) fn split_line(line: &str) -> Option<(Option<&str>, &str)> {
    let (unit, message) = line.split_once(' ')?;
    parts(message).map(|_| (Some(unit).filter(|unit| *unit != NO_UNIT), message))
}

/// Splits `TAG[PID]: TEXT` into its parts. Pid 0 means that the kernel does not know the sender.
pub(crate) fn parts(message: &str) -> Option<(&str, u32, &str)> {
    let (head, text) = message.split_once(": ")?;
    let (tag, pid) = head.strip_suffix(']')?.rsplit_once('[')?;
    Some((tag, pid.parse().ok()?, text))
}

fn priority_of(message: &str) -> Option<(u16, &str)> {
    let (number, rest) = message.strip_prefix('<')?.split_once('>')?;
    let is_number = (1..=3).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    Some((number.parse().ok().filter(|_| is_number)?, rest))
}

/// Removes the time. The logger records its own.
fn without_time(text: &str) -> &str {
    let form = "Mmm dd hh:mm:ss ";
    let fits = |(have, form): (char, char)| match form {
        ' ' | ':' => have == form,
        'M' => have.is_ascii_uppercase(),
        'm' if have.is_ascii_lowercase() => true,
        _ => have.is_ascii_digit() || form == 'd' && have == ' ',
    };
    match text.get(form.len()..) {
        Some(rest) if text.chars().zip(form.chars()).all(fits) => rest,
        _ => text,
    }
}

/// Splits `TAG[PID]: TEXT` or `TAG: TEXT`. Returns `None` for a text without a tag.
pub(crate) fn tag_of(text: &str) -> Option<(&str, &str)> {
    let (head, rest) = text.split_once(':')?;
    let tag = head.split('[').next().unwrap_or(head);
    let is_tag = !tag.is_empty() && head.len() <= TAG && !head.contains([' ', '\n']);
    is_tag.then(|| (tag, rest.strip_prefix(' ').unwrap_or(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_becomes_a_line_with_level_unit_tag_and_the_pid_of_the_kernel() {
        let line = |message| line(message, "ssh.service", 7, "");
        let whole = "<38>Nov 30 09:01:02 sshd[812]: Accepted publickey\n";
        assert_eq!(line(whole), "<6>ssh.service sshd[7]: Accepted publickey\n");
        assert_eq!(line("<11>Nov  3 09:01:02 cron: a\nb\0"), "<3>ssh.service cron[7]: a#012b\n");
        for (bare, text) in [
            ("no tag at all", "message[7]: no tag at all"),
            ("two words: text", "message[7]: two words: text"),
            ("<x>tag:text", "<x>tag[7]: text"),
            ("<1234>tag: text", "<1234>tag[7]: text"),
            ("", "message[7]: "),
            ("12 x 09:01:02 tag: text", "message[7]: 12 x 09:01:02 tag: text"),
        ] {
            assert_eq!(line(bare), format!("<6>ssh.service {text}\n"), "{bare}");
        }
        assert!(super::line("<0>a: b", "-", 0, " (cut off)").ends_with("a[0]: b (cut off)\n"));
    }

    #[test]
    fn line_is_split_into_unit_and_message() {
        assert_eq!(
            split_line("ssh.service sshd[7]: a: b"),
            Some((Some("ssh.service"), "sshd[7]: a: b"))
        );
        assert_eq!(split_line("- su[7]: a"), Some((None, "su[7]: a")));
        for other in ["/dev/log: Broken pipe", "dropped 3 messages of users", "", "a b: c"] {
            assert_eq!(split_line(other), None, "{other}");
        }
        assert_eq!(parts("sshd[7]: a: b"), Some(("sshd", 7, "a: b")));
        assert_eq!(parts("a[b][7]: "), Some(("a[b]", 7, "")));
        for other in ["", "a: b", "a[]: b", "a[x]: b", "[7] a"] {
            assert_eq!(parts(other), None, "{other}");
        }
    }

    #[test]
    fn unit_is_the_first_cgroup_with_the_number_of_a_run() {
        assert_eq!(unit_in("0::/groundstate/ssh.service.447\n"), "ssh.service");
        assert_eq!(unit_in("1:name=x:/\n0::/a.slice/box.12/libpod-1/pod.7\n"), "box");
        for none in ["", "0::/\n", "0::/user.slice/x.\n", "broken"] {
            assert_eq!(unit_in(none), NO_UNIT, "{none}");
        }
    }

    #[test]
    fn messages_above_the_limit_are_dropped_and_counted_at_the_end_of_the_span() {
        let now = Instant::now();
        let mut budget = Budget { since: now, ..Budget::new("users", MESSAGES) };
        let mut log = Vec::new();
        assert_eq!(budget.rest(now), None);
        let allowed = (0..MESSAGES + 3).filter(|_| budget.allows(now, &mut log).unwrap()).count();
        assert_eq!((allowed, log.as_slice()), (MESSAGES as usize, &b""[..]));
        // The count does not wait for another message.
        assert_eq!(budget.rest(now + SPAN / 2), Some(SPAN / 2));
        budget.renew(now + SPAN / 2, &mut log).unwrap();
        assert_eq!(log, b"");
        budget.renew(now + SPAN, &mut log).unwrap();
        assert_eq!(log, b"<4>dropped 3 messages of users\n");
        assert_eq!(budget.rest(now + SPAN), None);
        assert!(budget.allows(now + SPAN, &mut log).unwrap());
    }

    #[test]
    fn messages_of_a_socket_are_printed_until_the_log_is_closed() {
        /// Accepts one line.
        struct One(Vec<u8>);
        impl Write for One {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                if !self.0.is_empty() {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                self.0.extend(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let path = std::env::temp_dir().join(format!("groundstate-syslog-{}", std::process::id()));
        fs::write(&path, "the socket of an earlier run").unwrap();
        let here = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        let there = UnixDatagram::unbound().unwrap();
        there.send_to(format!("<30>tag: {}", "x".repeat(MESSAGE)).as_bytes(), &path).unwrap();
        there.send_to(b"<30>tag: second", &path).unwrap();
        fs::remove_file(&path).unwrap();
        let mut log = One(Vec::new());
        let ended = print_messages(&here, &mut log);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let text = String::from_utf8(log.0).unwrap();
        assert!(text.contains(&format!(" tag[{}]: xxx", std::process::id())), "{text:.99}");
        assert!(text.ends_with("x (cut off)\n"));
    }
}
