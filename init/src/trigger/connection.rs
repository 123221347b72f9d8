//! Connections that init accepts for a socket unit (`socket-accept: yes`), and the process at their other end.
//! Each connection belongs to one unit, its place. The machine decides which places are free.

use super::Triggers;
use crate::state::carried::KeptFd;
use crate::sys::no_linger::close_without_linger;
use groundstate_units::control::answer::BrokenOff;
use groundstate_units::control::answer::{Accepts, Connection as Shown};
use groundstate_units::text::name::Name;
use nix::sys::socket::{SockaddrStorage, getpeername, getsockopt, sockopt};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

/// Who is at the other end.
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
            // Of a socket for both families: IPv4 is shown as what it is.
            return Peer::Inet(SocketAddr::new(IpAddr::V6(v6.ip()).to_canonical(), v6.port()));
        }
        match getsockopt(connection, sockopt::PeerCredentials) {
            Ok(found) => Peer::Local(found.uid(), found.pid()),
            Err(_) => Peer::Unknown,
        }
    }

    /// They count together for `socket-max-connections-per-source`.
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
            Peer::Unknown => f.write_str("somebody"),
        }
    }
}

/// One that is a unit's.
#[derive(Serialize, Deserialize)]
pub(crate) struct Connection {
    /// The socket unit.
    pub(crate) socket: Name,
    pub(crate) peer: Peer,
    /// As in LISTEN_FDNAMES.
    #[serde(default)]
    pub(crate) fd_name: String,
    /// Until the unit's process has it.
    pub(crate) fd: Option<KeptFd<Rc<OwnedFd>>>,
}

/// What has become of a socket's connections.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) last_failure: Option<BrokenOff>,
}

impl Triggers {
    /// What the unit's process is handed; None: it serves no connection.
    pub(crate) fn connection_of(&self, unit: &Name) -> Option<(String, Rc<OwnedFd>)> {
        let one = self.connections.get(unit)?;
        Some((one.fd_name.clone(), one.fd.as_deref().cloned()?))
    }

    /// The unit's process has it: closed here, so that its end is the process's.
    pub(crate) fn connection_handed(&mut self, unit: &Name) {
        if let Some(one) = self.connections.get_mut(unit) {
            close_without_linger(|| one.fd = None);
        }
    }

    /// What the lines of a unit are told of the other end.
    pub(crate) fn remote_of(&self, unit: &Name) -> Vec<(String, String)> {
        match self.connections.get(unit).map(|one| one.peer) {
            Some(Peer::Inet(address)) => vec![
                ("REMOTE_ADDR".to_string(), address.ip().to_string()),
                ("REMOTE_PORT".to_string(), address.port().to_string()),
            ],
            Some(Peer::Local(_, _) | Peer::Unknown) | None => Vec::new(),
        }
    }

    /// For each unit that serves a connection, whose it is.
    pub(crate) fn peers(&self) -> impl Iterator<Item = (&Name, String)> {
        self.connections.iter().map(|(place, one)| (place, one.peer.to_string()))
    }

    /// The connections of this socket unit, as a client is shown them.
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
