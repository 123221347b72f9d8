//! Values that nobody can read: somebody else writes over one of etcd's, and after a while puts back
//! what stood there, unless the cluster has done so before. What it stood for is what it stands for,
//! so all that is wished, told and run is judged as if nothing had been written. No schedule is drawn with
//! such values: they are played where they are written down (`tests/simulation.rs`).

use crate::sim::etcd::GARBAGE;
use crate::sim::world::{Event, World};
use crate::transaction::{Entry, Operation, Transaction};
use std::time::Duration;

impl World {
    /// Writes over the value of a key of that kind: which of them, counted round.
    pub(super) fn garble(&mut self, kind: &str, which: usize, time: Duration) {
        let prefix = format!("{}{kind}", self.truth.keys().root());
        let entries = self.etcd.store.read(&prefix).entries;
        let Some(entry) = entries.get(which % entries.len().max(1)).cloned() else { return };
        if entry.value == GARBAGE {
            return;
        }
        self.coverage.count("value that nobody can read");
        self.write_over(&entry, GARBAGE.to_vec());
        self.book.garbled.push(entry);
        self.plan_in(time, Event::Readable(self.book.garbled.len() - 1));
    }

    /// What stood there is put back, where the garbage stands still.
    pub fn ungarble(&mut self, number: usize) {
        let Some(entry) = self.book.garbled.get(number).cloned() else { return };
        if self.etcd.store.get(&entry.key).is_some_and(|now| now.value == GARBAGE) {
            self.write_over(&entry, entry.value.clone());
        }
    }

    /// All of them.
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
