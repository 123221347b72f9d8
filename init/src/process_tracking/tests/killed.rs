//! Tests of cgroups in which all processes were killed, and of later starts in them.

use super::*;
use std::os::fd::AsFd;

#[test]
fn process_started_in_a_killed_cgroup_survives() {
    if !is_alone("process_tracking::tests::killed::process_started_in_a_killed_cgroup_survives") {
        return;
    }
    let (mut tracker, _) = Tracker::new(false);
    let script = "exec sleep 600";
    let first = run(&mut tracker, RUN, script);
    if tracker.hierarchy.is_none() {
        tracker.kill(RUN);
        return end(&mut tracker, first);
    }
    tracker.kill(RUN);
    let second = run(&mut tracker, RUN, script);
    assert!(wait::peek_one(second.pid).unwrap().is_none());
    tracker.kill(RUN);
    for one in [first, second] {
        end(&mut tracker, one);
    }
    assert!(tracker.is_empty(RUN));
}

#[test]
fn children_start_in_their_own_cgroups_after_the_cgroup_of_init_was_killed() {
    let test = "children_start_in_their_own_cgroups_after_the_cgroup_of_init_was_killed";
    if !is_alone(&format!("process_tracking::tests::killed::{test}")) {
        return;
    }
    let (mut tracker, why) = Tracker::new(false);
    if why.is_some() {
        return crate::not_run!("no cgroup v2 here");
    }
    let killed = run(&mut tracker, RUN, "exec sleep 600");
    tracker.kill(RUN);
    end(&mut tracker, killed);
    let path = tracker.hierarchy.as_ref().unwrap().path.clone();
    let name = tracker.runs[&RUN].cgroup.clone().unwrap();
    let goes_to = |cgroup: &str| {
        std::fs::write(format!("{cgroup}/cgroup.procs"), std::process::id().to_string()).unwrap();
    };
    goes_to(&format!("{path}/{name}"));
    for way in ways() {
        let results = (8..10).map(|number| {
            let place = tracker.place(RunId(number), "under-test", Wish::default()).unwrap();
            let words = ["/bin/sh", "-c", "exit 0"];
            let mut one = start(way, &plain(), &words, |request| request.place = place).unwrap();
            let verdict = one.verdict();
            one.end();
            assert!(tracker.is_empty(RunId(number)));
            verdict
        });
        // The first child may be killed; then init lets the next one join the cgroup by itself.
        assert_eq!(results.last(), Some(Ok(())), "{way:?}");
    }
    goes_to(path.rsplit_once('/').unwrap().0);
    assert!(tracker.is_empty(RUN));
}

#[test]
fn child_of_the_next_image_lives_in_a_cgroup_in_which_all_were_killed() {
    let test = "child_of_the_next_image_lives_in_a_cgroup_in_which_all_were_killed";
    if !is_alone(&format!("process_tracking::tests::killed::{test}")) {
        return;
    }
    let (mut tracker, why) = Tracker::new(false);
    if why.is_some() {
        return crate::not_run!("no cgroup v2 here");
    }
    let script = "exec sleep 600";
    let first = run(&mut tracker, RUN, script);
    tracker.kill(RUN);
    // The next image knows only the name of the cgroup.
    let name = tracker.runs.remove(&RUN).unwrap().cgroup.unwrap();
    let tracked = tracker.runs.get_or_default(RUN);
    (tracked.cgroup, tracked.entered, tracked.killed) = (Some(name), true, true);
    let second = run(&mut tracker, RUN, script);
    assert!(wait::peek_one(second.pid).unwrap().is_none());
    // A run with the id of an earlier init's killed run.
    let third = run(&mut tracker, RunId(8), script);
    tracker.kill(RunId(8));
    let name = tracker.runs.remove(&RunId(8)).unwrap().cgroup.unwrap();
    end(&mut tracker, third);
    let made =
        crate::process_tracking::group::make(tracker.hierarchy.as_ref().unwrap().as_fd(), &name);
    assert!(made.is_ok(), "{made:?}");
    let fourth = run(&mut tracker, RunId(8), script);
    assert!(wait::peek_one(fourth.pid).unwrap().is_none());
    tracker.kill(RUN);
    tracker.kill(RunId(8));
    for one in [first, second, fourth] {
        end(&mut tracker, one);
    }
    assert!(tracker.is_empty(RUN) && tracker.is_empty(RunId(8)));
}
