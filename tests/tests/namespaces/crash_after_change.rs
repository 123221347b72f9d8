//! Crashes soon after a change: the restored state has the change.

use super::crash::has_survived;
use groundstate_tests::boot::Boot;
use groundstate_tests::crash::{crash, wait_for_commit};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::status::Status;
use nix::sys::signal::Signal;
use serde_json::json;
use std::net::TcpListener;

#[test]
fn run_timeout_before_a_crash_is_remembered_after_it() {
    let files = Sandbox::new();
    files.unit(
        "web",
        "run-timeout: 300ms\nrestart: on-failure\nrestart-delay: 1h\nrestart-delay-max: 1h\nsuccess-status: [TERM]\nexec-start: /bin/sleep 1000",
    );
    files.unit("all", "type: virtual");
    let mut init = Boot::new(files).start("all");
    init.when_system("running");
    init.expect_crashes();
    wait_for_commit(&init);
    init.tell("want", &json!({"target": "web"}));
    let was_too_long = |status: &Status| {
        let why = status.unit("web")["reason"]["text"].as_str().unwrap_or_default();
        status.state("web") == "waiting" && why.contains("run-timeout")
    };
    init.when("it was active for too long", was_too_long);
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    assert!(was_too_long(&init.status()), "{}", init.status().unit("web"));
    init.finish_after_crash();
}

/// A service that reports ready on its `ready-fd` once DIR/go exists.
const LATE: &str = "ready-fd: 7\nexec-start: /bin/sh -c 'until [ -e DIR/go ]; do sleep 0.05; done; echo up >&7; exec 7>&-; exec sleep 1000'";

#[test]
fn readiness_by_descriptor_before_a_crash_is_remembered() {
    for is_started_later in [false, true] {
        let files = Sandbox::new();
        files.unit("late", LATE);
        files.unit(
            "all",
            if is_started_later { "type: virtual" } else { "type: virtual\nwants: late" },
        );
        let mut init = Boot::new(files).start("all");
        init.expect_crashes();
        if is_started_later {
            wait_for_commit(&init);
            init.tell("want", &json!({"target": "late"}));
        }
        let main = until("it runs", || init.status().main_pid("late"));
        wait_for_commit(&init);
        init.sandbox.put("go", "");
        init.when_state("late", "running");
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 1);
        let status = init.status();
        let now = (status.state("late"), status.main_pid("late"));
        assert_eq!(now, ("running", Some(main)), "{}", init.output());
        init.finish_after_crash();
    }
}

#[test]
fn readiness_by_descriptor_is_still_received_after_a_crash() {
    let files = Sandbox::new();
    files.unit("late", &format!("exec-start-pre: /bin/true\n{LATE}"));
    files.unit("all", "type: virtual");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    wait_for_commit(&init);
    init.tell("want", &json!({"target": "late"}));
    let main = until("it runs", || init.status().main_pid("late"));
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    let status = init.status();
    let now = (status.state("late"), status.main_pid("late"));
    assert_eq!(now, ("starting", Some(main)), "{}", init.output());
    init.sandbox.put("go", "");
    let status = init.when_state("late", "running");
    assert_eq!(status.main_pid("late"), Some(main), "{}", init.output());
    init.finish_after_crash();
}

#[test]
fn failed_socket_keeps_its_reason_after_a_crash() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    let files = Sandbox::new();
    files.unit("door", &format!("type: socket\nlisten-stream: {address}\nactivates: web"));
    files.unit("web", "exec-start: DAEMON");
    files.unit("all", "type: virtual");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    wait_for_commit(&init);
    init.tell("want", &json!({"target": "door"}));
    let failed = init.when_state("door", "failed");
    // A retry would succeed.
    drop(taken);
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    let after = init.status();
    let of = |status: &Status| status.unit("door")["reason"].clone();
    assert_eq!((after.state("door"), of(&after)), ("failed", of(&failed)), "{}", init.output());
    init.finish_after_crash();
}
