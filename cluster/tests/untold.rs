//! What a machine says of its units where its init has not what it was to be told, or does not say how
//! it fares.
#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]

mod told;

use cluster::desired::Desired;
use cluster::fleetd::recollection::Recalled;
use cluster::machine::MachineId;
use cluster::record::StateRecord;
use cluster::registry;
use cluster::store::Store;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use told::{Fleetd, Told, soon};

impl Fleetd {
    /// Until it says that of the unit.
    async fn says(&self, own: &str, so: impl Fn(&StateRecord) -> bool) -> StateRecord {
        let (name, me) = (UnitName::new(own).unwrap(), MachineId::new("m1").unwrap());
        let mut changes = self.mirror.changes();
        let said = |picture: &cluster::picture::Picture| {
            picture.states.get(&name).and_then(|by| Some(by.get(&me)?.record.clone()))
        };
        let picture = changes.wait_for(|picture| said(picture).is_some_and(|state| so(&state)));
        said(&picture.await.unwrap()).unwrap()
    }
}

async fn begun(store: &Store, init: &std::sync::Arc<Told>) -> Fleetd {
    let fleetd = Fleetd::begin(store, init, Recalled::default());
    fleetd.mirror.changes().wait_for(|picture| picture.machines.len() == 1).await.unwrap();
    fleetd.submit("a.service", "", Desired::Launched).await;
    fleetd.says("a.service", |state| state.active == "active").await;
    fleetd
}

#[test]
fn what_init_does_not_take_is_said_of_the_units_that_wait_for_it() {
    soon(async {
        let (store, init) = (Store::memory(), Told::new());
        let fleetd = begun(&store, &init).await;
        init.most.send_replace(1);
        fleetd.submit("b.service", "", Desired::Launched).await;
        let why = |state: &StateRecord| {
            state.reason.as_ref().is_some_and(|why| why.ends_with("there would be too many units"))
        };
        let waits = fleetd.says("b.service", why).await;
        assert_eq!((waits.active.as_str(), waits.reached), ("inactive", Desired::Inactive));
        let runs = fleetd.says("a.service", |_| true).await;
        assert_eq!((runs.active.as_str(), runs.reason), ("active", None));
        init.most.send_replace(2);
        for own in ["a.service", "b.service"] {
            fleetd.says(own, |state| state.reason.is_none() && state.active == "active").await;
        }
        fleetd.crash();
    });
}

#[test]
fn what_init_did_not_take_once_is_not_said_of_what_it_is_not_to_have() {
    soon(async {
        let (store, init) = (Store::memory(), Told::new());
        let fleetd = begun(&store, &init).await;
        init.most.send_replace(1);
        fleetd.submit("b.service", "", Desired::Launched).await;
        fleetd.says("b.service", |state| state.reason.is_some()).await;
        let write =
            registry::destroy(&fleetd.mirror.picture(), &UnitName::new("b.service").unwrap());
        store.commit(&write.unwrap()).await.unwrap().unwrap();
        fleetd.submit("x.service", "Exclusive=true", Desired::Loaded).await;
        let said = fleetd.says("x.service", |_| true).await;
        assert_eq!((said.load.as_str(), said.reason), ("loaded", None));
        fleetd.crash();
    });
}

#[test]
fn a_name_that_init_can_not_have_keeps_no_other_unit_from_running() {
    soon(async {
        let (store, init) = (Store::memory(), Told::new());
        let fleetd = begun(&store, &init).await;
        fleetd.submit(".x.service", "", Desired::Launched).await;
        let said = fleetd.says(".x.service", |state| state.load == "error").await;
        assert!(said.reason.is_some_and(|why| why.contains("\".x.service\"")));
        fleetd.submit("b.service", "", Desired::Launched).await;
        init.has(&["a.service", "b.service"]).await;
        fleetd.crash();
    });
}

#[test]
fn what_runs_is_not_said_to_run_as_a_newer_file_has_it() {
    soon(async {
        let (store, init) = (Store::memory(), Told::new());
        let fleetd = begun(&store, &init).await;
        init.mute.send_replace(Some(0));
        let text = "[Service]\nExecStart=/bin/false\n[X-Fleet]\nMachineID=m1\n";
        let file = UnitFile::parse(text).unwrap();
        fleetd.put("a.service", file.clone(), Desired::Launched).await;
        let has = |set: &(u64, _)| set.0 > 1;
        init.set.subscribe().wait_for(has).await.unwrap();
        // It has gone on since, and asked in vain.
        let often = |count: &Option<u32>| count.is_some_and(|count| count > 2);
        init.mute.subscribe().wait_for(often).await.unwrap();
        let said = fleetd.says("a.service", |_| true).await;
        assert_ne!(said.hash, file.hash(), "{said:?}");
        init.mute.send_replace(None);
        fleetd.says("a.service", |state| state.hash == file.hash()).await;
        fleetd.crash();
    });
}
