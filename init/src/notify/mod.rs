//! The notify socket: datagrams with the sender's credentials, checked by the kernel.
//!
//! Whose run a sender belongs to, and whether it may speak for it, is decided where
//! the runs are known. File descriptors that come along (BARRIER=1) are held until the
//! datagram is dealt with and then closed: that is what a barrier waits for. Those of
//! FDSTORE=1 are kept for units that ask for it ([`crate::service::fd_store`]).

pub(crate) mod message;

use crate::base::limit;
use crate::base::token;
use crate::fd;
use crate::fd::Foreign;
use crate::state::carried::KeptFd;
use crate::sys::no_linger::close_without_linger;
use crate::sys::socket::Received;
use crate::sys::{inbox, socket};
use groundstate_units::text::time::Time;
use message::{Statement, statements};
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
    /// The sender's pid as the kernel saw it; 0: of another pid namespace.
    #[serde(default)]
    pub(crate) pid: i32,
    /// What it says.
    #[serde(default)]
    pub(crate) statements: Vec<Statement>,
    /// What came along and may be kept.
    #[serde(default)]
    pub(crate) passed: Vec<Foreign>,
}

/// The socket.
#[derive(Serialize, Deserialize)]
pub(crate) struct Notify {
    socket: KeptFd<OwnedFd>,
    /// Was at the path before the one there now: what was sent to it is heard first.
    #[serde(skip)]
    former: Option<OwnedFd>,
    path: String,
    /// There may be more to read. So it is for the next image.
    #[serde(skip)]
    pub(crate) ready: bool,
    /// Datagrams that said nothing usable: too long, without credentials.
    #[serde(default)]
    pub(crate) dropped: u64,
    /// Read and not heard yet, at most a turn's worth.
    #[serde(default)]
    waiting: VecDeque<Datagram>,
    /// How often `waiting` was added to or taken from.
    #[serde(skip)]
    moves: u64,
    #[serde(skip)]
    allowance: Allowance,
    /// The path goes with this value; not with what was only read of another image's state.
    #[serde(skip)]
    is_ours: bool,
}

impl Notify {
    /// Where nothing can be written: an abstract name that the kernel chooses (unix(7),
    /// autobind). Who may speak is decided by credentials there too.
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
        socket::pass_credentials(&opened)?;
        // Room for a burst; the kernel's own cap holds where this is refused.
        let _ = setsockopt(&opened, sockopt::RcvBuf, &(8 * 1024 * 1024));
        Ok(opened)
    }

    /// Binds `path`, replacing what is there.
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
        // Every uid may write: who may say what is decided by credentials.
        let everyone = Mode::from_bits_truncate(0o666);
        fchmodat(nix::fcntl::AT_FDCWD, path, everyone, FchmodatFlags::FollowSymlink)?;
        token::watch(registry, &opened, token::NOTIFY)?;
        Ok(opened)
    }

    fn with(socket: OwnedFd, path: String) -> Notify {
        let (waiting, former) = (VecDeque::new(), None);
        let (socket, allowance) = (socket.into(), Allowance::default());
        let (ready, is_ours) = (true, true);
        Notify { socket, former, path, ready, dropped: 0, waiting, moves: 0, allowance, is_ours }
    }

    /// A new socket at the same path, which somebody may have removed or replaced. The one before
    /// stays until the next: who had found it sends a moment later, who is connected at any time.
    pub(crate) fn bind_anew(&mut self, registry: &Registry) -> io::Result<()> {
        let fresh = Notify::bound(registry, &self.path)?;
        self.read_ahead();
        let former = std::mem::replace(&mut *self.socket, fresh);
        close_without_linger(|| self.former = Some(former));
        self.ready = true;
        Ok(())
    }

    /// The same socket in an init that has gone on as another image.
    pub(crate) fn rewatch(&mut self, registry: &Registry) -> io::Result<()> {
        (self.ready, self.is_ours) = (true, true);
        token::watch(registry, &*self.socket, token::NOTIFY)
    }

    /// Where services send to.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Reads what is there, to be heard in the next turn: in a burst of starts whoever is ready
    /// would wait for room in the socket's queue, which by default holds ten.
    pub(crate) fn fetch(&mut self) {
        self.read_ahead();
        fd::close_left();
    }

    fn read_ahead(&mut self) {
        // What is of no use counts as well: of that there may be no end.
        for _ in self.waiting.len()..limit::NOTIFICATIONS_A_TURN {
            if !inbox::has_room() {
                return;
            }
            match self.once() {
                Ok(Some(datagram)) => {
                    self.waiting.push_back(datagram);
                    self.moves = self.moves.wrapping_add(1);
                }
                Ok(None) => self.dropped = self.dropped.saturating_add(1),
                Err(_) => return,
            }
        }
    }

    /// There may be something to hear, and it may be heard now.
    pub(crate) fn has_more(&self, now: Time) -> bool {
        (self.ready || !self.waiting.is_empty()) && !self.allowance.rests(now)
    }

    /// When there may be something to hear that has to wait for now.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let waits = self.ready || !self.waiting.is_empty();
        waits.then(|| self.allowance.deadline()).flatten()
    }

    /// The next datagram; or none for now, because so many were heard.
    pub(crate) fn receive_in_turn(&mut self, now: Time) -> Option<Datagram> {
        if self.allowance.has(now) { self.receive_at_once(now) } else { None }
    }

    /// The next datagram, if there is one, however many were heard: that counts for those to come.
    pub(crate) fn receive_at_once(&mut self, now: Time) -> Option<Datagram> {
        let before = self.dropped;
        let received = self.receive();
        let read =
            self.dropped.saturating_sub(before).saturating_add(u64::from(received.is_some()));
        self.allowance.take(read, now);
        received
    }

    /// The next datagram, or none for now.
    fn receive(&mut self) -> Option<Datagram> {
        let fetched = self.waiting.pop_front();
        if fetched.is_some() {
            self.moves = self.moves.wrapping_add(1);
            return fetched;
        }
        // Heard to the end: what it took to keep them goes.
        self.waiting = VecDeque::new();
        for _ in 0..limit::NOTIFICATIONS_A_TURN {
            // The socket is read on once a commit has made room.
            if !inbox::has_room() {
                return None;
            }
            match self.once() {
                Ok(Some(datagram)) => return Some(datagram),
                Ok(None) => self.dropped = self.dropped.saturating_add(1),
                Err(_) => {
                    self.ready = false;
                    return None;
                }
            }
        }
        None
    }

    /// What [`Notify::fetch`] and the calls that receive change of its record.
    pub(crate) fn taken(&self) -> (u64, u64) {
        (self.dropped, self.moves)
    }

    /// So many of what comes next were read in the turn before.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Not all that lies there may be heard now.
    pub(crate) fn holds_back(&self, now: Time) -> bool {
        self.deadline().is_some() && self.allowance.rests(now)
    }

    /// A datagram that a crashed image had received and not committed.
    pub(crate) fn received_before(&mut self, pid: i32, bytes: &[u8]) {
        self.waiting.push_back(Datagram { pid, statements: statements(bytes), passed: Vec::new() });
    }

    /// One datagram; `None` for one that is of no use.
    fn once(&self) -> io::Result<Option<Datagram>> {
        let mut bytes = [0u8; limit::NOTIFICATION];
        let most = fd::room();
        let mut receive =
            |from: &OwnedFd| socket::receive_into_inbox(from.as_fd(), &mut bytes, most);
        let received = match self.former.as_ref().map(&mut receive) {
            Some(Ok(received)) => received,
            Some(Err(_)) | None => receive(&self.socket)?,
        };
        let Received { length, truncated, fds, peer } = received;
        // Before it is known whose it is others are cloned, with copies of what is kept here.
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
        // Left behind where it can not be removed: the next start replaces it.
        if self.is_ours && !self.path.starts_with('@') {
            let _ = unlink(self.path.as_str());
        }
    }
}

// How much is heard: a flood of datagrams has a bounded share of init's time. What is not read stays in the
// socket's queue, and its senders wait; nothing is lost. All share it, for whose a datagram is says only
// itself, and the queue is first come, first served.

/// What may still be read.
#[derive(Debug)]
struct Allowance {
    /// Below nothing: what had to be heard at once is made up for.
    left: i64,
    /// Up to when what comes with time was counted.
    at: Time,
    rests_until: Option<Time>,
}

const MOST: i64 = limit::NOTIFICATIONS_A_SECOND as i64;
/// So little may be left: what a quarter of a second brings.
const LEAST: i64 = -MOST / 4;

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { left: MOST, at: Time::ZERO, rests_until: None }
    }
}

impl Allowance {
    /// One more may be read.
    fn has(&mut self, now: Time) -> bool {
        let gained = now.since(self.at).as_nanos().saturating_mul(MOST.unsigned_abs().into());
        let gained = i64::try_from(gained / 1_000_000_000).unwrap_or(MOST);
        if gained > 0 {
            self.left = self.left.saturating_add(gained).min(MOST);
            self.at = now;
        }
        !self.rests(now) && self.left > 0
    }

    /// So many were read, whether there was any left or not.
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

    /// None is read before it has rested.
    fn rests(&self, now: Time) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }

    /// When it has.
    fn deadline(&self) -> Option<Time> {
        self.rests_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn what_was_fetched_early_is_heard_first_and_in_order() {
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
    fn what_is_of_no_use_and_has_no_end_is_not_read_to_its_end() {
        let (ours, theirs) = socket::pair().unwrap();
        drop(theirs);
        let mut notify = Notify::with(ours, "@nobody".to_string());
        notify.fetch();
        assert!(notify.receive().is_none());
        assert_eq!(notify.dropped, 2 * limit::NOTIFICATIONS_A_TURN as u64);
    }

    /// How many are read in so many milliseconds, if there is always one.
    fn read(allowance: &mut Allowance, begin: Time, millis: u64) -> i64 {
        let mut read = 0;
        for milli in 0..millis {
            let now = begin.after(Duration::from_millis(milli));
            while allowance.has(now) {
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
        assert!(!allowance.has(after) && allowance.deadline() > Some(after));
        let in_a_second = read(&mut allowance, after, 1000);
        assert!((7500..=8192).contains(&in_a_second), "{in_a_second}");
        // After a quiet second a burst is read again, and not two.
        let later = after.after(Duration::from_secs(60));
        assert_eq!(read(&mut allowance, later, 1), MOST);
    }

    #[test]
    fn what_had_to_be_heard_at_once_is_made_up_for() {
        let (mut allowance, begin) = (Allowance::default(), Time::from_nanos(1_000_000_000));
        assert_eq!(read(&mut allowance, begin, 1), MOST);
        // Each time somebody ends, ten times in a tenth of a second.
        for time in 0..10 {
            allowance.take(1024, begin.after(Duration::from_millis(10 * time)));
        }
        let after = begin.after(Duration::from_millis(100));
        assert_eq!(read(&mut allowance, after, 100), 0);
        let rested = allowance.deadline().expect("it rests");
        assert!(rested < after.after(Duration::from_millis(400)), "not for longer than its bound");
        assert!(!allowance.rests(rested) && allowance.has(rested), "it has something then");
    }
}
