//! Two machines in an in-memory store, with units placed by a test.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use cluster::agent::{self, Goal};
use cluster::desired::Desired;
use cluster::key::Keys;
use cluster::machine::MachineId;
use cluster::memory_store::MemoryStore;
use cluster::move_order::{Cause, Move};
use cluster::record::MachineRecord;
use cluster::registry::{self, Epoch};
use cluster::snapshot::Snapshot;
use cluster::transaction::Transaction;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use std::collections::BTreeMap;

pub(crate) fn name(text: &str) -> UnitName {
    UnitName::new(text).unwrap()
}

pub(crate) fn id(text: &str) -> MachineId {
    MachineId::new(text).unwrap()
}

/// Two machines, `m1` and `m2`; the first leads.
pub(crate) struct Cluster {
    pub(crate) keys: Keys,
    pub(crate) store: MemoryStore,
    pub(crate) epoch: Epoch,
}

impl Cluster {
    pub(crate) fn new() -> Cluster {
        let (keys, mut store) = (Keys::under("/test"), MemoryStore::default());
        let lease = store.grant(u64::MAX);
        let lead = registry::lead(&keys, &id("m1"), lease);
        let epoch = Epoch(store.commit(&lead).unwrap());
        let mut cluster = Cluster { keys, store, epoch };
        for own in ["m1", "m2"] {
            let record = MachineRecord {
                ip: String::new(),
                metadata: BTreeMap::new(),
                boot: own.to_string(),
                instance: own.to_string(),
                disk: None,
                version: "1".to_string(),
                listen: None,
            };
            let lease = cluster.store.grant(u64::MAX);
            let there = registry::register(&cluster.snapshot(), &id(own), &record, lease);
            cluster.commit(&there.unwrap());
        }
        cluster
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.keys.clone(), &self.store.read(self.keys.root()))
    }

    pub(crate) fn commit(&mut self, transaction: &Transaction) {
        assert!(self.store.commit(transaction).is_some());
    }

    pub(crate) fn launch(&mut self, own: &str, asks: &str) {
        let text = format!("[Service]\nExecStart=/bin/true\n\n[X-Fleet]\n{asks}\n");
        let file = UnitFile::parse(&text).unwrap();
        let write = registry::create(&self.snapshot(), &name(own), &file, Desired::Launched);
        self.commit(&write);
    }

    pub(crate) fn put_on(&mut self, own: &str, machine: Option<&str>) {
        let snapshot = self.snapshot();
        let from = snapshot.place_of(&name(own)).cloned();
        let step = Move { unit: name(own), from, to: machine.map(id), cause: Cause::Unplaced };
        self.commit(&registry::carry_out(&snapshot, self.epoch, &[step]).unwrap());
    }

    pub(crate) fn goal(&self, before: &Goal) -> Goal {
        agent::goal(&self.snapshot(), &id("m1"), before)
    }

    /// Returns a cluster in which these units of `m1` have lost their place, and the goal of `m1`
    /// before that.
    pub(crate) fn nowhere(units: &[(&str, &str)]) -> (Cluster, Goal) {
        let mut cluster = Cluster::new();
        for (own, asks) in units {
            cluster.launch(own, asks);
            cluster.put_on(own, Some("m1"));
        }
        let before = cluster.goal(&Goal::new());
        assert_eq!(before.len(), units.len());
        for (own, _) in units {
            cluster.put_on(own, None);
        }
        (cluster, before)
    }
}
