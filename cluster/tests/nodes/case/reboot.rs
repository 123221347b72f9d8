//! Machines that reboot while the lease of their previous run exists, and copies of their disks. A
//! copy looks like a reboot until the original machine renews its lease.

use super::{Case, sample};
use crate::stand::node::id;
use crate::stand::program::{output, throughout, until};
use crate::stand::{Cluster, network};
use serde_json::Value;
use std::time::Duration;

pub(super) const CASES: [Case; 2] = [
    sample("node_rebooted_within_its_lease_runs_its_units_before_the_lease_ends", rebooted)
        .with("agent_ttl=15s\n"),
    sample("machine_with_a_copied_disk_is_refused_while_the_original_runs", copied)
        .with("agent_ttl=15s\n"),
];

const TTL: Duration = Duration::from_secs(15);

/// A service that records the name of its node at each start.
fn put(cluster: &Cluster, name: &str, fleet: &str) {
    let begins = cluster.path(&format!("begins-{name}"));
    let line = format!("hostname >>{begins}; exec sleep 100000");
    let service = format!("[Service]\nExecStart=/bin/sh -c '{line}'\nTimeoutStopSec=200ms\n");
    cluster.file(&format!("{name}.service"), &format!("{service}\n[X-Fleet]\n{fleet}\n"));
    cluster.node(1).fleetctl(&["start", &format!("{name}.service")]);
}

fn begins(cluster: &Cluster, name: &str) -> String {
    cluster.read(&format!("begins-{name}"))
}

/// Returns the key of a node: its creation revision and its value.
fn key(cluster: &Cluster, number: u8) -> Option<(i64, Value)> {
    let mut words = cluster.network.on(1);
    let endpoint = format!("--endpoints=http://{}:2379", network::address(1));
    let key = format!("/_coreos.com/fleet/v3/machine/{}", id(number));
    words.extend(["env", "ETCDCTL_API=3", "etcdctl"].map(str::to_string));
    words.extend([endpoint, "get".to_string(), key, "--print-value-only".to_string()]);
    let value = serde_json::from_slice(&output(&words).stdout).ok()?;
    words.pop();
    words.extend(["-w", "json"].map(str::to_string));
    let answer: Value = serde_json::from_slice(&output(&words).stdout).ok()?;
    Some((answer["kvs"][0]["create_revision"].as_i64()?, value))
}

fn rebooted(cluster: &mut Cluster) {
    put(cluster, "filler", "MachineMetadata=number=2");
    put(cluster, "free", "MachineMetadata=number=2\nMachineMetadata=number=3");
    put(cluster, "pinned", "MachineMetadata=number=3");
    put(cluster, "only", "MachineMetadata=number=3\nExclusive=true");
    let there = cluster.when_active(1, 4);
    assert!(there["free.service"].contains(&3), "{there:?}");
    let (made, before) = until("its key", || key(cluster, 3));
    cluster.kill_node(3);
    cluster.boot_node(3);
    until("its units have started again", || {
        let again = |name: &&str| begins(cluster, name) == "n3\nn3\n";
        ["free", "pinned"].iter().all(again).then_some(())
    });
    let (still, after) = until("its key", || key(cluster, 3));
    assert_eq!(still, made, "the key was there all the time");
    assert_eq!(after["disk"], before["disk"]);
    assert_ne!(after["boot"], before["boot"]);
    // Its exclusive unit waits until the old claim expires, and starts here again.
    until("all is as it was", || (cluster.active(1)? == there).then_some(()));
    assert_eq!(begins(cluster, "only"), "n3\nn3\n");
    for (name, expected) in [("filler", "n2\n"), ("free", "n3\nn3\n"), ("pinned", "n3\nn3\n")] {
        assert_eq!(begins(cluster, name), expected, "{name}");
    }
}

fn copied(cluster: &mut Cluster) {
    put(cluster, "hello", &format!("MachineID={}", id(1)));
    assert_eq!(cluster.when_on(2, "hello.service"), 1);
    let before = until("its key", || key(cluster, 1));
    cluster.node(3).stop_fleetd();
    let disk = |number: u8| cluster.node(number).at("state/disk");
    let own = std::fs::read_to_string(disk(3)).unwrap();
    std::fs::copy(disk(1), disk(3)).unwrap();
    cluster.node(3).put("machine-id", &id(1));
    cluster.node(3).start_fleetd();
    until("it is refused, and why", || {
        cluster.node(3).log("fleetd").contains("runs, or ran, from this disk").then_some(())
    });
    throughout(TTL, "the first one has its key", || {
        key(cluster, 1).is_none_or(|now| now == before)
    });
    assert_eq!(cluster.when_on(2, "hello.service"), 1);
    assert_eq!(cluster.node(3).main_pid("hello.service"), None);
    assert_eq!(begins(cluster, "hello"), "n1\n");
    cluster.node(3).stop_fleetd();
    cluster.node(3).put("state/disk", &own);
    cluster.node(3).put("machine-id", &id(3));
    cluster.node(3).start_fleetd();
    cluster.when_machines(3);
}
