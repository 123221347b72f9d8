//! The goal and the overlay: which units start, stop and keep running, and the reports of init.

use groundstate_tests::boot::Boot;
use groundstate_tests::extent::turns;
use groundstate_tests::sandbox::Sandbox;
use serde_json::{Value, json};

fn two_targets() -> Sandbox {
    let files = Sandbox::new();
    files.unit("shared", "exec-start: DAEMON");
    files.unit("left", "depends-on: shared\nexec-start: DAEMON --trace DIR/left.trace");
    files.unit("right", "depends-on: shared\nexec-start: DAEMON");
    files
}

#[test]
fn change_of_goal_keeps_units_that_both_goals_need() {
    let init = Boot::new(two_targets()).start("left");
    let before = init.when("the service handles signals", |s| {
        s.system() == "running" && init.sandbox.trace("left.trace").contains(&"ready".to_owned())
    });
    let answer = init.tell("set-target", &json!({"targets": ["right"]}));
    assert_eq!(answer["schema"], 1);
    let after = init.when("only the right one runs", |s| {
        s.system() == "running" && s.state("left") == "disabled"
    });
    assert_eq!(after.main_pid("shared"), before.main_pid("shared"));
    assert_eq!(after.0["goal"], json!(["right"]));
    assert!(init.sandbox.trace("left.trace").contains(&"term".to_owned()));
    init.finish();
}

#[test]
fn empty_goal_is_refused_and_changes_nothing() {
    let init = Boot::new(two_targets()).start("left");
    init.when_system("running");
    init.tell("want", &json!({"target": "right"}));
    let before = init.when_system("running");
    for goal in [json!({"targets": []}), json!({"targets": [], "want": ["shared"]})] {
        let refused = init.ask("set-target", &goal).unwrap_err();
        assert_eq!(refused["kind"], "usage", "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("no target is named"), "{refused}");
    }
    let after = init.status();
    assert_eq!(after.0["goal"], json!(["left"]));
    assert_eq!(after.0["overlay"], before.0["overlay"]);
    init.finish();
}

#[test]
fn plan_reports_the_changes_and_makes_none() {
    let init = Boot::new(two_targets()).start("left");
    init.when_system("running");
    let plan = init.tell("plan", &json!({"targets": ["right"]}));
    assert_eq!(plan["stop"], json!([["left"]]));
    assert_eq!(plan["start"], json!([["right"]]));
    assert_eq!(plan["keep"], json!(["shared"]));
    assert_eq!(plan["restart"], json!([]));
    assert_eq!(init.status().state("left"), "running");
    init.finish();
}

#[test]
fn why_names_the_root_cause() {
    let files = Sandbox::new();
    files.unit("disk", "type: oneshot\nexec-start: DAEMON --exit 4");
    files.unit("db", "depends-on: disk\nexec-start: DAEMON");
    files.unit("web", "depends-on: db\nexec-start: DAEMON");
    let init = Boot::new(files).start("web");
    init.when_state("web", "failed");
    let why = init.tell("why", &json!({"target": "web"}));
    let chain = why["chain"].as_array().unwrap();
    let units: Vec<&str> = chain.iter().filter_map(|link| link["unit"].as_str()).collect();
    assert_eq!(units.last(), Some(&"disk"), "{why}");
    assert_eq!(chain.last().unwrap()["reason"]["code"], 4, "{why}");
    init.finish();
}

#[test]
fn want_adds_to_the_goal_until_unwant() {
    let files = two_targets();
    files.unit("tool", "exec-start: DAEMON");
    let init = Boot::new(files).start("left");
    init.when_system("running");
    init.tell("want", &json!({"target": "tool"}));
    let status = init.when_state("tool", "running");
    assert_eq!(status.0["overlay"]["want"], json!(["tool"]));
    assert_eq!(status.0["goal"], json!(["left"]));
    init.tell("unwant", &json!({"target": "tool"}));
    init.when_state("tool", "disabled");
    init.finish();
}

#[test]
fn want_with_a_time_limit_ends_by_itself() {
    let files = two_targets();
    files.unit("tool", "exec-start: DAEMON");
    let init = Boot::new(files).start("left");
    init.when_system("running");
    init.tell("want", &json!({"target": "tool", "for-ms": 3000}));
    init.when_state("tool", "running");
    init.when_state("tool", "disabled");
    init.finish();
}

#[test]
fn dependents_stop_before_their_dependencies() {
    let files = Sandbox::new();
    files.unit("db", "exec-start: DAEMON --name db --trace DIR/trace");
    files.unit("web", "depends-on: db\nready-grep: ^trapped\nexec-start: /bin/sh -c 'trap \"echo web down >> DIR/trace; exit 0\" TERM; echo trapped; while :; do read x < DIR/never; done'");
    files.unit("none", "type: virtual");
    nix::unistd::mkfifo(&files.path("never"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let init = Boot::new(files).start("web");
    init.when_system("running");
    init.tell("set-target", &json!({"targets": ["none"]}));
    init.when("both are down", |s| s.state("db") == "disabled" && s.state("web") == "disabled");
    let trace = init.sandbox.trace("trace");
    let place = |word: &str| trace.iter().position(|w| w == word);
    assert!(place("web down").is_some() && place("web down") < place("term"), "{trace:?}");
    init.finish();
}

#[test]
fn unknown_goal_is_refused_and_changes_nothing() {
    let init = Boot::new(two_targets()).start("left");
    let before = init.when_system("running");
    let error = init.ask("set-target", &json!({"targets": ["lfet"]})).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("lfet"), "{error}");
    let after = init.status();
    assert_eq!(after.main_pid("left"), before.main_pid("left"));
    assert_eq!(after.0["generation"], before.0["generation"]);
    init.finish();
}

#[test]
fn max_starting_limits_concurrent_starts() {
    let files = Sandbox::new();
    files.put("init.yaml", "max-starting: 2\n");
    for unit in ["a", "b", "c"] {
        files.unit(unit, &format!("type: foreground-notified\nexec-start: DAEMON --notify --ready-on-order --control DIR/{unit}"));
    }
    files.unit("all", "type: virtual\nwaits-for: a, b, c");
    let init = Boot::new(files).start("all");
    let status = init.when("two of them are starting", |s| {
        ["a", "b", "c"].iter().filter(|unit| s.state(unit) == "starting").count() == 2
    });
    assert_eq!(status.state("c"), "waiting");
    assert_eq!(status.reason("c"), "slot");
    for unit in ["a", "b", "c"] {
        init.sandbox.order(unit, "ready");
    }
    init.when_system("running");
    init.finish();
}

#[test]
fn max_starting_holds_with_many_startable_units() {
    const PLACES: usize = 4;
    let count = turns(200, 10_000);
    let files = Sandbox::new();
    files.put("init.yaml", &format!("max-starting: {PLACES}\n"));
    let names: Vec<String> = (0..count).map(|number| format!("u{number}")).collect();
    for name in &names {
        files.unit(name, "type: oneshot\nlog: null\nexec-start: /bin/true");
    }
    // A unit may name at most four thousand others.
    let mut groups = Vec::new();
    for part in names.chunks(1_000) {
        let group = format!("group{}", groups.len());
        files.unit(&group, &format!("type: virtual\nwaits-for: {}", part.join(", ")));
        groups.push(group);
    }
    files.unit("all", &format!("type: virtual\nwaits-for: {}", groups.join(", ")));
    let mut init = Boot::new(files).start("all");
    init.when_system("running");
    init.tell("ping", &json!({}));
    let (mut starting, mut most, mut started) = (0_usize, 0, 0);
    for line in init.sandbox.read("record").lines() {
        let told: Value = serde_json::from_str(line).expect("a line of the record");
        let notes = told["actions"].as_array().into_iter().flatten().map(|action| &action["Note"]);
        for note in notes.filter(|note| note["unit"].as_str().is_some_and(|it| it.starts_with('u')))
        {
            started += usize::from(note["to"] == "starting");
            starting += usize::from(note["to"] == "starting");
            starting -= usize::from(note["from"] == "starting");
        }
        most = starting.max(most);
    }
    assert_eq!((most, started, starting), (PLACES, count, 0));
    init.may_keep_this_much();
    init.finish();
}
