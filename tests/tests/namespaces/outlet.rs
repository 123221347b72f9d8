//! Descriptors that lead to a socket, to the console, to the kernel's log.

use super::outfit::{is_root, past_exec};
use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use std::io::Read;
use std::os::unix::net::{UnixDatagram, UnixStream};

#[test]
fn a_socket_that_is_passed_may_be_all_three_descriptors() {
    let files = Sandbox::new();
    files.unit("letters", "type: socket\nlisten-datagram: DIR/letters\nactivates: reader");
    files.unit(
        "reader",
        "stdin: socket\nstderr: null\nexec-start: /bin/sh -c 'dd bs=64 count=1 of=DIR/got 2>/dev/null; exec sleep 1000'",
    );
    files.unit("door", "type: socket\nlisten-stream: DIR/door\nactivates: porter");
    files.unit(
        "porter",
        "stdout: socket\nstderr: socket\nexec-start: /bin/sh -c 'echo nobody listens here; exec sleep 1000'",
    );
    files.unit("all", "type: virtual\nwants: letters, door");
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let client = UnixDatagram::unbound().unwrap();
    client.send_to(b"hello", init.sandbox.path("letters")).unwrap();
    until("the letter is read", || (init.sandbox.read("got") == "hello").then_some(()));
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
fn output_may_go_to_the_console_and_to_the_kernels_log() {
    if !is_root() {
        return;
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
        "stdout: kmsg\nlog-tag: renamed\nexec-start: /bin/sh -c 'echo in the ring; exec sleep 1000'",
    );
    files.unit("all", "type: virtual\nwants: shown, noted");
    // A terminal and a file of ours are this init's console and kernel log.
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
    assert!(noted.starts_with('<') && noted.contains("renamed"), "{noted}");
    assert!(!shown.contains("in the ring") && !noted.contains("on the console"));
    init.finish();
}
