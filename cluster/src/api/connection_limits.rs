//! Limits the connections of each listener, and the connections and streams of each peer. So no
//! peer can take all slots. [`super::change_stream`] has the streams.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of connections of a listener; further ones wait to be accepted.
pub const MOST_CONNECTIONS: usize = 512;
/// Maximum number of connections of one address, or of one user on a unix socket.
pub const MOST_OF_ONE: usize = 128;

/// The peer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// A TCP peer.
    Address(IpAddr),
    /// Over a unix socket.
    User(u32),
}

impl Peer {
    /// All IPv6 addresses with the same 64-bit prefix count as one peer, and an IPv4-mapped address
    /// as its IPv4 address.
    pub fn of(address: IpAddr) -> Peer {
        Peer::Address(match address.to_canonical() {
            IpAddr::V6(six) => {
                let network = u128::from(six) >> 64 << 64;
                IpAddr::V6(network.into())
            }
            four @ IpAddr::V4(_) => four,
        })
    }
}

/// Connections per peer; clones share the counts.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    most: usize,
    by: Arc<Mutex<BTreeMap<Peer, usize>>>,
}

/// A connection, counted until it is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    limits: ConnectionLimits,
    peer: Peer,
}

impl ConnectionLimits {
    /// Allows each peer at most this many connections.
    pub fn with(most: usize) -> ConnectionLimits {
        ConnectionLimits { most, by: Arc::default() }
    }

    /// Counts a connection. Returns `None` if the peer has reached its limit.
    pub fn enter(&self, peer: Peer) -> Option<ConnectionSlot> {
        let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by.entry(peer).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(ConnectionSlot { limits: self.clone(), peer })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut by = self.limits.by.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                by.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_peer_cannot_use_the_connections_of_another() {
        let limits = ConnectionLimits::with(MOST_OF_ONE);
        let (near, far) = (Peer::User(1), Peer::Address([10, 0, 0, 1].into()));
        let mut slots: Vec<_> = std::iter::from_fn(|| limits.enter(near)).collect();
        assert_eq!(slots.len(), MOST_OF_ONE);
        assert!(limits.enter(far).is_some());
        slots.pop();
        assert!(limits.enter(near).is_some());
        drop(slots);
        assert!(limits.by.lock().unwrap().is_empty(), "no peer is remembered");
    }

    #[test]
    fn addresses_of_one_ipv6_prefix_count_as_one_peer() {
        let of = |text: &str| Peer::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1:2:3"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
