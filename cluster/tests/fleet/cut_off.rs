//! A machine that is cut off from etcd: its exclusive units, and the release of its claims.

use crate::fake_init::{FakeInit, Fleetd, TTL, soon};
use cluster::desired::Desired;
use cluster::fleetd::daemon;
use cluster::fleetd::saved_state::SavedState;
use cluster::fleetd::unit_runner::Stops;
use cluster::native_unit;
use cluster::registry;
use cluster::snapshot::Snapshot;
use cluster::store::Store;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use groundstate_units::control::source_set::SourceSet;
use std::sync::Arc;
use std::time::Instant;

/// Starts a fleetd with a running unit, a loaded one, and a running exclusive one.
async fn runs(store: &Store, init: &Arc<FakeInit>) -> Fleetd {
    let fleetd = Fleetd::begin(store, init, SavedState::default());
    fleetd.cache.changes().wait_for(|snapshot| snapshot.machines.len() == 1).await.unwrap();
    fleetd.submit("a.service", "", Desired::Launched).await;
    fleetd.submit("l.service", "", Desired::Loaded).await;
    fleetd.submit("x.service", "Exclusive=true", Desired::Launched).await;
    init.has(&["a.service", "l.service", "x.service"]).await;
    // Once both states are published, fleetd sees later changes.
    let all_published = |snapshot: &Arc<Snapshot>| snapshot.states.len() == 3;
    fleetd.cache.changes().wait_for(all_published).await.unwrap();
    fleetd
}

/// Checks that a cut-off machine gives its exclusive unit up, with or without a restart of fleetd
/// (`restarts`), and if init does not answer at first (`is_silent`).
async fn is_given_up(restarts: bool, is_silent: bool) {
    let (store, init) = (Store::memory(), FakeInit::new());
    let mut fleetd = runs(&store, &init).await;
    let puts = init.set.borrow().0;
    store.set_reachable(false);
    if is_silent {
        init.unanswered_puts.send_replace(Some(0));
    }
    if restarts {
        let recalled = fleetd.crash();
        assert_eq!(recalled.held.units.len(), 1, "{recalled:?}");
        fleetd = Fleetd::begin(&store, &init, recalled);
    }
    if is_silent {
        let again = |puts: &Option<u32>| puts.is_some_and(|count| count > 1);
        init.unanswered_puts.subscribe().wait_for(again).await.unwrap();
        assert_eq!(init.set.borrow().0, puts);
        init.unanswered_puts.send_replace(None);
    }
    init.has(&["a.service", "l.service"]).await;
    let (now, set) = init.set.borrow().clone();
    assert_eq!(now, puts + 1, "nothing else was stopped on the way");
    let roots: Vec<&str> = set.roots.iter().map(|root| root.as_str()).collect();
    assert_eq!(roots, ["a.service"]);
    // The exclusive unit returns with etcd.
    store.set_reachable(true);
    init.has(&["a.service", "l.service", "x.service"]).await;
    fleetd.crash();
}

/// Stops fleetd permanently while it is cut off; its machine stays registered. With `is_silent`,
/// init has not yet answered the put that stops the exclusive unit.
async fn leaves_the_rest(restarts: bool, is_silent: bool) {
    let (store, init) = (Store::memory(), FakeInit::new());
    let mut fleetd = runs(&store, &init).await;
    store.set_reachable(false);
    if is_silent {
        init.unanswered_puts.send_replace(Some(0));
        let once = |puts: &Option<u32>| puts.is_some_and(|count| count > 0);
        init.unanswered_puts.subscribe().wait_for(once).await.unwrap();
    }
    if restarts {
        fleetd = Fleetd::begin(&store, &init, fleetd.crash());
    }
    let left = tokio::spawn(daemon::stop_units(fleetd.leave.clone(), Stops::Exclusive));
    if is_silent {
        let again = |puts: &Option<u32>| puts.is_some_and(|count| count > 2);
        init.unanswered_puts.subscribe().wait_for(again).await.unwrap();
        let kept = fleetd.kept.lock().unwrap().held.units.len();
        assert_eq!(kept, 1, "a fleetd restarted now still has to give it up");
        init.unanswered_puts.send_replace(None);
    }
    left.await.unwrap();
    let set = init.set.borrow().1.clone();
    assert!(set.files.keys().eq(["a.service", "l.service"]), "{:?}", set.files.keys());
    let roots: Vec<&str> = set.roots.iter().map(|root| root.as_str()).collect();
    assert_eq!(roots, ["a.service"]);
    assert!(fleetd.crash().held.units.is_empty());
}

#[test]
fn exclusive_unit_is_given_up_although_init_refuses_other_units() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = runs(&store, &init).await;
        init.most.send_replace(2);
        fleetd.submit("b.service", "", Desired::Launched).await;
        let all_published = |snapshot: &Arc<Snapshot>| snapshot.states.len() == 4;
        fleetd.cache.changes().wait_for(all_published).await.unwrap();
        store.set_reachable(false);
        init.has(&["a.service", "l.service"]).await;
        store.set_reachable(true);
        init.most.send_replace(4);
        init.has(&["a.service", "b.service", "l.service", "x.service"]).await;
        fleetd.crash();
    });
}

/// Init refuses a source permanently. Then it does not answer one put, or fleetd restarts
/// (`restarts`). fleetd still knows which source init has, and removes only the exclusive unit.
fn is_stopped_though_the_rest_is_refused(restarts: bool) {
    soon(async move {
        let (store, init) = (Store::memory(), FakeInit::new());
        let mut fleetd = runs(&store, &init).await;
        init.most.send_replace(3);
        fleetd.submit("b.service", "", Desired::Launched).await;
        init.refused_puts.subscribe().wait_for(|refused_puts| *refused_puts > 0).await.unwrap();
        if restarts {
            fleetd = Fleetd::begin(&store, &init, fleetd.crash());
        } else {
            init.unanswered_puts.send_replace(Some(0));
            let once = |puts: &Option<u32>| puts.is_some_and(|count| count > 0);
            init.unanswered_puts.subscribe().wait_for(once).await.unwrap();
            init.unanswered_puts.send_replace(None);
        }
        let refused_puts = *init.refused_puts.borrow();
        init.refused_puts.subscribe().wait_for(|now| *now > refused_puts).await.unwrap();
        init.most.send_replace(2);
        let name = UnitName::new("x.service").unwrap();
        let write = registry::destroy(&fleetd.cache.snapshot(), &name).unwrap();
        store.commit(&write).await.unwrap().unwrap();
        init.has(&["a.service", "l.service"]).await;
        let gone = |snapshot: &Arc<Snapshot>| snapshot.claims.is_empty();
        fleetd.cache.changes().wait_for(gone).await.unwrap();
        init.most.send_replace(3);
        init.has(&["a.service", "b.service", "l.service"]).await;
        fleetd.crash();
    });
}

#[test]
fn exclusive_unit_is_removed_from_the_previous_source_after_an_unanswered_put() {
    is_stopped_though_the_rest_is_refused(false);
}

#[test]
fn exclusive_unit_is_removed_from_the_source_of_the_previous_fleetd() {
    is_stopped_though_the_rest_is_refused(true);
}

#[test]
fn next_fleetd_gives_up_a_unit_whose_removal_init_did_not_answer() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = runs(&store, &init).await;
        init.unanswered_puts.send_replace(Some(0));
        let name = UnitName::new("x.service").unwrap();
        let write = registry::destroy(&fleetd.cache.snapshot(), &name).unwrap();
        store.commit(&write).await.unwrap().unwrap();
        let once = |puts: &Option<u32>| puts.is_some_and(|count| count > 0);
        init.unanswered_puts.subscribe().wait_for(once).await.unwrap();
        store.set_reachable(false);
        let recalled = fleetd.crash();
        assert!(recalled.held.units.contains(&name) && !recalled.ran.contains_key(&name));
        init.unanswered_puts.send_replace(None);
        let fleetd = Fleetd::begin(&store, &init, recalled);
        init.has(&["a.service", "l.service"]).await;
        fleetd.crash();
    });
}

#[test]
fn stopped_fleetd_that_never_reached_etcd_stops_only_exclusive_units() {
    soon(leaves_the_rest(false, false));
    soon(leaves_the_rest(true, false));
    soon(leaves_the_rest(false, true));
}

#[test]
fn claims_of_the_previous_fleetd_expire_with_its_granted_lease() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = runs(&store, &init).await;
        store.set_reachable(false);
        let cut = Instant::now();
        let fleetd = Fleetd::begin_with(&store, &init, fleetd.crash(), TTL * 4);
        init.has(&["a.service", "l.service"]).await;
        assert!(
            cut.elapsed() < TTL,
            "the claims expired by a longer `agent_ttl`: {:?}",
            cut.elapsed()
        );
        fleetd.crash();
    });
}

#[test]
fn claims_of_the_previous_fleetd_do_not_expire_before_its_granted_lease() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = runs(&store, &init).await;
        store.set_reachable(false);
        let (cut, shorter) = (Instant::now(), TTL / 4);
        let fleetd = Fleetd::begin_with(&store, &init, fleetd.crash(), shorter);
        init.has(&["a.service", "l.service"]).await;
        assert!(
            cut.elapsed() > shorter,
            "the claims expired by a shorter `agent_ttl`: {:?}",
            cut.elapsed()
        );
        fleetd.crash();
    });
}

fn native(text: &str) -> UnitFile {
    native_unit::read("a.yaml", text).unwrap()
}

async fn sees(fleetd: &Fleetd, what: fn(&Snapshot) -> bool) {
    fleetd.cache.changes().wait_for(|snapshot| what(snapshot)).await.unwrap();
}

/// Starts a fleetd with one exclusive native unit.
async fn runs_native(store: &Store, init: &Arc<FakeInit>) -> Fleetd {
    let fleetd = Fleetd::begin(store, init, SavedState::default());
    sees(&fleetd, |snapshot| snapshot.machines.len() == 1).await;
    let own = "unit: a\nexec-start: /bin/true\nstop-timeout: 1s\nstop-promptly: yes\n\
               x-fleet:\n  Exclusive: true\n";
    fleetd.put("a.service", native(own), Desired::Launched).await;
    sees(&fleetd, |snapshot| snapshot.states.len() == 1 && snapshot.claims.len() == 1).await;
    fleetd
}

/// For init, two native units with one stem are one unit.
#[test]
fn claim_of_a_native_unit_is_released_although_init_has_a_unit_of_that_name() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = runs_native(&store, &init).await;
        let other = "unit: a\ntype: timer\n";
        fleetd.put("a.timer", native(other), Desired::Launched).await;
        sees(&fleetd, |snapshot| snapshot.states.len() == 2).await;
        let name = UnitName::new("a.service").unwrap();
        let write = registry::destroy(&fleetd.cache.snapshot(), &name).unwrap();
        store.commit(&write).await.unwrap().unwrap();
        sees(&fleetd, |snapshot| snapshot.claims.is_empty()).await;
        assert_eq!(init.set.borrow().1.files.values().collect::<Vec<_>>(), [other]);
        fleetd.crash();
    });
}

/// Init would keep the process of the previous file, which runs with a claim.
#[test]
fn process_with_a_claim_stops_before_a_non_exclusive_file_could_keep_it() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = runs_native(&store, &init).await;
        init.has(&["a.yaml"]).await;
        init.stale.send_replace(true);
        for keeps in ["on-change: keep", "essential: yes"] {
            let other = format!("unit: a\nexec-start: /bin/false\n{keeps}\n");
            fleetd.put("a.service", native(&other), Desired::Launched).await;
            sees(&fleetd, |snapshot| snapshot.claims.is_empty()).await;
            let has_it = |set: &(u64, SourceSet)| set.1.files.values().eq([&other]);
            init.set.subscribe().wait_for(has_it).await.unwrap();
        }
        fleetd.crash();
    });
}

/// The new unit has another name in the cluster and the same name at init.
#[test]
fn process_with_a_claim_stops_before_a_file_of_another_unit_could_keep_it() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = Fleetd::begin(&store, &init, SavedState::default());
        sees(&fleetd, |snapshot| snapshot.machines.len() == 1).await;
        fleetd.submit("a.service", "Exclusive=true", Desired::Launched).await;
        sees(&fleetd, |snapshot| snapshot.states.len() == 1 && snapshot.claims.len() == 1).await;
        init.has(&["a.service"]).await;
        init.stale.send_replace(true);
        let heir = native("unit: a.service\nexec-start: /bin/false\non-change: keep\n");
        fleetd.put("a.service.service", heir, Desired::Launched).await;
        sees(&fleetd, |snapshot| snapshot.states.len() == 2).await;
        let (puts, name) = (init.set.borrow().0, UnitName::new("a.service").unwrap());
        let write = registry::destroy(&fleetd.cache.snapshot(), &name).unwrap();
        store.commit(&write).await.unwrap().unwrap();
        sees(&fleetd, |snapshot| snapshot.claims.is_empty()).await;
        init.has(&["a.service.yaml"]).await;
        assert_eq!(init.set.borrow().0, puts + 2, "init had neither of them in between");
        fleetd.crash();
    });
}

/// At init the native unit with the claim is `a`, and the other one is `a.service`. A fleet unit
/// `a.service` would have the latter name, so a new fleetd could take it for the claimed unit.
#[test]
fn unit_kept_by_init_beside_a_claim_survives_a_restart_of_fleetd() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let mut fleetd = runs_native(&store, &init).await;
        let beside = native("unit: a.service\nexec-start: /bin/false\non-change: keep\n");
        fleetd.put("a.service.service", beside, Desired::Launched).await;
        sees(&fleetd, |snapshot| snapshot.states.len() == 2).await;
        for stale in [false, true] {
            init.stale.send_replace(stale);
            let puts = init.set.borrow().0;
            fleetd = Fleetd::begin(&store, &init, fleetd.crash());
            init.set.subscribe().wait_for(|set| set.0 > puts).await.unwrap();
            let (now, set) = init.set.borrow().clone();
            assert!(set.files.keys().eq(["a.service.yaml", "a.yaml"]), "{:?}", set.files.keys());
            assert_eq!(now, puts + 1, "init had only one of them in between");
        }
        fleetd.crash();
    });
}

/// Requests to init may take long, and the next fleetd relies on the saved claims.
#[test]
fn renewed_claim_is_saved_before_any_request_to_init() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let before = runs(&store, &init).await.crash();
        init.unanswered_revisions.send_replace(Some(0));
        let fleetd = Fleetd::begin(&store, &init, before.clone());
        let asked = |asked: &Option<u32>| asked.is_some_and(|count| count > 0);
        init.unanswered_revisions.subscribe().wait_for(asked).await.unwrap();
        let kept = fleetd.crash().held;
        assert!(kept.lease != before.held.lease && kept.units == before.held.units, "{kept:?}");
        assert!(kept.earlier.is_empty(), "the next fleetd would use the earlier lease: {kept:?}");
    });
}

/// Another client re-creates and destroys the unit, which is the documented way to stop a withheld
/// unit.
#[test]
fn withheld_unit_destroyed_while_fleetd_was_down_is_stopped_by_the_next_fleetd() {
    soon(async {
        let (store, init) = (Store::memory(), FakeInit::new());
        let fleetd = runs(&store, &init).await;
        let name = UnitName::new("a.service").unwrap();
        let cache = fleetd.cache.clone();
        let mut recalled = fleetd.crash();
        assert!(recalled.ran.contains_key(&name));
        recalled.withheld.insert(name.clone());
        let write = registry::destroy(&cache.snapshot(), &name).unwrap();
        store.commit(&write).await.unwrap().unwrap();
        let fleetd = Fleetd::begin(&store, &init, recalled);
        init.has(&["l.service", "x.service"]).await;
        fleetd.crash();
    });
}

#[test]
fn giving_a_unit_up_is_repeated_until_init_answers() {
    soon(is_given_up(false, true));
}

#[test]
fn fleetd_restarted_while_cut_off_gives_up_the_claims_of_its_predecessor() {
    soon(is_given_up(true, false));
    soon(is_given_up(true, true));
}
