//! A bug on purpose (`init/src/crash_test.rs`), which meets init again when it goes back.

use super::crash::{has_survived, starts};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use serde_json::json;

fn with_bug(binary: &str) -> Init {
    let files = Sandbox::new();
    for (name, text) in [
        ("crash-test", "exec-start: DAEMON --trace DIR/crash-test.trace"),
        ("other", "type: foreground-notified\nexec-start: DAEMON --notify"),
        ("tick", "type: timer\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job"),
        ("job", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/job.trace'"),
        ("all", "type: virtual\nwaits-for: crash-test, other, tick"),
    ] {
        files.unit(name, text);
    }
    let init = Boot::new(files).binary(binary).start("all");
    init.when_state("crash-test", "running");
    init.when_state("other", "running");
    until("it has begun some time ago", || {
        (init.sandbox.trace("job.trace").len() > 2).then_some(())
    });
    init
}

#[test]
fn what_makes_init_panic_is_left_out_when_it_goes_back() {
    let mut init = with_bug(&program("GROUNDSTATE_DEBUG_INIT", "init"));
    init.expect_crashes();
    let mains = || ["crash-test", "other"].map(|unit| init.main_of(unit));
    let before = mains();
    let mut client = init.client().unwrap();
    client.send("restart", &json!({"targets": ["crash-test"]}));
    // It panics, goes back, panics at the same wish, and goes back without it.
    has_survived(&init, 2);
    assert!(client.answer().is_none(), "nobody says that it was done");
    assert!(init.output().contains("a bug on purpose"), "{}", init.output());
    assert_eq!((mains(), starts(&init, "crash-test")), (before, 1));
    init.finish_after_crash();
}

#[test]
fn a_build_that_is_shipped_has_no_bug_on_purpose() {
    let shipped = program("GROUNDSTATE_INIT", "init");
    if shipped == program("GROUNDSTATE_DEBUG_INIT", "init") {
        // Not by `tests/run`, which has both.
        return;
    }
    let init = with_bug(&shipped);
    init.tell("restart", &json!({"targets": ["crash-test"]}));
    until("it is restarted", || (starts(&init, "crash-test") == 2).then_some(()));
    init.finish();
}
