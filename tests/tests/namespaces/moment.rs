//! An init that crashes between two steps of its own, and whose state is lost: just as a process of a unit
//! was begun, or while one that is waited for ends. What is known then is known from a note alone, and
//! no note of another says anything of it. What is long known is in [`super::standing`].

use super::beside::{begins_anew, is_steady, with};
use super::crash::{crashes, has_survived, starts, until_begun};
use super::survival::memories_at_rest;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{Call, Steps};
use groundstate_tests::deadline::until;
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Begins the units of `all`, which are to run by themselves.
fn boot(units: &[(&str, &str)], all: &str) -> Init {
    let files = with(units);
    files.unit("all", &format!("type: virtual\nwaits-for: {all}"));
    let init = Boot::new(files).start("all");
    init.when_system("running");
    init
}

fn is_clone(call: &Call) -> bool {
    call.number == libc::SYS_clone3 && call.result > 0
}

/// The process that was just cloned, once it is its program: whose it is, and what was executed. None: it is
/// over, or nobody's.
fn begun(init: &Init, call: &Call) -> Option<(String, String)> {
    let pid = i32::try_from(call.result).ok().filter(|_| is_clone(call))?;
    until("it is its program, or is over", || {
        let children = init.process().children();
        let child = children.into_iter().find(|child| child.inner_pid() == Some(pid));
        let Some(child) = child.filter(|child| child.is_alive()) else { return Some(None) };
        let unit = child.environment().remove("GROUNDSTATE_UNIT")?;
        Some(Some((unit, child.read("cmdline")?)))
    })
}

/// Nothing of its state is left when it has crashed: after `cause`, as it stands where `come` takes it.
fn loses_it(init: &Init, cause: impl FnOnce(), come: impl FnOnce(&mut Steps)) {
    is_steady(init);
    let times = crashes(init);
    let (mut steps, kept) = memories_at_rest(init);
    cause();
    come(&mut steps);
    kept.iter().for_each(|(_, state)| state.set_len(0).unwrap());
    steps.crash();
    drop(steps);
    has_survived(init, times + 1);
    assert!(init.output().contains("begins anew"), "{}", init.output());
}

/// As a process of this unit was cloned that executes this, and before anything has followed from that.
fn loses_it_as_begun(init: &Init, unit: &str, what: &str, cause: impl FnOnce()) {
    let is_it = |(of, line): (String, String)| of == unit && line.contains(what);
    loses_it(init, cause, |steps| steps.until(|call| begun(init, call).is_some_and(is_it)));
}

fn trace(init: &Init, name: &str) -> Vec<String> {
    init.sandbox.trace(&format!("{name}.trace"))
}

#[test]
fn a_script_that_was_just_begun_goes_on() {
    let script = "echo begun >>$1.trace; trap 'echo ended >>$1.trace; exit 1' TERM; until [ -e go ]; do sleep 0.05; done; eval $2; echo done >>$1.trace\n";
    let line = "restart: on-failure\nexec-start: /bin/sh -c 'cd DIR; . ./script' sh";
    let once = format!("type: oneshot\n{line} once");
    let back = format!("type: background-scripted\n{line} back 'sleep 1000 &'");
    let mut init = boot(&[("once", &once), ("back", &back)], "tick");
    init.expect_crashes();
    init.sandbox.put("script", script);
    for unit in ["once", "back"] {
        let mut client = init.client().unwrap();
        loses_it_as_begun(&init, unit, "", || client.send("want", &json!({"target": unit})));
        init.when_state(unit, "starting");
        until("it is at it", || (!trace(&init, unit).is_empty()).then_some(()));
    }
    init.sandbox.put("go", "");
    init.when("they are done", |s| s.state("once") == "exited" && s.state("back") == "running");
    assert_eq!(["once", "back"].map(|unit| trace(&init, unit)), [["begun", "done"]; 2]);
    init.finish_after_crash();
}

#[test]
fn a_stop_that_was_just_begun_is_gone_on_with() {
    let web = "stop-timeout: 60s\nexec-start: DAEMON --trace DIR/web.trace\nexec-stop: /bin/sh -c 'echo x >>DIR/stop.trace; until [ -e DIR/now ]; do sleep 0.02; done; kill $$MAINPID'";
    let once = "type: oneshot\nremain: no\nexec-start: /bin/sh -c 'echo start >>DIR/once.trace'\nexec-stop: /bin/sh -c 'echo stop >>DIR/once.trace; until [ -e DIR/go ]; do sleep 0.02; done'";
    let mut init = boot(&[("web", web), ("once", once)], "tick");
    init.expect_crashes();
    init.tell("want", &json!({"target": "web"}));
    init.when_state("web", "running");
    let mut client = init.client().unwrap();
    loses_it_as_begun(&init, "web", "echo x", || client.send("unwant", &json!({"target": "web"})));
    init.when_state("web", "stopping");
    init.sandbox.put("now", "");
    init.when_state("web", "disabled");
    assert_eq!((starts(&init, "web"), trace(&init, "stop").len()), (1, 1));
    assert_eq!(init.status().0["overlay"]["want"], json!([]));
    // The stop of a script that leaves nothing behind is a part of its start.
    let mut client = init.client().unwrap();
    loses_it_as_begun(&init, "once", "echo stop", || {
        client.send("want", &json!({"target": "once"}));
    });
    init.sandbox.put("go", "");
    init.when_state("once", "exited");
    assert_eq!(trace(&init, "once"), ["start", "stop"]);
    init.finish_after_crash();
}

/// It goes on where it was, and what it had noted it does again: nothing is written anew meanwhile.
#[test]
fn what_had_ended_as_it_crashed_is_not_taken_up_when_its_state_is_lost_later() {
    let mut init = boot(&[("web", "exec-start: DAEMON --trace DIR/web.trace")], "tick");
    init.expect_crashes();
    init.tell("want", &json!({"target": "web"}));
    init.when_state("web", "running");
    is_steady(&init);
    let times = crashes(&init);
    let (mut steps, _) = memories_at_rest(&init);
    let mut client = init.client().unwrap();
    client.send("unwant", &json!({"target": "web"}));
    // Its end was heard by then, and is noted.
    steps.until(|call| [libc::SYS_rmdir, libc::SYS_unlinkat].contains(&call.number));
    steps.crash();
    drop(steps);
    has_survived(&init, times + 1);
    assert!(init.output().contains("it goes on where it was"), "{}", init.output());
    init.when_state("web", "disabled");
    begins_anew(&init);
    init.when_system("running");
    assert!(!init.output().contains("web: it is there"), "{}", init.output());
    assert_eq!((starts(&init, "web"), init.status().state("web")), (1, "disabled"));
    init.finish_after_crash();
}

#[test]
fn a_line_that_has_ended_meanwhile_is_followed_by_the_next_though_nothing_lives() {
    let slowly =
        "/bin/sh -c 'echo one >>DIR/mount.trace; until [ -e DIR/go ]; do sleep 0.02; done'";
    let next = |text: &str| format!("/bin/sh -c 'echo {text} >>DIR/mount.trace'");
    let (two, post) = (next("two"), next("post"));
    let mount = format!(
        "type: oneshot\nstop-timeout: 60s\nexec-start: /bin/true\nexec-stop:\n  - {slowly}\n  - {two}\nexec-stop-post: {post}"
    );
    let start = format!("type: oneshot\nexec-start:\n  - {slowly}\n  - {two}");
    let start = start.replace("mount.trace", "start.trace");
    let mut init = boot(&[("mount", &mount), ("start", &start)], "tick");
    init.expect_crashes();
    init.tell("want", &json!({"target": "mount"}));
    init.when_state("mount", "exited");
    init.tell("unwant", &json!({"target": "mount"}));
    init.tell("want", &json!({"target": "start"}));
    until("they are at it", || {
        (trace(&init, "mount").len() == 1 && trace(&init, "start").len() == 1).then_some(())
    });
    let lines = ["mount", "start"].map(|unit| init.processes_of(unit)).concat();
    let ends = || {
        init.sandbox.put("go", "");
        until("they have ended", || (!lines.iter().any(|line| line.is_alive())).then_some(()));
    };
    loses_it(&init, ends, |_| {});
    init.when("it goes on", |s| s.state("mount") == "disabled" && s.state("start") == "exited");
    assert_eq!(trace(&init, "mount"), ["one", "two", "post"]);
    assert_eq!(trace(&init, "start"), ["one", "two"]);
    init.finish_after_crash();
}

#[test]
fn a_stop_of_which_the_last_process_ends_meanwhile_is_over_and_is_waited_for_by_nobody() {
    let web = "stop-timeout: none\nexec-start: /bin/sh -c '[ -e DIR/worker.trace ] || (trap \"\" TERM; echo x >>DIR/worker.trace; sleep 1000) & exec DAEMON --trace DIR/web.trace'";
    let mut init = boot(&[("web", web)], "tick, web");
    init.expect_crashes();
    until("both are there", || {
        (starts(&init, "web") == 1 && !trace(&init, "worker").is_empty()).then_some(())
    });
    let main = init.main_of("web");
    init.tell("restart", &json!({"targets": ["web"]}));
    until("its main process is gone", || (!main.is_alive()).then_some(()));
    init.when_state("web", "stopping");
    let workers = init.processes_of("web");
    let ends = || {
        workers.iter().for_each(|worker| worker.end());
        until("they have ended", || (!workers.iter().any(|it| it.is_alive())).then_some(()));
    };
    loses_it(&init, ends, |_| {});
    init.when("it is begun anew", |s| s.state("web") == "running" && starts(&init, "web") == 2);
    init.finish_after_crash();
}

/// With the signal that asks it to end, of which nothing was written yet.
#[test]
fn what_was_just_told_to_end_so_that_it_begins_anew_does() {
    let is_signal = |call: &Call| {
        [libc::SYS_kill, libc::SYS_pidfd_send_signal].contains(&call.number) && call.result == 0
    };
    let web = "restart: never\nexec-start: DAEMON --trace DIR/web.trace";
    let slow = "stop-timeout: 60s\nexec-start: DAEMON --ignore TERM --trace DIR/slow.trace --control DIR/slow";
    let mut init = boot(&[("web", web), ("slow", slow)], "tick, web, slow");
    init.expect_crashes();
    for unit in ["web", "slow"] {
        until("it has begun", || (starts(&init, unit) == 1).then_some(()));
        let main = init.main_of(unit);
        let mut client = init.client().unwrap();
        let restart = || client.send("restart", &json!({"targets": [unit]}));
        loses_it(&init, restart, |steps| steps.until(is_signal));
        if unit == "slow" {
            init.when_state(unit, "stopping");
            main.signal(Signal::SIGKILL);
        }
        init.when("it is begun anew", |s| s.state(unit) == "running" && starts(&init, unit) == 2);
    }
    init.finish_after_crash();
}

#[test]
fn what_was_just_begun_has_its_cgroup_though_that_was_made_ahead() {
    let web =
        "depends-on: slow\nexec-start: /bin/sh -c 'sleep 1000 & exec DAEMON --trace DIR/web.trace'";
    let slow = "type: oneshot\nexec-start: /bin/sh -c 'until [ -e DIR/go ]; do sleep 0.02; done'";
    let mut init = boot(&[("slow", slow), ("web", web)], "tick");
    init.expect_crashes();
    init.tell("want", &json!({"target": "web"}));
    init.when_state("web", "waiting");
    loses_it_as_begun(&init, "web", "", || _ = init.sandbox.put("go", ""));
    init.when_state("web", "running");
    until("its child is there", || (init.processes_of("web").len() > 1).then_some(()));
    until_begun(&init, "web");
    let first = init.processes_of("web");
    init.tell("restart", &json!({"targets": ["web"]}));
    init.when("it is another", |s| s.state("web") == "running" && starts(&init, "web") == 2);
    assert!(!first.iter().any(|process| process.is_alive()), "{}", init.output());
    init.finish_after_crash();
}

#[test]
fn units_whose_names_have_one_checksum_are_not_taken_for_each_other() {
    let daemon = |unit: &str| format!("exec-start: DAEMON --trace DIR/{unit}.trace");
    let (one, other) = ("plumless", "buckeroo");
    let mut init = boot(&[(one, &daemon(one)), (other, &daemon(other))], "tick, plumless");
    init.expect_crashes();
    init.tell("want", &json!({"target": other}));
    init.when_state(other, "running");
    let mains = || [one, other].map(|unit| init.main_of(unit));
    let before = mains();
    begins_anew(&init);
    init.when("both are up", |s| [one, other].iter().all(|unit| s.state(unit) == "running"));
    assert_eq!((mains(), [one, other].map(|unit| starts(&init, unit))), (before, [1, 1]));
    init.tell("unwant", &json!({"target": other}));
    init.when_state(other, "disabled");
    begins_anew(&init);
    init.when_state(one, "running");
    assert_eq!((init.main_of(one), starts(&init, one)), (before[0], 1));
    init.finish_after_crash();
}

#[test]
fn in_a_burst_nobody_is_begun_beside_itself() {
    let names: Vec<String> = (10..50).map(|n| format!("s{n}")).collect();
    let files: Vec<(String, String)> = names
        .iter()
        .map(|name| (name.clone(), format!("exec-start: DAEMON --trace DIR/{name}.trace")))
        .collect();
    let burst = format!("type: virtual\nwaits-for: {}", names.join(", "));
    let mut units: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    units.push(("burst", &burst));
    let mut init = boot(&units, "tick");
    init.expect_crashes();
    let mut client = init.client().unwrap();
    let cause = || client.send("want", &json!({"target": "burst"}));
    loses_it(&init, cause, |steps| {
        // So many are unknown that init looks what has become of the oldest as it begins one more.
        let (mut clones, mut looks) = (0, 0);
        while clones < 30 && looks < 3 {
            let call = steps.step().expect("it goes on");
            let looked = call.number == libc::SYS_read && call.result == 0;
            (clones, looks) = match is_clone(&call) {
                true => (clones + 1, 0),
                false => (clones, looks + usize::from(looked && clones > 12)),
            };
        }
    });
    init.when("all are up", |s| names.iter().all(|name| s.state(name) == "running"));
    until("all have said so", || names.iter().all(|name| starts(&init, name) > 0).then_some(()));
    let daemons = || init.process().children().into_iter().filter(|it| it.is_alive());
    let daemons = daemons().filter(|it| it.status("Name").as_deref() == Some("daemon"));
    assert_eq!(daemons.count(), names.len(), "{}", init.output());
    assert_eq!(names.iter().map(|name| starts(&init, name)).max(), Some(1));
    init.check();
    init.process().signal(Signal::SIGTERM);
    assert_eq!(init.ended().code(), Some(0));
}

/// Scripts that are done are noted nowhere any more, nor is an end of theirs: so it is where there is no room
/// for so many, and they ended long ago.
fn forgets_what_is_done(init: &Init) {
    const RING: usize = 4096 + 8192;
    const ENTRY: usize = 64;
    const DONE: usize = RING + 4096 * ENTRY;
    const ENDED: u16 = 2;
    let process = init.process();
    let number = process.files().into_iter().find(|(_, file)| file.contains("memfd:notes"));
    let path = format!("/proc/{}/fd/{}", process.0, number.expect("there are notes").0);
    let notes = File::options().read(true).write(true).open(path).unwrap();
    let mut ring = vec![0; DONE - RING];
    notes.read_exact_at(&mut ring, RING as u64).unwrap();
    let ends = ring.chunks_exact_mut(ENTRY).filter(|it| it[8..10] == ENDED.to_ne_bytes());
    ends.for_each(|entry| entry[..8].fill(0));
    notes.write_all_at(&ring, RING as u64).unwrap();
    notes.write_all_at(&[0; 1024 * 32], DONE as u64).unwrap();
}

#[test]
fn a_script_that_is_done_is_not_run_again_for_want_of_room_to_note_it() {
    let line = |unit: &str, code: u8| {
        format!(
            "type: oneshot\nrestart: never\nexec-start: /bin/sh -c 'echo x >>DIR/{unit}.trace; exit {code}'"
        )
    };
    let (good, bad) = (line("good", 0), line("bad", 1));
    let mut init = boot(&[("good", &good), ("bad", &bad)], "tick, good");
    init.expect_crashes();
    init.tell("want", &json!({"target": "bad"}));
    init.when_state("bad", "failed");
    loses_it(&init, || forgets_what_is_done(&init), |_| {});
    init.when("they are as they were", |s| {
        s.state("good") == "exited" && s.state("bad") == "failed"
    });
    // What has failed is run again as at a boot.
    until("it has run again", || (trace(&init, "bad").len() == 2).then_some(()));
    assert_eq!(trace(&init, "good").len(), 1);
    init.finish_after_crash();
}
