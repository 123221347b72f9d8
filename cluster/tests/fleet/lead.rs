//! Elections with the daemon's candidate on an in-memory store, when another program wrote the key
//! `leader`. The simulation covers elections between machines.

use cluster::clock::Clock;
use cluster::desired::Desired;
use cluster::etcd_cache::EtcdCache;
use cluster::fleetd::lead::{Candidate, lease};
use cluster::fleetd::machine_lease::MachineLease;
use cluster::key::{Keys, Subject};
use cluster::machine::MachineId;
use cluster::record::{Leader, MachineRecord, encode};
use cluster::registry;
use cluster::snapshot::Snapshot;
use cluster::store::Store;
use cluster::transaction::Transaction;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);

/// A machine that may lead.
struct Machine {
    store: Store,
    keys: Keys,
    id: MachineId,
    lease: i64,
    cache: EtcdCache,
}

impl Machine {
    async fn new() -> Machine {
        let (store, keys) = (Store::memory(), Keys::under("/f"));
        let id = MachineId::new("m1").unwrap();
        let lease = store.grant(SOON * 10).await.unwrap().id;
        let record = MachineRecord {
            ip: String::new(),
            metadata: BTreeMap::new(),
            boot: String::new(),
            instance: "one".to_string(),
            disk: None,
            version: "1".to_string(),
            listen: None,
        };
        let come = registry::register(&Snapshot::new(keys.clone()), &id, &record, lease);
        store.commit(&come.unwrap()).await.unwrap().unwrap();
        let (cache, follower) = EtcdCache::new(store.clone(), keys.clone(), Clock::system());
        tokio::spawn(follower.follow());
        Machine { store, keys, id, lease, cache }
    }

    fn stand(&self) {
        let machine_lease = MachineLease { lease: Some(self.lease), ..MachineLease::default() };
        // The machine's lease never changes.
        let (sender, machine_lease) = watch::channel(machine_lease);
        let candidate = Candidate {
            cache: self.cache.clone(),
            machine: self.id.clone(),
            interval: Duration::from_secs(2),
            ttl: Duration::from_secs(30),
            grace: Duration::ZERO,
            room: 128,
            machine_lease,
            leading: watch::channel(None).0,
            metrics: Arc::default(),
        };
        tokio::spawn(async move {
            let _sender = sender;
            candidate.run().await;
        });
    }

    async fn write_leader(&self, value: Vec<u8>) {
        let write = Transaction::default().put(self.keys.of(&Subject::Leader), value);
        self.store.commit(&write).await.unwrap().unwrap();
    }

    async fn has_placed(&self, own: &str) {
        let (name, now) = (UnitName::new(own).unwrap(), self.cache.snapshot());
        let file = UnitFile::parse("[Service]\nExecStart=/bin/true\n").unwrap();
        let write = registry::create(&now, &name, &file, Desired::Launched);
        self.store.commit(&write).await.unwrap().unwrap();
        let placed = |snapshot: &Arc<Snapshot>| snapshot.place_of(&name).is_some();
        self.cache.changes().wait_for(placed).await.unwrap();
    }
}

#[test]
fn leaders_lease_ends_before_the_lease_of_its_machine() {
    let seconds = Duration::from_secs;
    for (interval, ttl, leads) in [(2, 30, 10), (2, 15, 10), (2, 6, 4), (30, 30, 20), (2, 3, 2)] {
        assert_eq!(lease(seconds(interval), seconds(ttl)), seconds(leads), "{interval} {ttl}");
    }
}

#[test]
fn leader_key_without_a_lease_does_not_prevent_an_election() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let dead = encode(&Leader { machine: MachineId::new("m9").unwrap() });
    runtime.block_on(async {
        let shown = async {
            for value in [b"garbage".to_vec(), dead] {
                // The key exists before the first election, because an operator has copied all
                // keys to another etcd.
                let machine = Machine::new().await;
                machine.write_leader(value.clone()).await;
                machine.stand();
                machine.has_placed("a.service").await;
                // It is written while a machine leads.
                machine.write_leader(value).await;
                machine.has_placed("b.service").await;
            }
        };
        timeout(SOON, shown).await.unwrap();
    });
}
