//! The manager outside: what init says on `$NOTIFY_SOCKET`, see sd_notify(3). A unix
//! socket (a container manager, a service manager above a supervisor) or vsock (the
//! virtual machine monitor). Best effort: never waits, and nobody depends on it.

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, VsockAddr, sendto, socket,
};
use std::os::fd::AsRawFd;

/// Where it listens.
#[derive(Clone, Copy, Debug)]
enum Address {
    Unix(UnixAddr),
    Vsock(VsockAddr),
}

/// The way there, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outer {
    address: Option<Address>,
}

impl Outer {
    /// From the value of `$NOTIFY_SOCKET`.
    pub(crate) fn at(value: Option<&str>) -> Outer {
        Outer { address: value.and_then(address) }
    }

    /// Says one or more lines in one datagram.
    pub(crate) fn say(&self, text: &str) {
        let how = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        // Nobody there, or busy: it is told the next change.
        match self.address {
            None => {}
            Some(Address::Unix(to)) => {
                if let Ok(from) = socket(AddressFamily::Unix, SockType::Datagram, flags, None) {
                    let _ = sendto(from.as_raw_fd(), text.as_bytes(), &to, how);
                }
            }
            Some(Address::Vsock(to)) => {
                if let Ok(from) = socket(AddressFamily::Vsock, SockType::Datagram, flags, None) {
                    let _ = sendto(from.as_raw_fd(), text.as_bytes(), &to, how);
                }
            }
        }
    }
}

fn address(value: &str) -> Option<Address> {
    if value.starts_with('/') {
        return UnixAddr::new(value).ok().map(Address::Unix);
    }
    if let Some(name) = value.strip_prefix('@') {
        return UnixAddr::new_abstract(name.as_bytes()).ok().map(Address::Unix);
    }
    let (cid, port) = value.strip_prefix("vsock:")?.split_once(':')?;
    Some(Address::Vsock(VsockAddr::new(cid.parse().ok()?, port.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_hears_what_is_said() {
        let name = format!("/tmp/groundstate-outer-{}", std::process::id());
        let listener = std::os::unix::net::UnixDatagram::bind(&name).expect("bound");
        Outer::at(Some(&name)).say("READY=1\n");
        let mut heard = [0u8; 64];
        let length = listener.recv(&mut heard).expect("a datagram");
        assert_eq!(&heard[..length], b"READY=1\n");
        std::fs::remove_file(&name).expect("removed");
    }

    #[test]
    fn an_address_that_is_none_is_silence() {
        for none in ["", "relative", "vsock:", "vsock:2", "vsock:x:1", "tcp:1"] {
            assert!(address(none).is_none(), "{none}");
        }
        assert!(address("vsock:2:1234").is_some() && address("@abc").is_some());
        Outer::at(None).say("READY=1");
        Outer::at(Some("/nowhere/at/all")).say("READY=1");
    }
}
