//! A running fleetctl under observation, and a proxy to the server that shows requests and loses
//! answers.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use crate::stand::Stand;
use std::io::{BufRead, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A proxy to the stand that shows each request. `loses` selects the requests whose answer and
/// connection are lost.
pub(crate) fn through_proxy(
    stand: &Stand,
    loses: impl FnMut(&str) -> bool + Send + 'static,
) -> String {
    let path = stand.folder.join("way.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (target, loses) = (stand.socket(), Arc::new(Mutex::new(loses)));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), UnixStream::connect(&target).unwrap());
            let loses = loses.clone();
            std::thread::spawn(move || {
                let loses = |asked: &str| (*loses.lock().unwrap())(asked);
                hand_on(client, server, loses);
            });
        }
    });
    format!("--endpoint=unix://{}", path.display())
}

fn hand_on(mut client: UnixStream, mut server: UnixStream, loses: impl Fn(&str) -> bool) {
    let lost = Arc::new(AtomicBool::new(false));
    let (back, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let is_lost = lost.clone();
    std::thread::spawn(move || hand_back(back, to, &is_lost));
    let mut piece = [0; 65536];
    while let Ok(read @ 1..) = client.read(&mut piece) {
        let asked = String::from_utf8_lossy(&piece[..read]);
        lost.fetch_or(loses(&asked), Ordering::SeqCst);
        server.write_all(&piece[..read]).unwrap();
    }
}

fn hand_back(mut from: UnixStream, mut to: UnixStream, lost: &AtomicBool) {
    let mut piece = [0; 65536];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        if lost.load(Ordering::SeqCst) || to.write_all(&piece[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// Returns a predicate that selects the first request with this prefix.
pub(crate) fn first(begin: &'static str) -> impl FnMut(&str) -> bool {
    let mut was = false;
    move |asked| asked.starts_with(begin) && !std::mem::replace(&mut was, true)
}

pub(crate) fn spawn(stand: &Stand, words: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_fleetctl"))
        .args(words)
        .env("FLEETCTL_ENDPOINT", format!("unix://{}", stand.socket().display()))
        .current_dir(&stand.folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads the output until these words.
pub(crate) fn hears(output: &mut impl BufRead, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "it ended without a word of {words:?}");
    }
}

/// Another client puts a unit.
pub(crate) fn put_at(socket: &Path, name: &str, body: &str) {
    send(socket, &format!("PUT /fleet/v1/units/{name}"), body);
}

fn send(socket: &Path, line: &str, body: &str) {
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\nHost: domain-sock\r\n");
    let typed = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{typed}{body}").as_bytes()).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 20"), "{}", String::from_utf8_lossy(&answer));
}

/// Overrides metadata of a machine.
pub(crate) fn override_metadata(socket: &Path, machine: &str, key: &str, value: &str) {
    let change = serde_json::json!([
        { "op": "add", "path": format!("/{machine}/metadata/{key}"), "value": { "value": value } },
    ]);
    send(socket, "PATCH /fleet/v1/machines", &change.to_string());
}
