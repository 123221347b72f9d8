//! A crash in, or after, the turn in which init has found by a look that a child had become its program, or that
//! nothing is left of a run: what followed is begun once, and what was wished before is not done to it. Other crashes
//! with what was begun are in [`super::begun`].

use super::crash::{has_survived, starts, until_begun};
use super::keeping::keeps_no_more;
use super::past::{BOTH, at_work, has_its_program, keeps};
use super::twice::clones;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{Slow, Steps, crash};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;

/// Of what happens from now on some is not noted any more.
fn fills_its_notes(init: &Init) {
    for _ in 0..2200 {
        init.tell("want", &json!({"target": "all"}));
    }
}

/// All of a chain come up while init looks elsewhere, and then it crashes.
fn a_chain_is_begun_once(wrapper: &[&str], before: impl FnOnce(&Init)) {
    let files = Sandbox::new();
    let links: Vec<String> = (0..6).map(|number| format!("link{number}")).collect();
    for (number, name) in links.iter().enumerate() {
        let below = number.checked_sub(1).map(|below| format!("depends-on: link{below}\n"));
        let text = format!("exec-start: DAEMON --trace DIR/{name}.trace\n");
        files.unit(name, &(text + &below.unwrap_or_default()));
    }
    files.unit("all", "type: virtual");
    let mut init = Boot::new(files).through(wrapper).start("all");
    init.expect_crashes();
    keeps_no_more(&init);
    before(&init);
    let mut client = init.client().unwrap();
    let mut steps = Steps::of(&init);
    client.send("want", &json!({"target": links.last()}));
    for name in &links {
        steps.until(|call| has_its_program(&init, call));
        until_begun(&init, name);
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
fn who_was_begun_in_the_turn_in_which_what_it_needs_came_up_is_begun_once() {
    for wrapper in BOTH {
        a_chain_is_begun_once(wrapper, |_| {});
        a_chain_is_begun_once(wrapper, fills_its_notes);
    }
}

#[test]
fn who_was_begun_anew_several_times_with_few_notes_left_is_begun_no_more() {
    for wrapper in BOTH {
        let text = "restart: always\nrestart-delay: 10ms\nexec-start: DAEMON --trace DIR/web.trace";
        let init = at_work(text, wrapper);
        init.tell("want", &json!({"target": "web"}));
        init.when_state("web", "running");
        fills_its_notes(&init);
        for times in 1..=3 {
            until("it has begun", || (starts(&init, "web") == times).then_some(()));
            init.when_state("web", "running");
            init.main_of("web").signal(Signal::SIGKILL);
        }
        until("it has begun", || (starts(&init, "web") == 4).then_some(()));
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
fn what_was_wished_before_something_was_begun_is_not_done_to_it_after_a_crash() {
    for wrapper in BOTH {
        let files = Sandbox::new();
        files.unit("below", "exec-start: DAEMON --trace DIR/below.trace");
        files.unit("web", "depends-on: below\nexec-start: DAEMON --trace DIR/web.trace");
        files.unit("all", "type: virtual");
        let mut init = Boot::new(files).through(wrapper).start("all");
        init.expect_crashes();
        keeps_no_more(&init);
        let mut client = init.client().unwrap();
        let mut steps = Steps::of(&init);
        client.send("want", &json!({"target": "web"}));
        let below = steps.until_forked(|_| clones(&init));
        drop(steps);
        init.tell("restart", &json!({"targets": ["web"]}));
        below.signal(Signal::SIGCONT);
        init.when_state("web", "running");
        until_begun(&init, "web");
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
fn what_was_wished_while_something_of_a_run_lived_is_not_done_to_the_next_after_a_crash() {
    for wrapper in BOTH {
        let text = "stop-timeout: 60s\nexec-start: /bin/bash -c 'echo start >>DIR/web.trace; (trap \"\" TERM; echo $BASHPID >DIR/lingers; exec sleep 1000) & exec sleep 1000'";
        let init = at_work(text, wrapper);
        init.tell("want", &json!({"target": "web"}));
        init.when_state("web", "running");
        until_begun(&init, "web");
        let lingers = || init.sandbox.read("lingers").trim().parse::<i32>().ok();
        let number = until("it lingers", lingers);
        let lingering = init.process().neighbour(number).unwrap();
        let main = init.main_of("web");
        init.tell("restart", &json!({"targets": ["web"]}));
        until("it has ended", || main.state().is_none().then_some(()));
        init.when_state("web", "stopping");
        init.tell("restart", &json!({"targets": ["web"]}));
        lingering.end();
        until("it has begun anew", || (starts(&init, "web") == 2).then_some(()));
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

/// What it holds, a port, a lock, is free by then.
#[test]
fn who_is_killed_as_nobodys_has_ended_before_its_unit_is_begun_again() {
    let text = "restart-delay: 50ms\nexec-start: DAEMON --trace DIR/web.trace";
    for wrapper in BOTH {
        let init = at_work(text, wrapper);
        init.tell("want", &json!({"target": "web"}));
        init.when_state("web", "running");
        until_begun(&init, "web");
        keeps(&init);
        init.main_of("web").signal(Signal::SIGKILL);
        until("it is begun once more", || (starts(&init, "web") == 2).then_some(()));
        init.when_state("web", "running");
        let slow = Slow::of(init.main_of("web"));
        for crashes in 1..=3 {
            crash(&init, Signal::SIGSEGV);
            has_survived(&init, crashes);
        }
        slow.is_ending();
        let waits = || {
            let call = init.process().read("syscall").unwrap_or_default();
            let number = call.split(' ').next().and_then(|number| number.parse::<i64>().ok());
            [Some(libc::SYS_poll), Some(libc::SYS_ppoll)].contains(&number)
        };
        let so_far = || starts(&init, "web");
        until("it is waited for", || (waits() || so_far() > 2).then_some(()));
        assert_eq!(so_far(), 2, "{}", init.output());
        drop(slow);
        until("it is begun once more", || (so_far() == 3).then_some(()));
        init.when_state("web", "running");
        init.finish_after_crash();
    }
}
