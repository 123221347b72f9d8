//! A lookout's end of the line to PID 1: orders come in, reports go out, none is lost. What
//! they say is [`super::message`]; what is done about them, [`super::clock`] and
//! [`super::watcher_client`].

use super::message::{MESSAGE, Order, Report};
use crate::sys::{process, socket as raw};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What came over the line.
pub(super) enum Heard {
    Order(Order),
    /// Nothing more for now.
    Silence,
    /// PID 1 closed its end.
    End,
}

/// See the head of the module.
pub(super) struct Link<'o> {
    socket: &'o OwnedFd,
    buffer: Vec<u8>,
}

impl<'o> Link<'o> {
    /// Makes a lookout of the process that calls: its name, and an end together with PID 1's.
    pub(super) fn begin(name: &CStr, socket: &'o OwnedFd) -> Link<'o> {
        let _ = process::set_name(name);
        let _ = process::die_with_parent(9);
        nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
        Link { socket, buffer: vec![0; MESSAGE] }
    }

    /// The next order that makes sense. Does not wait.
    pub(super) fn hear(&mut self) -> io::Result<Heard> {
        loop {
            let got = match raw::receive(self.socket.as_fd(), &mut self.buffer) {
                Ok(got) if got.length == 0 => return Ok(Heard::End),
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Heard::Silence);
                }
                Err(error) => return Err(error),
            };
            let bytes = self.buffer.get(..got.length).unwrap_or_default();
            if let Ok(order) = postcard::from_bytes(bytes) {
                return Ok(Heard::Order(order));
            }
        }
    }

    /// Waits while PID 1 is busy: nothing of what it is told may be lost.
    pub(super) fn say(&self, report: &Report) -> io::Result<()> {
        let bytes = postcard::to_allocvec(report).map_err(io::Error::other)?;
        loop {
            match raw::send(self.socket.as_fd(), &bytes, &[]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut writable = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
                    match poll(&mut writable, PollTimeout::NONE) {
                        Ok(_) | Err(Errno::EINTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Link<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
