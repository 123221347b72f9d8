//! A machine that is cut off from etcd, and its exclusive units: the very tasks of fleetd over a store
//! in memory and an init without processes, of which a test says what it answers. Drawn faults are the
//! simulation's.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test ends where it is surprised"
)]

use cluster::clock::Clock;
use cluster::desired::Desired;
use cluster::fleetd::daemon::{Daemon, Wiring};
use cluster::fleetd::identity::Identity;
use cluster::fleetd::init::{Answered, DrivenInit, Init, Look};
use cluster::fleetd::init_socket::InitFault;
use cluster::fleetd::recollection::Recalled;
use cluster::key::Keys;
use cluster::machine::MachineId;
use cluster::mirror::Mirror;
use cluster::record::MachineRecord;
use cluster::registry;
use cluster::store::Store;
use cluster::transaction::MOST_OPERATIONS;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use groundstate_units::control::answer::Put;
use groundstate_units::control::source_set::SourceSet;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// `agent_ttl`: two thirds of it are waited for.
const TTL: Duration = Duration::from_secs(6);
const SOON: Duration = Duration::from_secs(60);

/// An init that has what it was told last, and may not answer.
struct Told {
    set: watch::Sender<(u64, SourceSet)>,
    /// How many puts were not taken, while none is.
    refused: watch::Sender<Option<u32>>,
}

impl Told {
    fn new() -> Arc<Told> {
        let set = watch::channel((0, SourceSet::default())).0;
        Arc::new(Told { set, refused: watch::channel(None).0 })
    }

    async fn has(&self, names: &[&str]) {
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
        self.set.send_modify(|told| *told = (told.0 + 1, set.clone()));
        let revision = self.set.borrow().0;
        let (source, plan, diagnostics) = (String::new(), None, Vec::new());
        Box::pin(async move {
            Ok(Put { schema: 0, source, revision, generation: 0, plan, diagnostics })
        })
    }

    fn look(&self) -> Answered<Look> {
        let told = self.set.borrow();
        let roots: Vec<&str> = told.1.roots.iter().map(|root| root.as_str()).collect();
        let unit = |name: &String| {
            let needed = roots.contains(&name.as_str());
            let state = if needed { "running" } else { "disabled" };
            serde_json::from_value(serde_json::json!({
                "unit": name, "type": "foreground-supervised", "state": state,
                "needed": needed, "file": name,
            }))
            .unwrap()
        };
        let units = told.1.files.keys().map(unit).collect();
        let revision = (told.0 > 0).then_some(told.0);
        Box::pin(async move { Ok(Look { units, revision, ending: false }) })
    }
}

/// A fleetd; what it keeps for the next one.
struct Fleetd {
    mirror: Mirror,
    tasks: Vec<JoinHandle<()>>,
    kept: Arc<Mutex<Recalled>>,
}

impl Fleetd {
    fn begin(store: &Store, init: &Arc<Told>, recalled: Recalled) -> Fleetd {
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
        let Recalled { known, ran, held } = recalled;
        let id = MachineId::new("m1").unwrap();
        let (daemon, tasks) = Daemon::new(Wiring {
            store: store.clone(),
            keys: Keys::under("/f"),
            clock: Clock::system(),
            identity: Identity { id, boot: word("boot"), instance: word("one"), disk: None },
            record,
            init: Init::driven(init.clone()),
            ttl: TTL,
            engine: Some(Duration::from_secs(1)),
            grace: Duration::ZERO,
            room: MOST_OPERATIONS,
            vouching: None,
            known,
            ran,
            held,
            keep: Box::new(move |recalled| *keeps.lock().unwrap() = recalled.clone()),
        });
        let mirror = daemon.mirror.clone();
        let mut tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
        // The handle is there as long as it runs.
        tasks.push(tokio::spawn(async move {
            let _daemon = daemon;
            std::future::pending().await
        }));
        Fleetd { mirror, tasks, kept }
    }

    fn crash(self) -> Recalled {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.kept.lock().unwrap().clone()
    }

    async fn submit(&self, own: &str, asks: &str, desired: Desired) {
        let text = format!(
            "[Service]\nExecStart=/bin/true\nTimeoutStopSec=1\n[X-Fleet]\nMachineID=m1\n{asks}\n"
        );
        let (name, file) = (UnitName::new(own).unwrap(), UnitFile::parse(&text).unwrap());
        let write = registry::create(&self.mirror.picture(), &name, &file, desired);
        self.mirror.store().commit(&write).await.unwrap().unwrap();
    }
}

/// Cut off, `begins_anew` meanwhile or not, above an init that does not take what it is told at first,
/// or does.
async fn is_given_up(begins_anew: bool, refuses: bool) {
    let (store, init) = (Store::memory(), Told::new());
    let mut fleetd = Fleetd::begin(&store, &init, Recalled::default());
    fleetd.mirror.changes().wait_for(|picture| picture.machines.len() == 1).await.unwrap();
    fleetd.submit("a.service", "", Desired::Launched).await;
    fleetd.submit("l.service", "", Desired::Loaded).await;
    fleetd.submit("x.service", "Exclusive=true", Desired::Launched).await;
    init.has(&["a.service", "l.service", "x.service"]).await;
    // What is told later is known of by then.
    let said = |picture: &Arc<cluster::picture::Picture>| picture.states.len() == 3;
    fleetd.mirror.changes().wait_for(said).await.unwrap();
    let puts = init.set.borrow().0;
    store.set_reachable(false);
    if refuses {
        init.refused.send_replace(Some(0));
    }
    if begins_anew {
        let recalled = fleetd.crash();
        assert_eq!(recalled.held.units.len(), 1, "{recalled:?}");
        fleetd = Fleetd::begin(&store, &init, recalled);
    }
    if refuses {
        let again = |refused: &Option<u32>| refused.is_some_and(|count| count > 1);
        init.refused.subscribe().wait_for(again).await.unwrap();
        assert_eq!(init.set.borrow().0, puts);
        init.refused.send_replace(None);
    }
    init.has(&["a.service", "l.service"]).await;
    let (now, set) = init.set.borrow().clone();
    assert_eq!(now, puts + 1, "nothing else was stopped on the way");
    let roots: Vec<&str> = set.roots.iter().map(|root| root.as_str()).collect();
    assert_eq!(roots, ["a.service"]);
    // It comes back when etcd does.
    store.set_reachable(true);
    init.has(&["a.service", "l.service", "x.service"]).await;
    fleetd.crash();
}

fn shows(begins_anew: bool, refuses: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(SOON, is_given_up(begins_anew, refuses)).await.unwrap() });
}

#[test]
fn what_is_given_up_is_told_to_init_until_it_takes_it() {
    shows(false, true);
}

#[test]
fn a_fleetd_begun_anew_while_it_is_cut_off_gives_up_what_the_one_before_it_claimed() {
    shows(true, false);
    shows(true, true);
}
