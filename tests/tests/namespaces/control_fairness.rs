//! Clients of the control socket whose answers are expensive. However many answers they request,
//! init serves root first and has memory and time for all other clients. Cheap crowds are in
//! [`super::hostile_clients`].

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::client::Client;
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use nix::sys::signal::Signal;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// An answer about this many units is long and takes time.
const UNITS: usize = 1000;

fn many_units() -> Init {
    let files = Sandbox::new();
    for number in 0..UNITS {
        files.unit(&format!("unit-{number}"), "type: virtual");
    }
    let names: Vec<String> = (0..UNITS).map(|number| format!("unit-{number}")).collect();
    files.unit("all", &format!("type: virtual\nwaits-for: {}", names.join(", ")));
    files.unit("other", "type: virtual");
    let mut init = Boot::new(files).unrecorded().start("all");
    init.when_state("all", "running");
    // By then init has filled its event history and has allocated memory for a long answer.
    come_and_go(&init, &mut follower(&init), 4);
    init.status();
    init.may_keep_this_much();
    init
}

/// Stops and starts all units this often; root receives each event.
fn come_and_go(init: &Init, root: &mut Client, times: usize) {
    for target in ["other", "all"].into_iter().cycle().take(times) {
        init.tell("set-target", &json!({"targets": [target]}));
        let mut is_up = false;
        while !is_up {
            let line = root.answer().expect("the stream continues").expect("an event");
            is_up = line["unit"] == target && line["to"] == "running";
        }
    }
}

/// A connection of root that follows all events from now on.
fn follower(init: &Init) -> Client {
    let mut root = init.client().expect("a connection");
    root.send("events", &json!({"follow": true, "after": 1_000_000}));
    root
}

/// Connections of one user that send the line this often and read nothing.
struct Flood {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Flood {
    fn new(init: &Init, uid: u32, count: usize, times: usize, line: &str) -> Flood {
        let mut child = Command::new("setpriv")
            .args([&format!("--reuid={uid}"), "--regid=65534", "--clear-groups"])
            .arg(program("GROUNDSTATE_CALLER", "caller"))
            .args(["flood", &init.sandbox.at("run/control.sock")])
            .args([&count.to_string(), &times.to_string(), line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a caller");
        let stdout = BufReader::new(child.stdout.take().expect("its output"));
        let mut flood = Flood { child, stdout };
        assert_eq!(flood.number(), count);
        flood
    }

    fn number(&mut self) -> usize {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a number");
        line.trim().parse().expect("a number")
    }

    /// Ends the flood and returns the number of answers it had received.
    fn end(mut self) -> usize {
        drop(self.child.stdin.take());
        let number = self.number();
        self.child.wait().expect("it ends");
        number
    }
}

fn stop(init: &Init) {
    init.process().signal(Signal::SIGSTOP);
    until("init is stopped", || {
        init.process().status("State").is_some_and(|state| state.starts_with('T')).then_some(())
    });
}

#[test]
fn root_is_served_before_clients_with_expensive_requests() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = many_units();
    let line = r#"{"v":1,"id":1,"verb":"plan","targets":["other"]}"#;
    // All requests are in the sockets, root's last, when init continues.
    stop(&init);
    let flood = Flood::new(&init, 20_000, 16, 60, line);
    let mut root = init.client().expect("a connection");
    root.send("ping", &json!({}));
    init.process().signal(Signal::SIGCONT);
    root.answer().expect("an answer").expect("root is answered");
    stop(&init);
    let answered = flood.end();
    init.process().signal(Signal::SIGCONT);
    // Answering sixteen requests of each connection in turn would be more.
    assert!(answered < 200, "{answered} requests were answered before root's");
    init.finish();
}

/// Checks the peak memory. The bound covers the limits of all unread answers and the memory to make
/// one answer.
fn took_little_memory(init: &Init) {
    let most = init.process().status("VmHWM").expect("the process exists");
    let most: usize = most.trim_end_matches(" kB").trim().parse().expect("a number");
    assert!(most < 128 * 1024, "{most} KiB");
}

#[test]
fn unread_answers_of_any_number_of_clients_take_bounded_memory() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let mut init = many_units();
    let line = r#"{"v":1,"id":1,"verb":"status"}"#;
    // The allocator may keep memory of one flood that the next one cannot use.
    for _ in 0..2 {
        init.may_keep_this_much();
        let flood = |number: u32| Flood::new(&init, 20_000 + number, 16, 40, line);
        let floods: Vec<Flood> = (0..15).map(flood).collect();
        for _ in 0..20 {
            init.tell("ping", &json!({}));
        }
        took_little_memory(&init);
        floods.into_iter().for_each(|flood| _ = flood.end());
        until("the connections are closed", || (init.process().files().len() < 100).then_some(()));
    }
    init.finish();
}

#[test]
fn client_that_reads_everything_but_always_has_more_pending_takes_bounded_memory() {
    let mut init = many_units();
    let memory = |init: &Init| init.tell("stats", &json!({}))["rss"].as_u64().expect("a number");
    let mut behind = init.client().expect("a connection");
    // More than a socket buffer holds: after each read answer some data is still unsent.
    (0..4).for_each(|_| behind.send("status", &json!({})));
    behind.answer().expect("the connection stays open").expect("an answer");
    init.may_keep_this_much();
    let before = memory(&init);
    let mut read = 0;
    for _ in 0..60 {
        behind.send("status", &json!({}));
        let answer = behind.answer().expect("the connection stays open").expect("an answer");
        read += answer.to_string().len() as u64;
    }
    let grown = memory(&init).saturating_sub(before);
    assert!(grown < read / 4, "PID 1 has grown by {grown} as {read} bytes were read");
    drop(behind);
    init.finish();
}

#[test]
fn followers_that_never_read_take_bounded_memory() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = many_units();
    let mut root = follower(&init);
    let line = r#"{"v":1,"id":1,"verb":"events","follow":true,"after":1000000}"#;
    let floods: Vec<Flood> = (0..15).map(|n| Flood::new(&init, 20_000 + n, 16, 1, line)).collect();
    come_and_go(&init, &mut root, 10);
    took_little_memory(&init);
    floods.into_iter().for_each(|flood| _ = flood.end());
    init.finish();
}
