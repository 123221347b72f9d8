//! Checks of the fuzz target `notification` for any datagram of the notify socket: its meaning is
//! that of its lines, separately and in order, and no text of it forges a line or controls a
//! terminal. A first byte above 127 makes lines of the words of sd_notify(3).

use super::composed::Composed;
use crate::base::limit;
use crate::notify::{Statement, statements};

/// The number of its statements, if any. Panics if a promise is broken.
pub fn notification(bytes: &[u8]) -> Option<usize> {
    let datagram = match bytes.split_first() {
        Some((first, rest)) if *first > 127 => composed(rest),
        Some(_) | None => bytes.to_vec(),
    };
    let said = statements(&datagram);
    for statement in &said {
        match statement {
            Statement::Status(text) => {
                assert!(text.len() <= limit::STATUS_TEXT && !text.chars().any(char::is_control));
            }
            Statement::StoreName(name) => {
                assert!(name.len() <= limit::FD_NAME && !name.contains([':', '\n']), "{name:?}");
            }
            Statement::MainPid(pid) => assert!(*pid >= 0, "{pid}"),
            Statement::Ready
            | Statement::Reloading
            | Statement::Stopping
            | Statement::WatchdogPing
            | Statement::WatchdogTrigger
            | Statement::WatchdogEvery(_)
            | Statement::ExtendTimeout(_)
            | Statement::Store
            | Statement::StoreRemove
            | Statement::StoreUnwatched => {}
        }
    }
    let lines = datagram.split(|byte| matches!(byte, b'\n' | 0));
    assert_eq!(lines.flat_map(statements).collect::<Vec<_>>(), said);
    (!said.is_empty()).then_some(said.len())
}

const WORDS: [&str; 14] = [
    "READY",
    "RELOADING",
    "STOPPING",
    "STATUS",
    "MAINPID",
    "WATCHDOG",
    "WATCHDOG_USEC",
    "EXTEND_TIMEOUT_USEC",
    "ERRNO",
    "FDSTORE",
    "FDSTOREREMOVE",
    "FDNAME",
    "FDPOLL",
    "BUSERROR",
];
const VALUES: [&str; 10] = [
    "1",
    "1",
    "0",
    "trigger",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "",
    "a:b",
];

fn composed(bytes: &[u8]) -> Vec<u8> {
    let mut from = Composed::of(bytes);
    let mut datagram = Vec::new();
    while !from.is_over() {
        datagram.extend_from_slice(from.pick(&WORDS).as_bytes());
        datagram.push(b'=');
        match from.byte() % 8 {
            7 => datagram.extend_from_slice(from.raw(255)),
            _ => datagram.extend_from_slice(from.pick(&VALUES).as_bytes()),
        }
        datagram.push(from.pick(b"\n\n\n\0="));
    }
    datagram
}
