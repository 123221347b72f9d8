//! The end: in order, within its time, whatever is under way.

use groundstate_tests::boot::Boot;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn the_end_stops_dependents_first() {
    let files = Sandbox::new();
    for (unit, edge) in
        [("a", ""), ("b", "depends-on: a\n"), ("c", "depends-ms: b\n"), ("d", "waits-for: c\n")]
    {
        let line = format!(
            "{edge}type: background-scripted\nexec-start: /bin/true\nexec-stop: /bin/sh -c 'echo {unit} >> DIR/order'"
        );
        files.unit(unit, &line);
    }
    let mut init = Boot::new(files).start("d");
    init.when_system("running");
    init.tell("poweroff", &json!({}));
    assert_eq!(init.ended().code(), Some(0));
    assert_eq!(init.sandbox.trace("order"), ["d", "c", "b", "a"]);
}

#[test]
fn many_that_ignore_term_take_the_time_of_one() {
    let files = Sandbox::new();
    let names: Vec<String> = (0..20).map(|n| format!("deaf{n}")).collect();
    for name in &names {
        files.unit(name, "stop-timeout: 1s\nexec-start: DAEMON --ignore TERM --trace DIR/trace");
    }
    files.unit("all", &format!("type: virtual\nwaits-for: {}", names.join(", ")));
    let mut init = Boot::new(files).start("all");
    init.when("all block the signal", |s| {
        s.system() == "running"
            && init.sandbox.trace("trace").iter().filter(|w| *w == "ready").count() == 20
    });
    let begin = Instant::now();
    init.tell("exit", &json!({"code": 3}));
    assert_eq!(init.ended().code(), Some(3));
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(900) && took < Duration::from_secs(6), "{took:?}");
}

#[test]
fn the_deadline_ends_what_has_no_timeout() {
    let files = Sandbox::new();
    files.put("init.yaml", "shutdown-deadline: 1s\n");
    files.unit("deaf", "stop-timeout: none\nexec-start: DAEMON --ignore TERM --trace DIR/trace");
    let mut init = Boot::new(files).start("deaf");
    init.when("it is deaf", |s| {
        s.system() == "running" && init.sandbox.trace("trace").contains(&"ready".to_owned())
    });
    init.tell("poweroff", &json!({}));
    assert_eq!(init.ended().code(), Some(0));
}

#[test]
fn nothing_starts_and_no_wish_is_heard_once_the_end_has_begun() {
    let files = Sandbox::new();
    files.unit("slow", "stop-timeout: 2s\nexec-start: DAEMON --ignore TERM --trace DIR/slow");
    files.unit("crash", "restart-delay: 10ms\nexec-start: DAEMON --trace DIR/crash");
    files.unit("all", "type: virtual\nwaits-for: slow, crash");
    let mut init = Boot::new(files).start("all");
    init.when("both run", |s| {
        s.system() == "running" && init.sandbox.trace("slow").contains(&"ready".to_owned())
    });
    init.tell("poweroff", &json!({}));
    assert_eq!(init.status().system(), "stopping");
    let refused = init.ask("set-target", &json!({"targets": ["crash"]}));
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(init.ended().code(), Some(0));
    let starts = init.sandbox.trace("crash").iter().filter(|w| w.starts_with("start")).count();
    assert_eq!(starts, 1);
}

#[test]
fn an_end_during_the_boot_is_an_end() {
    let files = Sandbox::new();
    files.unit("slow", "type: oneshot\nexec-start: DAEMON --ready-on-order --control DIR/slow");
    files.unit("web", "depends-on: slow\nexec-start: DAEMON --trace DIR/web");
    let mut init = Boot::new(files).start("web");
    init.when_state("slow", "starting");
    init.tell("halt", &json!({}));
    assert_eq!(init.ended().code(), Some(0));
    assert_eq!(init.sandbox.trace("web"), Vec::<String>::new());
}
