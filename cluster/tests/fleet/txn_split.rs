//! Moves that exceed one etcd transaction: what lands first, what is recorded, and that nothing
//! else is delayed.

use crate::led::{Cluster, id, name, record};
use cluster::desired::Desired;
use cluster::record::MachineRecord;
use cluster::registry;
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
fn too_many_followers_for_one_write_move_in_parts_after_their_leader() {
    const FOLLOWERS: usize = 200;
    let mut cluster = Cluster::new();
    cluster.machine("m0");
    let (epoch, _) = cluster.lead("m0");
    let mut engine = cluster.engine(Duration::ZERO);
    cluster.submit("a.service", "[Service]\nExecStart=/bin/a\n", Desired::Launched);
    for n in 0..FOLLOWERS {
        let text = "[X-Fleet]\nMachineOf=a.service\nMachineMetadata=x=1\n";
        cluster.submit(&format!("f{n}.service"), text, Desired::Launched);
    }
    cluster.run(&mut engine, epoch);
    assert_eq!(
        cluster.schedule("m0").len(),
        1,
        "the followers need metadata that the machine lacks"
    );
    let over = |cluster: &mut Cluster, machine: &str, value: &str| {
        let value = Some(value.to_string());
        let write = registry::set_metadata(&cluster.snapshot(), &id(machine), "x", value);
        cluster.store.commit(&write).unwrap();
    };
    over(&mut cluster, "m0", "1");
    cluster.run(&mut engine, epoch);
    assert_eq!(cluster.schedule("m0").len(), FOLLOWERS + 1);
    // All must move, and they do not fit in one write: the unit they follow arrives first.
    cluster.machine("m1");
    over(&mut cluster, "m1", "1");
    let drained = registry::drain(&cluster.snapshot(), &id("m0"), true);
    cluster.store.commit(&drained).unwrap();
    let before = cluster.store.revision();
    cluster.run(&mut engine, epoch);
    assert!(cluster.schedule("m0").is_empty());
    assert_eq!(cluster.schedule("m1").len(), FOLLOWERS + 1);
    let snapshot = cluster.snapshot();
    let leader = snapshot.places[&name("a.service")].modified;
    assert_eq!(leader, before + 1);
    assert!(snapshot.places.values().all(|kept| kept.modified >= leader));
    assert!(snapshot.whys.is_empty(), "{:?}", snapshot.whys);
}

#[test]
fn move_too_large_for_any_write_is_reported_and_delays_no_other() {
    let mut cluster = Cluster::new();
    cluster.machine("m0");
    let (epoch, _) = cluster.lead("m0");
    // The place of the unit needs a condition for each of these metadata keys.
    let keys: String = (0..130).map(|n| format!("MachineMetadata=k{n}=1\n")).collect();
    let all: BTreeMap<String, String> =
        (0..130).map(|n| (format!("k{n}"), "1".to_string())).collect();
    let lease = cluster.store.grant(u64::MAX);
    let rich = MachineRecord { metadata: all, ..record("m1", "first") };
    let write = registry::register(&cluster.snapshot(), &id("m1"), &rich, lease).unwrap();
    cluster.store.commit(&write).unwrap();
    let mut engine = cluster.engine(Duration::ZERO);
    cluster.submit("a.service", &format!("[X-Fleet]\n{keys}"), Desired::Launched);
    for n in 0..20 {
        cluster.submit(&format!("b{n}.service"), "[Unit]\n", Desired::Launched);
    }
    cluster.run(&mut engine, epoch);
    let snapshot = cluster.snapshot();
    assert_eq!(snapshot.places.len(), 20);
    assert!(!snapshot.places.contains_key("a.service"));
    let why = &snapshot.whys[&name("a.service")].record.text;
    assert!(why.contains("exceeds the 128 operations and conditions"), "{why}");
}

#[test]
fn etcd_with_a_lower_transaction_limit_gets_smaller_writes() {
    let mut cluster = Cluster::new();
    cluster.machine("m0");
    let (epoch, _) = cluster.lead("m0");
    let mut engine = cluster.engine(Duration::ZERO);
    for n in 0..50 {
        cluster.submit(&format!("u{n}.service"), "[Unit]\n", Desired::Launched);
    }
    while engine.halve_transactions() {}
    let new = cluster.store.changes_since(engine.snapshot().revision).unwrap();
    let new: Vec<_> = new.into_iter().map(|(_, change)| change).collect();
    engine.absorb(&new, Duration::ZERO);
    let tasks = engine.tasks(epoch, Duration::ZERO);
    assert!(tasks.len() > 1 && tasks.iter().all(|task| task.transaction.fits_in(16)));
    assert_eq!(tasks.iter().map(|task| task.units.len()).sum::<usize>(), 50);
}
