//! Notes by the turns of the loop in which they were made ([`super::notes`]), as [`crate::replay`] puts them.

use super::notes::{Note, What};
use crate::clock;
use std::collections::BTreeMap;

/// Those of each, in order.
pub(crate) fn of(notes: Vec<Note>) -> Vec<Vec<Note>> {
    let first = notes.first().map_or(0, |note| note.turn);
    let mut turns: BTreeMap<i32, Vec<Note>> = BTreeMap::new();
    for note in notes {
        turns.entry(after(first, note.turn)).or_default().push(note);
    }
    turns.into_values().collect()
}

/// By how many the one turn is after the other. They begin anew behind the highest there is.
fn after(one: u32, other: u32) -> i32 {
    other.wrapping_sub(one).cast_signed()
}

/// Whichever is after the other.
pub(super) fn later(one: u32, other: u32) -> u32 {
    if after(one, other) > 0 { other } else { one }
}

/// Of all turns there were, that which was noted like this and is nearest to this one.
pub(crate) fn nearest(to: u64, noted: u32) -> u64 {
    let low = u32::try_from(to & u64::from(u32::MAX)).unwrap_or(0);
    to.saturating_add_signed(after(low, noted).into())
}

/// For each turn, by when what those who ended in it had left had begun. Of what they had left some may have
/// ended since, and have left others itself: by the time of which that was found whose it is nothing tells any
/// more. `is_known`: of a run, when the state was kept.
pub(crate) fn left_by(turns: &[Vec<Note>], is_known: impl Fn(i32) -> bool) -> Vec<u64> {
    let now = clock::ticks();
    let (mut left_by, mut later) = (Vec::new(), 0u64);
    for notes in turns.iter().rev() {
        let ends = notes.iter().filter(|note| matches!(note.what, What::Ended(_)));
        // What nobody has noted the kernel had just handed over.
        let by = |note: &Note| note.reaped.map_or(now, |reaped| reaped.by);
        left_by.push(ends.clone().map(by).fold(later, u64::max));
        let is_left = |note: &&Note| {
            let is_made = note.reaped.is_some_and(|reaped| reaped.is_made);
            !is_made && !is_known(note.pid)
        };
        later = ends.filter(is_left).map(by).fold(later, u64::max);
    }
    left_by.reverse();
    left_by
}

#[cfg(test)]
mod tests {
    use super::super::notes::{Past, Reaped};
    use super::*;
    use groundstate_units::machine::event::RunId;
    use groundstate_units::spec::Exit;
    use groundstate_units::time::Time;

    #[test]
    fn turns_are_in_order_where_their_numbers_begin_anew() {
        let note = |turn| {
            let what = What::Seen(RunId(1));
            Note { what, pid: 0, at: Time::ZERO, turn, reaped: None }
        };
        let noted = [u32::MAX - 1, u32::MAX, 0, u32::MAX, 0, 1];
        let turns = of(noted.map(note).to_vec());
        let numbers = turns.iter().map(|notes| (notes[0].turn, notes.len()));
        let expected = [(u32::MAX - 1, 1), (u32::MAX, 2), (0, 2), (1, 1)];
        assert_eq!(numbers.collect::<Vec<_>>(), expected);
        let past = Past { notes: noted.map(note).to_vec(), ..Past::default() };
        assert_eq!(past.end().1, Some(1));
        assert_eq!(Past::default().end().1, None);
        assert_eq!(nearest(u32::MAX.into(), 1), 1 << 32 | 1);
        assert_eq!((nearest(1 << 32, u32::MAX), nearest(1 << 31, 7)), (u32::MAX.into(), 7));
        assert_eq!((nearest(5, 9), nearest(9, 5), nearest(0, u32::MAX)), (9, 5, 0));
    }

    #[test]
    fn what_was_left_had_begun_by_the_end_of_who_left_it_or_of_who_had_been_left_before() {
        let note = |pid, what| Note { what, pid, at: Time::ZERO, turn: 1, reaped: None };
        let ended = |pid: i32, by: u64, is_made: bool| {
            let reaped = Some(Reaped { by, is_made });
            vec![Note { reaped, ..note(pid, What::Ended(Exit::Code(0))) }]
        };
        let of = |turns: &[Vec<Note>]| left_by(turns, |pid| pid == 7);
        // A helper's end, a line's, and that of one whose run is known.
        assert_eq!(
            of(&[ended(1, 10, true), ended(2, 20, true), ended(7, 30, false)]),
            [10, 20, 30]
        );
        assert_eq!(of(&[vec![note(1, What::Seen(RunId(1)))], ended(1, 10, true)]), [0, 10]);
        // One that was left to init as the first ended, and has left others.
        let left = [ended(1, 10, true), ended(3, 20, false), ended(2, 30, true)];
        assert_eq!(of(&left), [20, 20, 30]);
        let in_hand = vec![note(4, What::Ended(Exit::Code(0)))];
        assert!(of(&[ended(1, 10, true), in_hand]).iter().all(|by| *by > 30));
    }
}
