//! Socket units that are stopped while the child that opened their sockets still exits, and started
//! while another child removes their paths. Other tests of sockets are in [`super::socket`].

use super::socket::free_port;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::extent::turns;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::tracer::Tracer;
use serde_json::json;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;

/// Delays this system call in each child of init by a fifth of a second.
fn slowly(init: &Init, call: &str) -> Tracer {
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:delay_enter=200000"));
    let arguments = ["-f", "-e", &trace, "-e", &inject];
    Tracer::attach(init.process(), &init.sandbox.path("strace"), &arguments)
}

fn has_never_failed(init: &Init) {
    let events = init.initctl_json_lines(&["events"]);
    let failed = events.iter().find(|event| event.to_string().contains("cannot listen"));
    assert_eq!(failed, None);
}

#[test]
fn socket_unit_stopped_while_its_opener_exits_stops_listening_and_restarts() {
    let files = Sandbox::new();
    let port = free_port();
    let sockets = format!("listen-stream: [127.0.0.1:{port}, DIR/front.sock]");
    files.unit("front", &format!("type: socket\n{sockets}\nactivates: echo"));
    files.unit("echo", "exec-start: LISTENER");
    files.unit("none", "type: virtual");
    let init = Boot::new(files).start("none");
    init.when_system("running");
    let tracer = slowly(&init, "exit_group");
    for _ in 0..turns(3, 100) {
        init.tell("set-target", &json!({"targets": ["front"]}));
        init.when_state("front", "running");
        init.tell("restart", &json!({"targets": ["front"]}));
        init.when_state("front", "running");
        init.tell("set-target", &json!({"targets": ["none"]}));
        init.when_state("front", "disabled");
    }
    let ends = tracer.detach().iter().filter(|line| line.contains("exit_group")).count();
    assert!(ends >= 3, "{ends} ends were slowed down");
    has_never_failed(&init);
    until("no process listens", || TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
    init.finish();
}

fn restarts_with_a_new_pid(init: &Init, unit: &str) {
    let restarted = init.initctl(&["restart", unit]);
    assert!(restarted.status.success(), "{restarted:?}\n{}", init.output());
    init.when_state(unit, "running");
}

#[test]
fn removed_paths_are_removed_before_the_next_run_makes_them() {
    let files = Sandbox::new();
    files.unit(
        "front",
        "type: socket\nlisten-stream: DIR/front.sock\nlisten-fifo: DIR/front.fifo\n\
         socket-remove: yes\nactivates: echo",
    );
    files.unit("echo", "exec-start: LISTENER");
    let init = Boot::new(files).start("front");
    init.when_state("front", "running");
    for _ in 0..turns(20, 2_000) {
        restarts_with_a_new_pid(&init, "front");
        assert!(is_fifo(&init), "{}", init.output());
        drop(UnixStream::connect(init.sandbox.path("front.sock")).expect("init listens"));
    }
    has_never_failed(&init);
    init.finish();
}

fn is_fifo(init: &Init) -> bool {
    let fifo = init.sandbox.path("front.fifo").metadata();
    fifo.is_ok_and(|fifo| fifo.file_type().is_fifo())
}

#[test]
fn slow_removal_of_paths_removes_no_path_of_the_next_run() {
    let files = Sandbox::new();
    let text = "type: socket\nlisten-fifo: DIR/front.fifo\nsocket-remove: yes\nactivates: echo";
    files.unit("front", text);
    files.unit("all", "type: virtual\nwants: front, other");
    files.unit("echo", "exec-start: LISTENER");
    let init = Boot::new(files).start("all");
    init.when_state("front", "running");
    let tracer = slowly(&init, "unlinkat");
    let removed = |times| {
        let lines = || tracer.lines().into_iter().filter(|line| line.contains("DELAYED"));
        until("the paths are removed", || (lines().count() >= times).then_some(()));
    };
    for time in 1..=turns(3, 50) {
        restarts_with_a_new_pid(&init, "front");
        removed(time);
        assert!(is_fifo(&init), "{}", init.output());
    }
    let times = turns(3, 50) + 1;
    init.sandbox.remove_unit("front").unit("other", text);
    init.tell("reload", &json!({}));
    init.when_state("other", "running");
    removed(times);
    assert!(is_fifo(&init), "{}", init.output());
    init.finish();
}
