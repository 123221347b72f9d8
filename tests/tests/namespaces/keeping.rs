//! States that can not be kept, and what a crash goes back to then. Crashes with a state that is kept
//! are in [`crate::crash`].

use super::crash::has_survived;
use super::upgrade::{at_work, fixed};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{Steps, crash, crash_when, is_caretaker, memories};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::status::Status;
use nix::sys::signal::Signal;
use serde_json::json;
use std::net::TcpListener;
use std::process::Command;

/// How long a file init may write.
pub(super) fn limit_files(init: &Init, bytes: &str) {
    let pid = format!("--pid={}", init.process().0);
    let status = Command::new("prlimit").args([pid, format!("--fsize={bytes}:unlimited")]).status();
    assert!(status.expect("prlimit is there").success());
}

/// From now on a crash goes back to what was kept by then, and to what is noted of all that happens.
pub(super) fn keeps_no_more(init: &Init) {
    until("one is kept", || memories(init).first().filter(|(epoch, _)| *epoch > 0).map(drop));
    limit_files(init, "500");
    until("it is said", || {
        // Something has to happen, or nothing is kept.
        init.status();
        init.output().contains("the state can not be kept").then_some(())
    });
    let output = init.output();
    assert!(!output.contains("signal 25") && output.contains("File too large"), "{output}");
}

#[test]
fn a_state_that_can_not_be_kept_leaves_the_one_before_until_too_much_has_happened() {
    let mut init = at_work();
    init.expect_crashes();
    let said = |what: &str| init.output().contains(what);
    limit_files(&init, "6000");
    until("it is said", || said("the state can not be kept").then_some(()));
    limit_files(&init, "unlimited");
    until("it is said", || said("the state is kept again").then_some(()));
    limit_files(&init, "6000");
    let times = || init.output().matches("the state can not be kept").count();
    until("it is said again", || (times() == 2).then_some(()));
    // What was not kept was noted, and so is what happens from now on.
    let first = init.main_of("plain");
    first.signal(Signal::SIGKILL);
    until("it is there again", || (init.main_of("plain") != first).then_some(()));
    // When a program was seen to run is not noted.
    let three = |unit: serde_json::Value| json!([unit[0], unit[1], unit[2]]);
    let how = || fixed(&init.status()).into_iter().map(three).collect::<Vec<_>>();
    let before = how();
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    assert_eq!(how(), before);
    // What services say is noted as well, as long as there is room.
    let much = format!("notify STATUS={}", "x".repeat(3000));
    until("it is too old", || {
        init.sandbox.order("notified", &much);
        said("after a crash init would look after nothing").then_some(())
    });
    let alive = init.main_of("notified");
    // It comes to keep nothing before it crashes.
    crash_when(&init, || limit_files(&init, "unlimited"), |_| true);
    is_caretaker(&init);
    assert!(alive.is_alive(), "{}", init.output());
    init.process().signal(Signal::SIGTERM);
    assert_eq!(init.ended().code(), Some(0));
}

#[test]
fn what_its_time_had_come_for_alone_is_so_after_a_crash() {
    let files = Sandbox::new();
    files.unit(
        "web",
        "run-timeout: 300ms\nrestart: on-failure\nrestart-delay: 1h\nrestart-delay-max: 1h\nsuccess-status: [TERM]\nexec-start: /bin/sleep 1000",
    );
    files.unit("all", "type: virtual");
    let mut init = Boot::new(files).start("all");
    init.when_system("running");
    init.expect_crashes();
    keeps_no_more(&init);
    init.tell("want", &json!({"target": "web"}));
    let was_too_long = |status: &Status| {
        let why = status.unit("web")["reason"]["text"].as_str().unwrap_or_default();
        status.state("web") == "waiting" && why.contains("run-timeout")
    };
    init.when("it was active for too long", was_too_long);
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    assert!(was_too_long(&init.status()), "{}", init.status().unit("web"));
    init.finish_after_crash();
}

#[test]
fn a_plan_before_a_state_of_the_new_units_is_kept_leaves_one_to_be_kept() {
    let files = Sandbox::new();
    files.unit("all", "type: virtual");
    let mut init = Boot::new(files).start("all");
    init.when_system("running");
    init.expect_crashes();
    let latest = || memories(&init).first().map_or(0, |(epoch, _)| *epoch);
    until("one is kept", || (latest() > 0).then_some(()));
    let mut client = init.client().expect("it answers");
    let mut steps = Steps::of(&init);
    client.send("status", &json!({}));
    let writer = steps.until_forked(|_| true);
    drop(steps);
    let before = latest();
    init.sandbox.unit("web", "exec-start: /bin/sleep 1000");
    init.tell("reload", &json!({}));
    init.tell("plan", &json!({"reload": true}));
    assert_eq!(latest(), before, "who writes the state stands still");
    writer.signal(Signal::SIGCONT);
    until("that of the new units is kept", || {
        init.status();
        (latest() > before + 1 || init.output().contains("can not be kept")).then_some(())
    });
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    let said = init.output();
    assert!(!said.contains("can not be kept") && !said.contains("begins anew"), "{said}");
    assert_eq!(init.status().state("web"), "disabled");
    drop(client);
    init.finish_after_crash();
}

/// Says on its `ready-fd` that it is ready once DIR/go is there.
const LATE: &str = "ready-fd: 7\nexec-start: /bin/sh -c 'until [ -e DIR/go ]; do sleep 0.05; done; echo up >&7; exec 7>&-; exec sleep 1000'";

#[test]
fn what_was_said_by_a_descriptor_before_a_crash_was_said() {
    for is_begun_since in [false, true] {
        let files = Sandbox::new();
        files.unit("late", LATE);
        files.unit(
            "all",
            if is_begun_since { "type: virtual" } else { "type: virtual\nwants: late" },
        );
        let mut init = Boot::new(files).start("all");
        init.expect_crashes();
        if is_begun_since {
            keeps_no_more(&init);
            init.tell("want", &json!({"target": "late"}));
        }
        let main = until("it runs", || init.status().main_pid("late"));
        keeps_no_more(&init);
        init.sandbox.put("go", "");
        init.when_state("late", "running");
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 1);
        let status = init.status();
        let now = (status.state("late"), status.main_pid("late"));
        assert_eq!(now, ("running", Some(main)), "{}", init.output());
        init.finish_after_crash();
    }
}

#[test]
fn who_had_not_said_by_a_descriptor_that_it_is_ready_as_init_crashed_says_it_afterwards() {
    let files = Sandbox::new();
    files.unit("late", &format!("exec-start-pre: /bin/true\n{LATE}"));
    files.unit("all", "type: virtual");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    keeps_no_more(&init);
    init.tell("want", &json!({"target": "late"}));
    let main = until("it runs", || init.status().main_pid("late"));
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    let status = init.status();
    let now = (status.state("late"), status.main_pid("late"));
    assert_eq!(now, ("starting", Some(main)), "{}", init.output());
    init.sandbox.put("go", "");
    let status = init.when_state("late", "running");
    assert_eq!(status.main_pid("late"), Some(main), "{}", init.output());
    init.finish_after_crash();
}

#[test]
fn a_socket_that_could_not_be_opened_before_a_crash_has_failed_for_the_same_reason() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    let files = Sandbox::new();
    files.unit("door", &format!("type: socket\nlisten-stream: {address}\nactivates: web"));
    files.unit("web", "exec-start: DAEMON");
    files.unit("all", "type: virtual");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    keeps_no_more(&init);
    init.tell("want", &json!({"target": "door"}));
    let failed = init.when_state("door", "failed");
    // Tried again it would listen.
    drop(taken);
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    let after = init.status();
    let of = |status: &Status| status.unit("door")["reason"].clone();
    assert_eq!((after.state("door"), of(&after)), ("failed", of(&failed)), "{}", init.output());
    init.finish_after_crash();
}
