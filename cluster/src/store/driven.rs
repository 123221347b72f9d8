//! A store that somebody else answers for: the simulation's, which loses answers, delays
//! them, and ends watches at will. What is asked of it is what is asked of etcd.

use super::membership::{Membership, Word};
use super::{Batch, Fault, Lease, Remainder};
use crate::transaction::{Reading, Transaction};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// An answer to come.
pub type Answered<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// What is asked.
#[derive(Clone, Debug)]
pub enum Call {
    /// Everything that begins so.
    Read(String),
    /// A transaction.
    Commit(Transaction),
    /// A lease for that long.
    Grant(Duration),
    /// A sign of life.
    KeepAlive(i64),
    /// What is left of a lease.
    Remainder(i64),
    /// The end of a lease.
    Revoke(i64),
    /// Who the members are, and what each address says of a leader.
    Leaderless,
}

/// What is answered, in the order of [`Call`].
#[derive(Clone, Debug)]
pub enum Reply {
    /// At one revision.
    Read(Reading),
    /// Its revision, or it did not hold.
    Committed(Option<i64>),
    /// As granted.
    Granted(Lease),
    /// It lives.
    Alive(bool),
    /// So much, where it has not ended.
    Left(Option<Remainder>),
    /// It is gone.
    Revoked,
    /// Who they are, and what was answered.
    Members(Membership, Vec<Word>),
}

/// Who answers.
pub trait Driven: Send + Sync {
    /// One call.
    fn call(&self, call: Call) -> Answered<'static, Reply>;
    /// What changes after that revision.
    fn watch(&self, prefix: &str, after: i64) -> Answered<'static, Box<dyn DrivenWatch>>;
}

/// Its watch.
pub trait DrivenWatch: Send {
    /// As [`super::Watch::next`].
    fn next(&mut self) -> Answered<'_, Batch>;
}

pub(super) fn other_answer() -> Fault {
    Fault::Unavailable("another answer than was asked for".to_string())
}
