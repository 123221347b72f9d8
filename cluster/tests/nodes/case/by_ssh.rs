//! Commands that reach a machine by ssh: fleet's ssh, status, journal and tunnel tests.

use super::{Case, SLEEPS, sample, sleeps_with, soak};
use crate::stand::Cluster;
use crate::stand::program::until;
use crate::stand::ssh::Ssh;

pub(super) const CASES: [Case; 4] = [
    sample("ssh_status_and_journal_go_to_the_units_machine", to_the_unit)
        .like(&["TestUnitSSHActions", "TestUnitStatus"]),
    soak("a_global_unit_is_shown_and_restarted_on_every_machine", global)
        .like(&["TestScheduleGlobalUnits"]),
    soak("ssh_host_key_is_asked_for_once_and_must_not_change", known_hosts)
        .like(&["TestKnownHostsVerification"]),
    sample("all_commands_work_through_an_ssh_tunnel", tunnel)
        .like(&["TestTunnelScheduleBatchUnits"]),
];

const SAYS: &str = "[Service]\nExecStart=/bin/sh -c 'echo Hello, World!; exec sleep 100000'\n";

fn to_the_unit(cluster: &mut Cluster) {
    let ssh = Ssh::open(cluster);
    cluster.file("hello.service", SAYS);
    cluster.node(1).fleetctl(&["start", "hello.service"]);
    let on = cluster.when_on(1, "hello.service");
    let at = 1 + on % 3;
    let (code, out, err) = ssh.fleetctl(cluster, at, &["ssh", "hello.service", "hostname"]);
    assert_eq!((code, out), (0, format!("n{on}\n")), "{err}");
    let machine = crate::stand::node::id(at);
    let (code, out, err) = ssh.fleetctl(cluster, 1, &["ssh", &machine[..8], "hostname"]);
    assert_eq!((code, out), (0, format!("n{at}\n")), "{err}");
    let (code, _, err) = ssh.fleetctl(cluster, at, &["ssh", "hello.service", "exit", "7"]);
    assert_eq!(code, 7, "the exit code is the other side's: {err}");
    let (code, out, err) = ssh.fleetctl(cluster, at, &["status", "hello.service"]);
    assert!(code == 0 && out.contains("Active: active"), "{code} {out} {err}");
    let (code, out, err) = ssh.fleetctl(cluster, at, &["journal", "hello.service"]);
    assert!(code == 0 && out.contains("Hello, World!"), "{code} {out} {err}");
    assert_eq!(ssh.raised(), "", "fleetctl requested no more rights");
    let (code, out, err) = ssh.fleetctl(cluster, at, &["journal", "--sudo", "hello.service"]);
    assert!(code == 0 && out.contains("Hello, World!"), "{code} {out} {err}");
    assert!(ssh.raised().starts_with("journalctl --unit hello.service "), "{}", ssh.raised());
    // Another unit starts this one. Its machine reports it as active, although it is only loaded.
    let wanted = "[Install]\nWantedBy=goes.service\n\n[X-Fleet]\nMachineOf=goes.service\n";
    cluster.file("goes.service", SLEEPS);
    cluster.file("along.service", &format!("{SLEEPS}\n{wanted}"));
    cluster.node(1).fleetctl(&["load", "goes.service", "along.service"]);
    cluster.node(1).fleetctl(&["start", "goes.service"]);
    cluster.when_on(1, "along.service");
    let states = cluster.unit_files(1);
    let along = states.iter().find(|unit| unit["name"] == "along.service").unwrap();
    assert_eq!(along["desiredState"], "loaded");
    let (code, out, err) = ssh.fleetctl(cluster, at, &["status", "along.service"]);
    assert!(code == 0 && out.contains("Active: active"), "{code} {out} {err}");
    cluster.file("loaded.service", SLEEPS);
    cluster.node(1).fleetctl(&["load", "loaded.service"]);
    let (_, out, err) = ssh.fleetctl(cluster, at, &["status", "loaded.service"]);
    assert!(out.contains("Loaded: loaded") && out.contains("Active: inactive"), "{out} {err}");
}

fn global(cluster: &mut Cluster) {
    let ssh = Ssh::open(cluster);
    for name in ["hello.service", "goodbye.service"] {
        cluster.file(name, SLEEPS);
        cluster.node(1).fleetctl(&["start", name]);
    }
    cluster.file("everywhere.service", &sleeps_with("Global=true"));
    cluster.node(1).fleetctl(&["start", "everywhere.service"]);
    cluster.when_active(1, 5);
    let pids = |cluster: &Cluster| {
        [1, 2, 3].map(|number| cluster.node(number).main_pid("everywhere.service"))
    };
    let before = pids(cluster);
    let (code, out, err) = ssh.fleetctl(cluster, 2, &["status", "everywhere.service"]);
    assert_eq!((code, out.matches("Active: active").count()), (0, 3), "{out} {err}");
    let (code, out, err) = ssh.fleetctl(cluster, 2, &["restart", "everywhere.service"]);
    assert_eq!(code, 0, "{out} {err}");
    let restarted = until("it runs again on each machine", || {
        let now = pids(cluster);
        let moved = now.iter().zip(&before).all(|(now, old)| now.is_some() && now != old);
        moved.then_some(now)
    });
    cluster.when_active(3, 5);
    assert_eq!(pids(cluster), restarted);
}

fn known_hosts(cluster: &mut Cluster) {
    let ssh = Ssh::open(cluster);
    let machine = crate::stand::node::id(2);
    let words = ["ssh", machine.as_str(), "hostname"];
    let known = || std::fs::read_to_string(&ssh.known_hosts).unwrap_or_default();
    std::fs::remove_file(&ssh.known_hosts).unwrap();
    let (code, _, err) = ssh.fleetctl(cluster, 1, &words);
    assert!(code == 255 && err.contains("Host key verification failed"), "{code} {err}");
    assert_eq!(known(), "", "the host key was not accepted");
    let careless = [&["--strict-host-key-checking=false"][..], &words].concat();
    let (code, out, err) = ssh.fleetctl(cluster, 1, &careless);
    assert_eq!((code, out.as_str(), known()), (0, "n2\n", String::new()), "{err}");
    let (code, out, err) = ssh.consenting(cluster, 1, &words);
    assert_eq!((code, out.as_str()), (0, "n2\n"), "{err}");
    assert_eq!(known().lines().count(), 1, "it is kept");
    let (code, out, err) = ssh.fleetctl(cluster, 1, &words);
    assert_eq!((code, out.as_str()), (0, "n2\n"), "and not asked for again: {err}");
    ssh.serve(cluster, 2);
    let (code, _, err) = ssh.consenting(cluster, 1, &words);
    assert!(code == 255 && err.contains("IDENTIFICATION HAS CHANGED"), "{code} {err}");
    std::fs::remove_file(&ssh.known_hosts).unwrap();
    let (code, out, err) = ssh.consenting(cluster, 1, &words);
    assert_eq!((code, out.as_str()), (0, "n2\n"), "{err}");
}

fn tunnel(cluster: &mut Cluster) {
    let ssh = Ssh::open(cluster);
    let through = |cluster: &Cluster, words: &[&str]| {
        let (code, out, err) = ssh.through(cluster, 3, words);
        assert_eq!(code, 0, "{words:?}: {out} {err}");
        out
    };
    cluster.file("hello@.service", SAYS);
    through(cluster, &["submit", "hello@.service"]);
    through(cluster, &["start", "hello@0.service"]);
    let names: Vec<String> = (1..=10).map(|n| format!("hello@{n}.service")).collect();
    let words: Vec<&str> = ["start"].into_iter().chain(names.iter().map(String::as_str)).collect();
    through(cluster, &words);
    cluster.when_active(1, 11);
    assert_eq!(through(cluster, &["list-units", "--no-legend"]).lines().count(), 11);
    // fleetctl also reaches the unit's machine through the tunnel.
    let on = cluster.when_on(1, "hello@1.service");
    let hostname = through(cluster, &["ssh", "hello@1.service", "hostname"]);
    assert_eq!(hostname, format!("n{on}\n"));
    assert!(through(cluster, &["journal", "hello@1.service"]).contains("Hello, World!"));
}
