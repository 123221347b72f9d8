//! An etcd in memory, as far as the cluster uses one: revisions, transactions, leases,
//! readings at one revision, changes since one. Linearizable because it is one thread.
//! For tests and the simulation; faults are added by who drives it.

use crate::transaction::{
    Change, Condition, Entry, MOST_OPERATIONS, Operation, Reading, Transaction,
};
use std::collections::BTreeMap;

/// The store.
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
    /// One whose leases are numbered from there on.
    pub fn with_leases_after(last_lease: i64) -> MemoryStore {
        MemoryStore { last_lease, ..MemoryStore::default() }
    }

    /// The newest revision.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Everything that begins so.
    pub fn read(&self, prefix: &str) -> Reading {
        let range = self.entries.range(prefix.to_string()..);
        let entries = range.take_while(|(key, _)| key.starts_with(prefix));
        Reading {
            revision: self.revision,
            entries: entries.map(|(_, entry)| entry.clone()).collect(),
        }
    }

    /// One key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Carries a transaction out: its revision, or `None` when a condition did not hold, or it is
    /// larger than etcd takes.
    pub fn commit(&mut self, transaction: &Transaction) -> Option<i64> {
        if !transaction.fits_in(MOST_OPERATIONS) {
            return None;
        }
        if !transaction.conditions.iter().all(|condition| self.holds(condition)) {
            return None;
        }
        // As etcd: a lease that has ended refuses the whole.
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

    /// Changes after a revision; `None` when they were compacted away.
    pub fn changes_since(&self, revision: i64) -> Option<Vec<(i64, Change)>> {
        let from = self.history.partition_point(|(at, _)| *at <= revision);
        (revision >= self.compacted).then(|| self.history.get(from..).unwrap_or_default().to_vec())
    }

    /// Forgets the changes up to now.
    pub fn compact(&mut self) {
        self.compacted = self.revision;
        self.history.clear();
    }

    /// A lease that ends at `until`, in the driver's time.
    pub fn grant(&mut self, until: u64) -> i64 {
        self.last_lease += 1;
        self.leases.insert(self.last_lease, until);
        self.last_lease
    }

    /// False: it has ended.
    pub fn keep_alive(&mut self, lease: i64, until: u64) -> bool {
        self.leases.get_mut(&lease).map(|end| *end = until).is_some()
    }

    /// When it ends, in the driver's time; `None`: it has ended.
    pub fn end_of(&self, lease: i64) -> Option<u64> {
        self.leases.get(&lease).copied()
    }

    /// Ends the leases that are due, and what is bound to them.
    pub fn expire(&mut self, now: u64) {
        let due = self.leases.iter().filter(|(_, until)| **until <= now).map(|(lease, _)| *lease);
        for lease in due.collect::<Vec<_>>() {
            self.revoke(lease);
        }
    }

    /// Ends a lease, and what is bound to it.
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
