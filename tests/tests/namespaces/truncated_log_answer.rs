//! Answers of the logger that end early.

use super::log::logs;
use super::systemctl_shim::shim;
use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;

/// Replaces the log socket: the stand-in answers with these lines and closes the connection without
/// an end.
fn half_an_answer(at: &std::path::Path, lines: Vec<serde_json::Value>) {
    std::fs::remove_file(at).unwrap();
    let listener = UnixListener::bind(at).unwrap();
    std::thread::spawn(move || {
        let mut connection = listener.accept().unwrap().0;
        let requests = BufReader::new(connection.try_clone().unwrap()).lines();
        let mut say = |answer: &serde_json::Value| {
            writeln!(connection, "{}", json!({"v": 1, "id": 1, "ok": answer})).unwrap();
        };
        for request in requests.map_while(Result::ok) {
            if request.contains("\"ping\"") {
                say(&json!({"end": true}));
                continue;
            }
            return lines.iter().for_each(say);
        }
    });
}

#[test]
fn truncated_log_answer_is_completed_from_files_without_duplicates() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --name web --control DIR/web");
    let init = Boot::new(files).start("web");
    init.when_state("web", "running");
    init.sandbox.order("web", "lines 20");
    // The same word twice in a row.
    init.sandbox.order("web", "say twice");
    init.sandbox.order("web", "say twice");
    let file = || init.sandbox.read("log/web.log").matches("twice").count();
    until("all is written", || (file() == 2).then_some(()));
    let whole = logs(&init, "web", 21);
    let mut lines = init.initctl_json_lines(&["logs", "web", "-n", "21"]);
    assert_eq!((whole.len(), lines.len()), (21, 21));
    lines.truncate(20);
    half_an_answer(&init.sandbox.path("run/log.sock"), lines);
    let asked = init.initctl(&["logs", "web", "-n", "21"]);
    let shown: Vec<String> =
        String::from_utf8_lossy(&asked.stdout).lines().map(str::to_owned).collect();
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert_eq!(shown, whole, "{said}");
    assert!(said.contains("reading its files"), "{said}");
    init.finish();
}

#[test]
fn journalctl_completes_a_truncated_answer_from_the_files() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --name web --control DIR/web");
    let init = Boot::new(files).start("web");
    init.when_state("web", "running");
    init.sandbox.order("web", "lines 20");
    until("the logger has all lines", || (logs(&init, "web", 20).len() == 20).then_some(()));
    let lines = init.initctl_json_lines(&["logs", "web", "-n", "20"]);
    let asked = shim(&init, "journalctl", &["-u", "web", "-o", "cat"]);
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let whole = String::from_utf8_lossy(&asked.stdout).into_owned();
    for told in [0, 7] {
        half_an_answer(&init.sandbox.path("run/log.sock"), lines[..told].to_vec());
        let asked = shim(&init, "journalctl", &["-u", "web", "-o", "cat"]);
        let shown = String::from_utf8_lossy(&asked.stdout).into_owned();
        assert_eq!(shown, whole, "{told}");
        let said = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert!(said.contains("reading its files"), "{said}");
        assert_eq!(asked.status.code(), Some(0), "{said}");
    }
    init.finish();
}
