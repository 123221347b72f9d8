//! The goal of a machine, from the cluster's contents and the previous goal.

use crate::placed::{Cluster, id, name};
use cluster::agent::{self, Goal};
use cluster::desired::Desired;
use cluster::key::Subject;
use cluster::native_unit;
use cluster::record::{Ended, StateRecord};
use cluster::registry;
use cluster::suspicious_read_guard::Missing;
use cluster::transaction::Transaction;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use groundstate_units::control::source_set::SourceSet;
use std::collections::BTreeSet;

/// Returns how many of four units on `m1` are withheld after this change.
fn are_withheld(asks: &str, fact: impl Fn(&mut Cluster, &str)) -> usize {
    let mut cluster = Cluster::new();
    let units: Vec<String> = (0..4).map(|n| format!("u{n}.service")).collect();
    for own in &units {
        cluster.launch(own, asks);
        cluster.put_on(own, Some("m1"));
    }
    let before = cluster.goal(&Goal::new());
    units.iter().for_each(|own| fact(&mut cluster, own));
    let missing = Missing::of(before, &cluster.snapshot(), &id("m1"));
    if missing.are_many() { missing.units.len() } else { 0 }
}

#[test]
fn many_units_that_disappear_without_a_reason_are_withheld() {
    let destroyed = |cluster: &mut Cluster, own: &str| {
        let write = registry::destroy(&cluster.snapshot(), &name(own));
        cluster.commit(&write.unwrap());
    };
    assert_eq!(are_withheld("", destroyed), 4);
    assert_eq!(
        are_withheld("Exclusive=true", destroyed),
        0,
        "an exclusive unit depends on its claim and is not withheld"
    );
    let but = |keep: &'static [&str]| {
        move |cluster: &mut Cluster, own: &str| {
            if !keep.contains(&own) {
                destroyed(cluster, own);
            }
        }
    };
    assert_eq!(are_withheld("", but(&["u0.service"])), 3);
    assert_eq!(
        are_withheld("", but(&["u0.service", "u1.service"])),
        0,
        "two missing units are not many"
    );
    let hidden = |cluster: &mut Cluster, own: &str| {
        let key = cluster.keys.of(&Subject::Schedule(id("m1"), name(own)));
        cluster.commit(&Transaction::default().delete(key));
    };
    assert_eq!(are_withheld("", hidden), 4, "a place without a schedule entry does not count");
}

#[test]
fn units_that_disappear_with_a_reason_are_not_withheld() {
    type Fact = fn(&mut Cluster, &str);
    let facts: [(&str, Fact); 3] = [
        ("inactive", |cluster, own| {
            let write = registry::set_desired(&cluster.snapshot(), &name(own), Desired::Inactive);
            cluster.commit(&write.unwrap());
        }),
        ("loaded alone", |cluster, own| {
            let write = registry::set_desired(&cluster.snapshot(), &name(own), Desired::Loaded);
            cluster.commit(&write.unwrap());
        }),
        ("elsewhere", |cluster, own| cluster.put_on(own, Some("m2"))),
    ];
    for (what, fact) in facts {
        assert_eq!(are_withheld("", fact), 0, "{what}");
    }
}

fn names(goal: &Goal) -> Vec<&str> {
    goal.keys().map(|name| name.as_str()).collect()
}

#[test]
fn each_instance_of_a_native_template_has_its_own_file() {
    let mut cluster = Cluster::new();
    let texts = ["old", "new"].map(|word| format!("unit: web@\nexec-start: /bin/{word} %i\n"));
    for (own, text) in ["web@1.service", "web@2.service"].into_iter().zip(&texts) {
        let file = native_unit::read("web@.yaml", text).unwrap();
        let write = registry::create(&cluster.snapshot(), &name(own), &file, Desired::Launched);
        cluster.commit(&write);
        cluster.put_on(own, Some("m1"));
    }
    let put = agent::source_set(&cluster.goal(&Goal::new()), &BTreeSet::new());
    let files: Vec<(&str, &String)> =
        put.files.iter().map(|(file, text)| (file.as_str(), text)).collect();
    assert_eq!(files, [("web@1.yaml", &texts[0]), ("web@2.yaml", &texts[1])]);
    let roots: Vec<&str> = put.roots.iter().map(|root| root.as_str()).collect();
    assert_eq!(roots, ["web@1", "web@2"]);
}

#[test]
fn file_that_is_no_longer_exclusive_counts_as_that_of_another_unit() {
    let own = name("a.service");
    let applied = |text: &str| {
        let mut cluster = Cluster::new();
        let file = native_unit::read("a.yaml", text).unwrap();
        let write = registry::create(&cluster.snapshot(), &own, &file, Desired::Launched);
        cluster.commit(&write);
        cluster.put_on("a.service", Some("m1"));
        let goal = cluster.goal(&Goal::new());
        (agent::source_set(&goal, &BTreeSet::from([own.clone()])), goal)
    };
    let (before, first) = applied("unit: a\nx-fleet:\n  Exclusive: true\n");
    let (put, goal) = applied("unit: a\n");
    let is = |put, goal| agent::is_file_of_another(put, goal, &own);
    assert_eq!((is(&before, &first), is(&before, &goal), is(&put, &goal)), (false, false, true));
}

#[test]
fn running_unit_without_a_place_keeps_running_until_it_is_placed_elsewhere() {
    let (mut cluster, before) = Cluster::nowhere(&[("a.service", "")]);
    let kept = cluster.goal(&before);
    assert_eq!(kept, before);
    assert!(
        cluster.goal(&Goal::new()).is_empty(),
        "a machine where it did not run does not start it"
    );
    cluster.put_on("a.service", Some("m2"));
    assert!(cluster.goal(&kept).is_empty());
}

#[test]
fn running_unit_without_a_place_stops_for_each_reason_against_it() {
    type Fact = fn(&mut Cluster);
    let facts: [(&str, Fact); 6] = [
        ("inactive", |cluster| {
            let write =
                registry::set_desired(&cluster.snapshot(), &name("a.service"), Desired::Inactive);
            cluster.commit(&write.unwrap());
        }),
        ("destroyed", |cluster| {
            let write = registry::destroy(&cluster.snapshot(), &name("a.service"));
            cluster.commit(&write.unwrap());
        }),
        ("another file", |cluster| cluster.launch("a.service", "Conflicts=x.service")),
        ("drained", |cluster| {
            let write = registry::drain(&cluster.snapshot(), &id("m1"), true);
            cluster.commit(&write);
        }),
        ("a conflict", |cluster| {
            cluster.launch("b.service", "Conflicts=a.service");
            cluster.put_on("b.service", Some("m1"));
        }),
        ("replaced", |cluster| {
            cluster.launch("b.service", "Replaces=a.service");
            cluster.put_on("b.service", Some("m1"));
        }),
    ];
    for (what, fact) in facts {
        let (mut cluster, before) = Cluster::nowhere(&[("a.service", "")]);
        fact(&mut cluster);
        assert!(!cluster.goal(&before).contains_key(&name("a.service")), "{what}");
    }
}

#[test]
fn follower_without_a_place_keeps_running_while_its_leader_does() {
    let units = [("a.service", ""), ("b.service", "MachineOf=a.service")];
    let (mut cluster, before) = Cluster::nowhere(&units);
    assert_eq!(names(&cluster.goal(&before)), ["a.service", "b.service"]);
    cluster.put_on("a.service", Some("m2"));
    assert!(cluster.goal(&before).is_empty(), "the follower is not kept without its leader");
}

#[test]
fn exclusive_unit_without_a_place_is_not_kept_running() {
    let (cluster, before) = Cluster::nowhere(&[("a.service", "Exclusive=true")]);
    assert!(cluster.goal(&before).is_empty());
}

#[test]
fn file_not_yet_rolled_out_to_a_machine_keeps_the_running_one_there() {
    let mut cluster = Cluster::new();
    let own = name("all.service");
    let file = |seconds: u32| {
        let text = format!("[Service]\nExecStart=/bin/sleep {seconds}\n[X-Fleet]\nGlobal=true\n");
        UnitFile::parse(&text).unwrap()
    };
    let make = registry::create(&cluster.snapshot(), &own, &file(1), Desired::Launched);
    cluster.commit(&make);
    let before = agent::goal(&cluster.snapshot(), &id("m2"), &Goal::new());
    let first = BTreeSet::from([id("m1")]);
    let launched = Desired::Launched;
    let make =
        registry::create_signed(&cluster.snapshot(), &own, &file(2), None, launched, Some(&first));
    cluster.commit(&make);
    let runs = |cluster: &Cluster, machine: &str, before: &Goal| {
        let goal = agent::goal(&cluster.snapshot(), &id(machine), before);
        goal[&own].content.file.clone()
    };
    assert_eq!(runs(&cluster, "m1", &before), file(2));
    assert_eq!(
        runs(&cluster, "m2", &before),
        file(1),
        "a machine outside the rollout keeps its file"
    );
    assert_eq!(
        runs(&cluster, "m2", &Goal::new()),
        file(1),
        "a machine that has just booted gets the file from before the rollout"
    );
    // A change of the desired state keeps the list of machines; `spread` to all ends the rollout.
    let wish = registry::set_desired(&cluster.snapshot(), &own, Desired::Loaded).unwrap();
    cluster.commit(&wish);
    assert_eq!(runs(&cluster, "m2", &before), file(1));
    let spread = registry::spread(&cluster.snapshot(), &own, None).unwrap();
    cluster.commit(&spread);
    assert_eq!(runs(&cluster, "m2", &before), file(2));
    assert!(
        registry::spread(&cluster.snapshot(), &own, None).is_none(),
        "the rollout is already complete"
    );
}

impl Cluster {
    /// Makes the value of a key unreadable.
    fn garble(&mut self, subject: Subject) {
        let key = self.keys.of(&subject);
        self.commit(&Transaction::default().put(key, br#"{"v":2,"other":1}"#.to_vec()));
    }

    /// Publishes a state of a unit on m1.
    fn publish(&mut self, own: &str, reached: Desired) {
        let words = String::new;
        let (hash, load, active, sub) = (words(), words(), words(), words());
        let state =
            StateRecord { hash, load, active, sub, reached, reason: None, ended: None, run: None };
        let lease = self.store.grant(u64::MAX);
        let write = registry::publish(&self.keys, &id("m1"), &name(own), Some(&state), None, lease);
        self.commit(&write);
    }
}

#[test]
fn machine_with_unreadable_metadata_keeps_its_units() {
    let mut cluster = Cluster::new();
    let lay = |cluster: &mut Cluster, value: &str| {
        let value = Some(value.to_string());
        let set = registry::set_metadata(&cluster.snapshot(), &id("m1"), "role", value);
        cluster.commit(&set);
    };
    lay(&mut cluster, "web");
    cluster.launch("g.service", "Global=true\nMachineMetadata=role=web");
    cluster.launch("n.service", "MachineMetadata=role=web");
    cluster.put_on("n.service", Some("m1"));
    let before = cluster.goal(&Goal::new());
    assert_eq!(before.len(), 2);
    cluster.put_on("n.service", None);
    cluster.garble(Subject::metadata(&id("m1"), "role").unwrap());
    cluster.launch("h.service", "Global=true\nMachineMetadata=role=web");
    // A restarted fleetd that knows its running units reads the keys.
    let kept = cluster.goal(&before);
    assert_eq!(kept.keys().map(UnitName::as_str).collect::<Vec<_>>(), ["g.service", "n.service"]);
    cluster.launch("x.service", "Conflicts=g.service");
    cluster.put_on("x.service", Some("m1"));
    assert!(
        !cluster.goal(&before).contains_key("g.service"),
        "a readable conflict still removes the unit"
    );
    let key = cluster.keys.of(&Subject::metadata(&id("m1"), "role").unwrap());
    cluster.commit(&Transaction::default().delete(key));
    lay(&mut cluster, "db");
    assert!(
        !cluster.goal(&before).contains_key("n.service"),
        "a readable requirement still removes the unit"
    );
}

#[test]
fn unit_with_an_unreadable_desired_state_keeps_running() {
    let wish = |own: &str| Subject::Desired(name(own));
    for (own, asks, subject) in [
        ("a.service", "", Subject::Schedule(id("m1"), name("a.service"))),
        ("g.service", "Global=true", Subject::Global(name("g.service"))),
    ] {
        for reached in [None, Some(Desired::Inactive), Some(Desired::Loaded)] {
            let mut cluster = Cluster::new();
            cluster.launch(own, asks);
            if asks.is_empty() {
                cluster.put_on(own, Some("m1"));
            }
            let before = cluster.goal(&Goal::new());
            reached.iter().for_each(|reached| cluster.publish(own, *reached));
            cluster.garble(wish(own));
            cluster.garble(subject.clone());
            let expected = if reached == Some(Desired::Loaded) { reached } else { None };
            let now = cluster.goal(&before).get(own).map(|one| one.desired);
            assert_eq!(now, expected.or(Some(Desired::Launched)), "{own} {reached:?}");
        }
    }
}

#[test]
fn only_an_exclusive_unit_is_reported_to_wait_for_its_own_claim() {
    for (asks, reason) in
        [("", "stops an exclusive unit with the same name"), ("Exclusive=true", "holds its claim")]
    {
        let mut cluster = Cluster::new();
        cluster.launch("a.service", asks);
        cluster.put_on("a.service", Some("m1"));
        let goal = cluster.goal(&Goal::new());
        let name = name("a.service");
        let state = agent::state(&name, &goal[&name], &SourceSet::default(), None, None);
        assert!(state.reason.is_some_and(|why| why.contains(reason)), "{asks}");
    }
}

#[test]
fn exited_failed_and_waiting_units_are_reported_apart() {
    let mut cluster = Cluster::new();
    cluster.launch("a.service", "");
    cluster.put_on("a.service", Some("m1"));
    let (own, goal) = (name("a.service"), cluster.goal(&Goal::new()));
    let put = agent::source_set(&goal, &BTreeSet::new());
    let published = |kind: &str, state: &str, reason: &str| {
        let unit = format!(
            r#"{{"unit":"a.service","type":"{kind}","state":"{state}","remains":false,"reason":{reason}}}"#
        );
        let unit = serde_json::from_str(&unit).unwrap();
        let state = agent::state(&own, &goal[&own], &put, Some(&unit), None);
        (state.active, state.ended, state.reason)
    };
    let reason = |words: &str| format!(r#"{{"text":"so",{words}}}"#);
    let outcome = |active: &str, ended, reason: Option<&str>| {
        (active.to_string(), ended, reason.map(str::to_string))
    };
    let skipped = reason(r#""kind":"skipped","condition":"c""#);
    let missing = reason(r#""kind":"missing","target":"t""#);
    let exit = reason(r#""kind":"exit","code":1"#);
    let on = reason(r#""kind":"on","targets":["t"]"#);
    let table = [
        ("oneshot", "exited", "null", outcome("inactive", Some(Ended::Done), None)),
        ("oneshot", "exited", &skipped, outcome("inactive", Some(Ended::Skipped), Some("so"))),
        ("oneshot", "failed", &missing, outcome("inactive", Some(Ended::Failed), Some("so"))),
        ("oneshot", "failed", &exit, outcome("failed", None, Some("so"))),
        ("oneshot", "waiting", &on, outcome("inactive", None, Some("so"))),
        ("oneshot", "disabled", "null", outcome("inactive", None, None)),
        ("oneshot", "starting", "null", outcome("activating", None, None)),
    ];
    for (kind, state, reason, expected) in table {
        assert_eq!(published(kind, state, reason), expected, "{state} {reason}");
    }
}

#[test]
fn newer_global_unit_does_not_displace_an_older_one_in_conflict() {
    let mut cluster = Cluster::new();
    cluster.launch("logger.service", "Global=true");
    let before = cluster.goal(&Goal::new());
    // The new unit is first by name, and its Conflicts names the older unit. It does not displace
    // the older unit for either reason.
    cluster.launch("app.service", "Global=true\nConflicts=logger.service");
    let goal = cluster.goal(&before);
    assert_eq!(names(&goal), ["logger.service"]);
    // Another desired state of the older unit changes nothing, unless it is inactive.
    for desired in [Desired::Loaded, Desired::Launched] {
        let write = registry::set_desired(&cluster.snapshot(), &name("logger.service"), desired);
        cluster.commit(&write.unwrap());
    }
    assert_eq!(
        names(&cluster.goal(&Goal::new())),
        ["logger.service"],
        "a restarted fleetd keeps the older unit"
    );
    let write =
        registry::set_desired(&cluster.snapshot(), &name("logger.service"), Desired::Inactive);
    cluster.commit(&write.unwrap());
    let goal = cluster.goal(&goal);
    assert_eq!(names(&goal), ["app.service"]);
    let write =
        registry::set_desired(&cluster.snapshot(), &name("logger.service"), Desired::Launched);
    cluster.commit(&write.unwrap());
    assert_eq!(names(&cluster.goal(&goal)), ["app.service"], "now the other is the incumbent");
}
