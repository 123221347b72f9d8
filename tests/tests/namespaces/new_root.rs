//! `initctl switch-root`: PID 1 continues in another root as its init, and keeps the running
//! services.

use super::crash::{starts, until_traced};
use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::crash::crash;
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;

/// The text of a unit that is the same in both roots.
const KEPT: &str = "exec-start: DAEMON --trace DIR/kept.trace --control DIR/kept";

/// A root at `DIR/new`: a bind mount of this machine's root, with other unit files and settings.
fn two_roots() -> Sandbox {
    let files = Sandbox::new();
    files.unit("kept", KEPT);
    files.unit("comes", "exec-start: DAEMON --trace DIR/comes.trace");
    files.unit("broken", "exec-start: [");
    files.unit("second", "type: virtual\nwaits-for: kept, comes, broken");
    fs::rename(files.path("units"), files.path("units.new")).unwrap();
    fs::create_dir(files.path("units")).unwrap();
    fs::create_dir(files.path("new")).unwrap();
    files.put("init.new", "default-target: second\n");
    files.put("init.yaml", "default-target: first\n");
    files.unit("kept", KEPT);
    files.unit("leaves", "exec-start: DAEMON --trace DIR/leaves.trace --control DIR/leaves");
    let mounts = [("/", ""), ("DIR/units.new", "DIR/units"), ("DIR/init.new", "DIR/init.yaml")];
    let lines = mounts.map(|(from, to)| format!("/bin/mount --bind {from} DIR/new{to}"));
    files.unit("mounts", &format!("type: oneshot\nexec-start: [{}]", lines.join(", ")));
    files.unit("first", "type: virtual\nwaits-for: kept, leaves, mounts");
    files
}

fn other_root(init: &Init, program: &str) -> Result<Value, Value> {
    init.ask("switch-root", &json!({"root": init.sandbox.at("new"), "init": program}))
}

#[test]
fn switch_root_keeps_the_running_services_that_the_new_root_defines_too() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let mut init = Boot::new(two_roots()).start("first");
    init.when_system("running");
    until_traced(&init, "kept");
    let kept = init.main_of("kept");
    init.tell("want", &json!({"target": "leaves"}));
    let new = init.sandbox.at("new");
    let said = init.initctl(&["switch-root", &new, &program("GROUNDSTATE_INIT", "init")]);
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    init.when_state("comes", "running");
    let status = init.when("the unit of the old root is gone", |s| s.unit("leaves").is_null());
    assert_eq!(status.0["goal"], json!(["second"]), "the goal of the settings in the new root");
    assert_eq!(status.0["overlay"], json!({"want": [], "drop": [], "until": []}));
    assert_eq!(status.state("broken"), "failed", "as tolerant as at a boot");
    assert_eq!(init.main_of("kept"), kept);
    assert_eq!(starts(&init, "kept"), 1);
    init.sandbox.order("kept", "say heard");
    until("the new root's logger writes it", || {
        init.sandbox.read("log/kept.log").contains("heard").then_some(())
    });
    // Init survives a crash in the new root.
    init.expect_crashes();
    crash(&init, Signal::SIGSEGV);
    until("init has recovered", || {
        let stats = init.client()?.ask("stats", &json!({})).ok()?;
        (stats["crashes"] == 1).then_some(())
    });
    assert_eq!(init.status().0["goal"], json!(["second"]));
    assert_eq!(init.main_of("kept"), kept);
    init.finish_after_crash();
}

#[test]
fn unusable_root_is_refused_and_changes_nothing() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = Boot::new(two_roots()).start("first");
    init.when_system("running");
    let mounts = || {
        let text = fs::read_to_string(format!("/proc/{}/mountinfo", init.process().0)).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (before, own) = (mounts(), program("GROUNDSTATE_INIT", "init"));
    let kept = init.main_of("kept");
    let ask = |root: &str, program: &str| {
        let root = if root.starts_with('/') { root.to_owned() } else { init.sandbox.at(root) };
        let refused = init.ask("switch-root", &json!({"root": root, "init": program}));
        refused.expect_err("it is refused")["message"].as_str().unwrap().to_owned()
    };
    for (root, program, why) in [
        ("none", own.as_str(), "ENOENT"),
        ("init.new", &own, "ENOTDIR"),
        ("/", &own, "already the root"),
        ("units", &own, "ENOENT"),
        ("new", "/none/init", "ENOENT"),
        ("new", "/etc", "not a regular file"),
        ("new", "/bin/true", "not an init"),
        ("new", "/etc/passwd", "Permission denied"),
    ] {
        let said = ask(root, program);
        assert!(said.contains(why), "{root} {program}: {said}");
    }
    // A folder with all required files that is not a mount point.
    let folder = init.sandbox.path("folder");
    for part in ["proc", "sys", "dev", "run", "sbin"] {
        fs::create_dir_all(folder.join(part)).unwrap();
    }
    fs::copy(&own, folder.join("sbin/init")).unwrap();
    let said = init.ask("switch-root", &json!({"root": folder})).unwrap_err();
    assert!(said["message"].as_str().unwrap().contains("it is not a mount point"), "{said}");
    assert_eq!(mounts(), before);
    assert_eq!(init.main_of("kept"), kept);
    assert_eq!(init.status().0["goal"], json!(["first"]));
    init.finish();
}

#[test]
fn supervisor_refuses_switch_root() {
    let init = Boot::new(two_roots()).way(Way::Supervisor).start("kept");
    let refused = other_root(&init, "/sbin/init").unwrap_err();
    assert_eq!(refused["kind"], "usage", "{refused}");
    init.finish();
}
