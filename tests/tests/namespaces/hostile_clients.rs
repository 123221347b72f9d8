//! Hostile clients of the control socket, and clients that die. Together they delay no other client
//! and leak no memory or descriptor in init. No request is applied partly.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::{PATIENCE, until, within};
use groundstate_tests::extent::turns;
use groundstate_tests::sandbox::{Sandbox, program};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, ErrorKind, IoSlice, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The limit of the median answer time: usually milliseconds, hundreds of them on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The limit of the growth of PID 1's memory.
const LITTLE: u64 = 4 * 1024 * 1024;
const PING: &[u8] = b"{\"v\":1,\"id\":1,\"verb\":\"ping\"}\n";

fn one_unit() -> Init {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --name web");
    files.unit("other", "exec-start: DAEMON");
    let init = Boot::new(files).start("web");
    init.when_system("running");
    init
}

fn connect(init: &Init) -> UnixStream {
    UnixStream::connect(init.sandbox.path("run/control.sock")).expect("it listens")
}

/// Checks that other clients are answered meanwhile.
fn answers_at_once(init: &Init) {
    let mut client = init.client().expect("a connection");
    let mut took: Vec<Duration> = (0..21)
        .map(|_| {
            let begin = Instant::now();
            client.ask("ping", &json!({})).expect("an answer");
            begin.elapsed()
        })
        .collect();
    took.sort();
    assert!(took[10] < AT_ONCE, "{took:?}");
}

fn memory(init: &Init) -> u64 {
    init.tell("stats", &json!({}))["rss"].as_u64().expect("a number")
}

/// Connections of one user that stay open until the value is dropped.
struct Held {
    child: Child,
    answered: usize,
}

impl Held {
    fn new(init: &Init, uid: u32, count: usize) -> Held {
        Held::of("hold", init, uid, count)
    }

    /// Such connections that never send anything; each counts as answered.
    fn silent(init: &Init, uid: u32, count: usize) -> Held {
        Held::of("silent", init, uid, count)
    }

    fn of(how: &str, init: &Init, uid: u32, count: usize) -> Held {
        Held::counted(Held::begin(how, init, uid, count))
    }

    fn begin(how: &str, init: &Init, uid: u32, count: usize) -> Child {
        Command::new("setpriv")
            .args([&format!("--reuid={uid}"), "--regid=65534", "--clear-groups"])
            .arg(program("GROUNDSTATE_CALLER", "caller"))
            .args([how, &init.sandbox.at("run/control.sock"), &count.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a caller")
    }

    fn counted(mut child: Child) -> Held {
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
        stdout.read_line(&mut line).expect("a number");
        Held { child, answered: line.trim().parse().expect("a number") }
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().expect("it ends");
    }
}

#[test]
fn clients_of_many_users_lock_out_neither_root_nor_each_other() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = one_unit();
    let first = Held::new(&init, 20_000, 20);
    assert_eq!(first.answered, 16, "the limit of one user");
    // All at once, because init closes a connection that is silent for ten seconds when it needs
    // the slot.
    let others: Vec<Child> = (1..20).map(|n| Held::begin("hold", &init, 20_000 + n, 20)).collect();
    let others = others.into_iter().map(Held::counted);
    let crowd: Vec<Held> = std::iter::once(first).chain(others).collect();
    let all: usize = crowd.iter().map(|held| held.answered).sum();
    assert!((240..=248).contains(&all), "{all}: eight of all slots are reserved for root");
    let turned_away = init.dropped("callers-turned-away");
    assert!(turned_away >= 400 - 248, "{turned_away} callers were turned away");
    // Root has used none of its reserved slots before.
    let mut roots: Vec<_> = (0..7).map(|_| init.client().expect("a connection")).collect();
    for client in &mut roots {
        client.ask("ping", &json!({})).expect("root is answered");
    }
    drop(roots);
    answers_at_once(&init);
    init.tell("set-target", &json!({"targets": ["other"]}));
    init.when_state("other", "running");
    crowd.into_iter().for_each(Held::end);
    until("other users are answered again", || {
        let held = Held::new(&init, 30_000, 1);
        let heard = held.answered == 1;
        held.end();
        heard.then_some(())
    });
    init.finish();
}

#[test]
fn silent_clients_of_any_number_never_lock_out_root() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = one_unit();
    let files = || init.process().files().len();
    let before = files();
    // The number of users, of connections of each, and of the slots they then hold.
    let many = turns(1_024, 10_000);
    let crowds = [(1, 1, 1), (1, many, 16), (many / 16, 16, 248)];
    for (users, each, places) in crowds {
        let crowd = (20_000..).take(users).map(|uid| Held::silent(&init, uid, each));
        let crowd: Vec<Held> = crowd.collect();
        // Init accepts or refuses the backlog in order, and root's connection is behind it.
        answers_at_once(&init);
        assert!(files() <= before + places + 4, "{} files, {before} before", files());
        until("that many connections have a slot", || {
            (files() + 2 >= before + places).then_some(())
        });
        let stranger = Held::new(&init, 50_000, 1);
        assert_eq!(stranger.answered, usize::from(places < 248), "{users} users of {each}");
        stranger.end();
        let mut roots: Vec<_> = (0..7).map(|_| init.client().expect("a connection")).collect();
        for client in &mut roots {
            client.ask("ping", &json!({})).expect("root is answered");
        }
        crowd.into_iter().for_each(Held::end);
        drop(roots);
        until("all have exited", || (files() <= before + 1).then_some(()));
    }
    init.finish();
}

#[test]
fn partial_requests_sent_byte_by_byte_delay_no_other_client() {
    let init = one_unit();
    let line = br#"{"v":1,"id":1,"verb":"set-target","targets":["other"]}"#;
    let mut slow: Vec<UnixStream> = (0..32).map(|_| connect(&init)).collect();
    for byte in line {
        slow.iter_mut().for_each(|stream| stream.write_all(&[*byte]).expect("it reads"));
        init.tell("ping", &json!({}));
    }
    answers_at_once(&init);
    assert_eq!(init.status().0["goal"], json!(["web"]), "a request needs its newline");
    // Half-closed: init answers the request and then closes the connection.
    let mut last = slow.pop().unwrap();
    last.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"ok\""), "{answer}");
    drop(slow);
    init.when_state("other", "running");
    init.finish();
}

#[test]
fn client_that_never_reads_is_throttled_and_then_disconnected() {
    let init = one_unit();
    let before = memory(&init);
    let mut deaf = connect(&init);
    deaf.set_nonblocking(true).unwrap();
    let many = PING.repeat(1000);
    let mut sent = 0;
    // Init stops reading from a connection with a MiB of unread answers.
    let full = within(PATIENCE, || {
        match deaf.write(&many) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                init.tell("ping", &json!({}));
                return matches!(deaf.write(&many), Err(error) if error.kind() == ErrorKind::WouldBlock)
                    .then_some(());
            }
            Err(error) => panic!("{error}"),
        }
        None
    });
    assert!(full.is_some(), "{sent} bytes of requests were taken");
    let grown = memory(&init).saturating_sub(before);
    assert!(grown < LITTLE, "PID 1 has grown by {grown}");
    answers_at_once(&init);
    until("the client is disconnected", || {
        matches!(deaf.write(b"x"), Err(error) if error.kind() == ErrorKind::BrokenPipe)
            .then_some(())
    });
    assert_eq!(init.dropped("callers-cut-off"), 1);
    init.finish();
}

#[test]
fn ten_thousand_pipelined_requests_are_answered_in_order_beside_other_clients() {
    let init = one_unit();
    let stream = connect(&init);
    let mut writer = stream.try_clone().unwrap();
    let lines: String =
        (0..10_000).map(|id| format!("{{\"v\":1,\"id\":{id},\"verb\":\"ping\"}}\n")).collect();
    let asking = std::thread::spawn(move || writer.write_all(lines.as_bytes()).unwrap());
    let reading = std::thread::spawn(move || {
        let mut lines = BufReader::new(stream).lines();
        for id in 0..10_000 {
            let line = lines.next().expect("an answer").unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            assert_eq!((&answer["id"], answer["ok"].is_object()), (&json!(id), true), "{line}");
        }
    });
    answers_at_once(&init);
    asking.join().unwrap();
    reading.join().unwrap();
    init.finish();
}

#[test]
fn malformed_json_requests_are_answered_with_an_error() {
    let init = one_unit();
    let deep = "[".repeat(33) + &"]".repeat(33);
    for body in [
        r#"{"v":0,"id":1,"verb":"ping"}"#,
        r#"{"v":99,"id":1,"verb":"ping"}"#,
        r#"{"v":1,"id":1,"verb":"ping"} {"v":1,"id":2,"verb":"exit"}"#,
        r#"{"v":1,"id":1,"verb":"set-target","targets":[null]}"#,
        r#"{"v":1,"id":1,"verb":"set-target","targets":{"a":null}}"#,
        r#"{"v":1,"id":1,"verb":"why","target":null}"#,
        r#"{"v":1,"id":1,"verb":"why","verb":"exit","target":"web"}"#,
        r#"{"v":1,"id":1,"verb":"whose","pid":NaN}"#,
        r#"{"v":1,"id":1,"verb":"whose","pid":18446744073709551616}"#,
        r#"{"v":1,"id":18446744073709551616,"verb":"ping"}"#,
        r#"{"v":1,"id":1e400,"verb":"ping"}"#,
        r#"{"v":1,"id":1,"verb":"ping","x":"\ud800"}"#,
        &format!(r#"{{"v":1,"id":1,"verb":"ping","x":{deep}}}"#),
    ] {
        let mut stream = BufReader::new(connect(&init));
        stream.get_mut().write_all(format!("{body}\n").as_bytes()).unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{body}: {e}"));
        let error = &answer["error"];
        assert!(error["kind"].is_string() && error["message"].is_string(), "{body}: {answer}");
    }
    assert_eq!(init.status().0["goal"], json!(["web"]));
    init.finish();
}

#[test]
fn descriptors_sent_to_the_control_socket_are_closed() {
    let init = one_unit();
    let null = std::fs::File::open("/dev/null").unwrap();
    let files = init.process().files().len();
    for round in 0..100 {
        let stream = connect(&init);
        // Also the connection itself: init must not keep its own peer open.
        let mut fds = vec![null.as_raw_fd(); 252];
        fds.push(stream.as_raw_fd());
        let rights = [ControlMessage::ScmRights(&fds)];
        let parts = [IoSlice::new(PING)];
        sendmsg::<()>(stream.as_raw_fd(), &parts, &rights, MsgFlags::empty(), None)
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        // Init may or may not answer a message that had descriptors, but it answers other clients.
        if round % 10 == 0 {
            init.tell("ping", &json!({}));
        }
    }
    until("all are closed", || (init.process().files().len() <= files + 2).then_some(()));
    let closed = init.dropped("descriptors-closed");
    assert!(closed >= 100, "{closed} descriptors were closed");
    init.finish();
}

#[test]
fn request_of_a_dying_client_is_applied_completely_or_not_at_all() {
    let init = one_unit();
    let line = r#"{"v":1,"id":1,"verb":"want","target":"other"}"#;
    for length in 0..line.len() {
        connect(&init).write_all(&line.as_bytes()[..length]).unwrap();
    }
    init.tell("ping", &json!({}));
    assert_eq!(init.status().0["overlay"]["want"], json!([]), "no part of the request was applied");
    // Answers that no client reads.
    for _ in 0..200 {
        let status = b"{\"v\":1,\"id\":1,\"verb\":\"status\"}\n".repeat(20);
        connect(&init).write_all(&status).unwrap();
    }
    answers_at_once(&init);
    // A complete request counts if its client waits; otherwise it may be dropped.
    let mut last = connect(&init);
    last.write_all(format!("{line}\n").as_bytes()).unwrap();
    init.when_state("other", "running");
    drop(last);
    init.finish();
}

/// Processor time of a process so far, in hundredths of a second.
fn ticks(init: &Init) -> i32 {
    let field = |index| init.process().stat_field(index).expect("the process exists");
    field(11) + field(12)
}

#[test]
fn init_without_a_descriptor_to_accept_does_not_spin_and_serves_root_later() {
    let init = one_unit();
    let pid = init.process().0.to_string();
    let limit = |value: &str| {
        let set = [format!("--nofile={value}"), "--pid".to_owned(), pid.clone()];
        assert!(Command::new("prlimit").args(set).status().unwrap().success());
    };
    let highest = init.process().files().keys().max().copied().unwrap();
    limit(&format!("{}:4096", highest + 4));
    let waiting: Vec<UnixStream> = (0..50).map(|_| connect(&init)).collect();
    let begin = ticks(&init);
    let over = Instant::now() + Duration::from_secs(1);
    let _ = within(Duration::from_secs(1), || None::<()>);
    assert!(Instant::now() >= over);
    let used = ticks(&init) - begin;
    assert!(used <= 5, "{used} % of a processor for clients that cannot be served");
    drop(waiting);
    until("root is answered", || {
        let mut client = init.client()?;
        client.send("ping", &json!({}));
        client.answer()
    })
    .expect("an answer");
    limit("4096:4096");
    init.finish();
}

/// Floods the log socket as ten users, in the group that may read or in another one.
fn flood_of_the_logger(init: &Init, group: &str, how: &[&str], line: &str) -> Vec<Child> {
    let socket = init.sandbox.at("run/log.sock");
    let begin = |uid: u32| {
        let (verb, rest) = how.split_first().expect("a verb");
        Command::new("setpriv")
            .args([&format!("--reuid={uid}"), &format!("--regid={group}"), "--clear-groups"])
            .arg(program("GROUNDSTATE_CALLER", "caller"))
            .args([verb, &socket.as_str()])
            .args(rest)
            .arg(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a caller")
    };
    (0..10).map(|number| begin(21_000 + number)).collect()
}

/// Checks that root gets the lines of a unit, from memory and from its file.
fn logs_come_at_once(init: &Init) {
    let mut took: Vec<Duration> = Vec::new();
    for number in 0..12 {
        let lines = if number % 2 == 0 { "5" } else { "3000" };
        let begin = Instant::now();
        let output = init.initctl(&["logs", "web", "-n", lines]);
        took.push(begin.elapsed());
        let count = output.stdout.iter().filter(|byte| **byte == b'\n').count();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((count.to_string().as_str(), said.as_str()), (lines, ""));
    }
    took.sort();
    assert!(took[6] < AT_ONCE, "{took:?}");
}

#[test]
fn logs_of_root_come_at_once_while_ten_users_flood_the_logger() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.put("init.yaml", "log-readers: nogroup\n");
    files.unit("web", "exec-start: DAEMON --output 5000");
    let init = Boot::new(files).start("web");
    init.when_state("web", "running");
    until("all lines are in the log", || {
        let output = init.initctl(&["logs", "web", "-n", "1"]);
        String::from_utf8_lossy(&output.stdout).contains("5000").then_some(())
    });
    let old = r#"{"v":1,"id":1,"verb":"logs","targets":["web"],"n":5000}"#;
    let all = r#"{"v":1,"id":1,"verb":"logs","targets":[]}"#;
    let floods: [(&str, &[&str], &str); 4] = [
        ("65534", &["flood", "40", "500"], old),
        ("65534", &["flood", "40", "500"], all),
        ("65534", &["storm"], all),
        ("65533", &["storm"], old),
    ];
    let mut floods: Vec<Child> = floods
        .into_iter()
        .flat_map(|(group, how, line)| flood_of_the_logger(&init, group, how, line))
        .collect();
    for flood in &mut floods {
        let mut line = String::new();
        // A caller that was turned away may have exited.
        let _ = BufReader::new(flood.stdout.as_mut().expect("its output")).read_line(&mut line);
    }
    logs_come_at_once(&init);
    // Some requests of the users were answered too.
    for mut flood in floods {
        drop(flood.stdin.take());
        flood.wait().expect("it ends");
    }
    logs_come_at_once(&init);
    init.finish();
}
