//! What PID 1 and its lookouts say to each other: one value a SOCK_SEQPACKET
//! message. Neither side waits for the other.

use crate::sys::{process, socket as raw};
use groundstate_units::machine::event::RunId;
use groundstate_units::text::fields;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::trigger::timer::{Due, History};
use groundstate_units::trigger::{Timer, Watch};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of one message: what a socket takes with the kernel's own buffers.
pub(super) const MESSAGE: usize = 128 * 1024;

/// A timer to be kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Alarm {
    /// Its unit.
    pub(crate) unit: Name,
    /// What it waits for.
    pub(crate) timer: Timer,
    /// What PID 1 knows of its past.
    #[serde(default)]
    pub(crate) history: History,
    /// Where the time of its last firing is kept, if it is persistent.
    pub(crate) stamp: Option<String>,
    /// Of this life of init, for the chance.
    #[serde(default)]
    pub(crate) seed: u64,
}

/// From PID 1.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Keep this timer.
    Keep(RunId, Box<Alarm>),
    /// Its unit was started, or ended.
    Past(RunId, History),
    /// Watch these paths; nothing is told before [`Order::Look`].
    Watch(RunId, Watch),
    /// A firing counts: look now, and tell the first reason. Changes count that were seen
    /// after this point: what the activated unit itself changed while it was up does not.
    Look(RunId, Time),
    /// A firing does not count now.
    Rest(RunId),
    /// Forget it.
    End(RunId),
}

/// From a lookout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// It fired. A timer's time on the wall clock, in microseconds; of a path: 0.
    Fired(RunId, i64),
    /// When a timer is due, and when it last fired on the wall clock.
    Due(RunId, Due, Option<i64>),
    /// It can not be kept or watched: what, and why.
    Broken(RunId, String, i32),
    /// Its paths have answered, as far as this order asks for it.
    Looked(RunId, By),
    /// A look at its paths may block. This lookout has dropped it.
    MayBlock(RunId),
}

/// An order that [`Report::Looked`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum By {
    /// [`Order::Watch`].
    Watch,
    /// [`Order::Look`] with that time.
    Look(Time),
    /// [`Order::Rest`]: whatever was asked for before is not any more, or has answered.
    Rest,
}

// A lookout's end of the line to PID 1: orders come in, reports go out, none is lost. What
// is done about them: [`super::clock`] and [`super::watcher_client`].

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
            if let Ok(order) = fields::decode(bytes) {
                return Ok(Heard::Order(order));
            }
        }
    }

    /// Waits while PID 1 is busy: nothing of what it is told may be lost.
    pub(super) fn say(&self, report: &Report) -> io::Result<()> {
        let bytes = fields::encode(report).map_err(io::Error::other)?;
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
