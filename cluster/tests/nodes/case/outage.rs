//! Parts that do not answer: a node without the others, an engine that dies, fleetd killed.

use super::{Case, LEASE, SLEEPS, sample, sleeps_with, soak};
use crate::stand::Cluster;
use crate::stand::program::{throughout, until};
use std::time::Duration;

pub(super) const CASES: [Case; 10] = [
    sample("a_node_without_etcd_keeps_all_that_runs", connectivity)
        .like(&["TestSingleNodeConnectivityLoss"]),
    sample("another_engine_leads_when_the_leader_is_killed", leader),
    sample("an_exclusive_unit_is_never_on_two_machines", exclusive),
    sample("a_new_configuration_is_taken_while_it_runs", reconfigured)
        .like(&["TestReconfigureServer"]),
    soak("a_unit_that_can_not_run_is_not_waited_for", hopeless),
    sample("a_leader_that_slept_writes_nothing_any_more", sleeper),
    sample("units_run_on_while_etcd_has_no_quorum", quorum),
    soak("a_node_without_etcd_shuts_down", shut_down_alone).like(&["TestShutdownVsMonitor"]),
    sample("a_killed_fleetd_finds_its_units_again", fleetd_killed),
    sample("a_fleetd_that_is_not_to_leave_leaves_its_units_running", stays)
        .with("leave_on_stop=false\n"),
];

fn connectivity(cluster: &mut Cluster) {
    let here = "MachineMetadata=number=3";
    cluster.file("loaded.service", &sleeps_with(here));
    cluster.file("launched.service", &sleeps_with(here));
    cluster.file("everywhere.service", &sleeps_with("Global=true"));
    cluster.node(1).fleetctl(&["load", "loaded.service"]);
    cluster.node(1).fleetctl(&["start", "launched.service", "everywhere.service"]);
    cluster.when_active(1, 4);
    let pids = |cluster: &Cluster| {
        ["launched.service", "everywhere.service", "loaded.service"]
            .map(|unit| cluster.node(3).main_pid(unit))
    };
    let before = pids(cluster);
    assert!(matches!(before, [Some(_), Some(_), None]), "{before:?}");
    cluster.network.cut(3);
    until("it is out of the cluster", || {
        (cluster.node(1).list("list-machines")?.len() == 2).then_some(())
    });
    throughout(LEASE, "all that ran runs", || pids(cluster) == before);
    let (code, _, said) = cluster.node(3).try_fleetctl(&["list-units"]);
    assert!(code != 0 && said.contains("etcd"), "{said}");
    cluster.network.heal(3);
    until("it is back", || (cluster.node(3).list("list-machines")?.len() == 3).then_some(()));
    cluster.when_active(3, 4);
    // What had no place meanwhile is put here again, as it runs.
    throughout(LEASE, "all that ran runs on", || pids(cluster) == before);
}

/// The node whose engine leads, by the word of node `by`.
fn leads(cluster: &Cluster, by: u8) -> Option<u8> {
    let line = cluster.node(by).own_words();
    Some(cluster.number_of(line["leader"].as_str()?))
}

fn leader(cluster: &mut Cluster) {
    let old = until("an engine leads", || leads(cluster, 1));
    let other = 1 + old % 3;
    cluster.kill_node(old);
    // The engine's lease is five intervals of two seconds; some for the election, and for etcd's.
    let new = until("another leads", || leads(cluster, other).filter(|new| *new != old));
    cluster.file("hello.service", SLEEPS);
    cluster.node(other).fleetctl(&["start", "hello.service"]);
    assert_ne!(cluster.when_on(other, "hello.service"), old);
    cluster.boot_node(old);
    cluster.when_machines(3);
    assert_eq!(leads(cluster, other), Some(new), "nobody takes the lead from who has it");
}

fn exclusive(cluster: &mut Cluster) {
    let (lock, twice) = (cluster.path("lock"), cluster.path("twice"));
    let line = format!("exec 9>>{lock}; flock -n 9 || echo twice >>{twice}; exec sleep 100000");
    let file = format!("[Service]\nExecStart=/bin/sh -c '{line}'\nTimeoutStopSec=200ms\n");
    let fleet = "[X-Fleet]\nMachineMetadata=number=2\nMachineMetadata=number=3\n";
    cluster.file("only.service", &format!("{file}\n{fleet}Exclusive=true\n"));
    cluster.node(1).fleetctl(&["start", "only.service"]);
    let old = cluster.when_on(1, "only.service");
    let many = format!("{SLEEPS}\n[X-Fleet]\nMachineOf=only.service\n");
    cluster.file("many.service", &many);
    cluster.node(1).fleetctl(&["start", "many.service"]);
    let pid = cluster.node(old).main_pid("many.service");
    // The same of one that has to be stopped before it, by the order of all others.
    let stays = "ExecStart=/bin/sh -c 'trap \"\" TERM; while :; do sleep 1; done'";
    let held = format!("[Unit]\nRequires=only.service\nAfter=only.service\n[Service]\n{stays}\n");
    let fleet = "[X-Fleet]\nMachineOf=only.service\nExclusive=true\n";
    cluster.file("held.service", &format!("{held}TimeoutStopSec=200ms\n{fleet}"));
    cluster.node(1).fleetctl(&["start", "held.service"]);
    cluster.network.cut(old);
    cluster.when_on_other(1, "only.service", old);
    assert_eq!(cluster.node(old).main_pid("only.service"), None, "given up before");
    let events = cluster.node(old).initctl(&["events"]);
    let told = |unit: &str, what: &str| {
        let is_it = |line: &str| line.contains(unit) && line.contains(what);
        events.lines().position(is_it).unwrap_or_else(|| panic!("{unit} {what}: {events}"))
    };
    assert!(
        told("only.service", "stopping -> ") < told("held.service", "stopping -> "),
        "who depends on it holds it up: {events}"
    );
    assert_eq!(cluster.node(old).main_pid("many.service"), pid, "what is not exclusive runs on");
    cluster.network.heal(old);
    cluster.when_machines(3);
    assert_ne!(cluster.when_on(1, "only.service"), old);
    assert_eq!(cluster.read("twice"), "");
    cluster.node(1).fleetctl(&["destroy", "held.service"]);
    cluster.node(1).fleetctl(&["stop", "only.service"]);
    until("it is stopped", || (cluster.active(1)?.len() == 1).then_some(()));
    cluster.file("slow.service", &sleeps_with("Exclusive=true"));
    let (code, _, said) = cluster.node(1).try_fleetctl(&["start", "slow.service"]);
    assert!(code == 1 && said.contains("its stop may take 90s"), "{said}");
}

fn reconfigured(cluster: &mut Cluster) {
    cluster.file("hello.service", &sleeps_with("MachineMetadata=colour=red"));
    let (code, _, said) = cluster.node(1).try_fleetctl(&["start", "hello.service"]);
    assert!(code == 1 && said.contains("its metadata has no colour=red"), "{said}");
    let conf = std::fs::read_to_string(cluster.node(2).at("fleet.conf")).unwrap();
    let fresh = conf.replace("metadata=", "metadata=colour=red,");
    cluster.node(2).put("fleet.conf", &fresh);
    cluster.node(2).signal("fleetd", "HUP");
    assert_eq!(cluster.when_on(2, "hello.service"), 2);
    assert!(cluster.node(2).log("fleetd").contains("Reloading configuration"));
    cluster.node(2).put("fleet.conf", "agent_ttl=never\n");
    cluster.node(2).signal("fleetd", "HUP");
    until("what is wrong is told", || {
        cluster.node(2).log("fleetd").contains("fleet.conf:1: agent_ttl").then_some(())
    });
    assert_eq!(cluster.when_on(2, "hello.service"), 2, "a bad one changes nothing");
    all_keys(cluster, &fresh);
    cluster.node(2).put("fleet.conf", &conf);
    cluster.node(2).signal("fleetd", "HUP");
    until("the unit has no machine", || cluster.active(2)?.is_empty().then_some(()));
}

/// A key that is not taken in place: fleetd goes on as a new image, and nothing else is new.
fn all_keys(cluster: &Cluster, conf: &str) {
    let node = cluster.node(2);
    let pids = || [node.main_pid("fleetd"), node.main_pid("hello.service")];
    let before = pids();
    let ready = || node.log("fleetd").matches(" ready").count();
    let was_ready = ready();
    let wrong = format!(
        "{conf}token_limit=1\ntls_cert_file=/nowhere\ntls_key_file=/nowhere\ntls_client_ca_file=/nowhere\nlisten=tcp://127.0.0.1:4711\n"
    );
    node.put("fleet.conf", &wrong);
    node.signal("fleetd", "HUP");
    until("what would fail is told", || {
        node.log("fleetd").contains("all else stays as it was: /nowhere").then_some(())
    });
    assert_eq!((pids(), ready()), (before, was_ready));
    node.put("fleet.conf", &format!("{conf}token_limit=1\n"));
    node.signal("fleetd", "HUP");
    until("it is ready anew", || (ready() > was_ready).then_some(()));
    assert_eq!(cluster.when_on(2, "hello.service"), 2);
    assert_eq!(pids(), before, "one process, and its unit untouched");
    cluster.file("other.service", SLEEPS);
    cluster.node(1).fleetctl(&["submit", "other.service"]);
    // Pages of one, told by the socket that was there all the time.
    let (status, _, page) = super::answers::ask(node, "GET", "units", "");
    assert!(status == 200 && page.contains("nextPageToken"), "{page}");
    node.fleetctl(&["destroy", "other.service"]);
}

fn hopeless(cluster: &mut Cluster) {
    cluster.file("false.service", "[Service]\nExecStart=/bin/false\nRestart=no\n");
    let (code, _, said) = cluster.node(1).try_fleetctl(&["start", "false.service"]);
    assert!(code == 1 && said.contains("unit false.service has failed"), "{said}");
    cluster.file("garbage.service", "[Service]\nType=oneshot\n");
    let (code, _, said) = cluster.node(1).try_fleetctl(&["start", "garbage.service"]);
    assert!(code == 1 && said.contains("unit garbage.service has failed"), "{said}");
    cluster.file("unheard.service", &sleeps_with("MachineMetadata=number=2"));
    cluster.node(2).signal_init("STOP");
    let (code, _, said) =
        cluster.node(1).try_fleetctl(&["start", "--block-attempts=20", "unheard.service"]);
    cluster.node(2).signal_init("CONT");
    assert!(code == 1 && said.contains("does not answer"), "{said}");
    assert_eq!(cluster.when_on(1, "unheard.service"), 2);
}

fn sleeper(cluster: &mut Cluster) {
    let old = until("an engine leads", || leads(cluster, 1));
    let other = 1 + old % 3;
    cluster.node(old).signal("fleetd", "STOP");
    until("another leads", || leads(cluster, other).filter(|new| *new != old));
    for n in 1..=6 {
        cluster.file(&format!("s{n}.service"), SLEEPS);
        cluster.node(other).fleetctl(&["start", &format!("s{n}.service")]);
    }
    let before = cluster.when_active(other, 6);
    cluster.node(old).signal("fleetd", "CONT");
    cluster.when_machines(3);
    throughout(LEASE, "no unit moves", || cluster.active(other).is_none_or(|now| now == before));
}

fn quorum(cluster: &mut Cluster) {
    let text = format!("{SLEEPS}Restart=always\nRestartSec=100ms\n\n[X-Fleet]\nGlobal=true\n");
    cluster.file("hello.service", &text);
    cluster.node(1).fleetctl(&["start", "hello.service"]);
    cluster.when_active(1, 3);
    let pids = |cluster: &Cluster| [1, 2, 3].map(|n| cluster.node(n).main_pid("hello.service"));
    let before = pids(cluster);
    for number in [2, 3] {
        cluster.node(number).signal("etcd", "STOP");
    }
    until("it is told that etcd is away", || {
        let (code, _, said) = cluster.node(1).try_fleetctl(&["list-units"]);
        (code != 0 && said.contains("etcd")).then_some(())
    });
    // What crashes meanwhile its own init starts again, on whichever side it is.
    let before = [1, 2, 3].map(|number| {
        let node = cluster.node(number);
        node.signal("hello.service", "KILL");
        until("its init starts it again", || {
            node.main_pid("hello.service")
                .filter(|pid| Some(*pid) != before[usize::from(number) - 1])
        })
    });
    let before = before.map(Some);
    throughout(without_quorum(), "all that ran runs", || pids(cluster) == before);
    for number in [2, 3] {
        cluster.node(number).signal("etcd", "CONT");
    }
    let healed = std::time::Instant::now();
    cluster.when_machines(3);
    cluster.when_active(1, 3);
    println!("# whole {:.1} s after the quorum was back", healed.elapsed().as_secs_f64());
    throughout(LEASE, "all that ran runs", || pids(cluster) == before);
}

/// A hundredth of ten minutes, but three leases at least; at leisure a tenth.
fn without_quorum() -> Duration {
    if std::env::var_os("GROUNDSTATE_ALL").is_some() { 20 * LEASE } else { 3 * LEASE }
}

fn shut_down_alone(cluster: &mut Cluster) {
    cluster.network.cut(3);
    until("it is out of the cluster", || {
        (cluster.node(1).list("list-machines")?.len() == 2).then_some(())
    });
    cluster.node_mut(3).shut_down();
}

fn fleetd_killed(cluster: &mut Cluster) {
    cluster.file("hello.service", &sleeps_with("MachineMetadata=number=2"));
    cluster.node(1).fleetctl(&["start", "hello.service"]);
    let pid = cluster.node(2).main_pid("hello.service");
    let fleetd = cluster.node(2).main_pid("fleetd");
    cluster.node(2).signal("fleetd", "KILL");
    until("a new fleetd runs", || {
        cluster.node(2).main_pid("fleetd").filter(|new| Some(*new) != fleetd)
    });
    cluster.when_machines(3);
    assert_eq!(cluster.when_on(2, "hello.service"), 2);
    assert_eq!(cluster.node(2).main_pid("hello.service"), pid);
    let fleetd = cluster.node(2).main_pid("fleetd");
    cluster.node(2).initctl(&["restart", "fleetd"]);
    until("a new fleetd runs", || {
        cluster.node(2).main_pid("fleetd").filter(|new| Some(*new) != fleetd)
    });
    cluster.when_machines(3);
    assert_eq!(cluster.when_on(2, "hello.service"), 2);
    assert_eq!(cluster.node(2).main_pid("hello.service"), pid, "a restart of fleetd is no leave");
}

fn stays(cluster: &mut Cluster) {
    cluster.file("everywhere.service", &sleeps_with("Global=true"));
    cluster.node(1).fleetctl(&["start", "everywhere.service"]);
    cluster.when_active(1, 3);
    let pid = |cluster: &Cluster| cluster.node(3).main_pid("everywhere.service");
    let before = pid(cluster);
    assert!(before.is_some());
    cluster.node(3).stop_fleetd();
    until("its lease is over", || {
        (cluster.node(1).list("list-machines")?.len() == 2).then_some(())
    });
    throughout(LEASE, "its unit runs on", || pid(cluster) == before);
    cluster.node(3).start_fleetd();
    cluster.when_machines(3);
    cluster.when_active(1, 3);
    assert_eq!(pid(cluster), before, "and is taken over as it runs");
}
