//! Templates: an instance exists while a request names it.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;

fn one_template() -> Init {
    let files = Sandbox::new();
    files.unit("base", "exec-start: DAEMON");
    files.unit("helper", "exec-start: DAEMON");
    files.unit("job@", "depends-on: helper\nexec-start: DAEMON --trace DIR/%i.trace");
    let init = Boot::new(files).start("base");
    init.when_system("running");
    init
}

fn names(init: &Init) -> Vec<String> {
    let status = init.status();
    let units = status.0["units"].as_array().unwrap();
    units.iter().map(|unit| unit["unit"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn want_makes_an_instance_and_the_next_load_removes_it() {
    let init = one_template();
    let base = init.status().main_pid("base");
    let plan = init.tell("plan", &json!({"targets": ["base"], "want": ["job@a"]}));
    assert_eq!(plan["start"], json!([["helper"], ["job@a"]]), "{plan}");
    assert_eq!(names(&init), ["base", "helper"], "a plan makes nothing");

    let (code, said) = init.initctl_json(&["want", "job@a"]);
    assert_eq!((code, &said["plan"]["start"]), (0, &json!([["helper"], ["job@a"]])), "{said}");
    init.when_state("job@a", "running");
    // The unit counts as running after the exec, before the service is at work.
    until("it is at work", || {
        (init.sandbox.trace("a.trace").last().map(String::as_str) == Some("ready")).then_some(())
    });
    let first = init.status().main_pid("job@a");

    // The goal may name an instance too; an existing one is left alone.
    init.tell("set-target", &json!({"targets": ["job@b"], "want": ["job@a"]}));
    let both = init.when_state("job@b", "running");
    assert_eq!(both.main_pid("job@a"), first);
    init.when_state("base", "disabled");

    init.tell("set-target", &json!({"targets": ["base"]}));
    init.when("both are down", |s| {
        s.state("job@a") == "disabled" && s.state("job@b") == "disabled"
    });
    init.tell("want", &json!({"target": "job@c"}));
    assert_eq!(names(&init), ["base", "helper", "job@c"], "no request names the other instances");
    init.tell("unwant", &json!({"target": "job@c"}));
    init.tell("reload", &json!({}));
    // A unit that is still stopping is shown, although its definition is gone.
    until("the instance is removed", || (names(&init) == ["base", "helper"]).then_some(()));
    assert_ne!(init.status().main_pid("base"), base, "it was stopped in between");
    init.finish();
}

#[test]
fn unknown_instance_is_refused_and_changes_nothing() {
    let init = one_template();
    let generation = init.status().0["generation"].clone();
    let refused = init.ask("want", &json!({"target": "nope@a"})).unwrap_err();
    assert_eq!(refused["kind"], "unknown-target", "{refused}");
    let refused = init.ask("want", &json!({"target": "job@"})).unwrap_err();
    assert_eq!(refused["kind"], "unknown-target", "{refused}");
    // A request must not load an edit of the operator.
    init.sandbox.unit("base", "exec-start: DAEMON --name other");
    init.sandbox.unit("job@", "exec-start: DAEMON --name edited");
    let refused = init.ask("want", &json!({"target": "job@a"})).unwrap_err();
    assert_eq!(refused["kind"], "changed", "{refused}");
    assert_eq!(init.status().0["generation"], generation);
    init.tell("reload", &json!({}));
    init.tell("want", &json!({"target": "job@a"}));
    init.when_state("job@a", "running");
    init.finish();
}
