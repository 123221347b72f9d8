//! Machines that are cut off for increasing times, and a unit that fails everywhere. Exclusive
//! units do not run twice, others only briefly, and units do not move around.

use super::{Case, LEASE, sample, sleeps_with, soak};
use crate::stand::Cluster;
use crate::stand::program::{throughout, until};
use std::time::Duration;

pub(super) const CASES: [Case; 4] = [
    sample("hung_fleetd_does_not_let_an_exclusive_unit_run_twice", hung).with("agent_ttl=12s\n"),
    sample("fleetd_that_hangs_while_cut_off_gives_exclusive_units_up_in_time", hung_apart)
        .with("agent_ttl=12s\n"),
    soak("exclusive_unit_runs_once_however_long_its_machine_is_cut_off", partitions)
        .with("agent_ttl=12s\n"),
    sample("unit_that_fails_everywhere_does_not_move", fails_everywhere),
];

const SECOND: Duration = Duration::from_secs(1);
/// The lease of a machine here: a third of it exceeds the scheduling delay of a busy host.
const TTL: Duration = Duration::from_secs(12);
/// Time for a returning machine to stop its copies of moved units.
const HEALED: Duration = Duration::from_secs(5);

/// An exclusive unit that detects a second copy by a lock, and a unit that is not exclusive.
fn put_witness(cluster: &Cluster) {
    let (lock, twice) = (cluster.path("lock"), cluster.path("twice"));
    let line = format!("exec 9>>{lock}; flock -n 9 || echo twice >>{twice}; exec sleep 100000");
    let text = format!("[Service]\nExecStart=/bin/sh -c '{line}'\nTimeoutStopSec=200ms\n");
    let two = "MachineMetadata=number=2\nMachineMetadata=number=3\n";
    cluster.file("only.service", &format!("{text}\n[X-Fleet]\n{two}Exclusive=true\n"));
    cluster.file("any.service", &sleeps_with(two));
    cluster.node(1).fleetctl(&["start", "only.service", "any.service"]);
}

/// Returns the nodes on which it has a process.
fn alive(cluster: &Cluster, unit: &str) -> Vec<u8> {
    (1..=3).filter(|number| cluster.node(*number).main_pid(unit).is_some()).collect()
}

fn hung(cluster: &mut Cluster) {
    put_witness(cluster);
    let old = cluster.when_on(1, "only.service");
    let before = cluster.node(old).main_pid("fleetd").expect("fleetd has a main process");
    cluster.node(old).signal("fleetd", "STOP");
    throughout(2 * TTL, "the exclusive unit runs at most once", || {
        cluster.read("twice").is_empty()
    });
    until("init has started another fleetd", || {
        cluster.node(old).main_pid("fleetd").filter(|now| *now != before)
    });
    cluster.when_machines(3);
    until("it runs once", || (alive(cluster, "only.service").len() == 1).then_some(()));
    assert_eq!(cluster.read("twice"), "");
}

/// fleetd starts to hang almost a third of the lease after the cut. That is up to two thirds after
/// its last proof. init's usual watchdog would fire up to a third of the lease later, and the slow
/// stop of the unit would end after the lease.
fn hung_apart(cluster: &mut Cluster) {
    for _ in 0..3 {
        put_slow_witness(cluster);
        let old = cluster.when_on(1, "only.service");
        let before = cluster.node(old).main_pid("fleetd").expect("fleetd has a main process");
        cluster.network.cut(old);
        let cut = std::time::Instant::now();
        throughout(TTL / 3 - SECOND / 4, "the exclusive unit runs at most once", || {
            cluster.read("twice").is_empty()
        });
        cluster.node(old).signal("fleetd", "STOP");
        cluster.when_on_other(1, "only.service", old);
        println!("# it runs elsewhere {:.1} s after the cut", cut.elapsed().as_secs_f64());
        assert_eq!(cluster.read("twice"), "", "it ran on two machines");
        assert_eq!(
            cluster.node(old).main_pid("only.service"),
            None,
            "the old machine still runs the exclusive unit"
        );
        assert_ne!(cluster.node(old).main_pid("fleetd"), Some(before), "init has killed it");
        cluster.network.heal(old);
        cluster.when_machines(3);
        cluster.node(1).fleetctl(&["destroy", "only.service"]);
    }
}

/// An exclusive unit whose stop takes most of the allowed time.
fn put_slow_witness(cluster: &Cluster) {
    let (lock, twice) = (cluster.path("lock"), cluster.path("twice"));
    let line = format!(
        "exec 9>>{lock}; flock -n 9 || echo twice >>{twice}; trap \"\" TERM; while :; do sleep 1; done"
    );
    let text = format!("[Service]\nExecStart=/bin/sh -c '{line}'\nTimeoutStopSec=2s\n");
    let two = "MachineMetadata=number=2\nMachineMetadata=number=3\n";
    cluster.file("only.service", &format!("{text}\n[X-Fleet]\n{two}Exclusive=true\n"));
    cluster.node(1).fleetctl(&["start", "only.service"]);
}

fn partitions(cluster: &mut Cluster) {
    put_witness(cluster);
    // Less than a lease, a little more, and ten minutes scaled down by ten.
    for apart in [TTL - SECOND, TTL + SECOND, 5 * TTL] {
        let old = cluster.when_on(1, "only.service");
        cluster.when_on(1, "any.service");
        cluster.network.cut(old);
        throughout(apart, "the exclusive unit runs at most once", || {
            cluster.read("twice").is_empty()
        });
        if apart > 2 * TTL {
            assert_ne!(cluster.when_on_other(1, "only.service", old), old);
        }
        cluster.network.heal(old);
        cluster.when_machines(3);
        let back = std::time::Instant::now();
        until("any.service runs only at its place", || {
            let on = cluster.active(1)?.remove("any.service")?;
            let alive = alive(cluster, "any.service");
            (on.len() == 1 && on.iter().eq(alive.iter())).then_some(())
        });
        println!(
            "# cut off for {apart:?}: one copy again after {:.1} s",
            back.elapsed().as_secs_f64()
        );
        assert!(back.elapsed() < 2 * HEALED, "{:?}", back.elapsed());
        assert_eq!(cluster.read("twice"), "", "apart for {apart:?}");
    }
}

fn fails_everywhere(cluster: &mut Cluster) {
    let tries = cluster.path("tries");
    let text = format!(
        "[Unit]\nStartLimitIntervalSec=0\n\n[Service]\n\
         ExecStart=/bin/sh -c 'hostname >>{tries}; exit 3'\nRestart=always\nRestartSec=50ms\n"
    );
    cluster.file("broken.service", &text);
    cluster.node(1).fleetctl(&["start", "--no-block", "broken.service"]);
    let place = |cluster: &Cluster| {
        let files = cluster.node(1).list("list-unit-files")?;
        let broken = files.iter().find(|unit| unit["name"] == "broken.service")?;
        Some(broken["machineID"].as_str()?.to_string())
    };
    let first = until("it has a machine", || place(cluster));
    let count = |cluster: &Cluster| cluster.read("tries").lines().count();
    until("it fails again and again", || (count(cluster) > 5).then_some(()));
    let (before, since) = (count(cluster), std::time::Instant::now());
    throughout(3 * LEASE, "it stays where it is", || place(cluster).is_none_or(|now| now == first));
    let (tried, by) = (cluster.read("tries"), cluster.number_of(&first));
    let name = format!("n{by}");
    assert!(tried.lines().all(|line| line == name), "it went to others than {name}: {tried}");
    // Its init enforces a minimum delay of 0.1 s, whatever RestartSec is.
    let (more, most) = (count(cluster) - before, since.elapsed().as_millis() / 100);
    assert!(more as u128 <= most + 10, "{more} tries in {:?}", since.elapsed());
    let (code, printed, _) = cluster.node(1).try_fleetctl(&["list-units", "--no-legend"]);
    assert!(code == 0 && printed.contains("broken.service"), "{printed}");
}
