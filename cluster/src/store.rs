//! Where the cluster keeps its records: etcd, or the same in memory for tests. Both do
//! what [`crate::transaction`] describes and nothing else; what the keys mean is not
//! known here. Calls are bounded in time. [`crate::etcd_cache`] is what most readers want.

pub mod driven;
mod etcd;
pub mod membership;
mod memory;
mod remainder;
pub mod standing;

pub use etcd::EtcdConfig;
pub use remainder::Remainder;

use crate::transaction::{Change, Reading, Transaction};
use driven::{Call, Driven, DrivenWatch, Reply, other_answer};
use standing::Standing;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How etcd says that our user has no right to that.
const DENIED: &str = "permission denied";

/// Why the store did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It was not done.
    Unavailable(String),
    /// It was not done, and is not taken as it is: asking again does not help.
    Refused(String),
    /// Whether it was done is not known: reading tells.
    Unknown(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Unavailable(why) | Fault::Refused(why) => f.write_str(why),
            Fault::Unknown(why) => write!(f, "{why}; whether it was done is not known"),
        }
    }
}

impl Fault {
    /// It was refused because of who we are there.
    pub fn is_denied(&self) -> bool {
        matches!(self, Fault::Unavailable(why) if why.ends_with(DENIED))
    }
}

impl std::error::Error for Fault {}

/// A lease as it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// To bind keys to.
    pub id: i64,
    /// How long it lasts without a sign of life; the store may have rounded it up.
    pub ttl: Duration,
}

/// What a watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Batch {
    /// All that changed up to a revision, in order. No revision is cut in two.
    Changes {
        /// Up to here.
        revision: i64,
        /// Under the prefix.
        changes: Vec<Change>,
    },
    /// What was asked for is not kept any more: read anew.
    Compacted,
}

/// One store; clones share it.
#[derive(Clone)]
pub struct Store {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Etcd(Box<etcd::Etcd>),
    Memory(memory::Memory),
    Driven(Arc<dyn Driven>),
}

/// Changes as they come. Dropped, it ends.
pub struct Watch {
    kind: WatchKind,
}

enum WatchKind {
    Etcd(etcd::EtcdWatch),
    Memory(memory::MemoryWatch),
    Driven(Box<dyn DrivenWatch>),
}

impl Store {
    /// A store of its own, gone with its last clone.
    pub fn memory() -> Store {
        Store { kind: Kind::Memory(memory::Memory::default()) }
    }

    /// One that somebody else answers for.
    pub fn driven(driven: Arc<dyn Driven>) -> Store {
        Store { kind: Kind::Driven(driven) }
    }

    /// An etcd. Nothing is asked of it yet: it may come up later.
    ///
    /// # Errors
    /// A file of the TLS settings can not be read, or an endpoint is none.
    pub fn etcd(config: EtcdConfig) -> Result<Store, Fault> {
        Ok(Store { kind: Kind::Etcd(Box::new(etcd::Etcd::new(config)?)) })
    }

    /// Everything that begins so, at one revision.
    ///
    /// # Errors
    /// No answer.
    pub async fn read(&self, prefix: &str) -> Result<Reading, Fault> {
        match &self.kind {
            Kind::Etcd(etcd) => etcd.read(prefix).await,
            Kind::Memory(memory) => memory.read(prefix),
            Kind::Driven(driven) => {
                let reply = driven.call(Call::Read(prefix.to_string())).await?;
                let Reply::Read(reading) = reply else { return Err(other_answer()) };
                Ok(reading)
            }
        }
    }

    /// Carries a transaction out: the revision it made; `None` when a condition (or its
    /// lease) did not hold and nothing was done.
    ///
    /// # Errors
    /// It was not done, or nobody knows.
    pub async fn commit(&self, transaction: &Transaction) -> Result<Option<i64>, Fault> {
        match &self.kind {
            Kind::Etcd(etcd) => etcd.commit(transaction).await,
            Kind::Memory(memory) => memory.commit(transaction),
            Kind::Driven(driven) => {
                let reply = driven.call(Call::Commit(transaction.clone())).await?;
                let Reply::Committed(landed) = reply else { return Err(other_answer()) };
                Ok(landed)
            }
        }
    }

    /// A lease for that long.
    ///
    /// # Errors
    /// No answer.
    pub async fn grant(&self, ttl: Duration) -> Result<Lease, Fault> {
        match &self.kind {
            Kind::Etcd(etcd) => etcd.grant(ttl).await,
            Kind::Memory(memory) => memory.grant(ttl),
            Kind::Driven(driven) => {
                let reply = driven.call(Call::Grant(ttl)).await?;
                let Reply::Granted(lease) = reply else { return Err(other_answer()) };
                Ok(lease)
            }
        }
    }

    /// A sign of life. False: the lease has ended, with all that was bound to it.
    ///
    /// # Errors
    /// No answer.
    pub async fn keep_alive(&self, lease: i64) -> Result<bool, Fault> {
        match &self.kind {
            Kind::Etcd(etcd) => etcd.keep_alive(lease).await,
            Kind::Memory(memory) => memory.keep_alive(lease),
            Kind::Driven(driven) => {
                let reply = driven.call(Call::KeepAlive(lease)).await?;
                let Reply::Alive(alive) = reply else { return Err(other_answer()) };
                Ok(alive)
            }
        }
    }

    /// What is left of a lease; `None`: it has ended.
    ///
    /// # Errors
    /// No answer.
    pub async fn remainder(&self, lease: i64) -> Result<Option<Remainder>, Fault> {
        match &self.kind {
            Kind::Etcd(etcd) => etcd.remainder(lease).await,
            Kind::Memory(memory) => memory.remainder(lease),
            Kind::Driven(driven) => {
                let reply = driven.call(Call::Remainder(lease)).await?;
                let Reply::Left(remainder) = reply else { return Err(other_answer()) };
                Ok(remainder)
            }
        }
    }

    /// Ends a lease, and what is bound to it.
    ///
    /// # Errors
    /// No answer.
    pub async fn revoke(&self, lease: i64) -> Result<(), Fault> {
        match &self.kind {
            Kind::Etcd(etcd) => etcd.revoke(lease).await,
            Kind::Memory(memory) => memory.revoke(lease),
            Kind::Driven(driven) => {
                let reply = driven.call(Call::Revoke(lease)).await?;
                let Reply::Revoked = reply else { return Err(other_answer()) };
                Ok(())
            }
        }
    }

    /// What changes under a prefix after that revision.
    ///
    /// # Errors
    /// No answer.
    pub async fn watch(&self, prefix: &str, after: i64) -> Result<Watch, Fault> {
        let kind = match &self.kind {
            Kind::Etcd(etcd) => WatchKind::Etcd(etcd.watch(prefix, after).await?),
            Kind::Memory(memory) => WatchKind::Memory(memory.watch(prefix, after)?),
            Kind::Driven(driven) => WatchKind::Driven(driven.watch(prefix, after).await?),
        };
        Ok(Watch { kind })
    }

    /// Most of its members answer within that time, and say that they have no leader. Who they
    /// are was learnt with the last sign of life of a lease.
    pub async fn is_leaderless(&self, within: Duration) -> bool {
        match &self.kind {
            Kind::Etcd(etcd) => etcd.is_leaderless(within).await,
            Kind::Memory(_) => false,
            Kind::Driven(driven) => match driven.call(Call::Leaderless).await {
                Ok(Reply::Members(known, words)) => known.is_leaderless(&words),
                _ => false,
            },
        }
    }

    /// Another number: another member is asked now, and a watch may hang on the one before.
    pub fn turn(&self) -> usize {
        match &self.kind {
            Kind::Etcd(etcd) => etcd.turn(),
            Kind::Memory(_) | Kind::Driven(_) => 0,
        }
    }

    /// How far it can be relied on; `None` for one that is no etcd.
    ///
    /// # Errors
    /// No answer.
    pub async fn standing(&self) -> Result<Option<Standing>, Fault> {
        match &self.kind {
            Kind::Etcd(etcd) => etcd.standing().await.map(Some),
            Kind::Memory(_) | Kind::Driven(_) => Ok(None),
        }
    }

    /// Of a store in memory: what has changed until now is told to nobody any more. For tests.
    pub fn compact(&self) {
        if let Kind::Memory(memory) = &self.kind {
            memory.compact();
        }
    }

    /// Of a store in memory: every call fails from now on, or works again. For tests.
    pub fn set_reachable(&self, reachable: bool) {
        if let Kind::Memory(memory) = &self.kind {
            memory.set_reachable(reachable);
        }
    }
}

impl Watch {
    /// The next ones.
    ///
    /// # Errors
    /// The stream is lost: it does not resume by itself.
    pub async fn next(&mut self) -> Result<Batch, Fault> {
        match &mut self.kind {
            WatchKind::Etcd(watch) => watch.next().await,
            WatchKind::Memory(watch) => watch.next().await,
            WatchKind::Driven(watch) => watch.next().await,
        }
    }
}
