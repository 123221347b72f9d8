//! Proves that the uid and gid of a connection belong to init's user namespace.
//!
//! The kernel translates a peer's credentials into numbers of init's user namespace. A peer may
//! have a number without being that user. It may be root of another namespace that maps to the same
//! kernel uid, or a user without a mapping, who gets the overflow uid. So a number grants more than
//! the role *read* only if the peer is proven to be in init's own user namespace. Without a proof
//! the answer is no.
//!
//! Within one namespace each process has a mapped uid, so there the number identifies the user.

use crate::base::procfs;
use crate::sys::{Pid, signal, socket};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// The kernel's number for a uid without a mapping: user_namespaces(7).
const OVERFLOW_UID: u32 = 65_534;

/// Returns true if the process that made this connection is in init's user namespace. `pid` and
/// `uid` are from SO_PEERCRED.
pub(crate) fn shares_user_namespace(connection: impl AsFd, pid: Pid, uid: u32) -> bool {
    // Without its process, nothing can prove its namespace.
    let Ok(process) = socket::process_of_peer(&connection) else { return false };
    let theirs = process.as_ref().map(socket::user_namespace);
    match (theirs, own_namespace()) {
        (Some(Ok(theirs)), Ok(ours)) => theirs == ours,
        (Some(Err(error)), _) if error.raw_os_error() == Some(libc::ESRCH) => false,
        // A process outside init's pid namespace that init may not inspect.
        (Some(Err(error)), _)
            if pid.as_raw() == 0 && error.kind() == io::ErrorKind::PermissionDenied =>
        {
            socket::own_namespace_owner().is_ok_and(|owner| is_owner(uid, owner))
        }
        _ => proc_agrees(pid, process.as_ref().map(AsFd::as_fd)),
    }
}

/// Returns true if the uid alone proves the peer: the owner of init's user namespace has all rights
/// over it. In the initial namespace that is root. Root of a sibling namespace with the same map is
/// not the owner if another user created it.
fn is_owner(uid: u32, owner: u32) -> bool {
    uid == owner && uid != OVERFLOW_UID
}

fn own_namespace() -> io::Result<(u64, u64)> {
    socket::user_namespace(signal::pidfd(nix::unistd::getpid())?)
}

/// The check by /proc, for kernels before Linux 6.11 and for peers with more privilege than init. A
/// peer with pid 0 is outside init's pid namespace and has no entry there. Before Linux 6.5 there
/// is no pidfd, so a reused pid cannot be ruled out.
fn proc_agrees(pid: Pid, process: Option<BorrowedFd<'_>>) -> bool {
    if pid.as_raw() == 0 || !procfs::is_proc_ours() {
        return false;
    }
    let agrees = match same(pid, |of| std::fs::read_link(format!("/proc/{of}/ns/user"))) {
        // A process with fewer capabilities may not read the link, but may read the map. The map is
        // written as seen from the reader, so a nested namespace differs, unless it maps all ids to
        // themselves.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            same(pid, |of| std::fs::read(format!("/proc/{of}/uid_map")))
        }
        agrees => agrees,
    };
    // The pidfd is checked last: if the process has not exited by then, the pid was its own.
    agrees.unwrap_or(false) && !process.is_some_and(signal::has_ended)
}

fn same<T: PartialEq>(pid: Pid, look: impl Fn(&str) -> io::Result<T>) -> io::Result<bool> {
    Ok(look(&pid.to_string())? == look("self")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn only_the_owner_of_the_user_namespace_is_trusted_without_inspection() {
        assert!(is_owner(0, 0) && is_owner(1_000, 1_000));
        assert!(!is_owner(1_000, 0) && !is_owner(0, OVERFLOW_UID));
        assert!(!is_owner(OVERFLOW_UID, OVERFLOW_UID));
        assert!(socket::own_namespace_owner().is_ok());
    }

    #[test]
    fn exited_peer_proves_nothing_even_if_its_pid_is_reused() {
        let at = std::env::temp_dir().join(format!("groundstate-peer-{}", std::process::id()));
        let listener = UnixListener::bind(&at).unwrap();
        let own = nix::unistd::getpid();
        let _own = UnixStream::connect(&at).unwrap();
        let (from_here, _) = listener.accept().unwrap();
        assert!(shares_user_namespace(&from_here, own, 0));
        let connect = || u8::from(UnixStream::connect(&at).is_err());
        let child = crate::sys::process::fork(&[], connect).unwrap();
        crate::sys::wait::await_end(child).unwrap();
        let (from_there, _) = listener.accept().unwrap();
        std::fs::remove_file(&at).unwrap();
        assert!(!shares_user_namespace(&from_there, child, 0));
        let process = socket::process_of_peer(&from_here).unwrap();
        assert!(proc_agrees(own, process.as_ref().map(AsFd::as_fd)));
        assert!(!proc_agrees(Pid::from_raw(0), process.as_ref().map(AsFd::as_fd)));
        if process.is_some() {
            // The connection of the exited process, as if this process had its pid.
            assert!(!shares_user_namespace(&from_there, own, 0));
        }
    }
}
