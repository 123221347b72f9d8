//! Machines that join and leave, in good order or not: fleet's cluster, node and shutdown tests.

use super::{Case, LEASE, SLEEPS, sample, sleeps_with, soak};
use crate::stand::Cluster;
use crate::stand::program::{until, within};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const CASES: [Case; 8] = [
    sample("units_of_a_killed_node_move_and_why_says_so", killed),
    sample("replacement_machine_gets_only_the_unit_of_the_lost_one", member_replaced)
        .like(&["TestDynamicClusterMemberReboot"]),
    sample("a_node_that_is_shut_down_leaves_at_once", shut_down),
    sample("stopped_fleetd_stops_its_units_and_exits_cleanly", fleetd_stopped)
        .like(&["TestNodeShutdown", "TestShutdown"]),
    sample("second_machine_with_the_same_id_is_refused_and_the_message_names_both", twins)
        .like(&["TestDetectMachineId"]),
    sample("sockets_timers_and_paths_fire_and_move", triggers),
    soak("unit_moves_to_the_free_machine_and_other_units_stay", migration)
        .on(4)
        .like(&["TestDynamicClusterNewMemberUnitMigration"]),
    soak("drained_machine_loses_its_units_and_takes_no_new_ones", drained),
];

fn killed(cluster: &mut Cluster) {
    let names: Vec<String> = (1..=3).map(|n| format!("apart.{n}.service")).collect();
    for name in &names {
        cluster.file(name, &sleeps_with("Conflicts=apart.*.service"));
        cluster.node(1).fleetctl(&["start", name]);
    }
    cluster.file("free.service", &sleeps_with("Conflicts=apart.1.service"));
    cluster.node(1).fleetctl(&["start", "free.service"]);
    let before = cluster.when_active(1, 4);
    let old = cluster.when_on(1, "free.service");
    let other = 1 + old % 3;
    cluster.kill_node(old);
    let new = cluster.when_on_other(other, "free.service", old);
    assert_ne!(new, cluster.when_on(other, "apart.1.service"));
    let lost = names.iter().find(|name| before[*name].contains(&old)).unwrap();
    until("why explains the unplaced unit", || {
        let (code, printed, _) = cluster.node(other).try_fleetctl(&["why", lost]);
        (code == 1 && printed.contains("no machine of 2 can have it")).then_some(())
    });
    cluster.boot_node(old);
    assert_eq!(cluster.when_on(other, lost), old);
    let after = cluster.when_active(other, 4);
    for name in names.iter().filter(|name| *name != lost) {
        assert_eq!(before[name], after[name], "{name} did not move");
    }
    assert_eq!(
        after["free.service"],
        BTreeSet::from([new]),
        "a unit returned to the rebooted machine"
    );
}

/// Checks that a machine has left before its lease can have expired.
fn has_left(cluster: &Cluster) {
    let machines = || cluster.node(1).list("list-machines");
    let left = within(LEASE / 2, || machines().filter(|machines| machines.len() == 2));
    assert!(left.is_some(), "it has left when it is down: {:?}", machines());
}

fn shut_down(cluster: &mut Cluster) {
    cluster.file("pinned.service", &sleeps_with("MachineMetadata=number=3"));
    cluster
        .file("free.service", &sleeps_with("MachineMetadata=number=3\nMachineMetadata=number=2"));
    cluster.node(1).fleetctl(&["start", "pinned.service"]);
    cluster.node(1).fleetctl(&["start", "free.service"]);
    let free = cluster.when_on(1, "free.service");
    cluster.node_mut(3).shut_down();
    has_left(cluster);
    let seen = within(LEASE / 2, || {
        cluster.units(1).filter(|units| units.iter().all(|line| line.node != 3))
    });
    assert!(seen.is_some(), "{:?}", cluster.units(1));
    assert_eq!(cluster.when_on(1, "free.service"), 2, "it was on n{free}");
    cluster.boot_node(3);
    assert_eq!(cluster.when_on(1, "pinned.service"), 3);
    assert_eq!(cluster.when_on(1, "free.service"), 2);
}

fn member_replaced(cluster: &mut Cluster) {
    let names: Vec<String> = (1..=3).map(|n| format!("apart.{n}.service")).collect();
    for name in &names {
        cluster.file(name, &sleeps_with("Conflicts=apart.*.service"));
        cluster.node(1).fleetctl(&["start", name]);
    }
    cluster.when_active(1, 3);
    let machines = |cluster: &Cluster| {
        let states = cluster.node(1).list("list-units")?;
        let one = |state: &serde_json::Value| Some(state["machineID"].as_str()?.to_string());
        let of = |state: &serde_json::Value| (state["name"].to_string(), one(state));
        let active = states.iter().filter(|state| state["systemdActiveState"] == "active");
        Some(active.map(of).collect::<BTreeMap<_, _>>()).filter(|all| all.len() == 3)
    };
    let before = until("all are active", || machines(cluster));
    let first = crate::stand::node::id(3);
    cluster.kill_node(3);
    cluster.node_mut(3).set_id(&crate::stand::node::id(13));
    cluster.boot_node(3);
    let after = until("all are active, and none on the missing machine", || {
        machines(cluster).filter(|now| !now.values().flatten().any(|id| *id == first))
    });
    let moved = before.iter().filter(|(name, machine)| after[*name] != **machine);
    assert_eq!(moved.count(), 1, "{before:?} {after:?}");
    cluster.node(3).stop_fleetd();
    cluster.node_mut(3).set_id(&first);
    cluster.node(3).start_fleetd();
    cluster.when_machines(3);
}

fn fleetd_stopped(cluster: &mut Cluster) {
    let third = crate::stand::node::id(3);
    cluster.file("pinned.service", &sleeps_with(&format!("MachineID={third}")));
    cluster.node(1).fleetctl(&["start", "pinned.service"]);
    assert_eq!(cluster.when_on(1, "pinned.service"), 3);
    let node = cluster.node(3);
    assert!(node.main_pid("pinned.service").is_some());
    node.stop_fleetd();
    // The machine is up, and its units are not.
    let status = node.status().expect("init answers");
    assert_eq!(node.main_pid("pinned.service"), None, "{status}");
    assert_eq!(node.result_of_fleetd(), "success\n");
    has_left(cluster);
    let gone = within(LEASE / 2, || cluster.units(1).filter(Vec::is_empty));
    assert!(gone.is_some(), "its states are gone: {:?}", cluster.units(1));
}

fn twins(cluster: &mut Cluster) {
    let (first, third) = (crate::stand::node::id(1), crate::stand::node::id(3));
    cluster.file("hello.service", &sleeps_with(&format!("MachineID={first}")));
    cluster.node(1).fleetctl(&["start", "hello.service"]);
    cluster.node(3).stop_fleetd();
    cluster.node(3).put("machine-id", &first);
    cluster.node(3).start_fleetd();
    until("the second says so", || {
        let log = cluster.node(3).log("fleetd");
        let message =
            format!("another machine is registered under the id {first}: at \"10.77.0.1\"");
        log.contains(&message).then_some(())
    });
    let (code, _, printed) = cluster.node(3).try_fleetctl(&["list-machines"]);
    assert!(
        code != 0 && printed.contains("another machine is registered under the id"),
        "{printed}"
    );
    assert_eq!(cluster.when_on(2, "hello.service"), 1);
    assert_eq!(cluster.node(3).main_pid("hello.service"), None);
    cluster.node(3).stop_fleetd();
    cluster.node(3).put("machine-id", &third);
    cluster.node(3).start_fleetd();
    until("the machine registers under its own id", || {
        (cluster.node(3).list("list-machines")?.len() == 3).then_some(())
    });
}

/// A socket, a timer and a path, each with the service it activates.
fn put_triggers(cluster: &Cluster) {
    let oneshot = |line: &str, of: &str| {
        format!(
            "[Service]\nType=oneshot\nExecStart=/bin/sh -c '{line}'\n\n[X-Fleet]\nMachineOf={of}\n"
        )
    };
    let not_first = "[X-Fleet]\nMachineMetadata=number=2\nMachineMetadata=number=3\n";
    let web = "[Socket]\nListenStream=7777\nAccept=no\n";
    cluster.file("web.socket", &format!("{web}\n{not_first}"));
    let answer = "[Service]\nExecStart=/usr/bin/python3 -c 'import socket; s = socket.socket(fileno=3); c = s.accept()[0]; c.sendall(socket.gethostname().encode()); c.close()'\n";
    cluster.file("web.service", &format!("{answer}\n[X-Fleet]\nMachineOf=web.socket\n"));
    cluster.file(
        "tick.timer",
        &format!(
            "[Timer]\nOnActiveSec=200ms\nOnUnitActiveSec=500ms\nAccuracySec=10ms\n\n{not_first}"
        ),
    );
    let ticks = cluster.path("ticks");
    cluster.file("tick.service", &oneshot(&format!("hostname >>{ticks}"), "tick.timer"));
    let asked = cluster.path("asked");
    cluster.file("look.path", &format!("[Path]\nPathExists={asked}\n\n{not_first}"));
    let answered = cluster.path("answered");
    let line = format!("rm {asked}; hostname >>{answered}");
    cluster.file("look.service", &oneshot(&line, "look.path"));
}

fn triggers(cluster: &mut Cluster) {
    put_triggers(cluster);
    for (trigger, service) in [
        ("web.socket", "web.service"),
        ("tick.timer", "tick.service"),
        ("look.path", "look.service"),
    ] {
        // Without its service a trigger fails, so its start is not waited for.
        cluster.node(1).fleetctl(&["start", "--no-block", trigger]);
        cluster.node(1).fleetctl(&["load", service]);
    }
    let fires = |cluster: &Cluster, on: [u8; 3]| {
        let [web, tick, look] = on;
        let name = |number: u8| format!("n{number}");
        until("the socket's service answers", || {
            cluster.connect(web, 7777).filter(|answer| *answer == name(web))
        });
        until("the timer's service runs", || {
            (cluster.read("ticks").lines().last() == Some(&name(tick))).then_some(())
        });
        cluster.file("asked", "");
        until("the path's service runs", || {
            (cluster.read("answered").lines().last() == Some(&name(look))).then_some(())
        });
    };
    let all = ["web.socket", "tick.timer", "look.path"];
    let began = all.map(|unit| cluster.when_on(1, unit));
    fires(cluster, began);
    // Both possible nodes leave, one after the other; the second has all three units then.
    for gone in [began[0], 5 - began[0]] {
        cluster.kill_node(gone);
        let after = all.map(|unit| cluster.when_on_other(1, unit, gone));
        fires(cluster, after);
        assert!(after.iter().all(|number| *number == 5 - gone), "{began:?} {after:?}");
        cluster.boot_node(gone);
        cluster.when_machines(3);
    }
}

fn migration(cluster: &mut Cluster) {
    let names: Vec<String> = (1..=3).map(|n| format!("apart.{n}.service")).collect();
    for name in &names {
        cluster.file(name, &sleeps_with("Conflicts=apart.*.service"));
        cluster.node(1).fleetctl(&["start", name]);
    }
    let before = cluster.when_active(4, 3);
    let old = cluster.when_on(4, "apart.1.service");
    let used: BTreeSet<u8> = before.values().flatten().copied().collect();
    let free = (1..=4).find(|number| !used.contains(number)).unwrap();
    cluster.node(old).stop_fleetd();
    assert_eq!(cluster.when_on_other(free, "apart.1.service", old), free);
    let after = cluster.when_active(free, 3);
    for name in &names[1..] {
        assert_eq!(before[name], after[name], "{name} did not move");
    }
}

fn drained(cluster: &mut Cluster) {
    for n in 1..=6 {
        cluster.file(&format!("d{n}.service"), SLEEPS);
        cluster.node(1).fleetctl(&["start", &format!("d{n}.service")]);
    }
    cluster.when_active(1, 6);
    let id = crate::stand::node::id(2);
    cluster.node(1).fleetctl(&["drain", &id]);
    until("it is empty", || {
        let active = cluster.active(1)?;
        let on: BTreeSet<u8> = active.values().flatten().copied().collect();
        (active.len() == 6 && on == BTreeSet::from([1, 3])).then_some(())
    });
    cluster.node(1).fleetctl(&["undrain", &id]);
    cluster.file("new.service", SLEEPS);
    cluster.node(1).fleetctl(&["start", "new.service"]);
    assert_eq!(cluster.when_on(1, "new.service"), 2);
}
