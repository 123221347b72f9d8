//! The notify socket: which processes may send for a unit, and the handling of malformed messages.

use groundstate_tests::boot::Boot;
use groundstate_tests::sandbox::Sandbox;

const UNIT: &str =
    "type: foreground-notified\nexec-start: DAEMON --notify --ready-on-order --control DIR/web";

#[test]
fn ready_from_an_unknown_sender_is_refused() {
    let files = Sandbox::new();
    files.unit("web", UNIT);
    let init = Boot::new(files).start("web");
    init.when_state("web", "starting");
    let main = init.main_of("web");
    let address = groundstate_tests::deadline::until("it is past its exec", || {
        main.environment().get("NOTIFY_SOCKET").cloned()
    });
    let stranger = std::os::unix::net::UnixDatagram::unbound().unwrap();
    // The test also passes if the sender cannot reach the socket.
    let reached = stranger.send_to(b"READY=1", &address).is_ok();
    init.check();
    assert_eq!(init.dropped("messages-refused"), u64::from(reached));
    assert_eq!(init.status().state("web"), "starting");
    init.sandbox.order("web", "ready");
    init.when_state("web", "running");
    init.finish();
}

#[test]
fn ready_from_a_child_of_the_main_process_is_refused() {
    let files = Sandbox::new();
    files.unit("web", "type: foreground-notified\nexec-start: /bin/sh -c 'DAEMON --notify --trace DIR/child; exec DAEMON --ready-on-order --notify --control DIR/web'");
    let files_child = files.path("child");
    let init = Boot::new(files).start("web");
    groundstate_tests::deadline::until("the child spoke", || {
        std::fs::read_to_string(&files_child).ok().filter(|t| t.contains("ready"))
    });
    init.check();
    assert_eq!(init.status().state("web"), "starting");
    assert_eq!(init.dropped("messages-refused"), 1);
    init.processes_of("web")
        .into_iter()
        .filter(|p| {
            Some(*p) != init.status().main_pid("web").and_then(|pid| init.process().neighbour(pid))
        })
        .for_each(|p| p.signal(nix::sys::signal::Signal::SIGTERM));
    init.sandbox.order("web", "ready");
    init.when_state("web", "running");
    init.finish();
}

#[test]
fn malformed_notifications_change_nothing() {
    let files = Sandbox::new();
    files.unit("web", UNIT);
    let init = Boot::new(files).start("web");
    init.when_state("web", "starting");
    for line in [
        "notify READY",
        "notify =1",
        "notify READY=2",
        "notify X",
        "notify WATCHDOG=1",
        "notify STOPPING",
    ] {
        init.sandbox.order("web", line);
    }
    init.sandbox.order("web", &format!("notify {}", "x".repeat(3000)));
    init.check();
    assert_eq!(init.status().state("web"), "starting");
    init.sandbox.order("web", "ready");
    init.when_state("web", "running");
    init.finish();
}

#[test]
fn reload_reported_by_the_service_is_shown() {
    let files = Sandbox::new();
    files.unit("web", UNIT);
    let init = Boot::new(files).start("web");
    init.sandbox.order("web", "ready");
    init.when_state("web", "running");
    init.sandbox.order("web", "notify RELOADING=1");
    init.when_state("web", "reloading");
    init.sandbox.order("web", "notify READY=1");
    init.when_state("web", "running");
    init.finish();
}

#[test]
fn reload_unit_runs_exec_reload_with_the_main_pid() {
    let files = Sandbox::new();
    files.unit("web", "type: foreground-notified\nexec-start: DAEMON --notify --reload USR1 --trace DIR/trace\nexec-reload: /bin/kill -USR1 $MAINPID");
    let init = Boot::new(files).start("web");
    let before = init.when_state("web", "running").main_pid("web");
    init.tell("reload-unit", &serde_json::json!({"targets": ["web"]}));
    groundstate_tests::deadline::until("the signal came", || {
        init.sandbox.trace("trace").contains(&"usr1".to_owned()).then_some(())
    });
    let status = init.when_state("web", "running");
    assert_eq!(status.main_pid("web"), before);
    init.finish();
}
