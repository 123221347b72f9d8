//! An init whose state is lost, beside what lives, where that is not plain: what lives waits for what is
//! gone, its file is broken, nothing is noted of it any more, somebody names it who should not; and
//! what was done, listened to and given before. The plain way is in [`super::anew`].

use super::away::BARE;
use super::crash::{crashes, has_survived, starts};
use super::socket::free_port;
use super::survival::memories_at_rest;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{Fault, is_kept};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::{Sandbox, program};
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

/// Without a row of crashes behind it.
pub(crate) fn is_steady(init: &Init) {
    let fired = init.sandbox.trace("job.trace").len();
    until("the last crash is some time ago", || {
        (init.sandbox.trace("job.trace").len() > fired + 2).then_some(())
    });
    is_kept(init);
}

/// It crashes, and nothing of its state is left.
pub(crate) fn loses_its_state(init: &Init) {
    is_steady(init);
    let (mut steps, kept) = memories_at_rest(init);
    kept.iter().for_each(|(_, state)| state.set_len(0).unwrap());
    steps.crash();
}

pub(crate) fn begins_anew(init: &Init) {
    let times = crashes(init);
    loses_its_state(init);
    has_survived(init, times + 1);
    until("it says so", || init.output().contains("begins anew").then_some(()));
}

/// These units, beside a timer that tells how time goes.
pub(crate) fn with(units: &[(&str, &str)]) -> Sandbox {
    let files = Sandbox::new();
    files
        .unit("tick", "type: timer\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/job.trace'");
    for (name, text) in units {
        files.unit(name, text);
    }
    let names: Vec<&str> = units.iter().map(|(name, _)| *name).chain(["tick"]).collect();
    files.unit("all", &format!("type: virtual\nwaits-for: {}", names.join(", ")));
    files
}

#[test]
fn who_waits_for_what_is_gone_is_taken_up_at_once_and_nothing_is_pending() {
    let files = with(&[
        ("base", "restart: never\nexec-start: DIR/base.sh"),
        ("web", "depends-ms: base\nexec-start: DAEMON --trace DIR/web.trace --control DIR/web"),
    ]);
    files.put("base.sh", "#!/bin/sh\nexec sleep 1000\n");
    fs::set_permissions(files.path("base.sh"), Permissions::from_mode(0o755)).unwrap();
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when_state("web", "running");
    fs::remove_file(init.sandbox.path("base.sh")).unwrap();
    init.main_of("base").signal(Signal::SIGKILL);
    init.when_state("base", "failed");
    let main = init.main_of("web");
    begins_anew(&init);
    init.when("one is failed, the other lives", |s| {
        s.state("base") == "failed" && s.state("web") == "running"
    });
    assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 1));
    // Its state is kept again, and it goes on as another image.
    is_steady(&init);
    init.tell("upgrade", &json!({}));
    is_steady(&init);
    Fault::ALL[0].strike(&init);
    has_survived(&init, 2);
    until("it says so", || init.output().contains("it goes on where it was").then_some(()));
    // The same units once more, and such as are changed where nothing has to be begun anew.
    init.tell("reload", &json!({}));
    init.sandbox.unit(
        "web",
        "depends-ms: base\nstop-timeout: 3s\nexec-start: DAEMON --trace DIR/web.trace --control DIR/web",
    );
    init.tell("reload", &json!({}));
    assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 1));
    // Its end is seen.
    main.signal(Signal::SIGKILL);
    init.when("it is failed for want of the other", |s| s.state("web") == "failed");
    init.finish_after_crash();
}

#[test]
fn what_lives_of_a_broken_file_is_left_alone_until_it_is_corrected() {
    let web = "exec-start: DAEMON --trace DIR/web.trace --control DIR/web";
    let mut init = Boot::new(with(&[("web", web)])).start("all");
    init.expect_crashes();
    init.when_state("web", "running");
    let main = init.main_of("web");
    init.sandbox.put("units/web.yaml", "unit: web\nexec-start: [\n");
    begins_anew(&init);
    init.when_state("web", "failed");
    assert!(init.output().contains("left alone until its file is corrected"), "{}", init.output());
    is_steady(&init);
    init.sandbox.unit("web", web);
    init.tell("reload", &json!({}));
    init.when_state("web", "running");
    assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 1));
    main.signal(Signal::SIGKILL);
    init.when("it is replaced", |s| s.state("web") == "running" && starts(&init, "web") == 2);
    init.finish_after_crash();
}

#[test]
fn what_is_left_alone_is_not_killed_when_init_crashes_once_more() {
    let mut init = Boot::new(with(&[("web", "exec-start: DAEMON")])).start("all");
    init.expect_crashes();
    init.when_state("web", "running");
    let main = init.main_of("web");
    init.sandbox.put("units/web.yaml", "unit: web\nexec-start: [\n");
    begins_anew(&init);
    is_steady(&init);
    Fault::ALL[0].strike(&init);
    has_survived(&init, 2);
    until("it says so", || init.output().contains("it goes on where it was").then_some(()));
    assert!(main.is_alive(), "{}", init.output());
    // It goes, and its cgroup with it.
    main.signal(Signal::SIGKILL);
    init.finish_after_crash();
}

pub(super) fn answer(mut stream: impl Read + Write) -> String {
    stream.write_all(b"hello\n").expect("it takes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// More children have ended since than notes are kept of.
pub(super) const CROWD: &str = "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/crowd.trace; n=0; while [ $n -lt 4300 ]; do (/bin/true &) ; n=$((n+1)); done'";

#[test]
fn what_was_done_and_what_is_listened_to_is_known_however_long_ago_it_was() {
    let port = free_port();
    let files = with(&[
        (
            "good",
            "type: oneshot\nsuccess-status: [0, 3]\nexec-start: /bin/sh -c 'echo x >>DIR/good.trace; exit 3'",
        ),
        (
            "bad",
            "type: oneshot\nrestart: never\nexec-start: /bin/sh -c 'echo x >>DIR/bad.trace; exit 1'",
        ),
        (
            "skipped",
            "type: oneshot\ncondition-path-exists: DIR/never\nexec-start: /bin/sh -c 'echo x >>DIR/skipped.trace'",
        ),
        ("db", "depends-on: bad\nexec-start: DAEMON --trace DIR/db.trace"),
        (
            "door",
            &format!(
                "type: socket\nlisten-stream: [DIR/door.sock, 127.0.0.1:{port}]\nactivates: echo"
            ),
        ),
        ("crowd", CROWD),
    ]);
    files.unit("echo", "exec-start: LISTENER");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when("all is as it is to be", |s| {
        s.state("crowd") == "exited" && s.state("good") == "exited" && s.state("bad") == "failed"
    });
    let unix = || answer(UnixStream::connect(init.sandbox.path("door.sock")).expect("it listens"));
    let tcp = || answer(TcpStream::connect(("127.0.0.1", port)).expect("it listens"));
    assert!(unix().contains("hello") && tcp().contains("hello"));
    let echo = init.when_state("echo", "running").main_pid("echo");
    begins_anew(&init);
    init.when("all is as it was", |s| {
        s.state("door") == "running"
            && s.state("echo") == "running"
            && ["good", "crowd", "skipped"].iter().all(|unit| s.state(unit) == "exited")
            && s.state("bad") == "failed"
    });
    let ran = |unit: &str| init.sandbox.trace(&format!("{unit}.trace")).len();
    // What has failed is run again as at a boot; what is done is not.
    assert_eq!((ran("good"), ran("crowd"), ran("bad"), ran("db")), (1, 1, 2, 0));
    assert_eq!(init.status().main_pid("echo"), echo);
    assert_eq!(ran("skipped"), 0);
    assert!(unix().contains("hello") && tcp().contains("hello"));
    // They are passed on.
    init.tell("restart", &json!({"targets": ["echo"]}));
    init.when("it is another", |s| s.state("echo") == "running" && s.main_pid("echo") != echo);
    assert!(unix().contains("hello") && tcp().contains("hello"));
    // What was stopped since is not done for ever: it is run again when it is wished for.
    init.sandbox.unit("all", "type: virtual\nwaits-for: tick, door, crowd");
    init.tell("reload", &json!({}));
    init.when_state("good", "disabled");
    begins_anew(&init);
    init.when_state("crowd", "exited");
    init.tell("want", &json!({"target": "good"}));
    init.when_state("good", "exited");
    assert_eq!((ran("good"), ran("crowd")), (2, 1));
    init.finish_after_crash();
}

/// The stand-ins among init's children: the main process of `web`, and how many orphans.
fn has_orphans(init: &Init, count: usize) {
    let is_orphan =
        |process: &Process| process.read("comm").is_some_and(|it| it.contains("daemon"));
    let children = || init.process().children();
    until("it is init's", || {
        (children().iter().filter(|it| is_orphan(it)).count() > count).then_some(())
    });
}

fn is_not_begun_beside_itself(files: Sandbox, makes_notes_go: fn(&Init)) {
    let mut init = Boot::new(files).through(&["/bin/sh", "-c", BARE, "sh"]).start("all");
    init.expect_crashes();
    init.when_system("running");
    let web = init.main_of("web");
    makes_notes_go(&init);
    // Its main process is known, and is its own.
    begins_anew(&init);
    init.when_state("web", "running");
    assert_eq!((init.main_of("web"), starts(&init, "web")), (web, 1));
    // Whose an orphan without a mark is is not.
    init.sandbox.order("web", "orphan 1");
    has_orphans(&init, 1);
    loses_its_state(&init);
    until("it says why it does no more", || {
        init.output().contains("nobody knows whose it is").then_some(())
    });
    assert!(web.is_alive() && init.process().is_alive());
    assert_eq!(starts(&init, "web"), 1);
    init.process().signal(Signal::SIGTERM);
    assert_eq!(init.ended().code(), Some(0));
}

const WEB: (&str, &str) = (
    "web",
    "limits:\n  locks: infinity\nexec-start: DAEMON --trace DIR/web.trace --control DIR/web",
);

#[test]
fn who_is_not_noted_any_more_is_not_begun_beside_itself_without_cgroups() {
    is_not_begun_beside_itself(with(&[WEB, ("crowd", CROWD)]), |_| {});
}

#[test]
fn who_was_begun_before_an_upgrade_is_not_begun_beside_itself_without_cgroups() {
    is_not_begun_beside_itself(with(&[WEB]), |init| drop(init.tell("upgrade", &json!({}))));
}

#[test]
fn what_bears_the_mark_of_its_run_is_its_units_where_nothing_else_is_known_of_it() {
    // Of the one a main process is known, of the other none.
    let sent = "setsid /bin/sh -c \"setsid sleep 1234 &\"";
    let lone = format!(
        "type: background-pidfile\nmain-pid: none\nexec-start: /bin/sh -c 'echo start >>DIR/lone.trace; {sent}'"
    );
    let web = "exec-start: DAEMON --trace DIR/web.trace --control DIR/web";
    for is_whole in [false, true] {
        let mut units = vec![("web", web), ("lone", &lone)];
        units.extend((!is_whole).then_some(("crowd", CROWD)));
        let boot = Boot::new(with(&units)).through(&["/bin/sh", "-c", BARE, "sh"]);
        let mut init = boot.start("all");
        init.expect_crashes();
        init.when_system("running");
        init.sandbox.order("web", "orphan 1");
        has_orphans(&init, 1);
        let (main, of_web) = (init.main_of("web"), init.processes_of("web"));
        let of_lone = init.processes_of("lone");
        assert_eq!((of_web.len(), of_lone.len()), (2, 1));
        begins_anew(&init);
        init.when("both are there", |s| {
            s.state("web") == "running" && s.state("lone") == "running"
        });
        assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 1), "{}", init.output());
        assert_eq!(starts(&init, "lone"), 1, "{}", init.output());
        assert_eq!((init.processes_of("web").len(), init.processes_of("lone").len()), (2, 1));
        // It is known as what has to end first.
        init.tell("restart", &json!({"targets": ["web", "lone"]}));
        until("both are others", || {
            (starts(&init, "web") == 2 && starts(&init, "lone") == 2).then_some(())
        });
        let all = of_web.iter().chain(&of_lone);
        assert!(!{ all }.any(|process| process.is_alive()), "{}", init.output());
        init.finish_after_crash();
    }
}

#[test]
fn a_pid_file_gets_no_process_of_another_unit_when_nothing_else_is_known() {
    let files = with(&[
        ("victim", "exec-start: DAEMON --trace DIR/victim.trace --control DIR/victim"),
        (
            "evil",
            "type: background-pidfile\npid-file: DIR/memory/evil.pid\nrestart: never\nexec-start: DAEMON --pid-file DIR/memory/evil.pid --trace DIR/evil.trace",
        ),
    ]);
    fs::create_dir(files.path("memory")).unwrap();
    let memory = format!("mount -t tmpfs tmpfs {} && {BARE}", files.at("memory"));
    let mut init = Boot::new(files).through(&["/bin/sh", "-c", &memory, "sh"]).start("all");
    init.expect_crashes();
    init.when("both are there", |s| s.state("victim") == "running" && s.state("evil") == "running");
    assert_eq!(init.status().0["tracking"], "process-group");
    let (victim, evil) = (init.main_of("victim"), init.main_of("evil"));
    let inside = format!("/proc/{}/root{}", init.process().0, init.sandbox.at("memory/evil.pid"));
    let named =
        |process: Process| fs::write(&inside, format!("{}\n", process.inner_pid().unwrap()));
    // Taken up by its own, it is what it was.
    begins_anew(&init);
    init.when("both are there", |s| s.state("victim") == "running" && s.state("evil") == "running");
    assert_eq!((init.main_of("victim"), init.main_of("evil")), (victim, evil));
    // The other's is not, at the beginning and later.
    named(victim).unwrap();
    evil.signal(Signal::SIGKILL);
    init.when("it is over", |s| ["failed", "exited"].contains(&s.state("evil")));
    assert_eq!((init.main_of("victim"), starts(&init, "victim")), (victim, 1));
    named(victim).unwrap();
    begins_anew(&init);
    init.when_state("victim", "running");
    init.when("evil is begun by itself", |_| starts(&init, "evil") == 2);
    assert_eq!((init.main_of("victim"), starts(&init, "victim")), (victim, 1));
    init.finish_after_crash();
}

#[test]
fn children_are_given_what_init_was_given_however_often_it_began() {
    let line = "echo $(ulimit -Sn) $(ulimit -Ss) $(ulimit -Sf) >>DIR/web.limit; exec sleep 1000";
    let files = with(&[("web", &format!("exec-start: /bin/sh -c '{line}'"))]);
    // It could neither begin with such a stack nor take what its loader delivers.
    let few = "ulimit -Sn 1000; ulimit -Ss 64; ulimit -Sf 4; exec \"$@\"";
    let boot = Boot::new(files).through(&["/bin/sh", "-c", few, "sh"]);
    let mut init = boot.unrecorded().start("all");
    init.expect_crashes();
    for round in 1..=3 {
        init.when_state("web", "running");
        until("it has begun", || (init.sandbox.trace("web.limit").len() == round).then_some(()));
        if round < 3 {
            begins_anew(&init);
            init.when_state("web", "running");
            init.main_of("web").signal(Signal::SIGKILL);
        }
    }
    assert_eq!(init.sandbox.trace("web.limit"), ["1000 64 4"; 3]);
    init.finish_after_crash();
}

#[test]
fn unit_files_that_can_not_be_had_are_tried_again_for_a_while() {
    let boot = |files: Sandbox| {
        let there = format!("loader {}", files.at("now"));
        let binary = program("GROUNDSTATE_DEBUG_INIT", "init");
        let boot = Boot::new(files).binary(&binary).variable("GROUNDSTATE_CRASH_IN", &there);
        let mut init = boot.unrecorded().start("all");
        init.expect_crashes();
        init.when_state("web", "running");
        init
    };
    let tries = |init: &Init| {
        until("more than those at once have failed", || {
            (init.output().matches("the loader ended").count() > 7).then_some(())
        });
    };
    let web = [("web", "exec-start: DAEMON --trace DIR/web.trace")];
    let init = boot(with(&web));
    let main = init.main_of("web");
    is_steady(&init);
    init.sandbox.put("now", "");
    loses_its_state(&init);
    tries(&init);
    fs::remove_file(init.sandbox.path("now")).unwrap();
    has_survived(&init, 1);
    init.when_state("web", "running");
    assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 1));
    init.finish_after_crash();
    // Whoever asks for the end meanwhile is heard.
    let mut init = boot(with(&web));
    is_steady(&init);
    init.sandbox.put("now", "");
    loses_its_state(&init);
    tries(&init);
    init.process().signal(Signal::SIGTERM);
    assert_eq!(init.ended().code(), Some(0));
}
