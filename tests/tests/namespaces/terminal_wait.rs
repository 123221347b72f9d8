//! `restart`, `want` and others at a terminal: initctl waits for the units that it changes. In a
//! script it returns at once.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};

/// initctl with a terminal of its own.
struct Call {
    child: Child,
    keys: File,
    shown: String,
}

impl Call {
    /// Starts it as the foreground process of a new terminal.
    fn start(init: &Init, words: &[&str]) -> Call {
        // A shell that starts the tests in the background lets them ignore SIGINT.
        Call::start_by(init, "--default-signal=INT", words)
    }

    /// Starts it by env(1) with this option.
    fn start_by(init: &Init, option: &str, words: &[&str]) -> Call {
        let pty = nix::pty::openpty(None, None).unwrap();
        let line = File::from(pty.slave);
        let mut command = Command::new("setsid");
        command.args(["--ctty", "env", option]);
        command.arg(program("GROUNDSTATE_INITCTL", "initctl"));
        command.arg("--socket").arg(init.sandbox.path("run/control.sock")).args(words);
        command.env("NO_COLOR", "1").stdin(line.try_clone().unwrap());
        command.stdout(line.try_clone().unwrap()).stderr(line);
        let child = command.spawn().unwrap();
        Call { child, keys: File::from(pty.master), shown: String::new() }
    }

    /// Reads more of the screen. Returns false at the end.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 1024];
        // The kernel reports EIO once no process has the terminal.
        let length = self.keys.read(&mut bytes).unwrap_or(0);
        self.shown.push_str(&String::from_utf8_lossy(&bytes[..length]));
        length > 0
    }

    fn shows(&mut self, text: &str) {
        while !self.shown.contains(text) {
            assert!(self.read(), "without {text}: {}", self.shown);
        }
    }

    /// Returns the exit status and the screen.
    fn end(mut self) -> (ExitStatus, String) {
        while self.read() {}
        (self.child.wait().unwrap(), self.shown)
    }
}

/// An init with `web`, which becomes ready by an order, and `stuck`, which never does.
fn boot() -> Init {
    let files = Sandbox::new();
    let slow = |name: &str| {
        format!(
            "type: foreground-notified\nstart-timeout: none\nexec-start: DAEMON --notify --ready-on-order --control DIR/{name}"
        )
    };
    files.unit("web", &slow("web.order"));
    files.unit("stuck", &slow("stuck.order"));
    files.unit("side", "exec-start: DAEMON");
    files.unit("bad", "type: oneshot\nrestart: never\nexec-start: DAEMON --exit 3");
    files.unit("all", "type: virtual\nwaits-for: web, bad");
    let init = Boot::new(files).start("all");
    init.when_state("web", "starting");
    init.sandbox.order("web.order", "ready");
    init.when_state("all", "running");
    init
}

/// Waits for the next run of `web`, and returns its pid.
fn replaced(init: &Init, before: Option<i32>) -> Option<i32> {
    let status = init.when("the next run of web starts", |status| {
        let pid = status.main_pid("web");
        status.state("web") == "starting" && pid.is_some() && pid != before
    });
    status.main_pid("web")
}

#[test]
fn restart_at_a_terminal_returns_when_the_new_run_is_ready() {
    let init = boot();
    // Neither a unit that has failed nor one that never becomes ready concerns the call.
    assert_eq!(init.initctl(&["want", "stuck"]).status.code(), Some(0));
    init.when_state("stuck", "starting");
    let before = init.status().main_pid("web");
    let mut call = Call::start(&init, &["restart", "web"]);
    replaced(&init, before);
    call.shows("restarting web\r\n");
    call.shows("waiting for web (starting)");
    init.sandbox.order("web.order", "ready");
    let (status, shown) = call.end();
    assert_eq!(status.code(), Some(0), "{shown}");
    assert!(shown.ends_with("web is running\r\n"), "{shown}");
    assert_eq!(init.status().state("web"), "running");

    let (status, shown) = Call::start(&init, &["want", "side"]).end();
    assert_eq!(status.code(), Some(0), "{shown}");
    assert!(shown.ends_with("side is running\r\n"), "{shown}");
    let (status, shown) = Call::start(&init, &["retry", "bad"]).end();
    assert_eq!(status.code(), Some(1), "{shown}");
    assert!(shown.contains("x bad: its process exited with status 3"), "{shown}");
    init.finish();
}

#[test]
fn restart_without_a_terminal_or_with_no_wait_returns_at_once() {
    let init = boot();
    let before = init.status().main_pid("web");
    assert_eq!(init.initctl(&["restart", "web"]).status.code(), Some(0));
    assert_ne!(init.status().state("web"), "running");
    let second = replaced(&init, before);
    for words in [&["restart", "web", "--no-wait"][..], &["restart", "web", "--json"]] {
        let (status, shown) = Call::start(&init, words).end();
        assert_eq!(status.code(), Some(0), "{shown}");
        assert!(!shown.contains("web is running"), "{shown}");
    }
    assert_ne!(init.status().state("web"), "running");
    replaced(&init, second);
    init.sandbox.order("web.order", "ready");
    init.when_state("web", "running");
    init.finish();
}

#[test]
fn ctrl_c_ends_the_wait_and_not_the_restart() {
    let init = boot();
    let before = init.status().main_pid("web");
    let mut call = Call::start(&init, &["restart", "web"]);
    call.shows("waiting for web");
    call.keys.write_all(b"\x03").unwrap();
    let (status, shown) = call.end();
    assert_eq!(status.signal(), Some(Signal::SIGINT as i32), "{shown}");
    assert!(shown.contains("initctl no longer waits; init continues"), "{shown}");
    replaced(&init, before);
    init.sandbox.order("web.order", "ready");
    init.when_state("web", "running");
    init.finish();
}

#[test]
fn goal_that_stops_the_terminal_of_the_caller_is_reached() {
    let files = Sandbox::new();
    let initctl = program("GROUNDSTATE_INITCTL", "initctl");
    let call = format!(
        "{initctl} --socket {} set-target side; exec sleep 1000",
        files.at("run/control.sock")
    );
    let go = files.at("go");
    nix::unistd::mkfifo(go.as_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    files.put("call.sh", &format!("read line <{go}; {call}"));
    files.unit("shell", "exec-start: /usr/bin/script -qec '/bin/sh DIR/call.sh' DIR/screen");
    files.unit("side", "exec-start: DAEMON");
    files.unit("all", "type: virtual\nwaits-for: shell");
    let init = Boot::new(files).start("all");
    init.when_state("shell", "running");
    init.sandbox.order("go", "now");
    init.when("the goal is reached", |status| {
        status.state("side") == "running" && status.state("shell") == "disabled"
    });
    until("no process is left", || init.processes_of("shell").is_empty().then_some(()));
    init.finish();
}

#[test]
fn ctrl_c_does_not_end_the_wait_of_a_caller_that_ignores_it() {
    let init = boot();
    let before = init.status().main_pid("web");
    let mut call = Call::start_by(&init, "--ignore-signal=INT", &["restart", "web"]);
    replaced(&init, before);
    call.shows("waiting for web");
    call.keys.write_all(b"\x03").unwrap();
    init.sandbox.order("web.order", "ready");
    let (status, shown) = call.end();
    assert_eq!(status.code(), Some(0), "{shown}");
    init.finish();
}
