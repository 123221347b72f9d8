//! The identity of a machine: independent of its address, its disk and its boots.

use crate::real_machine::{Manner, Node, Running, until};

fn restart_fleetd(node: &Node, fleetd: &mut Running, conf: &str) {
    fleetd.kill();
    node.put("fleet.conf", &format!("{}{conf}", node.conf()));
    *fleetd = node.fleetd();
}

/// Returns the machines as this one lists them, or nothing while it cannot.
fn listed(node: &Node) -> Vec<Vec<String>> {
    let (_, text) =
        node.try_fleetctl(&["list-machines", "--full", "--no-legend", "--fields=machine,ip"]);
    let words = |line: &str| line.split_whitespace().map(str::to_string).collect();
    text.lines().map(words).collect()
}

fn when_alone(node: &Node, id: &str, ip: &str) {
    until(&format!("{id} at {ip} is the only machine"), || {
        (listed(node) == [[id, ip]]).then_some(())
    });
}

#[test]
fn machine_keeps_its_identity_with_another_address_or_disk() {
    // Long enough that on a slow host the lease still exists after the restart of fleetd.
    let conf = "agent_ttl=9s\npublic_ip=192.0.2.1\n".to_string();
    let node = Node::with(Manner { conf, ..Manner::default() });
    let _etcd = node.etcd();
    let _init = node.init();
    let mut fleetd = node.fleetd();
    when_alone(&node, &node.id, "192.0.2.1");
    node.put("here.service", &format!("[Service]\nExecStart={}\n", node.command("here")));
    node.fleetctl(&["start", "here.service"]);
    node.when_running("here.service");
    let before = Some(until("it has started", || node.pid("here")));

    restart_fleetd(&node, &mut fleetd, "public_ip=192.0.2.2\n");
    when_alone(&node, &node.id, "192.0.2.2");
    node.when_running("here.service");
    assert_eq!(node.pid("here"), before, "the same id at another address is the same machine");

    // With a new disk it looks like a second machine until the old lease expires.
    std::fs::remove_dir_all(node.folder.join("own")).unwrap();
    std::fs::create_dir(node.folder.join("own")).unwrap();
    restart_fleetd(&node, &mut fleetd, "");
    until("fleetd waits until its old key expires", || {
        let message = format!("another machine is registered under the id {}", node.id);
        node.log("fleetd").contains(&message).then_some(())
    });
    when_alone(&node, &node.id, "192.0.2.1");
    node.when_running("here.service");
    assert_eq!(node.pid("here"), before, "a new disk stopped the unit");

    // Another id at the same address is another machine; the old one expires with its lease.
    let other = "feedfeedfeedfeedfeedfeedfeedfeed";
    node.put("machine-id", other);
    restart_fleetd(&node, &mut fleetd, "");
    when_alone(&node, other, "192.0.2.1");
    until("the unit is on the machine with the new id", || {
        let (_, why) = node.try_fleetctl(&["why", "here.service"]);
        why.contains(other).then_some(())
    });
    node.when_running("here.service");
    assert!(node.begins("here") <= 2, "the unit was started more than once on the new machine");
}

#[test]
fn fleetd_does_not_start_with_an_invalid_machine_id() {
    let node = Node::new();
    let zeros = "0".repeat(32);
    let cases =
        ["", "\n", zeros.as_str(), "uninitialized\n", "a b", "../../etc", "a/b", "\u{fffd}"];
    for bad in cases {
        node.put("machine-id", bad);
        let mut fleetd = node.fleetd();
        let status = fleetd.child.wait().unwrap();
        assert_eq!(status.code(), Some(1), "{bad:?}");
    }
    std::fs::remove_file(node.folder.join("machine-id")).unwrap();
    assert_eq!(node.fleetd().child.wait().unwrap().code(), Some(1));
    let log = node.log("fleetd");
    assert_eq!(log.matches("is not a machine id").count(), cases.len(), "{log}");
    assert_eq!(log.matches("machine-id: ").count(), cases.len() + 1, "the file is named: {log}");
}
