//! An init that cannot restore its state after a crash becomes a caretaker: services keep running,
//! children are reaped, and a signal still ends everything. Crashes that init recovers from are in
//! [`super::crash`].

use super::crash::starts;
use super::saved_state::{memories_at_rest, until_steady};
use super::upgrade::at_work;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{crash, wait_for_caretaker, wait_for_commit};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::{Sandbox, program};
use nix::sys::signal::Signal;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

const SERVICES: [&str; 6] = ["notified", "plain", "grep", "forked", "starting", "stubborn"];

/// Checks what each caretaker does: it reaps these services, restarts none, and ends the rest at a
/// signal.
fn reaps_and_ends(mut init: Init, services: &[(&str, Process)]) {
    let (killed, left) = services.split_at(services.len() / 2);
    for (unit, main) in killed {
        assert!(main.is_alive(), "{unit}: {}", init.output());
        main.signal(Signal::SIGKILL);
        until(&format!("{unit} is reaped"), || main.state().is_none().then_some(()));
    }
    for (unit, main) in left {
        assert!(main.is_alive(), "{unit}: {}", init.output());
    }
    for (unit, _) in services {
        assert_eq!(starts(&init, unit), 1, "{unit}: {}", init.output());
    }
    init.process().signal(Signal::SIGTERM);
    assert_eq!(init.ended().code(), Some(0));
    assert!(!left.iter().any(|(_, main)| main.is_alive()));
}

type Damage = fn(&File);

#[test]
fn damaged_state_makes_init_a_caretaker() {
    let forms: [(&str, Damage); 4] = [
        ("cut short", |state| state.set_len(20).unwrap()),
        ("empty", |state| state.set_len(0).unwrap()),
        ("a bit changed", |state| {
            let mut byte = [0];
            state.read_exact_at(&mut byte, 300).unwrap();
            state.write_all_at(&[byte[0] ^ 4], 300).unwrap();
        }),
        ("of another version", |state| state.write_all_at(b"GS-STOR\x7f", 0).unwrap()),
    ];
    for (form, damage) in forms {
        println!("{form}");
        let mut init = at_work();
        init.expect_crashes();
        let services = SERVICES.map(|unit| (unit, init.main_of(unit)));
        until_steady(&init);
        let (mut steps, kept) = memories_at_rest(&init);
        kept.iter().for_each(|(_, state)| damage(state));
        steps.crash();
        drop(steps);
        wait_for_caretaker(&init);
        assert!(init.output().contains("cannot restore its state"), "{}", init.output());
        reaps_and_ends(init, &services);
    }
}

/// A boot with a bug in that place of init; the bug acts once the file `now` exists.
fn with_bug(files: Sandbox, place: &str) -> Boot {
    let there = format!("{place} {}", files.at("now"));
    let binary = program("GROUNDSTATE_DEBUG_INIT", "init");
    Boot::new(files).binary(&binary).variable("GROUNDSTATE_CRASH_IN", &there).unrecorded()
}

fn two_services() -> Sandbox {
    let files = Sandbox::new();
    let notified = "DAEMON --notify --trace DIR/notified.trace --control DIR/notified";
    files.unit("notified", &format!("type: foreground-notified\nexec-start: {notified}"));
    files.unit("plain", "exec-start: DAEMON --trace DIR/plain.trace");
    // The timer makes init commit its state again and again.
    files
        .unit("tick", "type: timer\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: /bin/true");
    files.unit("all", "type: virtual\nwaits-for: notified, plain, tick");
    files
}

fn running_services(init: &Init) -> [(&'static str, Process); 2] {
    ["plain", "notified"].map(|unit| {
        init.when_state(unit, "running");
        until(&format!("{unit} has started"), || (starts(init, unit) == 1).then_some(()));
        (unit, init.main_of(unit))
    })
}

#[test]
fn fourth_crash_in_a_row_makes_init_a_caretaker() {
    let mut init = with_bug(two_services(), "each rescue").start("all");
    init.expect_crashes();
    let services = running_services(&init);
    wait_for_commit(&init);
    init.sandbox.put("now", "");
    crash(&init, Signal::SIGSEGV);
    wait_for_caretaker(&init);
    let said = init.output();
    assert_eq!(said.matches("on purpose in each rescue").count(), 3, "{said}");
    reaps_and_ends(init, &services);
}

#[test]
fn crash_during_the_boot_is_survived_and_each_unit_starts_once() {
    let files = two_services();
    files.put("now", "");
    let mut init = with_bug(files, "boot").start("all");
    init.expect_crashes();
    init.when("both run", |s| ["notified", "plain"].iter().all(|unit| s.state(unit) == "running"));
    assert!(["notified", "plain"].iter().all(|unit| starts(&init, unit) == 1));
    assert!(init.output().contains("init crashed"), "{}", init.output());
    init.finish_after_crash();
}

/// Crashes init after its saved state was truncated.
fn loses_its_state(init: &Init) {
    let (mut steps, kept) = memories_at_rest(init);
    kept.iter().for_each(|(_, state)| state.set_len(0).unwrap());
    steps.crash();
    drop(steps);
    wait_for_caretaker(init);
}

#[test]
fn caretaker_reads_output_and_notifications_so_that_no_service_blocks() {
    let files = two_services();
    // Each line is larger than the capacity of a pipe.
    let talks = "while printf %0130000d 0 && echo; do echo x >>DIR/talks.trace; sleep 0.1; done";
    files.unit("talks", &format!("exec-start: /bin/sh -c '{talks}'"));
    files.unit("all", "type: virtual\nwaits-for: notified, talks, tick");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when_state("notified", "running");
    init.when_state("talks", "running");
    let (talker, notifies) = (init.main_of("talks"), init.main_of("notified"));
    // Only a reader that the caretaker starts can empty the pipe.
    let logger = super::log::logger(&init);
    loses_its_state(&init);
    logger.signal(Signal::SIGKILL);
    let said = init.sandbox.trace("talks.trace").len();
    until("it continues to write", || {
        (init.sandbox.trace("talks.trace").len() > said + 1).then_some(())
    });
    assert!(talker.is_alive());
    // More datagrams than the socket's queue holds (net.unix.max_dgram_qlen).
    (0..1000).for_each(|_| init.sandbox.order("notified", "notify STATUS=x"));
    init.sandbox.order("notified", "exit 0");
    until("the service has obeyed its last order", || notifies.state().is_none().then_some(()));
    init.process().signal(Signal::SIGTERM);
    assert_eq!(init.ended().code(), Some(0));
}

#[test]
fn request_to_a_caretaker_fails_at_once() {
    let mut init = Boot::new(two_services()).start("all");
    init.expect_crashes();
    let services = running_services(&init);
    let mut follows = Command::new(program("GROUNDSTATE_INITCTL", "initctl"));
    follows.arg("--socket").arg(init.sandbox.path("run/control.sock"));
    follows.args(["events", "--follow"]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut follows = follows.spawn().expect("initctl runs");
    let comm = |p: &Process| p.read("comm");
    let follower = Process(follows.id().try_into().expect("a pid"));
    until("initctl has executed", || (comm(&follower)?.trim() == "initctl").then_some(()));
    loses_its_state(&init);
    until("its connection is closed", || follows.try_wait().expect("wait"));
    let asked = init.initctl(&["status"]);
    assert_eq!(asked.status.code(), Some(69), "{asked:?}");
    reaps_and_ends(init, &services);
}

#[test]
fn end_signal_before_the_crash_is_handled_by_the_caretaker() {
    let mut init = Boot::new(two_services()).start("all");
    init.expect_crashes();
    let services = running_services(&init);
    let (mut steps, kept) = memories_at_rest(&init);
    kept.iter().for_each(|(_, state)| state.set_len(0).unwrap());
    init.process().signal(Signal::SIGTERM);
    steps.crash();
    drop(steps);
    assert_eq!(init.ended().code(), Some(0));
    assert!(init.output().contains("cannot restore its state"), "{}", init.output());
    assert!(!services.iter().any(|(_, main)| main.is_alive()));
}
