//! Parses the datagrams of the notify socket as sd_notify(3) defines them. Pure: bytes in,
//! statements out. Unknown words are ignored.

use crate::base::limit;
use groundstate_units::text::encoding::acts;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One line of a datagram.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Statement {
    /// READY=1
    Ready,
    /// RELOADING=1
    Reloading,
    /// STOPPING=1
    Stopping,
    /// STATUS=…, cleaned.
    Status(String),
    /// MAINPID=…
    MainPid(i32),
    /// WATCHDOG=1
    WatchdogPing,
    /// WATCHDOG=trigger
    WatchdogTrigger,
    /// WATCHDOG_USEC=…; zero disables the watchdog.
    WatchdogEvery(Duration),
    /// EXTEND_TIMEOUT_USEC=…
    ExtendTimeout(Duration),
    /// ERRNO=…
    Errno(i32),
    /// FDSTORE=1: store the passed descriptors.
    Store,
    /// FDSTOREREMOVE=1: remove the descriptors of this name.
    StoreRemove,
    /// FDNAME=…: the name of the descriptors.
    StoreName(String),
    /// FDPOLL=0: keep the descriptors even when the other end is closed.
    StoreUnwatched,
}

/// All statements of a datagram, in order. So READY counts after a RELOADING or STOPPING only if it
/// follows it.
pub(crate) fn statements(datagram: &[u8]) -> Vec<Statement> {
    datagram.split(|byte| *byte == b'\n' || *byte == 0).filter_map(statement).collect()
}

fn statement(line: &[u8]) -> Option<Statement> {
    let at = line.iter().position(|byte| *byte == b'=')?;
    let (word, rest) = line.split_at_checked(at)?;
    let value = rest.get(1..)?;
    match word {
        b"READY" => (value == b"1").then_some(Statement::Ready),
        b"RELOADING" => (value == b"1").then_some(Statement::Reloading),
        b"STOPPING" => (value == b"1").then_some(Statement::Stopping),
        b"STATUS" => Some(Statement::Status(clean(value))),
        b"MAINPID" => number(value).and_then(|n| i32::try_from(n).ok()).map(Statement::MainPid),
        b"WATCHDOG" => match value {
            b"1" => Some(Statement::WatchdogPing),
            b"trigger" => Some(Statement::WatchdogTrigger),
            _ => None,
        },
        b"WATCHDOG_USEC" => micros(value).map(Statement::WatchdogEvery),
        b"EXTEND_TIMEOUT_USEC" => micros(value).map(Statement::ExtendTimeout),
        b"FDSTORE" => (value == b"1").then_some(Statement::Store),
        b"FDSTOREREMOVE" => (value == b"1").then_some(Statement::StoreRemove),
        b"FDNAME" => fd_name(value).map(Statement::StoreName),
        b"FDPOLL" => (value == b"0").then_some(Statement::StoreUnwatched),
        b"ERRNO" => number(value).and_then(|n| i32::try_from(n).ok()).map(Statement::Errno),
        _ => None,
    }
}

/// A name as in sd_listen_fds_with_names(3): ASCII without control characters and colons.
fn fd_name(value: &[u8]) -> Option<String> {
    let fits = |byte: &u8| (b' '..=b'~').contains(byte) && *byte != b':';
    let text = std::str::from_utf8(value).ok()?;
    (value.len() <= limit::FD_NAME && value.iter().all(fits)).then(|| text.to_string())
}

fn number(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

fn micros(value: &[u8]) -> Option<Duration> {
    number(value).map(Duration::from_micros)
}

/// Cleans a service's text for terminals: removes control characters ([`acts`]) and limits the
/// length.
fn clean(value: &[u8]) -> String {
    let mut text = String::new();
    for c in String::from_utf8_lossy(value).chars() {
        let c = if acts(c) { ' ' } else { c };
        if text.len().saturating_add(c.len_utf8()) > limit::STATUS_TEXT {
            break;
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_sd_notify_are_understood() {
        let said = statements(
            b"READY=1\nSTATUS=up\nMAINPID=42\nWATCHDOG_USEC=5000000\nEXTEND_TIMEOUT_USEC=7\nWATCHDOG=1\n\
              RELOADING=1\nSTOPPING=1\nERRNO=2\nWATCHDOG=trigger",
        );
        assert_eq!(
            said,
            [
                Statement::Ready,
                Statement::Status("up".to_string()),
                Statement::MainPid(42),
                Statement::WatchdogEvery(Duration::from_secs(5)),
                Statement::ExtendTimeout(Duration::from_micros(7)),
                Statement::WatchdogPing,
                Statement::Reloading,
                Statement::Stopping,
                Statement::Errno(2),
                Statement::WatchdogTrigger,
            ]
        );
    }

    #[test]
    fn nonsense_is_passed_over() {
        for nonsense in [
            &b""[..],
            b"READY",
            b"=1",
            b"READY=2",
            b"MAINPID=-1",
            b"MAINPID=99999999999",
            b"MAINPID=+5",
            b"MAINPID=",
            b"WATCHDOG_USEC=1e9",
            b"\xff\xfe=\xff",
            b"\n\n\n",
        ] {
            assert_eq!(statements(nonsense), [], "{nonsense:?}");
        }
    }

    #[test]
    fn a_status_can_neither_forge_lines_nor_drive_a_terminal() {
        let long = [b"STATUS=".as_slice(), &[b'x'; 5000]].concat();
        assert_eq!(
            statements(b"STATUS=a\x1b[31mb\tc"),
            [Statement::Status("a [31mb c".to_string())]
        );
        assert_eq!(statements(&long), [Statement::Status("x".repeat(limit::STATUS_TEXT))]);
    }
}
