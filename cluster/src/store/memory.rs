//! [`MemoryStore`] as a shared store with leases that expire by the clock and watches that wake.
//! For tests; it can be made unreachable.

use super::{Batch, Fault, Lease, Remainder};
use crate::memory_store::MemoryStore;
use crate::transaction::{Change, MOST_OPERATIONS, Reading, Transaction};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Maximum delay until an expired lease is noticed.
const LEASES_LOOKED_AT: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub(super) struct Memory {
    inner: Arc<Inner>,
}

struct Inner {
    store: Mutex<MemoryStore>,
    ttls: Mutex<std::collections::BTreeMap<i64, Duration>>,
    began: Instant,
    woken: watch::Sender<i64>,
    reachable: watch::Sender<bool>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            inner: Arc::new(Inner {
                store: Mutex::default(),
                ttls: Mutex::default(),
                began: Instant::now(),
                woken: watch::channel(0).0,
                reachable: watch::channel(true).0,
            }),
        }
    }
}

fn gone() -> Fault {
    Fault::Unavailable("the in-memory store is unreachable".to_string())
}

/// Checks the size of a transaction.
///
/// # Errors
/// etcd would reject it.
pub(crate) fn check_size(transaction: &Transaction) -> Result<(), Fault> {
    match transaction.fits_in(MOST_OPERATIONS) {
        true => Ok(()),
        false => Err(Fault::Refused("etcdserver: too many operations in txn request".to_string())),
    }
}

impl Memory {
    fn now(&self) -> u64 {
        u64::try_from(self.inner.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, MemoryStore> {
        let mut store = self.inner.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.expire(self.now());
        store
    }

    fn wake(&self, store: &MemoryStore) {
        self.inner.woken.send_replace(store.revision());
    }

    fn check(&self) -> Result<(), Fault> {
        if *self.inner.reachable.borrow() { Ok(()) } else { Err(gone()) }
    }

    pub(super) fn compact(&self) {
        self.lock().compact();
    }

    pub(super) fn set_reachable(&self, reachable: bool) {
        self.inner.reachable.send_replace(reachable);
    }

    pub(super) fn read(&self, prefix: &str) -> Result<Reading, Fault> {
        self.check()?;
        Ok(self.lock().read(prefix))
    }

    pub(super) fn commit(&self, transaction: &Transaction) -> Result<Option<i64>, Fault> {
        self.check()?;
        check_size(transaction)?;
        let mut store = self.lock();
        let landed = store.commit(transaction);
        self.wake(&store);
        Ok(landed)
    }

    pub(super) fn grant(&self, ttl: Duration) -> Result<Lease, Fault> {
        self.check()?;
        let id = self.lock().grant(self.until(ttl));
        self.inner.ttls.lock().unwrap_or_else(PoisonError::into_inner).insert(id, ttl);
        Ok(Lease { id, ttl })
    }

    fn until(&self, ttl: Duration) -> u64 {
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.now().saturating_add(ttl)
    }

    pub(super) fn keep_alive(&self, lease: i64) -> Result<bool, Fault> {
        self.check()?;
        let ttls = self.inner.ttls.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(ttl) = ttls.get(&lease).copied() else { return Ok(false) };
        Ok(self.lock().keep_alive(lease, self.until(ttl)))
    }

    pub(super) fn remainder(&self, lease: i64) -> Result<Option<Remainder>, Fault> {
        self.check()?;
        let ttls = self.inner.ttls.lock().unwrap_or_else(PoisonError::into_inner);
        let (granted, end) = (ttls.get(&lease).copied(), self.lock().end_of(lease));
        let left = end.map(|end| Duration::from_secs(end.saturating_sub(self.now()) / 1000));
        Ok(granted.zip(left).map(|(granted, left)| Remainder { granted, left }))
    }

    pub(super) fn revoke(&self, lease: i64) -> Result<(), Fault> {
        self.check()?;
        let mut store = self.lock();
        store.revoke(lease);
        self.wake(&store);
        Ok(())
    }

    pub(super) fn watch(&self, prefix: &str, after: i64) -> Result<MemoryWatch, Fault> {
        self.check()?;
        Ok(MemoryWatch {
            memory: self.clone(),
            prefix: prefix.to_string(),
            seen: after,
            woken: self.inner.woken.subscribe(),
            reachable: self.inner.reachable.subscribe(),
        })
    }
}

pub(super) struct MemoryWatch {
    memory: Memory,
    prefix: String,
    seen: i64,
    woken: watch::Receiver<i64>,
    reachable: watch::Receiver<bool>,
}

impl MemoryWatch {
    pub(super) async fn next(&mut self) -> Result<Batch, Fault> {
        loop {
            if !*self.reachable.borrow_and_update() {
                return Err(gone());
            }
            self.woken.borrow_and_update();
            let (revision, changes) = {
                let store = self.memory.lock();
                let Some(changes) = store.changes_since(self.seen) else {
                    return Ok(Batch::Compacted);
                };
                (store.revision(), changes)
            };
            self.seen = revision;
            let of = |change: &Change| match change {
                Change::Put(entry) => entry.key.starts_with(&self.prefix),
                Change::Delete { key, .. } => key.starts_with(&self.prefix),
            };
            let changes: Vec<Change> =
                changes.into_iter().map(|(_, change)| change).filter(of).collect();
            if !changes.is_empty() {
                return Ok(Batch::Changes { revision, changes });
            }
            tokio::select! {
                _ = self.woken.changed() => {}
                _ = self.reachable.changed() => {}
                () = tokio::time::sleep(LEASES_LOOKED_AT) => {}
            }
        }
    }
}
