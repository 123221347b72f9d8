//! Turns an etcd watch into batches; changes of one revision stay together.

use super::{entry, refused};
use crate::store::{Batch, Fault};
use crate::transaction::Change;
use etcd_client::{EventType, WatchStream};
use std::collections::VecDeque;

/// See the head of the module.
pub(in crate::store) struct EtcdWatch {
    stream: WatchStream,
    ready: VecDeque<Batch>,
}

impl EtcdWatch {
    pub(super) fn of(stream: WatchStream) -> EtcdWatch {
        EtcdWatch { stream, ready: VecDeque::new() }
    }

    pub(in crate::store) async fn next(&mut self) -> Result<Batch, Fault> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(batch);
            }
            let lost = || Fault::Unavailable("etcd ended the watch".to_string());
            let message = self.stream.message().await.map_err(|e| refused(&e))?;
            let message = message.ok_or_else(lost)?;
            if message.compact_revision() > 0 {
                return Ok(Batch::Compacted);
            }
            if message.canceled() {
                let why = message.cancel_reason();
                return Err(Fault::Unavailable(format!("etcd ended the watch: {why}")));
            }
            let changes: Vec<Change> = message.events().iter().filter_map(change).collect();
            let newest = changes.iter().map(revision_of).max();
            let header_revision = message.header().map_or(0, |header| header.revision());
            match newest {
                Some(revision) => self.ready.push_back(Batch::Changes { revision, changes }),
                // No change under the prefix up to this revision.
                None if !message.created() => {
                    self.ready.push_back(Batch::Changes { revision: header_revision, changes });
                }
                None => {}
            }
        }
    }
}

fn revision_of(change: &Change) -> i64 {
    match change {
        Change::Put(entry) => entry.modified,
        Change::Delete { revision, .. } => *revision,
    }
}

fn change(event: &etcd_client::Event) -> Option<Change> {
    let kv = event.kv()?;
    match event.event_type() {
        EventType::Put => entry(kv).map(Change::Put),
        EventType::Delete => {
            let key = kv.key_str().ok()?.to_string();
            Some(Change::Delete { key, revision: kv.mod_revision() })
        }
    }
}
