//! Crashes while a process is being started or soon after: each process starts once and belongs to
//! its own run. Other crashes are in [`super::crash`].

use super::crash::{has_survived, starts, until_traced};
use super::hierarchy::BARE;
use super::upgrade::at_work;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{
    Call, Steps, commit_word, crash, crash_when, hold_next, wait_for_commit,
};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::tracer::{Tracer, injected};
use nix::sys::signal::Signal;
use serde_json::json;

#[test]
fn process_started_just_before_a_crash_is_started_once() {
    let init = at_work();
    let first = init.main_of("notified");
    assert_started_once(init, |_| first.signal(Signal::SIGKILL));
}

#[test]
fn new_run_before_a_crash_is_not_taken_for_a_leftover_of_the_old_one() {
    let files = Sandbox::new();
    let it = "type: foreground-notified\nexec-start: DAEMON --notify --trace DIR/notified.trace --control DIR/notified";
    files.unit("notified", it);
    let init = Boot::new(files).through(&["/bin/sh", "-c", BARE, "sh"]).start("notified");
    init.when_state("notified", "running");
    let epoch = || commit_word(&init);
    let before = epoch();
    init.sandbox.order("notified", "notify STATUS=kept");
    until("its run is committed", || (epoch() > before).then_some(()));
    let mut client = init.client().expect("it listens");
    client.ask("ping", &json!({})).expect("an answer");
    assert_started_once(init, |_| client.send("restart", &json!({"targets": ["notified"]})));
}

#[test]
fn daemon_whose_launcher_has_exited_before_a_crash_belongs_to_its_unit() {
    for is_kept in [true, false] {
        launcher_exits_before_a_crash(is_kept);
    }
}

/// With `is_kept` the first run is committed before the restart is requested. Otherwise the first
/// run is killed.
fn launcher_exits_before_a_crash(is_kept: bool) {
    let files = Sandbox::new();
    let launcher =
        "DAEMON --trace DIR/old.trace --pid-file DIR/run/old.pid --children 1; sleep 0.2";
    files.unit(
        "old",
        &format!("type: background-pidfile\npid-file: DIR/run/old.pid\nrestart: always\nrestart-delay: 50ms\nexec-start: /bin/sh -c '{launcher}'"),
    );
    files.unit("more", "type: virtual");
    let mut init = Boot::new(files).through(&["/bin/sh", "-c", BARE, "sh"]).start("old");
    init.expect_crashes();
    init.when_state("old", "running");
    if is_kept {
        let epoch = || commit_word(&init);
        let before = epoch();
        init.tell("want", &json!({"target": "more"}));
        until("its run is committed", || (epoch() > before).then_some(()));
    } else {
        wait_for_commit(&init);
    }
    let mut client = init.client().expect("it listens");
    client.ask("ping", &json!({})).expect("an answer");
    let launcher = std::cell::Cell::new(None);
    let is_reaped = |call: &Call| {
        if call.number == libc::SYS_clone3 && call.result > 0 && launcher.get().is_none() {
            let inner = i32::try_from(call.result).unwrap_or(0);
            let unit = until("it has its program, or has ended", || {
                let Some(process) = init.process().neighbour(inner) else { return Some(None) };
                let unit = process.environment().get("GROUNDSTATE_UNIT").cloned();
                unit.map(Some).or_else(|| (!process.is_alive()).then_some(None))
            });
            launcher.set(unit.filter(|unit| unit == "old").and(init.process().neighbour(inner)));
        }
        let gone = || launcher.get().is_some_and(|process: Process| process.state().is_none());
        call.number == libc::SYS_waitid && gone()
    };
    let first = init.main_of("old");
    let begin = || match is_kept {
        true => client.send("restart", &json!({"targets": ["old"]})),
        false => first.signal(Signal::SIGKILL),
    };
    crash_when(&init, begin, is_reaped);
    for crashes in 1..=2 {
        has_survived(&init, crashes);
        let status = init.when_state("old", "running");
        let named: Option<i32> = init.sandbox.read("run/old.pid").trim().parse().ok();
        assert!(named.is_some() && status.main_pid("old") == named, "{}", init.output());
        assert_eq!((init.processes_of("old").len(), starts(&init, "old")), (2, 2));
        if crashes == 1 {
            crash(&init, Signal::SIGSEGV);
        }
    }
    let child = init.processes_of("old").into_iter().find(|it| *it != init.main_of("old"));
    init.main_of("old").signal(Signal::SIGKILL);
    until("the unit is restarted", || (starts(&init, "old") == 3).then_some(()));
    assert!(!child.expect("it has one").is_alive(), "its leftover process exits first");
    init.finish_after_crash();
}

#[test]
fn run_started_after_a_refused_start_survives_a_crash() {
    // Refuses the second command, or the output pipe before the first one.
    for refused in ["clone3:error=EAGAIN:when=2", "pipe2:error=EMFILE:when=1"] {
        let files = Sandbox::new();
        files.unit(
            "web",
            "restart-delay: 50ms\nexec-start-pre: /bin/true\nexec-start: DAEMON --trace DIR/web.trace",
        );
        files.unit("all", "type: virtual");
        let mut init = Boot::new(files).start("all");
        init.expect_crashes();
        wait_for_commit(&init);
        let (call, _) = refused.split_once(':').expect("a call");
        let no_more = ["-e", &format!("trace={call}"), "-e", &format!("inject={refused}")];
        let tracer = Tracer::attach(init.process(), &init.sandbox.path("strace"), &no_more);
        init.tell("want", &json!({"target": "web"}));
        init.when_state("web", "running");
        assert_eq!(injected(&tracer.detach()), 1);
        let run = |init: &Init| init.status().unit("web")["run"].as_u64();
        until_traced(&init, "web");
        let (main, before) = (init.main_of("web"), run(&init));
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 1);
        init.when_state("web", "running");
        assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 1), "{}", init.output());
        assert_eq!(run(&init), before, "{refused}");
        init.finish_after_crash();
    }
}

/// The child that opens the sockets is part of the state; the sockets arrive just before the crash.
#[cfg(target_arch = "x86_64")]
#[test]
fn socket_received_at_the_moment_of_a_crash_is_kept() {
    let files = Sandbox::new();
    files.unit("front", "type: socket\nlisten-stream: DIR/front.sock\nactivates: echo");
    files.unit("echo", "exec-start: LISTENER");
    files.unit("all", "type: virtual");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when_system("running");
    let mut client = init.client().expect("it listens");
    client.ask("ping", &json!({})).expect("an answer");
    let sockets = || init.process().files().values().filter(|it| it.contains("socket:")).count();
    let mut steps = Steps::of(&init);
    let before = sockets();
    client.send("want", &json!({"target": "front"}));
    // Both ends of the answer channel are open.
    let opener = steps.until_forked(|_| sockets() > before);
    drop(steps);
    let of = init.when_state("front", "starting").unit("front")["run"].as_u64();
    wait_for_commit(&init);
    let has_come = |call: &Call| call.number == libc::SYS_recvmsg && call.result > 0;
    crash_when(&init, || opener.signal(Signal::SIGCONT), has_come);
    has_survived(&init, 1);
    init.when_state("front", "running");
    assert_eq!(
        init.status().unit("front")["run"].as_u64(),
        of,
        "it has not failed: {}",
        init.output()
    );
    std::os::unix::net::UnixStream::connect(init.sandbox.path("front.sock")).expect("it listens");
    init.finish_after_crash();
}

/// The sockets are closed, and a child starts to remove their paths.
#[cfg(target_arch = "x86_64")]
#[test]
fn stop_of_a_socket_that_a_crash_interrupts_is_completed() {
    let files = Sandbox::new();
    files.unit(
        "front",
        "type: socket\nlisten-stream: DIR/front.sock\nsocket-remove: yes\nactivates: echo",
    );
    files.unit("echo", "exec-start: LISTENER");
    files.unit("all", "type: virtual");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when_system("running");
    init.tell("want", &json!({"target": "front"}));
    init.when_state("front", "running");
    wait_for_commit(&init);
    let mut client = init.client().expect("it listens");
    let mut steps = Steps::of(&init);
    client.send("unwant", &json!({"target": "front"}));
    steps.until_forked(|_| true);
    steps.crash();
    drop(steps);
    has_survived(&init, 1);
    init.when_state("front", "disabled");
    until("its path is removed", || (!init.sandbox.path("front.sock").exists()).then_some(()));
    init.finish_after_crash();
}

/// Crashes init after it has started the unit's process a second time, and checks that it is not
/// started again.
fn assert_started_once(mut init: Init, begin: impl FnOnce(&Init)) {
    init.expect_crashes();
    let (came, pid) = (std::cell::Cell::new(None), std::cell::Cell::new(0));
    let started = |call: &Call| {
        if call.number != libc::SYS_clone3 || call.result <= 0 {
            return false;
        }
        // The child executes its program while init is stopped.
        let inner = i32::try_from(call.result).unwrap_or(0);
        let unit = until("it has its program, or has ended", || {
            let Some(process) = init.process().neighbour(inner) else { return Some(None) };
            let unit = process.environment().get("GROUNDSTATE_UNIT").cloned();
            unit.map(Some).or_else(|| (!process.is_alive()).then_some(None))
        });
        let is_it = unit.as_deref() == Some("notified");
        if is_it {
            came.set(init.process().neighbour(inner));
            pid.set(call.result);
        }
        is_it
    };
    crash_when(&init, || begin(&init), started);
    has_survived(&init, 1);
    let after = init.when("it runs", |s| s.state("notified") == "running");
    assert_eq!(after.main_pid("notified").map(i64::from), Some(pid.get()));
    assert_eq!(came.get(), Some(init.main_of("notified")));
    assert_eq!((init.processes_of("notified").len(), starts(&init, "notified")), (1, 2));
    init.sandbox.order("notified", "say written after the crash");
    until("its output is read", || {
        let log = init.initctl(&["logs", "notified", "-n", "100"]);
        String::from_utf8_lossy(&log.stdout).contains("after the crash").then_some(())
    });
    init.finish_after_crash();
}

#[test]
fn child_that_executes_after_the_crash_of_its_parent_is_supervised() {
    let text = "type: foreground-notified\nexec-start: DAEMON --notify --trace DIR/web.trace --control DIR/web";
    let files = Sandbox::new();
    files.unit("web", text);
    // The timer makes init commit its state again and again.
    files
        .unit("tick", "type: timer\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: /bin/true");
    files.unit("all", "type: virtual\nwaits-for: web, tick");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when_state("web", "running");
    if init.status().0["tracking"] != "cgroup2" {
        return groundstate_tests::not_run!("no cgroup v2 here");
    }
    let first = init.main_of("web");
    let held = hold_next(&init, "web", || first.signal(Signal::SIGKILL));
    wait_for_commit(&init);
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    assert_eq!((init.status().main_pid("web"), starts(&init, "web")), (None, 1));
    held.signal(Signal::SIGCONT);
    init.when("the process exists", |s| s.state("web") == "running" && s.main_pid("web").is_some());
    assert_eq!((init.main_of("web"), starts(&init, "web")), (held, 2));
    init.finish_after_crash();
}
