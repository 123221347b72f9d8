//! Many machines in one process: the tasks of fleetd on a real etcd, each with a simulated init
//! that applies everything at once.

use cluster::clock::Clock;
use cluster::fleetd::daemon::{Daemon, Wiring};
use cluster::fleetd::identity::Identity;
use cluster::fleetd::init::{Answered, DrivenInit, Init, Look};
use cluster::fleetd::metrics::Metrics;
use cluster::key::Keys;
use cluster::machine::MachineId;
use cluster::record::MachineRecord;
use cluster::store::{EtcdConfig, Store};
use cluster::transaction::MOST_OPERATIONS;
use groundstate_units::control::answer::Put;
use groundstate_units::control::source_set::SourceSet;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Machines that share a connection: etcd limits the streams of one connection.
const ON_ONE_WIRE: usize = 25;

/// An init without processes.
#[derive(Default)]
struct Prompt {
    put: Mutex<(u64, SourceSet)>,
}

impl DrivenInit for Prompt {
    fn revision(&self) -> Answered<Option<u64>> {
        let revision = self.put.lock().unwrap().0;
        Box::pin(async move { Ok((revision > 0).then_some(revision)) })
    }

    fn put(&self, set: &SourceSet) -> Answered<Put> {
        let mut put = self.put.lock().unwrap();
        *put = (put.0 + 1, set.clone());
        let revision = put.0;
        Box::pin(async move {
            Ok(Put {
                schema: 0,
                source: String::new(),
                revision,
                generation: 0,
                plan: None,
                diagnostics: Vec::new(),
            })
        })
    }

    fn look(&self) -> Answered<Look> {
        let put = self.put.lock().unwrap();
        let roots: Vec<&str> = put.1.roots.iter().map(|root| root.as_str()).collect();
        let unit = |name: &String| {
            let needed = roots.contains(&name.as_str());
            let state = if needed { "running" } else { "disabled" };
            serde_json::from_value(serde_json::json!({
                "unit": name, "type": "foreground-supervised", "state": state,
                "needed": needed, "file": name,
            }))
            .unwrap()
        };
        let units = put.1.files.keys().map(unit).collect();
        let revision = (put.0 > 0).then_some(put.0);
        Box::pin(async move { Ok(Look { units, revision, ending: false }) })
    }
}

/// All machines. Dropping them is a power failure: no machine tells etcd anything.
pub(crate) struct Crowd {
    stop: tokio::sync::watch::Sender<()>,
    /// Metrics of each machine's engine.
    pub(crate) metrics: Vec<Arc<Metrics>>,
    /// The thread of all machines, under /proc.
    task: PathBuf,
    thread: Option<std::thread::JoinHandle<()>>,
}

pub(crate) fn id(number: usize) -> MachineId {
    MachineId::new(&format!("{:032x}", number + 1)).unwrap()
}

impl Crowd {
    /// Starts this many machines at once; `boot` is their boot id. `times` are `agent_ttl` and
    /// `engine_reconcile_interval`.
    pub(crate) fn start(
        etcd: &EtcdConfig,
        keys: &Keys,
        boot: &str,
        times: (Duration, Duration),
        count: usize,
    ) -> Crowd {
        cluster::log::silence();
        let (stop, mut stopped) = tokio::sync::watch::channel(());
        let (etcd, keys, boot) = (etcd.clone(), keys.clone(), boot.to_string());
        let (started, known) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut kept = Vec::new();
                for first in (0..count).step_by(ON_ONE_WIRE) {
                    let store = Store::etcd(etcd.clone()).unwrap();
                    for number in first..count.min(first + ON_ONE_WIRE) {
                        let (daemon, tasks) =
                            Daemon::new(wiring(store.clone(), keys.clone(), &boot, times, number));
                        kept.push(daemon);
                        tasks.into_iter().for_each(|task| drop(tokio::spawn(task)));
                    }
                }
                let metrics = kept.iter().map(|daemon: &Daemon| daemon.metrics.clone());
                let task =
                    PathBuf::from("/proc").join(std::fs::read_link("/proc/thread-self").unwrap());
                started.send((metrics.collect(), task)).unwrap();
                let _ = stopped.changed().await;
            });
        });
        let (metrics, task) = known.recv().unwrap();
        Crowd { stop, metrics, task, thread: Some(thread) }
    }

    /// CPU time of all machines.
    pub(crate) fn busy(&self) -> Duration {
        let text = std::fs::read_to_string(self.task.join("schedstat")).unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn wiring(
    store: Store,
    keys: Keys,
    boot: &str,
    (ttl, interval): (Duration, Duration),
    number: usize,
) -> Wiring {
    let (boot, instance) = (boot.to_string(), boot.to_string());
    let identity = Identity { id: id(number), boot: boot.clone(), instance, disk: None };
    let record = MachineRecord {
        ip: "192.0.2.1".to_string(),
        metadata: BTreeMap::from([("number".to_string(), number.to_string())]),
        boot: boot.to_string(),
        instance: boot.to_string(),
        disk: None,
        version: "1".to_string(),
        listen: None,
    };
    Wiring {
        store,
        keys,
        clock: Clock::system(),
        identity,
        record,
        init: Init::driven(Arc::new(Prompt::default())),
        ttl,
        engine: Some(interval),
        grace: Duration::ZERO,
        room: MOST_OPERATIONS,
        trust_keeper: None,
        recalled: Default::default(),
        keep: Box::new(|_| {}),
    }
}

/// Returns one of etcd's counters.
pub(crate) fn counted(etcd: SocketAddr, name: &str) -> f64 {
    let mut stream = TcpStream::connect(etcd).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("etcd counts no {name}"))
}
