//! Reload: all unit files at once, or nothing; and the policy.

use super::race::FORKS;
use groundstate_tests::boot::Boot;
use groundstate_tests::crash::Steps;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;
use std::process::Command;

fn pair() -> Sandbox {
    let files = Sandbox::new();
    files.unit("db", "exec-start: DAEMON --name db");
    files.unit("web", "waits-for: db\nexec-start: DAEMON --name web");
    files
}

#[test]
fn reload_restarts_only_changed_units() {
    let init = Boot::new(pair()).start("web");
    let before = init.when_system("running");
    init.sandbox.unit("web", "waits-for: db\nexec-start: DAEMON --name web2");
    init.tell("reload", &json!({}));
    let after = init.when("web is restarted", |s| {
        s.state("web") == "running" && s.main_pid("web") != before.main_pid("web")
    });
    assert_eq!(after.main_pid("db"), before.main_pid("db"));
    assert_ne!(after.0["generation"], before.0["generation"]);
    init.finish();
}

#[test]
fn reload_without_changes_does_nothing() {
    let init = Boot::new(pair()).start("web");
    let before = init.when_system("running");
    init.tell("reload", &json!({}));
    let after = init.status();
    for unit in ["db", "web"] {
        assert_eq!(after.main_pid(unit), before.main_pid(unit));
        assert_eq!(after.unit(unit)["since"], before.unit(unit)["since"]);
    }
    init.finish();
}

#[test]
fn mistake_in_a_needed_unit_refuses_the_whole_reload() {
    let init = Boot::new(pair()).start("web");
    let before = init.when_system("running");
    init.sandbox.unit("db", "exec-start: DAEMON --name db2");
    init.sandbox.unit("web", "waits-for: dbb\nexec-start: DAEMON\nexec-strat: x");
    let output = init.initctl(&["--json", "reload"]);
    assert_eq!(output.status.code(), Some(65));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(said["errors"].as_u64() >= Some(2), "both mistakes are reported: {said}");
    let after = init.status();
    for unit in ["db", "web"] {
        assert_eq!(after.main_pid(unit), before.main_pid(unit));
    }
    assert_eq!(after.0["generation"], before.0["generation"]);
    init.finish();
}

#[test]
fn reload_counts_the_warnings_of_imported_files_and_prints_errors_last() {
    let files = pair();
    files.put("init.yaml", &format!("import-dirs: [{}]\n", files.at("imported")));
    std::fs::create_dir(files.path("imported")).unwrap();
    let text = "[Service]\nExecStart=/bin/sleep 1000\nNoSuchKey=1\nNoOtherKey=1\n";
    files.put("imported/package.service", text);
    let init = Boot::new(files).start("web");
    init.when_system("running");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let line = "2 warnings in imported files: `initctl check` lists them\n";
    let reload = init.initctl(&["reload"]);
    assert!(reload.status.success() && text(&reload.stdout).starts_with(line), "{reload:?}");
    let (_, said) = init.initctl_json(&["reload"]);
    assert_eq!(said["diagnostics"].as_array().unwrap().len(), 2, "{said}");
    init.sandbox.unit("web", "waits-for: dbb\nexec-start: DAEMON");
    let refused = text(&init.initctl(&["reload"]).stderr);
    assert!(refused.starts_with(line), "{refused}");
    assert!(!refused.contains("package.service"), "{refused}");
    let end = "hint: did you mean `db`?\ninitctl: refused, nothing has changed\n";
    assert!(refused.ends_with(end), "{refused}");
    let check = text(&init.initctl(&["check"]).stdout);
    let places: Vec<bool> = check
        .lines()
        .filter(|line| line.contains(": warning: ") || line.contains(": error: "))
        .map(|line| line.contains("package.service"))
        .collect();
    assert_eq!(places, [true, true, false], "{check}");
    init.finish();
}

#[test]
fn dependency_ring_is_refused_and_named() {
    let init = Boot::new(pair()).start("web");
    init.when_system("running");
    init.sandbox.unit("db", "depends-on: web\nexec-start: DAEMON --name db");
    let (code, said) = init.initctl_json(&["reload"]);
    assert_eq!(code, 65);
    let text = said.to_string();
    assert!(text.contains("db.yaml") && text.contains("web.yaml"), "{text}");
    init.finish();
}

#[test]
fn sighup_reloads() {
    let init = Boot::new(pair()).start("web");
    init.when_system("running");
    init.sandbox
        .unit("web", "waits-for: db\ndescription: new words\nexec-start: DAEMON --name web2");
    let before = init.status();
    init.process().signal(nix::sys::signal::Signal::SIGHUP);
    init.when("web is restarted", |s| {
        s.state("web") == "running" && s.main_pid("web") != before.main_pid("web")
    });
    init.finish();
}

#[test]
fn mistake_in_an_unneeded_unit_fails_only_that_unit() {
    let init = Boot::new(pair()).start("web");
    init.when_system("running");
    init.sandbox.unit("other", "exec-strat: DAEMON");
    let answer = init.tell("reload", &json!({}));
    assert_eq!(answer["diagnostics"][0]["code"], "unknown-key");
    let status = init.status();
    assert_eq!(status.system(), "running");
    assert_eq!(status.state("other"), "failed");
    assert_eq!(status.reason("other"), "config");
    init.finish();
}

#[test]
fn masked_target_loses_its_provider_at_once() {
    let init = Boot::new(pair()).start("web");
    init.when_system("running");
    let output = init.initctl(&["mask", "--runtime", "db"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let status = init.when_state("db", "disabled");
    assert_eq!(status.state("web"), "running");
    let output = init.initctl(&["unmask", "--runtime", "db"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    init.when_state("db", "running");
    init.finish();
}

#[test]
fn removed_unit_file_stops_its_unit() {
    let files = pair();
    files.unit("extra", "exec-start: DAEMON");
    files.unit("all", "type: virtual\nwants: extra\nwaits-for: web");
    let init = Boot::new(files).start("all");
    init.when_state("extra", "running");
    let process = init.main_of("extra");
    init.sandbox.remove_unit("extra");
    init.tell("reload", &json!({}));
    groundstate_tests::deadline::until("its process has exited", || {
        (!process.is_alive()).then_some(())
    });
    init.when_system("running");
    init.finish();
}

#[test]
fn broken_file_at_boot_fails_only_its_own_units() {
    let files = pair();
    files.put("units/broken.yaml", "unit: broken\n  this: [is not yaml\n");
    let init = Boot::new(files).start("web");
    init.when_system("running");
    init.finish();
}

/// Sets the limit of open files of this process.
fn limit_open_files(process: Process, most: &str) {
    let set = format!("--nofile={most}:");
    let status = Command::new("prlimit").args(["--pid", &process.0.to_string(), &set]).status();
    assert!(status.unwrap().success());
}

#[test]
fn each_client_that_waits_for_a_load_that_cannot_start_gets_an_error() {
    let files = Sandbox::new();
    files.unit("base", "exec-start: DAEMON");
    for number in 0..300 {
        files.unit(&format!("more{number}"), "type: virtual\nwants: base");
    }
    let init = Boot::new(files).start("base");
    init.when_state("base", "running");
    let (most, _) = init.process().limit("Max open files").unwrap();
    let mut client = init.client().unwrap();
    let mut steps = Steps::of(&init);
    for _ in 0..4 {
        client.send("plan", &json!({"reload": true}));
    }
    steps.until(|call| FORKS.contains(&call.number) && call.result > 0);
    // Init is stopped after the first load has started: the other requests wait for it, and their
    // load cannot start.
    limit_open_files(init.process(), "3");
    drop(steps);
    let answers: Vec<_> = (0..4).map(|_| client.answer().expect("an answer to each")).collect();
    limit_open_files(init.process(), &most);
    let told: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
    assert!(!told.is_empty(), "the waiting loads must fail");
    for error in told {
        assert!(error["message"].as_str().unwrap().contains("cannot start the loader"), "{error}");
    }
    init.tell("reload", &json!({}));
    init.finish();
}

#[test]
fn file_of_misspelt_long_targets_does_not_keep_other_units_from_starting() {
    // Each pair of names has the maximum length and differs in a few letters: the worst case for
    // the search for the intended name.
    let name = |kind: &str, n: usize| format!("{kind}{n:04}{}", "abcdefgh".repeat(31));
    let list =
        |kind: &str, count: usize| (0..count).map(|n| name(kind, n)).collect::<Vec<_>>().join(", ");
    let files = Sandbox::new();
    files.unit("bomb", &format!("type: virtual\nprovides: [{}]", list("p", 490)));
    files.unit("fuse", &format!("type: virtual\nwaits-for: [{}]", list("q", 490)));
    files.unit("web", "exec-start: DAEMON");
    let init = Boot::new(files).start("web");
    init.when_state("web", "running");
    init.finish();
}
