//! All notes that are left in the ring, whatever the state knew of: for an init that has lost its state
//! ([`crate::anew`]). What is noted, and how it is read entry by entry, is [`super::notes`]'s.

use super::done;
use super::notes::{self, BYTES, Begun, ENTRIES, Hand, Note, Past, What};
use crate::process;
use crate::sys::Pid;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;
use std::collections::BTreeMap;

/// Numbers above this are no note's: a damaged entry must not use up those that come.
const HIGHEST: u64 = u64::MAX / 2;

/// What is left.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    /// All of it, in order, and behind what a next image notes.
    pub(crate) past: Past,
    /// Processes that were begun and of which no end is known, by pid.
    pub(crate) alive: BTreeMap<i32, Begun>,
    /// By unit: the line that was begun last and has ended, and how.
    pub(crate) ended: BTreeMap<u32, (Begun, Exit)>,
    /// Scripts that are done, by unit ([`done`]). None of a unit of which a later run was begun.
    pub(crate) done: BTreeMap<u32, (RunId, Exit)>,
    /// The highest number of a run that is noted.
    pub(crate) highest: u64,
    /// Bit n-1: signal n was not dealt with.
    pub(crate) rung: u64,
    /// Nothing was noted over what was noted before: who is not in it was not begun.
    pub(crate) is_whole: bool,
}

impl Remains {
    /// Total: any bytes may be there.
    pub(crate) fn read(bytes: &[u8]) -> Remains {
        let numbers = (1..=ENTRIES).filter_map(|place| {
            let seq = notes::number_at(bytes, place)?;
            (seq > 0 && seq < HIGHEST && notes::place(seq) == notes::place(place)).then_some(seq)
        });
        let mut found: BTreeMap<u64, Note> = BTreeMap::new();
        let (mut first, mut last) = (u64::MAX, 0);
        for seq in numbers {
            (first, last) = (first.min(seq), last.max(seq));
            if let Some((Some(note), _)) = notes::one(bytes, seq) {
                found.insert(seq, note);
            }
        }
        let rung = notes::rung(bytes);
        let hand = Hand::of(bytes);
        let notes: Vec<Note> = found.into_values().chain(hand.as_notes()).collect();
        let done = done::read(bytes.get(notes::DONE..).unwrap_or_default());
        let highest = done.values().map(|(run, _)| run.0).fold(0, u64::max);
        let is_whole = bytes.len() >= BYTES && (last == 0 || first == 1);
        let mut remains = Remains { done, highest, rung, is_whole, ..Remains::default() };
        for note in &notes {
            match &note.what {
                What::Begun(begun) => remains.begun(note.pid, begun),
                What::Opened(opened) => remains.highest = remains.highest.max(opened.run.0),
                What::Ended(exit) => remains.has_ended(note.pid, *exit),
                What::Heard(_) | What::Wished(_) | What::Seen(_) => {}
            }
        }
        remains.past = Past { notes, known: last, last, hand, ..Past::default() };
        remains
    }

    fn begun(&mut self, pid: i32, begun: &Begun) {
        self.highest = self.highest.max(begun.run.0);
        self.ended.remove(&begun.unit);
        if self.done.get(&begun.unit).is_some_and(|(run, _)| *run < begun.run) {
            self.done.remove(&begun.unit);
        }
        if pid > 0 {
            self.alive.insert(pid, begun.clone());
        }
    }

    /// This process has ended so.
    pub(crate) fn has_ended(&mut self, pid: i32, exit: Exit) {
        if let Some(begun) = self.alive.remove(&pid) {
            self.ended.insert(begun.unit, (begun, exit));
        }
    }

    /// A child of init that is neither noted nor one of its own helpers, where some notes are lost.
    pub(crate) fn stranger(&self) -> Option<i32> {
        let is_known = |pid: &i32| self.is_whole || self.alive.contains_key(pid);
        let lives = |pid: Pid| process::stat(pid).is_some_and(|stat| !stat.ended);
        process::children().into_iter().filter(|pid| !is_known(pid)).find(|pid| {
            let pid = Pid::from_raw(*pid);
            lives(pid) && process::runs_another_program(pid)
        })
    }

    /// What has been noted of this process since it was begun.
    pub(crate) fn of(&self, pid: i32) -> impl Iterator<Item = &What> {
        let notes = &self.past.notes;
        let began = |note: &Note| note.pid == pid && matches!(note.what, What::Begun(_));
        let from = notes.iter().rposition(began).unwrap_or(notes.len());
        let is_its = move |note: &&Note| note.pid == pid || matches!(note.what, What::Seen(_));
        notes.iter().skip(from).filter(is_its).map(|note| &note.what)
    }
}

#[cfg(test)]
mod tests {
    use super::super::notes::tests::written;
    use super::super::notes::{Kind, place};
    use super::*;
    use crate::sys::notes as writer;

    #[test]
    fn all_that_the_ring_holds_is_read() {
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
        damaged[place(2)] = 9;
        let read = Remains::read(&damaged);
        assert_eq!((read.past.notes.len(), read.past.last), (1, 1));
        for length in [0, 1, place(1) + 3] {
            assert!(Remains::read(&damaged[..length]).past.notes.is_empty());
        }
        assert!(Remains::read(&vec![255; BYTES]).past.notes.is_empty());
    }
}
