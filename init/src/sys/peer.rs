//! Who is at the other end of a connection, as the kernel saw it when it was made: unix(7). Never who is
//! there by now: a connection may be handed on, and a pid may be another's.
//!
//! Read on at [`crate::control`], which decides by it what somebody may.

use super::{Pid, socket};
use nix::sys::socket::{getsockopt, sockopt};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Supplementary groups of a process (NGROUPS_MAX of Linux).
const GROUPS_MAX: usize = 65_536;

/// Who is at the other end, as the kernel saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Process; 0 when it is outside this pid namespace.
    pub pid: Pid,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// The process at the other end when it connected.
pub(crate) fn of(socket: impl AsFd) -> io::Result<Peer> {
    let found = getsockopt(&socket, sockopt::PeerCredentials)?;
    Ok(Peer { pid: Pid::from_raw(found.pid()), uid: found.uid(), gid: found.gid() })
}

/// A descriptor for the process at the other end when it connected: never another process, whoever has
/// its pid by now (SO_PEERPIDFD). None: the kernel has none to give (before Linux 6.5), or init no room
/// for one. An error: that process is gone.
pub(crate) fn process(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    match socket::option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_PEERPIDFD) {
        // SAFETY: a fresh descriptor, ours alone; the kernel sets CLOEXEC.
        Ok(fd) if fd >= 0 => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL)) => {
            Err(error)
        }
        Ok(_) | Err(_) => Ok(None),
    }
}

/// Supplementary groups of the process at the other end of a unix stream when it connected
/// (SO_PEERGROUPS, Linux 4.13). Empty where the kernel does not tell.
pub(crate) fn groups(socket: impl AsFd) -> Vec<u32> {
    let mut groups = vec![0u32; GROUPS_MAX];
    let mut length = libc::socklen_t::try_from(size_of::<u32>() * groups.len()).unwrap_or(0);
    // SAFETY: the kernel writes at most `length` bytes to `groups`, and to `length` what it wrote
    // (or, with ERANGE, what it would need).
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let count = if result == 0 { length as usize / size_of::<u32>() } else { 0 };
    groups.truncate(count);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "getsockopt")]
    fn the_groups_of_a_peer_are_those_of_its_process() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let own = nix::unistd::getgroups().unwrap();
        let mut own: Vec<u32> = own.iter().map(|group| group.as_raw()).collect();
        let mut seen = groups(&ours);
        own.sort_unstable();
        seen.sort_unstable();
        assert_eq!(own, seen);
    }
}
