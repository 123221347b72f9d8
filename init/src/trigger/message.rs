//! The messages between PID 1 and its lookouts: one CBOR value for each SOCK_SEQPACKET message.
//! PID 1 never blocks on a lookout.

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
use std::os::fd::{AsFd, OwnedFd};

/// Size limit of a message: the capacity of a socket with the kernel's default buffers.
pub(super) const MESSAGE: usize = 128 * 1024;

/// A timer for the lookout.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Alarm {
    pub(crate) unit: Name,
    /// The timer itself.
    pub(crate) timer: Timer,
    /// Its past, as PID 1 knows it.
    #[serde(default)]
    pub(crate) history: History,
    /// The file with the time of its last firing, if it is persistent.
    pub(crate) stamp: Option<String>,
    /// Seed of this run of init, for random delays.
    #[serde(default)]
    pub(crate) seed: u64,
}

/// A message from PID 1.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Keep this timer.
    Keep(RunId, Box<Alarm>),
    /// The timer's history after a change: its unit was started or has ended.
    Past(RunId, History),
    /// Watch these paths, and report nothing before [`Order::Look`].
    Watch(RunId, Watch),
    /// Firings count: look now and report the first reason. Only changes after this time count, so
    /// changes by the activated unit itself are ignored.
    Look(RunId, Time),
    /// Firings do not count now.
    Rest(RunId),
    /// Forget the run.
    End(RunId),
}

/// A message from a lookout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// A path unit fires.
    Fired(RunId),
    /// A timer unit fires: when, and the same time on the wall clock in microseconds since 1970.
    Elapsed(RunId, Time, i64),
    /// When a timer is due, and its last firing on the wall clock.
    Due(RunId, Due, Option<i64>),
    /// The trigger cannot be kept or watched: object and errno.
    Broken(RunId, String, i32),
    /// The paths have been checked, in answer to this order.
    Looked(RunId, By),
    /// A look at the paths may block. This lookout has dropped them.
    MayBlock(RunId),
}

/// An order that [`Report::Looked`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum By {
    /// [`Order::Watch`].
    Watch,
    /// [`Order::Look`] with that time.
    Look(Time),
    /// [`Order::Rest`]: earlier orders are obsolete or answered.
    Rest,
}

// A lookout's connection to PID 1
//
// Orders come in, reports go out, and none is lost. [`super::clock`] and [`super::path_lookout`]
// handle the orders.

/// A lookout's end of the connection.
pub(super) struct Link<'o> {
    pub(super) socket: &'o OwnedFd,
    buffer: Vec<u8>,
}

impl<'o> Link<'o> {
    /// Sets up a lookout in the calling process: its name, and the kill when PID 1 exits.
    pub(super) fn begin(name: &CStr, socket: &'o OwnedFd) -> Link<'o> {
        let _ = process::set_name(name);
        let _ = process::die_with_parent();
        nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
        Link { socket, buffer: vec![0; MESSAGE] }
    }

    /// The next valid order, or `None` for now. Never blocks. Fails with `UnexpectedEof` once PID 1
    /// has closed its end.
    pub(super) fn hear(&mut self) -> io::Result<Option<Order>> {
        loop {
            let got = match raw::receive(self.socket.as_fd(), &mut self.buffer) {
                Ok(got) if got.length == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            let bytes = self.buffer.get(..got.length).unwrap_or_default();
            if let Ok(order) = fields::decode(bytes) {
                return Ok(Some(order));
            }
        }
    }

    /// Sends a report. Blocks while PID 1 is busy, because no report may be lost.
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
