//! A store whose calls another component answers: the simulation, which loses and delays answers
//! and ends watches. It takes the same calls as etcd.

use super::membership::{MemberAnswer, Membership};
use super::{Batch, Fault, Lease, Remainder};
use crate::transaction::{Reading, Transaction};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A pending answer.
pub type Answered<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// A call.
#[derive(Clone, Debug)]
pub enum Call {
    /// Read all keys under a prefix.
    Read(String),
    /// Commit a transaction.
    Commit(Transaction),
    /// Grant a lease.
    Grant(Duration),
    /// Renew a lease.
    KeepAlive(i64),
    /// Ask for the remaining time of a lease.
    Remainder(i64),
    /// Revoke a lease.
    Revoke(i64),
    /// Ask for the members, and each address for its leader.
    Leaderless,
}

/// An answer, in the order of [`Call`].
#[derive(Clone, Debug)]
pub enum Reply {
    /// The keys at one revision.
    Read(Reading),
    /// The revision, or `None` if a condition failed.
    Committed(Option<i64>),
    /// The lease.
    Granted(Lease),
    /// True if the lease exists.
    Alive(bool),
    /// The remaining time, or `None` if the lease has expired.
    Left(Option<Remainder>),
    /// The lease is gone.
    Revoked,
    /// The members and their answers.
    Members(Membership, Vec<MemberAnswer>),
}

/// The component that answers.
pub trait Driven: Send + Sync {
    /// Executes one call.
    fn call(&self, call: Call) -> Answered<'static, Reply>;
    /// Watches the changes after a revision.
    fn watch(&self, prefix: &str, after: i64) -> Answered<'static, Box<dyn DrivenWatch>>;
}

/// A watch of [`Driven`].
pub trait DrivenWatch: Send {
    /// Like [`super::Watch::next`].
    fn next(&mut self) -> Answered<'_, Batch>;
}

pub(super) fn other_answer() -> Fault {
    Fault::Unavailable("the answer does not match the call".to_string())
}
