//! A transaction as plain data: what must hold, and what is then done, all or nothing.
//! [`crate::registry`] makes them, the etcd client carries them out, and
//! [`crate::memory_store`] does the same in memory, so that what is tested there is
//! what runs.

/// Operations etcd takes in one transaction (its `--max-txn-ops`).
pub const MOST_OPERATIONS: usize = 128;

/// What must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The key is not there.
    Absent(String),
    /// It was last written at that revision.
    Unchanged(String, i64),
    /// It was made at that revision, whatever was written since.
    Created(String, i64),
    /// It has that value, whenever it was written.
    Has(String, Vec<u8>),
    /// Nothing that begins so was written after that revision.
    NoneSince(String, i64),
}

impl Condition {
    /// As the key was read: absent, or last written then.
    pub fn as_read(key: String, revision: Option<i64>) -> Condition {
        match revision {
            Some(revision) => Condition::Unchanged(key, revision),
            None => Condition::Absent(key),
        }
    }
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a key; bound to a lease it goes with it.
    Put {
        /// The key.
        key: String,
        /// Its value.
        value: Vec<u8>,
        /// 0: none.
        lease: i64,
    },
    /// Removes a key, if it is there.
    Delete(String),
    /// Removes all that begins so.
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

/// All or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// All of these, or it does nothing.
    pub conditions: Vec<Condition>,
    /// In this order.
    pub operations: Vec<Operation>,
}

impl Transaction {
    /// One more condition.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Transaction {
        self.conditions.push(condition);
        self
    }

    /// One more write.
    #[must_use]
    pub fn put(self, key: String, value: Vec<u8>) -> Transaction {
        self.put_bound(key, value, 0)
    }

    /// One more write, bound to a lease.
    #[must_use]
    pub fn put_bound(mut self, key: String, value: Vec<u8>, lease: i64) -> Transaction {
        self.push(Operation::Put { key, value, lease });
        self
    }

    /// One more removal.
    #[must_use]
    pub fn delete(mut self, key: String) -> Transaction {
        self.push(Operation::Delete(key));
        self
    }

    /// Both in one.
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

    /// etcd refuses two operations on one key: the later one counts.
    fn push(&mut self, operation: Operation) {
        self.operations.retain(|earlier| earlier.key() != operation.key());
        self.operations.push(operation);
    }

    /// It has no more operations, nor conditions, than that.
    pub fn fits_in(&self, room: usize) -> bool {
        self.conditions.len() <= room && self.operations.len() <= room
    }
}

/// A key as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: Vec<u8>,
    /// The revision that made it.
    pub created: i64,
    /// The revision that last wrote it.
    pub modified: i64,
    /// 0: none.
    pub lease: i64,
}

/// What changed, as a watch tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Written.
    Put(Entry),
    /// Removed, at that revision.
    Delete {
        /// The key.
        key: String,
        /// When.
        revision: i64,
    },
}

impl Change {
    /// Which one it made.
    pub fn revision(&self) -> i64 {
        match self {
            Change::Put(entry) => entry.modified,
            Change::Delete { revision, .. } => *revision,
        }
    }
}

/// Everything under a prefix, at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Which.
    pub revision: i64,
    /// By key.
    pub entries: Vec<Entry>,
}
