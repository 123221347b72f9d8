//! Path units: paths that appear or change, and directories that stay non-empty.

use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::{until, within};
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;
use std::fs;
use std::time::Duration;

pub(crate) fn starts(files: &Sandbox, trace: &str) -> usize {
    files.trace(trace).iter().filter(|line| line.starts_with("start")).count()
}

pub(crate) fn until_started(files: &Sandbox, trace: &str, times: usize) {
    until(&format!("{trace} was started {times} times"), || {
        (starts(files, trace) >= times).then_some(())
    });
}

pub(crate) const JOB: &str = "type: oneshot\nexec-start: DAEMON --exit 0 --trace DIR/job";

#[test]
fn path_that_appears_below_a_missing_directory_fires() {
    let files = Sandbox::new();
    files.unit("eye", "type: path\npath-exists: DIR/a/b/flag\nactivates: server");
    files.unit("server", "exec-start: DAEMON");
    let init = Boot::new(files).start("eye");
    init.when_state("eye", "running");
    assert_eq!(init.status().state("server"), "disabled");
    fs::create_dir(init.sandbox.path("a")).unwrap();
    fs::create_dir(init.sandbox.path("a/b")).unwrap();
    fs::write(init.sandbox.path("a/b/flag"), "").unwrap();
    init.when_state("server", "running");
    init.finish();
}

#[test]
fn directory_that_stays_non_empty_fires_again_after_the_unit_has_exited() {
    let files = Sandbox::new();
    files.unit(
        "spool",
        "type: path\npath-directory-not-empty: DIR/spool\npath-make-directory: yes\nactivates: job",
    );
    files.unit(
        "job",
        "type: oneshot\nexec-start: DAEMON --exit 0 --ready-on-order --control DIR/order --trace DIR/job",
    );
    let init = Boot::new(files).start("spool");
    until("the spool is made", || init.sandbox.path("spool").is_dir().then_some(()));
    fs::write(init.sandbox.path("spool/one"), "").unwrap();
    until_started(&init.sandbox, "job", 1);
    init.sandbox.order("order", "ready");
    until_started(&init.sandbox, "job", 2);
    fs::remove_file(init.sandbox.path("spool/one")).unwrap();
    init.sandbox.order("order", "ready");
    init.when_state("job", "disabled");
    assert_eq!(starts(&init.sandbox, "job"), 2);
    init.finish();
}

#[test]
fn changed_file_fires_once_for_each_change() {
    let files = Sandbox::new();
    files.put("conf", "1");
    files.unit("eye", "type: path\npath-changed: DIR/conf\nactivates: job");
    files.unit("job", JOB);
    let init = Boot::new(files).start("eye");
    init.when_state("eye", "running");
    let mut changes = 0;
    // A change before the watch exists, or while the job runs, does not count; the file is changed
    // again after a while.
    let mut fires = |change: &dyn Fn(usize)| {
        init.when_state("job", "disabled");
        let before = starts(&init.sandbox, "job");
        until("the change is noticed", || {
            changes += 1;
            change(changes);
            within(Duration::from_secs(1), || (starts(&init.sandbox, "job") > before).then_some(()))
        });
    };
    for _ in 1..=3 {
        fires(&|round| fs::write(init.sandbox.path("conf"), round.to_string()).unwrap());
    }
    // Replaced by another file with that name.
    fires(&|_| {
        init.sandbox.put("conf", "new");
    });
    init.when_state("job", "disabled");
    let started = starts(&init.sandbox, "job");
    assert!((4..=changes).contains(&started), "{started} starts for {changes} changes");
    init.finish();
}

#[test]
fn glob_fires_for_a_match_and_frequent_firings_are_limited() {
    let files = Sandbox::new();
    fs::create_dir(files.path("in")).unwrap();
    files.unit("eye", "type: path\npath-exists-glob: DIR/in/*.job\nactivates: job");
    files.unit("job", JOB);
    let init = Boot::new(files).start("eye");
    init.when_state("eye", "running");
    fs::write(init.sandbox.path("in/x.txt"), "").unwrap();
    fs::write(init.sandbox.path("in/x.job"), "").unwrap();
    until_started(&init.sandbox, "job", 1);
    until("init logs the pause", || init.output().contains("eye: fires too often").then_some(()));
    let before = starts(&init.sandbox, "job");
    assert!(before >= 15, "{before} starts");
    fs::remove_file(init.sandbox.path("in/x.job")).unwrap();
    let stats = init.tell("stats", &json!({}));
    assert!(stats["wakeups"].as_u64().unwrap() < 2_000);
    init.finish();
}

#[test]
fn start_by_a_trigger_has_the_firing_as_its_cause_in_the_events() {
    let files = Sandbox::new();
    files.unit("eye", "type: path\npath-exists: DIR/flag\nactivates: server");
    files.unit("server", "exec-start: DAEMON");
    let init = Boot::new(files).start("eye");
    init.when_state("eye", "running");
    fs::write(init.sandbox.path("flag"), "").unwrap();
    init.when_state("server", "running");
    let events = init.initctl_json_lines(&["events"]);
    let find = |what: &dyn Fn(&serde_json::Value) -> bool| {
        events.iter().find(|event| what(event)).unwrap_or_else(|| panic!("{events:?}"))
    };
    let fire = find(&|event| event["event"] == "fire");
    assert_eq!(fire["unit"], "eye");
    let start = find(&|event| event["unit"] == "server" && event["from"] == "disabled");
    assert_eq!(start["cause"], fire["seq"], "{start}");
    let before = find(&|event| event["seq"] == fire["cause"]);
    assert_eq!((&before["unit"], &before["to"]), (&json!("eye"), &json!("running")));
    init.finish();
}

#[test]
fn directory_watched_by_two_paths_is_watched_until_neither_needs_it() {
    let files = Sandbox::new();
    fs::create_dir(files.path("real")).unwrap();
    std::os::unix::fs::symlink("real", files.path("link")).unwrap();
    for (eye, place) in [("first", "link"), ("second", "real")] {
        files.unit(
            eye,
            &format!("type: path\npath-exists: DIR/{place}/{eye}\nactivates: {eye}-one"),
        );
        files.unit(&format!("{eye}-one"), "exec-start: DAEMON");
    }
    let init = Boot::new(files).start("second");
    init.when_state("second", "running");
    init.tell("want", &json!({"target": "first"}));
    init.when_state("first", "running");
    init.tell("unwant", &json!({"target": "first"}));
    init.when_state("first", "disabled");
    fs::write(init.sandbox.path("real/second"), "").unwrap();
    init.when_state("second-one", "running");
    init.finish();
}
