//! Socket units: activation by a client, sockets that stay open across restarts, addresses that
//! cannot be opened.

use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;

/// Sends a line and returns the words of the answer: pid, names, the line.
fn talk(mut stream: impl Read + Write, line: &str) -> Vec<String> {
    stream.write_all(format!("{line}\n").as_bytes()).expect("the socket takes the line");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split_whitespace().map(str::to_owned).collect()
}

fn ask(path: &Path, line: &str) -> Vec<String> {
    talk(UnixStream::connect(path).expect("the socket takes connections"), line)
}

pub(super) fn free_port() -> u16 {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    probe.local_addr().expect("its address").port()
}

#[test]
fn first_connection_starts_the_service_and_is_answered() {
    let files = Sandbox::new();
    let port = free_port();
    files.unit(
        "front",
        &format!(
            "type: socket\nlisten-stream: [DIR/deep/front.sock, 127.0.0.1:{port}]\n\
             socket-mode: 0660\nactivates: echo"
        ),
    );
    files.unit("echo", "exec-start: LISTENER");
    let init = Boot::new(files).start("front");
    let status = init.when_system("running");
    assert_eq!((status.state("front"), status.state("echo")), ("running", "disabled"));
    let path = init.sandbox.path("deep/front.sock");
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let answer = ask(&path, "hello");
    assert_eq!(answer[1..], ["front:front", "hello"]);
    let status = init.when_state("echo", "running");
    let tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let by_tcp = talk(tcp, "hello");
    assert_eq!(by_tcp[0], answer[0], "one service has both sockets");
    assert_eq!(status.system(), "running");
    init.finish();
}

#[test]
fn no_connection_is_refused_while_the_service_crashes_and_restarts() {
    let files = Sandbox::new();
    files.unit("front", "type: socket\nlisten-stream: DIR/front.sock\nactivates: echo");
    files.unit("echo", "restart-delay: 50ms\nexec-start: LISTENER");
    let init = Boot::new(files).start("front");
    init.when_state("front", "running");
    let path = init.sandbox.path("front.sock");
    let first = ask(&path, "one");
    init.when_state("echo", "running");
    assert_eq!(ask(&path, "die"), Vec::<String>::new());
    let second = ask(&path, "two");
    assert_ne!(first[0], second[0]);
    assert_eq!(second[2], "two");
    init.tell("reload", &json!({}));
    assert_eq!(ask(&path, "three")[0], second[0], "a reload changes nothing");
    init.finish();
}

#[test]
fn next_connection_starts_a_service_again_that_exited_successfully() {
    let files = Sandbox::new();
    files.unit(
        "front",
        "type: socket\nlisten-stream: '@GS-DIR'\nactivates: echo\nsocket-fd-name: x",
    );
    files.unit("echo", "exec-start: LISTENER --answers 1");
    let init = Boot::new(files).start("front");
    init.when_state("front", "running");
    let name = format!("GS-{}", init.sandbox.at(""));
    let address = {
        use std::os::linux::net::SocketAddrExt;
        std::os::unix::net::SocketAddr::from_abstract_name(name.trim_end_matches('/')).unwrap()
    };
    let mut seen = Vec::new();
    for line in ["one", "two", "three"] {
        let answer = talk(UnixStream::connect_addr(&address).unwrap(), line);
        assert_eq!(answer[1..], ["x", line]);
        assert!(!seen.contains(&answer[0]), "a run of its own for each");
        seen.push(answer[0].clone());
        init.when_state("echo", "disabled");
    }
    init.finish();
}

#[test]
fn datagrams_and_fifos_start_a_service() {
    let files = Sandbox::new();
    files.unit(
        "front",
        "type: socket\nlisten-datagram: DIR/front.dgram\nlisten-fifo: DIR/front.fifo\n\
         socket-remove: yes\nactivates: echo",
    );
    files.unit("echo", "exec-start: LISTENER");
    files.unit("none", "type: virtual");
    let init = Boot::new(files).start("front");
    init.when_state("front", "running");
    let own = init.sandbox.path("own.dgram");
    let client = UnixDatagram::bind(&own).unwrap();
    client.send_to(b"hello", init.sandbox.path("front.dgram")).unwrap();
    let mut buffer = [0; 256];
    let got = client.recv(&mut buffer).unwrap();
    let answer = String::from_utf8_lossy(&buffer[..got]).into_owned();
    assert!(answer.ends_with(" front:front hello\n"), "{answer}");
    let fifo = init.sandbox.path("front.fifo");
    assert!(fifo.metadata().unwrap().file_type().is_fifo());
    init.tell("set-target", &json!({"targets": ["none"]}));
    init.when_state("front", "disabled");
    until("the paths are removed", || {
        (!fifo.exists() && !init.sandbox.path("front.dgram").exists()).then_some(())
    });
    init.tell("set-target", &json!({"targets": ["front"]}));
    init.when_state("front", "running");
    std::fs::write(&fifo, "hello\n").unwrap();
    init.when_state("echo", "running");
    init.finish();
}

#[test]
fn socket_that_cannot_be_bound_is_named_and_retried() {
    let files = Sandbox::new();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    files.unit(
        "front",
        &format!(
            "type: socket\nlisten-stream: 127.0.0.1:{port}\nrestart-delay: 50ms\nactivates: echo"
        ),
    );
    files.unit("echo", "exec-start: LISTENER");
    let init = Boot::new(files).start("front");
    init.when("the third failure is a verdict", |s| s.state("front") == "failed");
    let why = init.initctl(&["why", "front"]);
    let said = String::from_utf8_lossy(&why.stdout).into_owned();
    let fact = format!("cannot listen on 127.0.0.1:{port}");
    assert!(said.contains(&fact) && said.contains("Address already in use"), "{said}");
    drop(taken);
    init.when_state("front", "running");
    init.finish();
}

#[test]
fn stale_socket_is_replaced_and_other_files_are_not() {
    let files = Sandbox::new();
    drop(UnixListener::bind(files.path("stale.sock")).unwrap());
    let _living = UnixListener::bind(files.path("living.sock")).unwrap();
    files.put("file.sock", "precious");
    for name in ["stale", "living", "file"] {
        let text = format!(
            "type: socket\nlisten-stream: DIR/{name}.sock\nrestart: never\nactivates: echo"
        );
        files.unit(name, &text);
    }
    files.unit("echo", "exec-start: LISTENER");
    files.unit("all", "type: virtual\nwants: stale, living, file");
    let init = Boot::new(files).start("all");
    let status = init.when("two have failed", |s| {
        s.state("living") == "failed"
            && s.state("file") == "failed"
            && s.state("stale") == "running"
    });
    assert_eq!((status.reason("living"), status.reason("file")), ("exec", "exec"));
    assert_eq!(init.sandbox.read("file.sock"), "precious");
    assert_eq!(ask(&init.sandbox.path("stale.sock"), "hello")[2], "hello");
    init.finish();
}

#[test]
fn service_that_accepts_nothing_is_not_started_endlessly() {
    let files = Sandbox::new();
    files.unit("front", "type: socket\nlisten-stream: DIR/front.sock\nactivates: deaf");
    files.unit("deaf", "exec-start: LISTENER --deaf 0");
    let init = Boot::new(files).start("front");
    init.when_state("front", "running");
    let _waits = UnixStream::connect(init.sandbox.path("front.sock")).unwrap();
    until("init logs the pause", || init.output().contains("front: fires too often").then_some(()));
    let starts = || {
        let events = init.initctl_json_lines(&["events"]);
        events.iter().filter(|e| e["unit"] == "deaf" && e["to"] == "starting").count()
    };
    let before = starts();
    assert!(before >= 15, "{before} starts");
    let sockets = init.tell("sockets", &json!({}));
    assert!(sockets["sockets"][0]["rests-until"].is_string(), "{sockets}");
    let why = init.tell("why", &json!({"target": "front"}));
    assert!(why.to_string().contains("paused until"), "{why}");
    let wakeups = || init.tell("stats", &json!({}))["wakeups"].as_u64().unwrap();
    let rested = wakeups();
    assert!(wakeups() - rested < 10, "PID 1 does not spin while the trigger rests");
    init.finish();
}

#[test]
fn service_gets_the_sockets_of_all_units_that_activate_it() {
    let files = Sandbox::new();
    files.unit("b-front", "type: socket\nlisten-stream: DIR/b.sock\nactivates: echo");
    files.unit("a-front", "type: socket\nlisten-stream: DIR/a.sock\nactivates: echo");
    files.unit("echo", "depends-ms: a-front, b-front\nexec-start: LISTENER");
    let init = Boot::new(files).start("echo");
    init.when_state("echo", "running");
    let by_a = ask(&init.sandbox.path("a.sock"), "hello");
    let by_b = ask(&init.sandbox.path("b.sock"), "hello");
    assert_eq!(by_a, by_b);
    assert_eq!(by_a[1], "a-front:b-front");
    let before = init.status().main_pid("echo");
    init.main_of("echo").signal(Signal::SIGKILL);
    init.when("it is restarted", |s| s.main_pid("echo").is_some_and(|pid| Some(pid) != before));
    assert_eq!(ask(&init.sandbox.path("b.sock"), "hello")[1], "a-front:b-front");
    init.finish();
}

#[test]
fn pending_data_is_discarded_before_the_sockets_are_polled_again() {
    let files = Sandbox::new();
    files.unit(
        "front",
        "type: socket\nlisten-stream: DIR/front.sock\nlisten-fifo: DIR/front.fifo\n\
         socket-flush: yes\nactivates: deaf",
    );
    files.unit("deaf", "exec-start: LISTENER --deaf 0");
    let init = Boot::new(files).start("front");
    init.when_state("front", "running");
    let starts = || {
        let events = init.initctl_json_lines(&["events"]);
        events.iter().filter(|e| e["unit"] == "deaf" && e["to"] == "starting").count()
    };
    for round in 1..=3 {
        std::fs::write(init.sandbox.path("front.fifo"), "left\n").unwrap();
        let mut client = UnixStream::connect(init.sandbox.path("front.sock")).unwrap();
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        assert_eq!(rest, b"", "the connection is closed without an answer");
        until("the socket is polled again", || {
            let sockets = init.tell("sockets", &json!({}));
            (sockets["sockets"][0]["waits"] == true).then_some(())
        });
        // There were two reasons to start: the second one may have been seen after the first flush.
        assert!((round..=2 * round).contains(&starts()), "{} starts", starts());
    }
    init.finish();
}
