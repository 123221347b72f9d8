//! Init's own messages when stderr is a file: a child writes them, because a write to a file can
//! block.

use super::blocked_close::Place;
use super::disk::Disk;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::silent::Silent;
use nix::sys::signal::Signal;
use serde_json::json;

/// A shell that opens this file as stderr and executes init.
fn saying_into(file: &str) -> [String; 4] {
    let words = format!("exec \"$@\" 2>>{file}");
    ["sh".to_owned(), "-c".to_owned(), words, "sh".to_owned()]
}

/// The child that writes init's messages, by the name it sets for itself.
fn scribe(init: &Init) -> Process {
    let named = |p: &Process| {
        p.is_alive() && p.read("comm").is_some_and(|name| name.starts_with("groundstate-say"))
    };
    until("init has a writer", || init.process().children().into_iter().find(named))
}

fn goes_on(init: &Init) {
    assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    init.tell("restart", &json!({"targets": ["web"]}));
    init.when_state("web", "running");
    // Init logs the upgrade.
    init.tell("upgrade", &json!({}));
    assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    init.when_state("web", "running");
}

#[test]
fn init_does_not_wait_for_the_file_system_of_its_own_stderr() {
    let own = Process(i32::try_from(std::process::id()).expect("a pid"));
    for is_of_another_namespace in [false, true] {
        let files = Sandbox::new();
        files.unit("web", "exec-start: DAEMON");
        let place = files.path("silent");
        std::fs::create_dir(&place).unwrap();
        let Some(silent) = Silent::with_unanswered_writes(own, &place) else {
            return groundstate_tests::not_run!("no FUSE here");
        };
        let place = Place(place);
        let [sh, how, words, name] = saying_into(&files.at("silent/file"));
        let then = "exec unshare -m \"$@\"";
        let mut wrapper = vec![sh.as_str(), &how, &words, &name];
        if is_of_another_namespace {
            wrapper.extend(["sh", "-c", then, "sh"]);
        }
        let init = Boot::new(files).through(&wrapper).start("web");
        init.when_state("web", "running");
        silent.until_writing();
        goes_on(&init);
        // When the file system is gone, blocked writes return.
        drop((silent, place));
        init.finish();
    }
}

#[test]
fn init_does_not_wait_for_the_frozen_disk_of_its_stderr() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    let Some(disk) = Disk::of(&files, "disk") else {
        return groundstate_tests::not_run!("no loop devices here");
    };
    let path = files.path("disk/said");
    let wrapper = saying_into(path.to_str().unwrap());
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let init = Boot::new(files).through(&wrapper).start("web");
    init.when_state("web", "running");
    let said = || std::fs::read_to_string(&path).unwrap_or_default();
    until("init has logged its version", || said().contains("groundstate: ").then_some(()));
    disk.fsfreeze("--freeze");
    goes_on(&init);
    let before = said();
    disk.fsfreeze("--unfreeze");
    until("the messages are written after the thaw", || {
        let now = said();
        (now.len() > before.len() && now.starts_with(&before)).then_some(())
    });
    let left = init.finish_and_keep();
    assert!(said().contains("all units are stopped\n"), "up to the last message: {}", said());
    drop(disk);
    drop(left);
}

#[test]
fn killed_writer_of_init_messages_is_replaced() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    let init = Boot::new(files).start("web");
    init.when_state("web", "running");
    let first = scribe(&init);
    first.signal(Signal::SIGTERM);
    first.signal(Signal::SIGKILL);
    until("the process has exited", || (!first.is_alive()).then_some(()));
    let before = init.output();
    init.tell("upgrade", &json!({}));
    until("init logs a message", || (init.output().len() > before.len()).then_some(()));
    assert_ne!(scribe(&init), first);
    init.finish();
}
