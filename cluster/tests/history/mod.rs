//! What clients asked of one unit and were answered, and the question whether that can be: is
//! there an order, in which each operation happens at one moment between its question and its
//! answer, that explains every answer? (Wing and Gong's search, with a memory of what led
//! nowhere.) Knows nothing of HTTP; the tests do.

use std::collections::BTreeSet;

/// A unit as clients see it: which file, and what is wished for it.
pub(crate) type State = Option<(u8, u8)>;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A PUT with a file and a wish.
    Put(u8, u8),
    /// A PUT with a wish alone.
    Wish(u8),
    Delete,
    Get,
}

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Made, or made anew: 201.
    Made,
    /// Done: 204.
    Done,
    /// There is no such unit: 404 or 409.
    Missing,
    /// What a GET shows.
    Shown(State),
    /// Nobody knows whether it was done, and it may be done later yet.
    Unknown,
}

/// One operation; the times are those of one clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) deed: Deed,
    pub(crate) outcome: Outcome,
    pub(crate) asked: u64,
    pub(crate) answered: u64,
}

/// The state after a deed, and how it is answered.
fn after(state: State, deed: Deed) -> (State, Outcome) {
    match (deed, state) {
        (Deed::Put(file, wish), Some((old, _))) if old == file => {
            (Some((file, wish)), Outcome::Done)
        }
        (Deed::Put(file, wish), _) => (Some((file, wish)), Outcome::Made),
        (Deed::Wish(wish), Some((file, _))) => (Some((file, wish)), Outcome::Done),
        (Deed::Wish(_) | Deed::Delete, None) => (None, Outcome::Missing),
        (Deed::Delete, Some(_)) => (None, Outcome::Done),
        (Deed::Get, state) => (state, Outcome::Shown(state)),
    }
}

/// `sure`: each answer tells what the deed itself did. Without it, a deed whose write got lost
/// on the way may be told as done when it was another client that did the very same.
fn explains(told: Outcome, is: Outcome, deed: Deed, sure: bool) -> bool {
    let alike = match deed {
        Deed::Put(..) => matches!((told, is), (Outcome::Made, Outcome::Done)),
        Deed::Delete => matches!((told, is), (Outcome::Done, Outcome::Missing)),
        Deed::Wish(_) | Deed::Get => false,
    };
    told == Outcome::Unknown || told == is || (!sure && alike)
}

/// Some order explains it all; the unit is not there at first.
pub(crate) fn holds(history: &[Operation], sure: bool) -> bool {
    let mut dead: BTreeSet<(Vec<bool>, State)> = BTreeSet::new();
    let mut open = vec![(vec![false; history.len()], None)];
    while let Some((done, state)) = open.pop() {
        let left = || history.iter().enumerate().filter(|(at, _)| !done[*at]);
        if left().all(|(_, one)| one.outcome == Outcome::Unknown) {
            return true;
        }
        // Whatever was answered first must have happened before what was asked after that.
        let known = left().filter(|(_, one)| one.outcome != Outcome::Unknown);
        let until = known.map(|(_, one)| one.answered).min().unwrap_or(u64::MAX);
        for (at, one) in left().filter(|(_, one)| one.asked < until) {
            let (next, is) = after(state, one.deed);
            if explains(one.outcome, is, one.deed, sure) {
                let mut more = done.clone();
                more[at] = true;
                if dead.insert((more.clone(), next)) {
                    open.push((more, next));
                }
            }
        }
    }
    false
}
