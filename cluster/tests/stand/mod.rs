//! A cluster in one process, for tests of the API and fleetctl.
//! It has the real router on a real unix socket, an in-memory store and the real engine. Simulated
//! machines apply everything at once.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use cluster::api::listener::{ListenAddress, Listener, Security};
use cluster::api::server::{ApiState, Settings};
use cluster::desired::Desired;
use cluster::engine::Engine;
use cluster::etcd_cache::EtcdCache;
use cluster::key::Keys;
use cluster::machine::MachineId;
use cluster::record::{Ended, MachineRecord, StateRecord};
use cluster::registry::{self, Epoch};
use cluster::snapshot::Snapshot;
use cluster::store::Store;
use cluster::unit_name::UnitName;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// A unit that runs until it is stopped.
pub(crate) const HELLO: &str =
    "[Unit]\nDescription=Hello\n\n[Service]\nExecStart=/bin/sleep 1000\n";

static COUNT: AtomicU32 = AtomicU32::new(0);

/// The stand.
pub(crate) struct Stand {
    pub(crate) folder: PathBuf,
    pub(crate) store: Store,
    pub(crate) keys: Keys,
    pub(crate) tcp: Option<SocketAddr>,
    stop: tokio::sync::watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Its configuration.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) machines: Vec<(&'static str, Vec<(&'static str, &'static str)>)>,
    /// The published API addresses of machines.
    pub(crate) listen: BTreeMap<&'static str, String>,
    pub(crate) settings: Settings,
    pub(crate) security: Option<Security>,
    /// Units fail if their file says so: everywhere, or one unit on one machine.
    pub(crate) failing: bool,
}

impl Plan {
    pub(crate) fn of(machines: &[&'static str]) -> Plan {
        let machines = machines.iter().map(|id| (*id, Vec::new())).collect();
        Plan { machines, ..Plan::default() }
    }
}

pub(crate) fn folder() -> PathBuf {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("fleet-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a file for fleetctl.
pub(crate) fn write(stand: &Stand, name: &str, text: &str) {
    std::fs::write(stand.folder.join(name), text).unwrap();
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// Raises the descriptor limit for the many connections of parallel tests.
fn have_room() {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(8_192)), hard).unwrap();
}

impl Stand {
    pub(crate) fn new(plan: Plan) -> Stand {
        have_room();
        let folder = folder();
        let store = Store::memory();
        let keys = Keys::under("/test");
        let (ready, listening) = mpsc::channel();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let (inner, inner_keys, socket) = (store.clone(), keys.clone(), folder.join("fleet.sock"));
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(run(plan, inner, inner_keys, socket, ready, stopped));
        });
        let tcp = listening.recv_timeout(Duration::from_secs(20)).unwrap();
        Stand { folder, store, keys, tcp, stop, thread: Some(thread) }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("fleet.sock")
    }

    /// Sends raw bytes and returns the answer.
    pub(crate) fn send(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        Reply::read(&mut stream)
            .unwrap_or_else(|| panic!("no answer to {:?}", String::from_utf8_lossy(bytes)))
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&str>) -> Reply {
        let typed = body.map(|body| {
            format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len())
        });
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: domain-sock\r\n{}\r\n",
            typed.unwrap_or_default()
        );
        self.send(format!("{head}{}", body.unwrap_or_default()).as_bytes())
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, None)
    }

    pub(crate) fn put(&self, name: &str, body: &str) -> Reply {
        self.ask("PUT", &format!("/fleet/v1/units/{name}"), Some(body))
    }

    /// Runs fleetctl against the stand.
    pub(crate) fn fleetctl(&self, words: &[&str]) -> Output {
        let endpoint = format!("unix://{}", self.socket().display());
        fleetctl(&self.folder, &endpoint, words)
    }

    /// Waits for a condition.
    pub(crate) fn until(&self, what: &str, so: impl Fn(&Stand) -> bool) {
        let began = std::time::Instant::now();
        while !so(self) {
            assert!(began.elapsed() < Duration::from_secs(30), "timed out: {what}");
            std::thread::yield_now();
        }
    }
}

pub(crate) fn fleetctl(folder: &Path, endpoint: &str, words: &[&str]) -> Output {
    // `tests/machine.rs` covers the health of units over time.
    let rolls = words.contains(&"rollout") && !words.iter().any(|word| word.contains("healthy"));
    Command::new(env!("CARGO_BIN_EXE_fleetctl"))
        .args(words)
        .args(rolls.then_some("--healthy-for=0"))
        .env("FLEETCTL_ENDPOINT", endpoint)
        .current_dir(folder)
        .output()
        .unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

impl Drop for Stand {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A parsed answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Reply {
    /// Reads an answer, or returns `None` if the connection ended without one.
    pub(crate) fn read(stream: &mut impl Read) -> Option<Reply> {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            match stream.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(read) => bytes.extend(&piece[..read]),
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let split = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_lowercase(), value.trim().to_string()))
        };
        let headers: BTreeMap<String, String> = lines.filter_map(split).collect();
        let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        while bytes.len() < end + length {
            match stream.read(&mut piece) {
                Ok(0) | Err(_) => break,
                Ok(read) => bytes.extend(&piece[..read]),
            }
        }
        let body = String::from_utf8_lossy(&bytes[end..]).into_owned();
        Some(Reply { status, headers, body })
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Returns status and message of a refusal.
    pub(crate) fn fault(&self) -> (u16, String) {
        let message = self.json()["error"]["message"].as_str().map(str::to_string);
        (self.status, message.unwrap_or_default())
    }
}

async fn run(
    plan: Plan,
    store: Store,
    keys: Keys,
    socket: PathBuf,
    ready: mpsc::Sender<Option<SocketAddr>>,
    stopped: tokio::sync::watch::Receiver<bool>,
) {
    let (cache, _task) = EtcdCache::start(store.clone(), keys.clone());
    let mut leases = BTreeMap::new();
    for (id, metadata) in &plan.machines {
        let listen = plan.listen.get(id).cloned();
        let id = MachineId::new(id).unwrap();
        let lease = store.grant(Duration::from_secs(3600)).await.unwrap().id;
        let pairs = metadata.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        let record = MachineRecord {
            ip: "127.0.0.1".to_string(),
            metadata: pairs.collect(),
            boot: "boot".to_string(),
            instance: "one".to_string(),
            disk: None,
            version: "1".to_string(),
            listen,
        };
        let snapshot = Snapshot::new(keys.clone());
        let write = registry::register(&snapshot, &id, &record, lease).unwrap();
        store.commit(&write).await.unwrap().unwrap();
        leases.insert(id, lease);
    }
    let state = ApiState::new(cache.clone(), plan.settings);
    let security = plan.security.clone().unwrap_or_default();
    let local = Listener::bind(&ListenAddress::Unix(socket), &security).await.unwrap();
    let mut tcp = None;
    if plan.security.is_some() {
        let place = ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
        let listener = Listener::bind(&place, &security).await.unwrap();
        tcp = listener.address();
        tokio::spawn(listener.serve(state.clone(), stopped.clone()));
    }
    let lead = match leases.iter().next() {
        Some((id, lease)) => {
            let write = registry::lead(&keys, id, *lease);
            Some(Epoch(store.commit(&write).await.unwrap().unwrap()))
        }
        None => None,
    };
    let last = store.read(keys.root()).await.unwrap().revision;
    assert!(cache.reached(last, Duration::from_secs(10)).await);
    tokio::spawn(drive(cache, store, keys, lead, leases, plan.failing));
    ready.send(tcp).unwrap();
    local.serve(state, stopped).await;
}

/// Runs engine and machines: applies all consequences of each change.
async fn drive(
    cache: EtcdCache,
    store: Store,
    keys: Keys,
    lead: Option<Epoch>,
    leases: BTreeMap<MachineId, i64>,
    failing: bool,
) {
    let mut changes = cache.changes();
    loop {
        changes.mark_unchanged();
        loop {
            let Ok(reading) = store.read(keys.root()).await else { break };
            let mut writes = Vec::new();
            if let Some(epoch) = lead {
                let mut engine =
                    Engine::new(keys.clone(), &reading, Duration::ZERO, Duration::ZERO);
                writes.extend(
                    engine.tasks(epoch, Duration::ZERO).into_iter().map(|task| task.transaction),
                );
            }
            let snapshot = Snapshot::of(keys.clone(), &reading);
            for (id, lease) in &leases {
                let states = published_states(&snapshot, id, failing);
                let known = snapshot.states.iter().filter(|(_, on)| on.contains_key(id));
                let known: BTreeSet<&UnitName> = known.map(|(name, _)| name).collect();
                for name in states.keys().chain(known.iter().copied()) {
                    let old = snapshot.states.get(name).and_then(|on| on.get(id));
                    let new = states.get(name);
                    if old.map(|kept| &kept.record) != new {
                        let last = old.map(|kept| kept.modified);
                        writes.push(registry::publish(&keys, id, name, new, last, *lease));
                    }
                }
            }
            let mut written = false;
            for write in writes {
                written |= matches!(store.commit(&write).await, Ok(Some(_)));
            }
            if !written {
                break;
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Returns the states that a machine publishes after it has applied its schedule.
fn published_states(
    snapshot: &Snapshot,
    id: &MachineId,
    failing: bool,
) -> BTreeMap<UnitName, StateRecord> {
    let host = snapshot.host(id);
    let global = snapshot.globals.iter().filter(|(name, _)| host.globals.contains_key(*name));
    let own = snapshot.schedules.get(id).into_iter().flatten();
    let all = own.chain(global).map(|(name, kept)| {
        let published = snapshot.states.get(name).and_then(|on| on.get(id));
        let waits = kept.record.first.as_ref().is_some_and(|first| !first.contains(id));
        if let Some(published) = published.filter(|_| waits) {
            return (name.clone(), published.record.clone());
        }
        let text = snapshot.units.get(name).map(|kept| kept.record.file.text()).unwrap_or_default();
        let here = text.contains(&format!("/bin/fails/{name}/{id}"));
        let bad = failing && (here || text.contains("/bin/false"));
        let ended = match text.lines().find_map(|line| line.strip_prefix("Ends=")) {
            Some("done") => Some(Ended::Done),
            Some("skipped") => Some(Ended::Skipped),
            Some("failed") => Some(Ended::Failed),
            _ => None,
        };
        let ended = ended.filter(|_| kept.record.desired == Desired::Launched);
        let (active, sub) = match kept.record.desired {
            Desired::Launched if bad => ("failed", "failed"),
            Desired::Launched if ended.is_none() => ("active", "running"),
            Desired::Launched | Desired::Loaded | Desired::Inactive => ("inactive", "dead"),
        };
        let record = StateRecord {
            hash: kept.record.hash.clone(),
            load: "loaded".to_string(),
            active: active.to_string(),
            sub: sub.to_string(),
            reached: kept.record.desired,
            reason: None,
            ended,
            run: None,
        };
        (name.clone(), record)
    });
    all.collect()
}
