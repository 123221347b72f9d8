//! Units that keep running, or may run again, although they must stop. Their claim stays. fleetd
//! repeats the stop until init has none of them.

use crate::fake_init::{FakeInit, Fleetd, soon};
use cluster::desired::Desired;
use cluster::fleetd::daemon;
use cluster::fleetd::saved_state::SavedState;
use cluster::fleetd::unit_runner::Stops;
use cluster::registry;
use cluster::snapshot::Snapshot;
use cluster::store::Store;
use cluster::unit_name::UnitName;
use serde_json::{Value, json};
use std::sync::Arc;

const OWN: &str = "x.service";

/// Starts a fleetd with a running unit and an exclusive one.
async fn runs(store: &Store, init: &Arc<FakeInit>) -> Fleetd {
    let fleetd = Fleetd::begin(store, init, SavedState::default());
    fleetd.cache.changes().wait_for(|snapshot| snapshot.machines.len() == 1).await.unwrap();
    fleetd.submit("a.service", "", Desired::Launched).await;
    fleetd.submit(OWN, "Exclusive=true", Desired::Launched).await;
    init.has(&["a.service", OWN]).await;
    let all_published = |snapshot: &Arc<Snapshot>| snapshot.states.len() == 2;
    fleetd.cache.changes().wait_for(all_published).await.unwrap();
    fleetd
}

async fn destroy(fleetd: &Fleetd, store: &Store) {
    let name = UnitName::new(OWN).unwrap();
    let write = registry::destroy(&fleetd.cache.snapshot(), &name).unwrap();
    store.commit(&write).await.unwrap().unwrap();
}

/// A run that has just failed and waits for its retry.
fn waits() -> Value {
    json!({"unit": OWN, "type": "foreground-supervised", "state": "waiting", "needed": true,
        "file": OWN})
}

#[test]
fn unkillable_process_keeps_its_claim_after_its_file_is_removed() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = runs(&store, &init).await;
        init.scripted_states.send_replace(vec![ghost(OWN)]);
        destroy(&fleetd, &store).await;
        init.has(&["a.service"]).await;
        // fleetd has read init's states since, and acted on them.
        fleetd.submit("b.service", "", Desired::Launched).await;
        init.has(&["a.service", "b.service"]).await;
        fleetd.submit("c.service", "", Desired::Launched).await;
        init.has(&["a.service", "b.service", "c.service"]).await;
        let claims = |snapshot: &Snapshot| snapshot.claims.len();
        assert_eq!(claims(&fleetd.cache.snapshot()), 1);
        init.scripted_states.send_replace(Vec::new());
        fleetd.submit("d.service", "", Desired::Launched).await;
        fleetd.cache.changes().wait_for(|snapshot| claims(snapshot) == 0).await.unwrap();
        fleetd.crash();
    });
}

#[test]
fn exclusive_unit_waiting_for_its_retry_is_given_up() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = runs(&store, &init).await;
        init.scripted_states.send_replace(vec![waits()]);
        init.unanswered_puts.send_replace(Some(0));
        destroy(&fleetd, &store).await;
        let once = |puts: &Option<u32>| puts.is_some_and(|count| count > 0);
        init.unanswered_puts.subscribe().wait_for(once).await.unwrap();
        store.set_reachable(false);
        let fleetd = Fleetd::begin(&store, &init, fleetd.crash());
        init.is_asked(3).await;
        init.unanswered_puts.send_replace(None);
        init.has(&["a.service"]).await;
        fleetd.crash();
    });
}

#[test]
fn exiting_fleetd_waits_until_init_has_no_exclusive_unit() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = runs(&store, &init).await;
        init.scripted_states.send_replace(vec![waits()]);
        // init refuses even a smaller source.
        init.most.send_replace(0);
        let leave = fleetd.leave.clone();
        let left = tokio::spawn(daemon::stop_units(leave, Stops::Exclusive));
        init.is_asked(3).await;
        assert!(!left.is_finished(), "without fleetd no claim guards the next retry of the unit");
        init.most.send_replace(1);
        assert!(left.await.unwrap(), "it is down");
        init.has(&["a.service"]).await;
        fleetd.crash();
    });
}

/// init's status of an unkillable run without a unit.
fn ghost(name: &str) -> Value {
    json!({"unit": name, "type": "foreground-supervised", "state": "failed",
        "run": 7, "stale": true, "needed": false, "file": ""})
}

#[test]
fn leaving_machine_does_not_wait_for_processes_that_are_not_its_units() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = runs(&store, &init).await;
        init.scripted_states.send_replace(vec![ghost("other")]);
        assert!(
            daemon::stop_units(fleetd.leave.clone(), Stops::All).await,
            "all units of the machine are down"
        );
        assert!(init.set.borrow().1.files.is_empty());
        fleetd.crash();
    });
}

#[test]
fn leaving_machine_waits_for_a_claimed_unit_whose_file_was_removed() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = runs(&store, &init).await;
        init.scripted_states.send_replace(vec![ghost("other"), ghost(OWN)]);
        destroy(&fleetd, &store).await;
        init.has(&["a.service"]).await;
        let left = tokio::spawn(daemon::stop_units(fleetd.leave.clone(), Stops::All));
        init.is_asked(3).await;
        assert!(!left.is_finished(), "the process would outlive the claim");
        init.scripted_states.send_replace(vec![ghost("other")]);
        assert!(left.await.unwrap(), "it is down");
        fleetd.crash();
    });
}

#[test]
fn exit_does_not_wait_for_an_init_without_our_source_that_refuses_puts() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        init.knows_us.send_replace(false);
        let fleetd = Fleetd::begin(&store, &init, SavedState::default());
        fleetd.cache.changes().wait_for(|snapshot| snapshot.machines.len() == 1).await.unwrap();
        fleetd.submit(OWN, "Exclusive=true", Desired::Launched).await;
        init.refused_puts.subscribe().wait_for(|refused_puts| *refused_puts > 0).await.unwrap();
        let stopped = daemon::stop_units(fleetd.leave.clone(), Stops::Exclusive).await;
        assert!(stopped, "there is nothing to stop");
        fleetd.crash();
    });
}

#[test]
fn exit_does_not_wait_if_init_is_absent_and_never_accepted_a_source() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        init.unanswered_looks.send_replace(Some(0));
        init.unanswered_puts.send_replace(Some(0));
        let fleetd = Fleetd::begin(&store, &init, SavedState::default());
        fleetd.cache.changes().wait_for(|snapshot| snapshot.machines.len() == 1).await.unwrap();
        fleetd.submit("a.service", "", Desired::Launched).await;
        let left = tokio::spawn(daemon::stop_units(fleetd.leave.clone(), Stops::All));
        init.is_asked(3).await;
        assert!(!left.is_finished(), "a silent init may have accepted a source");
        init.absent.send_replace(true);
        assert!(left.await.unwrap(), "without init no unit runs");
        fleetd.crash();
    });
}

#[test]
fn exit_waits_for_an_absent_init_that_had_accepted_a_source() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = runs(&store, &init).await;
        init.unanswered_looks.send_replace(Some(0));
        init.unanswered_puts.send_replace(Some(0));
        init.absent.send_replace(true);
        let left = tokio::spawn(daemon::stop_units(fleetd.leave.clone(), Stops::All));
        init.is_asked(3).await;
        assert!(!left.is_finished(), "init may still have the source of this fleetd");
        init.unanswered_looks.send_replace(None);
        init.unanswered_puts.send_replace(None);
        init.absent.send_replace(false);
        assert!(left.await.unwrap());
        fleetd.crash();
    });
}
