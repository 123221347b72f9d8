//! Sockets that accept: one instance of a template for each connection, bounded.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

fn free_port() -> u16 {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    probe.local_addr().expect("its address").port()
}

/// Sends one line and returns the line that comes back.
fn talk(stream: &mut (impl Read + Write), line: &str) -> String {
    stream.write_all(format!("{line}\n").as_bytes()).expect("the socket takes the line");
    let mut answer = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte).expect("an answer") == 1 && byte != *b"\n" {
        answer.push(byte[0]);
    }
    String::from_utf8(answer).expect("text")
}

/// Returns true if the connection was closed without an answer.
fn is_turned_away(mut stream: impl Read) -> bool {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).is_err() || rest.is_empty()
}

fn echo(sockets: &str) -> Init {
    let files = Sandbox::new();
    files.unit("front", &format!("type: socket\nsocket-accept: yes\nactivates: echo@\n{sockets}"));
    // `read` ends with the connection, so the service does.
    files.unit(
        "echo@",
        "stdin: socket\nexec-start: /bin/sh -c 'while read line; do echo \
         \"$$line $$GROUNDSTATE_UNIT $$REMOTE_ADDR $$REMOTE_PORT\"; done'",
    );
    let init = Boot::new(files).start("front");
    init.when_system("running");
    init
}

fn connections(init: &Init) -> Value {
    init.tell("sockets", &json!({}))["sockets"][0]["accepts"].clone()
}

fn open(init: &Init) -> usize {
    connections(init)["connections"].as_array().unwrap().len()
}

#[test]
fn each_connection_has_an_instance_that_ends_with_it() {
    let port = free_port();
    let init = echo(&format!("listen-stream: 127.0.0.1:{port}"));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut one = TcpStream::connect(address).unwrap();
    let from = one.local_addr().unwrap().port();
    assert_eq!(talk(&mut one, "hello"), format!("hello echo@0 127.0.0.1 {from}"));
    let mut other = TcpStream::connect(address).unwrap();
    assert!(talk(&mut other, "hi").starts_with("hi echo@1 127.0.0.1 "));
    let status = init.status();
    assert_ne!(status.main_pid("echo@0"), status.main_pid("echo@1"));
    let seen = connections(&init);
    assert_eq!(
        (&seen["most"], &seen["accepted"], &seen["refused"]),
        (&64.into(), &2.into(), &0.into())
    );
    assert_eq!(seen["connections"][0]["peer"], format!("127.0.0.1:{from}"));
    let text = String::from_utf8(init.initctl(&["sockets"]).stdout).unwrap();
    assert!(text.contains("2 of 64 connections") && text.contains("echo@"), "{text}");
    let why = init.tell("why", &json!({"target": "echo@0"}));
    assert!(why.to_string().contains("front"), "{why}");
    // A reload leaves both connections open, although the template has changed.
    init.sandbox.unit("echo@", "stdin: socket\nexec-start: /bin/sh -c 'echo other'");
    init.tell("reload", &json!({}));
    assert_eq!(talk(&mut one, "still"), format!("still echo@0 127.0.0.1 {from}"));
    drop(one);
    init.when_state("echo@0", "disabled");
    assert_eq!(open(&init), 1);
    let mut third = TcpStream::connect(address).unwrap();
    assert_eq!(talk(&mut third, ""), "other", "the slot is reused with the new definition");
    drop(other);
    until("all have exited", || (open(&init) == 0).then_some(()));
    assert_eq!(init.status().system(), "running");
    init.finish();
}

#[test]
fn connection_over_the_limit_is_closed_and_a_failed_instance_is_shown() {
    let port = free_port();
    let init = echo(&format!(
        "listen-stream: [DIR/front.sock, 127.0.0.1:{port}]\nsocket-max-connections: 3\n\
         socket-max-connections-per-source: 2"
    ));
    let path = init.sandbox.path("front.sock");
    let connect = || UnixStream::connect(&path).unwrap();
    let (mut one, mut two) = (connect(), connect());
    assert!(talk(&mut one, "a").starts_with("a echo@0"));
    assert!(talk(&mut two, "b").starts_with("b echo@1"));
    assert!(is_turned_away(connect()), "two of one uid");
    let mut tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    assert!(talk(&mut tcp, "c").starts_with("c echo@2"));
    let more = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    assert!(is_turned_away(more), "three in all");
    assert_eq!(connections(&init)["refused"], 2);
    init.main_of("echo@1").signal(Signal::SIGKILL);
    assert!(is_turned_away(two), "the connection ends with the instance");
    let status = init.when_state("echo@1", "disabled");
    assert_eq!((status.reason("echo@1"), status.system()), ("signal", "running"));
    let seen = connections(&init);
    assert_eq!((&seen["failed"], &seen["last-failure"]["unit"]), (&1.into(), &"echo@1".into()));
    let text = String::from_utf8(init.initctl(&["sockets"]).stdout).unwrap();
    assert!(
        text.contains("2 of 3 connections, 1 failed") && text.contains("signal KILL"),
        "{text}"
    );
    let events = init.initctl_json_lines(&["events"]);
    let told = |event: &Value| event["unit"] == "echo@1" && event["reason"]["kind"] == "signal";
    assert!(events.iter().any(told), "{events:?}");
    assert!(talk(&mut connect(), "d").starts_with("d echo@1"));
    let status = init.when_state("echo@1", "disabled");
    assert_eq!(status.unit("echo@1")["reason"], Value::Null, "no reason until the next connection");
    // An instance without a connection has nothing to serve.
    init.tell("want", &json!({"target": "echo@1"}));
    until("the wish fails", || {
        let status = init.status();
        (status.unit("echo@1")["reason"]["kind"] == "exec").then_some(())
    });
    init.tell("unwant", &json!({"target": "echo@1"}));
    // Stopping the socket unit closes its connections.
    init.sandbox.unit("other", "exec-start: DAEMON");
    init.tell("reload", &json!({}));
    init.tell("set-target", &json!({"targets": ["other"]}));
    assert!(is_turned_away(one));
    init.finish();
}

#[test]
fn flood_of_connections_pauses_accept_and_leaks_nothing() {
    let init = echo("listen-stream: DIR/front.sock\nsocket-max-connections: 8");
    let path = init.sandbox.path("front.sock");
    let before = init.tell("stats", &json!({}));
    // All connections are in the backlog before init accepts the first one.
    init.process().signal(Signal::SIGSTOP);
    let flood: Vec<UnixStream> =
        (0..400).map(|_| UnixStream::connect(&path).expect("the kernel queues them")).collect();
    init.process().signal(Signal::SIGCONT);
    until("init pauses accept", || init.output().contains("pausing accept for").then_some(()));
    let said = init.output();
    let (until_it_rests, _) = said.split_once("pausing accept for").unwrap();
    let refused = until_it_rests.matches("rejected ").count();
    assert!((150..=200).contains(&refused), "{refused} turned away before the pause:\n{said}");
    let seen = connections(&init);
    assert!(seen["connections"].as_array().unwrap().len() <= 8, "{seen}");
    drop(flood);
    until("all have exited", || {
        let seen = connections(&init);
        (seen["accepted"] == 400 && open(&init) == 0).then_some(())
    });
    until("no descriptor is left", || {
        let after = init.tell("stats", &json!({}));
        (after["fds"].as_u64() <= before["fds"].as_u64()).then_some(())
    });
    init.finish();
}

#[test]
fn inetd_style_service_runs_from_imported_unit_files() {
    let files = Sandbox::new();
    let port = free_port();
    files.put(
        "units/hours.socket",
        &format!("[Socket]\nListenStream=127.0.0.1:{port}\nAccept=yes\nMaxConnections=2\n"),
    );
    files.put(
        "units/hours@.service",
        "[Unit]\nDescription=what the clock says to %i\n[Service]\nStandardInput=socket\n\
         ExecStart=-/bin/sh -c 'read word; echo \"it is $$word, number %i\"; exit 3'\n",
    );
    let init = Boot::new(files).start("hours.socket");
    init.when_system("running");
    for _ in 0..5 {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_eq!(talk(&mut stream, "late"), "it is late, number 0");
        init.when_state("hours@0.service", "disabled");
    }
    assert_eq!(init.status().system(), "running");
    init.finish();
}

#[test]
fn reload_with_a_broken_template_of_connections_is_refused() {
    let init = echo(&format!("listen-stream: 127.0.0.1:{}", free_port()));
    let before = init.status();
    init.sandbox.unit("echo@", "stdin: socket\nexec-strat: /bin/cat");
    let (code, said) = init.initctl_json(&["reload"]);
    assert_eq!(code, 65, "{said}");
    assert!(said.to_string().contains("echo@.yaml"), "{said}");
    assert_eq!(init.status().0["generation"], before.0["generation"]);
    init.finish();
}
