//! Messages of syslog(3) and of the kernel, for a machine without a syslog daemon. Each becomes a line
//! on stdout, which init's logger keeps.
//!
//! ```text
//! <LEVEL>UNIT TAG[PID]: TEXT        a message of syslog(3)
//! <LEVEL>- kernel: [SECONDS] TEXT   a message of the kernel
//! <LEVEL>- kmsg: [SECONDS] TEXT     a message that a process wrote to /dev/kmsg
//! ```
//!
//! The unit is that of the process that the kernel names as the sender; the tag is what the process
//! calls itself. No process can write a line in the kernel's name, because its tag has a pid.

use super::kmsg::{self, Intake, Kernel, Record};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::PassCred;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg, setsockopt};
use std::fs::{self, Permissions};
use std::io::{self, IoSliceMut, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The unit whose log has the messages.
pub(crate) const LOG_UNIT: &str = "dev-log";
/// The most bytes of a message that are kept. The line of a longer message ends with ` (cut off)`.
const MESSAGE: usize = 8 * 1024;
/// The most bytes of `TAG[PID]`. RFC 3164 allows 32 for the tag; names of programs may be longer.
const TAG: usize = 64;
/// The unit of a sender that has exited, belongs to a login, or is in no cgroup of a unit.
const NO_UNIT: &str = "-";
/// The tags of lines from /dev/kmsg.
const KERNEL_TAG: &str = "kernel";
const KMSG_TAG: &str = "kmsg";
/// The most messages of all users except root in a [`SPAN`]. Without a limit, one user could push the
/// messages of all others out of the log.
const MESSAGES: u32 = 1000;
/// The most messages of the kernel in the first [`SPAN`]. The messages that the kernel keeps from before
/// this program fit. Later, [`MESSAGES`] is the limit.
const FIRST_KERNEL_MESSAGES: u32 = 10_000;
const SPAN: Duration = Duration::from_secs(10);
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

/// Opens the messages of the kernel. A container has none. The file in `$RUNTIME_DIRECTORY` says which
/// ones an earlier run of the program has printed in this boot.
fn kernel(log: &mut impl Write) -> io::Result<Option<Intake>> {
    let saved = std::env::var_os("RUNTIME_DIRECTORY").map(|dir| PathBuf::from(dir).join("kernel"));
    match Kernel::open() {
        Ok(kernel) => return Ok(Some(Intake::new(kernel, saved))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => warn(log, &format!("{}: {error}", kmsg::FILE))?,
    }
    Ok(None)
}

/// Prints the messages that arrive at the socket of [`listen`], and those of the kernel. Returns only
/// with an error.
///
/// # Errors
///
/// The socket cannot be read, or the log cannot be written.
pub(crate) fn print_messages(socket: &UnixDatagram, log: &mut impl Write) -> io::Result<()> {
    let kernel = kernel(log)?;
    print_all(socket, kernel, log)
}

fn print_all(
    socket: &UnixDatagram,
    mut kernel: Option<Intake>,
    log: &mut impl Write,
) -> io::Result<()> {
    let mut of_users = Budget::new("users", MESSAGES);
    let mut of_kernel = Budget::new("the kernel", FIRST_KERNEL_MESSAGES);
    let mut bytes = vec![0; MESSAGE];
    loop {
        if let Some(intake) = &mut kernel {
            let read = intake.read();
            let is_read = match &read {
                Ok((records, has_lost)) => {
                    if *has_lost {
                        warn(log, "the kernel has overwritten messages before they were read")?;
                    }
                    for record in records {
                        if of_kernel.allows(Instant::now(), log)? {
                            log.write_all(line_of_kernel(record).as_bytes())?;
                        }
                    }
                    log.flush()?;
                    true
                }
                Err(error) => {
                    warn(log, &format!("{}: {error}", kmsg::FILE))?;
                    false
                }
            };
            intake.save();
            kernel = kernel.filter(|_| is_read);
        }
        print_message(socket, &mut bytes, &mut of_users, log)?;
        let mut sources = vec![PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        if let Some(intake) = &kernel {
            sources.push(PollFd::new(intake.kernel.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut sources, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
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
    // The processes of a login are in the cgroup of sshd. A user must not write in the name of sshd.
    let is_daemon = uid == 0 || of_sender("loginuid").trim() == NO_LOGIN;
    let cgroup = if is_daemon { of_sender("cgroup") } else { String::new() };
    let end = if is_cut { " (cut off)" } else { "" };
    log.write_all(line(&text, unit_in(&cgroup), pid, end).as_bytes())?;
    log.flush()
}

/// Writes a warning of this program to the log.
fn warn(log: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(log, "<4>syslog: {text}")
}

fn line_of_kernel(record: &Record) -> String {
    let tag = if record.is_of_kernel { KERNEL_TAG } else { KMSG_TAG };
    format!("<{}>{NO_UNIT} {tag}: {}\n", record.level, record.stamped())
}

/// The messages of some senders in the present [`SPAN`].
struct Budget {
    senders: &'static str,
    most: u32,
    since: Instant,
    used: u32,
}

impl Budget {
    fn new(senders: &'static str, most: u32) -> Budget {
        Budget { senders, most, since: Instant::now(), used: 0 }
    }

    /// Counts a message. Returns false if it has to be dropped. The first message of the next span writes
    /// the number of the dropped ones to the log.
    fn allows(&mut self, now: Instant, log: &mut impl Write) -> io::Result<bool> {
        if now.duration_since(self.since) >= SPAN {
            let dropped = self.used.saturating_sub(self.most);
            (self.since, self.used, self.most) = (now, 0, MESSAGES);
            if dropped > 0 {
                warn(log, &format!("dropped {dropped} messages of {}", self.senders))?;
            }
        }
        self.used = self.used.saturating_add(1);
        Ok(self.used <= self.most)
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

/// Returns the line of a message in the form of syslog(3): `<PRIORITY>Mmm dd hh:mm:ss TAG[PID]: TEXT`.
/// Priority, time and tag may be missing. A newline becomes `#012`, as in the files of rsyslog. `end`
/// follows the text.
fn line(message: &str, unit: &str, pid: i32, end: &str) -> String {
    let message = message.trim_end_matches(['\0', '\n']);
    let (priority, rest) = priority_of(message).unwrap_or((6, message));
    let (tag, text) = tag_of(without_time(rest));
    let text = text.replace('\n', "#012");
    format!("<{}>{unit} {tag}[{pid}]: {text}{end}\n", priority & 7)
}

/// The origin of a line of [`LOG_UNIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin<'a> {
    /// A message of syslog(3) of this unit; `None` if the sender has exited, belongs to a login, or is
    /// in no cgroup of a unit.
    Syslog(Option<&'a str>),
    /// A message of the kernel.
    Kernel,
    /// A message that a process wrote to /dev/kmsg.
    Kmsg,
}

/// Splits a line of [`LOG_UNIT`] into the origin and `TAG[PID]: TEXT`, or the text of
/// [`Record::stamped`]. Returns `None` for a line of another form, such as an error of the program.
pub(crate) fn split_line(line: &str) -> Option<(Origin<'_>, &str)> {
    let (unit, message) = line.split_once(' ')?;
    let unit = Some(unit).filter(|unit| *unit != NO_UNIT);
    let (tag, text) = message.split_once(": ")?;
    match (unit, tag) {
        (None, KERNEL_TAG) => Some((Origin::Kernel, text)),
        (None, KMSG_TAG) => Some((Origin::Kmsg, text)),
        _ => tag.ends_with(']').then_some((Origin::Syslog(unit), message)),
    }
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

/// Splits `TAG[PID]: TEXT` or `TAG: TEXT`. A text without a tag gets the tag `message`.
pub(crate) fn tag_of(text: &str) -> (&str, &str) {
    let Some((head, rest)) = text.split_once(':') else { return ("message", text) };
    let tag = head.split('[').next().unwrap_or(head);
    match !tag.is_empty() && head.len() <= TAG && !head.contains([' ', '\n']) {
        true => (tag, rest.strip_prefix(' ').unwrap_or(rest)),
        false => ("message", text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::kmsg::tests::stand_in;
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
    fn line_is_split_into_origin_and_message() {
        let sshd = (Origin::Syslog(Some("ssh.service")), "sshd[7]: a: b");
        assert_eq!(split_line("ssh.service sshd[7]: a: b"), Some(sshd));
        assert_eq!(split_line("- su[7]: a"), Some((Origin::Syslog(None), "su[7]: a")));
        assert_eq!(
            split_line("- kernel: [    1.000000] a: b"),
            Some((Origin::Kernel, "[    1.000000] a: b"))
        );
        assert_eq!(
            split_line("- kmsg: [    1.000000] a"),
            Some((Origin::Kmsg, "[    1.000000] a"))
        );
        for other in ["syslog: Broken pipe", "", "a b: c", "kernel kernel: a", "kernel: a"] {
            assert_eq!(split_line(other), None, "{other}");
        }
        assert_eq!(parts("sshd[7]: a: b"), Some(("sshd", 7, "a: b")));
        assert_eq!(parts("a[b][7]: "), Some(("a[b]", 7, "")));
        for other in ["", "a: b", "a[]: b", "a[x]: b", "[7] a"] {
            assert_eq!(parts(other), None, "{other}");
        }
    }

    #[test]
    fn process_cannot_write_a_line_of_the_kernel() {
        for message in
            ["kernel: a", "<0>kernel: [    1.000000] a", "kernel", "- kernel: a", "kernel[]: a"]
        {
            let line = line(message, NO_UNIT, 7, "");
            let (_, line) = line.trim_end().split_once('>').unwrap();
            assert!(matches!(split_line(line), Some((Origin::Syslog(None), _))), "{line}");
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
    fn messages_of_users_above_the_limit_are_dropped_and_counted() {
        let now = Instant::now();
        let mut budget = Budget { since: now, ..Budget::new("users", MESSAGES) };
        let mut log = Vec::new();
        let allowed = (0..MESSAGES + 3).filter(|_| budget.allows(now, &mut log).unwrap()).count();
        assert_eq!((allowed, log.as_slice()), (MESSAGES as usize, &b""[..]));
        assert!(budget.allows(now + SPAN, &mut log).unwrap());
        assert_eq!(log, b"<4>syslog: dropped 3 messages of users\n");
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
        let (_kernel, source) = stand_in(&[]);
        fs::write(&path, "the socket of an earlier run").unwrap();
        let here = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        let there = UnixDatagram::unbound().unwrap();
        there.send_to(format!("<30>tag: {}", "x".repeat(MESSAGE)).as_bytes(), &path).unwrap();
        there.send_to(b"<30>tag: second", &path).unwrap();
        fs::remove_file(&path).unwrap();
        let mut log = One(Vec::new());
        let ended = print_all(&here, Some(Intake::new(source, None)), &mut log);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let text = String::from_utf8(log.0).unwrap();
        assert!(text.contains(&format!(" tag[{}]: xxx", std::process::id())), "{text:.99}");
        assert!(text.ends_with("x (cut off)\n"));
    }
    #[test]
    fn messages_of_the_kernel_are_printed_with_their_level_and_time() {
        let path = std::env::temp_dir().join(format!("groundstate-kernel-{}", std::process::id()));
        let socket = listen(&path).unwrap();
        let (kernel, source) = stand_in(&["4,7,1234567,-;usb 1-1: reset\n SUBSYSTEM=usb\n"]);
        kernel.send(b"12,8,1234568,-;init: hello\n").unwrap();
        // The end of the log ends the program.
        let (mut read, mut log) = std::io::pipe().unwrap();
        let program = std::thread::spawn(move || {
            print_all(&socket, Some(Intake::new(source, None)), &mut log)
        });
        let mut lines = String::new();
        while lines.lines().count() < 2 {
            let mut bytes = [0; 999];
            let count = std::io::Read::read(&mut read, &mut bytes).unwrap();
            lines.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        }
        drop(read);
        kernel.send(b"6,9,1234569,-;end\n").unwrap();
        assert_eq!(program.join().unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        fs::remove_file(&path).unwrap();
        let want =
            "<4>- kernel: [    1.234567] usb 1-1: reset\n<4>- kmsg: [    1.234568] init: hello\n";
        assert_eq!(lines, want);
    }
}
