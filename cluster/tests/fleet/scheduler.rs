//! The scheduler's decisions: the cases of fleet's own tests.

use crate::from_text::{id, machine, name, unit};
use cluster::desired::Desired;
use cluster::machine::Machine;
use cluster::move_order::Cause;
use cluster::placement::Host;
use cluster::scheduler::{Decision, Scheduler};
use cluster::unit_name::UnitName;
use std::collections::BTreeMap;

/// A scheduler with machines `m0`, `m1`… without metadata.
fn scheduler(machines: usize) -> Scheduler {
    let mut scheduler = Scheduler::default();
    for n in 0..machines {
        scheduler.set_machine(&id(&format!("m{n}")), Some(machine(&[])));
    }
    scheduler
}

fn launch(scheduler: &mut Scheduler, own: &str, options: &str) {
    scheduler.set_unit(&name(own), Some(unit(own, options, Desired::Launched, None)));
}

fn settle(scheduler: &mut Scheduler) -> Decision {
    let decision = scheduler.decide();
    assert_eq!(scheduler.decide().groups, Vec::<Vec<_>>::new(), "a second look moves nothing");
    decision
}

fn place(scheduler: &Scheduler, own: &str) -> Option<String> {
    scheduler.units()[&name(own)].machine.as_ref().map(ToString::to_string)
}

#[test]
fn units_spread_by_load_and_ties_go_to_the_smaller_id() {
    let mut scheduler = scheduler(3);
    for n in 0..7 {
        launch(&mut scheduler, &format!("u{n}.service"), "");
    }
    settle(&mut scheduler);
    let loads: Vec<usize> = scheduler.hosts().values().map(Host::load).collect();
    assert_eq!(loads, [3, 2, 2]);
    assert_eq!(place(&scheduler, "u0.service").as_deref(), Some("m0"));
}

#[test]
fn new_machine_gets_only_new_units() {
    let mut scheduler = scheduler(1);
    for n in 0..4 {
        launch(&mut scheduler, &format!("u{n}.service"), "");
    }
    settle(&mut scheduler);
    scheduler.set_machine(&id("m1"), Some(machine(&[])));
    assert!(settle(&mut scheduler).groups.is_empty());
    launch(&mut scheduler, "new.service", "");
    settle(&mut scheduler);
    assert_eq!(place(&scheduler, "new.service").as_deref(), Some("m1"));
}

#[test]
fn only_units_of_the_missing_machine_move() {
    let mut scheduler = scheduler(3);
    for n in 0..6 {
        launch(&mut scheduler, &format!("u{n}.service"), "");
    }
    settle(&mut scheduler);
    let before: BTreeMap<_, _> =
        scheduler.units().iter().map(|(name, unit)| (name.clone(), unit.machine.clone())).collect();
    scheduler.set_machine(&id("m1"), None);
    let decision = settle(&mut scheduler);
    assert_eq!(decision.groups.len(), 2);
    for step in decision.groups.concat() {
        assert_eq!(before[&step.unit], Some(id("m1")));
        assert_eq!(step.cause, Cause::Gone(id("m1")));
        assert!(step.to.is_some_and(|to| to != id("m1")));
    }
}

#[test]
fn unit_with_desired_state_inactive_leaves_its_machine() {
    let mut scheduler = scheduler(1);
    scheduler
        .set_unit(&name("a.service"), Some(unit("a.service", "", Desired::Inactive, Some("m0"))));
    let decision = settle(&mut scheduler);
    assert_eq!(decision.groups[0][0].cause.to_string(), "target state inactive");
    assert_eq!(place(&scheduler, "a.service"), None);
}

#[test]
fn followers_go_with_their_leader_in_one_group() {
    let mut scheduler = scheduler(3);
    launch(&mut scheduler, "pong.service", "MachineOf=ping.service");
    let alone = settle(&mut scheduler);
    let why = &alone.unplaced[&name("pong.service")][&id("m0")];
    assert_eq!(why.to_string(), "ping.service is not on it (MachineOf)");
    launch(&mut scheduler, "other.service", "");
    launch(&mut scheduler, "ping.service", "");
    settle(&mut scheduler);
    assert_eq!(place(&scheduler, "ping.service"), place(&scheduler, "pong.service"));
    let old = place(&scheduler, "ping.service").unwrap();
    scheduler.set_machine(&id(&old), None);
    let decision = settle(&mut scheduler);
    let group = decision.groups.iter().find(|group| group[0].unit == name("ping.service")).unwrap();
    assert_eq!(group.len(), 2);
    assert_eq!(place(&scheduler, "ping.service"), place(&scheduler, "pong.service"));
    assert_ne!(place(&scheduler, "ping.service").unwrap(), old);
}

#[test]
fn units_that_follow_each_other_are_never_placed() {
    let mut scheduler = scheduler(2);
    launch(&mut scheduler, "a.service", "MachineOf=b.service");
    launch(&mut scheduler, "b.service", "MachineOf=a.service");
    assert_eq!(settle(&mut scheduler).unplaced.len(), 2);
}

#[test]
fn units_in_conflict_go_to_different_machines() {
    let mut scheduler = scheduler(3);
    for n in 0..5 {
        launch(&mut scheduler, &format!("conflict.{n}.service"), "Conflicts=conflict.*.service");
    }
    let decision = settle(&mut scheduler);
    assert_eq!(decision.groups.len(), 3);
    assert_eq!(decision.unplaced.len(), 2);
    let why = &decision.unplaced[&name("conflict.4.service")];
    let words = "conflict.1.service is on it (Conflicts=conflict.*.service)";
    assert_eq!(why[&id("m1")].to_string(), words);
}

#[test]
fn conflict_applies_both_ways_and_ends_with_its_unit() {
    let mut scheduler = scheduler(1);
    launch(&mut scheduler, "a.service", "Conflicts=hello.service");
    settle(&mut scheduler);
    launch(&mut scheduler, "hello.service", "");
    assert_eq!(settle(&mut scheduler).unplaced.len(), 1);
    scheduler.set_unit(&name("a.service"), None);
    settle(&mut scheduler);
    assert_eq!(place(&scheduler, "hello.service").as_deref(), Some("m0"));
}

#[test]
fn a_replaced_unit_makes_room_and_keeps_its_own_requirements() {
    let mut scheduler = scheduler(2);
    scheduler.set_machine(&id("m2"), Some(machine(&[])));
    let on = |machine| unit("r.service", "", Desired::Launched, Some(machine));
    scheduler.set_unit(&name("replace.0.service"), Some(on("m0")));
    scheduler.set_unit(&name("replace.1.service"), Some(on("m1")));
    scheduler.set_unit(&name("replace.2.service"), Some(on("m1")));
    scheduler.set_unit(&name("x.service"), Some(on("m2")));
    scheduler.set_unit(&name("y.service"), Some(on("m2")));
    scheduler.set_unit(&name("z.service"), Some(on("m2")));
    settle(&mut scheduler);
    launch(&mut scheduler, "kick0.service", "Replaces=replace.0.service");
    let decision = settle(&mut scheduler);
    assert_eq!(place(&scheduler, "kick0.service").as_deref(), Some("m0"));
    assert_eq!(place(&scheduler, "replace.0.service").as_deref(), Some("m1"));
    assert_eq!(decision.groups.concat().len(), 2);
}

#[test]
fn metadata_and_machine_ids_choose_the_machine() {
    let mut scheduler = scheduler(1);
    scheduler.set_machine(&id("ssd-east"), Some(machine(&[("disk", "SSD"), ("region", "east")])));
    scheduler.set_machine(&id("ssd-west"), Some(machine(&[("disk", "SSD"), ("region", "west")])));
    let west = "MachineMetadata=\"disk=SSD\" \"region=west\" \"region=north\"";
    launch(&mut scheduler, "west.service", west);
    launch(&mut scheduler, "pinned.service", "MachineID=ssd-east");
    launch(&mut scheduler, "south.service", "MachineMetadata=region=south");
    launch(&mut scheduler, "short.service", "MachineID=12345678");
    let decision = settle(&mut scheduler);
    assert_eq!(place(&scheduler, "west.service").as_deref(), Some("ssd-west"));
    assert_eq!(place(&scheduler, "pinned.service").as_deref(), Some("ssd-east"));
    let why = |unit: &str, at: &str| decision.unplaced[&name(unit)][&id(at)].to_string();
    assert_eq!(why("south.service", "m0"), "its metadata has no region=south");
    assert_eq!(why("south.service", "ssd-west"), "its metadata has region=west, not south");
    let short = "MachineID=12345678 is not its id; MachineID takes the full id";
    assert_eq!(why("short.service", "m0"), short);
}

#[test]
fn changed_metadata_moves_units_that_no_longer_fit() {
    let mut scheduler = scheduler(0);
    scheduler.set_machine(&id("a"), Some(machine(&[("role", "web")])));
    scheduler.set_machine(&id("b"), Some(machine(&[])));
    launch(&mut scheduler, "web.service", "MachineMetadata=role=web");
    settle(&mut scheduler);
    scheduler.set_machine(&id("a"), Some(machine(&[])));
    let decision = settle(&mut scheduler);
    assert_eq!(place(&scheduler, "web.service"), None);
    assert_eq!(decision.unplaced.len(), 1);
    scheduler.set_machine(&id("b"), Some(machine(&[("role", "web")])));
    settle(&mut scheduler);
    assert_eq!(place(&scheduler, "web.service").as_deref(), Some("b"));
}

#[test]
fn global_units_count_as_load_as_peers_and_in_conflicts() {
    let mut scheduler = scheduler(2);
    launch(&mut scheduler, "agent.service", "Global=true");
    launch(&mut scheduler, "rival.service", "Global=true\nConflicts=agent.service");
    launch(&mut scheduler, "beside.service", "MachineOf=agent.service");
    launch(&mut scheduler, "away.service", "Conflicts=agent.service");
    let decision = settle(&mut scheduler);
    assert!(place(&scheduler, "beside.service").is_some());
    assert!(decision.unplaced.contains_key(&name("away.service")));
    for host in scheduler.hosts().values() {
        assert_eq!(
            host.globals.keys().map(UnitName::as_str).collect::<Vec<_>>(),
            ["agent.service"]
        );
    }
}

#[test]
fn follower_of_a_displaced_global_unit_moves_in_one_group_with_the_cause() {
    let mut scheduler = Scheduler::default();
    scheduler.set_machine(&id("m0"), Some(machine(&[("k", "1")])));
    launch(&mut scheduler, "guard.service", "Conflicts=agent.service\nMachineMetadata=k=1");
    settle(&mut scheduler);
    launch(&mut scheduler, "agent.service", "Global=true");
    launch(&mut scheduler, "rival.service", "Global=true\nConflicts=agent.service");
    launch(&mut scheduler, "beside.service", "MachineOf=rival.service");
    settle(&mut scheduler);
    assert_eq!(place(&scheduler, "beside.service").as_deref(), Some("m0"));
    // The guard leaves, so the agent arrives, its rival leaves, and the rival's follower too.
    scheduler.set_machine(&id("m0"), Some(machine(&[("k", "2")])));
    let decision = settle(&mut scheduler);
    let group = decision.groups.iter().find(|group| group[0].unit == name("guard.service"));
    let units: Vec<&str> = group.unwrap().iter().map(|step| step.unit.as_str()).collect();
    assert_eq!(units, ["guard.service", "beside.service"]);
}

#[test]
fn global_units_of_an_absent_machine_count_as_still_there() {
    let known = machine(&[("k", "1")]);
    // In the first case, known metadata keeps the agent off the machine. In the second case, the
    // metadata of the machine is unknown.
    for gone in [Machine { away: true, ..known.clone() }, Machine { away: true, ..machine(&[]) }] {
        let mut scheduler = Scheduler::default();
        scheduler.set_machine(&id("m0"), Some(known.clone()));
        launch(&mut scheduler, "agent.service", "Global=true\nMachineMetadata=k=2");
        launch(&mut scheduler, "rival.service", "Global=true\nConflicts=agent.service");
        launch(&mut scheduler, "beside.service", "MachineOf=rival.service");
        settle(&mut scheduler);
        scheduler.set_machine(&id("m0"), Some(gone));
        assert_eq!(settle(&mut scheduler).groups, Vec::<Vec<_>>::new());
        assert_eq!(place(&scheduler, "beside.service").as_deref(), Some("m0"));
    }
}

#[test]
fn a_template_is_never_placed() {
    let mut scheduler = scheduler(1);
    launch(&mut scheduler, "web@.service", "");
    let decision = settle(&mut scheduler);
    assert!(decision.groups.is_empty() && decision.unplaced.is_empty());
}

#[test]
fn units_leave_a_drained_machine() {
    let mut scheduler = scheduler(2);
    launch(&mut scheduler, "a.service", "");
    settle(&mut scheduler);
    scheduler.set_machine(&id("m0"), Some(Machine { draining: true, ..machine(&[]) }));
    settle(&mut scheduler);
    assert_eq!(place(&scheduler, "a.service").as_deref(), Some("m1"));
}
