//! A unit exits and starts again before a crash. Init has learnt of that from another process, such
//! as the logger, a helper or the launcher of a daemon. After the crash the running process belongs
//! to the unit and no second one is started. Processes that init starts itself are in
//! [`super::crash_mid_spawn`].

use super::crash::{has_survived, starts};
use super::hierarchy::BARE;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{crash, wait_for_commit};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::status::Status;
use nix::sys::signal::Signal;
use serde_json::json;

/// The wrappers that run init with cgroups and without.
const BOTH: [&[&str]; 2] = [&[], &["/bin/sh", "-c", BARE, "sh"]];

/// Starts the unit `web`, and defines units that can be wanted so that something changes.
fn at_work(text: &str, wrapper: &[&str]) -> Init {
    let files = Sandbox::new();
    files.put(
        "main.sh",
        "\"$2\" --notify --trace $1/web.trace --control $1/web & echo $! >$1/main; wait; exec sleep 1000\n",
    );
    // A daemon in a session of its own, reparented to init.
    files.put(
        "own.sh",
        "setsid \"$2\" --notify --trace $1/web.trace --control $1/web & echo $! >$1/main; until [ -e $1/go ]; do sleep 0.02; done\n",
    );
    // The daemon's parent is reparented to init and exits later.
    files.put(
        "twice.sh",
        "setsid /bin/sh -c '\"$1\" --background --pid-file $0/any --trace $0/web.trace & until [ -s $0/any ]; do sleep 0.02; done' $1 \"$2\" &\n",
    );
    // Each process that this service leaves has exited before the next one is requested.
    files.put(
        "other.sh",
        "while :; do until [ -e $1/leave ]; do sleep 0.02; done; rm $1/leave; setsid /bin/sh -c 'setsid /bin/sh -c \"until [ -e $0/parted ]; do sleep 0.02; done; rm $0/parted; echo >$0/left\" &' $1; echo >$1/parted; done\n",
    );
    files.unit("other", "exec-start: /bin/sh DIR/other.sh DIR");
    files.unit("web", &format!("restart: always\nrestart-delay: 50ms\n{text}"));
    files.unit("more", "type: virtual");
    for pad in 0..200 {
        files.unit(&format!("pad{pad}"), "type: virtual");
    }
    let mut init = Boot::new(files).unrecorded().through(wrapper).start("web");
    init.expect_crashes();
    init
}

/// Ends the run and waits until the next one is in this state.
fn begins_again(init: &Init, state: &str, end: impl FnOnce(&Init)) {
    let run = |status: &Status| status.unit("web")["run"].as_u64();
    let (before, started) = (run(&init.status()), starts(init, "web"));
    end(init);
    init.when("the unit is restarted", |s| s.state("web") == state && run(s) > before);
    until("its program has started", || (starts(init, "web") > started).then_some(()));
}

/// Checks that a crash changes neither the run nor its main process.
fn survives_a_crash_unchanged(init: &Init, crashes: u64) {
    let what = |status: &Status| {
        let unit = status.unit("web");
        json!([unit["run"], unit["state"], unit["main-pid"]])
    };
    let (before, started) = (what(&init.status()), starts(init, "web"));
    crash(init, Signal::SIGSEGV);
    has_survived(init, crashes);
    assert_eq!(what(&init.status()), before, "{}", init.output());
    // Init has handled at least one turn after the crash.
    init.tell("want", &json!({"target": "more"}));
    assert_eq!((what(&init.status()), starts(init, "web")), (before, started), "{}", init.output());
    assert!(!init.output().contains("is killed"), "{}", init.output());
}

fn assert_work_completes(init: Init, state: &str) {
    begins_again(&init, state, kill_main);
    init.finish_after_crash();
}

fn kill_main(init: &Init) {
    let [main] = init.processes_of("web")[..] else {
        return init.main_of("web").signal(Signal::SIGKILL);
    };
    main.signal(Signal::SIGKILL);
}

/// The unit exits and restarts twice before each crash.
fn comes_and_goes(text: &str, wrapper: &[&str], crashes: u64, before_exit: impl Fn(&Init)) {
    let init = at_work(text, wrapper);
    init.when_state("web", "running");
    wait_for_commit(&init);
    for crashes in 1..=crashes {
        for _ in 0..2 {
            before_exit(&init);
            begins_again(&init, "running", kill_main);
        }
        survives_a_crash_unchanged(&init, crashes);
    }
    assert_work_completes(init, "running");
}

const NAMED: &str =
    "type: foreground-notified\nnotify-access: all\nexec-start: /bin/sh DIR/main.sh DIR DAEMON";

/// Makes the child of the process that init started the main process.
fn make_child_main(init: &Init) {
    let pid = || init.sandbox.read("main").trim().parse::<i32>().ok();
    until("it is the main process", || {
        init.sandbox.order("web", &format!("notify MAINPID={}", pid()?));
        (init.status().main_pid("web") == pid()).then_some(())
    });
}

#[test]
fn restart_after_the_exit_of_a_foreign_main_process_happens_once_despite_a_crash() {
    for wrapper in BOTH {
        let init = at_work(NAMED, wrapper);
        init.when_state("web", "running");
        make_child_main(&init);
        wait_for_commit(&init);
        begins_again(&init, "running", kill_main);
        make_child_main(&init);
        survives_a_crash_unchanged(&init, 1);
        assert_work_completes(init, "running");
    }
}

#[test]
fn exit_of_a_named_main_process_before_a_crash_is_remembered() {
    for wrapper in BOTH {
        comes_and_goes(NAMED, wrapper, 1, make_child_main);
    }
}

#[test]
fn restart_after_the_last_output_was_read_happens_once_despite_a_crash() {
    let text = "ready-grep: ^here\nexec-start: DAEMON --ready-on-order --trace DIR/web.trace --control DIR/web";
    let init = at_work(text, &[]);
    until("the service has started", || (starts(&init, "web") == 1).then_some(()));
    wait_for_commit(&init);
    for crashes in 1..=2 {
        begins_again(&init, "starting", kill_main);
        survives_a_crash_unchanged(&init, crashes);
    }
    init.sandbox.order("web", "say here");
    init.when_state("web", "running");
    assert_work_completes(init, "starting");
}

#[test]
fn forking_daemon_that_restarted_before_a_crash_is_adopted() {
    let text = "type: background-pidfile\nexec-start: DAEMON --pid-file DIR/any --trace DIR/web.trace --control DIR/web";
    for wrapper in BOTH {
        for key in ["pid-file: DIR/any", "main-pid: guess", "main-pid: none"] {
            comes_and_goes(&format!("{key}\n{text}"), wrapper, 2, |_| {});
        }
    }
}

#[test]
fn orphan_that_exited_before_a_crash_does_not_affect_a_later_run() {
    let pid_file = "type: background-pidfile\npid-file: DIR/any\nexec-start:";
    let once = format!("{pid_file} DAEMON --pid-file DIR/any --trace DIR/web.trace");
    let twice = format!("{pid_file} /bin/sh DIR/twice.sh DIR DAEMON");
    for (text, other) in [(twice, None), (once, Some("other"))] {
        let init = at_work(&text, BOTH[1]);
        init.when_state("web", "running");
        init.tell("want", &json!({"target": "other"}));
        init.when_state("other", "running");
        wait_for_commit(&init);
        for crashes in 1..=2 {
            begins_again(&init, "running", kill_main);
            if let Some(other) = other {
                init.sandbox.put("leave", "");
                until("the orphan has exited", || init.sandbox.path("left").exists().then_some(()));
                std::fs::remove_file(init.sandbox.path("left")).unwrap();
                until("one process of the unit is left", || {
                    (init.processes_of(other).len() == 1).then_some(())
                });
            }
            until("one process of the unit is left", || {
                (init.processes_of("web").len() == 1).then_some(())
            });
            survives_a_crash_unchanged(&init, crashes);
        }
        assert_work_completes(init, "running");
    }
}

#[test]
fn pid_file_on_tmpfs_belongs_to_the_new_run_after_a_crash() {
    const IN_MEMORY: &str = "mount -t tmpfs none /run; exec \"$@\"";
    let text = "type: background-pidfile\npid-file: /run/pid\nexec-start: DAEMON --pid-file /run/pid --trace DIR/web.trace";
    comes_and_goes(text, &["/bin/sh", "-c", IN_MEMORY, "sh"], 2, |_| {});
}

#[test]
fn runtime_directory_of_the_next_run_survives_a_crash() {
    const IN_MEMORY: &str = "mount -t tmpfs none /run; exec \"$@\"";
    let text = "runtime-dir: web\nexec-start: DAEMON --trace DIR/web.trace";
    comes_and_goes(text, &["/bin/sh", "-c", IN_MEMORY, "sh"], 2, |init| {
        let directory = format!("/proc/{}/root/run/web", init.process().0);
        assert!(std::path::Path::new(&directory).exists());
    });
}

#[test]
fn readiness_by_descriptor_is_kept_after_a_crash_and_a_restart() {
    let text = "ready-fd: 3\nexec-start: /bin/sh -c 'echo start >>DIR/web.trace; until [ -e DIR/go ]; do sleep 0.02; done; echo >&3; exec sleep 1000'";
    for is_started_later in [false, true] {
        let init = at_work(text, &[]);
        until("the service has started", || (starts(&init, "web") == 1).then_some(()));
        wait_for_commit(&init);
        init.sandbox.put("go", "");
        init.when_state("web", "running");
        if is_started_later {
            begins_again(&init, "running", kill_main);
        }
        survives_a_crash_unchanged(&init, 1);
        assert_work_completes(init, "running");
    }
}

#[test]
fn running_reload_continues_after_two_crashes() {
    let text = "exec-start: DAEMON --trace DIR/web.trace\nexec-reload: /bin/sh -c 'echo >DIR/reloading; until [ -e DIR/go ]; do sleep 0.02; done'";
    for wrapper in BOTH {
        let init = at_work(text, wrapper);
        until("the service has started", || (starts(&init, "web") == 1).then_some(()));
        let main = init.main_of("web");
        init.tell("reload-unit", &json!({"targets": ["web"]}));
        until("it reloads", || init.sandbox.path("reloading").exists().then_some(()));
        for crashes in 1..=2 {
            crash(&init, Signal::SIGSEGV);
            has_survived(&init, crashes);
            init.tell("want", &json!({"target": "more"}));
            assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 1));
        }
        init.when_state("web", "reloading");
        init.sandbox.put("go", "");
        init.when_state("web", "running");
        assert_eq!(init.processes_of("web"), [main], "{}", init.output());
        assert_work_completes(init, "running");
    }
}

#[test]
fn named_main_process_is_signalled_after_a_crash() {
    let init = at_work(
        "type: foreground-notified\nnotify-access: all\nexec-start: /bin/sh DIR/own.sh DIR DAEMON",
        BOTH[1],
    );
    init.when_state("web", "running");
    wait_for_commit(&init);
    make_child_main(&init);
    init.sandbox.put("go", "");
    until("one process of the unit is left", || {
        (init.processes_of("web").len() == 1).then_some(())
    });
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    init.tell("kill", &json!({"targets": ["web"]}));
    until("the process got SIGTERM", || {
        init.sandbox.trace("web.trace").contains(&"term".to_owned()).then_some(())
    });
    init.finish_after_crash();
}
