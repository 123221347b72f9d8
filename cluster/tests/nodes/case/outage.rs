//! Unavailable parts: an isolated node, a killed engine, a killed fleetd.

use super::answers::{ask, retry_after};
use super::{Case, LEASE, SLEEPS, sample, sleeps_with, soak};
use crate::stand::Cluster;
use crate::stand::program::{throughout, until};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(super) const CASES: [Case; 11] = [
    sample("node_cut_off_from_etcd_keeps_its_units_running", connectivity)
        .like(&["TestSingleNodeConnectivityLoss"]),
    sample("another_engine_leads_when_the_leader_is_killed", leader),
    soak("units_of_a_leading_machine_move_within_its_ttl_and_an_election_of_etcd", failover)
        .with("agent_ttl=5s\n"),
    // Long enough to give up in time on a busy host.
    sample("an_exclusive_unit_is_never_on_two_machines", exclusive).with("agent_ttl=9s\n"),
    sample("running_fleetd_applies_a_new_configuration", reconfigured)
        .like(&["TestReconfigureServer"]),
    soak("unit_that_cannot_run_is_not_waited_for", hopeless),
    sample("paused_leader_writes_nothing_after_it_resumes", sleeper),
    sample("units_run_on_while_etcd_has_no_quorum", quorum),
    soak("a_node_without_etcd_shuts_down", shut_down_alone).like(&["TestShutdownVsMonitor"]),
    sample("restarted_fleetd_after_a_kill_finds_its_units", fleetd_killed),
    sample("fleetd_with_leave_on_stop_false_leaves_its_units_running", stays)
        .with("leave_on_stop=false\n"),
];

/// A unit of one machine and a global one in each desired state.
fn put_in_each_state(cluster: &Cluster) {
    cluster.file("single@.service", &sleeps_with("MachineMetadata=number=3"));
    cluster.file("global@.service", &sleeps_with("Global=true"));
    for (word, state) in [("submit", "inactive"), ("load", "loaded"), ("start", "launched")] {
        let [single, global] = ["single", "global"].map(|kind| format!("{kind}@{state}.service"));
        cluster.node(1).fleetctl(&[word, &single, &global]);
    }
}

fn connectivity(cluster: &mut Cluster) {
    put_in_each_state(cluster);
    cluster.when_active(1, 4);
    // The contents of its init, and the running units with their main pids.
    let there = |cluster: &Cluster| {
        let status = cluster.node(3).status()?;
        let own = status["units"].as_array()?.iter().filter(|unit| !unit["source"].is_null());
        let line = |unit: &Value| (unit["unit"].to_string(), unit["main-pid"].as_i64());
        Some(own.map(line).collect::<BTreeMap<_, _>>())
    };
    let before = until("two are loaded there, and two run", || {
        let own = there(cluster)?;
        (own.len() == 4 && own.values().flatten().count() == 2).then_some(own)
    });
    assert!(!before.keys().any(|unit| unit.contains("inactive")), "{before:?}");
    cluster.network.cut(3);
    until("it is out of the cluster", || {
        (cluster.node(1).list("list-machines")?.len() == 2).then_some(())
    });
    let same = |cluster: &Cluster| there(cluster).is_some_and(|now| now == before);
    throughout(LEASE, "all is as it was", || same(cluster));
    let (code, _, printed) = cluster.node(3).try_fleetctl(&["list-units"]);
    assert!(code != 0 && printed.contains("etcd"), "{printed}");
    cluster.network.heal(3);
    until("it is back", || (cluster.node(3).list("list-machines")?.len() == 3).then_some(()));
    cluster.when_active(3, 4);
    // A unit that lost its place is placed here again, without a restart.
    throughout(LEASE, "all is as it was", || same(cluster));
    let events = cluster.node(3).initctl(&["events"]);
    let count = |what: &str| {
        let of_ours = |line: &&str| line.contains("single@") || line.contains("global@");
        events.lines().filter(of_ours).filter(|line| line.contains(what)).count()
    };
    assert!(count("starting") > 0, "{events}");
    assert_eq!(count("stopping"), 0, "{events}");
}

/// Returns the node whose engine leads, by node `by`.
fn leads(cluster: &Cluster, by: u8) -> Option<u8> {
    let line = cluster.node(by).dumped_state();
    Some(cluster.number_of(line["leader"].as_str()?))
}

fn leader(cluster: &mut Cluster) {
    let old = until("an engine leads", || leads(cluster, 1));
    let other = 1 + old % 3;
    cluster.kill_node(old);
    // The engine's lease is five intervals of two seconds, plus elections of the cluster and etcd.
    let new = until("another leads", || leads(cluster, other).filter(|new| *new != old));
    cluster.file("hello.service", SLEEPS);
    cluster.node(other).fleetctl(&["start", "hello.service"]);
    assert_ne!(cluster.when_on(other, "hello.service"), old);
    cluster.boot_node(old);
    cluster.when_machines(3);
    let still = until("a node reports the leader", || leads(cluster, other));
    assert_eq!(still, new, "no machine takes the lead from the leader");
}

/// The election timeout of etcd in the stand.
const ELECTION: Duration = Duration::from_secs(2);

/// Kills the machine whose engine leads, and the machine of etcd's leader: the figures of the
/// README. A new etcd leader renews each lease, extended by an election timeout.
fn failover(cluster: &mut Cluster) {
    cluster.file("spread@.service", SLEEPS);
    cluster.node(1).fleetctl(&["submit", "spread@.service"]);
    let units = ["spread@1.service", "spread@2.service", "spread@3.service"];
    for turn in 0..6 {
        cluster.node(1).fleetctl(&[&["start"][..], &units].concat());
        cluster.when_active(1, 3);
        let led = until("an engine leads", || leads(cluster, 1));
        let etcd = until("a member of etcd leads", || cluster.leads_etcd());
        let old = if turn % 2 == 0 { led } else { etcd };
        let began = std::time::Instant::now();
        cluster.kill_node(old);
        let other = 1 + old % 3;
        let elsewhere = |on: &BTreeSet<u8>| on.len() == 1 && !on.contains(&old);
        until("all units run elsewhere", || {
            let active = cluster.active(other)?;
            (active.len() == 3 && active.values().all(elsewhere)).then_some(())
        });
        let took = began.elapsed();
        let beside = if old == etcd { " with etcd's leader" } else { "" };
        println!("# n{old}{beside} (n{led} led): {:.1} s", took.as_secs_f64());
        let election = if old == etcd { 4 * ELECTION } else { Duration::ZERO };
        assert!(took < Duration::from_secs(5 + 2) + election, "{took:?}");
        cluster.boot_node(old);
        cluster.when_machines(3);
        cluster.node(1).fleetctl(&[&["destroy"][..], &units].concat());
    }
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
    // By ordinary ordering this unit would stop before only.service. It must not delay that stop.
    let stays = "ExecStart=/bin/sh -c 'trap \"\" TERM; while :; do sleep 1; done'";
    let held = format!("[Unit]\nRequires=only.service\nAfter=only.service\n[Service]\n{stays}\n");
    let fleet = "[X-Fleet]\nMachineOf=only.service\nExclusive=true\n";
    cluster.file("held.service", &format!("{held}TimeoutStopSec=200ms\n{fleet}"));
    cluster.node(1).fleetctl(&["start", "held.service"]);
    cluster.network.cut(old);
    cluster.when_on_other(1, "only.service", old);
    assert_eq!(
        cluster.node(old).main_pid("only.service"),
        None,
        "the old machine still runs the exclusive unit"
    );
    let events = cluster.node(old).initctl(&["events"]);
    let first_line = |unit: &str, what: &str| {
        let is_it = |line: &str| line.contains(unit) && line.contains(what);
        events.lines().position(is_it).unwrap_or_else(|| panic!("{unit} {what}: {events}"))
    };
    assert!(
        first_line("only.service", "stopping -> ") < first_line("held.service", "stopping -> "),
        "a dependent unit delayed the stop: {events}"
    );
    assert_eq!(
        cluster.node(old).main_pid("many.service"),
        pid,
        "a unit that is not exclusive was stopped"
    );
    cluster.network.heal(old);
    cluster.when_machines(3);
    assert_ne!(cluster.when_on(1, "only.service"), old);
    assert_eq!(cluster.read("twice"), "");
    cluster.node(1).fleetctl(&["destroy", "held.service"]);
    cluster.node(1).fleetctl(&["stop", "only.service"]);
    until("it is stopped", || (cluster.active(1)?.len() == 1).then_some(()));
    cluster.file("slow.service", &sleeps_with("Exclusive=true"));
    let (code, _, printed) = cluster.node(1).try_fleetctl(&["start", "slow.service"]);
    assert!(code == 1 && printed.contains("its stop may take 90s"), "{printed}");
}

fn reconfigured(cluster: &mut Cluster) {
    cluster.file("hello.service", &sleeps_with("MachineMetadata=colour=red"));
    let (code, _, printed) = cluster.node(1).try_fleetctl(&["start", "hello.service"]);
    assert!(code == 1 && printed.contains("its metadata has no colour=red"), "{printed}");
    let conf = std::fs::read_to_string(cluster.node(2).at("fleet.conf")).unwrap();
    let fresh = conf.replace("metadata=", "metadata=colour=red,");
    cluster.node(2).put("fleet.conf", &fresh);
    cluster.node(2).signal("fleetd", "HUP");
    assert_eq!(cluster.when_on(2, "hello.service"), 2);
    assert!(cluster.node(2).log("fleetd").contains("Reloading configuration"));
    cluster.node(2).put("fleet.conf", "agent_ttl=never\n");
    cluster.node(2).signal("fleetd", "HUP");
    until("fleetd logs the invalid key", || {
        cluster.node(2).log("fleetd").contains("fleet.conf:1: agent_ttl").then_some(())
    });
    assert_eq!(cluster.when_on(2, "hello.service"), 2, "an invalid configuration moved the unit");
    all_keys(cluster, &fresh);
    cluster.node(2).put("fleet.conf", &conf);
    cluster.node(2).signal("fleetd", "HUP");
    until("the unit has no machine", || cluster.active(2)?.is_empty().then_some(()));
}

/// A key that requires a re-exec: fleetd re-executes itself, and nothing else changes.
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
    until("fleetd logs the missing file", || {
        node.log("fleetd").contains("keeping the old ones: /nowhere").then_some(())
    });
    assert_eq!((pids(), ready()), (before, was_ready));
    node.put("fleet.conf", &format!("{conf}token_limit=1\n"));
    node.signal("fleetd", "HUP");
    until("it is ready again", || (ready() > was_ready).then_some(()));
    assert_eq!(cluster.when_on(2, "hello.service"), 2);
    assert_eq!(pids(), before, "fleetd or its unit has another process");
    cluster.file("other.service", SLEEPS);
    node.fleetctl(&["submit", "other.service"]);
    // The API serves pages of one item over the socket that stayed open.
    let (status, _, page) = super::answers::ask(node, "GET", "units", "");
    assert!(status == 200 && page.contains("nextPageToken"), "{page}");
    node.fleetctl(&["destroy", "other.service"]);
}

fn hopeless(cluster: &mut Cluster) {
    // A unit that is never active; for any other the observed state depends on timing.
    cluster.file("false.service", "[Service]\nType=oneshot\nExecStart=/bin/false\n");
    let refused = |cluster: &Cluster, words: &[&str], why: &str| {
        let (code, out, err) = cluster.node(1).try_fleetctl(words);
        assert!(code == 1 && err.contains(why), "{words:?}: exit {code}\n{out}---\n{err}");
    };
    refused(cluster, &["start", "false.service"], "unit false.service has failed");
    cluster.file("garbage.service", "[Service]\nType=oneshot\n");
    refused(cluster, &["start", "garbage.service"], "unit garbage.service has failed");
    cluster.file("unheard.service", &sleeps_with("MachineMetadata=number=2"));
    cluster.node(2).signal_init("STOP");
    refused(cluster, &["start", "--block-attempts=20", "unheard.service"], "does not answer");
    cluster.node(2).signal_init("CONT");
    assert_eq!(cluster.when_on(1, "unheard.service"), 2);
}

fn sleeper(cluster: &mut Cluster) {
    let old = until("an engine leads", || leads(cluster, 1));
    let other = 1 + old % 3;
    let slept = cluster.node(old).main_pid("fleetd");
    cluster.node(old).signal("fleetd", "STOP");
    // Its init may kill it by the watchdog, and the next fleetd there may lead.
    let is_new = |new: &u8| {
        *new != old || cluster.node(old).main_pid("fleetd").is_some_and(|pid| Some(pid) != slept)
    };
    until("another leads", || leads(cluster, other).filter(is_new));
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
    until("fleetctl reports that etcd is away", || {
        let (code, _, printed) = cluster.node(1).try_fleetctl(&["list-units"]);
        (code != 0 && printed.contains("etcd")).then_some(())
    });
    // Each init restarts a crashing unit itself, whether the etcd of its machine is paused or not.
    let before = [1, 2, 3].map(|number| {
        let node = cluster.node(number);
        node.signal("hello.service", "KILL");
        until("its init starts it again", || {
            node.main_pid("hello.service")
                .filter(|pid| Some(*pid) != before[usize::from(number) - 1])
        })
    });
    let before = before.map(Some);
    let says_when_to_come_again = |number: u8| {
        let (status, head, _) = ask(cluster.node(number), "GET", "state", "");
        status == 503 && retry_after(&head).is_some_and(|after| after <= 5)
    };
    until("all machines answer 503 with Retry-After", || {
        (1..=3).all(says_when_to_come_again).then_some(())
    });
    throughout(without_quorum(), "all units keep running, and no machine answers", || {
        pids(cluster) == before && (1..=3).all(says_when_to_come_again)
    });
    let events = cluster.events("hello.service");
    for number in [2, 3] {
        cluster.node(number).signal("etcd", "CONT");
    }
    let healed = std::time::Instant::now();
    cluster.when_machines(3);
    cluster.when_active(1, 3);
    cluster.file("after.service", SLEEPS);
    cluster.node(2).fleetctl(&["start", "after.service"]);
    cluster.when_active(3, 4);
    let whole = healed.elapsed();
    println!("# all units active {:.1} s after the quorum returned", whole.as_secs_f64());
    assert!(whole < CONVERGED, "{whole:?}");
    throughout(LEASE, "all that ran runs", || pids(cluster) == before);
    assert_eq!(cluster.events("hello.service"), events, "no unit has another state");
}

/// Time until everything matches the desired states after etcd recovers.
const CONVERGED: Duration = Duration::from_secs(60);

/// Ten minutes, scaled down by a hundred (by ten in long runs), but at least three leases.
fn without_quorum() -> Duration {
    if std::env::var_os("GROUNDSTATE_ALL").is_some() { 20 * LEASE } else { 3 * LEASE }
}

fn shut_down_alone(cluster: &mut Cluster) {
    cluster.network.cut(3);
    until("it is out of the cluster", || {
        (cluster.node(1).list("list-machines")?.len() == 2).then_some(())
    });
    // Stops fleetd first, then the whole machine.
    cluster.node(3).stop_fleetd();
    assert_eq!(cluster.node(3).result_of_fleetd(), "success\n");
    cluster.node(3).start_fleetd();
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
    assert_eq!(
        cluster.node(2).main_pid("hello.service"),
        pid,
        "a restart of fleetd restarted the unit"
    );
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
    assert_eq!(pid(cluster), before, "the new fleetd restarted the unit");
}
