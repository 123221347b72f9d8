//! What this daemon has answered from: nobody is shown less than was told before, even while
//! the watch that keeps the cache up to date is behind or lost.

use crate::etcd_cache::EtcdCache;
use crate::key::Subject;
use crate::snapshot::Snapshot;
use crate::store::Fault;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// See the head of the module.
#[derive(Default)]
pub struct Seen {
    /// The newest reading that is newer than the cache.
    fresh: Mutex<Option<Arc<Snapshot>>>,
    /// The newest revision that was written and answered.
    written: AtomicI64,
}

impl Seen {
    /// That was written.
    pub fn written(&self, revision: i64) {
        self.written.fetch_max(revision, Ordering::Relaxed);
    }

    /// That was read.
    pub fn keep(&self, fresh: Snapshot) -> Arc<Snapshot> {
        let fresh = Arc::new(fresh);
        let mut kept = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| kept.revision < fresh.revision) {
            *kept = Some(fresh.clone());
        }
        fresh
    }

    /// The newest that is known here.
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

    /// With all that was answered by this daemon before.
    ///
    /// # Errors
    /// It had to be read, and was not.
    pub async fn latest(&self, cache: &EtcdCache) -> Result<Arc<Snapshot>, Fault> {
        let known = self.known(cache);
        match known.revision >= self.written.load(Ordering::Relaxed) {
            true => Ok(known),
            false => Ok(self.keep(cache.read().await?)),
        }
    }

    /// What the store holds at this moment; read whole only where this daemon is behind.
    ///
    /// # Errors
    /// No answer.
    pub async fn newest(&self, cache: &EtcdCache) -> Result<Arc<Snapshot>, Fault> {
        let key = cache.keys().of(&Subject::Cluster);
        let now = cache.store().read(&key).await?;
        let known = self.known(cache);
        let ours = known.cluster.as_ref().map(|kept| kept.modified);
        if ours.is_some() && ours != now.entries.first().map(|entry| entry.modified) {
            return Err(Fault::Unavailable("another cluster answers".to_string()));
        }
        match known.revision >= now.revision {
            true => Ok(known),
            false => Ok(self.keep(cache.read().await?)),
        }
    }
}
