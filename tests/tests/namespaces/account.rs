//! /etc/passwd on a file system that does not answer, or that is no file: whoever reads it waits,
//! which is never PID 1.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::silent::Silent;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs::File;

const PASSWD: &str = "/etc/passwd";

/// Does it where init sees files. A thread of its own may go there alone.
fn inside(init: &Init, work: impl FnOnce() + Send) {
    let there = File::open(format!("/proc/{}/ns/mnt", init.process().0)).expect("init is there");
    let go = move || {
        unshare(CloneFlags::CLONE_FS).expect("we are root");
        setns(&there, CloneFlags::CLONE_NEWNS).expect("we are root");
        work();
    };
    std::thread::scope(|scope| scope.spawn(go).join().expect("it is done"));
}

/// The file that does not answer stands in for /etc/passwd.
fn cover(init: &Init) {
    let file = init.sandbox.path("silent/file");
    let bind = || mount(Some(&file), PASSWD, None::<&str>, MsFlags::MS_BIND, None::<&str>);
    inside(init, || bind().expect("it can be covered"));
}

#[test]
fn a_passwd_that_never_answers_holds_up_nobody() {
    let files = Sandbox::new();
    std::fs::create_dir(files.path("silent")).unwrap();
    files.unit("web", "user: root\nexec-start: DAEMON");
    files.unit("other", "user: root\nexec-start: DAEMON");
    // Whose name this is, the child asks on its way to the program.
    let asks = "type: oneshot\nstart-timeout: 300ms\nrestart: never\ncondition-user: nobody\nexec-start: /bin/true";
    files.unit("asks", asks);
    let init = Boot::new(files).start("web");
    init.when_system("running");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    cover(&init);
    let mut asker = init.client().expect("somebody listens");
    asker.send("reload", &json!({}));
    silent.until_reading(1);
    // Its loader waits. Everything else goes on: services heal, start and stop.
    assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    let first = init.main_of("web");
    first.signal(Signal::SIGKILL);
    until("web is there again", || (init.main_of("web") != first).then_some(()));
    init.tell("set-target", &json!({"targets": ["web"], "want": ["other", "asks"]}));
    init.when_state("other", "running");
    silent.until_reading(2);
    // The kernel ends nobody who waits so.
    init.when("it is given up", |s| s.reason("asks") == "unkillable");
    init.tell("set-target", &json!({"targets": ["web"]}));
    init.when_state("other", "disabled");
    // What takes too long is given up: nothing has changed.
    let second = init.main_of("web");
    let refused = asker.answer().expect("an answer").expect_err("it is refused");
    let why = refused["message"].as_str().unwrap_or_default();
    assert!(why.contains("longer than 30 s"), "{refused}");
    assert_eq!(init.main_of("web"), second);
    // The next one need not wait for the one that hangs.
    inside(&init, || umount2(PASSWD, MntFlags::MNT_DETACH).expect("it is covered"));
    init.tell("reload", &json!({}));
    drop(silent);
    init.when("it may be started again", |s| s.reason("asks") != "unkillable");
    assert_eq!(init.status().state("web"), "running");
    init.finish();
}

#[test]
fn a_boot_goes_on_without_a_loader_that_can_not_even_be_killed() {
    let files = Sandbox::new();
    std::fs::create_dir(files.path("silent")).unwrap();
    files.unit("web", "exec-start: DAEMON");
    let go = files.at("go");
    nix::unistd::mkfifo(go.as_str(), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let waits = format!("read word <{go}; exec \"$@\"");
    let mut init = Boot::new(files).through(&["/bin/sh", "-c", &waits, "sh"]).launch("web");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.sandbox.order("go", "go");
    };
    cover(&init);
    init.sandbox.order("go", "go");
    silent.until_reading(1);
    until("it is given up", || {
        init.output().contains("not even a kill has ended it").then_some(())
    });
    // A namespace is not gone before the last of its processes is.
    drop(silent);
    assert_ne!(init.ended().code(), Some(0));
    let said = init.output();
    assert!(said.contains("neither the goal (web) nor the emergency target"), "{said}");
}

#[test]
fn a_passwd_that_is_no_file_is_neither_read_nor_waited_for() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    files.unit("named", "user: daemon\nexec-start: DAEMON");
    files.unit("all", "type: virtual\nwaits-for: web, named");
    let fifo = files.at("fifo");
    nix::unistd::mkfifo(fifo.as_str(), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let covered = format!("mount --bind {fifo} /etc/passwd && exec \"$@\"");
    let init = Boot::new(files).through(&["/bin/sh", "-c", &covered, "sh"]).start("all");
    init.when_state("web", "running");
    // A user that nobody can look up is none, least of all root.
    let failed = init.when_state("named", "failed");
    assert!(failed.unit("named").to_string().contains("user"), "{}", failed.table());
    init.finish();
}
