//! The engine's decisions: the cases fleet's own tests had.

use crate::written::{id, machine, name, unit};
use cluster::board::{Board, Decision};
use cluster::desired::Desired;
use cluster::machine::Machine;
use cluster::move_order::Cause;
use cluster::placement::Seat;
use cluster::unit_name::UnitName;
use std::collections::BTreeMap;

/// A board with machines `m0`, `m1`… without metadata.
fn board(machines: usize) -> Board {
    let mut board = Board::default();
    for n in 0..machines {
        board.set_machine(&id(&format!("m{n}")), Some(machine(&[])));
    }
    board
}

fn launch(board: &mut Board, own: &str, options: &str) {
    board.set_unit(&name(own), Some(unit(own, options, Desired::Launched, None)));
}

fn settle(board: &mut Board) -> Decision {
    let decision = board.decide();
    assert_eq!(board.decide().groups, Vec::<Vec<_>>::new(), "a second look moves nothing");
    decision
}

fn place(board: &Board, own: &str) -> Option<String> {
    board.units()[&name(own)].machine.as_ref().map(ToString::to_string)
}

#[test]
fn units_spread_by_load_and_ties_go_to_the_smaller_id() {
    let mut board = board(3);
    for n in 0..7 {
        launch(&mut board, &format!("u{n}.service"), "");
    }
    settle(&mut board);
    let loads: Vec<usize> = board.seats().values().map(Seat::load).collect();
    assert_eq!(loads, [3, 2, 2]);
    assert_eq!(place(&board, "u0.service").as_deref(), Some("m0"));
}

#[test]
fn a_new_machine_gets_only_what_is_new() {
    let mut board = board(1);
    for n in 0..4 {
        launch(&mut board, &format!("u{n}.service"), "");
    }
    settle(&mut board);
    board.set_machine(&id("m1"), Some(machine(&[])));
    assert!(settle(&mut board).groups.is_empty());
    launch(&mut board, "new.service", "");
    settle(&mut board);
    assert_eq!(place(&board, "new.service").as_deref(), Some("m1"));
}

#[test]
fn units_of_a_machine_that_is_gone_move_and_no_others() {
    let mut board = board(3);
    for n in 0..6 {
        launch(&mut board, &format!("u{n}.service"), "");
    }
    settle(&mut board);
    let before: BTreeMap<_, _> =
        board.units().iter().map(|(name, unit)| (name.clone(), unit.machine.clone())).collect();
    board.set_machine(&id("m1"), None);
    let decision = settle(&mut board);
    assert_eq!(decision.groups.len(), 2);
    for step in decision.groups.concat() {
        assert_eq!(before[&step.unit], Some(id("m1")));
        assert_eq!(step.cause, Cause::Gone(id("m1")));
        assert!(step.to.is_some_and(|to| to != id("m1")));
    }
}

#[test]
fn what_is_wished_inactive_leaves_its_machine() {
    let mut board = board(1);
    board.set_unit(&name("a.service"), Some(unit("a.service", "", Desired::Inactive, Some("m0"))));
    let decision = settle(&mut board);
    assert_eq!(decision.groups[0][0].cause.to_string(), "target state inactive");
    assert_eq!(place(&board, "a.service"), None);
}

#[test]
fn followers_go_with_their_leader_in_one_group() {
    let mut board = board(3);
    launch(&mut board, "pong.service", "MachineOf=ping.service");
    let alone = settle(&mut board);
    let why = &alone.unplaced[&name("pong.service")][&id("m0")];
    assert_eq!(why.to_string(), "ping.service is not on it (MachineOf)");
    launch(&mut board, "other.service", "");
    launch(&mut board, "ping.service", "");
    settle(&mut board);
    assert_eq!(place(&board, "ping.service"), place(&board, "pong.service"));
    let old = place(&board, "ping.service").unwrap();
    board.set_machine(&id(&old), None);
    let decision = settle(&mut board);
    let group = decision.groups.iter().find(|group| group[0].unit == name("ping.service")).unwrap();
    assert_eq!(group.len(), 2);
    assert_eq!(place(&board, "ping.service"), place(&board, "pong.service"));
    assert_ne!(place(&board, "ping.service").unwrap(), old);
}

#[test]
fn units_that_follow_each_other_are_never_placed() {
    let mut board = board(2);
    launch(&mut board, "a.service", "MachineOf=b.service");
    launch(&mut board, "b.service", "MachineOf=a.service");
    assert_eq!(settle(&mut board).unplaced.len(), 2);
}

#[test]
fn of_units_that_conflict_one_goes_to_each_machine() {
    let mut board = board(3);
    for n in 0..5 {
        launch(&mut board, &format!("conflict.{n}.service"), "Conflicts=conflict.*.service");
    }
    let decision = settle(&mut board);
    assert_eq!(decision.groups.len(), 3);
    assert_eq!(decision.unplaced.len(), 2);
    let why = &decision.unplaced[&name("conflict.4.service")];
    let words = "conflict.1.service is on it (Conflicts=conflict.*.service)";
    assert_eq!(why[&id("m1")].to_string(), words);
}

#[test]
fn a_conflict_counts_both_ways_and_ends_with_its_unit() {
    let mut board = board(1);
    launch(&mut board, "a.service", "Conflicts=hello.service");
    settle(&mut board);
    launch(&mut board, "hello.service", "");
    assert_eq!(settle(&mut board).unplaced.len(), 1);
    board.set_unit(&name("a.service"), None);
    settle(&mut board);
    assert_eq!(place(&board, "hello.service").as_deref(), Some("m0"));
}

#[test]
fn a_replaced_unit_makes_room_and_keeps_its_own_requirements() {
    let mut board = board(2);
    board.set_machine(&id("m2"), Some(machine(&[])));
    let on = |machine| unit("r.service", "", Desired::Launched, Some(machine));
    board.set_unit(&name("replace.0.service"), Some(on("m0")));
    board.set_unit(&name("replace.1.service"), Some(on("m1")));
    board.set_unit(&name("replace.2.service"), Some(on("m1")));
    board.set_unit(&name("x.service"), Some(on("m2")));
    board.set_unit(&name("y.service"), Some(on("m2")));
    board.set_unit(&name("z.service"), Some(on("m2")));
    settle(&mut board);
    launch(&mut board, "kick0.service", "Replaces=replace.0.service");
    let decision = settle(&mut board);
    assert_eq!(place(&board, "kick0.service").as_deref(), Some("m0"));
    assert_eq!(place(&board, "replace.0.service").as_deref(), Some("m1"));
    assert_eq!(decision.groups.concat().len(), 2);
}

#[test]
fn metadata_and_machine_ids_choose_the_machine() {
    let mut board = board(1);
    board.set_machine(&id("ssd-east"), Some(machine(&[("disk", "SSD"), ("region", "east")])));
    board.set_machine(&id("ssd-west"), Some(machine(&[("disk", "SSD"), ("region", "west")])));
    let west = "MachineMetadata=\"disk=SSD\" \"region=west\" \"region=north\"";
    launch(&mut board, "west.service", west);
    launch(&mut board, "pinned.service", "MachineID=ssd-east");
    launch(&mut board, "south.service", "MachineMetadata=region=south");
    launch(&mut board, "short.service", "MachineID=12345678");
    let decision = settle(&mut board);
    assert_eq!(place(&board, "west.service").as_deref(), Some("ssd-west"));
    assert_eq!(place(&board, "pinned.service").as_deref(), Some("ssd-east"));
    let why = |unit: &str, at: &str| decision.unplaced[&name(unit)][&id(at)].to_string();
    assert_eq!(why("south.service", "m0"), "its metadata has no region=south");
    assert_eq!(why("south.service", "ssd-west"), "its metadata has region=west, not south");
    let short = "MachineID=12345678 is not its id; MachineID takes the full id";
    assert_eq!(why("short.service", "m0"), short);
}

#[test]
fn changed_metadata_moves_what_no_longer_fits() {
    let mut board = board(0);
    board.set_machine(&id("a"), Some(machine(&[("role", "web")])));
    board.set_machine(&id("b"), Some(machine(&[])));
    launch(&mut board, "web.service", "MachineMetadata=role=web");
    settle(&mut board);
    board.set_machine(&id("a"), Some(machine(&[])));
    let decision = settle(&mut board);
    assert_eq!(place(&board, "web.service"), None);
    assert_eq!(decision.unplaced.len(), 1);
    board.set_machine(&id("b"), Some(machine(&[("role", "web")])));
    settle(&mut board);
    assert_eq!(place(&board, "web.service").as_deref(), Some("b"));
}

#[test]
fn global_units_are_load_peers_and_obstacles() {
    let mut board = board(2);
    launch(&mut board, "agent.service", "Global=true");
    launch(&mut board, "rival.service", "Global=true\nConflicts=agent.service");
    launch(&mut board, "beside.service", "MachineOf=agent.service");
    launch(&mut board, "away.service", "Conflicts=agent.service");
    let decision = settle(&mut board);
    assert!(place(&board, "beside.service").is_some());
    assert!(decision.unplaced.contains_key(&name("away.service")));
    for seat in board.seats().values() {
        assert_eq!(
            seat.globals.keys().map(UnitName::as_str).collect::<Vec<_>>(),
            ["agent.service"]
        );
    }
}

#[test]
fn what_drives_a_global_unit_away_moves_in_one_group_with_what_follows_that() {
    let mut board = Board::default();
    board.set_machine(&id("m0"), Some(machine(&[("k", "1")])));
    launch(&mut board, "guard.service", "Conflicts=agent.service\nMachineMetadata=k=1");
    settle(&mut board);
    launch(&mut board, "agent.service", "Global=true");
    launch(&mut board, "rival.service", "Global=true\nConflicts=agent.service");
    launch(&mut board, "beside.service", "MachineOf=rival.service");
    settle(&mut board);
    assert_eq!(place(&board, "beside.service").as_deref(), Some("m0"));
    // The guard goes, so the agent comes, so its rival goes, so what is beside the rival goes.
    board.set_machine(&id("m0"), Some(machine(&[("k", "2")])));
    let decision = settle(&mut board);
    let group = decision.groups.iter().find(|group| group[0].unit == name("guard.service"));
    let units: Vec<&str> = group.unwrap().iter().map(|step| step.unit.as_str()).collect();
    assert_eq!(units, ["guard.service", "beside.service"]);
}

#[test]
fn of_a_machine_that_is_away_no_global_unit_is_taken_for_gone() {
    let known = machine(&[("k", "1")]);
    // By what it said the agent is not there; of the other nobody here knows what it said.
    for gone in [Machine { away: true, ..known.clone() }, Machine { away: true, ..machine(&[]) }] {
        let mut board = Board::default();
        board.set_machine(&id("m0"), Some(known.clone()));
        launch(&mut board, "agent.service", "Global=true\nMachineMetadata=k=2");
        launch(&mut board, "rival.service", "Global=true\nConflicts=agent.service");
        launch(&mut board, "beside.service", "MachineOf=rival.service");
        settle(&mut board);
        board.set_machine(&id("m0"), Some(gone));
        assert_eq!(settle(&mut board).groups, Vec::<Vec<_>>::new());
        assert_eq!(place(&board, "beside.service").as_deref(), Some("m0"));
    }
}

#[test]
fn a_template_is_never_placed() {
    let mut board = board(1);
    launch(&mut board, "web@.service", "");
    let decision = settle(&mut board);
    assert!(decision.groups.is_empty() && decision.unplaced.is_empty());
}

#[test]
fn a_drained_machine_is_left() {
    let mut board = board(2);
    launch(&mut board, "a.service", "");
    settle(&mut board);
    board.set_machine(&id("m0"), Some(Machine { draining: true, ..machine(&[]) }));
    settle(&mut board);
    assert_eq!(place(&board, "a.service").as_deref(), Some("m1"));
}
