//! Machines simulated as tasks: each registers with its own lease, watches its schedule, and
//! reports its units at once.

use cluster::desired::Desired;
use cluster::key::{Keys, Subject};
use cluster::machine::MachineId;
use cluster::record::{MachineRecord, ScheduleRecord, StateRecord, decode};
use cluster::registry;
use cluster::snapshot::Snapshot;
use cluster::store::{Batch, EtcdConfig, Store};
use cluster::transaction::Change;
use cluster::unit_name::UnitName;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(600);

/// All agents; they end with the process.
pub(crate) struct Agents {
    /// Number of wake-ups by changes.
    pub(crate) woken: Arc<AtomicU64>,
}

impl Agents {
    /// Starts this many agents on a thread of their own, and returns once they are registered.
    pub(crate) fn start(config: EtcdConfig, keys: &Keys, first: usize, count: usize) -> Agents {
        let woken: Arc<AtomicU64> = Arc::default();
        let (ready, registered) = std::sync::mpsc::channel();
        let (counter, keys) = (woken.clone(), keys.clone());
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let store = Store::etcd(config).unwrap();
                let all = (first..first + count).map(|number| {
                    let id = MachineId::new(&format!("sim{number:05}")).unwrap();
                    let (store, keys) = (store.clone(), keys.clone());
                    tokio::spawn(agent(store, keys, id, counter.clone(), ready.clone()))
                });
                let all: Vec<_> = all.collect();
                for one in all {
                    one.await.unwrap();
                }
            });
        });
        for _ in 0..count {
            registered.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        Agents { woken }
    }
}

async fn agent(
    store: Store,
    keys: Keys,
    id: MachineId,
    woken: Arc<AtomicU64>,
    ready: std::sync::mpsc::Sender<()>,
) {
    let lease = store.grant(TTL).await.unwrap().id;
    let kind = ("kind".to_string(), "simulated".to_string());
    let record = MachineRecord {
        ip: "192.0.2.1".to_string(),
        metadata: BTreeMap::from([kind]),
        boot: "boot".to_string(),
        instance: id.to_string(),
        disk: None,
        version: "1".to_string(),
        listen: None,
    };
    let snapshot = Snapshot::new(keys.clone());
    let write = registry::register(&snapshot, &id, &record, lease).unwrap();
    let from = store.commit(&write).await.unwrap().unwrap();
    let mut watch = store.watch(&keys.schedule_of(&id), from).await.unwrap();
    ready.send(()).unwrap();
    let mut states: BTreeMap<UnitName, i64> = BTreeMap::new();
    while let Ok(Batch::Changes { changes, .. }) = watch.next().await {
        if changes.is_empty() {
            continue;
        }
        woken.fetch_add(1, Ordering::Relaxed);
        for change in changes {
            let (key, wish) = match change {
                Change::Put(entry) => {
                    (entry.key.clone(), decode::<ScheduleRecord>(&entry.value).ok())
                }
                Change::Delete { key, .. } => (key, None),
            };
            let Some(Subject::Schedule(_, name)) = keys.subject(&key) else { continue };
            let state = wish.map(|wish| state(&wish));
            let last = states.get(&name).copied();
            let write = registry::publish(&keys, &id, &name, state.as_ref(), last, lease);
            match (store.commit(&write).await, state) {
                (Ok(Some(revision)), Some(_)) => states.insert(name, revision),
                _ => states.remove(&name),
            };
        }
    }
}

fn state(wish: &ScheduleRecord) -> StateRecord {
    let (active, sub) = match wish.desired {
        Desired::Launched => ("active", "running"),
        Desired::Loaded | Desired::Inactive => ("inactive", "dead"),
    };
    StateRecord {
        hash: wish.hash.clone(),
        load: "loaded".to_string(),
        active: active.to_string(),
        sub: sub.to_string(),
        reached: wish.desired,
        reason: None,
        ended: None,
        run: None,
    }
}
