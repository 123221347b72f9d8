//! How many connections, or streams, one side may hold at once, so that nobody fills all places
//! alone. How many there are in all is [`super::listener`]'s and [`super::change_stream`]'s.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Connections from one address, or of one user on a unix socket.
pub const MOST_OF_ONE: usize = 128;

/// From where a connection comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Over TCP.
    Address(IpAddr),
    /// Over a unix socket.
    User(u32),
}

/// Who is there; clones count together.
#[derive(Clone, Debug)]
pub struct Crowd {
    most: usize,
    by: Arc<Mutex<BTreeMap<Side, usize>>>,
}

/// One connection; it counts until it is dropped.
#[derive(Debug)]
pub struct Seat {
    crowd: Crowd,
    side: Side,
}

impl Crowd {
    /// In which one side has so many places at most.
    pub fn with(most: usize) -> Crowd {
        Crowd { most, by: Arc::default() }
    }

    /// `None`: that side has enough of them.
    pub fn enter(&self, side: Side) -> Option<Seat> {
        let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by.entry(side).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Seat { crowd: self.clone(), side })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut by = self.crowd.by.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by.get_mut(&self.side) {
            *count -= 1;
            if *count == 0 {
                by.remove(&self.side);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_side_can_not_take_the_places_of_another() {
        let crowd = Crowd::with(MOST_OF_ONE);
        let (near, far) = (Side::User(1), Side::Address([10, 0, 0, 1].into()));
        let mut seats: Vec<_> = std::iter::from_fn(|| crowd.enter(near)).collect();
        assert_eq!(seats.len(), MOST_OF_ONE);
        assert!(crowd.enter(far).is_some());
        seats.pop();
        assert!(crowd.enter(near).is_some());
        drop(seats);
        assert!(crowd.by.lock().unwrap().is_empty(), "nobody is remembered");
    }
}
