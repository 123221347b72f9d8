//! A write with an unknown result. Decides whether it is repeated and what the client is answered
//! in the end. [`super::server`] repeats it.

use super::answer::Answer;
use super::request::Request;
use crate::mutant::{Mutant, planted};
use crate::transaction::{Condition, Transaction};

/// The first write with an unknown result.
pub(super) struct UncertainWrite {
    transaction: Transaction,
    /// The answer if it was done.
    done: Answer,
    /// The revision that it was decided on.
    seen: i64,
}

impl UncertainWrite {
    /// Keeps the first such write: its snapshot precedes all attempts.
    pub(super) fn first(
        before: Option<UncertainWrite>,
        transaction: Transaction,
        done: Answer,
        seen: i64,
    ) -> Option<UncertainWrite> {
        before.or(Some(UncertainWrite { transaction, done, seen }))
    }

    /// Returns true if the request still leads to the same transaction. In that case etcd has not
    /// applied the first attempt, or a second one has no further effect. Otherwise a repetition
    /// could undo a later change of another client.
    pub(super) fn may_be_repeated(&self, transaction: &Transaction, revision: i64) -> bool {
        self.transaction == *transaction && (self.seen == revision || !makes_a_key(transaction))
    }

    /// Returns the answer when there is nothing left to write. A refusal may mean that our write
    /// was applied and another client has undone it.
    pub(super) fn final_answer(self, request: &Request, now: &Answer) -> Answer {
        match is_own_doing(request, &self.done, now) {
            true => self.done,
            false => Answer::no_registry(),
        }
    }
}

/// Returns true if the transaction requires a key to be absent. Once other clients have undone such
/// a write, its conditions hold again and a repetition would redo it.
fn makes_a_key(transaction: &Transaction) -> bool {
    let absent = |condition: &Condition| matches!(condition, Condition::Absent(_));
    transaction.conditions.iter().any(absent)
}

/// Returns true if the answer is explained by our own write: already exists, or already gone.
/// `done` is the answer of the uncertain write.
fn is_own_doing(request: &Request, done: &Answer, answer: &Answer) -> bool {
    match (request.method.as_str(), done.status, answer.status) {
        (_, _, 204) | ("DELETE", _, 404) | ("PUT", 201, 409) => true,
        // The unit is gone, so it is unknown whether the desired state was written.
        ("PUT", _, 404 | 409) => planted(Mutant::GoneIsDone),
        _ => false,
    }
}
