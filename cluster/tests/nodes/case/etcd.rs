//! etcd members, and machines with them, that stop, pause, or return with another state.

use super::answers::{ask, retry_after};
use super::{Case, LEASE, SLEEPS, sample, sleeps_with, soak};
use crate::stand::Cluster;
use crate::stand::program::{throughout, until, within};
use std::time::{Duration, Instant};

pub(super) const CASES: [Case; 6] = [
    sample("loss_of_etcds_leader_affects_no_unit", leader_of_etcd),
    sample("changes_during_the_absence_of_a_machine_apply_when_it_returns", changed),
    sample("cluster_recovers_from_a_power_cut_of_all_nodes", power_cut),
    soak("machine_paused_beyond_its_lease_gives_its_exclusive_unit_up", paused),
    soak("machine_that_crashes_and_reboots_at_once_runs_its_units_once", rebooted),
    soak("machines_follow_their_schedules_without_an_engine", no_engine)
        .with("disable_engine=true\n"),
];

fn everywhere(cluster: &Cluster) -> [Option<i64>; 3] {
    [1, 2, 3].map(|number| cluster.node(number).main_pid("everywhere.service"))
}

/// Time after a write from which on an API answer shows it or is a 503.
const FRESH: Duration = Duration::from_secs(5);
/// Maximum time without new placements after etcd has lost its leader.
const RESUMED: Duration = Duration::from_secs(30);

/// Waits until each node shows the new unit. After [`FRESH`], a node that does not show it yet must
/// answer 503.
fn is_known_in_time(cluster: &Cluster, name: &str, written: Instant) {
    let mut behind = vec![1, 2, 3];
    until("each node knows of it", || {
        behind.retain(|number| {
            let asked = written.elapsed();
            let (status, head, body) = ask(cluster.node(*number), "GET", "units", "");
            let knows = status == 200 && body.contains(name);
            let says = status == 503 && retry_after(&head).is_some_and(|after| after <= 5);
            let fine = knows || says || asked < FRESH;
            assert!(fine, "n{number} answers {status} after {asked:?}: {body}");
            !knows
        });
        behind.is_empty().then_some(())
    });
}

fn leader_of_etcd(cluster: &mut Cluster) {
    cluster.file("everywhere.service", &sleeps_with("Global=true"));
    cluster.node(1).fleetctl(&["start", "everywhere.service"]);
    cluster.when_active(1, 3);
    let (before, events) = (everywhere(cluster), cluster.events("everywhere.service"));
    for (turn, signal) in ["STOP", "KILL"].into_iter().enumerate() {
        let leader = until("a member of etcd leads", || cluster.leads_etcd());
        cluster.node(leader).signal("etcd", signal);
        let name = format!("after{turn}.service");
        cluster.file(&name, SLEEPS);
        let taken = within(RESUMED, || {
            let other = cluster.node(1 + leader % 3);
            (other.try_fleetctl(&["start", "--no-block", &name]).0 == 0).then_some(())
        });
        assert!(taken.is_some(), "etcd accepts no writes after {signal}");
        let written = Instant::now();
        is_known_in_time(cluster, &name, written);
        until("the unit runs", || {
            let active = cluster.active(1 + leader % 3)?;
            active.contains_key(&name).then_some(())
        });
        assert!(written.elapsed() < RESUMED, "placement took too long");
        throughout(LEASE, "no unit restarts", || everywhere(cluster) == before);
        cluster.node(leader).signal("etcd", "CONT");
        cluster.when_machines(3);
    }
    cluster.when_active(1, 5);
    assert_eq!(everywhere(cluster), before);
    assert_eq!(cluster.events("everywhere.service"), events, "no unit has another state");
}

fn changed(cluster: &mut Cluster) {
    let here = "MachineMetadata=number=3";
    for name in ["gone.service", "other.service"] {
        cluster.file(name, &sleeps_with(here));
        cluster.node(1).fleetctl(&["start", name]);
    }
    cluster.file("everywhere.service", &sleeps_with("Global=true"));
    cluster.node(1).fleetctl(&["start", "everywhere.service"]);
    cluster.when_active(1, 5);
    let before = everywhere(cluster);
    let old = cluster.node(3).main_pid("other.service");
    cluster.network.cut(3);
    until("it is out of the cluster", || {
        (cluster.node(1).list("list-machines")?.len() == 2).then_some(())
    });
    cluster.node(1).fleetctl(&["destroy", "gone.service", "other.service"]);
    let mark = cluster.path("mark");
    let line = format!("ExecStart=/bin/sh -c 'echo second >>{mark}; exec sleep 100000'");
    let second = sleeps_with(here).replace("ExecStart=/bin/sleep 100000", &line);
    cluster.file("other.service", &second);
    cluster.node(1).fleetctl(&["start", "--no-block", "other.service"]);
    assert!(
        cluster.node(3).main_pid("gone.service").is_some(),
        "a machine that is cut off stopped a unit"
    );
    cluster.network.heal(3);
    until("it is back", || (cluster.node(3).list("list-machines")?.len() == 3).then_some(()));
    let stopped = within(Duration::from_secs(5), || {
        cluster.node(3).main_pid("gone.service").is_none().then_some(())
    });
    assert!(stopped.is_some(), "a destroyed unit still runs after 5 s");
    until("the other file runs", || {
        let pid = cluster.node(3).main_pid("other.service");
        (pid.is_some() && pid != old).then_some(())
    });
    until("the process runs the new file", || (cluster.read("mark") == "second\n").then_some(()));
    assert_eq!(cluster.when_active(1, 4).len(), 2);
    assert_eq!(everywhere(cluster), before);
}

fn power_cut(cluster: &mut Cluster) {
    for n in 1..=6 {
        cluster.file(&format!("p{n}.service"), SLEEPS);
        cluster.node(1).fleetctl(&["start", &format!("p{n}.service")]);
    }
    cluster.file("everywhere.service", &sleeps_with("Global=true"));
    cluster.node(1).fleetctl(&["start", "everywhere.service"]);
    cluster.when_active(1, 9);
    for number in 1..=3 {
        cluster.kill_node(number);
    }
    for number in 1..=3 {
        cluster.boot_node(number);
    }
    cluster.when_machines(3);
    let active = cluster.when_active(2, 9);
    assert_eq!(active["everywhere.service"].len(), 3);
    throughout(LEASE, "nothing is in two places", || {
        cluster
            .active(2)
            .is_none_or(|now| now.values().map(std::collections::BTreeSet::len).sum::<usize>() <= 9)
    });
}

fn paused(cluster: &mut Cluster) {
    let file = "[Service]\nExecStart=/bin/sleep 100000\nTimeoutStopSec=200ms\n";
    let fleet = "[X-Fleet]\nMachineMetadata=number=2\nMachineMetadata=number=3\nExclusive=true\n";
    cluster.file("only.service", &format!("{file}\n{fleet}"));
    cluster.node(1).fleetctl(&["start", "only.service"]);
    let old = cluster.when_on(1, "only.service");
    cluster.node(old).pause();
    let new = cluster.when_on_other(1, "only.service", old);
    cluster.node(old).resume();
    let given_up = within(Duration::from_secs(5), || {
        cluster.node(old).main_pid("only.service").is_none().then_some(())
    });
    assert!(given_up.is_some(), "the resumed machine still runs the exclusive unit");
    cluster.when_machines(3);
    throughout(LEASE, "it stays where it is", || {
        cluster.node(old).main_pid("only.service").is_none()
    });
    assert_eq!(cluster.when_on(1, "only.service"), new);
}

fn rebooted(cluster: &mut Cluster) {
    let mark = cluster.path("begins");
    let line = format!("ExecStart=/bin/sh -c 'echo x >>{mark}; exec sleep 100000'");
    let text = sleeps_with("MachineMetadata=number=3");
    cluster.file("once.service", &text.replace("ExecStart=/bin/sleep 100000", &line));
    cluster.node(1).fleetctl(&["start", "once.service"]);
    cluster.when_on(1, "once.service");
    cluster.kill_node(3);
    cluster.boot_node(3);
    cluster.when_machines(3);
    until("it runs again", || cluster.node(3).main_pid("once.service"));
    cluster.when_on(1, "once.service");
    throughout(LEASE, "the unit is started once after the reboot", || {
        cluster.read("begins") == "x\nx\n"
    });
}

fn no_engine(cluster: &mut Cluster) {
    cluster.file("everywhere.service", &sleeps_with("Global=true"));
    cluster.file("one.service", SLEEPS);
    cluster.node(1).fleetctl(&["start", "everywhere.service"]);
    cluster.node(1).fleetctl(&["start", "--no-block", "one.service"]);
    cluster.when_active(2, 3);
    let before = everywhere(cluster);
    throughout(2 * LEASE, "units keep running without an engine", || everywhere(cluster) == before);
    assert_eq!(cluster.when_active(3, 3).len(), 1, "no engine places the new unit");
    cluster.node(3).fleetctl(&["stop", "everywhere.service"]);
    cluster.when_active(1, 0);
}
