//! Notes by the turns of the loop in which they were made ([`super::notes`]), as [`crate::replay`] puts them.

use super::notes::{Note, What};
use crate::clock;
use std::collections::BTreeMap;

/// Those of each, in order.
pub(crate) fn of(notes: Vec<Note>) -> Vec<Vec<Note>> {
    let mut turns: BTreeMap<u32, Vec<Note>> = BTreeMap::new();
    for note in notes {
        turns.entry(note.turn).or_default().push(note);
    }
    turns.into_values().collect()
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
    use super::super::notes::Reaped;
    use super::*;
    use groundstate_units::machine::event::RunId;
    use groundstate_units::spec::Exit;
    use groundstate_units::time::Time;

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
