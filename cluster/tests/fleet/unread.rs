//! A machine with an unreadable record: `why` names the key, and a drain works. An unreadable value
//! under a new key starts nothing.

use crate::led::{Cluster, id, name};
use cluster::agent::{self, Goal};
use cluster::desired::Desired;
use cluster::key::Subject;
use cluster::registry;
use cluster::transaction::Transaction;
use std::time::Duration;

const SLEEP: &str = "[Service]\nExecStart=/bin/sleep 9\n";

#[test]
fn why_names_unreadable_values_and_a_drain_counts_such_units() {
    let mut cluster = Cluster::new();
    cluster.machine("m1");
    let (epoch, _) = cluster.lead("m1");
    let mut engine = cluster.engine(Duration::from_secs(9));
    cluster.submit("a.service", SLEEP, Desired::Launched);
    cluster.run(&mut engine, epoch);
    assert!(cluster.schedule("m1").contains_key("a.service"));
    let key = cluster.keys.of(&Subject::metadata(&id("m1"), "role").unwrap());
    cluster.store.commit(&Transaction::default().put(key.clone(), b"{".to_vec())).unwrap();
    cluster.submit("b.service", SLEEP, Desired::Launched);
    let mut engine = cluster.engine(Duration::from_secs(9));
    cluster.run(&mut engine, epoch);
    let reason = |cluster: &Cluster, own: &str| {
        let snapshot = cluster.snapshot();
        snapshot.whys.get(&name(own)).unwrap().record.machines.get(&id("m1")).cloned().unwrap()
    };
    assert_eq!(reason(&cluster, "b.service"), format!("the value of {key} cannot be read"));
    assert!(cluster.schedule("m1").contains_key("a.service"), "it keeps what it has");
    cluster.machine("m2");
    cluster.run(&mut engine, epoch);
    let drain = registry::drain(&cluster.snapshot(), &id("m1"), true);
    cluster.store.commit(&drain).unwrap();
    cluster.run(&mut engine, epoch);
    assert!(cluster.schedule("m1").is_empty(), "{:?}", cluster.schedule("m1"));
    assert_eq!(cluster.schedule("m2").len(), 2);
}

#[test]
fn unreadable_global_key_makes_no_unit_global() {
    let mut cluster = Cluster::new();
    cluster.machine("m1");
    let (epoch, _) = cluster.lead("m1");
    let mut engine = cluster.engine(Duration::from_secs(9));
    cluster.submit("a.service", SLEEP, Desired::Launched);
    cluster.submit("idle.service", SLEEP, Desired::Inactive);
    cluster.run(&mut engine, epoch);
    cluster.machine("m2");
    let garbage = |cluster: &mut Cluster, subject: Subject| {
        let key = cluster.keys.of(&subject);
        cluster.store.commit(&Transaction::default().put(key, b"{".to_vec())).unwrap();
    };
    for own in ["a.service", "idle.service"] {
        garbage(&mut cluster, Subject::Global(name(own)));
    }
    let there = |cluster: &Cluster, on: &str| {
        let goal = agent::goal(&cluster.snapshot(), &id(on), &Goal::new());
        goal.keys().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(there(&cluster, "m1"), ["a.service"]);
    assert_eq!(there(&cluster, "m2"), [""; 0], "it has its place elsewhere");
    garbage(&mut cluster, Subject::Desired(name("idle.service")));
    let mut engine = cluster.engine(Duration::from_secs(9));
    cluster.run(&mut engine, epoch);
    assert_eq!(there(&cluster, "m1"), ["a.service"], "the other one was never requested");
}
