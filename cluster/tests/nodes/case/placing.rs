//! Placement of units: fleet's scheduling tests.

use super::{Case, SLEEPS, sample, sleeps_with, soak};
use crate::stand::Cluster;
use crate::stand::node::id;
use crate::stand::program::until;
use std::collections::BTreeSet;

pub(super) const CASES: [Case; 8] = [
    sample("unit_runs_on_the_machine_that_it_names", machine_id)
        .like(&["TestScheduleConditionMachineID"]),
    sample("units_that_belong_together_move_together", machine_of).like(&["TestScheduleMachineOf"]),
    sample("units_that_conflict_are_never_together", conflicts).like(&["TestScheduleConflicts"]),
    sample("several_conflicts_on_a_line_and_on_several_lines_count", several_conflicts)
        .like(&["TestScheduleMultipleConflicts"]),
    sample("global_unit_runs_on_every_machine_that_fits", global)
        .like(&["TestScheduleGlobalUnits", "TestScheduleGlobalConflicts"]),
    sample("replaced_unit_moves_to_another_machine", replaces).like(&["TestScheduleReplace"]),
    sample("units_that_replace_each_other_are_refused", circular)
        .like(&["TestScheduleCircularReplace"]),
    soak("conflict_declared_by_one_unit_applies_to_both", one_way)
        .on(1)
        .like(&["TestScheduleOneWayConflict"]),
];

fn machine_id(cluster: &mut Cluster) {
    for number in 1..=3 {
        let name = format!("here{number}.service");
        cluster.file(&name, &sleeps_with(&format!("MachineID={}", id(number))));
        cluster.node(1).fleetctl(&["start", &name]);
        assert_eq!(cluster.when_on(1, &name), number);
    }
    cluster.file("short.service", &sleeps_with(&format!("MachineID={}", &id(1)[..8])));
    let (code, _, printed) = cluster.node(1).try_fleetctl(&["start", "short.service"]);
    assert!(code == 1 && printed.contains("MachineID takes the full id"), "{printed}");
}

fn machine_of(cluster: &mut Cluster) {
    for pair in 1..=3 {
        let (ping, pong) = (format!("ping.{pair}.service"), format!("pong.{pair}.service"));
        cluster.file(&ping, SLEEPS);
        cluster.file(&pong, &sleeps_with(&format!("MachineOf={ping}")));
        cluster.node(1).fleetctl(&["start", &pong, &ping, "--no-block"]);
    }
    let before = cluster.when_active(1, 6);
    for pair in 1..=3 {
        let on = |name: &str| before.get(&format!("{name}.{pair}.service")).cloned();
        assert_eq!(on("ping"), on("pong"));
    }
    let old = cluster.when_on(1, "ping.1.service");
    let other = 1 + old % 3;
    cluster.node(old).stop_fleetd();
    until("one machine less", || {
        (cluster.node(other).list("list-machines")?.len() == 2).then_some(())
    });
    let new = cluster.when_on_other(other, "ping.1.service", old);
    assert_eq!(cluster.when_on_other(other, "pong.1.service", old), new);
    cluster.when_active(other, 6);
}

fn conflicts(cluster: &mut Cluster) {
    let names: Vec<String> = (1..=5).map(|n| format!("conflict.{n}.service")).collect();
    for name in &names {
        cluster.file(name, &sleeps_with("Conflicts=conflict.*.service"));
        cluster.node(1).fleetctl(&["start", "--no-block", name]);
    }
    let active = cluster.when_active(1, 3);
    let on: BTreeSet<u8> = active.values().flatten().copied().collect();
    assert_eq!(on, BTreeSet::from([1, 2, 3]));
    assert_eq!(cluster.unit_files(1).len(), 5);
    let waits = names.iter().find(|name| !active.contains_key(*name)).unwrap();
    until("why says which", || {
        let (code, printed, _) = cluster.node(1).try_fleetctl(&["why", waits]);
        (code == 1 && printed.contains("Conflicts=conflict.*.service")).then_some(())
    });
}

fn several_conflicts(cluster: &mut Cluster) {
    for name in ["one", "two", "three"] {
        let others = ["one", "two", "three"].into_iter().filter(|other| *other != name);
        let others: Vec<String> = others.map(|other| format!("{other}.service")).collect();
        let lines = match name {
            "one" => format!("Conflicts={}", others.join(" ")),
            _ => format!("Conflicts={}", others.join("\nConflicts=")),
        };
        cluster.file(&format!("{name}.service"), &sleeps_with(&lines));
        cluster.node(1).fleetctl(&["start", &format!("{name}.service")]);
    }
    let on: BTreeSet<u8> = cluster.when_active(1, 3).into_values().flatten().collect();
    assert_eq!(on, BTreeSet::from([1, 2, 3]));
}

fn global(cluster: &mut Cluster) {
    cluster.file("everywhere.service", &sleeps_with("Global=true\nConflicts=nowhere.service"));
    cluster.file("nowhere.service", &sleeps_with("Global=true"));
    let ssd = "Global=true\nMachineMetadata=number=2\nMachineMetadata=number=3";
    cluster.file("some.service", &sleeps_with(ssd));
    cluster.node(1).fleetctl(&["start", "everywhere.service", "some.service", "nowhere.service"]);
    let active = cluster.when_active(2, 5);
    assert_eq!(active.get("everywhere.service"), Some(&BTreeSet::from([1, 2, 3])));
    assert_eq!(active.get("some.service"), Some(&BTreeSet::from([2, 3])));
    let why = cluster.node(1).fleetctl(&["why", "some.service"]);
    assert!(why.contains("its metadata has number=1, not 2 or 3"), "{why}");
}

fn replaces(cluster: &mut Cluster) {
    cluster.file("replace.0.service", SLEEPS);
    cluster.node(1).fleetctl(&["start", "replace.0.service"]);
    let old = cluster.when_on(1, "replace.0.service");
    cluster.file("replace.1.service", SLEEPS);
    cluster.file("replace.2.service", &sleeps_with("MachineOf=replace.1.service"));
    cluster.node(1).fleetctl(&["start", "replace.1.service", "replace.2.service"]);
    let pair = cluster.when_on_other(1, "replace.1.service", old);
    assert_eq!(cluster.when_on(1, "replace.2.service"), pair);
    let idle = 6 - old - pair;
    // kick.0 may go to `old`, which has one unit, or to `pair`, which has two. It goes to `old` and
    // displaces the unit there.
    let two = format!("MachineMetadata=number={old}\nMachineMetadata=number={pair}");
    let kick = sleeps_with(&format!("{two}\nReplaces=replace.0.service"));
    cluster.file("kick.0.service", &kick);
    cluster.node(1).fleetctl(&["start", "kick.0.service"]);
    assert_eq!(cluster.when_on(1, "kick.0.service"), old);
    let moved = cluster.when_on_other(1, "replace.0.service", old);
    assert_eq!(moved, idle, "the replaced unit did not move to the least loaded machine");
    let active = cluster.when_active(1, 4);
    for name in ["replace.1.service", "replace.2.service"] {
        assert_eq!(active[name], BTreeSet::from([pair]), "{name} did not move");
    }
}

fn circular(cluster: &mut Cluster) {
    cluster.file("a.service", &sleeps_with("Replaces=b.service"));
    cluster.file("b.service", &sleeps_with("Replaces=a.service"));
    cluster.node(1).fleetctl(&["start", "a.service"]);
    let (code, _, printed) = cluster.node(1).try_fleetctl(&["start", "b.service"]);
    assert!(
        code == 1 && printed.contains("a.service") && printed.contains("b.service"),
        "{printed}"
    );
    assert_eq!(cluster.unit_files(1).len(), 1);
    cluster.when_active(1, 1);
}

fn one_way(cluster: &mut Cluster) {
    cluster.file("first.service", &sleeps_with("Conflicts=hello.service"));
    cluster.file("hello.service", SLEEPS);
    cluster.node(1).fleetctl(&["start", "first.service"]);
    let (code, _, printed) = cluster.node(1).try_fleetctl(&["start", "hello.service"]);
    assert!(code == 1 && printed.contains("first.service is on it"), "{printed}");
    assert!(cluster.when_active(1, 1).contains_key("first.service"));
    cluster.node(1).fleetctl(&["destroy", "first.service"]);
    until("hello alone is listed", || {
        let units = cluster.units(1)?;
        let [only] = units.as_slice() else { return None };
        (only.unit == "hello.service" && only.active == "active").then_some(())
    });
}
