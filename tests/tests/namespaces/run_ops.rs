//! `restart`, `kill` and `cat` for units that are not running, for processes that may not be
//! signalled, and for files with more than one unit.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;

#[test]
fn kill_and_restart_of_a_unit_that_is_not_running_are_refused() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    files.unit("job", "type: oneshot\nexec-start: DAEMON --exit 0");
    files.unit("bad", "type: oneshot\nexec-start: DAEMON --exit 3");
    files.unit("side", "exec-start: DAEMON");
    files.unit("all", "type: virtual\nwaits-for: web, job, bad");
    let init = Boot::new(files).start("all");
    init.when("all have settled", |s| {
        s.state("web") == "running" && s.state("job") == "exited" && s.state("bad") == "failed"
    });
    let before = init.status().main_pid("web");
    for words in [&["kill", "job"][..], &["kill", "bad"], &["kill", "side"], &["restart", "side"]] {
        let (code, said) = init.initctl_json(words);
        assert_eq!((code, &said["error"]["kind"]), (1, &json!("not-running")), "{words:?} {said}");
    }
    // Either all named units are signalled, or none is.
    assert_eq!(init.initctl(&["kill", "web", "job"]).status.code(), Some(1));
    assert_eq!(init.initctl(&["restart", "web", "side"]).status.code(), Some(1));
    assert_eq!(init.status().main_pid("web"), before);
    assert_eq!(init.status().state("side"), "disabled");

    let runs = init.status().unit("bad")["attempt"].as_u64();
    let (code, said) = init.initctl_json(&["restart", "bad", "web"]);
    assert_eq!((code, &said["idle"]), (0, &json!(["bad"])), "{said}");
    init.when("web is replaced", |s| s.state("web") == "running" && s.main_pid("web") != before);
    let status = init.when_state("bad", "failed");
    assert_eq!(status.unit("bad")["attempt"].as_u64(), runs.map(|n| n + 1), "tried again");
    init.finish();
}

#[test]
fn main_process_that_may_not_be_signalled_is_reported_and_no_other_is_signalled() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    let deaf = "DAEMON --ignore HUP --ignore USR1 --trace";
    files.put("foreign.trace", "");
    std::fs::set_permissions(
        files.path("foreign.trace"),
        std::os::unix::fs::PermissionsExt::from_mode(0o666),
    )
    .unwrap();
    // Its main process changes its uid; its child stays root.
    files.unit("foreign", &format!("stop-timeout: 500ms\nexec-start: /bin/sh -c '{deaf} DIR/child & exec setpriv --reuid=65534 --regid=65534 --clear-groups {deaf} DIR/foreign.trace'"));
    files.unit("own", &format!("exec-start: {deaf} DIR/own"));
    files.unit("all", "type: virtual\nwaits-for: foreign, own");
    let bounded = ["setpriv", "--bounding-set=-kill", "--inh-caps=-kill"];
    let init = Boot::new(files).through(&bounded).start("all");
    let heard = |who: &str, word: &str| {
        let words = init.sandbox.trace(who);
        words.iter().filter(|heard| *heard == word).count()
    };
    for who in ["child", "foreign.trace", "own"] {
        until("the service handles signals", || (heard(who, "ready") == 1).then_some(()));
    }
    let (code, said) = init.initctl_json(&["kill", "--signal", "HUP", "foreign"]);
    assert_ne!(code, 0, "{said}");
    let message = said["error"]["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("foreign: cannot signal the main process: ")
            && message.contains("not permitted"),
        "{said}"
    );
    // If both signals were pending, HUP, the lower one, would be handled first.
    init.tell("kill", &json!({"targets": ["foreign", "own"], "signal": 10, "all": true}));
    for who in ["child", "own"] {
        until("the process got the other signal", || (heard(who, "usr1") == 1).then_some(()));
        assert_eq!(heard(who, "hup"), 0, "{who}");
    }
    assert_eq!((heard("foreign.trace", "hup"), heard("foreign.trace", "usr1")), (0, 0));
    let pids = init.processes_of("foreign");
    init.finish();
    assert!(pids.iter().all(|process| !process.is_alive()), "all exit with their namespace");
}

/// The text that `status` and `why` show of a unit.
fn told(init: &Init, unit: &str) -> [String; 2] {
    ["status", "why"].map(|verb| {
        let output = init.initctl(&[verb, unit]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    })
}

#[test]
fn status_and_why_name_the_unit_that_a_conflict_keeps_down() {
    let files = Sandbox::new();
    files.unit("apache", "conflicts: nginx\nstop-timeout: 10min\nexec-start: DAEMON --ignore TERM --control DIR/apache --trace DIR/trace");
    files.unit("nginx", "exec-start: DAEMON");
    files.unit("both", "type: virtual\nwaits-for: apache, nginx");
    let init = Boot::new(files).start("both");
    init.when_state("both", "running");
    let says = |text: &str| {
        for told in told(&init, "nginx") {
            assert!(told.contains(text), "{told}");
        }
    };
    // Both are part of the goal; the first one wins.
    let status = init.when_state("apache", "running");
    assert_eq!((status.state("nginx"), status.reason("nginx")), ("failed", "conflict"));
    assert_eq!(status.unit("nginx")["reason"]["target"], "apache");
    says("it conflicts with apache, which has precedence");
    until("the service handles signals", || {
        init.sandbox.trace("trace").contains(&"ready".to_owned()).then_some(())
    });
    // With the other goal the first one is stopping.
    init.tell("set-target", &json!({"targets": ["nginx"]}));
    init.when_state("apache", "stopping");
    assert_eq!(init.status().state("nginx"), "waiting");
    says("waits for apache");
    let chain = init.tell("why", &json!({"target": "nginx"}))["chain"].clone();
    let last = chain.as_array().and_then(|chain| chain.last()).expect("a cause");
    assert_eq!((&last["unit"], &last["state"]), (&json!("apache"), &json!("stopping")), "{chain}");
    init.sandbox.order("apache", "exit 0");
    let status = init.when_state("nginx", "running");
    assert_eq!((status.state("apache"), status.main_pid("apache")), ("disabled", None));
    init.finish();
}

#[test]
fn cat_shows_only_the_document_of_the_unit_and_its_drop_ins() {
    let files = Sandbox::new();
    files.put("units/both.yaml", "unit: one\ntype: virtual\n---\nunit: two\ntype: virtual\n");
    files.unit("all", "type: virtual\nwaits-for: one, two, three");
    files.unit("three", "type: virtual");
    std::fs::create_dir(files.path("units/three.d")).unwrap();
    files.put("units/three.d/more.yaml", "description: laid over\n");
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let shown = |name| String::from_utf8_lossy(&init.initctl(&["cat", name]).stdout).into_owned();
    let two = shown("two");
    assert!(two.contains("both.yaml:4") && two.contains("unit: two"), "{two}");
    assert!(!two.contains("unit: one"), "{two}");
    let three = shown("three");
    assert!(three.contains("unit: three") && three.contains("description: laid over"), "{three}");
    let (_, said) = init.initctl_json(&["cat", "three"]);
    assert_eq!(said["drop-ins"], json!([init.sandbox.at("units/three.d/more.yaml")]), "{said}");
    init.finish();
}

#[test]
fn want_for_zero_time_is_refused() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    files.unit("all", "type: virtual");
    let init = Boot::new(files).start("all");
    init.when_system("running");
    for span in ["0", "0s", "none"] {
        let output = init.initctl(&["want", "web", "--for", span]);
        assert_eq!(output.status.code(), Some(64), "{span}");
    }
    assert_eq!(init.status().0["overlay"]["want"], json!([]));
    init.finish();
}

#[test]
fn critical_chain_shows_a_unit_that_waited_for_a_failure() {
    let files = Sandbox::new();
    files.unit(
        "bad",
        "type: oneshot\nexec-start: DAEMON --exit 3 --ready-on-order --control DIR/order",
    );
    files.unit("web", "depends-on: bad\nexec-start: DAEMON");
    files.unit("quick", "type: virtual");
    files.unit("all", "type: virtual\nwaits-for: web, quick");
    let init = Boot::new(files).start("all");
    init.when_state("bad", "starting");
    init.sandbox.order("order", "ready");
    init.when("the goal is running without web", |s| {
        s.state("all") == "running" && s.state("web") == "failed"
    });
    let output = init.initctl(&["critical-chain"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().skip(1).map(|line| line.trim_start()).collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[1].starts_with("`- web  @") && lines[1].contains("failed"), "{text}");
    assert!(lines[2].starts_with("`- bad  @") && lines[2].contains("failed"), "{text}");
    init.finish();
}
