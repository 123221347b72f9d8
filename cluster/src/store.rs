//! The store of the cluster's records: etcd, or memory for tests. Both implement
//! [`crate::transaction`] and do not interpret keys. All calls have a timeout. Most readers use
//! [`crate::etcd_cache`].

pub mod driven;
mod etcd;
pub mod findings;
pub mod membership;
mod memory;
mod remainder;

pub use etcd::EtcdConfig;
pub use remainder::Remainder;

use crate::transaction::{Change, Reading, Transaction};
use driven::{Call, Driven, DrivenWatch, Reply, other_answer};
use findings::EtcdFindings;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// etcd's message for a user without the right to an operation.
const DENIED: &str = "permission denied";

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call failed. A commit was not done; a lease may have been granted, renewed or revoked.
    Unavailable(String),
    /// The operation was rejected as invalid; a retry does not help.
    Refused(String),
    /// The result is unknown; a reading shows it.
    Unknown(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Unavailable(why) | Fault::Refused(why) => f.write_str(why),
            Fault::Unknown(why) => write!(f, "{why}; the result is unknown"),
        }
    }
}

impl Fault {
    /// Returns true if our etcd user lacks the right.
    pub fn is_denied(&self) -> bool {
        matches!(self, Fault::Unavailable(why) if why.ends_with(DENIED))
    }
}

impl std::error::Error for Fault {}

/// A granted lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The id, to bind keys to.
    pub id: i64,
    /// Its duration without a keepalive; the store may have rounded it up.
    pub ttl: Duration,
}

/// A message of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Batch {
    /// All changes up to a revision, in order; a revision is never split.
    Changes {
        /// The last revision.
        revision: i64,
        /// The changes under the prefix.
        changes: Vec<Change>,
    },
    /// The requested changes were compacted; read again.
    Compacted,
}

/// A handle to a store; clones share it.
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

/// A stream of changes; dropping it ends the watch.
pub struct Watch {
    kind: WatchKind,
}

enum WatchKind {
    Etcd(etcd::EtcdWatch),
    Memory(memory::MemoryWatch),
    Driven(Box<dyn DrivenWatch>),
}

impl Store {
    /// A new in-memory store.
    pub fn memory() -> Store {
        Store { kind: Kind::Memory(memory::Memory::default()) }
    }

    /// A store whose calls a [`Driven`] answers.
    pub fn driven(driven: Arc<dyn Driven>) -> Store {
        Store { kind: Kind::Driven(driven) }
    }

    /// A store on etcd. It connects on first use.
    ///
    /// # Errors
    /// A file of the TLS settings cannot be read, or there is no endpoint.
    pub fn etcd(config: EtcdConfig) -> Result<Store, Fault> {
        Ok(Store { kind: Kind::Etcd(Box::new(etcd::Etcd::new(config)?)) })
    }

    /// Reads all keys under a prefix, at one revision.
    ///
    /// # Errors
    /// The store did not answer.
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

    /// Commits a transaction. Returns its revision, or `None` if a condition failed or its lease
    /// has expired.
    ///
    /// # Errors
    /// The transaction was not done, or its result is unknown.
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

    /// Grants a lease.
    ///
    /// # Errors
    /// The store did not answer.
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

    /// Renews a lease. Returns false if the lease has expired; its keys are then gone.
    ///
    /// # Errors
    /// The store did not answer.
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

    /// Returns the remaining time of a lease, or `None` if it has expired.
    ///
    /// # Errors
    /// The store did not answer.
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

    /// Revokes a lease and deletes its keys.
    ///
    /// # Errors
    /// The store did not answer.
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

    /// Watches the changes under a prefix after a revision.
    ///
    /// # Errors
    /// The store did not answer.
    pub async fn watch(&self, prefix: &str, after: i64) -> Result<Watch, Fault> {
        let kind = match &self.kind {
            Kind::Etcd(etcd) => WatchKind::Etcd(etcd.watch(prefix, after).await?),
            Kind::Memory(memory) => WatchKind::Memory(memory.watch(prefix, after)?),
            Kind::Driven(driven) => WatchKind::Driven(driven.watch(prefix, after).await?),
        };
        Ok(Watch { kind })
    }

    /// Returns true if most members answer in time that they have no leader. The member list is
    /// updated with each keepalive.
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

    /// A number that changes when another member is asked; a watch on the previous member may then
    /// hang.
    pub fn turn(&self) -> usize {
        match &self.kind {
            Kind::Etcd(etcd) => etcd.turn(),
            Kind::Memory(_) | Kind::Driven(_) => 0,
        }
    }

    /// Checks the versions, rights and limits of etcd. Returns `None` for another store.
    ///
    /// # Errors
    /// The store did not answer.
    pub async fn findings(&self) -> Result<Option<EtcdFindings>, Fault> {
        match &self.kind {
            Kind::Etcd(etcd) => etcd.findings().await.map(Some),
            Kind::Memory(_) | Kind::Driven(_) => Ok(None),
        }
    }

    /// In-memory store: compacts all changes up to now. For tests.
    pub fn compact(&self) {
        if let Kind::Memory(memory) = &self.kind {
            memory.compact();
        }
    }

    /// In-memory store: makes all calls fail, or work again. For tests.
    pub fn set_reachable(&self, reachable: bool) {
        if let Kind::Memory(memory) = &self.kind {
            memory.set_reachable(reachable);
        }
    }
}

impl Watch {
    /// Waits for the next batch.
    ///
    /// # Errors
    /// The stream is lost and does not resume.
    pub async fn next(&mut self) -> Result<Batch, Fault> {
        match &mut self.kind {
            WatchKind::Etcd(watch) => watch.next().await,
            WatchKind::Memory(watch) => watch.next().await,
            WatchKind::Driven(watch) => watch.next().await,
        }
    }
}
