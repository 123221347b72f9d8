//! `shutdown +5`: the plan is a unit, users are told, `shutdown -c` cancels, and the time comes.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use nix::time::{ClockId, clock_gettime};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Starts an init with the unit of contrib/debian.d/machine/logins.yaml, whose wall(1) writes to a
/// file.
fn begin() -> Init {
    let files = Sandbox::new();
    let initctl = program("GROUNDSTATE_INITCTL", "initctl");
    let programs = Path::new(&initctl);
    for (name, of) in
        [("planned-shutdown", "systemctl"), ("shutdown", "initctl"), ("initctl", "initctl")]
    {
        symlink(programs.with_file_name(of), files.path(name)).expect("a new link");
    }
    wall(&files, "cat >>\"${0%/*}/told\"");
    files.unit(
        "planned-shutdown",
        "exec-start: DIR/planned-shutdown DIR/nologin\nrestart: never\n\
         exec-stop-post: DIR/planned-shutdown open-logins DIR/nologin\n\
         success-status: [0]\nenv:\n  PATH: DIR:/usr/bin:/bin\n  GROUNDSTATE_SOCKET: DIR/run/control.sock",
    );
    files.unit("all", "type: virtual");
    let init = Boot::new(files).start("all");
    init.when_system("running");
    init
}

fn wall(files: &Sandbox, command: &str) {
    files.put("wall", &format!("#!/bin/sh\n{command}\n"));
    Command::new("chmod").arg("+x").arg(files.path("wall")).status().expect("chmod runs");
}

fn shutdown(init: &Init, words: &[&str]) -> Output {
    let path = format!("{}:/usr/bin:/bin", init.sandbox.dir().display());
    let mut command = Command::new(init.sandbox.path("shutdown"));
    command
        .args(words)
        .env("PATH", path)
        .env("GROUNDSTATE_SOCKET", init.sandbox.at("run/control.sock"));
    command.output().expect("it runs")
}

#[test]
fn planned_shutdown_is_a_unit_and_a_later_plan_replaces_it_until_it_is_cancelled() {
    let init = begin();
    let done = shutdown(&init, &["-r", "+10", "a", "new", "kernel"]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success() && text.contains("reboots at"), "{done:?}");
    init.when_state("planned-shutdown", "running");
    let told = |text: &str| {
        until("users are told", || init.sandbox.read("told").contains(text).then_some(()))
    };
    told("a new kernel");
    assert!(shutdown(&init, &["+20"]).status.success());
    told("powers off at");
    init.when_state("planned-shutdown", "running");
    assert!(!init.sandbox.path("nologin").exists(), "others may log in until five minutes before");
    assert!(shutdown(&init, &["-c"]).status.success());
    told("cancelled");
    init.when_state("planned-shutdown", "disabled");
    let again = shutdown(&init, &["-c"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("no shutdown is planned"), "{again:?}");
    let wrong = shutdown(&init, &["25:00"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("HH:MM"), "{wrong:?}");
}

#[test]
fn planned_shutdown_closes_logins_and_ends_init_at_its_time() {
    let mut init = begin();
    let soon =
        SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970") + Duration::from_secs(2);
    let plan = format!("{{\"at\":{},\"verb\":\"poweroff\"}}", soon.as_secs());
    init.sandbox.put("run/planned-shutdown", &plan);
    init.tell("want", &serde_json::json!({"target": "planned-shutdown"}));
    assert!(init.ended().success(), "{}", init.output());
    assert_eq!(init.sandbox.read("nologin"), "This machine powers off now.\n");
    assert!(!init.sandbox.path("run/planned-shutdown").exists());
}

#[test]
fn logins_open_when_the_unit_of_a_plan_stops_and_stay_closed_for_another_program() {
    let init = begin();
    let nologin = || init.sandbox.path("nologin").exists();
    assert!(shutdown(&init, &["+3"]).status.success());
    until("logins are closed", || nologin().then_some(()));
    init.tell("unwant", &serde_json::json!({"target": "planned-shutdown"}));
    until("logins are open", || (!nologin()).then_some(()));
    assert!(shutdown(&init, &["+3"]).status.success());
    until("logins are closed", || nologin().then_some(()));
    assert!(shutdown(&init, &["-c"]).status.success());
    until("logins are open", || (!nologin()).then_some(()));
    init.sandbox.put("nologin", "maintenance\n");
    assert!(shutdown(&init, &["+3"]).status.success());
    init.when_state("planned-shutdown", "running");
    init.tell("unwant", &serde_json::json!({"target": "planned-shutdown"}));
    init.when_state("planned-shutdown", "disabled");
    assert_eq!(init.sandbox.read("nologin"), "maintenance\n");
}

#[test]
fn wall_that_hangs_delays_no_shutdown() {
    let mut init = begin();
    wall(&init.sandbox, "echo hangs >\"${0%/*}/told\"\nexec sleep 100000");
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("a clock").tv_sec();
    let plan = format!("{{\"at\":{},\"clock\":\"boottime\",\"verb\":\"poweroff\"}}", now + 2);
    init.sandbox.put("run/planned-shutdown", &plan);
    init.tell("want", &serde_json::json!({"target": "planned-shutdown"}));
    assert!(init.ended().success(), "{}", init.output());
    assert_eq!(init.sandbox.read("told"), "hangs\n");
}

#[test]
fn logins_open_for_a_later_plan_and_a_plan_follows_one_that_failed() {
    let init = begin();
    let nologin = || init.sandbox.path("nologin").exists();
    std::fs::remove_file(init.sandbox.path("initctl")).expect("a link");
    symlink("/bin/false", init.sandbox.path("initctl")).expect("a new link");
    init.sandbox.put("run/planned-shutdown", "{\"at\":1,\"verb\":\"halt\"}");
    init.tell("want", &serde_json::json!({"target": "planned-shutdown"}));
    init.when_state("planned-shutdown", "failed");
    assert!(!nologin(), "logins stay closed after a failed shutdown");
    assert!(shutdown(&init, &["+3"]).status.success());
    init.when_state("planned-shutdown", "running");
    until("logins are closed", || nologin().then_some(()));
    assert!(shutdown(&init, &["+20"]).status.success());
    until("logins are open", || (!nologin()).then_some(()));
    init.when_state("planned-shutdown", "running");
    init.tell("set-target", &serde_json::json!({"targets": ["all"]}));
    init.when_state("planned-shutdown", "disabled");
    let done = shutdown(&init, &["-c"]);
    assert!(
        done.status.success() && !init.sandbox.path("run/planned-shutdown").exists(),
        "{done:?}"
    );
}
