//! Pid files: a hint that init checks. A process that a wrong pid file names is never signalled.

use super::disk::Disk;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::{until, within};
use groundstate_tests::extent::turns;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::silent::Silent;
use serde_json::json;
use std::time::Duration;

/// Contents that name no process, and the message for each.
const WRONG: [(&str, &str); 13] = [
    ("printf 0", "does not hold the pid of a service"),
    ("printf 1", "does not hold the pid of a service"),
    ("echo -5", "does not hold one number"),
    ("printf 2147483648", "does not hold the pid of a service"),
    ("printf 99999999999999999999", "does not hold the pid of a service"),
    ("printf text", "does not hold one number"),
    ("printf \"12 34\"", "does not hold one number"),
    ("printf \"12\\n34\\n\"", "does not hold one number"),
    ("printf \"4\\\\0002\"", "does not hold one number"),
    ("head -c 10485760 /dev/zero", "is longer than a pid"),
    ("ln -s /proc/1/stat FILE; :", "is a symbolic link"),
    ("mkdir FILE; :", "is not a regular file"),
    ("mkfifo FILE; :", "is not a regular file"),
];

#[test]
fn pid_file_without_the_pid_of_a_process_of_the_unit_is_refused() {
    let files = Sandbox::new();
    files.unit("canary", "exec-start: DAEMON --trace DIR/canary");
    let names: Vec<String> = (0..WRONG.len()).map(|at| format!("old{at}")).collect();
    for (name, (makes, _)) in names.iter().zip(WRONG) {
        let file = files.at(&format!("run/{name}.pid"));
        let (makes, to) = match makes.split_once("FILE; :") {
            Some((makes, _)) => (format!("{makes}{file}"), String::new()),
            None => (makes.to_owned(), format!(">{file}.new; mv {file}.new {file}")),
        };
        // The launcher leaves a daemon behind whose pid the file could have named.
        let launcher = format!("/bin/sh -c 'setsid sleep 1000000 & {makes} {to}'");
        files.unit(name, &format!("type: background-pidfile\npid-file: {file}\nstart-timeout: 60s\nrestart: never\nexec-start: {launcher}"));
    }
    files.unit("keep", "type: virtual\ndepends-on: canary");
    files.unit(
        "all",
        &format!("type: virtual\ndepends-on: canary\nwaits-for: {}", names.join(", ")),
    );
    let init = Boot::new(files).start("all");
    for (name, (makes, told)) in names.iter().zip(WRONG) {
        let status = init.when_state(name, "failed");
        assert_eq!(status.main_pid(name), None, "`{makes}`");
        let reason = &status.unit(name)["reason"];
        let text = reason["text"].as_str().unwrap_or_default();
        assert!(text.contains(told), "`{makes}`: {reason}");
        assert!(init.processes_of(name).is_empty(), "`{makes}`: no process is left");
    }
    init.tell("set-target", &json!({"targets": ["keep"]}));
    init.when("all units are down", |s| names.iter().all(|name| s.state(name) == "disabled"));
    assert_never_signalled(&init);
    init.finish();
}

/// Checks that the canary runs and has never received a signal.
pub(super) fn assert_never_signalled(init: &Init) {
    until("it says that it is ready", || {
        init.sandbox.trace("canary").contains(&"ready".to_owned()).then_some(())
    });
    let trace = init.sandbox.trace("canary");
    assert_eq!(trace.len(), 2, "start and ready, no signal: {trace:?}");
    assert_eq!(init.status().state("canary"), "running");
}

/// A unit whose pid file names the canary, as made by this command. It fails and is stopped, and
/// the canary gets no signal.
fn names_the_canary(command: &str) -> Init {
    let files = Sandbox::new();
    files.unit("canary", "exec-start: DAEMON --trace DIR/canary");
    let wait = "until grep -q ready DIR/canary; do sleep 0.01; done 2>/dev/null";
    files.unit("old", &format!("type: background-pidfile\ndepends-on: canary\npid-file: DIR/run/old.pid\nstart-timeout: 5s\nrestart: never\nstop-timeout: 500ms\nexec-start: /bin/sh -c '{wait}; {command}'"));
    files.unit("keep", "type: virtual\ndepends-on: canary");
    files.unit("all", "type: virtual\nwaits-for: old\ndepends-on: canary");
    let init = Boot::new(files).start("all");
    let status = init.when_state("old", "failed");
    assert_eq!(status.main_pid("old"), None);
    init.tell("set-target", &json!({"targets": ["keep"]}));
    init.when("old is down", |s| s.state("old") == "disabled");
    assert_never_signalled(&init);
    init
}

#[test]
fn process_of_another_unit_in_a_pid_file_is_never_signalled() {
    names_the_canary("sed -n \"s/start //p\" DIR/canary >DIR/run/old.pid").finish();
}

#[test]
fn pid_file_that_is_a_hard_link_of_another_does_not_damage_that_file() {
    let init = names_the_canary(
        "sed -n \"s/start //p\" DIR/canary >DIR/run/canary.pid; ln DIR/run/canary.pid DIR/run/old.pid",
    );
    let canary = init.status().main_pid("canary").expect("it runs");
    assert_eq!(init.sandbox.read("run/canary.pid").trim(), canary.to_string());
    init.finish();
}

#[test]
fn stale_pid_file_is_not_taken_for_the_new_run() {
    let files = Sandbox::new();
    files.unit("old", "type: background-pidfile\npid-file: DIR/run/old.pid\nexec-start: DAEMON --pid-file DIR/run/old.pid");
    files.put("run/old.pid", "1\n");
    let init = Boot::new(files).start("old");
    let status = init.when_state("old", "running");
    assert!(status.main_pid("old") > Some(1));
    init.finish();
}

#[test]
fn constantly_changing_pid_file_makes_init_signal_no_other_process() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    std::fs::create_dir(files.path("theirs")).unwrap();
    std::os::unix::fs::chown(files.path("theirs"), Some(65534), Some(65534)).unwrap();
    files.unit("canary", "exec-start: DAEMON --trace DIR/canary");
    // The daemon writes its own pid and the canary's in turn.
    files.put(
        "racer.sh",
        "canary=$(sed -n 's/start //p' $1/canary)\n\
         echo $$ >$1/theirs/pid\n\
         trap 'exit 0' TERM\n\
         while :; do for pid in $canary $$ 1; do echo $pid >$1/theirs/new; mv $1/theirs/new $1/theirs/pid; done;\n\
         ln -s $1/canary.pid $1/theirs/new; mv $1/theirs/new $1/theirs/pid; done\n",
    );
    files.unit(
        "racer",
        "type: background-pidfile\nuser: nobody\ndepends-ms: canary\npid-file: DIR/theirs/pid\n\
         stop-timeout: 1s\nrestart-delay: 1ms\nrestart-delay-max: 1ms\nfailure-verdict: 1000000\n\
         exec-start: /bin/sh -c 'setsid sh DIR/racer.sh DIR & while [ ! -s DIR/theirs/pid ]; do :; done'",
    );
    files.unit("all", "type: virtual\nwants: canary, racer");
    let init = Boot::new(files).start("all");
    init.when_state("canary", "running");
    let canary = init.status().main_pid("canary");
    init.sandbox.put("canary.pid", &format!("{}\n", canary.expect("it runs")));
    let stopped = turns(100, 10_000);
    let mut runs = 0;
    let mut last = None;
    let patience =
        Duration::from_secs(300) * u32::try_from(stopped / 100).expect("the number fits");
    let done = within(patience, || {
        let main = init.status().main_pid("racer");
        assert_ne!(main, canary, "the canary's pid is believed");
        if main.is_some() && main != last {
            (runs, last) = (runs + 1, main);
            let _ = init.ask("restart", &json!({"targets": ["racer"]}));
        } else {
            // A run whose pid file was read at the wrong moment has failed and is retried.
            let _ = init.ask("retry", &json!({"targets": ["racer"]}));
        }
        (runs >= stopped).then_some(())
    });
    assert!(done.is_some(), "{runs} runs were stopped");
    assert_never_signalled(&init);
    init.tell("set-target", &json!({"targets": ["canary"]}));
    init.when("the racer is down", |s| s.state("racer") == "disabled");
    assert_eq!(init.status().main_pid("canary"), canary);
    init.finish();
}

#[test]
fn pid_file_on_a_frozen_disk_blocks_only_its_unit() {
    let files = Sandbox::new();
    let Some(disk) = Disk::of(&files, "disk") else {
        return groundstate_tests::not_run!("no loop devices here");
    };
    let at = files.path("disk");
    let old = |name: &str, file: &str, timeout: &str| {
        format!(
            "type: background-pidfile\npid-file: DIR/{file}\nrestart: never\nstart-timeout: {timeout}\nexec-start: DAEMON --pid-file DIR/run/{name}.pid"
        )
    };
    files.unit("hangs", &old("hangs", "disk/old.pid", "500ms"));
    files.unit("other", &old("other", "run/other.pid", "60s"));
    files.unit("base", "exec-start: DAEMON");
    std::fs::write(at.join("old.pid"), "1\n").unwrap();
    let init = Boot::new(files).start("base");
    init.when_system("running");
    disk.fsfreeze("--freeze");
    init.tell("want", &json!({"target": "hangs"}));
    // The child that removes the old pid file blocks and cannot be killed.
    init.when("init gives up", |s| s.reason("hangs") == "unkillable");
    init.tell("want", &json!({"target": "other"}));
    init.when_state("other", "running");
    init.check();
    assert!(at.join("old.pid").exists());
    disk.fsfreeze("--unfreeze");
    init.when("the unit can start again", |s| s.reason("hangs") != "unkillable");
    assert!(!at.join("old.pid").exists());
    let left = init.finish_and_keep();
    drop(disk);
    drop(left);
}

#[test]
fn pid_file_on_a_hung_disk_at_the_exit_of_the_main_process_delays_only_its_unit() {
    let files = Sandbox::new();
    std::fs::create_dir(files.path("disk")).unwrap();
    files.unit("old", "type: background-pidfile\npid-file: DIR/disk/file\nrestart: never\nexec-start: DAEMON --pid-file DIR/disk/file");
    files.unit("base", "exec-start: DAEMON");
    files.unit("all", "type: virtual\nwaits-for: old, base");
    let init = Boot::new(files).start("all");
    let main = init.when_state("old", "running").main_pid("old").expect("it was named");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("disk")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    init.main_of("old").signal(nix::sys::signal::Signal::SIGKILL);
    // A child checks whether the pid file names a successor, and blocks.
    silent.until_reading(1);
    assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    init.tell("upgrade", &json!({}));
    init.main_of("base").signal(nix::sys::signal::Signal::SIGKILL);
    init.when_state("base", "running");
    let status = init.when("init stops waiting", |s| s.state("old") != "running");
    assert_ne!(status.main_pid("old"), Some(main));
    drop(silent);
    init.when("the child has exited", |s| s.reason("old") == "signal");
    init.finish();
}

#[test]
fn pid_file_on_tmpfs_is_read_at_once() {
    let files = Sandbox::new();
    std::fs::create_dir(files.path("memory")).unwrap();
    files.unit("old", "type: background-pidfile\npid-file: DIR/memory/pid\nexec-start: DAEMON --pid-file DIR/memory/pid");
    let mount = format!("mount -t tmpfs none {} && exec \"$@\"", files.at("memory"));
    let init = Boot::new(files).through(&["/bin/sh", "-c", &mount, "sh"]).start("old");
    let first = init.when_state("old", "running").main_pid("old");
    init.main_of("old").signal(nix::sys::signal::Signal::SIGKILL);
    init.when("a new main process", |s| s.state("old") == "running" && s.main_pid("old") != first);
    init.finish();
}

#[test]
fn unreaped_main_process_counts_as_exited_whatever_its_pid_file_says() {
    let files = Sandbox::new();
    files.put("parent.sh", "sleep 1000 & echo $! >$1/run/old.pid; exec sleep 2000\n");
    files.unit(
        "old",
        "type: background-pidfile\npid-file: DIR/run/old.pid\nrestart: never\n\
         exec-start: /bin/sh -c 'sh DIR/parent.sh DIR &'",
    );
    files.unit("all", "type: virtual\nwaits-for: old");
    let init = Boot::new(files).start("all");
    init.when_state("old", "running");
    let main = init.main_of("old");
    let parent = init.processes_of("old").into_iter().find(|process| *process != main);
    main.end();
    let state =
        init.when("the process has exited", |s| !matches!(s.state("old"), "running" | "starting"));
    assert_eq!(state.main_pid("old"), None, "{}", state.table());
    until("its parent has exited", || (!parent.expect("it waits").is_alive()).then_some(()));
    init.finish();
}

#[test]
fn zombie_is_refused_as_main_process() {
    let files = Sandbox::new();
    // Its parent never reaps the child, which belongs to the unit and keeps its pid.
    files.put("main.sh", "sleep 0 & echo $! >$1/dead; exec \"$2\" --notify --control $1/web\n");
    files.unit("web", "type: foreground-notified\nexec-start: /bin/sh DIR/main.sh DIR DAEMON");
    let init = Boot::new(files).start("web");
    let before = init.when_state("web", "running").main_pid("web");
    let dead = init.sandbox.read("dead");
    let dead: i32 = dead.trim().parse().expect("a pid");
    until("the process has exited", || {
        (init.process().neighbour(dead)?.state() == Some('Z')).then_some(())
    });
    init.sandbox.order("web", &format!("notify MAINPID={dead}"));
    until("it was refused", || (init.dropped("messages-refused") >= 1).then_some(()));
    assert_eq!(init.status().main_pid("web"), before);
    init.check();
    init.finish();
}
