//! Failures: crashes, retries, verdicts, timeouts, and commands that cannot be executed.

use groundstate_tests::boot::Boot;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::status::Status;
use nix::sys::signal::Signal;
use serde_json::json;

#[test]
fn crashed_unit_and_its_dependents_are_restarted() {
    let files = Sandbox::new();
    files.unit("db", "exec-start: DAEMON");
    files.unit("web", "depends-on: db\nexec-start: DAEMON");
    let init = Boot::new(files).start("web");
    let before = init.when_system("running");
    init.main_of("db").signal(Signal::SIGKILL);
    let after = init.when("both are restarted", |s| {
        s.system() == "running"
            && s.main_pid("db") != before.main_pid("db")
            && s.main_pid("web") != before.main_pid("web")
    });
    assert_eq!(after.degraded(), Vec::<&str>::new());
    init.finish();
}

#[test]
fn unit_that_only_waits_for_a_crashed_unit_keeps_running_degraded() {
    let files = Sandbox::new();
    files.unit("ircd", "restart-delay: 60s\nexec-start: DAEMON");
    files.unit("bot", "waits-for: ircd\nexec-start: DAEMON");
    let init = Boot::new(files).start("bot");
    let before = init.when_system("running");
    init.main_of("ircd").signal(Signal::SIGABRT);
    // The processes left by the crashed unit are ended first.
    let waits = |s: &Status| s.system() == "degraded" && s.state("ircd") == "waiting";
    let after = init.when("one unit waits, and the other is degraded", waits);
    assert_eq!(after.state("bot"), "running");
    assert_eq!(after.main_pid("bot"), before.main_pid("bot"));
    assert_eq!(after.degraded(), ["bot"]);
    assert_eq!(after.reason("ircd"), "backoff");
    init.tell("retry", &json!({"targets": ["ircd"]}));
    init.when_system("running");
    init.finish();
}

#[test]
fn failed_verdict_starts_waiting_units_and_a_later_success_clears_it() {
    let files = Sandbox::new();
    files.unit(
        "bad",
        "restart-delay: 20ms\nexec-start: DAEMON --fail-unless DIR/cure\nready-wait: 3s",
    );
    files.unit("soft", "waits-for: bad\nexec-start: DAEMON");
    files.unit("hard", "depends-on: bad\nexec-start: DAEMON");
    files.unit("all", "type: virtual\nwaits-for: soft, hard");
    let init = Boot::new(files).start("all");
    let status = init.when("the verdict is known", |s| s.state("soft") == "running");
    assert_eq!(status.state("hard"), "failed");
    assert_eq!(status.reason("hard"), "dependency");
    init.sandbox.put("cure", "");
    init.when("the system is running", |s| s.system() == "running" && s.state("hard") == "running");
    init.finish();
}

#[test]
fn unit_that_ignores_sigterm_is_killed_after_its_stop_timeout() {
    let files = Sandbox::new();
    files.unit(
        "deaf",
        "stop-timeout: 2s\nexec-start: DAEMON --ignore TERM --children 2 --trace DIR/trace",
    );
    files.unit("none", "type: virtual");
    let init = Boot::new(files).start("deaf");
    init.when_state("deaf", "running");
    groundstate_tests::deadline::until("its children are there", || {
        (init.processes_of("deaf").len() == 3).then_some(())
    });
    init.tell("set-target", &json!({"targets": ["none"]}));
    let status = init.when("it is down", |s| s.state("deaf") == "failed");
    assert_eq!(status.reason("deaf"), "stop-timeout");
    assert!(init.processes_of("deaf").is_empty(), "no process of it is left");
    assert!(init.sandbox.trace("trace").contains(&"term".to_owned()));
    init.finish();
}

#[test]
fn start_that_exceeds_its_timeout_fails() {
    let files = Sandbox::new();
    files.unit("slow", "type: foreground-notified\nstart-timeout: 200ms\nrestart: never\nexec-start: DAEMON --notify --ready-on-order --control DIR/slow");
    let init = Boot::new(files).start("slow");
    let status = init.when_state("slow", "failed");
    assert_eq!(status.reason("slow"), "start-timeout");
    assert!(init.processes_of("slow").is_empty());
    init.finish();
}

#[test]
fn missing_command_is_reported_with_its_path_and_error() {
    let files = Sandbox::new();
    files.unit("typo", "exec-start: /usr/sbin/no-such-daemon --flag");
    let init = Boot::new(files).start("typo");
    let status = init.when_state("typo", "failed");
    let reason = &status.unit("typo")["reason"];
    assert_eq!(reason["kind"], "exec");
    assert_eq!(reason["stage"], "execve");
    assert_eq!(reason["errno"], 2, "ENOENT");
    assert_eq!(reason["path"], "/usr/sbin/no-such-daemon");
    let text = reason["text"].as_str().unwrap();
    assert!(
        text.contains("cannot run /usr/sbin/no-such-daemon (execve): No such file or directory"),
        "{text}"
    );
    init.finish();
}

#[test]
fn each_failing_setup_step_of_a_command_is_named() {
    let files = Sandbox::new();
    files.put("plain", "no program\n");
    files.unit("nodir", "working-dir: /no/such/directory\nexec-start: DAEMON");
    files.unit("nouser", "user: no-such-user\nexec-start: DAEMON");
    files.unit("noexec", "exec-start: DIR/plain");
    files.unit("all", "type: virtual\nwaits-for: nodir, nouser, noexec");
    let init = Boot::new(files).start("all");
    let status = init.when("all three failed", |s| {
        ["nodir", "nouser", "noexec"].iter().all(|unit| s.state(unit) == "failed")
    });
    for unit in ["nodir", "nouser", "noexec"] {
        assert_eq!(status.reason(unit), "exec", "{unit}: {}", status.table());
    }
    assert_eq!(status.unit("noexec")["reason"]["errno"], 13, "EACCES");
    assert!(status.unit("nodir")["reason"]["path"].as_str().unwrap().contains("/no/such"));
    init.finish();
}

#[test]
fn fast_restarts_slow_down_and_affect_no_other_unit() {
    let files = Sandbox::new();
    files.unit("storm", "restart-delay: 0\nexec-start: DAEMON --exit 1 --trace DIR/trace");
    files.unit("calm", "exec-start: DAEMON");
    files.unit("all", "type: virtual\nwaits-for: storm, calm");
    let init = Boot::new(files).start("all");
    let calm = init.when_state("calm", "running").main_pid("calm");
    let status = init.when("the minimum delay is reached", |s| {
        s.unit("storm")["attempt"].as_u64() >= Some(11) && s.state("storm") == "failed"
    });
    assert_eq!(status.main_pid("calm"), calm);
    assert_eq!(status.state("all"), "running");
    init.check();
    init.finish();
}

#[test]
fn failed_oneshot_stays_failed_until_a_retry_is_requested() {
    let files = Sandbox::new();
    files.unit("setup", "type: oneshot\nexec-start: DAEMON --fail-unless DIR/cure --exit 0");
    let init = Boot::new(files).start("setup");
    let status = init.when_state("setup", "failed");
    assert_eq!(status.unit("setup")["reason"]["code"], 1);
    assert_eq!(status.system(), "failed");
    init.sandbox.put("cure", "");
    init.tell("retry", &json!({"targets": ["setup"]}));
    init.when_state("setup", "exited");
    init.finish();
}

#[test]
fn restart_limit_ends_the_retries() {
    let files = Sandbox::new();
    files.unit(
        "limited",
        "restart-limit: 2\nrestart-delay: 10ms\nexec-start: DAEMON --exit 3 --trace DIR/trace",
    );
    let init = Boot::new(files).start("limited");
    init.when("its failure is final", |s| {
        s.state("limited") == "failed" && s.reason("limited") == "exit"
    });
    let starts = || init.sandbox.trace("trace").iter().filter(|w| w.starts_with("start")).count();
    assert_eq!(starts(), 2);
    init.finish();
}

#[test]
fn process_killed_by_a_signal_reports_the_signal() {
    let files = Sandbox::new();
    files.unit("crash", "restart: never\nexec-start: DAEMON --die SEGV");
    let init = Boot::new(files).start("crash");
    let status = init.when_state("crash", "failed");
    assert_eq!(status.reason("crash"), "signal");
    assert_eq!(status.unit("crash")["reason"]["signal"], 11);
    init.finish();
}

#[test]
fn watchdog_fails_the_unit_when_pings_stop() {
    let files = Sandbox::new();
    files.unit("dog", "type: foreground-notified\nrestart: never\nenv: [WATCHDOG_USEC=400000]\nexec-start: DAEMON --notify --watchdog --control DIR/dog");
    let init = Boot::new(files).start("dog");
    init.when_state("dog", "running");
    init.sandbox.order("dog", "notify WATCHDOG_USEC=400000");
    init.sandbox.order("dog", "pings off");
    let status = init.when_state("dog", "failed");
    assert_eq!(status.reason("dog"), "watchdog");
    init.finish();
}

#[test]
fn standard_stream_that_cannot_be_opened_is_named() {
    let files = Sandbox::new();
    files.unit("tty", "stdin: tty\ntty-path: /dev/none\nexec-start: DAEMON");
    files.unit("out", "stdout: file:DIR/none/out\nexec-start: DAEMON");
    files.unit("in", "stdin: file:DIR/none/in\nexec-start: DAEMON");
    files.unit("all", "waits-for: tty, out, in");
    let init = Boot::new(files).start("all");
    let status = init.when_state("all", "running");
    for (unit, path) in [("tty", "/dev/none"), ("out", "none/out"), ("in", "none/in")] {
        let reason = &status.unit(unit)["reason"];
        assert_eq!(reason["stage"], "stdio", "{reason}");
        let said = reason["text"].as_str().unwrap();
        assert!(said.contains(path) && said.contains("No such file"), "{said}");
    }
    init.finish();
}
