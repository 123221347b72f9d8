//! The newest state that this daemon has answered from. No client sees an older state than was
//! answered before, even while the cache lags or has lost its watch.

use crate::etcd_cache::EtcdCache;
use crate::key::Subject;
use crate::snapshot::Snapshot;
use crate::store::Fault;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The newest reading and the newest write.
#[derive(Default)]
pub struct Seen {
    /// The newest reading, if it is newer than the cache.
    fresh: Mutex<Option<Arc<Snapshot>>>,
    /// The newest revision that was written and answered.
    written: AtomicI64,
}

impl Seen {
    /// Records a write.
    pub fn written(&self, revision: i64) {
        self.written.fetch_max(revision, Ordering::Relaxed);
    }

    /// Records a reading.
    pub fn keep(&self, fresh: Snapshot) -> Arc<Snapshot> {
        let fresh = Arc::new(fresh);
        let mut kept = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| kept.revision < fresh.revision) {
            *kept = Some(fresh.clone());
        }
        fresh
    }

    /// The newest snapshot known here.
    fn known(&self, cache: &EtcdCache) -> Arc<Snapshot> {
        let cached = cache.snapshot();
        let mut kept = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_ref() {
            Some(fresh) if fresh.revision > cached.revision => fresh.clone(),
            _ => {
                *kept = None;
                cached
            }
        }
    }

    /// Returns a snapshot that includes every write answered by this daemon.
    ///
    /// # Errors
    /// The store had to be read and did not answer.
    pub async fn latest(&self, cache: &EtcdCache) -> Result<Arc<Snapshot>, Fault> {
        let known = self.known(cache);
        match known.revision >= self.written.load(Ordering::Relaxed) {
            true => Ok(known),
            false => Ok(self.keep(cache.read().await?)),
        }
    }

    /// Returns the current state of the store. It reads everything only if this daemon lags.
    ///
    /// # Errors
    /// The store did not answer.
    pub async fn newest(&self, cache: &EtcdCache) -> Result<Arc<Snapshot>, Fault> {
        let key = cache.keys().of(&Subject::Cluster);
        let now = cache.store().read(&key).await?;
        let known = self.known(cache);
        let ours = known.cluster.as_ref().map(|kept| kept.modified);
        if ours.is_some() && ours != now.entries.first().map(|entry| entry.modified) {
            return Err(Fault::Unavailable("etcd has another cluster now".to_string()));
        }
        match known.revision >= now.revision {
            true => Ok(known),
            false => Ok(self.keep(cache.read().await?)),
        }
    }
}
