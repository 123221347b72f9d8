//! The service's side of the notification protocol (sd_notify(3)): datagrams to `$NOTIFY_SOCKET`, a
//! path or, with a leading `@`, an abstract name.

use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use std::io::IoSlice;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::time::Duration;

/// Sends one datagram. Does nothing without a socket in the environment.
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

/// Sends one datagram with a descriptor: of a file, or for `-` one end of a socket pair, whose
/// other end is returned.
///
/// # Errors
/// Those of open(2), socket(2) and sendmsg(2).
pub fn store(path: &str, text: &str) -> std::io::Result<Option<OwnedFd>> {
    let (given, other): (OwnedFd, Option<OwnedFd>) = if path == "-" {
        let (given, other) = UnixStream::pair()?;
        (given.into(), Some(other.into()))
    } else {
        (std::fs::File::open(path)?.into(), None)
    };
    send_with(text, &[given.as_raw_fd()])?;
    Ok(other)
}

/// Sends this many datagrams, each with this many copies of the file, which stays open.
///
/// # Errors
/// Those of open(2), socket(2) and sendmsg(2).
pub fn pass(datagrams: usize, each: usize, path: &str) -> std::io::Result<()> {
    let given = std::fs::File::open(path)?.into_raw_fd();
    for _ in 0..datagrams {
        send_with("FDSTORE=1", &vec![given; each])?;
    }
    Ok(())
}

fn send_with(text: &str, fds: &[RawFd]) -> std::io::Result<()> {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match path.to_str().and_then(|p| p.strip_prefix('@')) {
        Some(name) => UnixAddr::new_abstract(name.as_bytes())?,
        None => UnixAddr::new(path.as_os_str())?,
    };
    let socket = UnixDatagram::unbound()?;
    let rights = [ControlMessage::ScmRights(fds)];
    let parts = [IoSlice::new(text.as_bytes())];
    sendmsg(socket.as_raw_fd(), &parts, &rights, MsgFlags::empty(), Some(&address))?;
    Ok(())
}

/// The ping interval: half of `$WATCHDOG_USEC`. Returns `None` without a watchdog.
pub fn ping_interval() -> Option<Duration> {
    let micros: u64 = std::env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    (micros > 1).then(|| Duration::from_micros(micros / 2))
}
