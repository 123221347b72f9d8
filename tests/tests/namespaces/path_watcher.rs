//! The path watcher: it is late, cannot use inotify, or waits for a path that never answers.

use super::path::{JOB, starts, until_started};
use super::restricted_environments::after;
use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::deadline::{until, within};
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::silent::Silent;
use groundstate_tests::tracer::Tracer;
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs;
use std::time::Duration;

/// The system call of poll(3).
const WAIT: i64 = if cfg!(target_arch = "x86_64") { 7 } else { libc::SYS_ppoll };

/// The number of the system call that a process is in.
fn call_of(process: Process) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/{}/syscall", process.0)).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Waits for init's path watcher.
fn lookout(init: &Init) -> Process {
    until("the path watcher runs", || {
        let mut children = init.process().children().into_iter();
        children.find(|child| child.status("Name").as_deref() == Some("groundstate-eye"))
    })
}

#[test]
fn directory_made_while_its_parent_gets_a_watch_is_not_missed() {
    let files = Sandbox::new();
    files.unit("eye", "type: path\npath-exists: DIR/a/b/flag\nactivates: server");
    files.unit("server", "exec-start: DAEMON");
    let init = Boot::new(files).start("eye");
    init.when_state("eye", "running");
    let lookout = lookout(&init);
    until("the watcher is idle", || (call_of(lookout) == Some(WAIT)).then_some(()));
    let slow = ["-e", "inject=inotify_add_watch:delay_enter=1000000:when=1"];
    let tracer = Tracer::attach(lookout, &init.sandbox.path("strace"), &slow);
    fs::create_dir(init.sandbox.path("a")).unwrap();
    until("it sets a watch", || {
        (call_of(lookout) == Some(libc::SYS_inotify_add_watch)).then_some(())
    });
    fs::create_dir(init.sandbox.path("a/b")).unwrap();
    until("the watcher is idle again", || (call_of(lookout) == Some(WAIT)).then_some(()));
    drop(tracer);
    fs::write(init.sandbox.path("a/b/flag"), "").unwrap();
    init.when_state("server", "running");
    init.finish();
}

/// A watched file, with or without inotify, whose change starts a job that runs until it is told to
/// end.
fn watched(inotify: &str) -> Init {
    let files = Sandbox::new();
    fs::create_dir(files.path("in")).unwrap();
    files.put("in/conf", "1");
    files.unit("eye", "type: path\npath-changed: DIR/in/conf\nactivates: job");
    files.unit(
        "job",
        "type: oneshot\nexec-start: DAEMON --exit 0 --ready-on-order --control DIR/order --trace DIR/job",
    );
    let init = after(inotify, files).way(Way::UserNamespace).start("eye");
    init.when_state("eye", "running");
    // A change before the watch exists does not count.
    until("it is watched", || {
        init.sandbox.put("in/conf", "changed");
        let has_started = || (starts(&init.sandbox, "job") > 0).then_some(());
        within(Duration::from_secs(3), has_started)
    });
    init
}

const NO_INOTIFY: &str = "echo 0 >/proc/sys/user/max_inotify_instances";

#[test]
fn change_right_after_the_exit_of_the_activated_unit_fires_with_a_late_watcher() {
    for inotify in ["true", NO_INOTIFY] {
        let init = watched(inotify);
        let lookout = lookout(&init);
        lookout.signal(Signal::SIGSTOP);
        init.sandbox.order("order", "ready");
        init.when_state("job", "disabled");
        init.sandbox.put("in/conf", "changed again");
        lookout.signal(Signal::SIGCONT);
        until_started(&init.sandbox, "job", 2);
        init.sandbox.order("order", "ready");
        init.when_state("job", "disabled");
        init.finish();
    }
}

#[test]
fn change_while_the_activated_unit_runs_does_not_fire() {
    /// Long enough for the watcher to poll once where it has no inotify.
    const LOOKED: Duration = Duration::from_secs(3);
    let ways = [("true", false), ("true", true), (NO_INOTIFY, false), (NO_INOTIFY, true)];
    let all = ways.map(|way| (way, watched(way.0)));
    for ((_, removes), init) in &all {
        if *removes {
            fs::remove_file(init.sandbox.path("in/conf")).unwrap();
        } else {
            init.sandbox.put("in/conf", "its own");
        }
    }
    let _ = within(LOOKED, || None::<()>);
    for (_, init) in &all {
        init.sandbox.order("order", "ready");
        init.when_state("job", "disabled");
    }
    let again = || all.iter().find(|(_, init)| starts(&init.sandbox, "job") > 1);
    assert_eq!(within(LOOKED, || again().map(|(way, _)| way)), None);
    all.into_iter().for_each(|(_, init)| init.finish());
}

#[test]
fn change_while_the_activated_unit_runs_does_not_fire_with_a_late_watcher() {
    /// Long enough for file times to differ, and for a watcher without inotify to poll once.
    const LATER: Duration = Duration::from_secs(3);
    let all = ["true", NO_INOTIFY].map(|inotify| (inotify, watched(inotify)));
    let lookouts = all.each_ref().map(|(_, init)| lookout(init));
    for ((_, init), lookout) in all.iter().zip(&lookouts) {
        lookout.signal(Signal::SIGSTOP);
        init.sandbox.put("in/conf", "its own");
    }
    let _ = within(Duration::from_secs(1), || None::<()>);
    for ((_, init), lookout) in all.iter().zip(&lookouts) {
        init.sandbox.order("order", "ready");
        init.when_state("job", "disabled");
        lookout.signal(Signal::SIGCONT);
    }
    let again = || all.iter().find(|(_, init)| starts(&init.sandbox, "job") > 1);
    assert_eq!(within(LATER, || again().map(|(way, _)| way)), None);
    all.into_iter().for_each(|(_, init)| init.finish());
}

#[test]
fn path_without_a_watch_is_polled_although_a_watched_path_is_busy() {
    let files = Sandbox::new();
    for place in ["busy", "quiet"] {
        fs::create_dir(files.path(place)).unwrap();
    }
    files.unit("busy", "type: path\npath-exists: DIR/busy/never\nactivates: server");
    let limit = "/proc/sys/user/max_inotify_watches";
    files.unit(
        "limit",
        &format!("type: oneshot\nexec-start: /bin/sh -c 'echo 0 >{limit}; touch DIR/limited'"),
    );
    files.unit("eye", "type: path\npath-exists: DIR/quiet/flag\nactivates: server");
    files.unit("server", "exec-start: DAEMON");
    let init = Boot::new(files).way(Way::UserNamespace).start("busy");
    init.when_state("busy", "running");
    until("the watcher is idle", || (call_of(lookout(&init)) == Some(WAIT)).then_some(()));
    init.tell("want", &json!({"target": "limit"}));
    until("no more watches are available", || init.sandbox.path("limited").exists().then_some(()));
    init.tell("want", &json!({"target": "eye"}));
    init.when_state("eye", "running");
    until("the watcher is idle", || (call_of(lookout(&init)) == Some(WAIT)).then_some(()));
    fs::write(init.sandbox.path("quiet/flag"), "").unwrap();
    until("it fires", || {
        fs::write(init.sandbox.path("busy/other"), "").unwrap();
        fs::remove_file(init.sandbox.path("busy/other")).unwrap();
        (init.status().state("server") == "running").then_some(())
    });
    init.finish();
}

#[test]
fn path_that_answers_again_is_reported_although_messages_to_the_watcher_were_dropped() {
    /// More messages than the socket holds.
    const ORDERS: usize = 400;
    let files = Sandbox::new();
    fs::create_dir(files.path("silent")).unwrap();
    files.unit("base", "exec-start: DAEMON");
    files.unit("far", "type: path\npath-exists: DIR/silent/never\nactivates: server");
    files.unit("server", "exec-start: DAEMON");
    let init = Boot::new(files).start("base");
    init.when_system("running");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    init.tell("want", &json!({"target": "far"}));
    silent.until_looking();
    for _ in 0..ORDERS / 2 {
        // The path is watched only while `server` is down.
        init.tell("want", &json!({"target": "server"}));
        init.when_state("server", "running");
        init.tell("unwant", &json!({"target": "server"}));
        init.when_state("server", "disabled");
    }
    init.tell("want", &json!({"target": "server"}));
    init.when_state("server", "running");
    let silence = || {
        let why = String::from_utf8_lossy(&init.initctl(&["why", "far"]).stdout).into_owned();
        why.contains("no answer since")
    };
    until("init logs it", || silence().then_some(()));
    drop(silent);
    until("the report is gone", || (!silence()).then_some(()));
    init.finish();
}

#[test]
fn path_that_never_answers_blocks_no_other_path_unit() {
    let files = Sandbox::new();
    for place in ["silent", "near"] {
        fs::create_dir(files.path(place)).unwrap();
    }
    std::os::unix::fs::symlink(files.path("silent"), files.path("link")).unwrap();
    files.unit("base", "exec-start: DAEMON");
    files.unit("far", "type: path\npath-exists: DIR/silent/never\nactivates: job");
    files.unit("led", "type: path\npath-exists: DIR/link/never\nactivates: job");
    files.unit("near", "type: path\npath-exists: DIR/near/flag\nactivates: server");
    files.unit("job", JOB);
    files.unit("server", "exec-start: DAEMON");
    files.unit("all", "type: virtual\nwants: far, led, near");
    let init = Boot::new(files).start("base");
    init.when_system("running");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    init.tell("set-target", &json!({"targets": ["all"]}));
    init.when_state("near", "running");
    silent.until_looking();
    fs::write(init.sandbox.path("near/flag"), "").unwrap();
    init.when_state("server", "running");
    let far = init.sandbox.at("silent/never");
    let silence = || init.output().contains(&format!("far: {far} does not answer"));
    until("init logs it", || silence().then_some(()));
    let why =
        |unit: &str| String::from_utf8_lossy(&init.initctl(&["why", unit]).stdout).into_owned();
    assert!(why("far").contains(&format!("{far}, no answer since")), "{}", why("far"));
    assert!(!why("near").contains("answered"), "{}", why("near"));
    // Again, while the first watchers are still blocked.
    init.tell("set-target", &json!({"targets": ["base"]}));
    init.when("the path units are down", |s| s.state("near") == "disabled");
    init.tell("set-target", &json!({"targets": ["all"]}));
    init.when_state("server", "running");
    drop(silent);
    init.tell("set-target", &json!({"targets": ["base"]}));
    init.when("the path units are down", |s| s.state("near") == "disabled");
    init.finish();
}

#[test]
fn number_of_blocked_path_watchers_is_limited() {
    /// The limit of init.
    const MOST: usize = 16;
    let files = Sandbox::new();
    for place in ["silent", "near"] {
        fs::create_dir(files.path(place)).unwrap();
    }
    files.unit("base", "exec-start: DAEMON");
    files.unit("far", "type: path\npath-exists: DIR/silent/never\nactivates: job");
    files.unit("near", "type: path\npath-exists: DIR/near/flag\nactivates: server");
    files.unit("job", JOB);
    files.unit("server", "exec-start: DAEMON");
    files.unit("all", "type: virtual\nwants: far, near");
    let init = Boot::new(files).start("base");
    init.when_system("running");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    let eyes = || {
        let all = init.process().children().into_iter().flat_map(|one| {
            let below = one.children();
            std::iter::once(one).chain(below)
        });
        all.filter(|one| one.status("Name").as_deref() == Some("groundstate-eye"))
            .collect::<Vec<Process>>()
    };
    let waits = |one: &Process| call_of(*one).is_some_and(|call| call != WAIT);
    let hang = || eyes().into_iter().filter(waits).count();
    for round in 1..=MOST + 4 {
        init.tell("set-target", &json!({"targets": ["all"]}));
        init.when_state("near", "running");
        if round <= MOST {
            init.when_state("far", "running");
            until("another watcher is blocked", || (hang() >= round).then_some(()));
        } else {
            init.when_state("far", "failed");
        }
        init.tell("set-target", &json!({"targets": ["base"]}));
        init.when("the path units are down", |s| s.state("near") == "disabled");
        until("the other watchers exit", || (eyes().len() <= MOST).then_some(()));
    }
    assert_eq!(hang(), MOST);
    drop(silent);
    until("all watchers have exited", || eyes().is_empty().then_some(()));
    init.tell("set-target", &json!({"targets": ["all"]}));
    init.when_state("far", "running");
    fs::write(init.sandbox.path("near/flag"), "").unwrap();
    init.when_state("server", "running");
    init.tell("set-target", &json!({"targets": ["base"]}));
    init.when("the path units are down", |s| s.state("near") == "disabled");
    init.finish();
}
