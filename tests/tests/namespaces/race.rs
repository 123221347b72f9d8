//! Reloads at bad times: ten a second while units crash, and concurrent with other reloads, a new
//! goal, an upgrade, a crash or a shutdown. The effect of one reload is in [`super::reload`].

use super::crash::has_survived;
use super::saved_state::until_steady;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::client::Client;
use groundstate_tests::crash::Steps;
use groundstate_tests::deadline::until;
use groundstate_tests::reloads::{Size, storm};
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn ten_reloads_a_second_while_units_crash_affect_no_other_unit() {
    let time = Duration::from_secs(10);
    let seen = storm(Size { units: 100, crashing: 10, time, recorded: true });
    println!("{seen}");
    // The soak checks the answer times; other tests run beside this one.
    seen.verdict(Duration::from_secs(5)).unwrap();
}

#[test]
fn each_kind_of_reload_is_made_even_on_a_busy_machine() {
    // The storm continues after its time until it has seen each kind of reload, as on a machine
    // that is too busy for one of them within that time.
    let (units, crashing, time) = (20, 4, Duration::ZERO);
    let seen = storm(Size { units, crashing, time, recorded: false });
    seen.verdict(Duration::from_secs(5)).unwrap();
}

/// Two targets that need the same service, and enough other units that a load takes time.
fn crossroads() -> Init {
    let files = Sandbox::new();
    files.unit("db", "exec-start: DAEMON --name db");
    for side in ["left", "right"] {
        files.unit(side, "type: virtual\nwaits-for: web");
    }
    for number in 0..300 {
        files.unit(&format!("more{number}"), "type: virtual\nwants: db");
    }
    edit(&files, 0);
    let init = Boot::new(files).start("left");
    init.when_system("running");
    init
}

fn edit(files: &Sandbox, version: usize) {
    files.unit("web", &format!("waits-for: db\nexec-start: DAEMON --name web{version}."));
}

/// Checks that the service runs with its latest definition and that no other unit was touched.
fn assert_runs(init: &Init, version: usize, db: Option<i32>) {
    until("it runs as it was last described", || {
        let main = init.main_of("web").read("cmdline")?;
        main.contains(&format!("web{version}.")).then_some(())
    });
    let status = init.when_state("web", "running");
    assert_eq!(status.main_pid("db"), db);
    let alone = || (init.processes_of("web").len() == 1).then_some(());
    until("it runs once", alone);
}

fn generation(answer: &Value) -> u64 {
    answer["generation"].as_u64().unwrap_or_else(|| panic!("the answer has a generation: {answer}"))
}

#[test]
fn concurrent_reloads_goals_and_upgrades_are_applied_one_after_the_other() {
    let init = crossroads();
    let db = init.status().main_pid("db");
    let mut clients: Vec<Client> = (0..4).map(|_| init.client().unwrap()).collect();
    for round in 1..=12 {
        let before = generation(&init.status().0);
        edit(&init.sandbox, round);
        let goal = if round % 2 == 0 { "left" } else { "right" };
        let goal_fields = json!({"targets": [goal]});
        // The order rotates.
        for at in (0..4).map(|at| (at + round) % 4) {
            match at {
                0 | 1 => clients[at].send("reload", &json!({})),
                2 => clients[at].send("set-target", &goal_fields),
                _ if round % 3 == 0 => clients[at].send("upgrade", &json!({})),
                _ => init.process().signal(Signal::SIGHUP),
            }
        }
        let mut answer = |at: usize| clients[at].answer().expect("an answer").expect("no refusal");
        let (one, other) = (generation(&answer(0)), generation(&answer(1)));
        // SIGHUP may cause reloads before, between and after them.
        assert!(before < one && before < other && one != other, "{before} {one} {other}");
        answer(2);
        if round % 3 == 0 {
            answer(3);
        }
        assert_runs(&init, round, db);
        let status = init.status();
        assert!(generation(&status.0) >= one.max(other));
        assert_eq!(status.0["goal"], json!([goal]), "{}", status.0["goal"]);
    }
    assert_eq!(init.tell("stats", &json!({}))["crashes"], 0);
    drop(clients);
    init.finish();
}

/// Two children of init, of which one checks a binary and the other has loaded the units, exit
/// before init reaps either. The new image must start the next load without an exit of a loader.
#[test]
fn reload_that_waits_for_another_during_an_upgrade_is_done_by_the_new_image() {
    let init = crossroads();
    let children = init.process().children();
    let mut clients: Vec<Client> = (0..3).map(|_| init.client().unwrap()).collect();
    let mut steps = Steps::of(&init);
    clients[0].send("upgrade", &json!({}));
    for client in &mut clients[1..] {
        client.send("reload", &json!({}));
    }
    let new_children = || {
        let mut all = init.process().children();
        all.retain(|child| !children.contains(child));
        all
    };
    while new_children().len() < 2 {
        steps.until(|call| FORKS.contains(&call.number) && call.result > 0);
        let ended = || new_children().iter().all(|child| !child.is_alive()).then_some(());
        until("both children have exited", ended);
    }
    drop(steps);
    let mut answer = |at: usize| clients[at].answer().expect("an answer").expect("no refusal");
    answer(0);
    let (one, other) = (generation(&answer(1)), generation(&answer(2)));
    assert_eq!(one.abs_diff(other), 1, "{one} {other}");
    drop(clients);
    init.finish();
}

#[test]
fn goal_set_while_a_reload_removes_it_has_a_provider_or_is_refused() {
    let init = crossroads();
    let db = init.status().main_pid("db");
    for round in 1..=6 {
        init.sandbox.remove_unit("right");
        edit(&init.sandbox, round);
        let (mut one, mut other) = (init.client().unwrap(), init.client().unwrap());
        one.send("reload", &json!({}));
        other.send("set-target", &json!({"targets": ["right"]}));
        let reloaded = one.answer().unwrap();
        let set = other.answer().unwrap();
        assert_ne!(reloaded.is_ok(), set.is_ok(), "{reloaded:?} {set:?}");
        let goal = if set.is_ok() { "right" } else { "left" };
        assert_eq!(init.status().0["goal"], json!([goal]));
        assert_runs(&init, if reloaded.is_ok() { round } else { 0 }, db);
        // Restores the initial units and goal.
        init.sandbox.unit("right", "type: virtual\nwaits-for: web");
        edit(&init.sandbox, 0);
        init.tell("reload", &json!({}));
        init.tell("set-target", &json!({"targets": ["left"]}));
        assert_runs(&init, 0, db);
    }
    init.finish();
}

/// System calls that make a process.
pub(crate) const FORKS: [i64; 3] = [libc::SYS_fork, libc::SYS_clone, libc::SYS_clone3];
/// Numbers of system calls after which init crashes; each load makes at least this many.
const CALLS: [usize; 4] = [0, 2, 6, 12];

#[test]
fn crash_during_a_reload_leaves_the_old_or_the_new_generation() {
    let mut init = crossroads();
    init.sandbox
        .unit("tick", "type: timer\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job")
        .unit("job", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/job.trace'")
        .unit("left", "type: virtual\nwaits-for: web, tick");
    init.tell("reload", &json!({}));
    init.expect_crashes();
    let db = init.status().main_pid("db");
    for round in 1..=CALLS.len() {
        edit(&init.sandbox, round);
        let mut client = init.client().unwrap();
        until_steady(&init);
        let mut steps = Steps::of(&init);
        client.send("reload", &json!({}));
        steps.until(|call| FORKS.contains(&call.number) && call.result > 0);
        // The loader runs, or its result was already taken.
        for _ in 0..CALLS[round - 1] {
            steps.step();
        }
        steps.crash();
        drop(steps);
        has_survived(&init, round as u64);
        // An answer before the crash must be true. The next reload applies in any case.
        if let Some(Ok(answer)) = client.answer() {
            assert!(generation(&init.status().0) >= generation(&answer));
            assert_runs(&init, round, db);
        }
        init.tell("reload", &json!({}));
        assert_runs(&init, round, db);
    }
    init.finish_after_crash();
}
