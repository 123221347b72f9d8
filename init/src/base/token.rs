//! Tokens of the poll. Connections and watched descriptors of runs have the highest numbers.

use super::retry::retry_now;
use groundstate_units::text::time::Time;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

pub(crate) const SIGNALS: usize = 0;
pub(crate) const CONTROL: usize = 100;
pub(crate) const NOTIFY: usize = 101;
pub(crate) const LOGGER: usize = 102;
pub(crate) const TRACKER: usize = 103;
/// First token of the connections.
pub(crate) const CLIENTS: usize = 1 << 16;
/// First token of exec reports and watched processes.
pub(crate) const RUNS: usize = 1 << 24;

/// Registers a descriptor for reading.
pub(crate) fn watch(registry: &Registry, fd: impl AsFd, token: usize) -> io::Result<()> {
    watch_for(registry, fd, token, Interest::READABLE)
}

/// Registers a descriptor for reading and writing.
pub(crate) fn watch_both(registry: &Registry, fd: impl AsFd, token: usize) -> io::Result<()> {
    watch_for(registry, fd, token, Interest::READABLE | Interest::WRITABLE)
}

fn watch_for(
    registry: &Registry,
    fd: impl AsFd,
    token: usize,
    interest: Interest,
) -> io::Result<()> {
    let number = fd.as_fd().as_raw_fd();
    retry_now(|| registry.register(&mut SourceFd(&number), Token(token), interest))
}

/// Allocates tokens for the watched descriptors of runs. They start at the time of the image's start
/// in nanoseconds. An image takes less than one token a nanosecond, so it never reaches the first
/// token of the next image.
#[derive(Debug)]
pub(crate) struct Tokens(usize);

impl Tokens {
    /// The tokens of the image that starts at this time.
    pub(crate) fn starting_at(time: Time) -> Tokens {
        Tokens(usize::try_from(time.as_nanos()).unwrap_or(0))
    }

    pub(crate) fn next(&mut self) -> Token {
        self.0 = (self.0 + 1) % (usize::MAX >> 4);
        Token(RUNS + self.0)
    }
}
