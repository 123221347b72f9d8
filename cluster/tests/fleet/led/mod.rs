//! An in-memory cluster led by an engine, without etcd or daemon.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use cluster::desired::Desired;
use cluster::engine::Engine;
use cluster::key::Keys;
use cluster::machine::MachineId;
use cluster::memory_store::MemoryStore;
use cluster::record::MachineRecord;
use cluster::registry::{self, Epoch};
use cluster::snapshot::Snapshot;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) struct Cluster {
    pub(crate) keys: Keys,
    pub(crate) store: MemoryStore,
    pub(crate) now: Duration,
}

impl Cluster {
    pub(crate) fn new() -> Cluster {
        Cluster { keys: Keys::under("/test"), store: MemoryStore::default(), now: Duration::ZERO }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.keys.clone(), &self.store.read(self.keys.root()))
    }

    pub(crate) fn submit(&mut self, own: &str, text: &str, desired: Desired) {
        let file = UnitFile::parse(text).unwrap();
        let write = registry::create(&self.snapshot(), &name(own), &file, desired);
        self.store.commit(&write).unwrap();
    }

    pub(crate) fn wish(&mut self, own: &str, desired: Desired) {
        let write = registry::set_desired(&self.snapshot(), &name(own), desired).unwrap();
        self.store.commit(&write).unwrap();
    }

    pub(crate) fn machine(&mut self, own: &str) -> i64 {
        let lease = self.store.grant(u64::MAX);
        let record = record(own, "first");
        let write = registry::register(&self.snapshot(), &id(own), &record, lease).unwrap();
        self.store.commit(&write).unwrap();
        lease
    }

    pub(crate) fn lead(&mut self, own: &str) -> (Epoch, i64) {
        let lease = self.store.grant(u64::MAX);
        let write = registry::lead(&self.keys, &id(own), lease);
        (Epoch(self.store.commit(&write).unwrap()), lease)
    }

    pub(crate) fn engine(&self, grace: Duration) -> Engine {
        Engine::new(self.keys.clone(), &self.store.read(self.keys.root()), grace, self.now)
    }

    /// Passes all changes to the engine and commits its tasks.
    pub(crate) fn run(&mut self, engine: &mut Engine, epoch: Epoch) -> usize {
        let mut written = 0;
        loop {
            let new = self.store.changes_since(engine.snapshot().revision).unwrap();
            let new: Vec<_> = new.into_iter().map(|(_, change)| change).collect();
            engine.absorb(&new, self.now);
            let tasks = engine.tasks(epoch, self.now);
            if tasks.is_empty() {
                return written;
            }
            for task in tasks {
                match self.store.commit(&task.transaction) {
                    Some(_) => written += 1,
                    None => {
                        engine.undo(&task.units);
                        return written;
                    }
                }
            }
        }
    }

    pub(crate) fn schedule(&self, machine: &str) -> BTreeMap<String, Desired> {
        let snapshot = self.snapshot();
        let own = snapshot.schedules.get(&id(machine)).into_iter().flatten();
        own.map(|(name, kept)| (name.to_string(), kept.record.desired)).collect()
    }
}

pub(crate) fn name(text: &str) -> UnitName {
    UnitName::new(text).unwrap()
}

pub(crate) fn id(text: &str) -> MachineId {
    MachineId::new(text).unwrap()
}

pub(crate) fn record(own: &str, instance: &str) -> MachineRecord {
    MachineRecord {
        ip: String::new(),
        metadata: BTreeMap::new(),
        boot: format!("boot of {own}"),
        instance: instance.to_string(),
        disk: None,
        version: "1".to_string(),
        listen: None,
    }
}
