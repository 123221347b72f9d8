//! The notify socket: datagrams with the sender's credentials, checked by the kernel.
//!
//! [`crate::event_loop`] decides which run a sender belongs to and whether it may speak for it.
//! Passed descriptors are held until the datagram is handled and then closed, which is what
//! BARRIER=1 waits for. Those of FDSTORE=1 are kept for units that ask for it
//! ([`crate::service::fd_store`]).

use crate::base::{limit, token};
use crate::fd;
use crate::fd::Foreign;
use crate::state::carried::KeptFd;
use crate::sys::no_linger::close_without_linger;
use crate::sys::socket::Received;
use crate::sys::{inbox, socket};
use groundstate_units::text::encoding::is_unprintable;
use groundstate_units::text::time::Time;
use mio::Registry;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, bind, setsockopt, socket as open_socket, sockopt,
};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use nix::unistd::unlink;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

/// One datagram. Its file descriptors are closed when it is dropped.
#[derive(Serialize, Deserialize)]
pub(crate) struct Datagram {
    /// The sender's pid as the kernel saw it, or 0 if it is in another pid namespace.
    #[serde(default)]
    pub(crate) pid: i32,
    #[serde(default)]
    pub(crate) statements: Vec<Statement>,
    /// Passed descriptors that may be kept.
    #[serde(default)]
    pub(crate) passed: Vec<Foreign>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Notify {
    socket: KeptFd<OwnedFd>,
    /// The previous socket at the path: its messages are read first.
    #[serde(skip)]
    former: Option<OwnedFd>,
    path: String,
    /// True if there may be more to read. Always true in a new image.
    #[serde(skip)]
    pub(crate) ready: bool,
    /// The number of unusable datagrams: too long, or without credentials.
    #[serde(default)]
    pub(crate) dropped: u64,
    /// Datagrams that were read ahead, at most one turn's share.
    #[serde(default)]
    waiting: VecDeque<Datagram>,
    #[serde(skip)]
    allowance: Allowance,
    /// Dropping this value removes the path. False for a value that was only read from another
    /// image's state.
    #[serde(skip)]
    is_ours: bool,
}

impl Notify {
    /// Binds an abstract name chosen by the kernel (unix(7), autobind), for a system without a
    /// writable directory. Credentials decide about senders there too.
    pub(crate) fn bind_abstract(registry: &Registry) -> io::Result<Notify> {
        let opened = Notify::open()?;
        bind(opened.as_raw_fd(), &UnixAddr::new_unnamed())?;
        let bound = socket::unix_name(&opened).ok_or(Errno::EADDRNOTAVAIL)?;
        let name = bound.as_abstract().and_then(|name| std::str::from_utf8(name).ok());
        let path = format!("@{}", name.ok_or(Errno::EADDRNOTAVAIL)?);
        token::watch(registry, &opened, token::NOTIFY)?;
        Ok(Notify::with(opened, path))
    }

    fn open() -> io::Result<OwnedFd> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let opened = open_socket(AddressFamily::Unix, SockType::Datagram, flags, None)?;
        setsockopt(&opened, sockopt::PassCred, &true)?;
        // Room for a burst; the kernel's default applies if this is refused.
        let _ = setsockopt(&opened, sockopt::RcvBuf, &(8 * 1024 * 1024));
        Ok(opened)
    }

    /// Binds `path`, replacing an existing socket.
    pub(crate) fn bind(registry: &Registry, path: &str) -> io::Result<Notify> {
        Ok(Notify::with(Notify::bound(registry, path)?, path.to_string()))
    }

    fn bound(registry: &Registry, path: &str) -> io::Result<OwnedFd> {
        let opened = Notify::open()?;
        let address = UnixAddr::new(path)?;
        match unlink(path) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
        bind(opened.as_raw_fd(), &address)?;
        // Every uid may send: credentials decide about the statements.
        let everyone = Mode::from_bits_truncate(0o666);
        fchmodat(nix::fcntl::AT_FDCWD, path, everyone, FchmodatFlags::FollowSymlink)?;
        token::watch(registry, &opened, token::NOTIFY)?;
        Ok(opened)
    }

    fn with(socket: OwnedFd, path: String) -> Notify {
        let (waiting, former) = (VecDeque::new(), None);
        let (socket, allowance) = (socket.into(), Allowance::default());
        let (ready, is_ours) = (true, true);
        Notify { socket, former, path, ready, dropped: 0, waiting, allowance, is_ours }
    }

    /// Binds a new socket at the same path, because the file may have been removed or replaced. The
    /// previous socket stays until the next call, for services that are connected or about to send.
    pub(crate) fn bind_again(&mut self, registry: &Registry) -> io::Result<()> {
        let fresh = Notify::bound(registry, &self.path)?;
        self.read_ahead(limit::NOTIFICATIONS_A_TURN);
        let former = std::mem::replace(&mut *self.socket, fresh);
        close_without_linger(|| self.former = Some(former));
        self.ready = true;
        Ok(())
    }

    /// Registers the socket again, in a new image of init.
    pub(crate) fn rewatch(&mut self, registry: &Registry) -> io::Result<()> {
        (self.ready, self.is_ours) = (true, true);
        token::watch(registry, &*self.socket, token::NOTIFY)
    }

    /// The path that services send to.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Reads waiting datagrams for the next turn. In a burst of starts, ready services would
    /// otherwise wait for room in the socket's queue, which holds ten by default.
    pub(crate) fn fetch(&mut self) {
        self.read_ahead(limit::NOTIFICATIONS_A_TURN);
        fd::close_left();
    }

    /// Reads datagrams until `most` wait. A call reads at most one turn's share, including
    /// unusable datagrams, whose number is unbounded.
    fn read_ahead(&mut self, most: usize) {
        for _ in 0..limit::NOTIFICATIONS_A_TURN {
            // The socket is read again once a commit has made room in the inbox.
            if self.waiting.len() >= most || !inbox::has_room() {
                return;
            }
            match self.receive_one() {
                Ok(Some(datagram)) => self.waiting.push_back(datagram),
                Ok(None) => self.dropped = self.dropped.saturating_add(1),
                Err(_) => {
                    self.ready = false;
                    return;
                }
            }
        }
    }

    /// Returns true if datagrams may be waiting and the rate allows reading them.
    pub(crate) fn has_more(&self, now: Time) -> bool {
        (self.ready || !self.waiting.is_empty()) && !self.allowance.is_paused(now)
    }

    /// The time at which waiting datagrams may be read, if the rate delays them.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let waits = self.ready || !self.waiting.is_empty();
        self.allowance.rests_until.filter(|_| waits)
    }

    /// The next datagram. Returns `None` if none waits or the rate is used up.
    pub(crate) fn receive_in_turn(&mut self, now: Time) -> Option<Datagram> {
        if self.allowance.permits_one(now) { self.receive_at_once(now) } else { None }
    }

    /// The next datagram, whatever the rate. It counts against the rate of later ones.
    pub(crate) fn receive_at_once(&mut self, now: Time) -> Option<Datagram> {
        let before = self.dropped;
        let received = self.receive();
        let read =
            self.dropped.saturating_sub(before).saturating_add(u64::from(received.is_some()));
        self.allowance.take(read, now);
        received
    }

    /// The next datagram, or `None` for now.
    fn receive(&mut self) -> Option<Datagram> {
        if self.waiting.is_empty() {
            // All datagrams are handled: release the buffer.
            self.waiting = VecDeque::new();
            self.read_ahead(1);
        }
        self.waiting.pop_front()
    }

    /// The recorded values that a receiving call may change.
    pub(crate) fn taken(&self) -> (u64, usize) {
        (self.dropped, self.waiting.len())
    }

    /// Number of datagrams read ahead.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if the rate delays waiting datagrams.
    pub(crate) fn holds_back(&self, now: Time) -> bool {
        self.deadline().is_some() && self.allowance.is_paused(now)
    }

    /// Adds a datagram that a crashed image received and did not commit.
    pub(crate) fn take_over_datagram(&mut self, pid: i32, bytes: &[u8]) {
        self.waiting.push_back(Datagram { pid, statements: statements(bytes), passed: Vec::new() });
    }

    /// Receives one datagram. Returns `None` if it is unusable.
    fn receive_one(&self) -> io::Result<Option<Datagram>> {
        let mut bytes = [0u8; limit::NOTIFICATION];
        let most = fd::room();
        let mut receive =
            |from: &OwnedFd| socket::receive_into_inbox(from.as_fd(), &mut bytes, most);
        let received = match self.former.as_ref().map(&mut receive) {
            Some(Ok(received)) => received,
            Some(Err(_)) | None => receive(&self.socket)?,
        };
        let Received { length, truncated, fds, peer } = received;
        // A descriptor whose close may block is dropped: a child that is cloned before the sender
        // is known would close its copy.
        let passed = Foreign::keepable(fds);
        let Some(peer) = peer.filter(|_| !truncated) else {
            fd::dropped(passed.len());
            return Ok(None);
        };
        let statements = statements(bytes.get(..length).unwrap_or_default());
        Ok(Some(Datagram { pid: peer.pid.as_raw(), statements, passed }))
    }
}

impl Drop for Notify {
    fn drop(&mut self) {
        // If removal fails, the next start replaces the file.
        if self.is_ours && !self.path.starts_with('@') {
            let _ = unlink(self.path.as_str());
        }
    }
}

// Rate limit of datagrams
//
// A flood gets a bounded share of init's time. Unread datagrams stay in the socket's queue, and
// their senders wait; nothing is lost. All senders share the limit, because only a datagram itself
// names its sender and the queue is first come, first served.

/// The remaining number of datagrams.
#[derive(Debug)]
struct Allowance {
    /// Negative after datagrams were read in excess of the rate.
    left: i64,
    /// The time up to which the rate was credited.
    at: Time,
    /// The end of the pause.
    rests_until: Option<Time>,
}

const MOST: i64 = limit::NOTIFICATIONS_A_SECOND as i64;
/// The lowest value: a quarter of a second's worth.
const LEAST: i64 = -MOST / 4;

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { left: MOST, at: Time::ZERO, rests_until: None }
    }
}

impl Allowance {
    /// Returns true if one more datagram may be read.
    fn permits_one(&mut self, now: Time) -> bool {
        let gained = now.since(self.at).as_nanos().saturating_mul(MOST.unsigned_abs().into());
        let gained = i64::try_from(gained / 1_000_000_000).unwrap_or(MOST);
        if gained > 0 {
            self.left = self.left.saturating_add(gained).min(MOST);
            self.at = now;
        }
        !self.is_paused(now) && self.left > 0
    }

    /// Counts datagrams that were read, even in excess of the rate.
    fn take(&mut self, count: u64, now: Time) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.left = self.left.saturating_sub(count).max(LEAST);
        if self.left <= 0 {
            let makes_up =
                self.left.unsigned_abs().saturating_mul(1_000_000_000) / MOST.unsigned_abs();
            let rests = limit::NOTIFY_REST.saturating_add(Duration::from_nanos(makes_up));
            self.rests_until = Some(now.after(rests));
        }
    }

    /// Returns true while reading is paused.
    fn is_paused(&self, now: Time) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }
}

// Parses the datagrams of the notify socket as sd_notify(3) defines them. Pure: bytes in,
// statements out. Unknown words are ignored.

/// One line of a datagram.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Statement {
    /// READY=1
    Ready,
    /// RELOADING=1
    Reloading,
    /// STOPPING=1
    Stopping,
    /// STATUS=…, cleaned.
    Status(String),
    /// MAINPID=…
    MainPid(i32),
    /// WATCHDOG=1
    WatchdogPing,
    /// WATCHDOG=trigger
    WatchdogTrigger,
    /// WATCHDOG_USEC=…; zero disables the watchdog.
    WatchdogEvery(Duration),
    /// EXTEND_TIMEOUT_USEC=…
    ExtendTimeout(Duration),
    /// FDSTORE=1: store the passed descriptors.
    Store,
    /// FDSTOREREMOVE=1: remove the descriptors of this name.
    StoreRemove,
    /// FDNAME=…: the name of the descriptors.
    StoreName(String),
    /// FDPOLL=0: keep the descriptors even when the other end is closed.
    StoreUnwatched,
}

/// All statements of a datagram, in their order: a READY before a RELOADING or STOPPING does not
/// count after it.
pub(crate) fn statements(datagram: &[u8]) -> Vec<Statement> {
    datagram.split(|byte| *byte == b'\n' || *byte == 0).filter_map(statement).collect()
}

fn statement(line: &[u8]) -> Option<Statement> {
    let at = line.iter().position(|byte| *byte == b'=')?;
    let (word, rest) = line.split_at_checked(at)?;
    let value = rest.get(1..)?;
    match word {
        b"READY" => (value == b"1").then_some(Statement::Ready),
        b"RELOADING" => (value == b"1").then_some(Statement::Reloading),
        b"STOPPING" => (value == b"1").then_some(Statement::Stopping),
        b"STATUS" => Some(Statement::Status(clean(value))),
        b"MAINPID" => number(value).and_then(|n| i32::try_from(n).ok()).map(Statement::MainPid),
        b"WATCHDOG" => match value {
            b"1" => Some(Statement::WatchdogPing),
            b"trigger" => Some(Statement::WatchdogTrigger),
            _ => None,
        },
        b"WATCHDOG_USEC" => micros(value).map(Statement::WatchdogEvery),
        b"EXTEND_TIMEOUT_USEC" => micros(value).map(Statement::ExtendTimeout),
        b"FDSTORE" => (value == b"1").then_some(Statement::Store),
        b"FDSTOREREMOVE" => (value == b"1").then_some(Statement::StoreRemove),
        b"FDNAME" => fd_name(value).map(Statement::StoreName),
        b"FDPOLL" => (value == b"0").then_some(Statement::StoreUnwatched),
        _ => None,
    }
}

/// A name as in sd_listen_fds_with_names(3): ASCII without control characters and colons.
fn fd_name(value: &[u8]) -> Option<String> {
    let fits = |byte: &u8| (b' '..=b'~').contains(byte) && *byte != b':';
    let text = std::str::from_utf8(value).ok()?;
    (value.len() <= limit::FD_NAME && value.iter().all(fits)).then(|| text.to_string())
}

fn number(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

fn micros(value: &[u8]) -> Option<Duration> {
    number(value).map(Duration::from_micros)
}

/// Cleans a service's text for terminals: removes control characters ([`is_unprintable`]) and
/// limits the length.
fn clean(value: &[u8]) -> String {
    let mut text = String::new();
    for c in String::from_utf8_lossy(value).chars() {
        let c = if is_unprintable(c) { ' ' } else { c };
        if text.len().saturating_add(c.len_utf8()) > limit::STATUS_TEXT {
            break;
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn messages_that_were_read_ahead_are_received_first_and_in_order() {
        let poll = mio::Poll::new().unwrap();
        let path = std::env::temp_dir().join(format!("gs-notify-{}", std::process::id()));
        let mut notify = Notify::bind(poll.registry(), path.to_str().unwrap()).unwrap();
        let service = UnixDatagram::unbound().unwrap();
        let say = |text: &str| service.send_to(text.as_bytes(), &path).map(drop).unwrap();
        say("STATUS=a");
        say("STATUS=b");
        notify.fetch();
        say("READY=1");
        notify.ready = false;
        assert!(notify.has_more(Time::ZERO));
        let heard: Vec<Statement> =
            std::iter::from_fn(|| notify.receive()).flat_map(|d| d.statements).collect();
        let status = |text: &str| Statement::Status(text.to_string());
        assert_eq!(heard, [status("a"), status("b"), Statement::Ready]);
        assert!(!notify.has_more(Time::ZERO));
    }

    #[test]
    fn reading_of_endless_unusable_messages_is_bounded() {
        let (ours, theirs) = socket::pair().unwrap();
        drop(theirs);
        let mut notify = Notify::with(ours, "@unbound".to_string());
        notify.fetch();
        assert!(notify.receive().is_none());
        assert_eq!(notify.dropped, 2 * limit::NOTIFICATIONS_A_TURN as u64);
    }

    /// The number of datagrams read in so many milliseconds if one is always available.
    fn read(allowance: &mut Allowance, begin: Time, millis: u64) -> i64 {
        let mut read = 0;
        for milli in 0..millis {
            let now = begin.after(Duration::from_millis(milli));
            while allowance.permits_one(now) {
                allowance.take(1, now);
                read += 1;
            }
        }
        read
    }

    #[test]
    fn a_burst_is_read_at_once_and_a_flood_at_its_rate() {
        let (mut allowance, begin) = (Allowance::default(), Time::from_nanos(1_000_000_000));
        assert_eq!(read(&mut allowance, begin, 1), MOST);
        let after = begin.after(Duration::from_millis(1));
        assert!(!allowance.permits_one(after) && allowance.rests_until > Some(after));
        let in_a_second = read(&mut allowance, after, 1000);
        assert!((7500..=8192).contains(&in_a_second), "{in_a_second}");
        // After an idle second one burst is read again.
        let later = after.after(Duration::from_secs(60));
        assert_eq!(read(&mut allowance, later, 1), MOST);
    }

    #[test]
    fn messages_read_in_excess_of_the_rate_reduce_the_later_budget() {
        let (mut allowance, begin) = (Allowance::default(), Time::from_nanos(1_000_000_000));
        assert_eq!(read(&mut allowance, begin, 1), MOST);
        // Ten exits in a tenth of a second, each of which reads all messages.
        for time in 0..10 {
            allowance.take(1024, begin.after(Duration::from_millis(10 * time)));
        }
        let after = begin.after(Duration::from_millis(100));
        assert_eq!(read(&mut allowance, after, 100), 0);
        let rested = allowance.rests_until.expect("it rests");
        assert!(rested < after.after(Duration::from_millis(400)), "not for longer than its bound");
        assert!(
            !allowance.is_paused(rested) && allowance.permits_one(rested),
            "it has something then"
        );
    }
}

#[cfg(test)]
mod message_tests {
    use super::*;

    #[test]
    fn statements_of_sd_notify_are_parsed() {
        let said = statements(
            b"READY=1\nSTATUS=up\nMAINPID=42\nWATCHDOG_USEC=5000000\nEXTEND_TIMEOUT_USEC=7\nWATCHDOG=1\n\
              RELOADING=1\nSTOPPING=1\nERRNO=2\nWATCHDOG=trigger",
        );
        assert_eq!(
            said,
            [
                Statement::Ready,
                Statement::Status("up".to_string()),
                Statement::MainPid(42),
                Statement::WatchdogEvery(Duration::from_secs(5)),
                Statement::ExtendTimeout(Duration::from_micros(7)),
                Statement::WatchdogPing,
                Statement::Reloading,
                Statement::Stopping,
                Statement::WatchdogTrigger,
            ]
        );
    }

    #[test]
    fn invalid_notify_statements_are_ignored() {
        for nonsense in [
            &b""[..],
            b"READY",
            b"=1",
            b"READY=2",
            b"MAINPID=-1",
            b"MAINPID=99999999999",
            b"MAINPID=+5",
            b"MAINPID=",
            b"WATCHDOG_USEC=1e9",
            b"\xff\xfe=\xff",
            b"\n\n\n",
        ] {
            assert_eq!(statements(nonsense), [], "{nonsense:?}");
        }
    }

    #[test]
    fn status_text_loses_line_ends_and_terminal_controls() {
        let long = [b"STATUS=".as_slice(), &[b'x'; 5000]].concat();
        assert_eq!(
            statements(b"STATUS=a\x1b[31mb\tc"),
            [Statement::Status("a [31mb c".to_string())]
        );
        assert_eq!(statements(&long), [Statement::Status("x".repeat(limit::STATUS_TEXT))]);
    }
}
