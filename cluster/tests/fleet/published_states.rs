//! Published unit states while init does not have the current source or does not report its units.

use crate::fake_init::{FakeInit, Fleetd, soon};
use cluster::desired::Desired;
use cluster::fleetd::daemon;
use cluster::fleetd::saved_state::SavedState;
use cluster::fleetd::unit_runner::Stops;
use cluster::machine::MachineId;
use cluster::record::StateRecord;
use cluster::registry;
use cluster::store::Store;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;

impl Fleetd {
    /// Waits until it publishes such a state of a unit, and returns the state.
    async fn when_published(&self, own: &str, so: impl Fn(&StateRecord) -> bool) -> StateRecord {
        let (name, me) = (UnitName::new(own).unwrap(), MachineId::new("m1").unwrap());
        let mut changes = self.cache.changes();
        let published = |snapshot: &cluster::snapshot::Snapshot| {
            snapshot.states.get(&name).and_then(|by| Some(by.get(&me)?.record.clone()))
        };
        let snapshot =
            changes.wait_for(|snapshot| published(snapshot).is_some_and(|state| so(&state)));
        published(&snapshot.await.unwrap()).unwrap()
    }
}

async fn running(store: &Store, init: &std::sync::Arc<FakeInit>) -> Fleetd {
    let fleetd = Fleetd::begin(store, init, SavedState::default());
    fleetd.cache.changes().wait_for(|snapshot| snapshot.machines.len() == 1).await.unwrap();
    fleetd.submit("a.service", "", Desired::Launched).await;
    fleetd.when_published("a.service", |state| state.active == "active").await;
    fleetd
}

#[test]
fn units_waiting_for_a_refused_source_show_the_refusal() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = running(&store, &init).await;
        init.most.send_replace(1);
        fleetd.submit("b.service", "", Desired::Launched).await;
        let why = |state: &StateRecord| {
            state.reason.as_ref().is_some_and(|why| why.ends_with("there would be too many units"))
        };
        let waits = fleetd.when_published("b.service", why).await;
        assert_eq!((waits.active.as_str(), waits.reached), ("inactive", Desired::Inactive));
        let runs = fleetd.when_published("a.service", |_| true).await;
        assert_eq!((runs.active.as_str(), runs.reason), ("active", None));
        init.most.send_replace(2);
        for own in ["a.service", "b.service"] {
            fleetd
                .when_published(own, |state| state.reason.is_none() && state.active == "active")
                .await;
        }
        fleetd.crash();
    });
}

#[test]
fn unit_not_in_the_refused_source_does_not_show_the_refusal() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = running(&store, &init).await;
        init.most.send_replace(1);
        fleetd.submit("b.service", "", Desired::Launched).await;
        fleetd.when_published("b.service", |state| state.reason.is_some()).await;
        let write =
            registry::destroy(&fleetd.cache.snapshot(), &UnitName::new("b.service").unwrap());
        store.commit(&write.unwrap()).await.unwrap().unwrap();
        fleetd.submit("x.service", "Exclusive=true", Desired::Loaded).await;
        let published = fleetd.when_published("x.service", |_| true).await;
        assert_eq!((published.load.as_str(), published.reason), ("loaded", None));
        fleetd.crash();
    });
}

#[test]
fn unit_name_invalid_for_init_does_not_block_other_units() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = running(&store, &init).await;
        fleetd.submit(".x.service", "", Desired::Launched).await;
        let published = fleetd.when_published(".x.service", |state| state.load == "error").await;
        assert!(published.reason.is_some_and(|why| why.contains("\".x.service\"")));
        fleetd.submit("b.service", "", Desired::Launched).await;
        init.has(&["a.service", "b.service"]).await;
        fleetd.crash();
    });
}

#[test]
fn running_unit_is_not_published_with_the_hash_of_a_newer_file() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = running(&store, &init).await;
        init.unanswered_looks.send_replace(Some(0));
        let text = "[Service]\nExecStart=/bin/false\n[X-Fleet]\nMachineID=m1\n";
        let file = UnitFile::parse(text).unwrap();
        fleetd.put("a.service", file.clone(), Desired::Launched).await;
        let has = |set: &(u64, _)| set.0 > 1;
        init.set.subscribe().wait_for(has).await.unwrap();
        // fleetd has continued since, but init has not answered it.
        let often = |count: &Option<u32>| count.is_some_and(|count| count > 2);
        init.unanswered_looks.subscribe().wait_for(often).await.unwrap();
        let published = fleetd.when_published("a.service", |_| true).await;
        assert_ne!(published.hash, file.hash(), "{published:?}");
        init.unanswered_looks.send_replace(None);
        fleetd.when_published("a.service", |state| state.hash == file.hash()).await;
        fleetd.crash();
    });
}

#[test]
fn unit_states_are_published_as_unknown_while_init_is_silent() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = running(&store, &init).await;
        init.unanswered_looks.send_replace(Some(0));
        let published = fleetd.when_published("a.service", |state| state.reason.is_some()).await;
        assert!(published.reason.is_some_and(|why| why.ends_with("does not answer: away")));
        assert_eq!((published.active.as_str(), published.reached), ("active", Desired::Launched));
        init.unanswered_looks.send_replace(None);
        fleetd.when_published("a.service", |state| state.reason.is_none()).await;
        fleetd.crash();
    });
}

#[test]
fn unit_running_with_an_older_file_is_published_so() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = running(&store, &init).await;
        let old = fleetd.when_published("a.service", |_| true).await.hash;
        init.stale.send_replace(true);
        let text = "[Service]\nExecStart=/bin/false\n[X-Fleet]\nMachineID=m1\n";
        let file = UnitFile::parse(text).unwrap();
        fleetd.put("a.service", file.clone(), Desired::Launched).await;
        let drifts = |state: &StateRecord| {
            state.reason.as_ref().is_some_and(|why| why.contains("older file"))
        };
        let published = fleetd.when_published("a.service", drifts).await;
        assert_eq!((published.active.as_str(), &published.hash), ("active", &old));
        // A restarted fleetd finds the same state.
        let fleetd = Fleetd::begin(&store, &init, fleetd.crash());
        fleetd.submit("b.service", "", Desired::Loaded).await;
        fleetd.when_published("b.service", |state| state.load == "loaded").await;
        let published = fleetd.when_published("a.service", drifts).await;
        assert_eq!(published.hash, old);
        init.stale.send_replace(false);
        fleetd.submit("c.service", "", Desired::Loaded).await;
        let published = fleetd.when_published("a.service", |state| state.hash == file.hash()).await;
        assert_eq!(published.reason, None);
        fleetd.crash();
    });
}

fn everywhere(program: &str) -> UnitFile {
    let text = format!("[Service]\nExecStart={program}\n[X-Fleet]\nGlobal=true\n");
    UnitFile::parse(&text).unwrap()
}

/// Replaces the file before fleetd ends or, with `meanwhile`, before the next fleetd begins. etcd
/// has lost the published state by then.
fn is_known_after_the_lease(meanwhile: bool) {
    soon(async move {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = running(&store, &init).await;
        let (old, new) = (everywhere("/bin/true"), everywhere("/bin/false"));
        fleetd.put("g.service", old.clone(), Desired::Launched).await;
        fleetd.when_published("g.service", |state| state.active == "active").await;
        init.stale.send_replace(true);
        let drifts = |state: &StateRecord| {
            state.reason.as_ref().is_some_and(|why| why.contains("older file"))
        };
        if !meanwhile {
            fleetd.put("g.service", new.clone(), Desired::Launched).await;
            fleetd.when_published("g.service", drifts).await;
        }
        let (cache, recalled) = (fleetd.cache.clone(), fleetd.crash());
        let snapshot = cache.snapshot();
        store.revoke(snapshot.machines.values().next().unwrap().lease).await.unwrap();
        if meanwhile {
            let name = UnitName::new("g.service").unwrap();
            let write = registry::create(&snapshot, &name, &new, Desired::Launched);
            store.commit(&write).await.unwrap().unwrap();
        }
        let fleetd = Fleetd::begin(&store, &init, recalled);
        let published = fleetd.when_published("g.service", drifts).await;
        assert_eq!(published.hash, old.hash(), "{published:?}");
        fleetd.crash();
    });
}

#[test]
fn fleetd_down_beyond_its_lease_knows_units_running_with_an_older_file() {
    is_known_after_the_lease(false);
    is_known_after_the_lease(true);
}

#[test]
fn hanging_init_delays_neither_changes_nor_exit_of_fleetd() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = running(&store, &init).await;
        init.hangs.send_replace(true);
        fleetd.submit("b.service", "", Desired::Launched).await;
        let hangs = |state: &StateRecord| {
            state.reason.as_ref().is_some_and(|why| why.contains("does not answer: no answer"))
        };
        fleetd.when_published("b.service", hangs).await;
        // The hanging init delays neither later changes nor the exit of fleetd.
        fleetd.submit("c.service", "", Desired::Launched).await;
        fleetd.when_published("c.service", |_| true).await;
        assert!(daemon::stop_units(fleetd.leave.clone(), Stops::Exclusive).await);
        fleetd.crash();
    });
}

#[test]
fn permanently_refused_source_is_put_again_with_growing_delays() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = running(&store, &init).await;
        init.most.send_replace(1);
        fleetd.submit("b.service", "", Desired::Launched).await;
        let mut refused_puts = init.refused_puts.subscribe();
        refused_puts.wait_for(|refused_puts| *refused_puts > 0).await.unwrap();
        let began = std::time::Instant::now();
        refused_puts.wait_for(|refused_puts| *refused_puts > 2).await.unwrap();
        let looked = fleetd.metrics.reconciled();
        refused_puts.wait_for(|refused_puts| *refused_puts > 3).await.unwrap();
        let took = began.elapsed();
        assert!(took > std::time::Duration::from_secs(3), "{took:?}");
        // fleetd does not reconcile everything just to find that a retry is too early.
        let looks = fleetd.metrics.reconciled() - looked;
        assert!(looks < 5, "{looks}");
        // Another set is put at once, however long the delay is.
        init.most.send_replace(3);
        fleetd.submit("c.service", "", Desired::Launched).await;
        init.has(&["a.service", "b.service", "c.service"]).await;
        fleetd.crash();
    });
}
