//! A compromised machine, on an etcd with users and the roles of contrib/etcd-roles: it can only
//! write its own keys.

use crate::real_machine::{Manner, Node, called, until};
use cluster::key::{Keys, Subject};
use cluster::machine::MachineId;
use cluster::unit_name::UnitName;

/// The compromised machine.
const BAD: &str = "bad0bad0bad0bad0";
const PASSWORD: &str = "word";

fn manner(user: &str, conf: &str) -> Manner {
    let login = format!("etcd_username={user}\netcd_password={PASSWORD}\n{conf}");
    Manner { conf: login, ..Manner::default() }
}

/// Runs etcdctl as that user. Returns false if etcd denies the permission.
fn may(node: &Node, user: &str, words: &[&str]) -> bool {
    let (url, user) = (format!("--endpoints={}", node.url()), format!("--user={user}:{PASSWORD}"));
    let all = [&["etcdctl", &url, &user][..], words].concat();
    let output = called(&all).env("ETCDCTL_API", "3").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    let denied = printed.contains("permission denied");
    assert!(output.status.success() || denied, "etcdctl {words:?}: {printed}");
    !denied
}

/// Creates users with the roles of contrib.
fn rights(node: &Node, engine: &str, other: &str) {
    until("etcd is there", || node.try_etcdctl(&["endpoint", "health"]));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../contrib/etcd-roles");
    let mut command = called(&[script, engine, other, BAD]);
    let output = command.env("ETCDCTL_ENDPOINTS", node.url()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let machine = |id: &str| format!("fleet-machine-{id}");
    let users = [
        ("engine", vec!["fleet-engine".to_string(), machine(engine)]),
        ("other", vec![machine(other)]),
        ("bad", vec![machine(BAD)]),
        ("root", vec!["root".to_string()]),
    ];
    for (user, roles) in users {
        node.etcdctl(&["user", "add", &format!("{user}:{PASSWORD}")]);
        for role in roles.iter().filter(|role| *role != "root") {
            node.etcdctl(&["user", "grant-role", user, role]);
        }
    }
    // This creates the role root and grants it to the user root.
    node.etcdctl(&["auth", "enable"]);
}

/// Checks that the user of a machine can write and delete only its own keys, of all kinds of keys.
fn writes_nothing_but_its_own(node: &Node, other: &str) {
    let keys = Keys::under("/_coreos.com/fleet/");
    let (mine, theirs) = (MachineId::new(BAD).unwrap(), MachineId::new(other).unwrap());
    let name = UnitName::new("evil.service").unwrap();
    let of_machine = |id: &MachineId| {
        [
            Subject::Machine(id.clone()),
            Subject::Claim(id.clone(), name.clone()),
            Subject::State(id.clone(), name.clone()),
        ]
    };
    let all = [
        Subject::Cluster,
        Subject::Leader,
        Subject::Unit(name.clone()),
        Subject::Desired(name.clone()),
        Subject::Place(name.clone()),
        Subject::Schedule(theirs.clone(), name.clone()),
        Subject::Schedule(mine.clone(), name.clone()),
        Subject::Global(name.clone()),
        Subject::Why(name.clone()),
        Subject::Metadata(theirs.clone(), "k".to_string()),
        Subject::Drain(theirs.clone()),
    ];
    for subject in all.iter().chain(&of_machine(&theirs)) {
        let key = keys.of(subject);
        assert!(!may(node, "bad", &["put", &key, "{}"]), "{key} is written");
        assert!(!may(node, "bad", &["del", &key]), "{key} is removed");
    }
    for subject in of_machine(&mine) {
        let key = keys.of(&subject);
        assert!(may(node, "bad", &["put", &key, "{}"]), "{key} is its own");
        assert!(may(node, "bad", &["del", &key]), "{key} is its own");
    }
    assert!(!may(node, "bad", &["del", "--prefix", keys.root()]), "all keys are removed");
    assert!(!may(node, "bad", &["user", "list"]), "the user can list the users");
}

/// Checks that it cannot revoke the leases of other machines.
fn ends_no_lease_of_others(node: &Node) {
    let text = node.etcdctl(&[&format!("--user=root:{PASSWORD}"), "lease", "list"]);
    let leases: Vec<&str> = text.lines().skip(1).collect();
    assert!(leases.len() >= 3, "fewer leases than machines and engine: {text}");
    for lease in leases {
        assert!(!may(node, "bad", &["lease", "revoke", lease]), "lease {lease} is ended");
    }
}

#[test]
fn compromised_machine_cannot_run_units_on_another_machine() {
    let leading = Node::with(manner("engine", ""));
    let other = leading.beside(manner("other", "disable_engine=true\n"));
    let _etcd = leading.etcd();
    rights(&leading, &leading.id, &other.id);
    let (_init, _other_init) = (leading.init(), other.init());
    let _fleetd = leading.fleetd();
    let _other_fleetd = other.fleetd();
    leading.when_there();
    other.when_there();
    // A machine with only its own rights works normally.
    for (name, more) in [("one", ""), ("only", "Exclusive=true\n")] {
        let stop = "TimeoutStopSec=100ms\n";
        let here = format!("\n[X-Fleet]\nMachineID={}\n{more}", other.id);
        let text = format!("[Service]\n{stop}ExecStart={}\n{here}", other.command(name));
        let file = format!("{name}.service");
        leading.put(&file, &text);
        leading.fleetctl(&["start", &file]);
        leading.when_running(&file);
    }
    let pids = ["one", "only"].map(|name| Some(until("it has started", || other.pid(name))));
    // The API of that machine changes only the machine's own keys.
    other.put("evil.service", "[Service]\nExecStart=/bin/sleep 1\n");
    let (fine, printed) = other.try_fleetctl(&["start", "evil.service"]);
    assert!(
        !fine && printed.contains("403: the etcd user of this fleetd has no right to write that"),
        "{printed}"
    );
    assert!(
        other.get("/healthz").contains(r#"{"status":"ok"}"#),
        "etcd with roles is reported as insecure"
    );
    assert!(!other.log("fleetd").contains("insecure"));

    writes_nothing_but_its_own(&leading, &other.id);
    ends_no_lease_of_others(&leading);
    assert_eq!([other.pid("one"), other.pid("only")], pids);
    leading.fleetctl(&["stop", "only.service"]);
    until("the exclusive unit stops", || other.pid("only").is_none().then_some(()));
    let claims = &["get", "--prefix", "--keys-only", "/_coreos.com/fleet/v3/claim/"];
    let login = format!("--user=root:{PASSWORD}");
    until("the claim is released", || {
        let left = leading.etcdctl(&[&[login.as_str()][..], claims].concat());
        left.trim().is_empty().then_some(())
    });
}

#[test]
fn machine_without_the_right_to_lead_logs_that_once() {
    let node = Node::with(manner("other", "engine_reconcile_interval=0.2\n"));
    let _etcd = node.etcd();
    rights(&node, "engine", &node.id);
    let _init = node.init();
    let _fleetd = node.fleetd();
    node.when_there();
    until("fleetd logs it", || {
        node.log("fleetd").contains("etcd does not allow this machine to lead").then_some(())
    });
    // fleetd has revoked the lease that it requested to lead: only the machine's lease is left.
    let login = format!("--user=root:{PASSWORD}");
    until("one lease is left", || {
        let leases = node.etcdctl(&[&login, "lease", "list"]);
        leases.starts_with("found 1 leases").then_some(())
    });
}
