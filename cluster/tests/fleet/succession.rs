//! A rebooted machine, and what its previous run left in the store.

use crate::led::{Cluster, id, name, record};
use cluster::desired::Desired;
use cluster::key::Subject;
use cluster::record::MachineRecord;
use cluster::registry;
use cluster::snapshot::Snapshot;
use cluster::transaction::Transaction;
use std::time::Duration;

#[test]
fn rebooted_machine_takes_over_only_the_key_of_its_own_silent_run() {
    let mut cluster = Cluster::new();
    let on = |disk: &str, instance: &str| MachineRecord {
        disk: Some(disk.to_string()),
        ..record("m1", instance)
    };
    let lease = cluster.store.grant(u64::MAX);
    let first = registry::register(&cluster.snapshot(), &id("m1"), &on("d", "first"), lease);
    cluster.store.commit(&first.unwrap()).unwrap();
    let snapshot = cluster.snapshot();
    let seen = Some(snapshot.machines[&id("m1")].modified);
    let come = |snapshot: &Snapshot, record: &MachineRecord, silent: Option<i64>| {
        registry::register_after_reboot(snapshot, &id("m1"), record, 0, silent)
    };
    let of_the_disk = come(&snapshot, &on("d", "second"), None).unwrap_err();
    assert!(of_the_disk.is_of_our_disk, "the key of our disk may belong to a live run");
    assert!(!come(&snapshot, &on("e", "second"), seen).unwrap_err().is_of_our_disk);
    assert!(!come(&snapshot, &record("m1", "second"), seen).unwrap_err().is_of_our_disk);
    let heir = come(&snapshot, &on("d", "second"), seen).unwrap();
    // The first machine is alive and has written its key again.
    let again = registry::register(&snapshot, &id("m1"), &on("d", "first"), lease).unwrap();
    cluster.store.commit(&again).unwrap();
    assert_eq!(cluster.store.commit(&heir), None, "a delayed takeover fails");
    assert!(
        come(&cluster.snapshot(), &on("d", "second"), seen).is_err(),
        "the key was written after the observation"
    );
    let seen = Some(cluster.snapshot().machines[&id("m1")].modified);
    let heir = come(&cluster.snapshot(), &on("d", "second"), seen).unwrap();
    assert!(cluster.store.commit(&heir).is_some());
}

#[test]
fn claim_of_a_machines_previous_run_is_not_taken_over() {
    let mut cluster = Cluster::new();
    cluster.machine("m1");
    let (epoch, lease) = cluster.lead("m1");
    let mut engine = cluster.engine(Duration::ZERO);
    let text = "[Service]\nExecStart=/bin/true\n[X-Fleet]\nExclusive=true\n";
    cluster.submit("a.service", text, Desired::Launched);
    assert_eq!(cluster.run(&mut engine, epoch), 1);
    let claim = |snapshot: &Snapshot, instance: &str, lease: i64| {
        registry::claim(snapshot, (&id("m1"), instance), &name("a.service"), lease)
    };
    let first = claim(&cluster.snapshot(), "first", lease).unwrap();
    cluster.store.commit(&first).unwrap();
    let fresh = cluster.store.grant(u64::MAX);
    assert!(claim(&cluster.snapshot(), "first", fresh).is_some(), "fleetd restarted");
    assert_eq!(claim(&cluster.snapshot(), "second", fresh), None);
    cluster.store.revoke(lease);
    assert!(
        claim(&cluster.snapshot(), "second", fresh).is_some(),
        "the old claim expired with its lease"
    );
}

#[test]
fn unreadable_machine_key_is_reclaimed_once_no_lease_holds_it() {
    let mut cluster = Cluster::new();
    let first = cluster.machine("m1");
    let own = cluster.keys.of(&Subject::Machine(id("m1")));
    let garble = |cluster: &mut Cluster, lease: i64| {
        let write = Transaction::default().put_bound(own.clone(), b"{".to_vec(), lease);
        cluster.store.commit(&write).unwrap();
    };
    let come = |cluster: &mut Cluster, snapshot: &Snapshot| {
        let lease = cluster.store.grant(u64::MAX);
        let write = registry::register(snapshot, &id("m1"), &record("m1", "first"), lease);
        cluster.store.commit(&write.unwrap()).is_some()
    };
    garble(&mut cluster, first);
    let snapshot = cluster.snapshot();
    assert!(!come(&mut cluster, &snapshot), "a lease protects the unreadable key");
    garble(&mut cluster, 0);
    let snapshot = cluster.snapshot();
    assert!(come(&mut cluster, &snapshot));
    // A running engine knows its metadata.
    let known = cluster.snapshot();
    let lease = known.machines[&id("m1")].lease;
    garble(&mut cluster, lease);
    let snapshot = known.read_again(&cluster.store.read(cluster.keys.root()));
    assert!(come(&mut cluster, &snapshot), "a machine repairs its own unreadable key");
}
