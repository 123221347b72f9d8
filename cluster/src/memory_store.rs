//! An in-memory etcd with the features that the cluster uses: revisions, transactions, leases,
//! readings at one revision, and changes since one.
//! Linearizable because it is single-threaded. For tests and the simulation, whose driver adds
//! faults.

use crate::transaction::{
    Change, Condition, Entry, MOST_OPERATIONS, Operation, Reading, Transaction,
};
use std::collections::BTreeMap;

/// An in-memory etcd.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    revision: i64,
    entries: BTreeMap<String, Entry>,
    history: Vec<(i64, Change)>,
    compacted: i64,
    leases: BTreeMap<i64, u64>,
    last_lease: i64,
}

impl MemoryStore {
    /// Creates a store whose lease ids start after `last_lease`.
    pub fn with_leases_after(last_lease: i64) -> MemoryStore {
        MemoryStore { last_lease, ..MemoryStore::default() }
    }

    /// The current revision.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns all entries under a prefix.
    pub fn read(&self, prefix: &str) -> Reading {
        let range = self.entries.range(prefix.to_string()..);
        let entries = range.take_while(|(key, _)| key.starts_with(prefix));
        Reading {
            revision: self.revision,
            entries: entries.map(|(_, entry)| entry.clone()).collect(),
        }
    }

    /// Returns one entry.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Commits a transaction. Returns its revision, or `None` if a condition failed or it exceeds
    /// etcd's limit.
    pub fn commit(&mut self, transaction: &Transaction) -> Option<i64> {
        if !transaction.fits_in(MOST_OPERATIONS) {
            return None;
        }
        if !transaction.conditions.iter().all(|condition| self.holds(condition)) {
            return None;
        }
        // Like etcd, refuses the whole transaction if a lease has expired.
        let ended = |operation: &Operation| match operation {
            Operation::Put { lease, .. } => *lease != 0 && !self.leases.contains_key(lease),
            Operation::Delete(_) | Operation::DeletePrefix(_) => false,
        };
        if transaction.operations.iter().any(ended) {
            return None;
        }
        let revision = self.revision + 1;
        let mut changes = Vec::new();
        for operation in &transaction.operations {
            match operation {
                Operation::Put { key, value, lease } => {
                    let created = self.entries.get(key).map_or(revision, |old| old.created);
                    let entry = Entry {
                        key: key.clone(),
                        value: value.clone(),
                        created,
                        modified: revision,
                        lease: *lease,
                    };
                    self.entries.insert(key.clone(), entry.clone());
                    changes.push(Change::Put(entry));
                }
                Operation::Delete(key) => changes.extend(self.remove(key, revision)),
                Operation::DeletePrefix(prefix) => {
                    let keys = self.read(prefix).entries.into_iter().map(|entry| entry.key);
                    for key in keys.collect::<Vec<_>>() {
                        changes.extend(self.remove(&key, revision));
                    }
                }
            }
        }
        self.record(revision, changes);
        Some(self.revision)
    }

    /// Returns the changes after a revision, or `None` if they were compacted.
    pub fn changes_since(&self, revision: i64) -> Option<Vec<(i64, Change)>> {
        let from = self.history.partition_point(|(at, _)| *at <= revision);
        (revision >= self.compacted).then(|| self.history.get(from..).unwrap_or_default().to_vec())
    }

    /// Compacts all changes up to now.
    pub fn compact(&mut self) {
        self.compacted = self.revision;
        self.history.clear();
    }

    /// Grants a lease that expires at `until`, in the driver's time.
    pub fn grant(&mut self, until: u64) -> i64 {
        self.last_lease += 1;
        self.leases.insert(self.last_lease, until);
        self.last_lease
    }

    /// Renews a lease. Returns false if it has expired.
    pub fn keep_alive(&mut self, lease: i64, until: u64) -> bool {
        self.leases.get_mut(&lease).map(|end| *end = until).is_some()
    }

    /// Returns when a lease expires, in the driver's time, or `None` if it has expired.
    pub fn end_of(&self, lease: i64) -> Option<u64> {
        self.leases.get(&lease).copied()
    }

    /// Expires due leases and deletes the keys bound to them.
    pub fn expire(&mut self, now: u64) {
        let due = self.leases.iter().filter(|(_, until)| **until <= now).map(|(lease, _)| *lease);
        for lease in due.collect::<Vec<_>>() {
            self.revoke(lease);
        }
    }

    /// Revokes a lease and deletes the keys bound to it.
    pub fn revoke(&mut self, lease: i64) {
        if self.leases.remove(&lease).is_none() {
            return;
        }
        let revision = self.revision + 1;
        let bound = self.entries.values().filter(|entry| entry.lease == lease);
        let keys: Vec<String> = bound.map(|entry| entry.key.clone()).collect();
        let changes = keys.iter().filter_map(|key| self.remove(key, revision)).collect();
        self.record(revision, changes);
    }

    fn holds(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Absent(key) => !self.entries.contains_key(key),
            Condition::Unchanged(key, revision) => {
                self.entries.get(key).is_some_and(|entry| entry.modified == *revision)
            }
            Condition::Created(key, revision) => {
                self.entries.get(key).is_some_and(|entry| entry.created == *revision)
            }
            Condition::Has(key, value) => {
                self.entries.get(key).is_some_and(|entry| entry.value == *value)
            }
            Condition::NoneSince(prefix, revision) => {
                let range = self.entries.range(prefix.to_string()..);
                let mut range = range.take_while(|(key, _)| key.starts_with(prefix));
                range.all(|(_, entry)| entry.modified <= *revision)
            }
        }
    }

    fn remove(&mut self, key: &str, revision: i64) -> Option<Change> {
        self.entries.remove(key).map(|_| Change::Delete { key: key.to_string(), revision })
    }

    fn record(&mut self, revision: i64, changes: Vec<Change>) {
        if !changes.is_empty() {
            self.revision = revision;
            self.history.extend(changes.into_iter().map(|change| (revision, change)));
        }
    }
}
