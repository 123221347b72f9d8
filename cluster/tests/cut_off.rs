//! A machine that is cut off from etcd, and its exclusive units; and when it gives back what it claimed:
//! the very tasks of fleetd over a store in memory and an init without processes, of which a test says
//! what it answers. Drawn faults are the simulation's.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test ends where it is surprised"
)]

use cluster::clock::Clock;
use cluster::desired::Desired;
use cluster::fleetd::daemon::{self, Daemon, Wiring};
use cluster::fleetd::identity::Identity;
use cluster::fleetd::init::{Answered, DrivenInit, Init, Look};
use cluster::fleetd::init_socket::InitFault;
use cluster::fleetd::recollection::Recalled;
use cluster::fleetd::steward::{Leave, Stops};
use cluster::key::Keys;
use cluster::machine::MachineId;
use cluster::mirror::Mirror;
use cluster::native_unit;
use cluster::picture::Picture;
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
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
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
struct Fleetd {
    mirror: Mirror,
    tasks: Vec<JoinHandle<()>>,
    leave: mpsc::Sender<Leave>,
    kept: Arc<Mutex<Recalled>>,
}

impl Fleetd {
    fn begin(store: &Store, init: &Arc<Told>, recalled: Recalled) -> Fleetd {
        Fleetd::begin_with(store, init, recalled, TTL)
    }

    fn begin_with(store: &Store, init: &Arc<Told>, recalled: Recalled, ttl: Duration) -> Fleetd {
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

    fn crash(self) -> Recalled {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.kept.lock().unwrap().clone()
    }

    async fn submit(&self, own: &str, asks: &str, desired: Desired) {
        let text = format!(
            "[Service]\nExecStart=/bin/true\nTimeoutStopSec=1\n[X-Fleet]\nMachineID=m1\n{asks}\n"
        );
        self.put(own, UnitFile::parse(&text).unwrap(), desired).await;
    }

    async fn put(&self, own: &str, file: UnitFile, desired: Desired) {
        let name = UnitName::new(own).unwrap();
        let write = registry::create(&self.mirror.picture(), &name, &file, desired);
        self.mirror.store().commit(&write).await.unwrap().unwrap();
    }
}

/// A fleetd with one unit that runs, one that is loaded, and one that runs by its claim.
async fn runs(store: &Store, init: &Arc<Told>) -> Fleetd {
    let fleetd = Fleetd::begin(store, init, Recalled::default());
    fleetd.mirror.changes().wait_for(|picture| picture.machines.len() == 1).await.unwrap();
    fleetd.submit("a.service", "", Desired::Launched).await;
    fleetd.submit("l.service", "", Desired::Loaded).await;
    fleetd.submit("x.service", "Exclusive=true", Desired::Launched).await;
    init.has(&["a.service", "l.service", "x.service"]).await;
    // What is told later is known of by then.
    let said = |picture: &Arc<Picture>| picture.states.len() == 3;
    fleetd.mirror.changes().wait_for(said).await.unwrap();
    fleetd
}

/// Cut off, `begins_anew` meanwhile or not, above an init that does not take what it is told at first,
/// or does.
async fn is_given_up(begins_anew: bool, refuses: bool) {
    let (store, init) = (Store::memory(), Told::new());
    let mut fleetd = runs(&store, &init).await;
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

/// Cut off and stopped for good, its machine stays in the cluster. `refuses`: init has not taken yet
/// that what is exclusive is given up.
async fn leaves_the_rest(begins_anew: bool, refuses: bool) {
    let (store, init) = (Store::memory(), Told::new());
    let mut fleetd = runs(&store, &init).await;
    store.set_reachable(false);
    if refuses {
        init.refused.send_replace(Some(0));
        let once = |refused: &Option<u32>| refused.is_some_and(|count| count > 0);
        init.refused.subscribe().wait_for(once).await.unwrap();
    }
    if begins_anew {
        fleetd = Fleetd::begin(&store, &init, fleetd.crash());
    }
    let left = tokio::spawn(daemon::stop_units(fleetd.leave.clone(), Stops::Exclusive));
    if refuses {
        let again = |refused: &Option<u32>| refused.is_some_and(|count| count > 2);
        init.refused.subscribe().wait_for(again).await.unwrap();
        let kept = fleetd.kept.lock().unwrap().held.units.len();
        assert_eq!(kept, 1, "one that is begun anew by now has it to give up still");
        init.refused.send_replace(None);
    }
    left.await.unwrap();
    let set = init.set.borrow().1.clone();
    assert!(set.files.keys().eq(["a.service", "l.service"]), "{:?}", set.files.keys());
    let roots: Vec<&str> = set.roots.iter().map(|root| root.as_str()).collect();
    assert_eq!(roots, ["a.service"]);
    assert!(fleetd.crash().held.units.is_empty());
}

fn soon(shows: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(SOON, shows).await.unwrap() });
}

fn shows(begins_anew: bool, refuses: bool) {
    soon(is_given_up(begins_anew, refuses));
}

#[test]
fn what_is_stopped_with_fleetd_is_exclusive_though_it_never_came_to_its_cluster() {
    soon(leaves_the_rest(false, false));
    soon(leaves_the_rest(true, false));
    soon(leaves_the_rest(false, true));
}

#[test]
fn claims_of_the_fleetd_before_end_with_the_lease_that_was_granted_to_it() {
    soon(async {
        let (store, init) = (Store::memory(), Told::new());
        let fleetd = runs(&store, &init).await;
        store.set_reachable(false);
        let cut = Instant::now();
        let fleetd = Fleetd::begin_with(&store, &init, fleetd.crash(), TTL * 4);
        init.has(&["a.service", "l.service"]).await;
        assert!(cut.elapsed() < TTL, "by a longer `agent_ttl`: {:?}", cut.elapsed());
        fleetd.crash();
    });
}

#[test]
fn claims_of_the_fleetd_before_end_no_sooner_than_the_lease_that_was_granted_to_it() {
    soon(async {
        let (store, init) = (Store::memory(), Told::new());
        let fleetd = runs(&store, &init).await;
        store.set_reachable(false);
        let (cut, shorter) = (Instant::now(), TTL / 4);
        let fleetd = Fleetd::begin_with(&store, &init, fleetd.crash(), shorter);
        init.has(&["a.service", "l.service"]).await;
        assert!(cut.elapsed() > shorter, "by a shorter `agent_ttl`: {:?}", cut.elapsed());
        fleetd.crash();
    });
}

/// To init two native units of one stem are one.
#[test]
fn the_claim_of_a_native_unit_is_given_back_though_init_has_its_namesake() {
    soon(async {
        let (store, init) = (Store::memory(), Told::new());
        let fleetd = Fleetd::begin(&store, &init, Recalled::default());
        let sees = async |what: fn(&Picture) -> bool| {
            fleetd.mirror.changes().wait_for(|picture| what(picture)).await.unwrap();
        };
        sees(|picture| picture.machines.len() == 1).await;
        let native = |text: &str| native_unit::read("a.yaml", text).unwrap();
        let own = "unit: a\nexec-start: /bin/true\nstop-timeout: 1s\nstop-promptly: yes\n\
                   x-fleet:\n  Exclusive: true\n";
        fleetd.put("a.service", native(own), Desired::Launched).await;
        sees(|picture| picture.states.len() == 1 && picture.claims.len() == 1).await;
        let other = "unit: a\ntype: timer\n";
        fleetd.put("a.timer", native(other), Desired::Launched).await;
        sees(|picture| picture.states.len() == 2).await;
        let name = UnitName::new("a.service").unwrap();
        let write = registry::destroy(&fleetd.mirror.picture(), &name).unwrap();
        store.commit(&write).await.unwrap().unwrap();
        sees(|picture| picture.claims.is_empty()).await;
        assert_eq!(init.set.borrow().1.files.values().collect::<Vec<_>>(), [other]);
        fleetd.crash();
    });
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
