//! The tasks of fleetd on an in-memory store, with a simulated init whose answers the test sets.
//! The simulation covers random faults.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use cluster::clock::Clock;
use cluster::desired::Desired;
use cluster::etcd_cache::EtcdCache;
use cluster::fleetd::daemon::{Daemon, Wiring};
use cluster::fleetd::identity::Identity;
use cluster::fleetd::init::{Answered, DrivenInit, Init, Look};
use cluster::fleetd::init_socket::InitFault;
use cluster::fleetd::metrics::Metrics;
use cluster::fleetd::saved_state::SavedState;
use cluster::fleetd::unit_runner::Leave;
use cluster::key::Keys;
use cluster::machine::MachineId;
use cluster::record::MachineRecord;
use cluster::registry;
use cluster::store::Store;
use cluster::transaction::MOST_OPERATIONS;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use groundstate_units::control::answer::{Failure, Put, UnitStatus};
use groundstate_units::control::source_set::SourceSet;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// `agent_ttl`; tests wait for two thirds of it.
pub(crate) const TTL: Duration = Duration::from_secs(6);
const SOON: Duration = Duration::from_secs(60);

/// An init that holds the last source, and may not answer.
pub(crate) struct FakeInit {
    pub(crate) set: watch::Sender<(u64, SourceSet)>,
    /// Number of unanswered puts, while none is answered.
    pub(crate) unanswered_puts: watch::Sender<Option<u32>>,
    /// Maximum number of files it accepts.
    pub(crate) most: watch::Sender<usize>,
    /// Number of puts refused for their size or because init does not know our source.
    pub(crate) refused_puts: watch::Sender<u32>,
    /// False if it does not know our source.
    pub(crate) knows_us: watch::Sender<bool>,
    /// Number of unanswered revision requests, while none is answered.
    pub(crate) unanswered_revisions: watch::Sender<Option<u32>>,
    /// Number of unanswered status requests, while none is answered.
    pub(crate) unanswered_looks: watch::Sender<Option<u32>>,
    /// Unit states that it reports regardless of its source.
    pub(crate) scripted_states: watch::Sender<Vec<serde_json::Value>>,
    /// Number of status requests.
    pub(crate) looks: watch::Sender<u64>,
    /// Running processes have an older file.
    pub(crate) stale: watch::Sender<bool>,
    /// Status requests hang.
    pub(crate) hangs: watch::Sender<bool>,
    /// There is no init.
    pub(crate) absent: watch::Sender<bool>,
}

impl FakeInit {
    pub(crate) fn new() -> Arc<FakeInit> {
        let set = watch::channel((0, SourceSet::default())).0;
        let (unanswered_puts, most) = (watch::channel(None).0, watch::channel(usize::MAX).0);
        let (refused_puts, stale) = (watch::channel(0).0, watch::channel(false).0);
        let (scripted_states, looks) = (watch::channel(Vec::new()).0, watch::channel(0).0);
        Arc::new(FakeInit {
            set,
            unanswered_puts,
            most,
            refused_puts,
            knows_us: watch::channel(true).0,
            unanswered_revisions: watch::channel(None).0,
            unanswered_looks: watch::channel(None).0,
            scripted_states,
            looks,
            stale,
            hangs: watch::channel(false).0,
            absent: watch::channel(false).0,
        })
    }

    /// Waits for this many more requests.
    pub(crate) async fn is_asked(&self, times: u64) {
        let mut looks = self.looks.subscribe();
        let now = *looks.borrow();
        looks.wait_for(|count| *count >= now + times).await.unwrap();
    }

    pub(crate) async fn has(&self, names: &[&str]) {
        let is_so = |set: &(u64, SourceSet)| set.1.files.keys().eq(names);
        self.set.subscribe().wait_for(is_so).await.unwrap();
    }
}

impl DrivenInit for FakeInit {
    fn is_absent(&self) -> bool {
        *self.absent.borrow()
    }

    fn revision(&self) -> Answered<Option<u64>> {
        if *self.hangs.borrow() {
            return Box::pin(std::future::pending());
        }
        if self.unanswered_revisions.borrow().is_some() {
            self.unanswered_revisions.send_modify(|count| *count = count.map(|count| count + 1));
            return Box::pin(std::future::pending());
        }
        if self.unanswered_looks.borrow().is_some() {
            return Box::pin(async { Err(InitFault::Gone("away".to_string())) });
        }
        let revision = self.set.borrow().0;
        Box::pin(async move { Ok((revision > 0).then_some(revision)) })
    }

    fn put(&self, set: &SourceSet) -> Answered<Put> {
        if self.unanswered_puts.borrow().is_some() {
            self.unanswered_puts.send_modify(|puts| *puts = puts.map(|count| count + 1));
            return Box::pin(async { Err(InitFault::Gone("away".to_string())) });
        }
        if !*self.knows_us.borrow() {
            self.refused_puts.send_modify(|refused_puts| *refused_puts += 1);
            let failure = Failure::new("unknown-source", "there is no such source", "");
            return Box::pin(async { Err(InitFault::Refused(Box::new(failure))) });
        }
        if set.files.len() > *self.most.borrow() {
            self.refused_puts.send_modify(|refused_puts| *refused_puts += 1);
            let failure = Failure::new("too-large", "there would be too many units", "");
            return Box::pin(async { Err(InitFault::Refused(Box::new(failure))) });
        }
        self.set.send_modify(|current| *current = (current.0 + 1, set.clone()));
        let revision = self.set.borrow().0;
        let (source, plan, diagnostics) = (String::new(), None, Vec::new());
        Box::pin(async move {
            Ok(Put { schema: 0, source, revision, generation: 0, plan, diagnostics })
        })
    }

    fn look(&self) -> Answered<Look> {
        self.looks.send_modify(|count| *count += 1);
        if *self.hangs.borrow() {
            return Box::pin(std::future::pending());
        }
        if self.unanswered_looks.borrow().is_some() {
            self.unanswered_looks.send_modify(|count| *count = count.map(|count| count + 1));
            return Box::pin(async { Err(InitFault::Gone("away".to_string())) });
        }
        let current = self.set.borrow();
        let stale = *self.stale.borrow();
        let roots: Vec<&str> = current.1.roots.iter().map(|root| root.as_str()).collect();
        let unit = |file: &String| {
            let name = file.strip_suffix(".yaml").unwrap_or(file);
            let needed = roots.contains(&name);
            let state = if needed { "running" } else { "disabled" };
            serde_json::from_value(serde_json::json!({
                "unit": name, "type": "foreground-supervised", "state": state,
                "needed": needed, "file": file, "stale": stale,
            }))
            .unwrap()
        };
        let scripted = self.scripted_states.borrow();
        let scripted = scripted.iter().map(|one| serde_json::from_value(one.clone()).unwrap());
        let scripted: Vec<UnitStatus> = scripted.collect();
        let is_unscripted = |unit: &UnitStatus| scripted.iter().all(|one| one.unit != unit.unit);
        let mut units: Vec<UnitStatus> =
            current.1.files.keys().map(unit).filter(is_unscripted).collect();
        units.extend(scripted);
        let revision = (current.0 > 0).then_some(current.0);
        Box::pin(async move { Ok(Look { units, revision, ending: false }) })
    }
}

/// A running fleetd, with its state for the next one.
pub(crate) struct Fleetd {
    pub(crate) cache: EtcdCache,
    pub(crate) tasks: Vec<JoinHandle<()>>,
    pub(crate) leave: mpsc::Sender<Leave>,
    /// Signals an event at init.
    pub(crate) happened: mpsc::Sender<()>,
    pub(crate) kept: Arc<Mutex<SavedState>>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Fleetd {
    pub(crate) fn begin(store: &Store, init: &Arc<FakeInit>, recalled: SavedState) -> Fleetd {
        Fleetd::begin_with(store, init, recalled, TTL)
    }

    pub(crate) fn begin_with(
        store: &Store,
        init: &Arc<FakeInit>,
        recalled: SavedState,
        ttl: Duration,
    ) -> Fleetd {
        Fleetd::begin_as("m1", store, init, recalled, (ttl, Clock::system()))
    }

    /// Starts the fleetd of a machine, with its `agent_ttl` and its clock.
    pub(crate) fn begin_as(
        own: &str,
        store: &Store,
        init: &Arc<FakeInit>,
        recalled: SavedState,
        (ttl, clock): (Duration, Clock),
    ) -> Fleetd {
        let word = String::from;
        let record = MachineRecord {
            ip: String::new(),
            metadata: BTreeMap::new(),
            boot: word("boot"),
            instance: word("one"),
            disk: None,
            version: word("1"),
            listen: None,
        };
        let kept = Arc::new(Mutex::new(recalled.clone()));
        let keeps = kept.clone();
        let id = MachineId::new(own).unwrap();
        let (daemon, tasks) = Daemon::new(Wiring {
            store: store.clone(),
            keys: Keys::under("/f"),
            clock,
            identity: Identity { id, boot: word("boot"), instance: word("one"), disk: None },
            record,
            init: Init::driven(init.clone()),
            ttl,
            engine: Some(Duration::from_secs(1)),
            grace: Duration::ZERO,
            room: MOST_OPERATIONS,
            trust_keeper: None,
            recalled,
            keep: Box::new(move |recalled| *keeps.lock().unwrap() = recalled.clone()),
        });
        let (cache, leave) = (daemon.cache.clone(), daemon.leave.clone());
        let (metrics, happened) = (daemon.metrics.clone(), daemon.happened.clone());
        let mut tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
        // The handle exists while it runs.
        tasks.push(tokio::spawn(async move {
            let _daemon = daemon;
            std::future::pending().await
        }));
        Fleetd { cache, tasks, leave, happened, kept, metrics }
    }

    pub(crate) fn crash(self) -> SavedState {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.kept.lock().unwrap().clone()
    }

    pub(crate) async fn submit(&self, own: &str, asks: &str, desired: Desired) {
        let text = format!(
            "[Service]\nExecStart=/bin/true\nTimeoutStopSec=1\n[X-Fleet]\nMachineID=m1\n{asks}\n"
        );
        self.put(own, UnitFile::parse(&text).unwrap(), desired).await;
    }

    pub(crate) async fn put(&self, own: &str, file: UnitFile, desired: Desired) {
        let name = UnitName::new(own).unwrap();
        let write = registry::create(&self.cache.snapshot(), &name, &file, desired);
        self.cache.store().commit(&write).await.unwrap().unwrap();
    }
}

/// Runs a future within the time limit of a test.
pub(crate) fn soon(shows: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(SOON, shows).await.unwrap() });
}
