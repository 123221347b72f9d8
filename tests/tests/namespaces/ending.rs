//! Other ways of becoming ready, and how a run is stopped: which processes get which signal, and
//! which survive.

use super::child_setup::{is_root, past_exec};
use super::command::{drop_all, script, words};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;

#[test]
fn line_on_the_ready_descriptor_makes_a_unit_ready() {
    let files = Sandbox::new();
    script(
        &files,
        "late",
        "until [ -e DIR/go ]; do sleep 0.05; done; echo up >&7; exec 7>&-; exec sleep 1000",
    );
    files.unit("late", "ready-fd: 7\nexec-start: /bin/sh DIR/late.sh");
    let init = Boot::new(files).start("late");
    until("it runs", || init.status().main_pid("late"));
    assert_eq!(init.status().state("late"), "starting");
    init.sandbox.put("go", "");
    init.when_state("late", "running");
    let late = past_exec(&init, "late");
    let open = || late.files().keys().copied().collect::<Vec<_>>();
    until("it has only these descriptors", || (open() == [0, 1, 2]).then_some(()));
    init.finish();
}

#[test]
fn ready_command_is_repeated_until_it_succeeds() {
    let files = Sandbox::new();
    script(&files, "ask", "echo asked >>DIR/asked; [ -e DIR/go ]");
    files.unit("late", "ready-exec: /bin/sh DIR/ask.sh\nexec-start: /bin/sleep 1000");
    let init = Boot::new(files).start("late");
    words(&init, "asked", 2);
    assert_eq!(init.status().state("late"), "starting");
    init.sandbox.put("go", "");
    init.when_state("late", "running");
    init.finish();
}

#[test]
fn idle_unit_starts_after_the_others() {
    let files = Sandbox::new();
    script(&files, "slow", "sleep 0.5; echo slow >>DIR/order");
    files.unit("slow", "type: oneshot\nexec-start: /bin/sh DIR/slow.sh");
    files.unit(
        "login",
        "start-idle: yes\nexec-start: /bin/sh -c 'echo login >>DIR/order; exec sleep 1000'",
    );
    files.unit("all", "type: virtual\nwants: login, slow");
    let init = Boot::new(files).start("all");
    assert_eq!(words(&init, "order", 2), ["slow", "login"]);
    init.when_state("login", "running");
    init.finish();
}

#[test]
fn main_process_of_a_daemon_without_pid_file_is_guessed_only_if_unique() {
    let files = Sandbox::new();
    script(&files, "fork", "for i in $(seq $1); do sleep 1000 & done");
    files.unit(
        "one",
        "type: background-pidfile\nmain-pid: guess\nexec-start: /bin/sh DIR/fork.sh 1",
    );
    files.unit(
        "two",
        "type: background-pidfile\nmain-pid: guess\nexec-start: /bin/sh DIR/fork.sh 2",
    );
    files.unit("unknown", "type: background-pidfile\nmain-pid: none\nrestart: never\nexec-start: /bin/sh DIR/fork.sh 1");
    files.unit("all", "type: virtual\nwants: one, two, unknown");
    let init = Boot::new(files).start("all");
    for unit in ["one", "two", "unknown"] {
        init.when_state(unit, "running");
    }
    let status = init.status();
    assert!(status.main_pid("one").is_some());
    assert_eq!((status.main_pid("two"), status.main_pid("unknown")), (None, None));
    for process in init.processes_of("unknown") {
        process.signal(nix::sys::signal::Signal::SIGKILL);
    }
    init.when_state("unknown", "failed");
    init.finish();
}

/// Ends the surviving processes, which belong only to the test.
fn end_all(init: &Init, units: &[&str]) {
    for unit in units {
        // Some of them are short-lived, so a process that has already exited is no error.
        until("they have exited", || {
            let left = init.processes_of(unit);
            left.iter().for_each(|process| process.end());
            left.is_empty().then_some(())
        });
    }
}

#[test]
fn stop_signals_the_processes_that_its_kill_mode_names() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    script(
        &files,
        "family",
        "trap 'echo $1-main-$2 >>DIR/told; exit' TERM; \
         (trap 'echo $1-rest-term >>DIR/told; exit' TERM; trap 'echo $1-rest-hup >>DIR/told' HUP; touch DIR/$1.up; while :; do sleep 0.05; done) & \
         while :; do sleep 0.05; done",
    );
    for mode in ["group", "mixed", "process", "none"] {
        files.unit(
            mode,
            &format!(
                "kill-mode: {mode}\nstop-timeout: 3s\nexec-start: /bin/sh DIR/family.sh {mode} term"
            ),
        );
    }
    files.unit("all", "type: virtual\nwants: group, mixed, process, none");
    let init = Boot::new(files).start("all");
    for mode in ["group", "mixed", "process", "none"] {
        init.when_state(mode, "running");
        until("it is up", || init.sandbox.path(&format!("{mode}.up")).exists().then_some(()));
    }
    drop_all(&init);
    for mode in ["group", "mixed", "process", "none"] {
        init.when_state(mode, "disabled");
    }
    let told = init.sandbox.read("told");
    for (line, expected) in [
        ("group-main-term", true),
        ("group-rest-term", true),
        ("mixed-main-term", true),
        ("mixed-rest-term", false),
        ("process-main-term", true),
        ("process-rest-term", false),
        ("none-main-term", false),
        ("none-rest-term", false),
    ] {
        assert_eq!(told.lines().any(|said| said == line), expected, "{line}: {told}");
    }
    let alive = |unit: &str| !init.processes_of(unit).is_empty();
    assert!(!alive("group") && !alive("mixed"));
    assert!(alive("process") && alive("none"), "unsignalled processes still run");
    end_all(&init, &["process", "none"]);
    init.finish();
}

#[test]
fn last_signals_of_a_stop_are_those_of_the_unit() {
    let files = Sandbox::new();
    script(
        &files,
        "stubborn",
        "trap '' TERM; trap 'echo $1-hup >>DIR/told' HUP; trap 'echo $1-quit >>DIR/told; exit' QUIT; touch DIR/$1.up; while :; do sleep 0.05; done",
    );
    files.unit(
        "quits",
        "stop-final-signal: QUIT\nstop-timeout: 300ms\nexec-start: /bin/sh DIR/stubborn.sh quits",
    );
    files.unit(
        "hung-up",
        "stop-hup: yes\nstop-timeout: 1s\nexec-start: /bin/sh DIR/stubborn.sh hung-up",
    );
    files.unit(
        "spared",
        "kill-final: no\nstop-timeout: 300ms\nexec-start: /bin/sh DIR/stubborn.sh spared",
    );
    files.unit("all", "type: virtual\nwants: quits, hung-up, spared");
    let init = Boot::new(files).start("all");
    for unit in ["quits", "hung-up", "spared"] {
        init.when_state(unit, "running");
        until("it is up", || init.sandbox.path(&format!("{unit}.up")).exists().then_some(()));
    }
    drop_all(&init);
    let told = |line: &str| init.sandbox.read("told").lines().any(|said| said == line);
    until("the last signal is QUIT", || told("quits-quit").then_some(()));
    until("HUP follows TERM", || told("hung-up-hup").then_some(()));
    init.when("the stop is over", |s| matches!(s.state("spared"), "disabled" | "failed"));
    assert!(!init.processes_of("spared").is_empty(), "no process was killed");
    end_all(&init, &["spared"]);
    init.finish();
}

#[test]
fn reload_signal_is_sent_if_the_unit_has_no_reload_command() {
    let files = Sandbox::new();
    files.unit("talks", "type: foreground-notified\nreload-signal: HUP\nexec-start: DAEMON --notify --reload HUP --trace DIR/trace");
    let init = Boot::new(files).start("talks");
    init.when_state("talks", "running");
    init.tell("reload-unit", &json!({"targets": ["talks"]}));
    until("it has reloaded", || {
        init.sandbox.trace("trace").contains(&"hup".to_owned()).then_some(())
    });
    init.when_state("talks", "running");
    init.finish();
}

#[test]
fn watchdog_without_a_ping_aborts_the_run() {
    let files = Sandbox::new();
    files.unit(
        "pings",
        "type: foreground-notified\nwatchdog: 4s\nexec-start: DAEMON --notify --watchdog",
    );
    files.unit("silent", "type: foreground-notified\nwatchdog: 300ms\nrestart: never\nexec-stop-post: /bin/sh -c 'echo $SERVICE_RESULT $EXIT_CODE $EXIT_STATUS $WATCHDOG_USEC >DIR/told'\nexec-start: DAEMON --notify");
    script(&files, "deaf", "trap '' ABRT; exec sleep 1000");
    files.unit("deaf", "watchdog: 200ms\nabort-timeout: 300ms\nstop-timeout: none\nrestart: never\nexec-start: /bin/sh DIR/deaf.sh");
    files.unit("all", "type: virtual\nwants: pings, silent, deaf");
    let init = Boot::new(files).start("all");
    let status = init.when_state("silent", "failed");
    assert_eq!(status.reason("silent"), "watchdog");
    until("it is reported", || init.sandbox.path("told").exists().then_some(()));
    let told = init.sandbox.read("told");
    assert!(told.starts_with("watchdog ") && told.contains("ABRT 300000"), "{told}");
    assert_eq!(init.when_state("deaf", "failed").reason("deaf"), "watchdog");
    assert_eq!(init.status().state("pings"), "running");
    init.finish();
}

#[test]
fn finished_runs_are_forgotten() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    files.unit("stopped", "exec-start: DAEMON");
    files.unit("failed", "restart: never\nexec-start: DAEMON --exit 3");
    files.unit("done", "type: oneshot\nexec-start: DAEMON --exit 0");
    files.unit("script", "type: background-scripted\nexec-start: DAEMON --exit 0");
    let init = Boot::new(files).start("web");
    let runs = || init.tell("stats", &json!({}))["runs"].as_u64().unwrap();
    init.when_system("running");
    for goal in ["stopped", "failed", "done", "script", "web"] {
        init.initctl(&["set-target", "web", goal, "--wait"]);
    }
    assert_eq!(runs(), 1, "only the run of web");
    init.finish();
}
