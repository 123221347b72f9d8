//! The very tasks of fleetd over a store in memory and an init without processes, of which a test says
//! what it answers. Drawn faults are the simulation's.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use cluster::clock::Clock;
use cluster::desired::Desired;
use cluster::fleetd::daemon::{Daemon, Wiring};
use cluster::fleetd::identity::Identity;
use cluster::fleetd::init::{Answered, DrivenInit, Init, Look};
use cluster::fleetd::init_socket::InitFault;
use cluster::fleetd::recollection::Recalled;
use cluster::fleetd::steward::Leave;
use cluster::key::Keys;
use cluster::machine::MachineId;
use cluster::mirror::Mirror;
use cluster::record::MachineRecord;
use cluster::registry;
use cluster::store::Store;
use cluster::transaction::MOST_OPERATIONS;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use groundstate_units::control::answer::{Failure, Put};
use groundstate_units::control::source_set::SourceSet;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// `agent_ttl`: two thirds of it are waited for.
pub(crate) const TTL: Duration = Duration::from_secs(6);
const SOON: Duration = Duration::from_secs(60);

/// An init that has what it was told last, and may not answer.
pub(crate) struct Told {
    pub(crate) set: watch::Sender<(u64, SourceSet)>,
    /// How many puts were not taken, while none is.
    pub(crate) refused: watch::Sender<Option<u32>>,
    /// It takes no more files than that.
    pub(crate) most: watch::Sender<usize>,
    /// How often it did not say how its units fare, while it does not.
    pub(crate) mute: watch::Sender<Option<u32>>,
}

impl Told {
    pub(crate) fn new() -> Arc<Told> {
        let set = watch::channel((0, SourceSet::default())).0;
        let (refused, most) = (watch::channel(None).0, watch::channel(usize::MAX).0);
        Arc::new(Told { set, refused, most, mute: watch::channel(None).0 })
    }

    pub(crate) async fn has(&self, names: &[&str]) {
        let is_so = |set: &(u64, SourceSet)| set.1.files.keys().eq(names);
        self.set.subscribe().wait_for(is_so).await.unwrap();
    }
}

impl DrivenInit for Told {
    fn revision(&self) -> Answered<Option<u64>> {
        let revision = self.set.borrow().0;
        Box::pin(async move { Ok((revision > 0).then_some(revision)) })
    }

    fn put(&self, set: &SourceSet) -> Answered<Put> {
        let refuses = self.refused.borrow().is_some();
        if refuses {
            self.refused.send_modify(|refused| *refused = refused.map(|count| count + 1));
            return Box::pin(async { Err(InitFault::Gone("away".to_string())) });
        }
        if set.files.len() > *self.most.borrow() {
            let failure = Failure::new("too-large", "there would be too many units", "");
            return Box::pin(async { Err(InitFault::Refused(Box::new(failure))) });
        }
        self.set.send_modify(|told| *told = (told.0 + 1, set.clone()));
        let revision = self.set.borrow().0;
        let (source, plan, diagnostics) = (String::new(), None, Vec::new());
        Box::pin(async move {
            Ok(Put { schema: 0, source, revision, generation: 0, plan, diagnostics })
        })
    }

    fn look(&self) -> Answered<Look> {
        if self.mute.borrow().is_some() {
            self.mute.send_modify(|count| *count = count.map(|count| count + 1));
            return Box::pin(async { Err(InitFault::Gone("away".to_string())) });
        }
        let told = self.set.borrow();
        let roots: Vec<&str> = told.1.roots.iter().map(|root| root.as_str()).collect();
        let unit = |file: &String| {
            let name = file.strip_suffix(".yaml").unwrap_or(file);
            let needed = roots.contains(&name);
            let state = if needed { "running" } else { "disabled" };
            serde_json::from_value(serde_json::json!({
                "unit": name, "type": "foreground-supervised", "state": state,
                "needed": needed, "file": file,
            }))
            .unwrap()
        };
        let units = told.1.files.keys().map(unit).collect();
        let revision = (told.0 > 0).then_some(told.0);
        Box::pin(async move { Ok(Look { units, revision, ending: false }) })
    }
}

/// A fleetd; what it keeps for the next one.
pub(crate) struct Fleetd {
    pub(crate) mirror: Mirror,
    pub(crate) tasks: Vec<JoinHandle<()>>,
    pub(crate) leave: mpsc::Sender<Leave>,
    pub(crate) kept: Arc<Mutex<Recalled>>,
}

impl Fleetd {
    pub(crate) fn begin(store: &Store, init: &Arc<Told>, recalled: Recalled) -> Fleetd {
        Fleetd::begin_with(store, init, recalled, TTL)
    }

    pub(crate) fn begin_with(
        store: &Store,
        init: &Arc<Told>,
        recalled: Recalled,
        ttl: Duration,
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
        let id = MachineId::new("m1").unwrap();
        let (daemon, tasks) = Daemon::new(Wiring {
            store: store.clone(),
            keys: Keys::under("/f"),
            clock: Clock::system(),
            identity: Identity { id, boot: word("boot"), instance: word("one"), disk: None },
            record,
            init: Init::driven(init.clone()),
            ttl,
            engine: Some(Duration::from_secs(1)),
            grace: Duration::ZERO,
            room: MOST_OPERATIONS,
            vouching: None,
            recalled,
            keep: Box::new(move |recalled| *keeps.lock().unwrap() = recalled.clone()),
        });
        let (mirror, leave) = (daemon.mirror.clone(), daemon.leave.clone());
        let mut tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
        // The handle is there as long as it runs.
        tasks.push(tokio::spawn(async move {
            let _daemon = daemon;
            std::future::pending().await
        }));
        Fleetd { mirror, tasks, leave, kept }
    }

    pub(crate) fn crash(self) -> Recalled {
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
        let write = registry::create(&self.mirror.picture(), &name, &file, desired);
        self.mirror.store().commit(&write).await.unwrap().unwrap();
    }
}

/// In the time a test has.
pub(crate) fn soon(shows: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(SOON, shows).await.unwrap() });
}
