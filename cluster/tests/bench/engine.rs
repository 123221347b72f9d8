//! Measures the engine's decision about one change, in clusters of two sizes, without etcd.

use super::{Row, median};
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
use std::time::{Duration, Instant};

const CHANGES: usize = 200;
const GIB: u64 = 1024 * 1024 * 1024;

struct World {
    keys: Keys,
    store: MemoryStore,
    epoch: Epoch,
    file: UnitFile,
}

fn world(machines: usize, units: usize) -> World {
    let keys = Keys::under("/bench");
    let mut store = MemoryStore::default();
    let empty = Snapshot::new(keys.clone());
    let id = |number: usize| MachineId::new(&format!("m{number:05}")).unwrap();
    for number in 0..machines {
        let record = MachineRecord {
            ip: String::new(),
            metadata: BTreeMap::new(),
            boot: "one".to_string(),
            instance: "one".to_string(),
            disk: None,
            version: "1".to_string(),
            listen: None,
        };
        let lease = store.grant(u64::MAX);
        let write = registry::register(&empty, &id(number), &record, lease).unwrap();
        store.commit(&write).unwrap();
    }
    let lease = store.grant(u64::MAX);
    let epoch = Epoch(store.commit(&registry::lead(&keys, &id(0), lease)).unwrap());
    let file = UnitFile::parse("[Service]\nExecStart=/bin/sleep 100000\n").unwrap();
    let mut world = World { keys, store, epoch, file };
    (0..units).for_each(|number| world.submit(number));
    world
}

impl World {
    fn submit(&mut self, number: usize) {
        let name = UnitName::new(&format!("u{number:06}.service")).unwrap();
        let empty = Snapshot::new(self.keys.clone());
        let write = registry::create(&empty, &name, &self.file, Desired::Launched);
        self.store.commit(&write).unwrap();
    }

    /// Feeds changes to the engine and commits its tasks. Returns the decision time and the number
    /// of transactions.
    fn settle(&mut self, engine: &mut Engine) -> (Duration, usize) {
        let new = self.store.changes_since(engine.snapshot().revision).unwrap();
        let new: Vec<_> = new.into_iter().map(|(_, change)| change).collect();
        let began = Instant::now();
        engine.absorb(&new, Duration::ZERO);
        let tasks = engine.tasks(self.epoch, Duration::ZERO);
        let took = began.elapsed();
        let count = tasks.len();
        for task in tasks {
            self.store.commit(&task.transaction).unwrap();
        }
        (took, count)
    }
}

/// Measures the initial placement and the median of single changes.
fn decide(machines: usize, units: usize) -> (Duration, Duration) {
    let mut world = world(machines, units);
    let reading = world.store.read(world.keys.root());
    let mut engine = Engine::new(world.keys.clone(), &reading, Duration::ZERO, Duration::ZERO);
    let (all, _) = world.settle(&mut engine);
    world.settle(&mut engine);
    assert_eq!(engine.snapshot().places.len(), units, "all have a place");
    let mut times = Vec::new();
    for number in units..units + CHANGES {
        world.submit(number);
        let (took, count) = world.settle(&mut engine);
        assert_eq!(count, 1, "one change is one transaction");
        times.push(took);
    }
    (all, median(times))
}

/// Returns the peak memory of this process.
fn peak() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

pub(crate) fn measure() -> Vec<Row> {
    let (all, one) = decide(100, 10_000);
    let (more, big) = decide(1000, 50_000);
    let memory = peak();
    vec![
        Row::time("engine: 10,000 units on 100 machines placed", all, Duration::from_secs(30)),
        Row::time("engine: one change among them", one, Duration::from_millis(5))
            .promised("< 5 ms", ""),
        Row::time("engine: 50,000 units on 1,000 machines placed", more, Duration::from_secs(300)),
        Row::time("engine: one change among them", big, Duration::from_millis(20))
            .promised("< 20 ms", ""),
        Row {
            what: "memory of that, with the store",
            measured: format!("{} MiB", memory / 1024 / 1024),
            promised: "< 2 GiB",
            fleet: "",
            kept: memory < 2 * GIB,
        },
    ]
}
