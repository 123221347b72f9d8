//! What init was started with as its input and output, where that is a file whose close waits for ever:
//! it makes nobody wait who has nothing to do with it.

use super::crash::has_survived;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{crash, is_kept};
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::silent::Silent;
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::Signal;
use serde_json::json;
use std::path::PathBuf;

/// Somebody's place for a file system, gone with the value.
pub(crate) struct Place(pub(crate) PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// An init all of whose streams, and one more descriptor, are a file that only a shell may close. None: no FUSE.
fn begun(files: Sandbox, target: &str, arguments: &[&str]) -> Option<(Init, Silent, Place)> {
    let own = Process(i32::try_from(std::process::id()).expect("a pid"));
    let place = files.path("silent");
    std::fs::create_dir(&place).unwrap();
    let silent = Silent::but_for(own, &place, "sh")?;
    let place = Place(place);
    let file = files.at("silent/file");
    let words = format!("exec \"$@\" <{file} >>{file} 2>>{file} 7<{file}");
    let boot = Boot::new(files).through(&["sh", "-c", &words, "sh"]);
    Some((boot.arguments(arguments).start(target), silent, place))
}

/// Its state is, though something has to happen for that.
fn is_kept_after(init: &Init) {
    init.tell("restart", &json!({"targets": ["web"]}));
    init.when_state("web", "running");
    is_kept(init);
}

fn goes_on(init: &Init) {
    init.tell("restart", &json!({"targets": ["web"]}));
    init.when_state("web", "running");
    init.tell("reload", &json!({}));
    init.when_state("web", "running");
}

#[test]
fn nobody_waits_to_close_what_init_was_started_with() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    files.unit("env", "env-file: -DIR/none\nexec-start: DAEMON");
    for unit in ["said", "more"] {
        let line = "exec-start: /bin/sh -c 'echo it; exec sleep 1000'";
        files.unit(unit, &format!("log: inherit\nstop-timeout: 300ms\n{line}"));
    }
    files.unit("all", "type: virtual\nwants: web, env, said");
    let Some((mut init, silent, place)) = begun(files, "all", &[]) else {
        return groundstate_tests::not_run!("no FUSE here");
    };
    for unit in ["web", "env", "said"] {
        init.when_state(unit, "running");
    }
    silent.until_writing();
    goes_on(&init);
    init.tell("upgrade", &json!({}));
    goes_on(&init);
    // What a crash goes back to is written by a child.
    init.expect_crashes();
    is_kept_after(&init);
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    goes_on(&init);
    init.tell("set-target", &json!({"targets": ["all", "more"]}));
    init.when_state("more", "running");
    // Who has the file closes it at its end, and waits for itself.
    init.tell("set-target", &json!({"targets": ["web", "more"]}));
    let status = init.when("it is given up", |s| s.reason("said") == "unkillable");
    assert_eq!(status.state("said"), "failed");
    goes_on(&init);
    drop((silent, place));
    init.finish_after_crash();
}

#[test]
fn a_close_that_waits_in_a_child_before_its_exec_is_that_units_alone() {
    let files = Sandbox::new();
    std::fs::create_dir(files.path("silent")).unwrap();
    files.unit("base", "exec-start: DAEMON");
    files.unit("web", "exec-start: DAEMON");
    // What becomes its output is opened, put in place, and closed where it was opened.
    let keys = "restart: never\nstart-timeout: 300ms\nstop-timeout: 300ms";
    files.unit(
        "stuck",
        &format!("type: oneshot\n{keys}\nstdout: file:DIR/silent/file\nexec-start: /bin/true"),
    );
    files.unit("after", "waits-for: stuck\nexec-start: DAEMON");
    files.unit("all", "type: virtual\nwants: stuck, web, after");
    let init = Boot::new(files).start("base");
    init.when_state("base", "running");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    init.tell("set-target", &json!({"targets": ["all"]}));
    silent.until_closing(1);
    let status = init.when("it is given up", |s| s.state("stuck") == "failed");
    assert_eq!(status.reason("stuck"), "unkillable", "{}", status.table());
    let why = init.initctl(&["why", "stuck"]);
    let why = String::from_utf8_lossy(&why.stdout).into_owned();
    assert!(why.contains("can not be killed"), "{why}");
    goes_on(&init);
    init.when_state("after", "running");
    drop(silent);
    init.when("it may be started again", |s| s.reason("stuck") != "unkillable");
    init.tell("set-target", &json!({"targets": ["base"]}));
    init.finish();
}

#[test]
fn what_else_init_was_started_with_stays_open_over_an_upgrade_and_a_crash() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    let words = format!("exec 7>{}; exec \"$@\"", files.at("lock"));
    let mut init = Boot::new(files).through(&["sh", "-c", &words, "sh"]).start("web");
    init.when_state("web", "running");
    let has = |init: &Init| init.process().files().values().any(|file| file.ends_with("/lock"));
    assert!(has(&init), "it was started with it");
    for _ in 0..2 {
        init.tell("upgrade", &json!({}));
        assert!(has(&init), "after an upgrade");
    }
    init.expect_crashes();
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    assert!(has(&init), "after a crash");
    assert!(!init.main_of("web").files().values().any(|file| file.ends_with("/lock")));
    init.finish_after_crash();
}
