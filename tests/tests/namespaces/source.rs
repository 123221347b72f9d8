//! Sources: sets of unit files that a controller provides and owns.

use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::sandbox::{Sandbox, program};
use serde_json::Value;
use std::process::Command;

fn files() -> Sandbox {
    let files = Sandbox::new();
    files.put("init.yaml", "sources:\n  fleet: {uid: 65534}\n  other: {uid: 0}\n");
    files.unit("base", "exec-start: DAEMON --name base");
    files
}

/// Writes a file for a source and returns its path.
fn file(init: &Init, name: &str, text: &str) -> String {
    let text = text.replace("DAEMON", &program("GROUNDSTATE_DAEMON", "daemon"));
    init.sandbox.put(name, &format!("{text}\n"));
    init.sandbox.at(name)
}

fn web(init: &Init) -> String {
    file(init, "web.yaml", "unit: web\nwaits-for: db\nexec-start: DAEMON --name web")
}

fn db(init: &Init) -> String {
    file(init, "db.yaml", "unit: db\nexec-start: DAEMON --name db")
}

fn put(init: &Init, words: &[&str]) -> Value {
    let (code, said) = init.initctl_json(&[&["source", "put", "fleet"], words].concat());
    assert_eq!(code, 0, "{words:?}: {said}");
    said
}

fn fleet(init: &Init) -> Value {
    let (code, said) = init.initctl_json(&["source", "list"]);
    assert_eq!(code, 0, "{said}");
    said["sources"][0].clone()
}

#[test]
fn put_starts_its_roots_and_the_next_put_changes_only_differences() {
    let init = Boot::new(files()).start("base");
    init.when_system("running");
    let (web, db) = (web(&init), db(&init));
    let said = put(&init, &[&web, &db, "--root", "web"]);
    assert_eq!((&said["source"], &said["revision"]), (&"fleet".into(), &1.into()), "{said}");
    assert_eq!(said["plan"]["start"], serde_json::json!([["db"], ["web"]]));
    assert_eq!(said["plan"]["sources"]["web"], "fleet");
    let before = init.when_state("web", "running");
    assert_eq!(before.unit("web")["source"], "fleet");
    assert_eq!(before.unit("base")["source"], Value::Null);
    assert_eq!(before.0["goal"], serde_json::json!(["base"]));
    assert_eq!(before.0["sources"][0]["roots"], serde_json::json!(["web"]));
    let text = |words: &[&str]| String::from_utf8(init.initctl(words).stdout).unwrap();
    for words in [&["why", "web"][..], &["status", "web"]] {
        assert!(text(words).contains("source fleet"), "{}", text(words));
    }
    let said = put(&init, &[&db, "--root", "db"]);
    assert_eq!(said["revision"], 2);
    let after =
        init.when("web is removed", |status| status.0["units"].as_array().unwrap().len() == 2);
    assert_eq!(after.main_pid("db"), before.main_pid("db"));
    assert_eq!(after.main_pid("base"), before.main_pid("base"));
    let listed = fleet(&init);
    assert_eq!((&listed["revision"], &listed["uid"]), (&2.into(), &65534.into()));
    assert_eq!(listed["files"], serde_json::json!(["db.yaml"]));
    let (code, dropped) = init.initctl_json(&["source", "drop", "fleet"]);
    assert_eq!((code, &dropped["revision"]), (0, &3.into()));
    init.when("db is removed", |status| status.0["units"].as_array().unwrap().len() == 1);
    init.finish();
}

#[test]
fn drop_ins_of_the_machine_apply_to_units_of_a_source() {
    let files = files();
    for folder in ["web.d", "job.service.d"] {
        std::fs::create_dir(files.path("units").join(folder)).unwrap();
    }
    files.put("units/web.d/10-here.yaml", "env: {HERE: native}\n");
    files.put("units/job.service.d/10-here.conf", "[Service]\nEnvironment=HERE=imported\n");
    let init = Boot::new(files).start("base");
    init.when_system("running");
    let web = file(&init, "web.yaml", "unit: web\nexec-start: DAEMON --name web");
    let job = file(&init, "job.service", "[Service]\nExecStart=DAEMON --name job");
    put(&init, &[&web, &job, "--root", "web", "--root", "job.service"]);
    for (unit, word) in [("web", "native"), ("job.service", "imported")] {
        init.when_state(unit, "running");
        assert_eq!(init.main_of(unit).environment()["HERE"], word, "{unit}");
    }
    init.finish();
}

#[test]
fn put_with_the_wrong_revision_is_refused_and_changes_nothing() {
    let init = Boot::new(files()).start("base");
    init.when_system("running");
    let (web, db) = (web(&init), db(&init));
    put(&init, &[&web, &db, "--root", "web", "--expect", "0"]);
    init.when_state("web", "running");
    let (code, said) =
        init.initctl_json(&["source", "put", "fleet", &db, "--root", "db", "--expect", "0"]);
    assert_eq!((code, &said["error"]["kind"]), (65, &"revision".into()), "{said}");
    assert_eq!(fleet(&init)["files"], serde_json::json!(["db.yaml", "web.yaml"]));
    assert_eq!(init.status().state("web"), "running");
    let (code, said) = init.initctl_json(&["source", "put", "flet", &db]);
    assert_eq!((code, &said["error"]["kind"]), (64, &"unknown-source".into()), "{said}");
    init.finish();
}

#[test]
fn mistakes_of_a_source_break_only_its_own_units() {
    let init = Boot::new(files()).start("base");
    init.when_system("running");
    let db = db(&init);
    let bad = file(&init, "bad.yaml", "unit: bad\nexec-strat: DAEMON");
    let thief = file(&init, "thief.yaml", "unit: thief\nprovides: base\nexec-start: DAEMON");
    let roots = ["--root", "db", "bad", "thief"];
    let said = put(&init, &[&[db.as_str(), &bad, &thief][..], &roots].concat());
    let codes: Vec<&str> = said["diagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|found| found["code"].as_str())
        .collect();
    assert!(codes.contains(&"unknown-key") && codes.contains(&"double-claim"), "{said}");
    let status = init.when_state("db", "running");
    assert_eq!(status.reason("bad"), "config");
    assert_eq!(status.reason("thief"), "conflict");
    assert_eq!(status.state("base"), "running");
    // Neither mistake stops the operator from reloading, and the reload keeps the source.
    init.sandbox.unit("base", "exec-start: DAEMON --name base2");
    let reload = init.initctl(&["reload"]);
    assert!(reload.status.success(), "{}", String::from_utf8_lossy(&reload.stderr));
    let after = init.when("base is restarted", |s| {
        s.state("base") == "running" && s.main_pid("base") != status.main_pid("base")
    });
    assert_eq!(after.main_pid("db"), status.main_pid("db"));
    init.finish();
}

#[test]
fn put_loads_no_edit_of_the_operator_and_keeps_masks() {
    let files = files();
    files.unit("base", "wants: side\nexec-start: DAEMON --name base");
    files.unit("side", "exec-start: DAEMON --name side");
    let init = Boot::new(files).start("base");
    let before = init.when_state("side", "running");
    assert!(init.initctl(&["mask", "--runtime", "side"]).status.success());
    init.when_state("side", "disabled");
    init.sandbox.unit("base", "exec-start: DAEMON --name edited");
    put(&init, &[&db(&init), "--root", "db"]);
    let after = init.when_state("db", "running");
    assert_eq!(after.state("side"), "disabled");
    assert_eq!(after.main_pid("base"), before.main_pid("base"));
    init.finish();
}

#[test]
fn sources_survive_a_new_start_of_init() {
    let init = Boot::new(files()).way(Way::Supervisor).start("base");
    init.when_system("running");
    put(&init, &[&db(&init), "--root", "db"]);
    init.when_state("db", "running");
    let sandbox = init.finish_and_keep();
    let init = Boot::new(sandbox).way(Way::Supervisor).start("base");
    let status = init.when_state("db", "running");
    assert_eq!(status.unit("db")["source"], "fleet");
    assert_eq!(fleet(&init)["revision"], 1);
    init.finish();
}

#[test]
fn put_with_a_broken_file_succeeds_with_a_warning() {
    let init = Boot::new(files()).start("base");
    init.when_system("running");
    let bad = file(&init, "bad.yaml", "unit: bad\nexec-strat: DAEMON");
    let told = init.initctl(&["source", "put", "fleet", &db(&init), &bad, "--root", "db"]);
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    let warned = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(warned.contains("warning: errors in 1 file of source fleet"), "{warned}");
    init.when_state("db", "running");
    init.finish();
}

#[test]
fn owner_of_a_source_may_put_only_that_source() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = Boot::new(files()).start("base");
    init.when_system("running");
    let db = db(&init);
    let as_owner = |words: &[&str]| {
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(program("GROUNDSTATE_INITCTL", "initctl"))
            .args(["--json", "--socket", &init.sandbox.at("run/control.sock"), "source"])
            .args(words)
            .output()
            .expect("setpriv runs");
        output.status.code()
    };
    assert_eq!(as_owner(&["put", "other", &db]), Some(77));
    assert_eq!(as_owner(&["drop", "other"]), Some(77));
    assert_eq!(as_owner(&["put", "fleet", &db, "--root", "db"]), Some(0));
    assert_eq!(as_owner(&["list"]), Some(0));
    init.when_state("db", "running");
    init.finish();
}

#[test]
fn enabled_instance_survives_a_put_of_its_template() {
    let init = Boot::new(files()).start("base");
    init.when_system("running");
    let job = "unit: job@\nwanted-by: base\nexec-start: DAEMON --name %i";
    let (job, db) = (file(&init, "job@.yaml", job), db(&init));
    put(&init, &[&job]);
    init.tell("policy", &serde_json::json!({"policy": {"enable": ["job@x"]}}));
    let before = init.when_state("job@x", "running");
    put(&init, &[&job, &db, "--root", "db"]);
    let after = init.when_state("db", "running");
    assert_eq!(after.main_pid("job@x"), before.main_pid("job@x"));
    init.finish();
}
