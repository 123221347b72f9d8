//! Since its state was kept, a unit has come to its end and was begun once more, and each of that init had
//! learnt from somebody: as it crashes then, the process that is there is the unit's, and none is begun
//! beside or after it. What init had begun itself is in [`super::crash_mid_spawn`].

use super::crash::{has_survived, starts};
use super::crash_after_change::limit_files;
use super::hierarchy::BARE;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{crash, is_committed};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::status::Status;
use nix::sys::signal::Signal;
use serde_json::json;

/// With cgroups, and without.
const BOTH: [&[&str]; 2] = [&[], &["/bin/sh", "-c", BARE, "sh"]];

/// The unit `web`, and what can be wished for so that something happens.
fn at_work(text: &str, wrapper: &[&str]) -> Init {
    let files = Sandbox::new();
    files.put(
        "main.sh",
        "\"$2\" --notify --trace $1/web.trace --control $1/web & echo $! >$1/main; wait; exec sleep 1000\n",
    );
    // In a session of its own, and left to init.
    files.put(
        "own.sh",
        "setsid \"$2\" --notify --trace $1/web.trace --control $1/web & echo $! >$1/main; until [ -e $1/go ]; do sleep 0.02; done\n",
    );
    // The daemon's parent is left to init, and goes after that.
    files.put(
        "twice.sh",
        "setsid /bin/sh -c '\"$1\" --background --pid-file $0/any --trace $0/web.trace & until [ -s $0/any ]; do sleep 0.02; done' $1 \"$2\" &\n",
    );
    // Each that it leaves has gone when it is asked for the next.
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

/// What has happened so far is committed.
fn keeps_no_more(init: &Init) {
    is_committed(init);
}

/// It is in the state that it comes to by itself.
fn begins_again(init: &Init, state: &str, end: impl FnOnce(&Init)) {
    let run = |status: &Status| status.unit("web")["run"].as_u64();
    let (before, begun) = (run(&init.status()), starts(init, "web"));
    end(init);
    init.when("it is begun once more", |s| s.state("web") == state && run(s) > before);
    until("its program has begun", || (starts(init, "web") > begun).then_some(()));
}

/// Whoever is there is so after a crash.
fn is_begun_once(init: &Init, crashes: u64) {
    let what = |status: &Status| {
        let unit = status.unit("web");
        json!([unit["run"], unit["state"], unit["main-pid"]])
    };
    let (before, begun) = (what(&init.status()), starts(init, "web"));
    crash(init, Signal::SIGSEGV);
    has_survived(init, crashes);
    assert_eq!(what(&init.status()), before, "{}", init.output());
    // What would have been decided in its first turn is over.
    init.tell("want", &json!({"target": "more"}));
    assert_eq!((what(&init.status()), starts(init, "web")), (before, begun), "{}", init.output());
    assert!(!init.output().contains("is killed"), "{}", init.output());
}

fn comes_to_its_end(init: Init, state: &str) {
    limit_files(&init, "unlimited");
    begins_again(&init, state, kill_main);
    init.finish_after_crash();
}

fn kill_main(init: &Init) {
    let [main] = init.processes_of("web")[..] else {
        return init.main_of("web").signal(Signal::SIGKILL);
    };
    main.signal(Signal::SIGKILL);
}

/// It comes and goes twice. After a crash it does so once more: the next one goes back as far as that.
fn comes_and_goes(text: &str, wrapper: &[&str], crashes: u64, is_there: impl Fn(&Init)) {
    let init = at_work(text, wrapper);
    init.when_state("web", "running");
    keeps_no_more(&init);
    for crashes in 1..=crashes {
        for _ in 0..2 {
            is_there(&init);
            begins_again(&init, "running", kill_main);
        }
        is_begun_once(&init, crashes);
    }
    comes_to_its_end(init, "running");
}

const NAMED: &str =
    "type: foreground-notified\nnotify-access: all\nexec-start: /bin/sh DIR/main.sh DIR DAEMON";

/// The child of the one init has started becomes the main process.
fn is_named(init: &Init) {
    let pid = || init.sandbox.read("main").trim().parse::<i32>().ok();
    until("it is the main process", || {
        init.sandbox.order("web", &format!("notify MAINPID={}", pid()?));
        (init.status().main_pid("web") == pid()).then_some(())
    });
}

#[test]
fn who_is_begun_after_a_main_process_that_was_not_inits_has_ended_is_begun_once() {
    for wrapper in BOTH {
        let init = at_work(NAMED, wrapper);
        init.when_state("web", "running");
        is_named(&init);
        keeps_no_more(&init);
        begins_again(&init, "running", kill_main);
        is_named(&init);
        is_begun_once(&init, 1);
        comes_to_its_end(init, "running");
    }
}

#[test]
fn a_main_process_that_was_named_and_has_ended_since_the_state_was_kept_is_known() {
    for wrapper in BOTH {
        comes_and_goes(NAMED, wrapper, 1, is_named);
    }
}

#[test]
fn who_is_begun_after_the_last_lines_of_the_one_before_were_read_is_begun_once() {
    let text = "ready-grep: ^here\nexec-start: DAEMON --ready-on-order --trace DIR/web.trace --control DIR/web";
    let init = at_work(text, &[]);
    until("it has begun", || (starts(&init, "web") == 1).then_some(()));
    keeps_no_more(&init);
    for crashes in 1..=2 {
        begins_again(&init, "starting", kill_main);
        is_begun_once(&init, crashes);
    }
    init.sandbox.order("web", "say here");
    init.when_state("web", "running");
    comes_to_its_end(init, "starting");
}

#[test]
fn a_daemon_that_has_come_and_gone_since_the_state_was_kept_is_known() {
    let text = "type: background-pidfile\nexec-start: DAEMON --pid-file DIR/any --trace DIR/web.trace --control DIR/web";
    for wrapper in BOTH {
        for key in ["pid-file: DIR/any", "main-pid: guess", "main-pid: none"] {
            comes_and_goes(&format!("{key}\n{text}"), wrapper, 2, |_| {});
        }
    }
}

#[test]
fn who_was_left_to_init_and_is_gone_had_left_nothing_of_a_later_run() {
    let pid_file = "type: background-pidfile\npid-file: DIR/any\nexec-start:";
    let once = format!("{pid_file} DAEMON --pid-file DIR/any --trace DIR/web.trace");
    let twice = format!("{pid_file} /bin/sh DIR/twice.sh DIR DAEMON");
    for (text, other) in [(twice, None), (once, Some("other"))] {
        let init = at_work(&text, BOTH[1]);
        init.when_state("web", "running");
        init.tell("want", &json!({"target": "other"}));
        init.when_state("other", "running");
        keeps_no_more(&init);
        for crashes in 1..=2 {
            begins_again(&init, "running", kill_main);
            if let Some(other) = other {
                init.sandbox.put("leave", "");
                until("it has left somebody, who is gone", || {
                    init.sandbox.path("left").exists().then_some(())
                });
                std::fs::remove_file(init.sandbox.path("left")).unwrap();
                until("it is alone", || (init.processes_of(other).len() == 1).then_some(()));
            }
            until("it is alone", || (init.processes_of("web").len() == 1).then_some(()));
            is_begun_once(&init, crashes);
        }
        comes_to_its_end(init, "running");
    }
}

#[test]
fn a_pid_file_in_memory_is_the_next_ones_after_a_crash() {
    const IN_MEMORY: &str = "mount -t tmpfs none /run; exec \"$@\"";
    let text = "type: background-pidfile\npid-file: /run/pid\nexec-start: DAEMON --pid-file /run/pid --trace DIR/web.trace";
    comes_and_goes(text, &["/bin/sh", "-c", IN_MEMORY, "sh"], 2, |_| {});
}

#[test]
fn what_was_removed_before_a_crash_is_not_removed_from_under_the_next_one() {
    const IN_MEMORY: &str = "mount -t tmpfs none /run; exec \"$@\"";
    let text = "runtime-dir: web\nexec-start: DAEMON --trace DIR/web.trace";
    comes_and_goes(text, &["/bin/sh", "-c", IN_MEMORY, "sh"], 2, |init| {
        let directory = format!("/proc/{}/root/run/web", init.process().0);
        assert!(std::path::Path::new(&directory).exists());
    });
}

#[test]
fn who_has_said_by_a_descriptor_that_it_is_ready_is_so_after_a_crash() {
    let text = "ready-fd: 3\nexec-start: /bin/sh -c 'echo start >>DIR/web.trace; until [ -e DIR/go ]; do sleep 0.02; done; echo >&3; exec sleep 1000'";
    for is_begun_since in [false, true] {
        let init = at_work(text, &[]);
        until("it has begun", || (starts(&init, "web") == 1).then_some(()));
        keeps_no_more(&init);
        init.sandbox.put("go", "");
        init.when_state("web", "running");
        if is_begun_since {
            begins_again(&init, "running", kill_main);
        }
        is_begun_once(&init, 1);
        comes_to_its_end(init, "running");
    }
}

#[test]
fn reload_that_is_under_way_goes_on_after_two_crashes() {
    let text = "exec-start: DAEMON --trace DIR/web.trace\nexec-reload: /bin/sh -c 'echo >DIR/reloading; until [ -e DIR/go ]; do sleep 0.02; done'";
    for wrapper in BOTH {
        let init = at_work(text, wrapper);
        until("it has begun", || (starts(&init, "web") == 1).then_some(()));
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
        comes_to_its_end(init, "running");
    }
}

#[test]
fn a_main_process_that_was_named_and_lives_is_signalled_after_a_crash() {
    let init = at_work(
        "type: foreground-notified\nnotify-access: all\nexec-start: /bin/sh DIR/own.sh DIR DAEMON",
        BOTH[1],
    );
    init.when_state("web", "running");
    keeps_no_more(&init);
    is_named(&init);
    init.sandbox.put("go", "");
    until("it is alone", || (init.processes_of("web").len() == 1).then_some(()));
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    limit_files(&init, "unlimited");
    init.tell("kill", &json!({"targets": ["web"]}));
    until("it is asked to end", || {
        init.sandbox.trace("web.trace").contains(&"term".to_owned()).then_some(())
    });
    init.finish_after_crash();
}
