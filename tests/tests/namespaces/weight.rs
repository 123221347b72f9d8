//! What the kernel weighs by when memory or processors are short: init and its children have the OOM score
//! and the nice that init was started with, its logger is the last to be killed. What is seen of it on a machine is in the
//! tests of virtual machines (`vm.rs`); whom the kernel takes, in [`super::memory`].

use super::crash::has_survived;
use super::survival::{is_steady, memories_at_rest};
use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::crash::crash;
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;
use std::process::Command;

/// What the runtime wants of the workload.
const SCORE: i32 = 300;
const NICER: i32 = 3;

pub(crate) fn score(process: Process) -> i32 {
    process.read("oom_score_adj").and_then(|text| text.trim().parse().ok()).expect("a number")
}

fn nice(process: Process) -> i32 {
    process.stat_field(16).expect("a number")
}

/// Init's, which is started by this process through nice(1).
fn as_nice() -> i32 {
    (nice(own()) + NICER).min(19)
}

pub(crate) fn own() -> Process {
    Process(i32::try_from(std::process::id()).expect("a pid"))
}

/// The lowest score a process of ours can give itself where it has this one: without CAP_SYS_RESOURCE, that
/// one.
pub(crate) fn lowest(score: i32) -> i32 {
    let script = "echo -1000 >/proc/self/oom_score_adj; cat /proc/self/oom_score_adj";
    let words = ["-n", &score.to_string(), "--", "sh", "-c", script];
    let output = Command::new("choom").args(words).output().expect("choom runs");
    let last = String::from_utf8_lossy(&output.stdout);
    last.lines().last().and_then(|line| line.parse().ok()).expect("a number")
}

/// Init, its logger, and what they start weigh what they should.
fn is_weighed(init: &Init, when: &str) {
    let logger = until("the logger has its name", || {
        let named = |p: &Process| p.read("comm").is_some_and(|n| n.starts_with("groundstate-log"));
        init.process().children().into_iter().find(named)
    });
    assert_eq!(score(init.process()), SCORE, "{when}");
    until(&format!("{when}: it is the last"), || (score(logger) == lowest(SCORE)).then_some(()));
    // Each is begun in its own way: it shares init's memory, has a copy, is run by our code first.
    for unit in ["shares", "thinks", "meek"] {
        let before = init.main_of(unit);
        before.signal(Signal::SIGKILL);
        init.when(&format!("{when}: {unit} is replaced"), |s| {
            s.state(unit) == "running" && s.main_pid(unit) != before.inner_pid().or(Some(before.0))
        });
        let now = init.main_of(unit);
        let wanted = if unit == "meek" { (700, 7) } else { (SCORE, as_nice()) };
        assert_eq!((score(now), nice(now)), wanted, "{when}: {unit}");
    }
}

fn over_its_images(way: Way) {
    let files = Sandbox::new();
    files.unit("shares", "restart-delay: 1ms\nexec-start: DAEMON");
    files.unit("thinks", "restart-delay: 1ms\nenv-file: DIR/env\nexec-start: DAEMON");
    files.put("env", "A=b\n");
    files.unit("meek", "restart-delay: 1ms\noom-score-adjust: 700\nnice: 7\nexec-start: DAEMON");
    files
        .unit("tick", "type: timer\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/job.trace'");
    files.unit("all", "type: virtual\nwaits-for: shares, thinks, meek, tick");
    let (score, nice) = (SCORE.to_string(), NICER.to_string());
    let words = ["choom", "-n", &score, "--", "nice", "-n", &nice];
    let mut init = Boot::new(files).way(way).through(&words).start("all");
    init.expect_crashes();
    init.when_system("running");
    is_weighed(&init, "begun");
    init.tell("upgrade", &json!({}));
    is_weighed(&init, "upgraded");
    is_steady(&init);
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    is_weighed(&init, "crashed");
    is_steady(&init);
    let (mut steps, kept) = memories_at_rest(&init);
    kept.iter().for_each(|(_, state)| state.set_len(0).unwrap());
    steps.crash();
    drop(steps);
    has_survived(&init, 2);
    assert!(init.output().contains("begins anew"), "{}", init.output());
    is_weighed(&init, "begun anew");
    init.tell("upgrade", &json!({}));
    is_weighed(&init, "upgraded again");
    init.finish_after_crash();
}

#[test]
fn children_of_a_containers_init_weigh_what_it_was_started_with() {
    over_its_images(Way::Namespace);
}

#[test]
fn children_of_a_supervisor_weigh_what_it_was_started_with() {
    over_its_images(Way::Supervisor);
}
