//! Each verb that needs an init, without one and with one that hangs. The others are in
//! `command_line.rs`.
#![allow(clippy::unwrap_used, reason = "what fails here ends the test")]

mod place;

use place::{Place, err};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::Stdio;

/// Verbs that need an init.
const OF_AN_INIT: &[&[&str]] = &[
    &[],
    &["status", "web"],
    &["status", "--check"],
    &["set-target", "web", "+x", "-y", "--wait", "--timeout", "5s", "--or-rollback"],
    &["set-target", "web", "--dry-run"],
    &["set-target", "-cron"],
    &["plan"],
    &["plan", "web", "-json", "+x"],
    &["plan", "--reload"],
    &["why", "web"],
    &["want", "web", "--for", "1h"],
    &["unwant", "web"],
    &["reload", "--no-restart"],
    &["reload", "--plan"],
    &["restart", "web", "db", "--wait"],
    &["reload-unit", "web"],
    &["kill", "web", "-s", "HUP", "--all"],
    &["retry", "web"],
    &["events", "-f"],
    &["tree", "--reverse", "web"],
    &["graph", "--dot"],
    &["graph", "--mermaid"],
    &["blame"],
    &["critical-chain"],
    &["plot"],
    &["cat", "web"],
    &["whose", "1"],
    &["timers"],
    &["sockets"],
    &["source", "list"],
    &["source", "put", "fleet", "/dev/null"],
    &["source", "drop", "fleet"],
    &["upgrade"],
    &["switch-root", "/"],
    &["ping"],
    &["stats"],
    &["poweroff", "-y"],
    &["reboot"],
    &["halt"],
    &["exit", "3"],
];

#[test]
fn every_verb_that_needs_an_init_exits_with_69_without_one() {
    for words in OF_AN_INIT {
        assert_eq!(Place::new().initctl(words).status.code(), Some(69), "{words:?}");
    }
}

#[test]
fn every_verb_exits_with_2_if_init_does_not_answer() {
    let place = Place::new();
    // These sockets never accept a connection.
    let _still = ["control.sock", "log.sock"].map(|name| UnixListener::bind(place.0.join(name)));
    let others = [&["mask", "web"][..], &["events"], &["poweroff", "-ffy"]];
    let spawned = OF_AN_INIT.iter().chain(&others).map(|words| {
        let mut command = place.command(words);
        (words, command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    });
    let logs = [&["logs", "web"][..], &["logs", "-f", "web"]];
    let logs = logs.map(|words| {
        std::thread::spawn({
            let mut command = place.command(words);
            move || command.output().unwrap()
        })
    });
    for (words, child) in spawned.collect::<Vec<_>>() {
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{words:?}: {}", err(&ended));
        let said = err(&ended);
        assert!(said.contains("control.sock within 5s\nhint: "), "{words:?}: {said}");
    }
    for ended in logs {
        let said = err(&ended.join().unwrap());
        assert!(said.contains("the logger does not answer; reading its files"), "{said}");
    }
}

#[test]
fn truncated_answer_is_reported_as_an_error() {
    let place = Place::new();
    let listener = UnixListener::bind(place.0.join("control.sock")).unwrap();
    let event = r#"{"seq":7,"time":"2026-11-21T05:12:26.123Z","mono_us":1,"event":"booted"}"#;
    let init = std::thread::spawn(move || {
        let mut caller = listener.accept().unwrap().0;
        let mut requests = BufReader::new(caller.try_clone().unwrap()).lines();
        for (id, answer) in [(1, "{}"), (2, event)] {
            requests.next().unwrap().unwrap();
            writeln!(caller, r#"{{"v":1,"id":{id},"ok":{answer}}}"#).unwrap();
        }
    });
    let ended = place.initctl(&["events", "--json"]);
    init.join().unwrap();
    assert!(String::from_utf8_lossy(&ended.stdout).starts_with(event), "{}", err(&ended));
    assert_eq!(ended.status.code(), Some(69), "{}", err(&ended));
    assert!(String::from_utf8_lossy(&ended.stdout).contains("within an answer"), "{ended:?}");
}
