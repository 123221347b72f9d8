//! A write whose answer got lost: etcd may have carried it out or not. Decides whether it is repeated
//! and what the client is answered at last. The loop that repeats it is [`super::server`]'s.

use super::answer::Answer;
use super::request::Request;
use crate::mutant::{Mutant, planted};
use crate::transaction::{Condition, Transaction};

/// See the head of the module.
pub(super) struct UncertainWrite {
    transaction: Transaction,
    /// What would have been answered.
    done: Answer,
    /// The revision it was decided on.
    seen: i64,
}

impl UncertainWrite {
    /// Of the first of them: what was seen then was before all that were asked since.
    pub(super) fn first(
        before: Option<UncertainWrite>,
        transaction: Transaction,
        done: Answer,
        seen: i64,
    ) -> Option<UncertainWrite> {
        before.or(Some(UncertainWrite { transaction, done, seen }))
    }

    /// The same follows from what is there now, so that it was not done, or comes to the same. Else it was
    /// done and changed by others since, or it was not: doing it again might be doing it twice.
    pub(super) fn may_be_repeated(&self, transaction: &Transaction, revision: i64) -> bool {
        self.transaction == *transaction && (self.seen == revision || !makes_a_key(transaction))
    }

    /// The answer now, where there is nothing to do any more: what is refused now may have been done
    /// before, and undone by others since.
    pub(super) fn after_all(self, request: &Request, now: &Answer) -> Answer {
        match is_own_doing(request, &self.done, now) {
            true => self.done,
            false => Answer::no_registry(),
        }
    }
}

/// It asks that a key is not there: that is so again when it was done, and undone by others.
fn makes_a_key(transaction: &Transaction) -> bool {
    let absent = |condition: &Condition| matches!(condition, Condition::Absent(_));
    transaction.conditions.iter().any(absent)
}

/// What is said where the same was done just before: there already, gone already. `done`: what the
/// write that nobody knows of would have been answered.
fn is_own_doing(request: &Request, done: &Answer, answer: &Answer) -> bool {
    match (request.method.as_str(), done.status, answer.status) {
        (_, _, 204) | ("DELETE", _, 404) | ("PUT", 201, 409) => true,
        // A wish for a unit that is not there any more: nobody knows whether it was written.
        ("PUT", _, 404 | 409) => planted(Mutant::GoneIsDone),
        _ => false,
    }
}
