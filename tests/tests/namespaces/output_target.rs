//! Standard descriptors connected to a socket, to the console and to the kernel log.

use super::child_setup::{is_root, past_exec};
use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::{until, within};
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;
use std::io::Read;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

#[test]
fn passed_socket_can_be_all_three_standard_descriptors() {
    let files = Sandbox::new();
    files.unit("letters", "type: socket\nlisten-datagram: DIR/letters\nactivates: reader");
    files.unit(
        "reader",
        "stdin: socket\nstderr: null\nexec-start: /bin/sh -c 'dd bs=64 count=1 of=DIR/got 2>/dev/null; exec sleep 1000'",
    );
    files.unit("door", "type: socket\nlisten-stream: DIR/door\nactivates: porter");
    files.unit(
        "porter",
        "stdout: socket\nstderr: socket\nexec-start: /bin/sh -c 'echo without a listener; exec sleep 1000'",
    );
    files.unit("all", "type: virtual\nwants: letters, door");
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let client = UnixDatagram::unbound().unwrap();
    client.send_to(b"hello", init.sandbox.path("letters")).unwrap();
    until("the datagram is read", || (init.sandbox.read("got") == "hello").then_some(()));
    let reader = past_exec(&init, "reader").files();
    assert!(reader[&0].starts_with("socket:") && reader[&1] == reader[&0], "{reader:?}");
    assert_eq!(reader[&2], "/dev/null");
    let _client = UnixStream::connect(init.sandbox.path("door")).unwrap();
    let porter = past_exec(&init, "porter").files();
    assert!(porter[&1].starts_with("socket:") && porter[&2] == porter[&1], "{porter:?}");
    assert_eq!(porter[&0], "/dev/null");
    init.finish();
}

#[test]
fn output_can_go_to_the_console_and_to_the_kernel_log() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    let pty = nix::pty::openpty(None, None).unwrap();
    let line = nix::unistd::ttyname(&pty.slave).unwrap();
    files.put("kmsg", "");
    files.unit(
        "shown",
        "stdout: console\nexec-start: /bin/sh -c 'echo on the console; exec sleep 1000'",
    );
    files.unit(
        "noted",
        "stdout: kmsg\nlog-tag: renamed\nlog-level-prefix: yes\nlog-facility: mail\nexec-start: /bin/sh -c 'echo \"<3>in the ring\"; exec sleep 1000'",
    );
    files.unit("all", "type: virtual\nwants: shown, noted");
    // A terminal and a file of the test stand in for the console and the kernel log.
    let bind = format!(
        "mount --bind {} /dev/console && mount --bind {} /dev/kmsg && exec \"$@\"",
        line.display(),
        files.at("kmsg")
    );
    let init = Boot::new(files).through(&["sh", "-c", &bind, "sh"]).start("all");
    let mut master = std::fs::File::from(pty.master);
    let mut shown = String::new();
    while !shown.contains("on the console") {
        let mut bytes = [0; 256];
        let length = master.read(&mut bytes).unwrap();
        shown.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
    let noted = until("the kernel's log has it", || {
        Some(init.sandbox.read("kmsg")).filter(|text| text.contains("in the ring"))
    });
    let noted = noted.lines().find(|line| line.contains("in the ring")).unwrap().to_owned();
    // Facility 2, level 3.
    assert!(noted.starts_with("<19>renamed["), "{noted}");
    assert!(!shown.contains("in the ring") && !noted.contains("on the console"));
    init.finish();
}

/// More than an unread console, its buffer in the logger and a pipe hold.
const LINES: usize = 200_000;

#[test]
fn unread_console_blocks_only_units_with_log_overflow_block() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    let pty = nix::pty::openpty(None, None).unwrap();
    let line = nix::unistd::ttyname(&pty.slave).unwrap();
    for (unit, key) in [("hasty", ""), ("patient", "log-overflow: block\n")] {
        files.unit(
            unit,
            &format!("{key}type: oneshot\nlog: console\nexec-start: /bin/sh -c 'seq {LINES}; echo >DIR/{unit}.end'"),
        );
    }
    files.unit("other", "exec-start: DAEMON --name other");
    let bind = format!("mount --bind {} /dev/console && exec \"$@\"", line.display());
    let init = Boot::new(files).through(&["sh", "-c", &bind, "sh"]).start("other");
    init.when_state("other", "running");
    init.tell("want", &json!({"target": "hasty"}));
    init.when_state("hasty", "exited");
    init.tell("want", &json!({"target": "patient"}));
    let waits = || {
        let place = |p: &Process| p.read("wchan").is_some_and(|what| what.contains("pipe_write"));
        init.processes_of("patient").iter().any(place)
    };
    until("it waits", || waits().then_some(()));
    let longer = Duration::from_secs(3);
    let ended = within(longer, || init.sandbox.path("patient.end").exists().then_some(()));
    assert!(ended.is_none() && waits(), "it waits for longer than others do");
    assert_eq!(init.status().state("other"), "running");
    let mut master = std::fs::File::from(pty.master);
    let (mut shown, last) = (Vec::new(), format!("patient | {LINES}\r\n"));
    while !shown.ends_with(last.as_bytes()) {
        let mut bytes = [0; 64 * 1024];
        let length = master.read(&mut bytes).unwrap();
        shown.extend_from_slice(&bytes[..length]);
    }
    let shown = String::from_utf8(shown).unwrap();
    let of = |unit: &str| {
        let numbers = shown.lines().filter_map(|line| line.split_once(unit)?.1.trim().parse().ok());
        numbers.collect::<Vec<usize>>()
    };
    let had = of("hasty | ").len();
    let note = format!("{} lines of all units lost", LINES - had);
    assert!(had < LINES && shown.contains(&note), "excess lines are dropped and counted");
    assert!(of("patient | ").into_iter().eq(1..=LINES), "all lines, in order");
    init.when_state("patient", "exited");
    init.finish();
}
