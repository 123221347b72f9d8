//! Notes by the turns of the loop in which they were made ([`super::notes`]), as [`crate::replay`] puts them.

use super::notes::{Note, What};
use crate::cgroup::Look;
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

/// Whose what those who ended in this turn had left is: it was found out then, or the last of them was reaped and
/// init crashed before that. What nobody has noted the kernel had just handed over.
pub(crate) fn left_by(turn: &[Note]) -> Look {
    let ends = turn.iter().filter(|note| matches!(note.what, What::Ended(_)));
    let by = |note: &Note| match note.reaped {
        Some(reaped) => (!reaped.is_looked_after).then_some(reaped.by),
        None => Some(clock::ticks()),
    };
    ends.filter_map(by).max().map_or(Look::Before, Look::BegunBy)
}

#[cfg(test)]
mod tests {
    use super::super::notes::{Past, Reaped};
    use super::*;
    use groundstate_units::machine::event::RunId;
    use groundstate_units::spec::Exit;
    use groundstate_units::text::time::Time;

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
    fn what_was_left_is_looked_for_where_nobody_had_found_out_whose_it_is() {
        let note = |what| Note { what, pid: 1, at: Time::ZERO, turn: 1, reaped: None };
        let ended = |by: u64, is_looked_after: bool| {
            let reaped = Some(Reaped { by, is_looked_after });
            Note { reaped, ..note(What::Ended(Exit::Code(0))) }
        };
        let seen = || note(What::Seen(RunId(1)));
        assert_eq!(left_by(&[seen()]), Look::Before);
        assert_eq!(left_by(&[ended(10, true), ended(20, true)]), Look::Before);
        assert_eq!(left_by(&[ended(10, false), ended(20, false), seen()]), Look::BegunBy(20));
        let in_hand = left_by(&[ended(30, true), note(What::Ended(Exit::Code(0)))]);
        assert!(matches!(in_hand, Look::BegunBy(by) if by > 30), "{in_hand:?}");
    }
}
