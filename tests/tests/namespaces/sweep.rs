//! The same few events again and again, and each time a crash of init somewhere else among them:
//! after its next system call, the one after that, and so on. Also a bug on purpose, which
//! meets init again when it goes back.

use super::crash::{crashes, has_survived, starts};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::Steps;
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use nix::sys::signal::Signal;
use serde_json::json;

/// Between two crashes in continuous integration; in the soak it is 1.
const STRIDE: usize = 23;
/// All is done after so many calls.
const CALLS: usize = 420;

fn units() -> Sandbox {
    let files = Sandbox::new();
    for (name, text) in [
        (
            "killed",
            "type: foreground-notified\nrestart-delay: 10ms\nrestart-delay-max: 10ms\nrestart-reset: 1ms\nexec-start: DAEMON --notify --trace DIR/killed.trace",
        ),
        ("replaced", "exec-start: DAEMON --trace DIR/replaced.trace"),
        (
            "talker",
            "type: foreground-notified\nexec-start: DAEMON --notify --control DIR/talker --trace DIR/talker.trace",
        ),
        ("wanted", "type: oneshot\nexec-start: /bin/sh -c 'echo start >>DIR/wanted.trace'"),
        ("tick", "type: timer\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job"),
        ("job", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/job.trace'"),
        ("all", "type: virtual\nwaits-for: killed, replaced, talker, tick"),
    ] {
        files.unit(name, text);
    }
    files
}

/// One main process, which is the only one there is.
fn is_alone(init: &Init, unit: &str) {
    init.when_state(unit, "running");
    until(&format!("{unit} has one process"), || {
        (init.processes_of(unit) == [init.main_of(unit)]).then_some(())
    });
}

/// A crash after that many system calls. Whatever was asked is done once, or not at all and the caller
/// knows of no answer.
fn round(init: &Init, number: usize, calls: usize) {
    let fired = init.sandbox.trace("job.trace").len();
    until("the last crash is some time ago", || {
        (init.sandbox.trace("job.trace").len() > fired + 2).then_some(())
    });
    let before = ["killed", "replaced", "talker", "wanted"].map(|unit| starts(init, unit));
    let survived = crashes(init);
    let (victim, status) = (init.main_of("killed"), format!("round {number}"));
    let mut asked = ["restart", "want"].map(|_| init.client().expect("it listens"));
    let mut steps = Steps::of(init);
    victim.signal(Signal::SIGKILL);
    init.sandbox.order("talker", &format!("notify STATUS={status}"));
    asked[0].send("restart", &json!({"targets": ["replaced"]}));
    asked[1].send("want", &json!({"target": "wanted"}));
    (0..calls).for_each(|_| _ = steps.step());
    steps.crash();
    drop(steps);
    has_survived(init, survived + 1);
    is_alone(init, "killed");
    is_alone(init, "replaced");
    init.when("what was said is heard", |s| s.unit("talker")["status"] == status.as_str());
    let answered = asked.map(|mut client| client.answer().is_some_and(|answer| answer.is_ok()));
    if answered[1] {
        init.when_state("wanted", "exited");
    }
    // Refused where the wish was lost with the connection.
    let _ = init.ask("unwant", &json!({"target": "wanted"}));
    init.when_state("wanted", "disabled");
    is_alone(init, "replaced");
    let after = ["killed", "replaced", "talker", "wanted"].map(|unit| starts(init, unit));
    let more = [0, 1, 2, 3].map(|at| after[at] - before[at]);
    assert_eq!((more[0], more[2]), (1, 0), "after {calls} calls");
    for (more, answered) in [(more[1], answered[0]), (more[3], answered[1])] {
        assert!(more == 1 || (more == 0 && !answered), "after {calls} calls: {more}, {answered}");
    }
}

#[test]
fn a_crash_after_any_system_call_loses_nothing_and_does_nothing_twice() {
    let mut init = Boot::new(units()).start("all");
    init.expect_crashes();
    init.when_system("running");
    let stride = if std::env::var_os("GROUNDSTATE_ALL").is_some() { 1 } else { STRIDE };
    for (number, calls) in (1..CALLS).step_by(stride).enumerate() {
        round(&init, number, calls);
    }
    init.finish_after_crash();
}

fn with_bug(binary: &str) -> Init {
    let files = units();
    files.unit("crash-test", "exec-start: DAEMON --trace DIR/crash-test.trace");
    files.unit("both", "type: virtual\nwaits-for: all, crash-test");
    let init = Boot::new(files).binary(binary).start("both");
    init.when_state("crash-test", "running");
    init.when_state("killed", "running");
    until("it has begun some time ago", || {
        (init.sandbox.trace("job.trace").len() > 2).then_some(())
    });
    init
}

#[test]
fn what_makes_init_panic_is_left_out_when_it_goes_back() {
    let mut init = with_bug(&program("GROUNDSTATE_DEBUG_INIT", "init"));
    init.expect_crashes();
    let mains = || ["crash-test", "killed", "talker"].map(|unit| init.main_of(unit));
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
