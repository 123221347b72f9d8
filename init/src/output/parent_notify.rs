//! Messages of init to its own manager on `$NOTIFY_SOCKET`, see sd_notify(3). The socket is a unix
//! socket of a container manager or a service manager, or vsock of a virtual machine monitor. Best
//! effort: it never blocks, and no other part depends on it.
//!
//! Where vsock has no datagrams (virtio), each message needs a connection, which takes a moment.
//! The message waits for it in a queue.

use crate::base::clock;
use crate::base::limit;
use groundstate_units::control::answer::System;
use groundstate_units::text::time::Time;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrLike, UnixAddr, VsockAddr, connect, send,
    sendto, socket,
};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};

/// The address, and the socket types to try in order.
#[derive(Clone, Copy, Debug)]
enum Address {
    Unix(UnixAddr),
    Vsock(VsockAddr, &'static [SockType]),
}

/// A message that waits for its connection.
#[derive(Debug)]
struct Message {
    text: String,
    connection: OwnedFd,
    until: Time,
}

/// The outer manager, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Outer {
    address: Option<Address>,
    waiting: VecDeque<Message>,
    /// The last reported system state. A new image reports it again.
    pub(crate) said: Option<System>,
}

const FLAGS: SockFlag = SockFlag::SOCK_CLOEXEC.union(SockFlag::SOCK_NONBLOCK);

impl Outer {
    /// Parses the value of `$NOTIFY_SOCKET`.
    pub(crate) fn at(value: Option<&str>) -> Outer {
        Outer { address: value.and_then(address), ..Outer::default() }
    }

    /// Sends one or more lines in one message.
    pub(crate) fn say(&mut self, text: &str) {
        // If this fails, the manager gets the next change.
        match self.address {
            None => {}
            Some(Address::Unix(to)) => {
                datagram(AddressFamily::Unix, &to, text);
            }
            Some(Address::Vsock(to, ways)) => self.say_by_vsock(to, ways, text),
        }
    }

    fn say_by_vsock(&mut self, to: VsockAddr, ways: &[SockType], text: &str) {
        for way in ways {
            if *way == SockType::Datagram {
                if datagram(AddressFamily::Vsock, &to, text) {
                    return;
                }
                continue;
            }
            let Ok(connection) = socket(AddressFamily::Vsock, *way, FLAGS, None) else { continue };
            match connect(connection.as_raw_fd(), &to) {
                Ok(()) | Err(Errno::EINPROGRESS | Errno::EAGAIN) => {
                    if self.waiting.len() >= limit::OUTER_WAITING {
                        self.waiting.pop_front();
                    }
                    let until = clock::now().after(limit::OUTER);
                    self.waiting.push_back(Message { text: text.to_string(), connection, until });
                    return self.flush();
                }
                Err(_) => {}
            }
        }
    }

    /// Sends messages whose connection is ready, in order.
    pub(crate) fn flush(&mut self) {
        while let Some(message) = self.waiting.front() {
            let how = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            let sent = send(message.connection.as_raw_fd(), message.text.as_bytes(), how);
            let unconnected = matches!(sent, Err(Errno::ENOTCONN | Errno::EAGAIN));
            if unconnected && clock::now() < message.until {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// The time of the next check of connections.
    pub(crate) fn deadline(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then(|| clock::now().after(limit::OUTER_PAUSE))
    }

    /// Waits for pending messages. Only after the loop.
    pub(crate) fn finish(&mut self) {
        self.flush();
        while !self.waiting.is_empty() {
            clock::pause(limit::OUTER_PAUSE);
            self.flush();
        }
    }
}

fn datagram(family: AddressFamily, to: &dyn SockaddrLike, text: &str) -> bool {
    let how = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let from = socket(family, SockType::Datagram, FLAGS, None);
    from.is_ok_and(|from| sendto(from.as_raw_fd(), text.as_bytes(), to, how).is_ok())
}

fn address(value: &str) -> Option<Address> {
    if value.starts_with('/') {
        return UnixAddr::new(value).ok().map(Address::Unix);
    }
    if let Some(name) = value.strip_prefix('@') {
        return UnixAddr::new_abstract(name.as_bytes()).ok().map(Address::Unix);
    }
    let (how, place) = value.split_once(':')?;
    let ways: &[SockType] = match how {
        "vsock" => &[SockType::Datagram, SockType::SeqPacket],
        "vsock-dgram" => &[SockType::Datagram],
        "vsock-seqpacket" => &[SockType::SeqPacket],
        "vsock-stream" => &[SockType::Stream],
        _ => return None,
    };
    let (cid, port) = place.split_once(':')?;
    Some(Address::Vsock(VsockAddr::new(cid.parse().ok()?, port.parse().ok()?), ways))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_manager_receives_each_message() {
        let name = format!("/tmp/groundstate-outer-{}", std::process::id());
        let listener = std::os::unix::net::UnixDatagram::bind(&name).expect("bound");
        let mut outer = Outer::at(Some(&name));
        outer.say("READY=1\n");
        let mut heard = [0u8; 64];
        let length = listener.recv(&mut heard).expect("a datagram");
        assert_eq!(&heard[..length], b"READY=1\n");
        std::fs::remove_file(&name).expect("removed");
    }

    #[test]
    fn invalid_address_of_an_outer_manager_is_ignored() {
        for none in ["", "relative", "vsock:", "vsock:2", "vsock:x:1", "tcp:1"] {
            assert!(address(none).is_none(), "{none}");
        }
        for some in ["vsock:2:1234", "vsock-stream:2:1234", "vsock-seqpacket:2:1", "@abc"] {
            assert!(address(some).is_some(), "{some}");
        }
        Outer::at(None).say("READY=1");
        Outer::at(Some("/nowhere/at/all")).say("READY=1");
    }

    #[test]
    fn message_without_a_connection_waits_and_is_dropped_in_time() {
        let mut outer = Outer::at(Some("vsock:4294967294:1"));
        for _ in 0..limit::OUTER_WAITING * 2 {
            outer.say("READY=1");
        }
        assert!(outer.waiting.len() <= limit::OUTER_WAITING);
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let (text, until) = ("STATUS=late".to_string(), clock::now());
        let unconnected =
            socket(AddressFamily::Unix, SockType::Stream, FLAGS, None).expect("a socket");
        outer.waiting.clear();
        outer.waiting.push_back(Message { text: text.clone(), connection: unconnected, until });
        outer.waiting.push_back(Message { text, connection: one.into(), until });
        assert!(outer.deadline().is_some());
        outer.finish();
        assert!(outer.waiting.is_empty() && outer.deadline().is_none());
    }
}
