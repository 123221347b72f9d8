//! The open sockets of one socket unit, whether init polls them, and their counters.

use crate::fd::Foreign;
use crate::state::carried;
use crate::state::carried::KeptFd;
use crate::sys::no_linger::close_without_linger;
use crate::sys::{Pid, socket as raw, wait};
use crate::trigger::Triggers;
use groundstate_units::control::answer::{Accepts, BrokenOff, Connection as Shown};
use groundstate_units::limit as core_limit;
use groundstate_units::machine::event::RunId;
use groundstate_units::text::fields;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::trigger::Socket;
use groundstate_units::trigger::flood::Flood;
use nix::sys::socket::{SockaddrStorage, getpeername, getsockopt, sockopt};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// The sockets of one unit.
#[derive(Serialize, Deserialize)]
pub(crate) struct Listening {
    pub(crate) unit: Name,
    pub(crate) run: RunId,
    pub(crate) socket: Socket,
    pub(crate) fds: Vec<Foreign>,
    /// Their tokens while they are polled.
    #[serde(default)]
    pub(crate) tokens: Vec<usize>,
    #[serde(default)]
    pub(crate) flood: Flood,
    /// The end of a pause because no descriptor was left for a connection.
    pub(crate) rests_until: Option<Time>,
    #[serde(default)]
    pub(crate) counts: Counts,
    /// True if a service has had the sockets since they were last polled.
    #[serde(default)]
    pub(crate) handed: bool,
    /// The child that discards data left by the service. The sockets are polled after it.
    #[serde(with = "carried::maybe_pid")]
    #[serde(default)]
    pub(crate) flushing: Option<Pid>,
}

impl Listening {
    pub(crate) fn new(unit: Name, run: RunId, socket: Socket, fds: Vec<Foreign>) -> Listening {
        let most = if socket.accept { core_limit::CONNECTIONS } else { core_limit::FIRINGS };
        Listening {
            unit,
            run,
            socket,
            fds,
            tokens: Vec::new(),
            flood: Flood::of(most),
            rests_until: None,
            counts: Counts::default(),
            handed: false,
            flushing: None,
        }
    }

    /// Returns true if a connection fires the trigger now.
    pub(crate) fn is_polled(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// The end of a pause after too many firings, or without a descriptor for a connection.
    pub(crate) fn paused_until(&self, now: Time) -> Option<Time> {
        self.flood.rests_until(now).max(self.rests_until.filter(|until| now < *until))
    }

    /// The socket that is polled by this token.
    pub(super) fn polled(&self, token: usize) -> Option<BorrowedFd<'_>> {
        let at = self.tokens.iter().position(|polled| *polled == token)?;
        self.fds.get(at).map(|fd| fd.as_fd())
    }

    /// The state in words.
    pub(crate) fn words(&self, now: Time, wall: impl Fn(Time) -> String) -> String {
        let all: Vec<String> = self.socket.listen.iter().map(ToString::to_string).collect();
        if let Some(until) = self.paused_until(now) {
            return format!("paused until {}, listening on {}", wall(until), all.join(", "));
        }
        let verb = if self.socket.accept {
            "accepting connections on"
        } else if self.is_polled() {
            "waiting for a connection on"
        } else {
            "listening on"
        };
        format!("{verb} {}", all.join(", "))
    }

    pub(crate) fn len(&self) -> usize {
        self.fds.len()
    }
}

impl Triggers {
    /// Handles a reaped child. Returns false if it flushed no sockets.
    pub(crate) fn flush_ended(&mut self, pid: Pid) -> bool {
        let mut all = self.listening.values_mut();
        let Some(one) = all.find(|one| one.flushing == Some(pid)) else { return false };
        one.flushing = None;
        self.unsettled = true;
        true
    }
}

// Connections that init accepts for a socket unit (`socket-accept: yes`), and their peers. Each
// connection belongs to one unit, its place. The machine decides which places are free.

/// The peer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Peer {
    /// TCP.
    Inet(SocketAddr),
    /// A unix socket: uid and pid.
    Local(u32, i32),
    /// Any other kind of socket.
    Unknown,
}

impl Peer {
    pub(crate) fn of(connection: &OwnedFd) -> Peer {
        let address = getpeername::<SockaddrStorage>(connection.as_raw_fd()).ok();
        if let Some(v4) = address.as_ref().and_then(SockaddrStorage::as_sockaddr_in) {
            return Peer::Inet(SocketAddr::new(IpAddr::V4(v4.ip()), v4.port()));
        }
        if let Some(v6) = address.as_ref().and_then(SockaddrStorage::as_sockaddr_in6) {
            // An IPv4 address on a socket for both families is shown as IPv4.
            return Peer::Inet(SocketAddr::new(IpAddr::V6(v6.ip()).to_canonical(), v6.port()));
        }
        match getsockopt(connection, sockopt::PeerCredentials) {
            Ok(found) => Peer::Local(found.uid(), found.pid()),
            Err(_) => Peer::Unknown,
        }
    }

    /// Returns true if both count together for `socket-max-connections-per-source`.
    pub(crate) fn is_of_one_source(self, other: Peer) -> bool {
        match (self, other) {
            (Peer::Inet(one), Peer::Inet(other)) => one.ip() == other.ip(),
            (Peer::Local(one, _), Peer::Local(other, _)) => one == other,
            (Peer::Unknown, Peer::Unknown) => true,
            (Peer::Inet(_) | Peer::Local(_, _) | Peer::Unknown, _) => false,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Inet(address) => write!(f, "{address}"),
            Peer::Local(uid, pid) => write!(f, "uid {uid}, pid {pid}"),
            Peer::Unknown => f.write_str("unknown peer"),
        }
    }
}

/// A connection that belongs to a unit.
#[derive(Serialize, Deserialize)]
pub(crate) struct Connection {
    /// The socket unit.
    pub(crate) socket: Name,
    pub(crate) peer: Peer,
    /// The name in LISTEN_FDNAMES.
    #[serde(default)]
    pub(crate) fd_name: String,
    /// The connection, until the unit's process has it.
    pub(crate) fd: Option<KeptFd<Rc<OwnedFd>>>,
}

/// Counters of a socket's connections.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) last_failure: Option<BrokenOff>,
}

impl Triggers {
    /// The descriptor for the unit's process. Returns `None` if it serves no connection.
    pub(crate) fn connection_of(&self, unit: &Name) -> Option<(String, Rc<OwnedFd>)> {
        let one = self.connections.get(unit)?;
        Some((one.fd_name.clone(), one.fd.as_deref().cloned()?))
    }

    /// Closes init's copy once the unit's process has the connection. So the connection ends when
    /// that process closes it.
    pub(crate) fn close_handed_connection(&mut self, unit: &Name) {
        if let Some(one) = self.connections.get_mut(unit) {
            close_without_linger(|| one.fd = None);
        }
    }

    /// The variables of a unit's commands about the peer.
    pub(crate) fn remote_of(&self, unit: &Name) -> Vec<(String, String)> {
        match self.connections.get(unit).map(|one| one.peer) {
            Some(Peer::Inet(address)) => vec![
                ("REMOTE_ADDR".to_string(), address.ip().to_string()),
                ("REMOTE_PORT".to_string(), address.port().to_string()),
            ],
            Some(Peer::Local(_, _) | Peer::Unknown) | None => Vec::new(),
        }
    }

    /// The peer of each unit that serves a connection.
    pub(crate) fn peers(&self) -> impl Iterator<Item = (&Name, String)> {
        self.connections.iter().map(|(place, one)| (place, one.peer.to_string()))
    }

    /// The connections of this socket unit, for a client.
    pub(crate) fn show_accepts(&self, socket: &Name, counts: &Counts, most: u32) -> Accepts {
        let of_it = self.connections.iter().filter(|(_, one)| one.socket == *socket);
        let shown =
            of_it.map(|(unit, one)| Shown { unit: unit.to_string(), peer: one.peer.to_string() });
        Accepts {
            most,
            accepted: counts.accepted,
            refused: counts.refused,
            failed: counts.failed,
            last_failure: counts.last_failure.clone(),
            connections: shown.collect(),
        }
    }
}

// A child that opens the sockets of a socket unit, and its answer.

/// The child's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The sockets are open, and the message has them.
    Opened,
    /// The socket that failed, and the errno.
    Broken(String, i32),
}

/// A child that works on a unit's sockets. It has the only copy of the other end of `answers`: if
/// that is closed, the child has exited or has no sockets open.
#[derive(Serialize, Deserialize)]
pub(crate) struct Opening {
    pub(crate) unit: Name,
    pub(crate) socket: Socket,
    #[serde(with = "carried::pid")]
    pub(crate) pid: Pid,
    pub(crate) answers: KeptFd<OwnedFd>,
    pub(crate) token: usize,
    /// True if no further answer comes and only the exit is awaited.
    #[serde(default)]
    pub(crate) answered: bool,
    /// True if the machine has stopped the run: `Gone` follows when the child has exited.
    #[serde(default)]
    pub(crate) given_up: bool,
    /// True if the answer was read and stays in the socket until the next commit.
    #[serde(default)]
    pub(crate) has_answer: bool,
}

impl Opening {
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.answers.as_fd()
    }

    pub(crate) fn give_up(&mut self) {
        self.given_up = true;
        // A failed kill means that the child has exited already.
        let _ = wait::kill_made(self.pid, 9);
    }

    /// The answer, if it has arrived; the inner `None` means that it is unreadable. It stays in the
    /// socket until the next commit, so that a new image finds it after a crash.
    pub(crate) fn hear(&self) -> Option<(Option<Answer>, Vec<Foreign>)> {
        let mut buffer = [0; 8192];
        let got = raw::look(self.answers.as_fd(), &mut buffer).ok()?;
        let fds = Foreign::all(got.fds).into_iter().map(Foreign::kept).collect();
        let bytes = buffer.get(..got.length).filter(|bytes| !bytes.is_empty())?;
        Some((fields::decode(bytes).ok(), fds))
    }
}

impl Triggers {
    /// Returns true if a handled answer still lies in a socket.
    pub(crate) fn has_answers(&self) -> bool {
        self.opening.values().any(|opening| opening.has_answer)
    }

    /// Returns true while a child opens the sockets of this run.
    pub(crate) fn is_opening(&self, run: RunId) -> bool {
        self.opening.get(&run).is_some_and(|opening| !opening.answered)
    }

    /// After a commit, removes the handled answers from their sockets, because they hold the passed
    /// descriptors open.
    pub(crate) fn forget_answers(&mut self) {
        for opening in self.opening.values_mut() {
            if std::mem::take(&mut opening.has_answer) {
                let _ = raw::receive_some(opening.answers.as_fd(), &mut [0], 0);
            }
        }
    }

    /// The child that is opening the sockets of this run.
    pub(crate) fn opener(&mut self, run: RunId) -> Option<&mut Opening> {
        self.opening.get_mut(&run).filter(|opening| !opening.answered)
    }
}
