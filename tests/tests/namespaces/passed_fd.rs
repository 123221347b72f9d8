//! Descriptors passed to init whose close(2) does not return.

use super::crash::has_survived;
use groundstate_tests::boot::Boot;
use groundstate_tests::crash::{Call, crash_when};
use groundstate_tests::deadline::{PATIENCE, until};
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::silent::Silent;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg, setsockopt, sockopt};
use serde_json::json;
use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixDatagram, UnixStream};

#[test]
fn init_does_not_wait_for_the_close_of_a_passed_file() {
    let files = Sandbox::new();
    files.unit("base", "exec-start: DAEMON");
    files.unit("other", "exec-start: DAEMON");
    for name in ["keeper", "stranger"] {
        let most = if name == "keeper" { 2 } else { 0 };
        let text = format!(
            "type: foreground-notified\nfd-store-max: {most}\n\
             exec-start: DAEMON --notify --control DIR/{name}"
        );
        files.unit(name, &text);
    }
    // Its pid file is on the file system that does not answer.
    files.unit(
        "daemon",
        "type: background-pidfile\npid-file: DIR/silent/file\nrestart: never\nexec-start: /bin/true",
    );
    files.unit("all", "type: virtual\nwants: base, keeper, stranger");
    std::fs::create_dir(files.path("silent")).unwrap();
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    // Each of the two services blocks in its own close, and so does the child that closes init's
    // copy.
    for (name, count) in [("stranger", 2), ("keeper", 4)] {
        let file = init.sandbox.at("silent/file");
        init.sandbox.order(name, &format!("store {file} FDSTORE=1\\nFDNAME=x"));
        silent.until_closing(count);
        assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    }
    // A process started now has no copy of the file.
    init.tell("set-target", &json!({"targets": ["all"], "want": ["other"]}));
    init.when_state("other", "running");
    init.tell("set-target", &json!({"targets": ["all"], "want": ["daemon"]}));
    // The child that reads the pid file cannot be killed, which prevents the next run.
    init.when("init gives up", |s| s.reason("daemon") == "unkillable");
    drop(silent);
    let status = init.when("the reader has exited", |s| s.reason("daemon") == "protocol");
    let reason = status.unit("daemon")["reason"]["text"].to_string();
    assert!(reason.contains("does not respond"), "{reason}");
    until("both continue", || {
        let alive = |name: &str| init.main_of(name).state() == Some('S');
        (alive("keeper") && alive("stranger")).then_some(())
    });
    init.finish();
}

#[test]
fn many_passed_files_with_a_blocking_close_keep_nothing_open_in_init() {
    let files = Sandbox::new();
    files.unit("base", "exec-start: DAEMON");
    files.unit("other", "exec-start: DAEMON");
    for name in ["few", "many"] {
        let text =
            format!("type: foreground-notified\nexec-start: DAEMON --notify --control DIR/{name}");
        files.unit(name, &text);
    }
    files.unit("all", "type: virtual\nwants: base, few, many");
    std::fs::create_dir(files.path("silent")).unwrap();
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    let file = init.sandbox.at("silent/file");
    // First two with one message, each of which blocks; then more than the limit of blocked
    // closers.
    init.sandbox.order("few", &format!("pass 1 2 {file}"));
    silent.until_closing(2);
    init.sandbox.order("many", &format!("pass 70 1 {file}"));
    silent.until_closing(64);
    assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    init.tell("set-target", &json!({"targets": ["all"], "want": ["other"]}));
    init.when_state("other", "running");
    init.tell("upgrade", &json!({}));
    assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    init.tell("restart", &json!({"targets": ["other"]}));
    init.when_state("other", "running");
    drop(silent);
    init.finish();
}

#[test]
fn file_passed_before_a_crash_does_not_block_init_at_its_close() {
    let files = Sandbox::new();
    files.unit("few", "type: foreground-notified\nexec-start: DAEMON --notify --control DIR/few");
    std::fs::create_dir(files.path("silent")).unwrap();
    let mut init = Boot::new(files).start("few");
    init.expect_crashes();
    init.when_system("running");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    let before = init.main_of("few");
    let pass = format!("pass 1 1 {}", init.sandbox.at("silent/file"));
    let read = |call: &Call| call.number == libc::SYS_recvmmsg && call.result == 1;
    crash_when(&init, || init.sandbox.order("few", &pass), read);
    has_survived(&init, 1);
    silent.until_closing(1);
    assert_eq!(init.main_of("few"), before);
    drop(silent);
    init.finish_after_crash();
}

/// A socket whose last close blocks for an hour, because the other end reads nothing.
fn stuck() -> (TcpStream, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stuck = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stuck.set_nonblocking(true).unwrap();
    while stuck.write(&[0; 65_536]).is_ok() {}
    setsockopt(&stuck, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 3600 }).unwrap();
    (stuck, listener)
}

#[test]
fn lingering_socket_passed_before_a_crash_does_not_block_init() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    let mut init = Boot::new(files).start("web");
    init.expect_crashes();
    init.when_state("web", "running");
    let before = init.main_of("web");
    let (stuck, listener) = stuck();
    let stranger = UnixDatagram::unbound().unwrap();
    let address = UnixAddr::new(&init.sandbox.path("run/notify.sock")).unwrap();
    let begin = move || {
        let fds = [stuck.as_raw_fd()];
        let (text, passed) = ([IoSlice::new(b"X=1")], [ControlMessage::ScmRights(&fds)]);
        let empty = MsgFlags::empty();
        sendmsg(stranger.as_raw_fd(), &text, &passed, empty, Some(&address)).unwrap();
    };
    let read = |call: &Call| call.number == libc::SYS_recvmmsg && call.result == 1;
    crash_when(&init, begin, read);
    has_survived(&init, 1);
    assert_eq!(init.main_of("web"), before);
    drop(listener);
    init.finish_after_crash();
}

#[test]
fn lingering_socket_passed_with_an_urgent_byte_does_not_block_init() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    let init = Boot::new(files).start("web");
    init.when_state("web", "running");
    let (stuck, _listener) = stuck();
    let mut caller = UnixStream::connect(init.sandbox.path("run/control.sock")).unwrap();
    let fds = [stuck.as_raw_fd()];
    let (text, passed) = ([IoSlice::new(b"!")], [ControlMessage::ScmRights(&fds)]);
    let urgent = MsgFlags::MSG_OOB;
    if sendmsg::<()>(caller.as_raw_fd(), &text, &passed, urgent, None) == Err(Errno::EOPNOTSUPP) {
        groundstate_tests::not_run!("no urgent bytes in unix sockets here");
        return init.finish();
    }
    drop(stuck);
    caller.write_all(b"{\"v\":1}\n").unwrap();
    caller.set_read_timeout(Some(PATIENCE)).unwrap();
    let read = caller.read(&mut [0; 4096]).expect("init answers");
    assert!(read > 0, "init answers the line with the urgent byte");
    init.finish();
}

#[test]
fn lingering_socket_in_an_unread_message_does_not_block_init() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    let init = Boot::new(files).start("web");
    init.when_state("web", "running");
    let (stuck, _listener) = stuck();
    let mut caller = UnixStream::connect(init.sandbox.path("run/control.sock")).unwrap();
    setsockopt(&caller, sockopt::SndBuf, &200_000).unwrap();
    caller.set_nonblocking(true).unwrap();
    init.process().signal(Signal::SIGSTOP);
    // Init does not read past a line that is too long.
    let mut line = vec![b'x'; 80_000];
    while !line.is_empty() {
        let taken = caller.write(&line).unwrap();
        line.drain(..taken);
    }
    let passed = [ControlMessage::ScmRights(&[stuck.as_raw_fd()])];
    let text = [IoSlice::new(b"x")];
    sendmsg::<()>(caller.as_raw_fd(), &text, &passed, MsgFlags::empty(), None).unwrap();
    drop(stuck);
    init.process().signal(Signal::SIGCONT);
    caller.set_nonblocking(false).unwrap();
    caller.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut rest = Vec::new();
    // The connection is reset because init left data unread.
    let _ = caller.read_to_end(&mut rest);
    assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    init.finish();
}

#[test]
fn descriptors_received_but_not_closed_at_a_crash_do_not_block_init() {
    let files = Sandbox::new();
    files.unit("base", "exec-start: DAEMON");
    let text = "type: foreground-notified\nexec-start: DAEMON --notify --control DIR/few";
    files.unit("few", text);
    files.unit("all", "type: virtual\nwants: base, few");
    std::fs::create_dir(files.path("silent")).unwrap();
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when_system("running");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    let file = init.sandbox.at("silent/file");
    // Init has the descriptors, and no child has started to close them.
    let received = |call: &Call| call.number == libc::SYS_recvmmsg && call.result == 1;
    crash_when(&init, || init.sandbox.order("few", &format!("pass 1 2 {file}")), received);
    has_survived(&init, 1);
    init.main_of("base").signal(Signal::SIGKILL);
    init.when_state("base", "running");
    assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    drop(silent);
    init.finish_after_crash();
}
