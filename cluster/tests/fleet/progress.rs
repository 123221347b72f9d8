//! The progress line of fleetctl on a terminal, and its absence elsewhere.

use crate::stand::{HELLO, Plan, Stand, code, stderr, stdout, write};
use nix::pty::openpty;
use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Adds a follower of a missing unit, which stays unplaced.
fn put_follower(stand: &Stand) {
    write(stand, "first.service", HELLO);
    write(stand, "follows.service", &format!("{HELLO}[X-Fleet]\nMachineOf=first.service\n"));
}

/// Runs fleetctl with a terminal of this type as stderr. Returns its output.
fn at_terminal(stand: &Stand, term: &str, words: &[&str]) -> (Child, Receiver<String>) {
    let pty = openpty(None, None).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_fleetctl"))
        .args(words)
        .env("FLEETCTL_ENDPOINT", format!("unix://{}", stand.socket().display()))
        .env("TERM", term)
        .current_dir(&stand.folder)
        .stdout(Stdio::null())
        .stderr(pty.slave)
        .spawn()
        .unwrap();
    let (sender, comes) = channel();
    std::thread::spawn(move || {
        let mut master = File::from(pty.master);
        let mut piece = [0; 4096];
        // Reading fails once no process has the other side open.
        while let Ok(read @ 1..) = master.read(&mut piece) {
            let _ = sender.send(String::from_utf8_lossy(&piece[..read]).into_owned());
        }
    });
    (child, comes)
}

/// Returns the output once `what` has arrived.
fn when(comes: &Receiver<String>, what: &str) -> String {
    let mut all = String::new();
    while !all.contains(what) {
        let more = comes.recv_timeout(Duration::from_secs(30));
        all.push_str(&more.unwrap_or_else(|_| panic!("no {what:?} in {all:?}")));
    }
    all
}

/// Returns the output after the last erased progress line.
fn after_last_erase(text: &str) -> String {
    text.rsplit("\r\x1b[K").next().unwrap_or_default().to_string()
}

#[test]
fn progress_line_on_a_terminal_names_the_awaited_state() {
    let stand = Stand::new(Plan::of(&["0123456789abcdef"]));
    put_follower(&stand);
    let words = ["start", "--block-attempts=30", "follows.service"];
    let (mut child, comes) = at_terminal(&stand, "xterm", &words);
    let mut all = when(&comes, "follows.service: inactive, waiting to be launched, 1 s");
    assert!(all.contains("launched, 0 s"), "time goes on: {all:?}");
    assert_eq!(code(&stand.fleetctl(&["start", "first.service"])), 0);
    assert!(child.wait().unwrap().success());
    all.extend(comes.iter());
    assert_eq!(after_last_erase(&all), "", "{all:?}");
}

#[test]
fn progress_line_is_shown_in_every_kind_of_wait() {
    // Without an engine the unit stays unplaced, without a reason.
    let stand = Stand::new(Plan::of(&[]));
    put_follower(&stand);
    let (mut child, comes) = at_terminal(&stand, "xterm", &["start", "first.service"]);
    let mut all = when(&comes, "first.service: inactive, waiting to be launched, 3 s");
    assert_eq!(code(&stand.fleetctl(&["destroy", "first.service"])), 0);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    all.extend(comes.iter());
    assert_eq!(after_last_erase(&all), "unit first.service was destroyed\r\n", "{all:?}");
    // The line also shows while a server does not answer.
    let silent = stand.folder.join("silent.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&silent).unwrap();
    let endpoint = format!("--endpoint=unix://{}", silent.display());
    let words = [&endpoint, "--request-timeout=3", "destroy", "a.service", "b.service"];
    let (mut child, comes) = at_terminal(&stand, "xterm", &words);
    let mut all = when(&comes, "a.service b.service: waiting to be gone, 1 s");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    all.extend(comes.iter());
    assert!(after_last_erase(&all).starts_with("Error destroying units: "), "{all:?}");
}

#[test]
fn progress_is_hidden_without_a_terminal() {
    let stand = Stand::new(Plan::of(&["0123456789abcdef"]));
    put_follower(&stand);
    let words = ["start", "--block-attempts=1", "follows.service"];
    let timed_out = "timed out waiting for unit follows.service to report state launched";
    let (mut child, comes) = at_terminal(&stand, "dumb", &words);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let all: String = comes.iter().collect();
    assert!(all.starts_with(timed_out) && !all.contains('\x1b'), "{all:?}");
    let output = stand.fleetctl(&words);
    assert_eq!(code(&output), 1);
    let printed = stderr(&output);
    assert!(printed.starts_with(timed_out) && !printed.contains(['\x1b', '\r']), "{printed:?}");
}

#[test]
fn fleetctl_does_not_wait_for_a_unit_that_exits_or_cannot_start() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let unit = |name: &str, ends: &str| {
        write(&stand, name, &format!("{HELLO}[X-Test]\nEnds={ends}\n"));
    };
    unit("once.service", "done");
    unit("unmet.service", "skipped");
    unit("needy.service", "failed");
    let once = stand.fleetctl(&["start", "once"]);
    let expected = "Unit once.service inactive\nUnit once.service launched on m1.../127.0.0.1\n";
    assert_eq!(
        (code(&once), stdout(&once), stderr(&once)),
        (0, expected.to_string(), String::new())
    );
    assert_eq!(code(&stand.fleetctl(&["restart", "once"])), 0);
    let unmet = stand.fleetctl(&["start", "unmet"]);
    assert_eq!(code(&unmet), 0, "{}", stderr(&unmet));
    assert!(stderr(&unmet).contains("unit unmet.service does not run: it is on m1"));
    let needy = stand.fleetctl(&["start", "needy"]);
    assert_eq!(code(&needy), 1);
    assert!(stderr(&needy).contains("unit needy.service has failed"), "{}", stderr(&needy));
    write(&stand, "once.service", &format!("{HELLO}[X-Test]\nEnds=done\n[X]\na=b\n"));
    let rolled = stand.fleetctl(&["rollout", "--timeout=20", "once.service"]);
    assert_eq!(code(&rolled), 0, "{}", stderr(&rolled));
}
