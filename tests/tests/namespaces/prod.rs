//! What `restart`, `kill` and `cat` say and do where there is nothing to prod or more than one
//! unit in a file.

use groundstate_tests::boot::Boot;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;

#[test]
fn what_is_not_running_is_neither_killed_nor_restarted_and_that_is_said() {
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
    // All that are named, or none.
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
fn cat_shows_the_units_own_document_and_what_is_laid_over_it() {
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
fn a_wish_for_no_time_at_all_is_no_wish() {
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
fn what_waits_for_a_failure_is_on_the_critical_chain() {
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
    init.when("all is up without web", |s| {
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
