//! Init crashes, and once more while what was noted is put again, or before another state is kept: what the one in
//! between had found out, or was just doing, is so for the next. The first of these crashes is [`super::begun`]'s and
//! [`super::past`]'s.

use super::crash::{has_survived, starts};
use super::past::{BOTH, at_work, keeps};
use groundstate_tests::boot::Init;
use groundstate_tests::crash::{Call, Steps, crash};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use nix::sys::signal::Signal;
use serde_json::json;

const AGAIN: &str = "restart: always\nrestart-delay: 50ms\n";

fn is_running(init: &Init) -> Process {
    init.tell("want", &json!({"target": "web"}));
    init.when_state("web", "running");
    until("it has begun", || (starts(init, "web") == 1).then_some(()));
    init.main_of("web")
}

fn is_stopped(process: Process) -> bool {
    process.state() == Some('T')
}

#[test]
fn who_was_stopped_to_be_looked_at_goes_on_after_another_crash() {
    for wrapper in BOTH {
        let init = at_work(&format!("{AGAIN}exec-start: DAEMON --trace DIR/web.trace"), wrapper);
        let first = is_running(&init);
        keeps(&init);
        let mut steps = Steps::of(&init);
        first.signal(Signal::SIGKILL);
        let child = steps.until_forked(|_| first.state().is_none() && clones(&init));
        let pid = child.inner_pid().map(i64::from).unwrap();
        steps.crash();
        steps.until_executed();
        steps.until(|call| call.number == libc::SYS_kill && call.first == pid);
        // It was about to be what it is to be.
        child.signal(Signal::SIGCONT);
        until("it has its program", || (starts(&init, "web") == 2).then_some(()));
        child.signal(Signal::SIGSTOP);
        until("it is stopped", || is_stopped(child).then_some(()));
        steps.crash();
        drop(steps);
        has_survived(&init, 2);
        init.when_state("web", "running");
        assert_eq!((init.main_of("web"), starts(&init, "web")), (child, 2), "{}", init.output());
        assert!(!is_stopped(child));
        init.finish_after_crash();
    }
}

#[test]
fn what_was_begun_beside_a_daemon_that_init_was_left_ends_alone() {
    for (wrapper, how) in BOTH.into_iter().flat_map(|it| ["none", "guess"].map(|how| (it, how))) {
        let daemon = "exec-start: /bin/sh -c 'echo start >>DIR/web.trace; setsid sleep 1000 &'";
        let reload = "exec-reload: /bin/sh -c 'echo >DIR/reloading; exec sleep 1000'";
        let text = format!("type: background-pidfile\nmain-pid: {how}\n{daemon}\n{reload}");
        let init = at_work(&text, wrapper);
        init.tell("want", &json!({"target": "web"}));
        init.when_state("web", "running");
        until("it is alone", || (init.processes_of("web").len() == 1).then_some(()));
        let daemon = init.processes_of("web");
        assert_eq!(init.status().main_pid("web").is_some(), how == "guess");
        keeps(&init);
        init.tell("reload-unit", &json!({"targets": ["web"]}));
        until("it reloads", || init.sandbox.path("reloading").exists().then_some(()));
        for crashes in 1..=2 {
            crash(&init, Signal::SIGSEGV);
            has_survived(&init, crashes);
            init.tell("ping", &json!({}));
        }
        init.when_state("web", "running");
        assert_eq!(init.processes_of("web"), daemon, "{}", init.output());
        assert_eq!(starts(&init, "web"), 1);
        init.finish_after_crash();
    }
}

#[test]
fn what_was_about_to_be_killed_in_a_crash_is_killed_after_another() {
    let left = "exec-start-pre: /bin/sh -c 'sleep 1000 & echo >>DIR/left'";
    let text = format!("{AGAIN}{left}\nexec-start: DAEMON --trace DIR/web.trace");
    let init = at_work(&text, BOTH[0]);
    if init.status().0["tracking"] != "cgroup2" {
        return groundstate_tests::not_run!("no cgroups of the second kind here");
    }
    let first = is_running(&init);
    keeps(&init);
    let mut steps = Steps::of(&init);
    first.signal(Signal::SIGKILL);
    let has_left = || init.sandbox.read("left").lines().count() == 2;
    let child = steps.until_forked(|_| first.state().is_none() && has_left() && clones(&init));
    let pid = child.inner_pid().map(i64::from).unwrap();
    steps.crash();
    steps.until_executed();
    steps.until(|call| call.number == libc::SYS_kill && call.first == pid);
    steps.until(|call| call.number == libc::SYS_openat && kills_by_cgroup(&init));
    assert!(child.is_alive());
    steps.crash();
    drop(steps);
    has_survived(&init, 2);
    init.when_state("web", "running");
    until("it has begun", || (starts(&init, "web") == 2).then_some(()));
    init.tell("ping", &json!({}));
    assert!(!child.is_alive());
    assert_eq!(init.processes_of("web"), [init.main_of("web")], "{}", init.output());
    init.finish_after_crash();
}

#[test]
fn who_has_stopped_itself_does_not_go_on_after_two_crashes() {
    let script = "echo start >>DIR/web.trace; test -e DIR/go && kill -STOP $$$$; echo on >>DIR/web.trace; exec sleep 1000";
    for wrapper in BOTH {
        let init = at_work(&format!("{AGAIN}exec-start: /bin/sh -c '{script}'"), wrapper);
        let first = is_running(&init);
        init.sandbox.put("go", "");
        keeps(&init);
        first.signal(Signal::SIGKILL);
        until("it has begun anew", || (starts(&init, "web") == 2).then_some(()));
        let main = init.main_of("web");
        until("it has stopped itself", || is_stopped(main).then_some(()));
        let mut steps = Steps::of(&init);
        steps.crash();
        steps.until_executed();
        steps.until(looks_for_children);
        steps.crash();
        drop(steps);
        has_survived(&init, 2);
        init.tell("ping", &json!({}));
        assert!(is_stopped(main), "{}", init.output());
        assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 2));
        assert_eq!(init.sandbox.trace("web.trace"), ["start", "on", "start"]);
        init.finish_after_crash();
    }
}

/// It is just making a process of a unit: its helpers are forks.
fn clones(init: &Init) -> bool {
    let call = init.process().read("syscall").unwrap_or_default();
    call.split(' ').next().and_then(|number| number.parse().ok()) == Some(libc::SYS_clone3)
}

/// It has open by what all in a cgroup are killed.
fn kills_by_cgroup(init: &Init) -> bool {
    init.process().files().values().any(|file| file.contains("/cgroup.kill"))
}

/// It is going back to now.
fn looks_for_children(call: &Call) -> bool {
    call.number == libc::SYS_waitid && call.result == 0
}
