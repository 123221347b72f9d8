//! Requests of clients to an init that crashes at that moment.

use super::crash::{has_survived, starts};
use super::upgrade::at_work;
use groundstate_tests::boot::Init;
use groundstate_tests::crash::{Call, Steps};
use groundstate_tests::deadline::until;
use std::cell::Cell;
use std::ops::Range;
use std::process::Output;
use std::thread;

/// Runs `initctl` with these arguments. Init crashes at each of these connections, `calls` system
/// calls after it was accepted.
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
        asks.join().expect("initctl exits")
    })
}

fn asked_in_a_crash(init: &Init, words: &[&str], calls: u32) -> Output {
    asked_in_crashes(init, words, 0..1, calls)
}

fn until_steady(init: &Init) {
    let fired = init.sandbox.trace("job.trace").len();
    until("the last crash is some time ago", || {
        (init.sandbox.trace("job.trace").len() > fired + 1).then_some(())
    });
}

#[test]
fn client_is_answered_although_init_crashes_at_its_connection() {
    let mut init = at_work();
    init.expect_crashes();
    let words: [&[&str]; 3] = [&["status"], &["want", "plain"], &["set-target", "all"]];
    for (crashed, (words, calls)) in
        (0..).zip(words.iter().flat_map(|words| [0, 4, 9].map(|calls| (*words, calls))))
    {
        until_steady(&init);
        let output = asked_in_a_crash(&init, words, calls);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?} after {calls}: {said}");
        assert!(!output.stdout.is_empty(), "{words:?} after {calls}");
        has_survived(&init, crashed + 1);
    }
    init.finish_after_crash();
}

#[test]
fn restart_request_is_not_sent_again_after_a_crash() {
    let mut init = at_work();
    init.expect_crashes();
    let mut done = 0;
    for (crashed, calls) in (0..).zip([0, 4, 9, 14]) {
        until_steady(&init);
        let before = init.main_of("notified");
        let output = asked_in_a_crash(&init, &["restart", "notified"], calls);
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            assert_eq!(output.status.code(), Some(69), "{said}");
            assert!(said.contains("may have crashed"), "{said}");
        }
        has_survived(&init, crashed + 1);
        init.when("the restart is complete, or was not requested", |s| {
            let is_done = init.main_of("notified") != before || !output.status.success();
            is_done && s.state("notified") == "running"
        });
        done += usize::from(init.main_of("notified") != before);
        assert_eq!(starts(&init, "notified"), 1 + done, "after {calls}");
    }
    init.finish_after_crash();
}

#[test]
fn query_that_crashes_init_is_retried_once_and_not_again() {
    let mut init = at_work();
    init.expect_crashes();
    until_steady(&init);
    let output = asked_in_crashes(&init, &["status"], 0..2, 0);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(said.contains("may have crashed"), "{said}");
    has_survived(&init, 2);
    init.finish_after_crash();
}

#[test]
fn client_that_cannot_wait_for_the_result_because_of_crashes_exits_with_69() {
    let mut init = at_work();
    init.expect_crashes();
    until_steady(&init);
    let words = ["want", "plain", "--wait", "--timeout", "60s"];
    // initctl asks for the number of the last event, for the events, for `plain`, and then waits
    // for the result. Init crashes at that request and at the next ones, one of which may be for
    // the events.
    let output = asked_in_crashes(&init, &words, 3..6, 0);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{said}");
    init.when_state("plain", "running");
    init.finish_after_crash();
}
