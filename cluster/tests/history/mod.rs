//! Linearizability checker for histories of one unit: is there an order that explains every answer,
//! with each operation at a moment between request and answer? It is Wing and Gong's search with a
//! memory of visited states. It knows nothing of HTTP.

use std::collections::BTreeSet;

/// A unit as clients see it: its file and its desired state.
pub(crate) type State = Option<(u8, u8)>;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A PUT with a file and a desired state.
    Put(u8, u8),
    /// A PUT with only a desired state.
    Wish(u8),
    Delete,
    Get,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Created or re-created: 201.
    Made,
    /// Done: 204.
    Done,
    /// No such unit: 404 or 409.
    Missing,
    /// The contents of a GET.
    Shown(State),
    /// Unknown; it may still be executed later.
    Unknown,
}

/// An operation; all times are of one clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) deed: Deed,
    pub(crate) outcome: Outcome,
    pub(crate) asked: u64,
    pub(crate) answered: u64,
}

/// Returns the state after an operation, and its answer.
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

/// With `sure`, each answer is about its own operation. Otherwise a lost write may be reported as
/// done if another client did exactly the same.
fn explains(answer: Outcome, is: Outcome, deed: Deed, sure: bool) -> bool {
    let alike = match deed {
        Deed::Put(..) => matches!((answer, is), (Outcome::Made, Outcome::Done)),
        Deed::Delete => matches!((answer, is), (Outcome::Done, Outcome::Missing)),
        Deed::Wish(_) | Deed::Get => false,
    };
    answer == Outcome::Unknown || answer == is || (!sure && alike)
}

/// Returns true if some order explains the history; the unit does not exist at first.
pub(crate) fn holds(history: &[Operation], sure: bool) -> bool {
    let mut dead: BTreeSet<(Vec<bool>, State)> = BTreeSet::new();
    let mut open = vec![(vec![false; history.len()], None)];
    while let Some((done, state)) = open.pop() {
        let left = || history.iter().enumerate().filter(|(at, _)| !done[*at]);
        if left().all(|(_, one)| one.outcome == Outcome::Unknown) {
            return true;
        }
        // An operation precedes each one that was requested after its answer.
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
