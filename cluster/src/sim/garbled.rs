//! Unreadable values: a foreign program overwrites one of etcd's values, and later restores it
//! unless the cluster has replaced it. An unreadable value keeps its previous meaning, so
//! invariants judge as if nothing had been written. Random schedules have no such values;
//! `tests/simulation.rs` has fixed ones.

use crate::sim::etcd::GARBAGE;
use crate::sim::world::{Event, World};
use crate::transaction::{Entry, Operation, Transaction};
use std::time::Duration;

impl World {
    /// Overwrites the value of the `which`-th key of a kind, modulo their number.
    pub(super) fn garble(&mut self, kind: &str, which: usize, time: Duration) {
        let prefix = format!("{}{kind}", self.truth.keys().root());
        let entries = self.etcd.store.read(&prefix).entries;
        let Some(entry) = entries.get(which % entries.len().max(1)).cloned() else { return };
        if entry.value == GARBAGE {
            return;
        }
        self.coverage.count("unreadable value");
        self.write_over(&entry, GARBAGE.to_vec());
        self.book.garbled.push(entry);
        self.plan_in(time, Event::Readable(self.book.garbled.len() - 1));
    }

    /// Restores the value if it is still overwritten.
    pub fn ungarble(&mut self, number: usize) {
        let Some(entry) = self.book.garbled.get(number).cloned() else { return };
        if self.etcd.store.get(&entry.key).is_some_and(|now| now.value == GARBAGE) {
            self.write_over(&entry, entry.value.clone());
        }
    }

    /// Restores all overwritten values.
    pub(super) fn ungarble_all(&mut self) {
        (0..self.book.garbled.len()).for_each(|number| self.ungarble(number));
    }

    fn write_over(&mut self, entry: &Entry, value: Vec<u8>) {
        let (key, lease) = (entry.key.clone(), entry.lease);
        let operations = vec![Operation::Put { key, value, lease }];
        if self.etcd.store.commit(&Transaction { operations, ..Transaction::default() }).is_some() {
            self.landed(None);
        }
    }
}
