//! Flapping machines: the engine moves their units a few times and then leaves them. Stable
//! machines are not delayed. In-memory store and simulated clock; `flap_damping.rs` has the
//! damping.

use cluster::desired::Desired;
use cluster::engine::Engine;
use cluster::flap_damping;
use cluster::key::{Keys, Subject};
use cluster::machine::MachineId;
use cluster::memory_store::MemoryStore;
use cluster::record::MachineRecord;
use cluster::registry::{self, Epoch};
use cluster::snapshot::Snapshot;
use cluster::transaction::Change;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use std::collections::BTreeMap;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MACHINES: usize = 1_000;
const UNITS: usize = 500;

struct Cluster {
    keys: Keys,
    store: MemoryStore,
    engine: Engine,
    epoch: Epoch,
    leases: Vec<Option<i64>>,
    now: Duration,
    /// Number of places written.
    moves: usize,
}

fn id(number: usize) -> MachineId {
    MachineId::new(&format!("m{number:04}")).unwrap()
}

fn unit(number: usize) -> UnitName {
    UnitName::new(&format!("u{number:04}.service")).unwrap()
}

impl Cluster {
    fn new(machines: usize, units: usize) -> Cluster {
        let keys = Keys::under("/test");
        let mut store = MemoryStore::default();
        let lease = store.grant(u64::MAX);
        let epoch = Epoch(store.commit(&registry::lead(&keys, &id(0), lease)).unwrap());
        let file = UnitFile::parse("[Service]\nExecStart=/bin/sleep 1000\n").unwrap();
        let empty = Snapshot::new(keys.clone());
        for number in 0..units {
            let write = registry::create(&empty, &unit(number), &file, Desired::Launched);
            store.commit(&write).unwrap();
        }
        let engine = Engine::new(keys.clone(), &store.read(keys.root()), Duration::ZERO, SECOND);
        let leases = vec![None; machines];
        let mut made = Cluster { keys, store, engine, epoch, leases, now: SECOND, moves: 0 };
        (0..machines).for_each(|number| made.comes(number));
        made.settle();
        made
    }

    fn comes(&mut self, number: usize) {
        if self.leases[number].is_some() {
            return;
        }
        let lease = self.store.grant(u64::MAX);
        let record = MachineRecord {
            ip: String::new(),
            metadata: BTreeMap::new(),
            boot: String::new(),
            instance: "one".to_string(),
            disk: None,
            version: "1".to_string(),
            listen: None,
        };
        let empty = Snapshot::new(self.keys.clone());
        let write = registry::register(&empty, &id(number), &record, lease).unwrap();
        self.store.commit(&write).unwrap();
        self.leases[number] = Some(lease);
    }

    fn goes(&mut self, number: usize) {
        if let Some(lease) = self.leases[number].take() {
            self.store.revoke(lease);
        }
    }

    /// Passes all changes to the engine and applies its tasks.
    fn settle(&mut self) {
        loop {
            let new = self.store.changes_since(self.engine.snapshot().revision).unwrap();
            let new: Vec<Change> = new.into_iter().map(|(_, change)| change).collect();
            self.engine.absorb(&new, self.now);
            let tasks = self.engine.tasks(self.epoch, self.now);
            if tasks.is_empty() {
                return;
            }
            for task in tasks {
                self.moves += task.moves.len();
                self.store.commit(&task.transaction).unwrap();
            }
        }
    }

    /// One second in which `restless` machines leave and return, each once in five seconds.
    fn flap(&mut self, restless: usize) {
        let second = usize::try_from(self.now.as_secs()).unwrap();
        for number in 0..restless {
            match (second + number) % 5 {
                0 => self.goes(number),
                2 => self.comes(number),
                _ => {}
            }
        }
        self.settle();
        self.now += SECOND;
    }

    /// Returns the moves in that many seconds.
    fn moves_in(&mut self, seconds: usize, restless: usize) -> usize {
        let before = self.moves;
        (0..seconds).for_each(|_| self.flap(restless));
        self.moves - before
    }

    fn place(&self, number: usize) -> Option<MachineId> {
        self.engine.snapshot().place_of(&unit(number)).cloned()
    }
}

#[test]
fn units_of_a_thousand_flapping_machines_stop_moving_after_a_few_moves() {
    let mut cluster = Cluster::new(MACHINES, UNITS);
    assert_eq!(cluster.moves, UNITS, "all of them have a place");
    let first = cluster.moves_in(60, MACHINES);
    assert!(first > 0, "the first departure of a machine moves its units");
    assert!(first <= 12 * UNITS, "{first} moves in the first minute");
    let minutes: Vec<usize> = (0..3).map(|_| cluster.moves_in(60, MACHINES)).collect();
    assert_eq!(minutes, [0; 3], "flapping machines still cause moves");
    // All are back for a while; later departures have no extra delay.
    (0..MACHINES)
        .filter(|number| cluster.leases[*number].is_none())
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|number| cluster.comes(number));
    cluster.settle();
    cluster.now += SECOND * 300;
    let before = cluster.moves;
    let on = cluster.place(0).unwrap();
    let gone = (0..MACHINES).find(|number| id(*number) == on).unwrap();
    cluster.goes(gone);
    cluster.settle();
    assert!(cluster.moves > before && cluster.place(0).is_some_and(|new| new != on));
}

#[test]
fn stable_machine_has_no_flap_delay_and_a_dead_flapping_one_loses_its_units() {
    let mut cluster = Cluster::new(10, 40);
    cluster.moves_in(120, 5);
    let restless =
        |place: Option<MachineId>| (0..5).find(|number| place.as_ref() == Some(&id(*number)));
    let calm = (0..40).find(|number| restless(cluster.place(*number)).is_none()).unwrap();
    let on = cluster.place(calm).unwrap();
    let gone = (5..10).find(|number| id(*number) == on).unwrap();
    cluster.goes(gone);
    cluster.settle();
    assert!(cluster.place(calm).is_some_and(|new| new != on), "at once");
    // A flapping machine that is now dead keeps its units for a limited time.
    cluster.flap(5);
    let Some((kept, dead)) =
        (0..40).find_map(|number| Some((number, restless(cluster.place(number))?)))
    else {
        return assert!(cluster.moves > 0, "all units are on stable machines");
    };
    cluster.goes(dead);
    cluster.settle();
    let on = cluster.place(kept);
    assert_eq!(on, Some(id(dead)), "the flapping machine may return");
    cluster.now += flap_damping::LONGEST + SECOND;
    cluster.settle();
    assert_ne!(cluster.place(kept), on, "the dead machine keeps its unit after the delay");
    let schedule = Subject::Schedule(id(dead), unit(kept));
    assert!(cluster.store.get(&cluster.keys.of(&schedule)).is_none());
}
