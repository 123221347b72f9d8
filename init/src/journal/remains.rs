//! All notes that are left in the ring, whatever the state knew of: for an init that has lost its state
//! ([`crate::anew`]). What is noted, and how it is read entry by entry, is [`super::notes`]'s.

use super::notes::{self, Begun, ENTRIES, Hand, Note, Past, What};
use groundstate_units::spec::Exit;
use std::collections::BTreeMap;

/// Numbers above this are no note's: a damaged entry must not use up those that come.
const HIGHEST: u64 = u64::MAX / 2;

/// What is left.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    /// All of it, in order, and behind what a next image notes.
    pub(crate) past: Past,
    /// No note was ever overwritten: what is not there never was.
    pub(crate) is_whole: bool,
    /// Bit n-1: signal n was not dealt with.
    pub(crate) rung: u64,
}

impl Remains {
    /// Total: any bytes may be there.
    pub(crate) fn read(bytes: &[u8]) -> Remains {
        let numbers = (1..=ENTRIES).filter_map(|place| {
            let seq = notes::number_at(bytes, place)?;
            (seq > 0 && seq < HIGHEST && notes::place(seq) == notes::place(place)).then_some(seq)
        });
        let mut found: BTreeMap<u64, Note> = BTreeMap::new();
        let mut last = 0;
        for seq in numbers {
            last = last.max(seq);
            if let Some((Some(note), _)) = notes::one(bytes, seq) {
                found.insert(seq, note);
            }
        }
        let is_whole = matches!(notes::number_at(bytes, 1), Some(0 | 1));
        let rung = notes::rung(bytes);
        let hand = Hand::of(bytes);
        let notes = found.into_values().chain(hand.as_notes()).collect();
        Remains { past: Past { notes, known: last, last, hand, ..Past::default() }, is_whole, rung }
    }

    /// Processes that were begun and of which no end is known, by pid.
    pub(crate) fn alive(&self) -> BTreeMap<i32, &Begun> {
        let mut alive = BTreeMap::new();
        for note in &self.past.notes {
            match &note.what {
                What::Begun(begun) if note.pid > 0 => drop(alive.insert(note.pid, begun)),
                What::Ended(_) => drop(alive.remove(&note.pid)),
                What::Begun(_)
                | What::Heard(_)
                | What::Wished(_)
                | What::Seen(_)
                | What::Opened(_) => {}
            }
        }
        alive
    }

    /// Processes of which begin and end are known, in order.
    pub(crate) fn ended(&self) -> Vec<(&Begun, Exit)> {
        let (mut begun, mut ended) = (BTreeMap::new(), Vec::new());
        for note in &self.past.notes {
            match &note.what {
                What::Begun(of) if note.pid > 0 => drop(begun.insert(note.pid, of)),
                What::Ended(exit) => ended.extend(begun.remove(&note.pid).map(|of| (of, *exit))),
                What::Begun(_)
                | What::Heard(_)
                | What::Wished(_)
                | What::Seen(_)
                | What::Opened(_) => {}
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::super::notes::tests::written;
    use super::super::notes::{BYTES, Kind, place};
    use super::*;
    use crate::sys::notes as writer;

    #[test]
    fn all_that_the_ring_holds_is_read_and_whether_anything_is_missing() {
        let few = written(|| {
            writer::put_text(Kind::Seen, &9u64.to_ne_bytes());
            writer::known(1);
            writer::put_text(Kind::Seen, &8u64.to_ne_bytes());
        });
        let read = Remains::read(&few);
        assert_eq!((read.past.notes.len(), read.past.last, read.is_whole), (2, 2, true));
        let many = written(|| {
            for _ in 0..ENTRIES {
                writer::put_text(Kind::Seen, &1u64.to_ne_bytes());
            }
            writer::known(ENTRIES);
            writer::put_text(Kind::Seen, &2u64.to_ne_bytes());
        });
        let read = Remains::read(&many);
        assert_eq!(read.past.notes.len() as u64, ENTRIES);
        assert_eq!((read.past.last, read.is_whole), (ENTRIES + 1, false));
        // A number that no entry there can have is no note's.
        let mut damaged = few;
        damaged[place(2) + 6] = 1;
        let read = Remains::read(&damaged);
        assert_eq!((read.past.notes.len(), read.past.last), (1, 1));
        for length in [0, 1, place(1) + 3] {
            assert!(Remains::read(&damaged[..length]).past.notes.is_empty());
        }
        assert!(Remains::read(&vec![255; BYTES]).past.notes.is_empty());
    }
}
