//! The engine on an in-memory store: it applies users' requests, and its writes fail once another
//! engine leads.

use crate::led::{Cluster, id, name, record};
use cluster::desired::Desired;
use cluster::engine::Engine;
use cluster::key::Subject;
use cluster::record::MachineRecord;
use cluster::registry::{self, Epoch};
use cluster::transaction::Transaction;
use std::collections::BTreeMap;
use std::time::Duration;

const PLAIN: &str = "[Service]\nExecStart=/bin/sleep 1000\n";

#[test]
fn submitted_unit_is_placed_and_removed_again() {
    let mut cluster = Cluster::new();
    cluster.machine("m1");
    let (epoch, _) = cluster.lead("m1");
    let mut engine = cluster.engine(Duration::ZERO);
    cluster.submit("a.service", PLAIN, Desired::Inactive);
    assert_eq!(cluster.run(&mut engine, epoch), 0);
    cluster.wish("a.service", Desired::Launched);
    assert_eq!(cluster.run(&mut engine, epoch), 1, "one change costs one transaction");
    assert_eq!(cluster.schedule("m1"), BTreeMap::from([("a.service".into(), Desired::Launched)]));
    cluster.wish("a.service", Desired::Loaded);
    assert_eq!(
        cluster.run(&mut engine, epoch),
        0,
        "the API updates the schedule without an engine"
    );
    assert_eq!(cluster.schedule("m1"), BTreeMap::from([("a.service".into(), Desired::Loaded)]));
    let gone = registry::destroy(&cluster.snapshot(), &name("a.service")).unwrap();
    cluster.store.commit(&gone).unwrap();
    cluster.run(&mut engine, epoch);
    assert_eq!(cluster.schedule("m1"), BTreeMap::new());
    let left = cluster.store.read(cluster.keys.root());
    let own = |entry: &&cluster::transaction::Entry| entry.key.contains("a.service");
    assert_eq!(left.entries.iter().filter(own).count(), 0, "a key of the destroyed unit is left");
}

#[test]
fn another_file_under_the_same_name_is_a_new_unit() {
    let mut cluster = Cluster::new();
    cluster.machine("m1");
    let (epoch, _) = cluster.lead("m1");
    let mut engine = cluster.engine(Duration::ZERO);
    cluster.submit("a.service", PLAIN, Desired::Launched);
    cluster.run(&mut engine, epoch);
    cluster.submit("a.service", "[Service]\nExecStart=/bin/true\n", Desired::Inactive);
    assert_eq!(cluster.schedule("m1"), BTreeMap::new());
    cluster.submit(
        "a.service",
        "[Service]\nExecStart=/bin/true\n[X-Fleet]\nGlobal=1\n",
        Desired::Loaded,
    );
    cluster.run(&mut engine, epoch);
    assert_eq!(cluster.schedule("m1"), BTreeMap::new());
    assert_eq!(cluster.snapshot().globals.len(), 1);
}

#[test]
fn units_of_a_missing_machine_move_after_the_grace() {
    let mut cluster = Cluster::new();
    let lease = cluster.machine("m1");
    cluster.machine("m2");
    let (epoch, _) = cluster.lead("m2");
    let mut engine = cluster.engine(Duration::from_secs(30));
    for n in 0..10 {
        cluster.submit(&format!("u{n}.service"), PLAIN, Desired::Launched);
    }
    cluster.run(&mut engine, epoch);
    assert_eq!(cluster.schedule("m1").len(), 5);
    cluster.store.revoke(lease);
    cluster.submit("new.service", PLAIN, Desired::Launched);
    cluster.run(&mut engine, epoch);
    assert_eq!(cluster.schedule("m1").len(), 5, "the machine keeps its units during the grace");
    assert!(cluster.schedule("m2").contains_key("new.service"));
    cluster.now = engine.next_deadline().unwrap();
    assert_eq!(cluster.run(&mut engine, epoch), 1, "one write for all of them");
    assert_eq!(cluster.schedule("m2").len(), 11);
    assert_eq!(cluster.schedule("m1").len(), 0);
}

#[test]
fn machine_that_returns_within_the_grace_keeps_its_units() {
    let mut cluster = Cluster::new();
    let lease = cluster.machine("m1");
    cluster.machine("m2");
    let (epoch, _) = cluster.lead("m2");
    let mut engine = cluster.engine(Duration::from_secs(30));
    cluster.submit("a.service", PLAIN, Desired::Launched);
    cluster.run(&mut engine, epoch);
    cluster.store.revoke(lease);
    cluster.run(&mut engine, epoch);
    cluster.machine("m1");
    assert_eq!(cluster.run(&mut engine, epoch), 0);
    assert_eq!(engine.next_deadline(), None);
    assert!(cluster.schedule("m1").contains_key("a.service"));
}

#[test]
fn metadata_override_of_an_absent_machine_applies_to_its_global_units() {
    let mut cluster = Cluster::new();
    let lease = cluster.machine("m1");
    cluster.machine("m2");
    let (epoch, _) = cluster.lead("m2");
    let mut engine = cluster.engine(Duration::from_secs(30));
    let lay = |cluster: &mut Cluster, value: &str| {
        let value = Some(value.to_string());
        let write = registry::set_metadata(&cluster.snapshot(), &id("m1"), "k", value);
        cluster.store.commit(&write).unwrap();
    };
    lay(&mut cluster, "1");
    let asking = |asks: &str| format!("{PLAIN}[X-Fleet]\n{asks}\n");
    let all = [
        ("agent.service", "Global=true\nMachineMetadata=k=2"),
        ("rival.service", "Global=true\nConflicts=agent.service"),
        ("beside.service", "MachineOf=rival.service\nMachineMetadata=k=1"),
    ];
    for (own, asks) in all {
        cluster.submit(own, &asking(asks), Desired::Launched);
    }
    cluster.run(&mut engine, epoch);
    assert!(cluster.schedule("m1").contains_key("beside.service"));
    cluster.store.revoke(lease);
    cluster.run(&mut engine, epoch);
    assert!(
        cluster.schedule("m1").contains_key("beside.service"),
        "the follower stays during the grace"
    );
    lay(&mut cluster, "2");
    cluster.run(&mut engine, epoch);
    assert_eq!(
        cluster.schedule("m1"),
        BTreeMap::new(),
        "the metadata now select the agent instead of its rival"
    );
}

#[test]
fn move_due_to_a_missing_global_unit_fails_once_that_unit_is_back() {
    let mut cluster = Cluster::new();
    cluster.machine("m1");
    let (epoch, _) = cluster.lead("m1");
    let mut engine = cluster.engine(Duration::ZERO);
    let asking = |asks: &str| format!("{PLAIN}[X-Fleet]\n{asks}\n");
    cluster.submit("rival.service", &asking("Global=true"), Desired::Launched);
    cluster.submit("beside.service", &asking("MachineOf=rival.service"), Desired::Launched);
    cluster.run(&mut engine, epoch);
    let rival = asking("Global=true");
    cluster.submit("rival.service", &rival, Desired::Inactive);
    let new = cluster.store.changes_since(engine.snapshot().revision).unwrap();
    let new: Vec<_> = new.into_iter().map(|(_, change)| change).collect();
    engine.absorb(&new, cluster.now);
    let tasks = engine.tasks(epoch, cluster.now);
    assert_eq!(tasks[0].moves[0].unit, name("beside.service"), "the unit it follows has gone");
    cluster.submit("rival.service", &rival, Desired::Launched);
    assert_eq!(cluster.store.commit(&tasks[0].transaction), None);
}

#[test]
fn writes_of_an_engine_fail_once_another_engine_leads() {
    let mut cluster = Cluster::new();
    cluster.machine("m1");
    let (old, lease) = cluster.lead("m1");
    let mut stale = cluster.engine(Duration::ZERO);
    cluster.submit("a.service", PLAIN, Desired::Launched);
    cluster.store.revoke(lease);
    let (new, _) = cluster.lead("m1");
    assert_eq!(cluster.run(&mut stale, old), 0);
    assert_eq!(cluster.schedule("m1"), BTreeMap::new());
    let mut engine = cluster.engine(Duration::ZERO);
    assert_eq!(cluster.run(&mut engine, new), 1);
}

#[test]
fn second_machine_with_the_same_id_is_refused() {
    let mut cluster = Cluster::new();
    cluster.machine("m1");
    let snapshot = cluster.snapshot();
    let again = registry::register(&snapshot, &id("m1"), &record("m1", "first"), 0);
    assert!(again.is_ok(), "fleetd restarted: it is the same machine");
    let twin = registry::register(&snapshot, &id("m1"), &record("m1", "second"), 0).unwrap_err();
    assert_eq!(twin.there.record.instance, "first");
    assert!(!twin.is_of_our_disk);
}

#[test]
fn reason_of_an_unplaceable_unit_is_recorded_once() {
    let mut cluster = Cluster::new();
    cluster.machine("m1");
    let (epoch, _) = cluster.lead("m1");
    let mut engine = cluster.engine(Duration::ZERO);
    let text = "[Service]\nExecStart=/bin/true\n[X-Fleet]\nMachineMetadata=region=moon\n";
    cluster.submit("a.service", text, Desired::Launched);
    assert_eq!(cluster.run(&mut engine, epoch), 1);
    let why = &cluster.snapshot().whys[&name("a.service")].record;
    assert_eq!(why.text, "no machine of 1 can have it");
    assert_eq!(why.machines[&id("m1")], "its metadata has no region=moon");
    let write =
        registry::set_metadata(&cluster.snapshot(), &id("m1"), "region", Some("mars".into()));
    cluster.store.commit(&write).unwrap();
    assert_eq!(cluster.run(&mut engine, epoch), 1, "the reason changed");
    let write =
        registry::set_metadata(&cluster.snapshot(), &id("m1"), "region", Some("moon".into()));
    cluster.store.commit(&write).unwrap();
    cluster.run(&mut engine, epoch);
    assert!(cluster.snapshot().whys.is_empty());
    assert!(cluster.schedule("m1").contains_key("a.service"));
}

#[test]
fn new_engine_grants_the_grace_to_a_machine_it_has_never_seen() {
    let mut cluster = Cluster::new();
    let lease = cluster.machine("m1");
    let write = registry::set_metadata(&cluster.snapshot(), &id("m1"), "disk", Some("ssd".into()));
    cluster.store.commit(&write).unwrap();
    let own = BTreeMap::from([("region".to_string(), "moon".to_string())]);
    let record = MachineRecord { metadata: own, ..record("m1", "first") };
    let write = registry::register(&cluster.snapshot(), &id("m1"), &record, lease).unwrap();
    cluster.store.commit(&write).unwrap();
    let (epoch, leads) = cluster.lead("m2");
    let asks = "[X-Fleet]\nMachineMetadata=region=moon\n";
    cluster.submit("a.service", &format!("{PLAIN}{asks}"), Desired::Launched);
    cluster.run(&mut cluster.engine(Duration::ZERO), epoch);
    assert!(cluster.schedule("m1").contains_key("a.service"));
    cluster.store.revoke(lease);
    cluster.store.revoke(leads);
    let (epoch, _) = cluster.lead("m3");
    let mut engine = cluster.engine(Duration::from_secs(4));
    assert_eq!(cluster.run(&mut engine, epoch), 0, "the missing machine has its grace");
    cluster.now += Duration::from_secs(5);
    cluster.run(&mut engine, epoch);
    assert!(cluster.schedule("m1").is_empty(), "the grace is over");
}

#[test]
fn machine_that_returned_and_left_again_gets_a_new_grace() {
    let mut cluster = Cluster::new();
    let lease = cluster.machine("m1");
    let (epoch, _) = cluster.lead("m2");
    let mut engine = cluster.engine(Duration::from_secs(4));
    cluster.submit("a.service", PLAIN, Desired::Launched);
    cluster.run(&mut engine, epoch);
    cluster.store.revoke(lease);
    cluster.run(&mut engine, epoch);
    // Both events arrive together, three seconds later.
    let lease = cluster.machine("m1");
    cluster.store.revoke(lease);
    cluster.now += Duration::from_secs(3);
    cluster.run(&mut engine, epoch);
    cluster.now += Duration::from_secs(2);
    assert_eq!(cluster.run(&mut engine, epoch), 0);
    assert!(cluster.schedule("m1").contains_key("a.service"));
    cluster.now += Duration::from_secs(3);
    cluster.run(&mut engine, epoch);
    assert!(cluster.schedule("m1").is_empty());
}

#[test]
fn reason_is_removed_with_its_unit() {
    let mut cluster = Cluster::new();
    let (epoch, _) = cluster.lead("m1");
    cluster.submit("a.service", PLAIN, Desired::Launched);
    let old = cluster.snapshot();
    cluster.run(&mut cluster.engine(Duration::ZERO), epoch);
    assert!(cluster.snapshot().whys.contains_key(&name("a.service")));
    let gone = registry::destroy(&old, &name("a.service")).unwrap();
    assert!(
        cluster.store.commit(&gone).is_some(),
        "a newer reason does not make the destruction fail"
    );
    assert!(cluster.snapshot().whys.is_empty());
}

#[test]
fn recreated_unit_repeats_why_it_is_not_placed() {
    let mut cluster = Cluster::new();
    let (epoch, _) = cluster.lead("m1");
    let mut engine = cluster.engine(Duration::ZERO);
    cluster.submit("a.service", PLAIN, Desired::Launched);
    cluster.run(&mut engine, epoch);
    cluster.submit("a.service", "[Service]\nExecStart=/bin/true\n", Desired::Launched);
    assert!(cluster.snapshot().whys.is_empty());
    cluster.run(&mut engine, epoch);
    assert!(cluster.snapshot().whys.contains_key(&name("a.service")));
}

#[test]
fn full_check_updates_why_a_unit_is_not_placed() {
    let mut cluster = Cluster::new();
    cluster.machine("m1");
    let (epoch, _) = cluster.lead("m1");
    let mut engine = cluster.engine(Duration::ZERO);
    let apart = |other: &str| format!("{PLAIN}[X-Fleet]\nConflicts={other}.service\n");
    cluster.submit("b.service", PLAIN, Desired::Launched);
    cluster.run(&mut engine, epoch);
    cluster.submit("c.service", &apart("[ab]"), Desired::Launched);
    cluster.run(&mut engine, epoch);
    cluster.submit("a.service", PLAIN, Desired::Launched);
    cluster.run(&mut engine, epoch);
    let why = |cluster: &Cluster| {
        cluster.snapshot().whys[&name("c.service")].record.machines[&id("m1")].clone()
    };
    assert_eq!(why(&cluster), "b.service is on it (Conflicts=[ab].service)");
    engine.reread(&cluster.store.read(cluster.keys.root()), cluster.now);
    assert_eq!(cluster.run(&mut engine, epoch), 1);
    assert_eq!(why(&cluster), "a.service is on it (Conflicts=[ab].service)");
    engine.reread(&cluster.store.read(cluster.keys.root()), cluster.now);
    assert_eq!(cluster.run(&mut engine, epoch), 0, "nothing new, nothing written");
}

/// A unit on m1 of two machines, with these keys unreadable.
fn unreadable(subjects: &[Subject]) -> (Cluster, Engine, Epoch) {
    let mut cluster = Cluster::new();
    let lease = cluster.machine("m1");
    cluster.machine("m2");
    let (epoch, _) = cluster.lead("m2");
    let mut engine = cluster.engine(Duration::ZERO);
    cluster.submit("a.service", PLAIN, Desired::Launched);
    cluster.run(&mut engine, epoch);
    for subject in subjects {
        let (key, value) = (cluster.keys.of(subject), b"{\"v\":2,\"other\":1}".to_vec());
        let lease = if matches!(subject, Subject::Machine(_)) { lease } else { 0 };
        let write = Transaction::default().put_bound(key, value, lease);
        cluster.store.commit(&write).unwrap();
    }
    cluster.run(&mut engine, epoch);
    (cluster, engine, epoch)
}

#[test]
fn unreadable_value_affects_nothing_else() {
    let own = name("a.service");
    let (wish, place) = (Subject::Desired(own.clone()), Subject::Place(own.clone()));
    let schedule = Subject::Schedule(id("m1"), own.clone());
    let together = [
        vec![wish.clone()],
        vec![place.clone()],
        vec![Subject::Machine(id("m1"))],
        vec![Subject::Unit(own.clone())],
        vec![schedule.clone()],
        // A change of the desired state writes these keys.
        vec![wish.clone(), schedule.clone()],
        vec![place.clone(), schedule.clone()],
        vec![wish, place, schedule],
    ];
    for subject in together {
        let (mut cluster, mut engine, epoch) = unreadable(&subject);
        let before = cluster.store.revision();
        let reading = cluster.store.read(cluster.keys.root());
        engine.reread(&reading, cluster.now);
        assert_eq!(
            cluster.run(&mut engine, epoch),
            0,
            "{subject:?}: the previous value stays in effect"
        );
        assert_eq!(engine.snapshot().set_aside.len(), subject.len(), "{subject:?} is reported");
        assert!(engine.snapshot().is_scheduled_on(&id("m1"), &own), "{subject:?}");
        let mut next = cluster.engine(Duration::ZERO);
        assert_eq!(cluster.run(&mut next, epoch), 0, "{subject:?}: the next leader moves nothing");
        assert_eq!(cluster.store.revision(), before);
        cluster.submit("b.service", PLAIN, Desired::Launched);
        cluster.run(&mut next, epoch);
        assert!(cluster.snapshot().place_of(&name("b.service")).is_some(), "{subject:?}");
    }
}

#[test]
fn schedule_changed_by_another_client_is_corrected() {
    let own = name("a.service");
    let schedule = |machine: &str| Subject::Schedule(id(machine), own.clone());
    let (mut cluster, mut engine, epoch) = unreadable(&[Subject::Why(name("other.service"))]);
    let key = |cluster: &Cluster, subject| cluster.keys.of(&subject);
    let record = cluster.store.get(&key(&cluster, schedule("m1"))).unwrap().value.clone();
    let write = Transaction::default()
        .delete(key(&cluster, schedule("m1")))
        .put(key(&cluster, schedule("m2")), record.clone());
    cluster.store.commit(&write).unwrap();
    cluster.run(&mut engine, epoch);
    engine.reread(&cluster.store.read(cluster.keys.root()), cluster.now);
    assert_eq!(cluster.run(&mut engine, epoch), 1, "the correction takes one write");
    assert_eq!(cluster.store.get(&key(&cluster, schedule("m1"))).unwrap().value, record);
    assert!(cluster.store.get(&key(&cluster, schedule("m2"))).is_none());
    engine.reread(&cluster.store.read(cluster.keys.root()), cluster.now);
    assert_eq!(cluster.run(&mut engine, epoch), 0, "a corrected schedule is written again");
}
