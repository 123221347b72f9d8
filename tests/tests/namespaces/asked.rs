//! Who asks init something just as it crashes.

use super::crash::{has_survived, starts};
use super::survival::memories_at_rest;
use super::upgrade::at_work;
use groundstate_tests::boot::Init;
use groundstate_tests::crash::{Call, Steps};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::program;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::cell::Cell;
use std::fs::{File, read_to_string};
use std::ops::Range;
use std::process::{Command, Output, Stdio};
use std::thread;

/// `initctl` with these words, beside an init that crashes at connections of it, `calls` system calls after they came.
fn asked_in_crashes(init: &Init, words: &[&str], at: Range<u32>, calls: u32) -> Output {
    thread::scope(|scope| {
        let mut steps = Steps::of(init);
        let asks = scope.spawn(|| init.initctl(words));
        for connection in 0..at.end {
            let has_come = |call: &Call| call.number == libc::SYS_accept4 && call.result >= 0;
            steps.until(|call| asks.is_finished() || has_come(call));
            if at.contains(&connection) && !asks.is_finished() {
                let left = Cell::new(calls);
                steps.until(|_| left.replace(left.get().saturating_sub(1)) == 0);
                steps.crash();
            }
        }
        drop(steps);
        asks.join().expect("it comes back")
    })
}

fn asked_in_a_crash(init: &Init, words: &[&str], calls: u32) -> Output {
    asked_in_crashes(init, words, 0..1, calls)
}

fn is_steady(init: &Init) {
    let fired = init.sandbox.trace("job.trace").len();
    until("the last crash is some time ago", || {
        (init.sandbox.trace("job.trace").len() > fired + 1).then_some(())
    });
}

#[test]
fn who_asks_as_init_crashes_is_answered() {
    let mut init = at_work();
    init.expect_crashes();
    let words: [&[&str]; 3] = [&["status"], &["want", "plain"], &["set-target", "all"]];
    for (crashed, (words, calls)) in
        (0..).zip(words.iter().flat_map(|words| [0, 4, 9].map(|calls| (*words, calls))))
    {
        is_steady(&init);
        let output = asked_in_a_crash(&init, words, calls);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?} after {calls}: {said}");
        assert!(!output.stdout.is_empty(), "{words:?} after {calls}");
        has_survived(&init, crashed + 1);
    }
    init.finish_after_crash();
}

#[test]
fn what_is_not_to_be_done_twice_is_not_asked_for_twice() {
    let mut init = at_work();
    init.expect_crashes();
    let mut done = 0;
    for (crashed, calls) in (0..).zip([0, 4, 9, 14]) {
        is_steady(&init);
        let before = init.main_of("notified");
        let output = asked_in_a_crash(&init, &["restart", "notified"], calls);
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            assert_eq!(output.status.code(), Some(69), "{said}");
            assert!(said.contains("may have crashed"), "{said}");
        }
        has_survived(&init, crashed + 1);
        init.when("it rests", |s| {
            let is_done = init.main_of("notified") != before || !output.status.success();
            is_done && s.state("notified") == "running"
        });
        done += usize::from(init.main_of("notified") != before);
        assert_eq!(starts(&init, "notified"), 1 + done, "after {calls}");
    }
    init.finish_after_crash();
}

#[test]
fn a_question_init_crashes_at_is_asked_once_more_and_not_again() {
    let mut init = at_work();
    init.expect_crashes();
    is_steady(&init);
    let output = asked_in_crashes(&init, &["status"], 0..2, 0);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(said.contains("may have crashed"), "{said}");
    has_survived(&init, 2);
    init.finish_after_crash();
}

#[test]
fn who_can_not_ask_whether_all_has_settled_comes_back() {
    let mut init = at_work();
    init.expect_crashes();
    is_steady(&init);
    let words = ["want", "plain", "--wait", "--timeout", "60s"];
    // It asks where the events are, for the events, for `plain`, and only then to be told: at that it crashes, and
    // at the next ones, of which one may be for the events.
    let output = asked_in_crashes(&init, &words, 3..6, 0);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{said}");
    init.when_state("plain", "running");
    init.finish_after_crash();
}

#[test]
fn who_follows_events_follows_those_of_an_init_that_has_lost_its_state() {
    let mut init = at_work();
    init.expect_crashes();
    let told = init.sandbox.path("told");
    let file = File::create(&told).expect("a file");
    let mut follows = Command::new(program("GROUNDSTATE_INITCTL", "initctl"));
    follows.arg("--socket").arg(init.sandbox.path("run/control.sock"));
    follows.args(["--json", "events", "--follow"]).stdin(Stdio::null()).stdout(file);
    let mut follows = follows.spawn().expect("initctl runs");
    let numbers = || {
        let lines = read_to_string(&told).unwrap_or_default();
        let events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter_map(|event| event["seq"].as_u64()).collect::<Vec<_>>()
    };
    let count = || {
        let pong = init.tell("ping", &json!({}));
        (pong["seq"].as_u64().expect("a number"), pong["seq-mono-us"].clone())
    };
    let (first, since) = count();
    until("it is told of all so far", || (numbers().last() >= Some(&first)).then_some(()));
    let follower = Process(follows.id().try_into().expect("a pid"));
    follower.signal(Signal::SIGSTOP);
    let (far, _) = count();
    let (mut steps, kept) = memories_at_rest(&init);
    for (_, memory) in &kept {
        memory.set_len(20).expect("it can be made shorter");
    }
    steps.crash();
    drop(steps);
    has_survived(&init, 1);
    until("it has counted further than before", || (count().0 > far).then_some(()));
    let (_, anew) = count();
    assert_ne!(anew, since, "not counted anew");
    follower.signal(Signal::SIGCONT);
    let begins = |numbers: &[u64]| numbers.iter().filter(|seq| **seq == 1).count();
    until("it is told from the first on", || (begins(&numbers()) == 2).then_some(()));
    let told = numbers();
    let back = told.windows(2).filter(|two| two[1] != two[0] + 1);
    assert_eq!(back.map(|two| two[1]).collect::<Vec<_>>(), [1], "all of it, and once");
    let _ = follows.kill();
    let _ = follows.wait();
    init.tell("upgrade", &json!({}));
    assert_eq!(count().1, anew, "it counts on");
    init.sandbox.order("stubborn", "exit 0");
    init.finish_after_crash();
}
