//! Continuous output of fleetctl: `events` and `list-units --watch`.

use crate::stand::{HELLO, Plan, Stand, code, write};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const MACHINE: &str = "0123456789abcdef";

/// A running fleetctl and its lines.
struct Looking(Child, Receiver<String>);

impl Looking {
    fn at(stand: &Stand, words: &[&str]) -> Looking {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fleetctl"))
            .args(words)
            .env("FLEETCTL_ENDPOINT", format!("unix://{}", stand.socket().display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, comes) = channel();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Looking(child, comes)
    }

    /// Returns the lines up to the first match.
    fn until(&self, like: impl Fn(&str) -> bool) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let line = self.1.recv_timeout(Duration::from_secs(30));
            all.push(line.unwrap_or_else(|_| panic!("timed out after {all:?}")));
            if like(all.last().unwrap()) {
                return all;
            }
        }
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn events_prints_each_change_on_one_line() {
    let stand = Stand::new(Plan::of(&[MACHINE]));
    write(&stand, "hello.service", HELLO);
    let looking = Looking::at(&stand, &["events"]);
    // From here on every change is printed.
    looking.until(|line| line.ends_with(" resync"));
    assert_eq!(code(&stand.fleetctl(&["start", "hello.service"])), 0);
    let state = format!("state hello.service {MACHINE} loaded/active/running");
    let started = looking.until(|line| line.ends_with(&state));
    let expected = [
        "unit hello.service",
        "desired hello.service inactive",
        "desired hello.service launched",
        &format!("place hello.service {MACHINE}"),
        &state,
    ];
    let words = |line: &String| line.split_once(' ').unwrap().1.to_string();
    assert_eq!(started.iter().map(words).collect::<Vec<_>>(), expected);
    let revision = |line: &String| line.split_once(' ').unwrap().0.parse::<i64>().unwrap();
    assert!(started.is_sorted_by_key(revision), "{started:?}");
    assert_eq!(code(&stand.fleetctl(&["destroy", "hello.service"])), 0);
    let gone = looking.until(|line| line.contains(" state hello.service") && line.contains("gone"));
    assert!(gone.iter().any(|line| words(line) == "unit hello.service gone"), "{gone:?}");
}

#[test]
fn watched_list_is_repeated_after_each_change() {
    let stand = Stand::new(Plan::of(&[MACHINE]));
    write(&stand, "hello.service", HELLO);
    let looking = Looking::at(&stand, &["list-units", "--watch"]);
    let head = "UNIT\tMACHINE\tACTIVE\tSUB";
    assert_eq!(looking.until(str::is_empty), [head, ""]);
    assert_eq!(code(&stand.fleetctl(&["start", "hello.service"])), 0);
    let started = looking.until(|line| line.contains("running"));
    let row = "hello.service\t01234567.../127.0.0.1\tactive\trunning";
    assert_eq!(started.last().unwrap(), row, "{started:?}");
    assert_eq!(code(&stand.fleetctl(&["destroy", "hello.service"])), 0);
    let gone = looking.until(|line| line == head);
    assert_eq!(gone, ["", head], "{gone:?}");
}
