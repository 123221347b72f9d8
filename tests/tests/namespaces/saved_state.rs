//! Resources that init needs to continue after a crash or an upgrade: its binary and its saved
//! state. Also crashes during the restore. The usual crash is in [`super::crash`]; the attributes
//! that an exec resets, in [`super::exec`].

use super::crash::{crashes, has_survived, starts};
use super::upgrade::{all_types, assert_work_completes, at_work, fixed};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{Fault, Steps, crash, state_memory, wait_for_commit};
use groundstate_tests::deadline::{until, within};
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::{Sandbox, copy_of_init, program};
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Waits until the last crash no longer counts as one of a row: a timer of 200 ms fires three
/// times.
pub(crate) fn until_steady(init: &Init) {
    let fired = init.sandbox.trace("job.trace").len();
    until("the last crash is some time ago", || {
        (init.sandbox.trace("job.trace").len() > fired + 2).then_some(())
    });
    wait_for_commit(init);
}

#[test]
fn init_survives_each_kind_of_fault() {
    let mut init = at_work();
    init.expect_crashes();
    let before = init.status();
    for (survived, fault) in (1..).zip(Fault::ALL) {
        until_steady(&init);
        println!("{fault:?}");
        fault.strike(&init);
        has_survived(&init, survived);
        assert_eq!(fixed(&init.status()), fixed(&before), "after {fault:?}");
    }
    init.check();
}

/// The descriptors of the state store and the inbox in a process.
fn kept(process: Process) -> Vec<i32> {
    let is_it = |file: &String| file.contains("memfd:state") || file.contains("memfd:inbox");
    process.files().into_iter().filter(|(_, file)| is_it(file)).map(|(number, _)| number).collect()
}

#[test]
fn no_other_process_has_or_can_open_the_saved_state() {
    let mut init = at_work();
    init.expect_crashes();
    let look = || {
        let own = kept(init.process());
        assert!(own.len() >= 2, "{own:?}");
        for process in init.process().neighbours().into_iter().filter(|p| *p != init.process()) {
            let has = || !kept(process).is_empty();
            let free = within(Duration::from_secs(5), || (!has()).then_some(()));
            assert!(free.is_some(), "{:?} {:?}", process.status("Name"), process.files());
        }
        if nix::unistd::geteuid().is_root() {
            for number in own {
                let path = format!("/proc/{}/fd/{number}", init.process().0);
                let mut command = Command::new("/bin/dd");
                command.arg(format!("of={path}")).args(["count=1", "conv=notrunc"]).uid(65534);
                command.stdin(Stdio::null()).stderr(Stdio::null());
                assert!(!command.status().expect("dd is there").success(), "{path} is writable");
            }
        } else {
            groundstate_tests::not_run!("this needs root to change the user");
        }
    };
    look();
    init.tell("upgrade", &json!({}));
    until_steady(&init);
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    // This process is started after the crash.
    let old = init.main_of("notified");
    old.signal(Signal::SIGKILL);
    init.when("it was replaced", |s| {
        s.state("notified") == "running" && init.main_of("notified") != old
    });
    look();
    init.check();
}

#[test]
fn removed_binary_is_executed_after_a_crash() {
    let files = all_types();
    let binary = copy_of_init(&files, "own-init", None);
    let mut init = Boot::new(files).binary(&binary).start("all");
    init.expect_crashes();
    init.when_state("plain", "running");
    let mains = || ["notified", "plain", "forked"].map(|unit| init.main_of(unit));
    let before = mains();
    until_steady(&init);
    fs::remove_file(&binary).expect("the binary exists");
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    assert_eq!(mains(), before);
    let program = || init.process().link("exe").expect("a program").to_string_lossy().into_owned();
    assert!(program().ends_with("(deleted)"), "{}", program());
    let refused = init.ask("upgrade", &json!({})).unwrap_err();
    assert_eq!(refused["kind"], "upgrade", "{refused}");
    // A package manager has installed a new binary at the path.
    copy_of_init(&init.sandbox, "own-init", None);
    init.tell("upgrade", &json!({}));
    assert_eq!((program(), mains()), (binary.clone(), before));
    fs::remove_file(&binary).expect("the binary exists");
    until_steady(&init);
    crash(&init, Signal::SIGBUS);
    has_survived(&init, 2);
    assert_eq!(mains(), before);
    init.finish_after_crash();
}

#[test]
fn binary_on_a_detached_file_system_is_executed_after_a_crash() {
    let files = all_types();
    let (image, own) = (files.at("image"), program("GROUNDSTATE_INIT", "init"));
    fs::create_dir(&image).expect("mkdir");
    let begin = format!(
        "mount -t tmpfs tmpfs {image} && cp {own} {image}/init && shift && exec {image}/init \"$@\""
    );
    let mut init = Boot::new(files).through(&["/bin/sh", "-c", &begin, "sh"]).start("all");
    init.expect_crashes();
    init.when_state("plain", "running");
    let mains = || ["notified", "plain", "forked"].map(|unit| init.main_of(unit));
    let before = mains();
    until_steady(&init);
    let mut command = Command::new("nsenter");
    command.arg(format!("--target={}", init.process().0)).args(["--mount", "--pid"]);
    if !nix::unistd::geteuid().is_root() {
        command.args(["--user", "--preserve-credentials"]);
    }
    let detached = command.args(["umount", "--lazy", &image]).status().expect("nsenter is there");
    assert!(detached.success(), "{image} is unmounted");
    for (survived, fault) in [(1, Signal::SIGSEGV), (2, Signal::SIGABRT)] {
        until_steady(&init);
        crash(&init, fault);
        has_survived(&init, survived);
        assert_eq!(mains(), before);
    }
    init.finish_after_crash();
}

#[test]
fn binary_with_another_state_version_is_refused_and_one_with_the_same_works_both_ways() {
    let init = at_work();
    let before = init.status();
    let old = program("GROUNDSTATE_INIT", "init");
    for version in [b"GS-STOR\x00", b"GS-STOR\x7f"] {
        let other = copy_of_init(&init.sandbox, "other-init", Some((FORM, version)));
        let refused = init.ask("upgrade", &json!({"binary": other})).unwrap_err();
        let why = refused["message"].as_str().unwrap_or_default();
        assert!(refused["kind"] == "upgrade" && why.contains("another version"), "{refused}");
    }
    let new = copy_of_init(&init.sandbox, "new-init", None);
    for binary in [&new, &old, &new, &old] {
        init.tell("upgrade", &json!({"binary": binary}));
        assert_eq!(init.process().link("exe").expect("a program").to_str(), Some(binary.as_str()));
        assert_eq!(fixed(&init.status()), fixed(&before));
    }
    assert_work_completes(&init);
    init.finish();
}

/// The magic number of the state store with its version.
const FORM: &[u8] = b"GS-STOR\x03";

/// Stops init and returns its state memory: no process writes to it.
pub(crate) fn memories_at_rest(init: &Init) -> (Steps, Vec<(u64, File)>) {
    wait_for_commit(init);
    (Steps::of(init), state_memory(init).into_iter().collect())
}

#[test]
fn crashes_during_the_restore_lose_no_service() {
    let mut init = at_work();
    init.expect_crashes();
    let mut survived = 0;
    for (round, distance) in [1usize, 9, 40, 160].into_iter().enumerate() {
        until_steady(&init);
        let first = init.main_of("notified");
        let mut steps = Steps::of(&init);
        first.signal(Signal::SIGKILL);
        steps.until(|call| {
            call.number == libc::SYS_clone3 && call.result > 0 && first.state().is_none()
        });
        for _ in 0..2 {
            steps.crash();
            steps.until_executed();
            // From here on the next image can restore the state.
            steps.until(|call| call.number == libc::SYS_epoll_create1);
            (0..distance).for_each(|_| _ = steps.step());
        }
        steps.crash();
        drop(steps);
        survived += 3;
        has_survived(&init, survived);
        init.when("it runs", |s| s.state("notified") == "running");
        until("it has one process", || {
            (init.processes_of("notified") == [init.main_of("notified")]).then_some(())
        });
        assert_eq!(starts(&init, "notified"), round + 2, "each program was started once");
        init.when_state("plain", "running");
    }
    init.check();
}

#[test]
fn crash_before_the_commit_of_a_reload_keeps_the_old_units() {
    let mut init = at_work();
    init.expect_crashes();
    until_steady(&init);
    let before = init.status();
    let mut client = init.client().expect("it answers");
    let generations = || {
        let files = init.process().files().into_values();
        files.filter(|file| file.contains("memfd:generation")).count()
    };
    let (mut steps, _) = memories_at_rest(&init);
    client.send("reload", &json!({}));
    steps.until(|_| generations() > 1);
    steps.until(|call| call.number == libc::SYS_close && generations() == 1);
    steps.crash();
    drop(steps);
    has_survived(&init, 1);
    let said = init.output();
    assert!(!said.contains("cannot restore its state"), "{said}");
    assert_eq!(fixed(&init.status()), fixed(&before));
    init.sandbox.order("stubborn", "exit 0");
    init.finish_after_crash();
}

#[test]
fn new_image_that_crashes_during_its_restore_gives_way_to_the_old_one() {
    let mut init = at_work();
    init.expect_crashes();
    let before = init.status();
    let mut client = init.client().unwrap();
    let mut steps = Steps::of(&init);
    client.send("upgrade", &json!({}));
    steps.until_executed();
    steps.until(|call| call.number == libc::SYS_epoll_create1);
    steps.crash();
    drop(steps);
    let refused = client.answer().expect("the client gets an answer").unwrap_err();
    assert_eq!(refused["kind"], "upgrade", "{refused}");
    assert_eq!((crashes(&init), fixed(&init.status())), (0, fixed(&before)));
    init.tell("upgrade", &json!({}));
    assert_eq!(fixed(&init.status()), fixed(&before));
    assert_work_completes(&init);
    init.finish();
}

/// The new binary has committed a state that only it can read.
#[test]
fn crash_soon_after_an_upgrade_continues_with_the_binary_that_can_read_the_state() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --trace DIR/web.trace");
    files.unit("all", "type: virtual\nwaits-for: web");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when_state("web", "running");
    let renamed: (&[u8], &[u8]) = (b"foreground-notified", b"foreground-notifieX");
    let other = copy_of_init(&init.sandbox, "other", Some(renamed));
    init.tell("upgrade", &json!({"binary": other}));
    init.sandbox.unit("late", "type: foreground-notifieX\nexec-start: DAEMON --notify");
    init.sandbox.unit("all", "type: virtual\nwaits-for: web, late");
    init.tell("reload", &json!({}));
    init.when_state("late", "running");
    let mains = || ["web", "late"].map(|unit| init.main_of(unit));
    let before = mains();
    for crashes in 1..=2 {
        wait_for_commit(&init);
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, crashes);
        let program = init.process().link("exe").expect("a program");
        assert_eq!((program.to_str(), mains()), (Some(&*other), before));
    }
    init.finish_after_crash();
}
