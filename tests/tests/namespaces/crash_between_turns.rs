//! A crash in, or after, the turn in which init finds that a child has executed its program, or
//! that nothing is left of a run. The next run starts once, and requests for the earlier run do not
//! apply to it. Other crashes with processes just started are in [`super::crash_mid_spawn`].

use super::crash::{BOTH, has_its_program, has_survived, starts, until_traced};
use super::crash_changed_world::{at_work, clones};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{Steps, crash, wait_for_commit};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;

/// Sends many requests, each of which init commits.
fn send_many_requests(init: &Init) {
    for _ in 0..2200 {
        init.tell("want", &json!({"target": "all"}));
    }
}

/// Starts a chain of units in single steps; init crashes once all have started.
fn chain_starts_once(wrapper: &[&str], before: impl FnOnce(&Init)) {
    let files = Sandbox::new();
    let links: Vec<String> = (0..6).map(|number| format!("link{number}")).collect();
    for (number, name) in links.iter().enumerate() {
        let below = number.checked_sub(1).map(|below| format!("depends-on: link{below}\n"));
        let text = format!("exec-start: DAEMON --trace DIR/{name}.trace\n");
        files.unit(name, &(text + &below.unwrap_or_default()));
    }
    files.unit("all", "type: virtual");
    let mut init = Boot::new(files).through(wrapper).start("all");
    init.when_system("running");
    init.expect_crashes();
    wait_for_commit(&init);
    before(&init);
    let mut client = init.client().unwrap();
    let mut steps = Steps::of(&init);
    client.send("want", &json!({"target": links.last()}));
    for name in &links {
        steps.until(|call| has_its_program(&init, call));
        until_traced(&init, name);
    }
    steps.crash();
    drop(steps);
    has_survived(&init, 1);
    links.iter().for_each(|name| _ = init.when_state(name, "running"));
    init.tell("ping", &json!({}));
    for name in &links {
        assert_eq!(starts(&init, name), 1, "{name}: {}", init.output());
        assert_eq!(init.processes_of(name), [init.main_of(name)]);
    }
    init.finish_after_crash();
}

#[test]
fn chain_of_units_started_in_one_turn_starts_once_despite_a_crash() {
    for wrapper in BOTH {
        chain_starts_once(wrapper, |_| {});
        chain_starts_once(wrapper, send_many_requests);
    }
}

#[test]
fn unit_restarted_several_times_before_a_crash_is_not_started_again() {
    for wrapper in BOTH {
        let text = "restart: always\nrestart-delay: 10ms\nexec-start: DAEMON --trace DIR/web.trace";
        let init = at_work(text, wrapper);
        init.tell("want", &json!({"target": "web"}));
        init.when_state("web", "running");
        send_many_requests(&init);
        for times in 1..=3 {
            until("the service has started", || (starts(&init, "web") == times).then_some(()));
            init.when_state("web", "running");
            init.main_of("web").signal(Signal::SIGKILL);
        }
        until("the service has started", || (starts(&init, "web") == 4).then_some(()));
        init.when_state("web", "running");
        let main = init.main_of("web");
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 1);
        init.tell("ping", &json!({}));
        init.when_state("web", "running");
        assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 4), "{}", init.output());
        init.finish_after_crash();
    }
}

#[test]
fn restart_requested_before_a_start_does_not_apply_to_it_after_a_crash() {
    for wrapper in BOTH {
        let files = Sandbox::new();
        files.unit("below", "exec-start: DAEMON --trace DIR/below.trace");
        files.unit("web", "depends-on: below\nexec-start: DAEMON --trace DIR/web.trace");
        files.unit("all", "type: virtual");
        let mut init = Boot::new(files).through(wrapper).start("all");
        init.when_system("running");
        init.expect_crashes();
        wait_for_commit(&init);
        let mut client = init.client().unwrap();
        let mut steps = Steps::of(&init);
        client.send("want", &json!({"target": "web"}));
        let below = steps.until_forked(|_| clones(&init));
        drop(steps);
        init.tell("restart", &json!({"targets": ["web"]}));
        below.signal(Signal::SIGCONT);
        init.when_state("web", "running");
        until_traced(&init, "web");
        let main = init.main_of("web");
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 1);
        init.tell("ping", &json!({}));
        init.when_state("web", "running");
        assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 1), "{}", init.output());
        init.finish_after_crash();
    }
}

#[test]
fn restart_requested_during_a_stop_does_not_apply_to_the_next_run_after_a_crash() {
    for wrapper in BOTH {
        let text = "stop-timeout: 60s\nexec-start: /bin/bash -c 'echo start >>DIR/web.trace; (trap \"\" TERM; echo $BASHPID >DIR/lingers; exec sleep 1000) & exec sleep 1000'";
        let init = at_work(text, wrapper);
        init.tell("want", &json!({"target": "web"}));
        init.when_state("web", "running");
        until_traced(&init, "web");
        let lingers = || init.sandbox.read("lingers").trim().parse::<i32>().ok();
        let number = until("it lingers", lingers);
        let lingering = init.process().neighbour(number).unwrap();
        let main = init.main_of("web");
        init.tell("restart", &json!({"targets": ["web"]}));
        until("the process has exited", || main.state().is_none().then_some(()));
        init.when_state("web", "stopping");
        init.tell("restart", &json!({"targets": ["web"]}));
        lingering.end();
        until("the service has restarted", || (starts(&init, "web") == 2).then_some(()));
        init.when_state("web", "running");
        let main = init.main_of("web");
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 1);
        init.tell("ping", &json!({}));
        init.when_state("web", "running");
        assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 2), "{}", init.output());
        init.processes_of("web").into_iter().for_each(Process::end);
        init.finish_after_crash();
    }
}

/// The main process has exited successfully, and the unit remains active without a process until it
/// is stopped.
#[test]
fn stop_command_that_ran_before_a_crash_is_not_run_against_the_next_run() {
    let stops = ["exec-stop: /bin/true", "exec-stop-post: /bin/true"];
    for (wrapper, stop) in BOTH.into_iter().flat_map(|wrapper| stops.map(|stop| (wrapper, stop))) {
        let text =
            "type: oneshot\nremain: yes\nexec-start: DAEMON --trace DIR/web.trace --exit 0\n";
        let init = at_work(&format!("{text}{stop}"), wrapper);
        init.tell("want", &json!({"target": "web"}));
        for times in 1..=2 {
            until("the script has run", || (starts(&init, "web") == times).then_some(()));
            init.when_state("web", "exited");
            if times == 1 {
                init.tell("restart", &json!({"targets": ["web"]}));
            }
        }
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 1);
        init.tell("ping", &json!({}));
        assert_eq!(init.status().state("web"), "exited", "{}", init.output());
        assert_eq!(starts(&init, "web"), 2, "{}", init.output());
        init.finish_after_crash();
    }
}

#[test]
fn skipped_unit_stays_skipped_after_a_crash() {
    let conditions = ["condition-path-exists: DIR/never", "exec-condition: /bin/false"];
    for (wrapper, condition) in BOTH.into_iter().flat_map(|one| conditions.map(|it| (one, it))) {
        let init = at_work(&format!("{condition}\nexec-start: DAEMON"), wrapper);
        init.tell("want", &json!({"target": "web"}));
        init.when_state("web", "exited");
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 1);
        init.tell("ping", &json!({}));
        let status = init.status();
        assert_eq!((status.state("web"), status.reason("web")), ("exited", "skipped"));
        init.finish_after_crash();
    }
}

/// A process left by exec-stop-post does not belong to the main process, which exited before.
#[test]
fn process_left_by_exec_stop_post_is_waited_for_after_a_crash() {
    for wrapper in BOTH {
        let text = "stop-timeout: 60s\nexec-start: DAEMON --trace DIR/web.trace\nexec-stop-post: /bin/bash -c '(trap \"\" TERM; echo $BASHPID >DIR/lingers; exec sleep 1000) & until [ -s DIR/lingers ]; do sleep 0.02; done'";
        let init = at_work(text, wrapper);
        init.tell("want", &json!({"target": "web"}));
        init.when_state("web", "running");
        until_traced(&init, "web");
        init.tell("restart", &json!({"targets": ["web"]}));
        let lingers = || init.sandbox.read("lingers").trim().parse::<i32>().ok();
        let number = until("it lingers", lingers);
        let lingering = init.process().neighbour(number).unwrap();
        init.when_state("web", "stopping");
        until("only this process is left", || {
            (init.processes_of("web") == [lingering]).then_some(())
        });
        init.tell("ping", &json!({}));
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 1);
        init.tell("ping", &json!({}));
        assert_eq!(init.status().state("web"), "stopping", "{}", init.output());
        assert_eq!(starts(&init, "web"), 1, "{}", init.output());
        assert!(lingering.state().is_some());
        lingering.end();
        until("the unit is restarted", || (starts(&init, "web") == 2).then_some(()));
        init.finish_after_crash();
    }
}

/// In the first round init sees the exit while it restores its state, in the second round later.
/// Each time it restarts the unit.
#[test]
fn exit_observed_after_a_crash_is_remembered_after_the_next_crash() {
    for wrapper in BOTH {
        let files = Sandbox::new();
        files.unit("web", "stop-timeout: 60s\nrestart: always\nrestart-delay: 10ms\nexec-start: /bin/bash -c 'rm -f DIR/lingers; (trap \"\" TERM; echo $BASHPID >DIR/lingers; exec sleep 1000) & echo start >>DIR/web.trace; exec sleep 1000'");
        files.unit("all", "type: virtual\nwants: web");
        let mut init = Boot::new(files).through(wrapper).start("all");
        init.when_system("running");
        init.expect_crashes();
        wait_for_commit(&init);
        for crashes in 1..=2 {
            init.when_state("web", "running");
            until("the service has started", || (starts(&init, "web") == crashes).then_some(()));
            let (main, lingering) = (init.main_of("web"), lingers(&init));
            main.signal(Signal::SIGKILL);
            init.when_state("web", "stopping");
            let holds = crashes == 1;
            if holds {
                init.process().signal(Signal::SIGSTOP);
                until("init is stopped", || (init.process().state() == Some('T')).then_some(()));
            }
            lingering.end();
            if holds {
                crash(&init, Signal::SIGSEGV);
                init.process().signal(Signal::SIGCONT);
                has_survived(&init, 1);
            }
            until("the service has restarted", || (starts(&init, "web") > crashes).then_some(()));
        }
        init.when_state("web", "running");
        let main = init.main_of("web");
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 2);
        init.tell("ping", &json!({}));
        init.when_state("web", "running");
        assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 3), "{}", init.output());
        init.processes_of("web").into_iter().for_each(Process::end);
        init.finish_after_crash();
    }
}

fn lingers(init: &Init) -> Process {
    let number = || init.sandbox.read("lingers").trim().parse::<i32>().ok();
    until("it lingers", || init.process().neighbour(number()?))
}

#[test]
fn requests_of_one_turn_apply_to_the_right_runs_after_a_crash() {
    for wrapper in BOTH {
        let files = Sandbox::new();
        let many: Vec<String> = (0..40).map(|number| format!("a{number:02}")).collect();
        for name in &many {
            files.unit(name, "restart: never\nexec-start: DAEMON");
        }
        files.unit(
            "web",
            "restart: never\nwaits-for: a00\nexec-start: DAEMON --trace DIR/web.trace",
        );
        files.unit("many", &format!("type: virtual\nwants: {}", many.join(", ")));
        files.unit("all", "type: virtual");
        let mut init = Boot::new(files).through(wrapper).start("all");
        init.expect_crashes();
        init.when_system("running");
        wait_for_commit(&init);
        let mut client = init.client().unwrap();
        init.process().signal(Signal::SIGSTOP);
        until("init is stopped", || (init.process().state() == Some('T')).then_some(()));
        client.send("want", &json!({"target": "web"}));
        client.send("want", &json!({"target": "many"}));
        client.send("restart", &json!({"targets": ["web"]}));
        init.process().signal(Signal::SIGCONT);
        init.tell("ping", &json!({}));
        init.when_state("web", "running");
        many.iter().for_each(|name| _ = init.when_state(name, "running"));
        until_traced(&init, "web");
        let (main, times) = (init.main_of("web"), starts(&init, "web"));
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 1);
        init.tell("ping", &json!({}));
        init.when_state("web", "running");
        assert_eq!((init.main_of("web"), starts(&init, "web")), (main, times), "{}", init.output());
        init.finish_after_crash();
    }
}

#[test]
fn restart_requested_during_the_cleanup_does_not_apply_to_the_next_run_after_a_crash() {
    for wrapper in BOTH {
        let text =
            "restart-delay: 1ms\nruntime-dir: turn-web\nexec-start: DAEMON --trace DIR/web.trace";
        let init = at_work(text, wrapper);
        init.tell("want", &json!({"target": "web"}));
        init.when_state("web", "running");
        until_traced(&init, "web");
        let mut client = init.client().unwrap();
        let mut steps = Steps::of(&init);
        client.send("restart", &json!({"targets": ["web"]}));
        let helper = steps.until_forked(|_| !clones(&init));
        drop(steps);
        init.tell("restart", &json!({"targets": ["web"]}));
        helper.signal(Signal::SIGCONT);
        until("the service has restarted", || (starts(&init, "web") == 2).then_some(()));
        init.when_state("web", "running");
        let main = init.main_of("web");
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 1);
        init.tell("ping", &json!({}));
        init.when_state("web", "running");
        assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 2), "{}", init.output());
        init.finish_after_crash();
    }
}

#[test]
fn exit_caused_by_a_stop_counts_as_stop_after_a_crash() {
    let text = "type: background-scripted\nexec-start: /bin/sh -c 'setsid sleep 1000 &'\nexec-stop-post: DAEMON --trace DIR/web.trace";
    let init = at_work(text, &[]);
    init.tell("want", &json!({"target": "web"}));
    init.when_state("web", "running");
    let alone = || <[Process; 1]>::try_from(init.processes_of("web")).ok();
    let [daemon] = until("only the daemon is left", alone);
    wait_for_commit(&init);
    let mut client = init.client().unwrap();
    let mut steps = Steps::of(&init);
    client.send("unwant", &json!({"target": "web"}));
    let has_ended = || !daemon.is_alive() || daemon.state() == Some('Z');
    steps.until(|call| {
        let is_signal = [libc::SYS_kill, libc::SYS_pidfd_send_signal].contains(&call.number);
        is_signal && until("it ends", || has_ended().then_some(true))
    });
    steps.until(|call| has_its_program(&init, call));
    until_traced(&init, "web");
    let last = init.processes_of("web");
    steps.crash();
    drop(steps);
    has_survived(&init, 1);
    init.tell("ping", &json!({}));
    assert_eq!(init.processes_of("web"), last, "{}", init.output());
    assert_eq!(init.sandbox.trace("web.trace").len(), 2, "{}", init.output());
    last.into_iter().for_each(|it| it.signal(Signal::SIGTERM));
    init.when_state("web", "disabled");
    init.finish_after_crash();
}
