//! Limits TLS handshakes in progress.
//! Any peer can start one without a certificate and stall it. When there are too many, the oldest
//! one is dropped for a new one: an honest handshake takes milliseconds.

use super::connection_limits::{MOST_CONNECTIONS, Peer};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Maximum per listener: a quarter of its connections.
pub const MOST: usize = MOST_CONNECTIONS / 4;
/// Maximum per address.
pub const MOST_OF_ONE: usize = 32;

/// Counts handshakes; clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Handshakes {
    under_way: Arc<Mutex<UnderWay>>,
}

#[derive(Debug, Default)]
struct UnderWay {
    started: u64,
    count: usize,
    /// Handshakes per peer, in the order of their start. Dropping a sender ends its handshake.
    by: BTreeMap<Peer, BTreeMap<u64, oneshot::Sender<()>>>,
}

/// A handshake, counted until it is dropped.
#[derive(Debug)]
pub struct Handshake {
    all: Handshakes,
    peer: Peer,
    number: u64,
    may_continue: oneshot::Receiver<()>,
}

impl UnderWay {
    /// Returns the handshake to drop before this peer starts one more.
    fn handshake_to_drop(&self, peer: Peer) -> Option<(Peer, u64)> {
        let oldest = |of: &BTreeMap<u64, oneshot::Sender<()>>| of.keys().next().copied();
        let own = self.by.get(&peer).filter(|of| of.len() >= MOST_OF_ONE);
        if let Some(own) = own {
            return Some((peer, oldest(own)?));
        }
        if self.count < MOST {
            return None;
        }
        // The oldest handshake of the peers that have the most.
        let first = |(peer, of): (&Peer, _)| Some((*peer, oldest(of)?));
        let most = self.by.values().map(BTreeMap::len).max()?;
        let fullest = self.by.iter().filter(|(_, of)| of.len() == most);
        fullest.filter_map(first).min_by_key(|(_, number)| *number)
    }

    fn remove(&mut self, peer: Peer, number: u64) {
        let Some(of) = self.by.get_mut(&peer) else { return };
        if of.remove(&number).is_some() {
            self.count -= 1;
        }
        if of.is_empty() {
            self.by.remove(&peer);
        }
    }
}

impl Handshakes {
    /// Starts a handshake, and drops another one if the limit is reached.
    pub fn begin(&self, peer: Peer) -> Handshake {
        let mut all = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((peer, number)) = all.handshake_to_drop(peer) {
            all.remove(peer, number);
        }
        let (held, may_continue) = oneshot::channel();
        let number = all.started;
        all.started += 1;
        all.count += 1;
        all.by.entry(peer).or_default().insert(number, held);
        Handshake { all: self.clone(), peer, number, may_continue }
    }
}

impl Handshake {
    /// Completes when this handshake must end for another one.
    pub async fn until_displaced(&mut self) {
        let _ = (&mut self.may_continue).await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut all = self.all.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(self.peer, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> Peer {
        Peer::Address([10, 0, 0, number].into())
    }

    fn was_displaced(one: &mut Handshake) -> bool {
        matches!(one.may_continue.try_recv(), Err(oneshot::error::TryRecvError::Closed))
    }

    #[test]
    fn oldest_handshake_of_a_peer_over_its_limit_is_dropped() {
        let all = Handshakes::default();
        let mut other = all.begin(peer(2));
        let mut own: Vec<_> = (0..=MOST_OF_ONE).map(|_| all.begin(peer(1))).collect();
        let gone: Vec<bool> = own.iter_mut().map(was_displaced).collect();
        assert!(gone[0] && !gone[1..].contains(&true), "{gone:?}");
        assert!(!was_displaced(&mut other));
        drop((own, other));
        let left = all.under_way.lock().unwrap();
        assert!(left.by.is_empty() && left.count == 0, "no peer is remembered");
    }

    #[test]
    fn over_the_total_limit_the_peer_with_most_handshakes_loses_its_oldest() {
        let all = Handshakes::default();
        let mut alone = all.begin(peer(0));
        let peers = MOST.div_ceil(MOST_OF_ONE);
        let crowd = (1..=peers).flat_map(|number| (0..MOST_OF_ONE).map(move |_| number));
        let crowd: Vec<u8> =
            crowd.take(MOST - 1).map(|number| number.try_into().unwrap()).collect();
        let mut crowd: Vec<_> = crowd.into_iter().map(|number| all.begin(peer(number))).collect();
        assert!(!crowd.iter_mut().any(was_displaced), "there was room for all");
        let mut comes = all.begin(peer(100));
        let gone: Vec<bool> = crowd.iter_mut().map(was_displaced).collect();
        assert!(gone[0] && !gone[1..].contains(&true), "{gone:?}");
        assert!(!was_displaced(&mut comes) && !was_displaced(&mut alone));
    }
}
