//! An init whose state is lost begins anew beside what lives: nothing of that is ended for it, nothing
//! is started beside itself, and all are looked after again. Damage to a state that leaves a whole one
//! is in [`super::survival`].

use super::beside::{begins_anew, with};
use super::crash::{has_survived, starts};
use super::survival::{is_steady, memories_at_rest};
use super::upgrade::at_work;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::{Sandbox, program};
use nix::sys::signal::Signal;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

const LIVING: [&str; 6] = ["notified", "plain", "grep", "forked", "starting", "stubborn"];

fn mains(init: &Init) -> Vec<Process> {
    LIVING.iter().map(|unit| init.main_of(unit)).collect()
}

/// Each was started once, and is what it was.
fn all_are_there(init: &Init) {
    init.when("all are where they were", |s| {
        let up = ["notified", "plain", "forked", "door", "tick", "script"];
        up.iter().all(|unit| s.state(unit) == "running")
            && ["grep", "starting", "pre"].iter().all(|unit| s.state(unit) == "starting")
            && s.state("once") == "exited"
            && s.state("stubborn") == "stopping"
    });
    for unit in LIVING {
        assert_eq!(starts(init, unit), 1, "{unit} was started once");
    }
}

type Damage = fn(&File);

#[test]
fn what_lives_is_taken_up_when_the_state_is_lost_however_it_is() {
    let forms: [(&str, Damage); 4] = [
        ("cut short", |state| state.set_len(20).unwrap()),
        ("empty", |state| state.set_len(0).unwrap()),
        ("a bit changed", |state| {
            let mut byte = [0];
            state.read_exact_at(&mut byte, 300).unwrap();
            state.write_all_at(&[byte[0] ^ 4], 300).unwrap();
        }),
        ("of another version", |state| state.write_all_at(b"GS-KEPT\x7f", 0).unwrap()),
    ];
    let mut init = at_work();
    init.expect_crashes();
    let before = mains(&init);
    for (survived, (form, damage)) in (1..).zip(forms) {
        println!("{form}");
        is_steady(&init);
        let (mut steps, kept) = memories_at_rest(&init);
        kept.iter().for_each(|(_, state)| damage(state));
        steps.crash();
        drop(steps);
        has_survived(&init, survived);
        assert!(init.output().contains("begins anew"), "{}", init.output());
        all_are_there(&init);
        assert_eq!(mains(&init), before, "{form}");
        // What they write is read on.
        let word = format!("round {survived}");
        init.sandbox.order("plain", &format!("say {word}"));
        until("it is in the log", || {
            let log = init.initctl(&["logs", "plain", "-n", "100"]);
            String::from_utf8_lossy(&log.stdout).contains(&word).then_some(())
        });
    }
    // They are looked after: what they say is heard, what they wait for goes on, each end is seen.
    init.sandbox.order("starting", "ready");
    init.sandbox.order("grep", "say here");
    init.sandbox.put("go", "");
    init.when_state("waiting", "exited");
    let first = init.main_of("notified");
    first.signal(Signal::SIGKILL);
    init.when("it is replaced", |s| {
        s.state("notified") == "running" && starts(&init, "notified") == 2
    });
    init.sandbox.order("stubborn", "exit 0");
    init.when_state("stubborn", "disabled");
    init.finish_after_crash();
}

#[test]
fn who_lives_is_taken_up_though_nobody_can_be_heard_just_then() {
    let text = "type: foreground-notified\nexec-start: DAEMON --notify --trace DIR/web.trace --control DIR/web";
    let mut init = Boot::new(with(&[("web", text)])).start("all");
    init.expect_crashes();
    init.when_state("web", "running");
    let main = init.main_of("web");
    // No socket can be made there.
    let (socket, aside) = (init.sandbox.path("run/notify.sock"), init.sandbox.path("aside"));
    fs::rename(&socket, &aside).unwrap();
    fs::create_dir(&socket).unwrap();
    begins_anew(&init);
    init.when_state("web", "running");
    assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 1), "{}", init.output());
    // It is heard as soon as there is one, and its end is seen.
    fs::remove_dir(&socket).unwrap();
    init.process().signal(Signal::SIGUSR1);
    until("there is", || socket.exists().then_some(()));
    init.sandbox.order("web", "notify STATUS=here");
    init.when("it is heard", |s| s.unit("web")["status"] == "here");
    main.signal(Signal::SIGKILL);
    init.when("it is replaced", |s| s.state("web") == "running" && starts(&init, "web") == 2);
    init.finish_after_crash();
}

/// There is a bug in that place from the start.
fn with_bug_at_boot(place: &str) -> Boot {
    let files = Sandbox::new();
    let there = format!("{place} {}", files.at("now"));
    for (name, text) in [
        (
            "notified",
            "type: foreground-notified\nexec-start: DAEMON --notify --trace DIR/notified.trace",
        ),
        ("plain", "depends-on: once\nexec-start: DAEMON --trace DIR/plain.trace"),
        ("once", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/once.trace'"),
        ("all", "type: virtual\nwaits-for: notified, plain"),
    ] {
        files.unit(name, text);
    }
    files.put("now", "");
    let binary = program("GROUNDSTATE_DEBUG_INIT", "init");
    Boot::new(files).binary(&binary).variable("GROUNDSTATE_CRASH_IN", &there).unrecorded()
}

#[test]
fn a_crash_before_any_state_was_kept_begins_anew_and_starts_nobody_twice() {
    let mut init = with_bug_at_boot("boot").launch("all");
    init.expect_crashes();
    has_survived(&init, 1);
    init.when_state("plain", "running");
    init.when_state("notified", "running");
    let both = || [starts(&init, "notified"), starts(&init, "plain")];
    until("both have written that they were begun", || (!both().contains(&0)).then_some(()));
    assert_eq!(both(), [1, 1]);
    assert_eq!(init.sandbox.trace("once.trace").len(), 1);
    init.main_of("plain").signal(Signal::SIGKILL);
    until("it is replaced", || (starts(&init, "plain") == 2).then_some(()));
    assert_eq!(starts(&init, "notified"), 1);
    init.finish_after_crash();
}

#[test]
fn an_init_that_crashes_at_each_beginning_gives_up_and_ends_nothing() {
    let mut init = with_bug_at_boot("each boot").launch("all");
    init.expect_crashes();
    until("it gives up", || init.output().contains("can not go on").then_some(()));
    assert_eq!(init.output().matches("on purpose in each boot").count(), 5, "{}", init.output());
    until("what was begun runs on", || (starts(&init, "notified") == 1).then_some(()));
    assert!(init.process().is_alive());
    init.process().signal(Signal::SIGTERM);
    assert_eq!(init.ended().code(), Some(0));
}
