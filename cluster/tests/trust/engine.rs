//! A machine without an engine for a while, on an etcd without authentication.

use crate::real_machine::{Manner, Node, until};
use cluster::store::findings::EtcdFindings;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// Ten minutes, scaled down by a hundred, or by ten in long runs.
fn without_engine() -> Duration {
    let minute = Duration::from_secs(60);
    if std::env::var_os("GROUNDSTATE_ALL").is_some() { minute } else { minute / 10 }
}

fn manner(conf: &str) -> Manner {
    Manner { conf: conf.to_string(), ..Manner::default() }
}

/// The version of the installed etcd.
fn version_of_etcd() -> String {
    let output = std::process::Command::new("etcd").arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("etcd Version: ")).unwrap().to_string()
}

#[test]
fn machines_keep_running_units_without_an_engine_and_why_says_so() {
    let leading = Node::with(manner("engine_reconcile_interval=0.4\n"));
    let other = leading.beside(manner("disable_engine=true\n"));
    let _etcd = leading.etcd();
    let (_init, _other_init) = (leading.init(), other.init());
    let mut fleetd = leading.fleetd();
    let _other_fleetd = other.fleetd();
    leading.when_there();
    other.when_there();
    for name in ["kept", "late"] {
        let restart = "Restart=always\nRestartSec=100ms\n";
        let service = format!("[Service]\n{restart}ExecStart={}\n", other.command(name));
        let here = format!("\n[X-Fleet]\nMachineID={}\n", other.id);
        other.put(&format!("{name}.service"), &format!("{service}{here}"));
    }
    other.fleetctl(&["start", "kept.service"]);
    other.when_running("kept.service");

    fleetd.kill();
    other.fleetctl(&["start", "--no-block", "late.service"]);
    let why = || other.fleetctl(&["why", "late.service"]);
    until("why says so", || why().contains("no engine leads the cluster").then_some(()));
    let before = other.pid("kept").unwrap();
    kill(Pid::from_raw(before), Signal::SIGKILL).unwrap();
    let after =
        until("its init starts it again", || other.pid("kept").filter(|now| *now != before));
    let end = Instant::now() + without_engine();
    while Instant::now() < end {
        assert_eq!(other.pid("kept"), Some(after), "it runs on");
        assert_eq!(other.pid("late"), None, "no engine has placed it");
        assert!(why().contains("no engine leads the cluster"));
    }
    other.when_running("kept.service");

    let _fleetd = leading.fleetd();
    until("it is placed and runs", || other.pid("late"));
    other.when_running("late.service");
    assert_eq!((other.pid("kept"), other.begins("kept")), (Some(after), 2));
}

#[test]
fn etcd_without_authentication_is_reported_as_insecure() {
    let node = Node::new();
    let _etcd = node.etcd();
    let _init = node.init();
    let _fleetd = node.fleetd();
    node.when_there();
    until("it is in the log", || {
        node.log("fleetd").contains("ERROR insecure: etcd's authentication is off").then_some(())
    });
    assert!(
        node.get("/fleet/v1/state").ends_with("{}"),
        "an empty page has a field that fleet does not have"
    );
    node.put("a.service", &format!("[Service]\nExecStart={}\n", node.command("a")));
    node.fleetctl(&["start", "a.service"]);
    until("it is in the list", || {
        node.get("/fleet/v1/state").contains(r#"{"insecure":true,"#).then_some(())
    });
    assert!(node.get("/healthz").contains(r#"{"insecure":["etcd's authentication is off"#));
    assert!(node.get("/metrics").contains("\nfleet_registry_insecure 1\n"));
    let listed = node.fleetctl(&["list-units", "--no-legend", "--fields=unit"]);
    assert_eq!(listed, "a.service\n", "fleetctl prints the field `insecure`");
    let version = version_of_etcd();
    assert!(node.log("fleetd").contains(&format!("INFO etcd is {version}\n")));
    for fault in (EtcdFindings { versions: vec![version], ..EtcdFindings::default() }).faults() {
        assert!(node.log("fleetd").contains(&format!("ERROR {fault}\n")), "{fault}");
    }
}
