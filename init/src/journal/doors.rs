//! Whose each socket is that init has open for a socket unit: a service may have stored one of the same
//! address. An init whose state is lost tells them by it, also those of a unit whose file is away. Written
//! behind the notes ([`super::notes::DOORS`]), in a place of its own and each time it has become another;
//! descriptors keep their numbers over a crash. Without it they are told by their addresses.
//!
//! The place is as [`super::frame::placed`] has it. Reading is total: any bytes may be there.

use super::frame;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of it: more than [`crate::limit::SOCKETS`] take, each of a unit of its own.
pub(crate) const BYTES: usize = 32 * 1024;

/// Number and identity of each, by unit, as a note tells it.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Doors {
    of: BTreeMap<u64, Vec<(i32, u64)>>,
}

impl Doors {
    /// One more.
    pub(crate) fn add(&mut self, unit: u64, number: i32, identity: u64) {
        self.of.entry(unit).or_default().push((number, identity));
    }

    /// Whose it is.
    pub(crate) fn whose(&self, number: i32, identity: u64) -> Option<u64> {
        let is_it = |one: &(i32, u64)| *one == (number, identity);
        self.of.iter().find(|(_, all)| all.iter().any(is_it)).map(|(unit, _)| *unit)
    }

    /// What is written; nothing is known by what is too long.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let bytes = frame::placed(&postcard::to_allocvec(self).unwrap_or_default());
        if bytes.len() <= BYTES { bytes } else { frame::placed(&[]) }
    }

    /// None: it is not there, or damaged.
    pub(crate) fn read(bytes: &[u8]) -> Option<Doors> {
        postcard::from_bytes(frame::in_place(bytes)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit;

    fn doors(count: usize) -> Doors {
        let mut doors = Doors::default();
        let numbers = (0..i32::try_from(count).unwrap()).map(|at| i32::MAX - at);
        numbers.zip(0..).for_each(|(number, at)| doors.add(u64::MAX - at, number, u64::MAX));
        doors
    }

    #[test]
    fn whose_a_socket_is_is_read_as_it_was_written_or_not_at_all() {
        for count in [0, 1, limit::SOCKETS] {
            let doors = doors(count);
            let mut bytes = doors.bytes();
            bytes.resize(BYTES, 0);
            assert_eq!(Doors::read(&bytes).as_ref(), Some(&doors));
            bytes[8] ^= 1;
            assert_eq!(Doors::read(&bytes), None);
        }
        assert_eq!(Doors::read(&doors(limit::SOCKETS * 2).bytes()), None);
        assert_eq!((Doors::read(&[0; BYTES]), Doors::read(&[255; BYTES])), (None, None));
        let doors = doors(2);
        let whose = |number, identity| doors.whose(number, identity);
        assert_eq!(whose(i32::MAX - 1, u64::MAX), Some(u64::MAX - 1));
        assert_eq!((whose(i32::MAX, 7), whose(7, u64::MAX)), (None, None));
    }
}
