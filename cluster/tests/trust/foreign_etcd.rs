//! A machine with units whose etcd shows something else than its cluster. No unit stops, also after
//! a restart of fleetd, until an operator accepts the contents.

use crate::real_machine::{Manner, Node, Running, until};

/// Restarts fleetd; `conf` has extra lines.
fn restart_fleetd(node: &Node, fleetd: &mut Running, conf: &str) {
    fleetd.kill();
    node.put("fleet.conf", &format!("{}{conf}", node.conf()));
    *fleetd = node.fleetd();
}

fn holds(node: &Node, fleetd: &mut Running, conf: &str, why: &str) {
    let count = || node.log("fleetd").matches(why).count();
    let before = count();
    restart_fleetd(node, fleetd, conf);
    until(&format!("it says: {why}"), || (count() > before).then_some(()));
}

#[test]
fn etcd_with_foreign_contents_stops_nothing_until_confirmed() {
    let node = Node::with(Manner { conf: "verbosity=1\n".to_string(), ..Manner::default() });
    let _etcd = node.etcd();
    let _init = node.init();
    let mut fleetd = node.fleetd();
    node.when_there();
    let names = ["one", "two", "three", "four"];
    for name in names {
        let file = format!("{name}.service");
        node.put(&file, &format!("[Service]\nExecStart={}\n", node.command(name)));
        node.fleetctl(&["start", &file]);
        node.when_running(&file);
    }
    let pids = || names.map(|name| node.pid(name));
    let before =
        until("they have started", || Some(pids()).filter(|all| all.iter().all(Option::is_some)));

    let no_cluster = "etcd shows no cluster instead of cluster";
    holds(&node, &mut fleetd, "etcd_key_prefix=/another/\n", no_cluster);
    assert_eq!(pids(), before, "units under a wrong prefix");
    restart_fleetd(&node, &mut fleetd, "");
    node.when_running("one.service");
    assert_eq!(pids(), before, "units after the prefix was corrected");

    node.etcdctl(&["del", "--prefix", "/_coreos.com/fleet/"]);
    until("fleetd logs it", || {
        node.log("fleetd").contains("all keys of the cluster were deleted from etcd").then_some(())
    });
    until("and /healthz reports it", || {
        node.get("/healthz").starts_with("HTTP/1.1 503").then_some(())
    });
    assert_eq!(pids(), before, "units after all keys were deleted");
    holds(&node, &mut fleetd, "", no_cluster);
    assert_eq!(pids(), before, "units after a restart of fleetd");

    std::fs::remove_file(node.folder.join("own/cluster")).unwrap();
    restart_fleetd(&node, &mut fleetd, "");
    node.when_there();
    until("fleetd accepts the contents of etcd", || (pids() == [None; 4]).then_some(()));
}
