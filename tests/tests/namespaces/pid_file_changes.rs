//! A pid file over time: it appears late or never, is removed, is rewritten for another process, or
//! existed before its unit started.

use super::pid_file::assert_never_signalled;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::tracer::{Tracer, injected};
use nix::sys::signal::Signal;
use serde_json::json;

/// Helper functions of the scripts below: `name PID` writes the pid file, `await FILE` waits for a
/// file.
const WORDS: &str = "name() { echo $1 >$dir/run/new; mv $dir/run/new $dir/run/old.pid; }\n\
                     await() { until [ -e $dir/$1 ]; do sleep 0.01; done; }\n\
                     dir=$1; echo $$ >$dir/left\n";

/// A canary, and a unit whose launcher leaves this script running in the background.
fn unit(more: &str, launcher: &str, script: &str) -> Sandbox {
    let files = Sandbox::new();
    files.put("daemon.sh", &format!("{WORDS}{script}\n"));
    files.unit(
        "canary",
        "type: foreground-notified\nexec-start: DAEMON --notify --trace DIR/canary",
    );
    files.unit("old", &format!("type: background-pidfile\ndepends-on: canary\npid-file: DIR/run/old.pid\nrestart: never\n{more}\nexec-start: /bin/sh -c '{launcher}'"));
    files.unit("keep", "type: virtual\ndepends-on: canary");
    files.unit("all", "type: virtual\nwaits-for: old\ndepends-on: canary");
    files
}

/// A launcher that exits at once.
const LEAVES: &str = "echo x >>DIR/launched; setsid sh DIR/daemon.sh DIR DAEMON &";

/// The script, once its launcher has exited.
fn left(init: &Init) -> Process {
    until("it is the only one left of its unit", || match init.processes_of("old").as_slice() {
        [one] => one.inner_pid().filter(|pid| says(init, "left") == Some(*pid)).map(|_| *one),
        _ => None,
    })
}

/// The pid in a file.
fn says(init: &Init, file: &str) -> Option<i32> {
    init.sandbox.read(file).trim().parse().ok()
}

/// Checks that the unit has never had a main process nor been running.
fn assert_never_up(init: &Init) {
    let events = init.initctl_json_lines(&["events"]);
    assert!(events.iter().any(|event| event["unit"] == "old"));
    let up = events.iter().find(|event| event["unit"] == "old" && event["to"] == "running");
    assert_eq!(up, None);
    assert_eq!(init.status().main_pid("old"), None);
}

/// Waits until the daemon records signals.
fn until_at_work(init: &Init) {
    until("it is at work", || {
        init.sandbox.trace("trace").contains(&"ready".to_owned()).then_some(())
    });
}

/// Checks that the stop is recorded as expected.
fn assert_stop_is_traced(init: &Init) {
    init.tell("set-target", &json!({"targets": ["keep"]}));
    init.when_state("old", "disabled");
    assert_eq!(init.sandbox.trace("trace")[1..], ["ready", "term", "stop"]);
    assert_never_signalled(init);
}

#[test]
fn pid_file_that_appears_after_the_exit_of_the_launcher_is_waited_for() {
    let files = unit("start-timeout: 1h", LEAVES, "await go; name $$; exec sleep 1000000");
    let init = Boot::new(files).start("all");
    let daemon = left(&init);
    init.check();
    assert_never_up(&init);
    assert_eq!(init.status().state("old"), "starting");
    init.sandbox.put("go", "");
    let status = init.when_state("old", "running");
    assert_eq!(status.main_pid("old"), daemon.inner_pid());
    init.finish();
}

#[test]
fn pid_file_that_never_appears_fails_the_start_and_ends_its_processes() {
    let files = unit("start-timeout: 1s", LEAVES, "await never");
    files.unit("nothing", "type: background-pidfile\npid-file: DIR/run/nothing.pid\nrestart: never\nstart-timeout: 1h\nexec-start: /bin/true");
    files.unit("both", "type: virtual\nwaits-for: all, nothing");
    let init = Boot::new(files).start("both");
    let status = init.when_state("old", "failed");
    assert_eq!(status.reason("old"), "start-timeout", "{}", status.table());
    assert_never_up(&init);
    assert!(init.processes_of("old").is_empty());
    // Without a process that could write the file, the start fails without waiting.
    let reason = init.when_state("nothing", "failed").unit("nothing")["reason"].clone();
    assert!(
        reason["text"].as_str().unwrap_or_default().contains("there is no pid file"),
        "{reason}"
    );
    assert_never_signalled(&init);
    init.finish();
}

#[test]
fn removed_pid_file_does_not_change_its_unit() {
    let files = unit("stop-timeout: 60s", LEAVES, "name $$; exec \"$2\" --trace $dir/trace");
    let init = Boot::new(files).start("all");
    let main = init.when_state("old", "running").main_pid("old");
    until_at_work(&init);
    std::fs::remove_file(init.sandbox.path("run/old.pid")).expect("the pid file exists");
    init.check();
    // Init gets no event for the removal; a reload makes it look at all units.
    init.tell("reload", &json!({}));
    init.check();
    let status = init.status();
    assert_eq!((status.state("old"), status.main_pid("old")), ("running", main));
    assert_stop_is_traced(&init);
    init.finish();
}

#[test]
fn exit_of_a_main_process_hands_over_to_the_process_in_its_pid_file() {
    let script = "name $$; await go\n\"$2\" --trace $dir/trace & echo $! >$dir/next; name $!";
    let init = Boot::new(unit("stop-timeout: 60s", LEAVES, script)).start("all");
    let before = init.when_state("old", "running");
    let first = left(&init);
    assert_eq!(before.main_pid("old"), first.inner_pid());
    init.sandbox.put("go", "");
    let status = init.when("another process is the main process", |s| {
        s.main_pid("old").is_some() && s.main_pid("old") == says(&init, "next")
    });
    assert!(!first.is_alive());
    assert_eq!((status.state("old"), init.sandbox.trace("launched").len()), ("running", 1));
    until_at_work(&init);
    assert_stop_is_traced(&init);
    init.finish();
}

#[test]
fn notification_before_the_exit_of_the_main_process_is_handled_before_that_exit() {
    let files = Sandbox::new();
    let script = "sleep 1000000 & echo $! >$1/first\n\"$2\" --trace $1/trace --control $1/next &\nwait $(cat $1/first); exec sleep 1000000\n";
    files.put("front.sh", script);
    let kind = "type: foreground-notified\nnotify-access: all\nrestart: never\nstop-timeout: 60s";
    files.unit("front", &format!("{kind}\nexec-start: /bin/sh DIR/front.sh DIR DAEMON"));
    let init = Boot::new(files).start("front");
    until_at_work(&init);
    let next = init.sandbox.trace("trace")[0].clone();
    let next: i32 = next.strip_prefix("start ").and_then(|pid| pid.parse().ok()).expect("a pid");
    let first = says(&init, "first").expect("a pid");
    init.sandbox.order("next", &format!("notify MAINPID={first}\\nREADY=1"));
    init.when("another's child is its main process", |s| {
        s.main_pid("front") == Some(first) && s.state("front") == "running"
    });
    // Init reads both in one turn.
    init.process().signal(Signal::SIGSTOP);
    until("init is stopped", || (init.process().state() == Some('T')).then_some(()));
    init.sandbox.order("next", &format!("notify MAINPID={next}"));
    init.sandbox.order("next", "fork 1");
    let process = |pid| init.process().neighbour(pid).expect("the process exists");
    until("the message is sent", || (!process(next).children().is_empty()).then_some(()));
    let first = process(first);
    first.end();
    until("its parent has reaped it", || first.state().is_none().then_some(()));
    init.process().signal(Signal::SIGCONT);
    init.when("another process is the main process", |s| s.main_pid("front") == Some(next));
    let events = init.initctl_json_lines(&["events"]);
    assert!(events.iter().all(|event| event["unit"] != "front" || event["from"] != "running"));
    init.finish();
}

/// A unit whose process takes orders at DIR/old and has a child that takes orders at DIR/next.
fn pair(unit: &str) -> Sandbox {
    let files = Sandbox::new();
    let next = "DAEMON --trace DIR/trace --control DIR/next";
    let line = format!("/bin/sh -c '{next} & exec DAEMON --ready-on-order --control DIR/old'");
    files.unit("front", &format!("restart: never\n{}", unit.replace("PAIR", &line)));
    files
}

/// The pid of that child.
fn next_of(init: &Init) -> i32 {
    until_at_work(init);
    let next = init.sandbox.trace("trace")[0].clone();
    next.strip_prefix("start ").and_then(|pid| pid.parse().ok()).expect("a pid")
}

/// Makes the process send this notification, and returns once it is sent.
fn says_at_once(init: &Init, (fifo, process): (&str, Process), text: &str) {
    let before = process.children().len();
    init.sandbox.order(fifo, &format!("notify {text}"));
    init.sandbox.order(fifo, "fork 1");
    until("the message is sent", || (process.children().len() > before).then_some(()));
}

#[test]
fn notification_of_a_main_process_named_in_the_same_turn_is_accepted() {
    let kind = "type: foreground-notified\nnotify-access: main\nexec-start: PAIR";
    let init = Boot::new(pair(kind)).start("front");
    let (old, next) = (init.main_of("front"), next_of(&init));
    // Before it is the main process, its messages are refused.
    init.sandbox.order("next", "notify READY=1");
    until("it is refused", || (init.dropped("messages-refused") == 1).then_some(()));
    init.process().signal(Signal::SIGSTOP);
    until("init is stopped", || (init.process().state() == Some('T')).then_some(()));
    says_at_once(&init, ("old", old), &format!("MAINPID={next}"));
    let child = init.process().neighbour(next).expect("the process exists");
    says_at_once(&init, ("next", child), "READY=1");
    init.process().signal(Signal::SIGCONT);
    let status = init.when_state("front", "running");
    assert_eq!(status.main_pid("front"), Some(next));
    assert_eq!(init.dropped("messages-refused"), 1);
    init.finish();
}

#[test]
fn main_pid_in_the_last_message_of_an_exited_process_hands_over() {
    let kind = "type: foreground-notified\nnotify-access: main\nexec-start: PAIR";
    let files = pair(&format!("{kind}\nstop-timeout: 60s"));
    files.unit("keep", "type: virtual");
    let init = Boot::new(files).start("front");
    let (old, next) = (init.main_of("front"), next_of(&init));
    init.sandbox.order("old", "notify READY=1");
    let first = init.when_state("front", "running").main_pid("front");
    // The read at the start of the turn finds nothing; the one before reaping finds the message.
    let inject = ["-e", "trace=recvmmsg", "-e", "inject=recvmmsg:error=EAGAIN:when=1"];
    let tracer = Tracer::attach(init.process(), &init.sandbox.path("strace"), &inject);
    init.process().signal(Signal::SIGSTOP);
    until("init is stopped", || init.process().state().filter(|state| "Tt".contains(*state)));
    init.sandbox.order("old", &format!("notify MAINPID={next}"));
    init.sandbox.order("old", "exit 0");
    until("the process has exited", || (old.state() == Some('Z')).then_some(()));
    init.process().signal(Signal::SIGCONT);
    let status = init
        .when("the exited process is no longer the main process", |s| s.main_pid("front") != first);
    assert_eq!((status.state("front"), status.main_pid("front")), ("running", Some(next)));
    assert_eq!(injected(&tracer.detach()), 1);
    init.tell("set-target", &json!({"targets": ["keep"]}));
    init.when_state("front", "disabled");
    assert_eq!(init.sandbox.trace("trace")[1..], ["ready", "term", "stop"]);
    init.finish();
}

#[test]
fn launcher_that_names_the_daemon_by_notification_needs_no_pid_file() {
    let kind = "type: background-pidfile\npid-file: DIR/none.pid\nnotify-access: main";
    let files = pair(&format!(
        "{kind}\nexec-start: PAIR\nexec-stop: /bin/sh -c 'echo x >>DIR/stopped; kill $MAINPID'"
    ));
    files.unit("keep", "type: virtual");
    let init = Boot::new(files).start("front");
    let next = next_of(&init);
    // READY comes too early: the unit is running only after its launcher has exited.
    init.sandbox.order("old", &format!("notify MAINPID={next}\\nREADY=1"));
    init.when("it is named", |s| s.main_pid("front") == Some(next));
    init.check();
    assert_eq!(init.status().state("front"), "starting");
    init.sandbox.order("old", "exit 0");
    let status = init.when_state("front", "running");
    assert_eq!(status.main_pid("front"), Some(next));
    init.tell("set-target", &json!({"targets": ["keep"]}));
    init.when_state("front", "disabled");
    assert_eq!(init.sandbox.read("stopped"), "x\n");
    assert_eq!(init.sandbox.trace("trace")[1..], ["ready", "term", "stop"]);
    init.finish();
}

#[test]
fn oneshot_that_names_a_main_process_still_runs_all_its_commands() {
    let kind = "type: oneshot\nnotify-access: main\nkill-mode: process";
    let second = "/bin/sh -c 'echo x >>DIR/second'";
    let files = pair(&format!("{kind}\nexec-start:\n  - PAIR\n  - {second}"));
    let init = Boot::new(files).start("front");
    let next = next_of(&init);
    init.sandbox.order("old", &format!("notify MAINPID={next}"));
    init.when("it is named", |s| s.main_pid("front") == Some(next));
    init.sandbox.order("old", "exit 0");
    init.when_state("front", "exited");
    assert_eq!(init.sandbox.read("second"), "x\n");
    init.finish();
}

#[test]
fn exit_of_a_main_process_does_not_hand_over_to_a_process_of_another_unit() {
    let script = "name $$; await go\nname $(sed -n 's/start //p' $dir/canary)";
    let init = Boot::new(unit("", LEAVES, script)).start("all");
    init.when_state("old", "running");
    let (main, canary) = (init.main_of("old"), init.status().main_pid("canary"));
    init.sandbox.put("go", "");
    // Init reads the pid file after a moment.
    init.when("the process has exited", |s| {
        s.main_pid("old").is_none() && s.state("old") != "running"
    });
    assert!(!main.is_alive());
    assert_eq!(says(&init, "run/old.pid"), canary, "the pid in its pid file");
    init.tell("set-target", &json!({"targets": ["keep"]}));
    init.when_state("old", "disabled");
    assert_never_signalled(&init);
    init.finish();
}

#[test]
fn old_pid_file_that_names_a_live_process_is_refused() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    // The pid belongs to a process of the unit itself, or to one of another unit.
    let own = "until echo 29999 >/proc/sys/kernel/ns_last_pid; setsid sleep 1000000 & \
               echo $$! >DIR/left; [ $$! = 30000 ]; do kill $$!; done";
    for (launcher, canary_writes) in
        [(own, false), ("setsid sleep 1000000 & echo $$! >DIR/left", true)]
    {
        let files = unit("start-timeout: 1s", launcher, "");
        files.put("run/old.pid", "30000\n");
        if canary_writes {
            files.unit("canary", "type: foreground-notified\nexec-start: /bin/sh -c 'echo $$$$ >DIR/run/old.pid; exec DAEMON --notify --trace DIR/canary'");
        }
        let init = Boot::new(files).start("all");
        let status = init.when_state("old", "failed");
        assert_eq!(status.reason("old"), "start-timeout", "{}", status.table());
        assert_never_up(&init);
        let of_launcher = says(&init, "left").expect("it was launched");
        assert!(canary_writes || of_launcher == 30000);
        assert!(!init.sandbox.path("run/old.pid").exists(), "it was removed before the start");
        assert_never_signalled(&init);
        init.finish();
    }
}
