//! The types of units, except triggers, and how each becomes ready.

use groundstate_tests::boot::Boot;
use groundstate_tests::sandbox::Sandbox;

#[test]
fn notified_unit_is_starting_until_it_reports_ready() {
    let files = Sandbox::new();
    files.unit(
        "web",
        "type: foreground-notified\nexec-start: DAEMON --notify --ready-on-order --control DIR/web",
    );
    files.unit("late", "depends-on: web\nexec-start: DAEMON");
    let init = Boot::new(files).start("late");
    let status = init.when_state("web", "starting");
    assert_eq!(status.state("late"), "waiting");
    assert_eq!(status.reason("late"), "on");
    init.sandbox.order("web", "ready");
    init.when_state("late", "running");
    assert_eq!(init.status().state("web"), "running");
    init.finish();
}

#[test]
fn supervised_unit_is_ready_once_it_runs() {
    let files = Sandbox::new();
    files.unit("plain", "exec-start: DAEMON");
    let init = Boot::new(files).start("plain");
    init.when_system("running");
    assert!(init.main_of("plain").is_alive());
    init.finish();
}

#[test]
fn ready_grep_matches_a_line_of_stdout() {
    let files = Sandbox::new();
    files.unit(
        "bot",
        "ready-grep: ^connected to\nexec-start: DAEMON --ready-on-order --control DIR/bot",
    );
    let init = Boot::new(files).start("bot");
    init.when_state("bot", "starting");
    init.sandbox.order("bot", "say not connected to anything");
    init.sandbox.order("bot", "say connected to irc.example.org");
    init.when_state("bot", "running");
    init.finish();
}

#[test]
fn ready_grep_matches_a_line_of_stderr() {
    let files = Sandbox::new();
    files.unit(
        "bot",
        "ready-grep: ^connected to\nexec-start: DAEMON --ready-on-order --control DIR/bot",
    );
    let init = Boot::new(files).start("bot");
    init.when_state("bot", "starting");
    init.sandbox.order("bot", "err connected to irc.example.org");
    init.when_state("bot", "running");
    init.finish();
}

#[test]
fn ready_wait_delays_readiness_by_its_time() {
    let files = Sandbox::new();
    files.unit("slow", "ready-wait: 400ms\nexec-start: DAEMON --trace DIR/trace");
    let init = Boot::new(files).start("slow");
    init.when_state("slow", "starting");
    init.when_state("slow", "running");
    let events = init.initctl_json_lines(&["events"]);
    let at = |to: &str| {
        let found = events.iter().find(|e| e["unit"] == "slow" && e["to"] == to);
        found.and_then(|e| e["mono-us"].as_u64()).unwrap_or_else(|| panic!("an event to {to}"))
    };
    let took = at("running") - at("starting");
    assert!((400_000..5_000_000).contains(&took), "ready after {took} us");
    init.finish();
}

#[test]
fn supervised_unit_that_exits_within_its_ready_wait_fails() {
    let files = Sandbox::new();
    files.unit("brief", "ready-wait: 10s\nrestart: never\nexec-start: DAEMON --exit 0");
    let init = Boot::new(files).start("brief");
    let status = init.when_state("brief", "failed");
    assert_eq!(status.reason("brief"), "exit");
    init.finish();
}

#[test]
fn pid_file_names_the_main_process() {
    let files = Sandbox::new();
    files.unit("old", "type: background-pidfile\npid-file: DIR/run/old.pid\nexec-start: DAEMON --pid-file DIR/run/old.pid");
    let init = Boot::new(files).start("old");
    let status = init.when_state("old", "running");
    let written: i32 = init.sandbox.read("run/old.pid").trim().parse().unwrap();
    assert_eq!(status.main_pid("old"), Some(written));
    init.finish();
}

#[test]
fn background_daemon_that_dies_is_restarted() {
    let files = Sandbox::new();
    files.unit("old", "type: background-pidfile\npid-file: DIR/run/old.pid\nexec-start: DAEMON --pid-file DIR/run/old.pid");
    let init = Boot::new(files).start("old");
    let first = init.when_state("old", "running").main_pid("old");
    init.main_of("old").signal(nix::sys::signal::Signal::SIGKILL);
    init.when("a new main process", |s| s.state("old") == "running" && s.main_pid("old") != first);
    init.finish();
}

#[test]
fn scripted_unit_is_active_after_its_script_succeeded() {
    let files = Sandbox::new();
    files.unit("net", "type: background-scripted\nexec-start: /bin/sh -c 'echo up >> DIR/did'\nexec-stop: /bin/sh -c 'echo down >> DIR/did'");
    files.unit("none", "type: virtual");
    let init = Boot::new(files).start("net");
    let status = init.when_state("net", "running");
    assert_eq!(status.main_pid("net"), None);
    init.tell("set-target", &serde_json::json!({"targets": ["none"]}));
    init.when_state("net", "disabled");
    assert_eq!(init.sandbox.trace("did"), ["up", "down"]);
    init.finish();
}

#[test]
fn scripted_unit_fails_when_its_processes_are_gone() {
    let files = Sandbox::new();
    files.unit("net", "type: background-scripted\nexec-start: DAEMON --pid-file DIR/run/net.pid");
    let init = Boot::new(files).start("net");
    init.when_state("net", "running");
    let left = init.processes_of("net");
    assert!(!left.is_empty(), "the script left a process");
    left.iter().for_each(|p| p.signal(nix::sys::signal::Signal::SIGKILL));
    init.when_state("net", "failed");
    init.finish();
}

#[test]
fn oneshot_is_starting_while_it_runs_and_exited_after_success() {
    let files = Sandbox::new();
    files.unit(
        "setup",
        "type: oneshot\nexec-start: DAEMON --ready-on-order --exit 0 --control DIR/setup",
    );
    files.unit("after", "depends-on: setup\nexec-start: DAEMON");
    let init = Boot::new(files).start("after");
    assert_eq!(init.when_state("setup", "starting").state("after"), "waiting");
    init.sandbox.order("setup", "ready");
    init.when_state("after", "running");
    assert_eq!(init.status().state("setup"), "exited");
    init.finish();
}

#[test]
fn commands_of_a_oneshot_run_in_order_until_one_fails() {
    let files = Sandbox::new();
    files.unit("steps", "type: oneshot\nexec-start:\n- /bin/sh -c 'echo 1 >> DIR/did'\n- /bin/sh -c 'echo 2 >> DIR/did; exit 7'\n- /bin/sh -c 'echo 3 >> DIR/did'");
    let init = Boot::new(files).start("steps");
    let status = init.when_state("steps", "failed");
    assert_eq!(status.unit("steps")["reason"]["code"], 7);
    assert_eq!(init.sandbox.trace("did"), ["1", "2"]);
    init.finish();
}

#[test]
fn virtual_unit_is_active_when_its_dependencies_are() {
    let files = Sandbox::new();
    files.unit("online", "type: virtual\ndepends-on: setup");
    files.unit(
        "setup",
        "type: oneshot\nexec-start: DAEMON --ready-on-order --exit 0 --control DIR/setup",
    );
    let init = Boot::new(files).start("online");
    init.when_state("setup", "starting");
    assert_eq!(init.status().state("online"), "waiting");
    init.sandbox.order("setup", "ready");
    init.when_state("online", "running");
    init.finish();
}

#[test]
fn unit_may_provide_several_targets() {
    let files = Sandbox::new();
    files.unit(
        "maddy",
        "type: foreground-notified\nprovides: imapd, smtpd\nexec-start: DAEMON --notify",
    );
    files.unit("multi", "type: virtual\nwaits-for: imapd");
    let init = Boot::new(files).start("multi");
    let status = init.when_system("running");
    assert_eq!(status.target("imapd")["coincidental"], false);
    assert_eq!(status.target("smtpd")["coincidental"], true);
    assert_eq!(status.target("smtpd")["unit"], "maddy");
    init.finish();
}

#[test]
fn stop_during_exec_start_post_signals_it_and_ends_the_unit() {
    let files = Sandbox::new();
    let post = "exec-start-post: DAEMON --trace DIR/post.trace";
    let kinds = [
        ("once", "oneshot", "/bin/true"),
        ("left", "background-scripted", "/bin/sh -c 'setsid DAEMON --trace DIR/left.trace &'"),
    ];
    for (name, kind, start) in kinds {
        let more = "restart: never\nstop-timeout: 1h\nstart-timeout: 1h";
        let post = post.replace("post.trace", &format!("{name}.post"));
        files.unit(name, &format!("type: {kind}\n{more}\nexec-start: {start}\n{post}"));
    }
    files.unit("all", "type: virtual\nwaits-for: once, left");
    files.unit("keep", "type: virtual");
    let init = Boot::new(files).start("all");
    let told = |file: &str, word: &str| {
        let said = || init.sandbox.trace(file).iter().any(|said| said == word);
        groundstate_tests::deadline::until("the process exists", || said().then_some(()));
    };
    ["once.post", "left.post", "left.trace"].iter().for_each(|file| told(file, "ready"));
    init.tell("set-target", &serde_json::json!({"targets": ["keep"]}));
    init.when_state("once", "disabled");
    init.when_state("left", "disabled");
    ["once.post", "left.post", "left.trace"].iter().for_each(|file| told(file, "term"));
    init.finish();
}
