//! Transactions as plain data: conditions and operations, all or nothing.
//! [`crate::registry`] makes them and the etcd client commits them. [`crate::memory_store`]
//! implements the same semantics for tests.

/// Maximum number of operations in one etcd transaction (`--max-txn-ops`).
pub const MOST_OPERATIONS: usize = 128;

/// A condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The key does not exist.
    Absent(String),
    /// The key was last written at that revision.
    Unchanged(String, i64),
    /// The key was created at that revision.
    Created(String, i64),
    /// The key has that value.
    Has(String, Vec<u8>),
    /// No key under that prefix was written after that revision.
    NoneSince(String, i64),
}

impl Condition {
    /// The key is as it was read: absent, or last written at `revision`.
    pub fn as_read(key: String, revision: Option<i64>) -> Condition {
        match revision {
            Some(revision) => Condition::Unchanged(key, revision),
            None => Condition::Absent(key),
        }
    }
}

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a key. If it is bound to a lease, it is deleted with the lease.
    Put {
        /// The key.
        key: String,
        /// Its value.
        value: Vec<u8>,
        /// The lease, or 0.
        lease: i64,
    },
    /// Deletes a key if it exists.
    Delete(String),
    /// Deletes all keys under a prefix.
    DeletePrefix(String),
}

impl Operation {
    fn key(&self) -> &str {
        match self {
            Operation::Put { key, .. } | Operation::Delete(key) | Operation::DeletePrefix(key) => {
                key
            }
        }
    }
}

/// Conditions and operations that apply together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// The conditions, all of which must hold.
    pub conditions: Vec<Condition>,
    /// Executed in this order.
    pub operations: Vec<Operation>,
}

impl Transaction {
    /// Adds a condition.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Transaction {
        self.conditions.push(condition);
        self
    }

    /// Adds a write.
    #[must_use]
    pub fn put(self, key: String, value: Vec<u8>) -> Transaction {
        self.put_bound(key, value, 0)
    }

    /// Adds a write bound to a lease.
    #[must_use]
    pub fn put_bound(mut self, key: String, value: Vec<u8>, lease: i64) -> Transaction {
        self.push(Operation::Put { key, value, lease });
        self
    }

    /// Adds a deletion.
    #[must_use]
    pub fn delete(mut self, key: String) -> Transaction {
        self.push(Operation::Delete(key));
        self
    }

    /// Combines two transactions.
    #[must_use]
    pub fn and(mut self, other: Transaction) -> Transaction {
        for condition in other.conditions {
            if !self.conditions.contains(&condition) {
                self.conditions.push(condition);
            }
        }
        other.operations.into_iter().for_each(|operation| self.push(operation));
        self
    }

    /// Adds an operation and drops an earlier one on the same key: etcd rejects two operations on
    /// one key.
    fn push(&mut self, operation: Operation) {
        self.operations.retain(|earlier| earlier.key() != operation.key());
        self.operations.push(operation);
    }

    /// Returns true if neither operations nor conditions exceed `room`.
    pub fn fits_in(&self, room: usize) -> bool {
        self.conditions.len() <= room && self.operations.len() <= room
    }
}

/// A key with its value and revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: Vec<u8>,
    /// The revision that created it.
    pub created: i64,
    /// The revision that last wrote it.
    pub modified: i64,
    /// The lease, or 0.
    pub lease: i64,
}

/// A change reported by a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A write.
    Put(Entry),
    /// A deletion.
    Delete {
        /// The key.
        key: String,
        /// Its revision.
        revision: i64,
    },
}

impl Change {
    /// The revision of the change.
    pub fn revision(&self) -> i64 {
        match self {
            Change::Put(entry) => entry.modified,
            Change::Delete { revision, .. } => *revision,
        }
    }
}

/// All keys under a prefix, at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The revision.
    pub revision: i64,
    /// The entries, by key.
    pub entries: Vec<Entry>,
}
