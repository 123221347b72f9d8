//! Tests with real processes that try to escape, with and without cgroups. Without a writable
//! cgroup v2, only the second way is tested, and the test counts as not run.

mod killed;
mod left;
mod marked;

use super::Tracker;
use super::controller::Wish;
use crate::spawn::tests::{PATIENCE, Running, is_alone, plain, start, ways};
use crate::sys::{Pid, process, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::text::fields;
use groundstate_units::text::name::Name;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::AddWatchFlags;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

const RUN: RunId = RunId(7);

/// Both kinds of tracking. If only the second is available, the test says so.
macro_rules! trackers {
    () => {{
        process::set_child_subreaper(true).unwrap();
        let (found, why) = Tracker::new(false);
        if why.is_some() {
            crate::not_run!("no cgroup v2 here");
        }
        [found, Tracker::without_cgroups()]
    }};
}

fn run(tracker: &mut Tracker, run: RunId, script: &str) -> Running {
    let place = tracker.place(run, "under-test", Wish::default()).unwrap();
    let words = ["/bin/sh", "-c", script];
    let way = ways().last().unwrap();
    let mut running = start(way, &plain(), &words, |request| request.place = place).unwrap();
    tracker.add_child(run, running.pid);
    assert_eq!(running.verdict(), Ok(()));
    running
}

/// Reaps our own child and its orphans, as the loop does, until `done` returns true.
fn until(tracker: &mut Tracker, mut done: impl FnMut(&mut Tracker) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done(tracker) {
        assert!(Instant::now() < deadline, "{:?}", tracker.tracking());
        for pid in crate::base::procfs::children() {
            let pid = Pid::from_raw(pid);
            if !wait::is_made(pid) {
                reap(tracker, pid);
            }
        }
        if let Some(descriptor) = tracker.descriptor() {
            let mut fds = [PollFd::new(descriptor, PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::from(5u8)).unwrap();
        }
    }
}

fn reap(tracker: &mut Tracker, pid: Pid) {
    if wait::peek_one(pid).unwrap().is_some() {
        wait::reap(pid).unwrap();
        tracker.remove_child(pid);
        tracker.adopt_left();
    }
}

/// The main process was reaped here, so `Running` must not reap it again.
fn end(tracker: &mut Tracker, running: Running) {
    reap_main(tracker, running);
    tracker.adopt_left();
}

fn reap_main(tracker: &mut Tracker, mut running: Running) {
    let pid = running.pid;
    let deadline = Instant::now() + PATIENCE;
    while wait::peek_one(pid).unwrap().is_none() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    running.end();
    tracker.remove_child(pid);
}

#[test]
fn an_orphan_belongs_to_the_run_of_a_process_that_the_previous_image_reaped() {
    let own = "process_tracking::tests::an_orphan_belongs_to_the_run_of_a_process_that_the_previous_image_reaped";
    if !is_alone(own) {
        return;
    }
    process::set_child_subreaper(true).unwrap();
    let mut before = Tracker::without_cgroups();
    let running = run(&mut before, RUN, "setsid setsid sleep 600 & sleep 0.2");
    reap_main(&mut before, running);
    let mut next: Tracker = fields::decode(&fields::encode(&before).unwrap()).unwrap();
    (next.runs, next.families) = (before.runs, before.families);
    next.adopt_left();
    assert!(!next.is_empty(RUN));
    next.kill(RUN);
    until(&mut next, |next| next.is_empty(RUN));
}

#[test]
fn run_of_one_process_is_empty_when_the_process_is_reaped() {
    if !is_alone("process_tracking::tests::run_of_one_process_is_empty_when_the_process_is_reaped")
    {
        return;
    }
    for mut tracker in trackers!() {
        let running = run(&mut tracker, RUN, "exit 0");
        assert_eq!(tracker.whose(running.pid), Some(RUN));
        assert!(!tracker.is_empty(RUN));
        end(&mut tracker, running);
        assert!(tracker.is_empty(RUN));
        tracker.forget(RUN);
        assert!(tracker.processes(RUN).is_empty());
    }
}

#[test]
fn double_forked_process_with_its_own_session_is_killed_with_its_run() {
    if !is_alone(
        "process_tracking::tests::double_forked_process_with_its_own_session_is_killed_with_its_run",
    ) {
        return;
    }
    for mut tracker in trackers!() {
        // The daemon's name shows that it is running; then the launcher exits.
        let script = "(setsid sh -c 'sleep 600 >/dev/null 2>&1 & exec sleep 600' &) ; sleep 0.2";
        let running = run(&mut tracker, RUN, script);
        end(&mut tracker, running);
        assert!(!tracker.is_empty(RUN), "{:?}", tracker.tracking());
        until(&mut tracker, |tracker| tracker.processes(RUN).len() == 2);
        let daemons = tracker.processes(RUN);
        for pid in &daemons {
            assert_eq!(tracker.whose(Pid::from_raw(*pid)), Some(RUN), "{:?}", tracker.tracking());
        }
        tracker.kill(RUN);
        let mut gone = false;
        until(&mut tracker, |tracker| {
            gone |= tracker.emptied().contains(&RUN);
            gone
        });
        assert!(tracker.is_empty(RUN));
        tracker.forget(RUN);
    }
}

#[test]
fn signal_reaches_all_processes_of_a_run_but_the_excluded_one() {
    if !is_alone(
        "process_tracking::tests::signal_reaches_all_processes_of_a_run_but_the_excluded_one",
    ) {
        return;
    }
    for mut tracker in trackers!() {
        let running = run(&mut tracker, RUN, "sleep 600 & sleep 600 & wait");
        until(&mut tracker, |tracker| tracker.processes(RUN).len() == 3);
        tracker.signal(RUN, 15, Some(running.pid));
        // After its two children have exited, the shell exits with the status of `wait`: 0.
        end(&mut tracker, running);
        until(&mut tracker, |tracker| tracker.is_empty(RUN));
        tracker.forget(RUN);
    }
}

#[test]
fn run_that_keeps_forking_is_killed_completely() {
    if !is_alone("process_tracking::tests::run_that_keeps_forking_is_killed_completely") {
        return;
    }
    for mut tracker in trackers!() {
        let script = "trap '' TERM; i=0; while [ $i -lt 60 ]; do (while :; do sleep 600 & wait; done) & \
                      i=$((i+1)); done; wait";
        let running = run(&mut tracker, RUN, script);
        until(&mut tracker, |tracker| tracker.processes(RUN).len() > 60);
        tracker.kill(RUN);
        end(&mut tracker, running);
        until(&mut tracker, |tracker| {
            let empty = tracker.is_empty(RUN);
            if !empty {
                tracker.kill(RUN);
            }
            empty
        });
        tracker.forget(RUN);
    }
}

#[test]
fn children_in_sessions_of_their_own_are_killed_with_their_parent() {
    if !is_alone(
        "process_tracking::tests::children_in_sessions_of_their_own_are_killed_with_their_parent",
    ) {
        return;
    }
    for mut tracker in trackers!() {
        let script =
            "trap '' TERM; i=0; while [ $i -lt 40 ]; do setsid sleep 600 & i=$((i+1)); done; wait";
        let running = run(&mut tracker, RUN, script);
        until(&mut tracker, |tracker| tracker.processes(RUN).len() == 41);
        tracker.kill(RUN);
        end(&mut tracker, running);
        until(&mut tracker, |tracker| {
            tracker.is_empty(RUN) && crate::base::procfs::children().is_empty()
        });
        tracker.forget(RUN);
    }
}

#[test]
fn signal_to_one_run_does_not_reach_another_run() {
    if !is_alone("process_tracking::tests::signal_to_one_run_does_not_reach_another_run") {
        return;
    }
    let other = RunId(8);
    for mut tracker in trackers!() {
        let first = run(&mut tracker, RUN, "sleep 600 & wait");
        let second = run(&mut tracker, other, "sleep 600 & wait");
        until(&mut tracker, |tracker| tracker.processes(other).len() == 2);
        tracker.kill(RUN);
        end(&mut tracker, first);
        until(&mut tracker, |tracker| tracker.is_empty(RUN));
        assert_eq!(tracker.whose(second.pid), Some(other));
        assert_eq!(tracker.processes(other).len(), 2);
        assert_eq!(tracker.whose(nix::unistd::getpid()), None);
        tracker.kill(other);
        end(&mut tracker, second);
        tracker.forget(RUN);
        tracker.forget(other);
    }
}

#[test]
fn two_inits_below_one_cgroup_use_different_directories() {
    if !is_alone("process_tracking::tests::two_inits_below_one_cgroup_use_different_directories") {
        return;
    }
    let (mut first, why) = Tracker::new(false);
    if why.is_some() {
        return crate::not_run!("no cgroup v2 here");
    }
    let (mut second, _) = Tracker::new(false);
    let running = run(&mut first, RUN, "exec sleep 600");
    assert_eq!(second.whose(running.pid), None);
    second.place(RUN, "under-test", Wish::default()).unwrap();
    assert!(second.processes(RUN).is_empty());
    second.kill(RUN);
    assert!(wait::peek_one(running.pid).unwrap().is_none());
    drop(running);
    first.forget(RUN);
    second.forget(RUN);
}

#[test]
fn nested_cgroups_of_a_service_are_removed_with_its_own() {
    if !is_alone("process_tracking::tests::nested_cgroups_of_a_service_are_removed_with_its_own") {
        return;
    }
    let (mut tracker, why) = Tracker::new(false);
    if why.is_some() {
        return crate::not_run!("no cgroup v2 here");
    }
    let running = run(&mut tracker, RUN, "exec sleep 600");
    let path = crate::base::procfs::cgroup(running.pid).unwrap();
    let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .into_iter()
        .find(|root| std::path::Path::new(&format!("{root}{path}/cgroup.procs")).exists())
        .unwrap();
    let own = format!("{root}{path}");
    std::fs::create_dir_all(format!("{own}/a/b")).unwrap();
    std::fs::write(format!("{own}/a/b/cgroup.procs"), running.pid.to_string()).unwrap();
    assert_eq!(tracker.whose(running.pid), Some(RUN));
    // Forgotten while it has a process: it is removed when that has exited.
    tracker.forget(RUN);
    assert!(std::path::Path::new(&own).exists());
    drop(running);
    until(&mut tracker, |tracker| {
        tracker.emptied();
        !std::path::Path::new(&own).exists()
    });
}

#[test]
fn child_in_a_frozen_cgroup_blocks_no_process_and_can_be_killed() {
    if !is_alone(
        "process_tracking::tests::child_in_a_frozen_cgroup_blocks_no_process_and_can_be_killed",
    ) {
        return;
    }
    let (mut tracker, why) = Tracker::new(false);
    if why.is_some() {
        return crate::not_run!("no cgroup v2 here");
    }
    for way in ways() {
        let place = tracker.place(RUN, "under-test", Wish::default()).unwrap().unwrap();
        let name = std::fs::read_link(format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&*place.directory)
        ));
        let freeze = name.unwrap().join("cgroup.freeze");
        std::fs::write(&freeze, "1").unwrap();
        let mut running =
            start(way, &plain(), &["/bin/true"], |request| request.place = Some(place)).unwrap();
        tracker.add_child(RUN, running.pid);
        assert_eq!(running.report.verdict(), None);
        // The next child is not delayed.
        let mut next = start(way, &plain(), &["/bin/true"], |_| {}).unwrap();
        assert_eq!(next.verdict(), Ok(()));
        assert_eq!(running.report.verdict(), None);
        tracker.kill(RUN);
        let verdict = running.verdict();
        assert!(verdict.is_err(), "{way:?} {verdict:?}");
        end(&mut tracker, running);
        assert!(tracker.is_empty(RUN));
        tracker.forget(RUN);
    }
}

/// A stand-in for a cgroup's `memory.events`: any file is watched in the same way.
#[test]
fn memory_event_is_received_without_a_pending_exit() {
    let (mut tracker, _) = Tracker::new(false);
    let Some(inotify) = &tracker.inotify else {
        return crate::not_run!("no cgroup v2 here");
    };
    let file = std::env::temp_dir().join(format!("gs-memory-events-{}", std::process::id()));
    std::fs::write(&file, "oom_kill 0\n").unwrap();
    let watch = inotify.add_watch(&file, AddWatchFlags::IN_MODIFY).unwrap();
    tracker.memory_watches.insert(watch, RUN);
    std::fs::write(&file, "oom_kill 1\n").unwrap();
    assert_eq!(tracker.emptied(), []);
    assert!(tracker.short.contains(&RUN) && !tracker.has_more());
    std::fs::remove_file(&file).unwrap();
    tracker.emptied();
    assert!(tracker.memory_watches.is_empty(), "a removed file is watched no longer");
}

#[test]
fn process_started_after_a_kill_is_not_killed() {
    if !is_alone("process_tracking::tests::process_started_after_a_kill_is_not_killed") {
        return;
    }
    process::set_child_subreaper(true).unwrap();
    let mut tracker = Tracker::without_cgroups();
    let first = run(&mut tracker, RUN, "exec sleep 600");
    tracker.kill(RUN);
    assert!(tracker.killed.contains(&RUN));
    end(&mut tracker, first);
    // An exec-stop-post.
    let then = run(&mut tracker, RUN, "exec sleep 600");
    assert!(!tracker.killed.contains(&RUN));
    tracker.kill(RUN);
    end(&mut tracker, then);
}

#[test]
fn cgroup_of_an_expected_run_is_used_by_that_run_or_removed() {
    let own = "process_tracking::tests::cgroup_of_an_expected_run_is_used_by_that_run_or_removed";
    if !is_alone(own) {
        return;
    }
    let (mut tracker, why) = Tracker::new(false);
    if why.is_some() {
        return crate::not_run!("no cgroup v2 here");
    }
    let path = tracker.hierarchy.as_ref().unwrap().path.clone();
    let is_there = |name: &str| std::fs::exists(format!("{path}/{name}")).unwrap();
    let unit = Name::new("under-test").unwrap();
    for expected in [RunId(8), RUN] {
        tracker.latest = Some(RunId(1));
        tracker.prepare_next(|_| Some((&unit, expected)));
    }
    assert!(is_there("under-test.7") && !is_there("under-test.8"));
    let inode = |name: &str| std::fs::metadata(format!("{path}/{name}")).unwrap().ino();
    let before = inode("under-test.7");
    let running = run(&mut tracker, RUN, "exit 0");
    assert_eq!(inode("under-test.7"), before);
    assert_eq!(tracker.latest, Some(RUN));
    end(&mut tracker, running);
    assert!(tracker.is_empty(RUN));
    // Another program may remove an empty cgroup.
    tracker.prepare_next(|_| Some((&unit, RunId(9))));
    std::fs::remove_dir(format!("{path}/under-test.9")).unwrap();
    let running = run(&mut tracker, RunId(9), "exit 0");
    end(&mut tracker, running);
    assert!(tracker.is_empty(RunId(9)));
}
