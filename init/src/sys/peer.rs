//! Credentials of the process that made a connection: unix(7). The kernel records them at
//! connect(2), so passing the connection on, or reusing the pid, changes nothing.
//! [`crate::base::credentials`] derives the rights of a caller from them.

pub(crate) use super::socket::Peer;
use super::{Pid, check, socket};
use nix::sys::socket::{getsockopt, sockopt};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// PIDFD_GET_USER_NAMESPACE of linux/pidfd.h (Linux 6.11): _IO(0xff, 9).
const GET_USER_NAMESPACE: libc::c_ulong = 0xff09;
/// NS_GET_OWNER_UID of linux/nsfs.h (Linux 4.11): _IO(0xb7, 4).
const GET_OWNER_UID: libc::c_ulong = 0xb704;
/// Supplementary groups of a process (NGROUPS_MAX of Linux).
const GROUPS_MAX: usize = 65_536;

/// The credentials of the peer at its connect.
pub(crate) fn of(socket: impl AsFd) -> io::Result<Peer> {
    let found = getsockopt(&socket, sockopt::PeerCredentials)?;
    Ok(Peer { pid: Pid::from_raw(found.pid()), uid: found.uid(), gid: found.gid() })
}

/// A pidfd of the process that connected, whoever has its pid now (SO_PEERPIDFD). Returns `None` if
/// the kernel cannot give one (before Linux 6.5) or init has no free descriptor. An error means
/// that the process is gone.
pub(crate) fn process(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    match socket::option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_PEERPIDFD) {
        // SAFETY: a fresh descriptor without another owner; the kernel sets CLOEXEC.
        Ok(fd) if fd >= 0 => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL)) => {
            Err(error)
        }
        Ok(_) | Err(_) => Ok(None),
    }
}

/// The user namespace of a process: device and inode of its nsfs file. Fails with ENOTTY or EINVAL
/// before Linux 6.11, and with ESRCH once the process is reaped.
pub(crate) fn user_namespace(process: impl AsFd) -> io::Result<(u64, u64)> {
    // SAFETY: this ioctl takes no argument and gives a fresh descriptor.
    let fd = check(unsafe { libc::ioctl(process.as_fd().as_raw_fd(), GET_USER_NAMESPACE, 0) })?;
    // SAFETY: the descriptor is fresh and has no other owner; the kernel sets CLOEXEC.
    let namespace = unsafe { OwnedFd::from_raw_fd(fd) };
    let found = nix::sys::stat::fstat(&namespace)?;
    Ok((found.st_dev, found.st_ino))
}

/// The owner of this process's user namespace, as a uid in that namespace.
pub(crate) fn own_namespace_owner() -> io::Result<u32> {
    let namespace = std::fs::File::open("/proc/self/ns/user")?;
    let mut owner: libc::uid_t = 0;
    // SAFETY: the kernel writes one uid_t to `owner`, which outlives the call.
    check(unsafe { libc::ioctl(namespace.as_raw_fd(), GET_OWNER_UID, &raw mut owner) })?;
    Ok(owner)
}

/// Supplementary groups of the peer at its connect (SO_PEERGROUPS, Linux 4.13). Empty if the kernel
/// does not tell.
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
