//! The service's end of the notification protocol (man 3 sd_notify): datagrams to
//! `$NOTIFY_SOCKET`, a path or, with a leading `@`, an abstract name.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Sends one datagram. Without a socket in the environment nothing happens.
///
/// # Errors
/// Those of socket(2) and sendto(2).
pub fn send(text: &str) -> std::io::Result<()> {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match path.to_str().and_then(|p| p.strip_prefix('@')) {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(|_| ())
}

/// Half of `$WATCHDOG_USEC`: how often to ping. None where no watchdog is asked for.
pub fn ping_interval() -> Option<Duration> {
    let micros: u64 = std::env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    (micros > 1).then(|| Duration::from_micros(micros / 2))
}
