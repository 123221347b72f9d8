//! Two engines that both believe that they lead, on a real etcd. One slept beyond its lease and
//! continues with its old decisions and with new ones. Its writes must fail, and no unit may run on
//! two machines.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

mod member;

use cluster::desired::Desired;
use cluster::engine::{Engine, Task};
use cluster::key::Keys;
use cluster::machine::MachineId;
use cluster::record::MachineRecord;
use cluster::registry::{self, Epoch};
use cluster::snapshot::Snapshot;
use cluster::store::Store;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use member::{Etcd, ROOT, run, when_there};
use std::collections::BTreeMap;
use std::time::Duration;

/// The machines; the first two lead in turn.
const MACHINES: [&str; 3] = ["m1", "m2", "m3"];
/// Units created per round; one more is created while the old engine sleeps.
const UNITS: usize = 4;

/// Number of rounds; a long run has more.
fn rounds() -> usize {
    if std::env::var_os("GROUNDSTATE_ALL").is_some() { 100 } else { 10 }
}

fn id(own: &str) -> MachineId {
    MachineId::new(own).unwrap()
}

struct Cluster {
    store: Store,
    keys: Keys,
}

impl Cluster {
    async fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.keys.clone(), &self.store.read(self.keys.root()).await.unwrap())
    }

    async fn lease(&self) -> i64 {
        self.store.grant(Duration::from_secs(3_600)).await.unwrap().id
    }

    async fn machine(&self, own: &str) {
        let record = MachineRecord {
            ip: String::new(),
            metadata: BTreeMap::new(),
            boot: format!("boot of {own}"),
            instance: "one".to_string(),
            disk: None,
            version: "1".to_string(),
            listen: None,
        };
        let lease = self.lease().await;
        let write = registry::register(&self.snapshot().await, &id(own), &record, lease);
        self.store.commit(&write.unwrap()).await.unwrap().unwrap();
    }

    async fn submit(&self, own: &str) {
        let file = UnitFile::parse("[Service]\nExecStart=/bin/true\n").unwrap();
        let name = UnitName::new(own).unwrap();
        let write = registry::create(&self.snapshot().await, &name, &file, Desired::Launched);
        self.store.commit(&write).await.unwrap().unwrap();
    }

    async fn lead(&self, own: &str) -> (Epoch, i64) {
        let lease = self.lease().await;
        let write = registry::lead(&self.keys, &id(own), lease);
        (Epoch(self.store.commit(&write).await.unwrap().unwrap()), lease)
    }

    /// Creates an engine with the current state.
    async fn engine(&self) -> Engine {
        let reading = self.store.read(self.keys.root()).await.unwrap();
        Engine::new(self.keys.clone(), &reading, Duration::ZERO, Duration::ZERO)
    }

    /// Returns how many of the tasks land.
    async fn landed(&self, tasks: &[Task]) -> usize {
        let mut landed = 0;
        for task in tasks {
            landed += usize::from(self.store.commit(&task.transaction).await.unwrap().is_some());
        }
        landed
    }

    /// Checks that each unit has one place and is in that schedule only.
    async fn each_is_once(&self, count: usize) {
        let snapshot = self.snapshot().await;
        assert_eq!(snapshot.places.len(), count);
        for (name, place) in &snapshot.places {
            let scheduled =
                MACHINES.map(id).into_iter().filter(|one| snapshot.is_scheduled_on(one, name));
            let scheduled: Vec<MachineId> = scheduled.collect();
            assert_eq!(scheduled, std::slice::from_ref(&place.record.machine), "{name}");
        }
    }
}

/// A round: this many decisions of the old engine land before it sleeps.
async fn round(cluster: &Cluster, round: usize) {
    let (old, old_lease) = cluster.lead(MACHINES[round % 2]).await;
    for unit in 0..UNITS {
        cluster.submit(&format!("r{round}u{unit}.service")).await;
    }
    let mut stale = cluster.engine().await;
    let decided = stale.tasks(old, Duration::ZERO);
    assert!(!decided.is_empty());
    let (done, late) = decided.split_at(round % decided.len());
    assert_eq!(cluster.landed(done).await, done.len());
    // The old engine sleeps, its lease ends, and another engine leads.
    cluster.store.revoke(old_lease).await.unwrap();
    cluster.submit(&format!("r{round}new.service")).await;
    let (new, new_lease) = cluster.lead(MACHINES[(round + 1) % 2]).await;
    let mut next = cluster.engine().await;
    // The old engine resumes before, between and after the writes of the new engine.
    assert_eq!(cluster.landed(late).await, 0, "round {round}");
    for task in next.tasks(new, Duration::ZERO) {
        assert_eq!(cluster.landed(&[task]).await, 1, "round {round}");
        assert_eq!(cluster.landed(late).await, 0, "round {round}");
    }
    cluster.each_is_once((UNITS + 1) * (round + 1)).await;
    // The old engine receives the changes, but not that it was deposed, and decides again.
    let gone = UnitName::new(&format!("r{round}u0.service")).unwrap();
    cluster.submit(&format!("r{round}last.service")).await;
    let next = cluster.engine().await.tasks(old, Duration::ZERO);
    assert!(!next.is_empty());
    assert_eq!(cluster.landed(&next).await, 0, "round {round}");
    let last = registry::destroy(&cluster.snapshot().await, &gone).unwrap();
    cluster.store.commit(&last).await.unwrap().unwrap();
    let tasks = cluster.engine().await.tasks(new, Duration::ZERO);
    assert_eq!(cluster.landed(&tasks).await, tasks.len(), "round {round}");
    cluster.each_is_once((UNITS + 1) * (round + 1)).await;
    cluster.store.revoke(new_lease).await.unwrap();
}

#[test]
fn deposed_engine_that_believes_it_leads_places_no_unit() {
    run(async {
        let etcd = Etcd::start();
        let store = Store::etcd(etcd.config()).unwrap();
        when_there(&store).await;
        let cluster = Cluster { store, keys: Keys::under("/fleet") };
        assert_eq!(cluster.keys.root(), ROOT);
        for own in MACHINES {
            cluster.machine(own).await;
        }
        for number in 0..rounds() {
            round(&cluster, number).await;
        }
    });
}
