//! An init whose state is lost knows how far each unit was, however much was noted since: which process is
//! the main one, wherever it has gone; which line is running; what was being stopped. The usual way
//! is in [`super::anew`].

use super::beside::{CROWD, begins_anew, is_steady, with};
use super::crash::{starts, until_begun};
use super::fate::cgroup;
use super::hierarchy::top;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

fn traces(init: &Init, unit: &str) -> usize {
    init.sandbox.trace(&format!("{unit}.trace")).len()
}

/// All that the unit has in its cgroup but its main process, which leads a session of its own there.
fn other_leader(init: &Init, unit: &str) -> Process {
    let main = init.main_of(unit);
    let mut others = init.processes_of(unit).into_iter().filter(|process| *process != main);
    others.next().expect("there is another")
}

#[test]
fn main_processes_are_known_however_long_ago_they_began_and_wherever_they_are() {
    let files = with(&[
        (
            "stray",
            "exec-start: /bin/sh -c 'until [ -e DIR/go ]; do :; done; echo $$$$ >$(cat DIR/top)/cgroup.procs; exec DAEMON --trace DIR/stray.trace'",
        ),
        (
            "again",
            "kill-mode: process\nrestart-delay: 300ms\nexec-start: /bin/sh -c 'sleep 1000 & exec DAEMON --trace DIR/again.trace'",
        ),
        (
            "helped",
            "exec-start-pre: /bin/sh -c 'setsid sleep 1000 >/dev/null 2>&1 &'\nexec-start: DAEMON --trace DIR/helped.trace",
        ),
        ("probe", "exec-start: DAEMON --trace DIR/probe.trace"),
    ]);
    files.unit("crowd", CROWD);
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when_system("running");
    let Some(dir) = cgroup(init.main_of("probe")) else {
        return groundstate_tests::not_run!("no cgroups of the second kind here");
    };
    let top = top(&dir);
    init.sandbox.put("top", top.to_str().unwrap()).put("go", "");
    until("it has moved", || (starts(&init, "stray") == 1).then_some(()));
    // Its second run has a cgroup that was made ahead, beside what the first has left.
    init.main_of("again").signal(Signal::SIGKILL);
    init.when("it is another", |s| s.state("again") == "running" && starts(&init, "again") == 2);
    init.tell("want", &json!({"target": "crowd"}));
    init.when_state("crowd", "exited");
    let units = ["stray", "again", "helped", "probe"];
    let before = units.map(|unit| init.main_of(unit));
    let helper = other_leader(&init, "helped");
    begins_anew(&init);
    init.when("all are up", |s| units.iter().all(|unit| s.state(unit) == "running"));
    assert_eq!(units.map(|unit| init.main_of(unit)), before);
    assert_eq!(units.map(|unit| starts(&init, unit)), [1, 2, 1, 1]);
    // What is not the main process is not taken for it; the end of that is seen.
    helper.end();
    before[2].signal(Signal::SIGKILL);
    init.when("it is replaced", |s| s.state("helped") == "running" && starts(&init, "helped") == 2);
    before[0].signal(Signal::SIGKILL);
    init.when("it is replaced", |s| s.state("stray") == "running" && starts(&init, "stray") == 2);
    for process in init.processes_of("again") {
        if process != before[1] {
            process.end();
        }
    }
    is_steady(&init);
    assert_eq!((init.main_of("again"), starts(&init, "again")), (before[1], 2));
    init.finish_after_crash();
}

#[test]
fn a_script_goes_on_with_the_line_it_was_at_and_nothing_is_done_before_it_is() {
    let wait = "/bin/sh -c 'echo x >>DIR/long.trace; sleep 1000 & until [ -e DIR/go ]; do sleep 0.05; done'";
    let files = with(&[
        (
            "long",
            &format!(
                "type: oneshot\nkill-mode: process\nexec-start:\n  - {wait}\n  - /bin/sh -c 'echo x >>DIR/second.trace'\nexec-start-post: /bin/sh -c 'echo x >>DIR/post.trace'"
            ),
        ),
        (
            "bad",
            "type: oneshot\nrestart: never\nkill-mode: process\nexec-start: /bin/sh -c 'echo x >>DIR/bad.trace; sleep 1000 & exit 1'",
        ),
    ]);
    files.unit("crowd", CROWD);
    files.unit("next", "depends-on: long\nexec-start: DAEMON --trace DIR/next.trace");
    files.unit("all", "type: virtual\nwaits-for: tick, bad\nwants: next");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when("they are at it", |s| s.state("long") == "starting" && s.state("bad") == "failed");
    init.tell("want", &json!({"target": "crowd"}));
    init.when_state("crowd", "exited");
    begins_anew(&init);
    init.when("all is as it was", |s| s.state("long") == "starting" && s.state("bad") == "failed");
    assert_eq!((traces(&init, "second"), starts(&init, "next")), (0, 0));
    init.sandbox.put("go", "");
    init.when("it is done", |s| s.state("long") == "exited" && s.state("next") == "running");
    let ran = ["long", "second", "post", "bad"].map(|unit| traces(&init, unit));
    // What has failed is run again as at a boot.
    assert_eq!(ran, [1, 1, 1, 2]);
    init.processes_of("bad").iter().for_each(|process| process.end());
    init.finish_after_crash();
}

#[test]
fn what_was_being_stopped_is_stopped_to_its_end() {
    let slowly = "/bin/sh -c 'echo x >>DIR/ends.trace; until [ -e DIR/go ]; do sleep 0.05; done; [ -z \"$$MAINPID\" ] || kill $$MAINPID'";
    let files = with(&[
        (
            "mount",
            &format!(
                "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/mount.trace'\nexec-stop: {slowly}"
            ),
        ),
        (
            "web",
            &format!(
                "exec-start: DAEMON --trace DIR/web.trace\nexec-stop: {slowly}\nstop-timeout: 60s"
            ),
        ),
        (
            "gone",
            &format!(
                "exec-start: DAEMON --trace DIR/gone.trace\nexec-stop: {slowly}\nstop-timeout: 60s"
            ),
        ),
        (
            "left",
            "kill-mode: process\nrestart-delay: 50s\nexec-start: /bin/sh -c 'sleep 1000 & exec DAEMON --trace DIR/left.trace'",
        ),
    ]);
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when_system("running");
    until_begun(&init, "left");
    init.main_of("left").signal(Signal::SIGKILL);
    init.sandbox.unit("all", "type: virtual\nwaits-for: mount, web, left, tick");
    init.tell("reload", &json!({}));
    init.tell("restart", &json!({"targets": ["mount", "web"]}));
    init.when("they are being stopped", |s| {
        ["mount", "web", "gone"].iter().all(|unit| s.state(unit) == "stopping")
    });
    until("their commands run", || (traces(&init, "ends") == 3).then_some(()));
    begins_anew(&init);
    init.when("they still are", |s| {
        ["mount", "web", "gone"].iter().all(|unit| s.state(unit) == "stopping")
            && s.state("left") == "running"
    });
    assert_eq!(traces(&init, "ends"), 3);
    init.sandbox.put("go", "");
    init.when("each is what it is to be", |s| {
        s.state("mount") == "exited"
            && s.state("web") == "running"
            && s.state("gone") == "disabled"
            && starts(&init, "web") >= 2
            && starts(&init, "left") >= 2
    });
    let began = ["web", "gone", "left"].map(|unit| starts(&init, unit));
    assert_eq!((traces(&init, "mount"), began), (2, [2, 1, 2]));
    init.finish_after_crash();
}

/// What is noted as begun with this pid is noted with that one: so it is when the end of the first was not
/// noted, and its pid is another's by now.
fn is_noted_as(init: &Init, process: Process, other: Process) {
    const RING: usize = 4096 + 8192;
    const ENTRY: usize = 64;
    const BEGUN: u16 = 3;
    let init = init.process();
    let number = init.files().into_iter().find(|(_, file)| file.contains("memfd:notes"));
    let path = format!("/proc/{}/fd/{}", init.0, number.expect("there are notes").0);
    let notes = File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = vec![0; usize::try_from(notes.metadata().unwrap().len()).unwrap()];
    notes.read_exact_at(&mut bytes, 0).unwrap();
    let pid = |process: Process| process.inner_pid().unwrap().to_ne_bytes();
    let begun = |entry: &[u8]| entry[8..10] == BEGUN.to_ne_bytes() && entry[12..16] == pid(process);
    let at = bytes[RING..].chunks_exact(ENTRY).position(begun).expect("it is noted");
    notes.write_all_at(&pid(other), (RING + at * ENTRY + 12) as u64).unwrap();
}

#[test]
fn a_process_that_has_got_the_pid_of_one_that_was_noted_is_not_taken_for_it() {
    let files = with(&[
        ("web", "restart: never\nexec-start: DAEMON --trace DIR/web.trace"),
        ("other", "exec-start: DAEMON --trace DIR/other.trace"),
    ]);
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when_system("running");
    let other = init.main_of("other");
    // Births are told in hundredths of a second, and of one of those two are one.
    const STARTED: usize = 19;
    until("it is older than what is begun from now on", || {
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        let now = uptime.split_whitespace().next()?.replace('.', "");
        (now.parse::<i32>().ok()? > other.stat_field(STARTED)?).then_some(())
    });
    until_begun(&init, "web");
    init.tell("restart", &json!({"targets": ["web"]}));
    init.when("it is begun anew", |s| s.state("web") == "running" && starts(&init, "web") == 2);
    let web = init.main_of("web");
    is_steady(&init);
    is_noted_as(&init, other, init.process());
    is_noted_as(&init, web, other);
    web.signal(Signal::SIGKILL);
    init.when_state("web", "failed");
    begins_anew(&init);
    init.when("one is begun, the other goes on", |s| {
        s.state("web") == "running" && s.state("other") == "running" && starts(&init, "web") == 3
    });
    assert_eq!((init.main_of("other"), starts(&init, "other")), (other, 1));
    assert_ne!(init.main_of("web"), other);
    let told = "the pid of one that was begun for it";
    assert!(init.output().contains(told), "{}", init.output());
    // What becomes of one is nothing to the other.
    init.tell("restart", &json!({"targets": ["web"]}));
    init.when("it is begun once more", |s| {
        s.state("web") == "running" && starts(&init, "web") == 4
    });
    assert_eq!((init.main_of("other"), starts(&init, "other")), (other, 1));
    init.finish_after_crash();
}

#[test]
fn what_waits_to_be_stopped_is_stopped_in_its_turn_when_the_state_is_lost() {
    let slowly = "/bin/sh -c 'echo x >>DIR/ends.trace; until [ -e DIR/go ]; do sleep 0.05; done; kill $$MAINPID'";
    let files = with(&[
        (
            "mount",
            "type: oneshot\nexec-start: /bin/sh -c 'echo mount >>DIR/mount.trace'\nexec-stop: /bin/sh -c 'echo umount >>DIR/mount.trace'",
        ),
        (
            "script",
            "type: background-scripted\nexec-start: /bin/true\nexec-stop: /bin/sh -c 'echo x >>DIR/script.trace'",
        ),
        ("db", "depends-on: mount, script\nexec-start: DAEMON --trace DIR/db.trace"),
        (
            "web",
            &format!(
                "depends-on: db\nexec-start: DAEMON --trace DIR/web.trace\nexec-stop: {slowly}\nstop-timeout: 60s"
            ),
        ),
        ("other", "exec-start: DAEMON --trace DIR/other.trace"),
    ]);
    files.unit("rest", "type: virtual\nwaits-for: tick, other");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    let all_stop = |init: &Init| {
        init.when("all wait for the first", |s| {
            ["mount", "script", "db", "web"].iter().all(|unit| s.state(unit) == "stopping")
        });
    };
    let is_at_it = |init: &Init, times| {
        until("its command runs", || (traces(init, "ends") == times).then_some(()));
    };
    // What is to begin anew does, in order.
    init.when_system("running");
    let (db, other) = (init.main_of("db"), init.main_of("other"));
    init.tell("restart", &json!({"targets": ["mount", "script"]}));
    all_stop(&init);
    is_at_it(&init, 1);
    begins_anew(&init);
    all_stop(&init);
    assert_eq!((init.main_of("db"), traces(&init, "mount"), traces(&init, "script")), (db, 1, 0));
    init.sandbox.put("go", "");
    init.when("all is up anew", |s| {
        ["db", "web", "other"].iter().all(|unit| s.state(unit) == "running")
            && s.state("script") == "running"
            && s.state("mount") == "exited"
            && starts(&init, "db") >= 2
            && starts(&init, "web") >= 2
    });
    assert_eq!(init.sandbox.trace("mount.trace"), ["mount", "umount", "mount"]);
    assert_eq!((starts(&init, "db"), starts(&init, "web"), traces(&init, "script")), (2, 2, 1));
    // What nobody needs is gone, and nobody wishes for it.
    std::fs::remove_file(init.sandbox.path("go")).unwrap();
    let overlay = init.status().0["overlay"].clone();
    init.tell("set-target", &json!({"targets": ["rest"]}));
    all_stop(&init);
    is_at_it(&init, 2);
    begins_anew(&init);
    all_stop(&init);
    assert_eq!(init.status().0["overlay"], overlay);
    init.sandbox.put("go", "");
    init.when("all is gone", |s| {
        ["mount", "script", "db", "web"].iter().all(|unit| s.state(unit) == "disabled")
    });
    assert_eq!(init.sandbox.trace("mount.trace"), ["mount", "umount", "mount", "umount"]);
    assert_eq!((starts(&init, "db"), starts(&init, "web"), traces(&init, "script")), (2, 2, 2));
    assert_eq!((init.main_of("other"), starts(&init, "other")), (other, 1));
    init.finish_after_crash();
}

#[test]
fn a_unit_with_many_lines_at_once_is_as_far_as_it_is() {
    let files = with(&[]);
    files.unit(
        "web",
        "stop-timeout: 60s\nexec-start: DAEMON --trace DIR/web.trace\nexec-reload: /bin/sh -c 'echo x >>DIR/reload.trace; exec sleep 1000'\nexec-stop: /bin/sh -c 'echo x >>DIR/ends.trace; until [ -e DIR/go ]; do sleep 0.05; done; kill $$MAINPID'",
    );
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when_system("running");
    init.tell("want", &json!({"target": "web"}));
    init.when_state("web", "running");
    for count in 1..=7 {
        init.tell("reload-unit", &json!({"targets": ["web"]}));
        until("it is at it", || (traces(&init, "reload") == count).then_some(()));
    }
    init.tell("unwant", &json!({"target": "web"}));
    until("it is being stopped", || (traces(&init, "ends") == 1).then_some(()));
    begins_anew(&init);
    init.when_state("web", "stopping");
    assert_eq!(init.status().0["overlay"]["want"], json!([]));
    init.sandbox.put("go", "");
    init.when_state("web", "disabled");
    assert_eq!((starts(&init, "web"), traces(&init, "ends")), (1, 1));
    assert!(!init.output().contains("there is no room"), "{}", init.output());
    init.finish_after_crash();
}
