//! Tokens of the poll: connections, and what runs are watched by, come last.

use super::retry::retry_now;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Signals.
pub(crate) const SIGNALS: usize = 0;
/// The control socket.
pub(crate) const CONTROL: usize = 100;
/// The notify socket.
pub(crate) const NOTIFY: usize = 101;
/// The logger.
pub(crate) const LOGGER: usize = 102;
/// The cgroups.
pub(crate) const TRACKER: usize = 103;
/// The loader's pipe, where there is no memfd.
pub(crate) const LOADER: usize = 104;
/// Connections, from here on.
pub(crate) const CLIENTS: usize = 1 << 16;
/// Reports of children and watched processes, from here on.
pub(crate) const RUNS: usize = 1 << 24;

/// The poll tells from now on when this can be read.
pub(crate) fn watch(registry: &Registry, fd: impl AsFd, token: usize) -> io::Result<()> {
    watch_for(registry, fd, token, Interest::READABLE)
}

/// The poll tells from now on when this can be read, and when it can be written.
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

/// Numbers for what is watched for runs: each used once until they come round.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Tokens(usize);

impl Default for Tokens {
    fn default() -> Tokens {
        Tokens(RUNS)
    }
}

impl Tokens {
    /// The next one.
    pub(crate) fn next(&mut self) -> Token {
        self.0 = if self.0 >= usize::MAX >> 4 { RUNS } else { self.0 + 1 };
        Token(self.0)
    }
}
