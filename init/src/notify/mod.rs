//! The notify socket: datagrams with the sender's credentials, checked by the kernel.
//!
//! Whose run a sender belongs to, and whether it may speak for it, is decided where
//! the runs are known. File descriptors that come along (BARRIER=1, FDSTORE=1) are
//! held until the datagram is dealt with and then closed: that is what a barrier
//! waits for, and nothing is stored.

pub(crate) mod message;

use crate::limit;
use crate::sys::socket::{self, Received};
use message::{Statement, statements};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, bind, getsockname, setsockopt,
    socket as open_socket, sockopt,
};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use nix::unistd::unlink;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// One datagram. Its file descriptors are closed when it is dropped.
pub(crate) struct Datagram {
    /// The sender's pid as the kernel saw it; 0: of another pid namespace.
    pub(crate) pid: i32,
    /// What it says.
    pub(crate) statements: Vec<Statement>,
    _passed: Vec<OwnedFd>,
}

/// The socket.
pub(crate) struct Notify {
    socket: OwnedFd,
    path: String,
    /// There may be more to read.
    pub(crate) ready: bool,
    /// Datagrams that said nothing usable: too long, without credentials.
    pub(crate) dropped: u64,
}

impl Notify {
    /// Where nothing can be written: an abstract name that the kernel chooses (unix(7),
    /// autobind). Who may speak is decided by credentials there too.
    pub(crate) fn bind_abstract(registry: &Registry, token: Token) -> io::Result<Notify> {
        let opened = Notify::open()?;
        bind(opened.as_raw_fd(), &UnixAddr::new_unnamed())?;
        let bound: UnixAddr = getsockname(opened.as_raw_fd())?;
        let name = bound.as_abstract().and_then(|name| std::str::from_utf8(name).ok());
        let path = format!("@{}", name.ok_or(Errno::EADDRNOTAVAIL)?);
        registry.register(&mut SourceFd(&opened.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Notify { socket: opened, path, ready: true, dropped: 0 })
    }

    fn open() -> io::Result<OwnedFd> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let opened = open_socket(AddressFamily::Unix, SockType::Datagram, flags, None)?;
        socket::pass_credentials(&opened)?;
        // Room for a burst; the kernel's own cap holds where this is refused.
        let _ = setsockopt(&opened, sockopt::RcvBuf, &(8 * 1024 * 1024));
        Ok(opened)
    }

    /// Binds `path`, replacing what is there.
    pub(crate) fn bind(registry: &Registry, token: Token, path: &str) -> io::Result<Notify> {
        let opened = Notify::open()?;
        let address = UnixAddr::new(path)?;
        match unlink(path) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
        bind(opened.as_raw_fd(), &address)?;
        // Every uid may write: who may say what is decided by credentials.
        let everyone = Mode::from_bits_truncate(0o666);
        fchmodat(nix::fcntl::AT_FDCWD, path, everyone, FchmodatFlags::FollowSymlink)?;
        registry.register(&mut SourceFd(&opened.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Notify { socket: opened, path: path.to_string(), ready: true, dropped: 0 })
    }

    /// Where services send to.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The next datagram, or none for now.
    pub(crate) fn receive(&mut self) -> Option<Datagram> {
        for _ in 0..limit::NOTIFICATIONS_A_TURN {
            match self.once() {
                Ok(Some(datagram)) => return Some(datagram),
                Ok(None) => self.dropped = self.dropped.saturating_add(1),
                Err(_) => {
                    self.ready = false;
                    return None;
                }
            }
        }
        None
    }

    /// One datagram; `None` for one that is of no use.
    fn once(&self) -> io::Result<Option<Datagram>> {
        let mut bytes = [0u8; limit::NOTIFICATION];
        let Received { length, truncated, fds, peer } =
            socket::receive(self.socket.as_fd(), &mut bytes)?;
        let Some(peer) = peer.filter(|_| !truncated) else { return Ok(None) };
        let statements = statements(bytes.get(..length).unwrap_or_default());
        Ok(Some(Datagram { pid: peer.pid.as_raw(), statements, _passed: fds }))
    }
}

impl Drop for Notify {
    fn drop(&mut self) {
        // Left behind where it can not be removed: the next start replaces it.
        if !self.path.starts_with('@') {
            let _ = unlink(self.path.as_str());
        }
    }
}
