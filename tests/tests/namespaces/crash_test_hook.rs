//! Deliberate bugs (`init/src/base/crash_test.rs`): in the state machine, and in the code that runs
//! after a crash.

use super::crash::{has_survived, starts};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use serde_json::json;

fn with_bug(binary: &str) -> Init {
    with_bug_in(binary, "nowhere")
}

/// A boot with a second bug in that place of init, which acts once `DIR/now` exists.
fn with_bug_in(binary: &str, place: &str) -> Init {
    let files = Sandbox::new();
    let there = format!("{place} {}", files.at("now"));
    for (name, text) in [
        ("crash-test", "exec-start: DAEMON --trace DIR/crash-test.trace"),
        ("other", "type: foreground-notified\nexec-start: DAEMON --notify"),
        ("tick", "type: timer\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job"),
        ("job", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/job.trace'"),
        ("all", "type: virtual\nwaits-for: crash-test, other, tick"),
    ] {
        files.unit(name, text);
    }
    let boot = Boot::new(files).binary(binary).variable("GROUNDSTATE_CRASH_IN", &there);
    let init = boot.start("all");
    init.when_state("crash-test", "running");
    init.when_state("other", "running");
    until("init has been running for a while", || {
        (init.sandbox.trace("job.trace").len() > 2).then_some(())
    });
    init
}

#[test]
fn a_request_that_makes_init_panic_is_not_carried_out_after_the_crash() {
    let mut init = with_bug(&program("GROUNDSTATE_DEBUG_INIT", "init"));
    init.expect_crashes();
    let mains = || ["crash-test", "other"].map(|unit| init.main_of(unit));
    let before = mains();
    let mut client = init.client().unwrap();
    client.send("restart", &json!({"targets": ["crash-test"]}));
    has_survived(&init, 1);
    assert!(client.answer().is_none(), "init answers a request that it has not carried out");
    assert!(init.output().contains("a bug on purpose"), "{}", init.output());
    assert_eq!((mains(), starts(&init, "crash-test")), (before, 1));
    // The log names the unit of the event. Status shows it until a client requests the unit again.
    let text = "at an event of crash-test";
    assert!(init.output().contains(text), "{}", init.output());
    let marked = || init.status().reason("crash-test") == "internal";
    assert!(marked() && init.status().reason("other").is_empty(), "{}", init.status().table());
    init.tell("upgrade", &json!({}));
    assert!(marked(), "the mark survives an upgrade");
    init.tell("retry", &json!({"targets": ["crash-test"]}));
    assert!(!marked(), "{}", init.status().table());
    init.finish_after_crash();
}

/// At the start of the unwinding all descriptors for the next image are still open.
#[test]
fn a_panic_while_init_restores_its_state_is_survived() {
    let mut init = with_bug_in(&program("GROUNDSTATE_DEBUG_INIT", "init"), "rescue");
    init.expect_crashes();
    let before = init.main_of("other");
    init.sandbox.put("now", "");
    let mut client = init.client().unwrap();
    client.send("restart", &json!({"targets": ["crash-test"]}));
    has_survived(&init, 2);
    assert!(init.output().contains("on purpose in rescue"), "{}", init.output());
    assert_eq!(init.main_of("other"), before);
    init.finish_after_crash();
}

#[test]
fn new_image_that_panics_at_start_gives_way_to_the_old_one() {
    let mut init = with_bug_in(&program("GROUNDSTATE_DEBUG_INIT", "init"), "resume");
    init.expect_crashes();
    let before = init.main_of("other");
    init.sandbox.put("now", "");
    let refused = init.ask("upgrade", &json!({})).unwrap_err();
    assert!(refused.to_string().contains("crashed at startup"), "{refused}");
    assert!(init.output().contains("on purpose in resume"), "{}", init.output());
    assert_eq!(init.main_of("other"), before);
    init.finish_after_crash();
}

/// Part of the event loop runs outside a turn.
#[test]
fn a_panic_between_two_turns_is_survived() {
    let mut init = with_bug_in(&program("GROUNDSTATE_DEBUG_INIT", "init"), "poll");
    init.expect_crashes();
    let before = init.main_of("other");
    init.sandbox.put("now", "");
    // Init watches the process of the job from time to time.
    has_survived(&init, 1);
    assert!(init.output().contains("on purpose in poll"), "{}", init.output());
    assert_eq!(init.main_of("other"), before);
    init.finish_after_crash();
}

/// By then the descriptors for the next image are closed.
#[test]
fn panic_after_all_units_have_stopped_keeps_the_exit_status() {
    for (place, crashes) in [("end", 1), ("each end", 4)] {
        let mut init = with_bug_in(&program("GROUNDSTATE_DEBUG_INIT", "init"), place);
        init.expect_crashes();
        init.sandbox.put("now", "");
        init.tell("exit", &json!({"code": 3}));
        assert_eq!(init.ended().code(), Some(3), "output: {}", init.output());
        let struck = init.output().matches(&format!("on purpose in {place}")).count();
        assert_eq!(struck, crashes, "{}", init.output());
    }
}

#[test]
fn release_build_has_no_deliberate_bug() {
    let shipped = program("GROUNDSTATE_INIT", "init");
    if shipped == program("GROUNDSTATE_DEBUG_INIT", "init") {
        // `tests/run` has both builds.
        return groundstate_tests::not_run!("this needs a release build");
    }
    let init = with_bug(&shipped);
    init.tell("restart", &json!({"targets": ["crash-test"]}));
    until("it is restarted", || (starts(&init, "crash-test") == 2).then_some(()));
    init.finish();
}
