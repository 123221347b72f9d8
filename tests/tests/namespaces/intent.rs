//! What a machine was told outlives the loss of its state: its goal and overlay, and the end that is under
//! way. What is told by what lives is in [`super::beside`].

use super::beside::{begins_anew, is_steady, loses_its_state, with};
use super::crash::starts;
use super::survival::{memories_at_rest, memories_now};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::program;
use nix::sys::signal::Signal;
use serde_json::json;

const WEB: &str = "exec-start: DAEMON --trace DIR/web.trace --control DIR/web";
const DB: &str = "exec-start: DAEMON --trace DIR/db.trace --control DIR/db";

fn traced(init: &Init, unit: &str) -> Vec<String> {
    init.sandbox.trace(&format!("{unit}.trace"))
}

#[test]
fn a_goal_and_an_overlay_are_what_they_were_when_the_state_is_lost() {
    let files = with(&[("web", WEB), ("db", DB)]);
    files.unit("rescue", "type: virtual\nwaits-for: tick, db");
    files.unit("extra", "exec-start: DAEMON --trace DIR/extra.trace");
    files.unit("job@", "exec-start: DAEMON --trace DIR/instance.trace");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when("all is there", |s| {
        let has_begun = |unit| s.state(unit) == "running" && starts(&init, unit) == 1;
        has_begun("web") && has_begun("db")
    });
    init.tell("set-target", &json!({"targets": ["rescue"], "drop": ["db"]}));
    init.tell("want", &json!({"target": "extra", "for_ms": 3_600_000}));
    init.tell("want", &json!({"target": "job@x"}));
    let is_so = |init: &Init| {
        init.when("it is as it was told", |s| {
            s.state("web") == "disabled"
                && s.state("db") == "disabled"
                && s.state("extra") == "running"
                && s.state("job@x") == "running"
        });
        let status = init.status().0;
        (status["goal"].clone(), status["overlay"].clone(), status["booted"].clone())
    };
    let was = is_so(&init);
    let (extra, instance) = (init.main_of("extra"), init.main_of("job@x"));
    for _ in 0..2 {
        begins_anew(&init);
        assert_eq!(is_so(&init), was);
    }
    assert_eq!((init.main_of("extra"), init.main_of("job@x")), (extra, instance));
    let begun = ["web", "db", "extra", "instance"].map(|unit| starts(&init, unit));
    assert_eq!(begun, [1, 1, 1, 1]);
    // An image that goes on writes it down as well.
    init.tell("upgrade", &json!({}));
    init.tell("unwant", &json!({"target": "job@x"}));
    init.when("it is gone", |s| s.state("job@x") != "running");
    begins_anew(&init);
    init.when_state("extra", "running");
    assert_eq!(init.status().0["goal"], was.0);
    assert_eq!((starts(&init, "web"), starts(&init, "instance")), (1, 1));
    init.finish_after_crash();
}

#[test]
fn an_end_under_way_begins_nothing_when_the_state_is_lost() {
    let mount = "type: oneshot\nexec-start: /bin/sh -c 'echo mount >>DIR/NAME.trace'\nexec-stop: /bin/sh -c 'echo umount >>DIR/NAME.trace'";
    let stubborn = "depends-on: root\nstop-timeout: 60s\nexec-start: DAEMON --ignore TERM --trace DIR/stub.trace --control DIR/stub";
    let files = with(&[
        ("web", WEB),
        ("root", &mount.replace("NAME", "root")),
        ("mnt", &mount.replace("NAME", "mnt")),
        ("stub", stubborn),
    ]);
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when("all is there", |s| {
        s.state("web") == "running" && s.state("stub") == "running" && s.state("mnt") == "exited"
    });
    until("they have written that they were begun", || {
        ["web", "stub"].iter().all(|unit| starts(&init, unit) == 1).then_some(())
    });
    let (web, stub) = (init.main_of("web"), init.main_of("stub"));
    init.tell("exit", &json!({}));
    until("all but one have ended", || {
        (!web.is_alive() && traced(&init, "mnt").len() == 2).then_some(())
    });
    let (mut steps, kept) = memories_now(&init);
    kept.iter().for_each(|(_, state)| state.set_len(0).unwrap());
    steps.crash();
    drop(steps);
    until("it goes on with the end", || {
        let output = init.output();
        let (_, after) = output.split_once("begins anew")?;
        after.contains("stopping everything").then_some(())
    });
    assert!(stub.is_alive(), "{}", init.output());
    stub.signal(Signal::SIGKILL);
    assert_eq!(init.ended().code(), Some(0));
    assert_eq!(traced(&init, "mnt"), ["mount", "umount"]);
    // What was done and not yet undone is undone, once.
    assert_eq!(traced(&init, "root"), ["mount", "umount"]);
    assert_eq!((starts(&init, "web"), starts(&init, "stub")), (1, 1));
}

/// It says so as it is stopped in order.
const ORDERLY: &str = "exec-start: DAEMON --trace DIR/web.trace\nexec-stop: /bin/sh -c 'echo stopped >>DIR/stop.trace'";

#[test]
fn an_end_asked_for_just_before_the_state_is_lost_is_an_orderly_one() {
    let mut init = Boot::new(with(&[("web", ORDERLY)])).start("all");
    init.expect_crashes();
    init.when_state("web", "running");
    is_steady(&init);
    let (mut steps, kept) = memories_at_rest(&init);
    kept.iter().for_each(|(_, state)| state.set_len(0).unwrap());
    // Nobody has dealt with it yet: the next image hears it before it has read a unit file.
    init.process().signal(Signal::SIGTERM);
    steps.crash();
    drop(steps);
    assert_eq!(init.ended().code(), Some(0));
    assert!(init.output().contains("begins anew"), "{}", init.output());
    assert_eq!(init.sandbox.trace("stop.trace"), ["stopped"], "{}", init.output());
}

#[test]
fn an_end_asked_for_while_no_unit_file_can_be_had_is_an_orderly_one_when_they_are_back() {
    let files = with(&[("web", ORDERLY)]);
    let there = format!("loader {}", files.at("now"));
    let binary = program("GROUNDSTATE_DEBUG_INIT", "init");
    let boot = Boot::new(files).binary(&binary).variable("GROUNDSTATE_CRASH_IN", &there);
    let mut init = boot.unrecorded().start("all");
    init.expect_crashes();
    init.when_state("web", "running");
    is_steady(&init);
    init.sandbox.put("now", "");
    loses_its_state(&init);
    until("more than those at once have failed", || {
        (init.output().matches("the loader ended").count() > 7).then_some(())
    });
    // It waits for a while until it tries again.
    std::fs::remove_file(init.sandbox.path("now")).unwrap();
    init.process().signal(Signal::SIGTERM);
    assert_eq!(init.ended().code(), Some(0));
    assert_eq!(init.sandbox.trace("stop.trace"), ["stopped"], "{}", init.output());
}

/// It goes when it is killed, and not before.
const STUBBORN: &str =
    "depends-on: db\nstop-timeout: 60s\nexec-start: DAEMON --ignore TERM --trace DIR/web.trace";

#[test]
fn an_end_that_was_hastened_is_not_waited_for_when_the_state_is_lost() {
    const SAID: &str = "nothing is waited for any more";
    let mut init = Boot::new(with(&[("db", DB), ("web", STUBBORN)])).start("all");
    init.expect_crashes();
    init.when_state("web", "running");
    until("it has begun", || (starts(&init, "web") == 1).then_some(()));
    init.tell("exit", &json!({"code": 3}));
    init.when_state("web", "stopping");
    let mut client = init.client().expect("it listens");
    let (mut steps, kept) = memories_now(&init);
    client.send("hasten", &json!({}));
    while !init.output().contains(SAID) {
        steps.step().expect("it goes on");
    }
    kept.iter().for_each(|(_, state)| state.set_len(0).unwrap());
    steps.crash();
    drop(steps);
    assert_eq!(init.ended().code(), Some(3), "{}", init.output());
    let output = init.output();
    let (_, after) = output.split_once("begins anew").expect("its state was lost");
    assert!(after.contains(SAID), "{after}");
}

#[test]
fn a_goal_that_has_died_ends_nobody_when_the_state_is_lost() {
    let files = with(&[("web", WEB), ("db", DB)]);
    files.unit("all", "type: virtual\ndepends-on: web\nwaits-for: tick, db");
    files.unit("emergency", "type: virtual\nwaits-for: tick");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when("all is there", |s| s.state("web") == "running" && s.state("db") == "running");
    let (web, db) = (init.main_of("web"), init.main_of("db"));
    init.sandbox.put("units/web.yaml", "unit: web\nexec-start: [\n");
    begins_anew(&init);
    init.when("it is failed", |s| s.state("web") == "failed" && s.state("all") == "failed");
    init.when_state("db", "running");
    assert_eq!(init.status().0["goal"], json!(["all"]));
    // Corrected, it is as before.
    init.sandbox.unit("web", WEB);
    init.tell("reload", &json!({}));
    init.when("all is there", |s| s.state("web") == "running" && s.state("all") == "running");
    assert_eq!((init.main_of("web"), init.main_of("db")), (web, db));
    assert_eq!((starts(&init, "web"), starts(&init, "db")), (1, 1));
    init.finish_after_crash();
}

#[test]
fn what_a_timer_has_fired_since_the_boot_it_does_not_fire_again_when_the_state_is_lost() {
    let files =
        with(&[("early", "type: timer\ntimer-startup: 100ms\ntimer-boot: 1ms\nactivates: once")]);
    files.unit("once", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/once.trace'");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    // Both of them, where they are not one.
    init.when_state("early", "running");
    until("it has fired", || (!traced(&init, "once").is_empty()).then_some(()));
    begins_anew(&init);
    init.when_state("early", "running");
    let (fired, ticks) = (traced(&init, "once").len(), traced(&init, "job").len());
    until("time has gone", || (traced(&init, "job").len() > ticks + 4).then_some(()));
    assert_eq!(traced(&init, "once").len(), fired);
    assert!(fired <= 2, "{fired}");
    init.finish_after_crash();
}
