//! A second crash of init while it restores its state, or soon after. The observations and actions
//! between the two crashes are kept. The first of these crashes is as in [`super::crash_mid_spawn`]
//! and [`super::crash_changed_world`].

use super::crash::{BOTH, has_survived, starts};
use super::crash_changed_world::{TMP, at_work};
use groundstate_tests::boot::Init;
use groundstate_tests::crash::{Call, Steps, crash, crash_when, wait_for_commit};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use nix::sys::signal::Signal;
use serde_json::json;

const AGAIN: &str = "restart: always\nrestart-delay: 50ms\n";

fn start_web(init: &Init) -> Process {
    init.tell("want", &json!({"target": "web"}));
    init.when_state("web", "running");
    until("the service has started", || (starts(init, "web") == 1).then_some(()));
    init.main_of("web")
}

fn is_stopped(process: Process) -> bool {
    process.state() == Some('T')
}

/// Crashes init when it has just reaped the second launcher, which `kill` causes.
fn crash_after_reaping_the_launcher(init: &Init, kill: impl FnOnce()) {
    let launcher = || init.sandbox.read("launcher").trim().parse::<i32>().ok();
    let first = launcher();
    let is_gone = || {
        let second = launcher().filter(|pid| Some(*pid) != first);
        second.is_some_and(|pid| init.process().neighbour(pid).is_none())
    };
    crash_when(init, kill, |call| call.number == libc::SYS_waitid && is_gone());
    has_survived(init, 1);
    init.when_state("web", "running");
    assert_eq!(starts(init, "web"), 2);
}

/// A launcher that starts these daemons and exits.
fn guessed(daemons: &str) -> String {
    format!(
        "type: background-pidfile\nmain-pid: guess\nrestart-delay: 50ms\nexec-start: /bin/sh -c 'echo start >>DIR/web.trace; echo $$$$ >DIR/launcher; {daemons}'"
    )
}

#[test]
fn ambiguous_main_process_stays_unknown_after_two_crashes() {
    let text = guessed("setsid sleep 1234 & setsid sleep 4321 &");
    for wrapper in BOTH {
        let init = at_work(&format!("restart: always\n{text}"), wrapper);
        init.tell("want", &json!({"target": "web"}));
        let two = || {
            init.when_state("web", "running");
            until("two are left", || {
                let left = init.processes_of("web");
                let is_one = |it: &Process| it.read("comm").is_some_and(|name| name == "sleep\n");
                (left.len() == 2 && left.iter().all(is_one)).then_some(left)
            })
        };
        let first = two();
        wait_for_commit(&init);
        crash_after_reaping_the_launcher(&init, || first.into_iter().for_each(Process::end));
        let [one, _] = two()[..] else { panic!("not two processes") };
        assert_eq!(init.status().main_pid("web"), None);
        one.end();
        until("one is left", || (init.processes_of("web").len() == 1).then_some(()));
        init.tell("ping", &json!({}));
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 2);
        init.when_state("web", "running");
        assert_eq!(init.status().main_pid("web"), None, "{}", init.output());
        init.finish_after_crash();
    }
}

#[test]
fn main_process_found_after_a_crash_is_known_after_the_next_one() {
    for wrapper in BOTH {
        let init =
            at_work(&format!("restart: always\n{}", guessed("setsid sleep 1234 &")), wrapper);
        init.tell("want", &json!({"target": "web"}));
        init.when("the unit has a main process", |s| {
            s.state("web") == "running" && s.main_pid("web").is_some()
        });
        let first = init.main_of("web");
        wait_for_commit(&init);
        crash_after_reaping_the_launcher(&init, || first.end());
        init.main_of("web").end();
        until("the unit is restarted", || (starts(&init, "web") == 3).then_some(()));
        init.when("the unit has a main process", |s| {
            s.state("web") == "running" && s.main_pid("web").is_some()
        });
        let main = init.main_of("web");
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 2);
        init.tell("ping", &json!({}));
        init.when_state("web", "running");
        assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 3), "{}", init.output());
        let events = init.initctl_json_lines(&["events"]);
        let is_end = |kind: &&str| ["exit", "signal"].contains(kind);
        let ends = events.iter().filter_map(|event| event["reason"]["kind"].as_str());
        assert_eq!(ends.filter(is_end).collect::<Vec<_>>(), ["signal"; 2], "both were killed");
        init.finish_after_crash();
    }
}

#[test]
fn pid_file_removed_after_a_crash_is_not_removed_again_after_the_next_one() {
    let text = "type: background-pidfile\npid-file: /run/pid\nexec-start: DAEMON --pid-file /run/pid --trace DIR/web.trace";
    let init = at_work(&format!("{AGAIN}{text}"), &TMP);
    let first = start_web(&init);
    wait_for_commit(&init);
    let path = format!("/proc/{}/root/run/pid", init.process().0);
    let named = || std::fs::read_to_string(&path).ok()?.trim().parse::<i32>().ok();
    crash_when(
        &init,
        || first.end(),
        |call| [libc::SYS_unlink, libc::SYS_unlinkat].contains(&call.number) && named().is_none(),
    );
    has_survived(&init, 1);
    init.when_state("web", "running");
    until("the service has started", || (starts(&init, "web") == 2).then_some(()));
    assert_eq!(named(), init.status().main_pid("web"));
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 2);
    init.tell("ping", &json!({}));
    init.when_state("web", "running");
    let main = init.status().main_pid("web");
    assert!(main.is_some() && named() == main, "{:?} {main:?} {}", named(), init.output());
    assert_eq!(starts(&init, "web"), 2);
    init.finish_after_crash();
}

#[test]
fn process_that_stopped_itself_stays_stopped_after_two_crashes() {
    let script = "echo start >>DIR/web.trace; test -e DIR/go && kill -STOP $$$$; echo on >>DIR/web.trace; exec sleep 1000";
    for wrapper in BOTH {
        let init = at_work(&format!("{AGAIN}exec-start: /bin/sh -c '{script}'"), wrapper);
        let first = start_web(&init);
        init.sandbox.put("go", "");
        wait_for_commit(&init);
        first.signal(Signal::SIGKILL);
        until("the service has restarted", || (starts(&init, "web") == 2).then_some(()));
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

/// Init checks its children while it restores its state.
fn looks_for_children(call: &Call) -> bool {
    call.number == libc::SYS_waitid && call.result == 0
}
