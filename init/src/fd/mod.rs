//! Descriptors that other processes have passed to init: which ones are kept, and how they are
//! closed.
//!
//! close(2) can block: a file of FUSE or a network file system asks its server, and a socket waits
//! for its SO_LINGER time. Closing a socket also closes the descriptors in its unread messages. Any
//! user may send such a descriptor to init's sockets. So init closes only pipes and memfds itself.
//! A child with init's descriptor table (CLONE_FILES) closes the rest: the kernel frees the number
//! before it blocks, so only the child waits. A plain fork would not help, because each copy of
//! such a file blocks at its own close.
//!
//! The number of these children is limited, so init accepts only as many descriptors from a message
//! as there may be children. Other children of init close their copies too, so a file that may
//! block is never kept ([`Foreign::keepable`]).

use crate::base::mount_table::FsKind;
use crate::base::{limit, mount_table};
use crate::state::carried::KeptFd;
use crate::sys::{Pid, inherit, memfd, process, wait};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::socket::{
    AddressFamily, SockaddrLike, SockaddrStorage, getsockname, getsockopt, sockopt,
};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

const KILL: u8 = 9;

/// A descriptor that another process has passed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Foreign {
    fd: KeptFd<Rc<OwnedFd>>,
    #[serde(default)]
    is_kept: bool,
}

/// Descriptors to be closed, and the children that close some.
#[derive(Default)]
struct Closing {
    /// The process that uses children for closing. Forks of it close their copies directly.
    by: Option<Pid>,
    left: Vec<Rc<OwnedFd>>,
    /// Each with its number of descriptors.
    children: BTreeMap<Pid, usize>,
    /// Number of unused descriptors since the start of this image.
    dropped: u64,
}

thread_local! {
    static CLOSING: RefCell<Closing> = RefCell::default();
}

/// Makes this process use children for closing.
pub(crate) fn begin() {
    with(|closing| closing.by = Some(nix::unistd::getpid()));
}

/// Closes the descriptors of an earlier image that this one does not use.
pub(crate) fn close_rest() {
    begin();
    let is_quick_to_close = |fd: &OwnedFd| {
        // A listening socket is closed at once, because its address may be needed again.
        is_pipe_or_memfd(fd) || (!is_socket(fd) && is_local(fd)) || listens_on_a_network(fd)
    };
    let (at_once, others): (Vec<_>, Vec<_>) =
        inherit::rest().into_iter().partition(is_quick_to_close);
    drop((at_once, Foreign::all(others)));
    close_left();
}

/// Returns true for a socket that cannot hold messages with descriptors.
fn listens_on_a_network(fd: &OwnedFd) -> bool {
    let listens = getsockopt(fd, sockopt::AcceptConn).unwrap_or(false);
    let family = getsockname::<SockaddrStorage>(fd.as_raw_fd()).ok().and_then(|name| name.family());
    listens && family.is_some_and(|family| family != AddressFamily::Unix)
}

/// Starts children that close the descriptors dropped since the last call. Called before the next
/// clone, at the end of each part of a turn in which descriptors may have arrived.
pub(crate) fn close_left() {
    with(|closing| {
        // A child that has not executed yet may still have a copy.
        let (free, shared): (Vec<_>, Vec<_>) =
            closing.left.drain(..).map(Rc::try_unwrap).partition(Result::is_ok);
        closing.left = shared.into_iter().filter_map(Result::err).collect();
        let (alone, mut together): (Vec<_>, Vec<_>) =
            free.into_iter().flatten().partition(may_wait);
        // Sockets first, so that their peers do not wait for a slow disk.
        together.sort_by_key(|fd| !is_socket(fd));
        closing.close(together);
        alone.into_iter().for_each(|fd| closing.close(vec![fd]));
    });
}

/// Kills the closing children before the exec of another image: they share the descriptor table and
/// would keep all of it open while they wait.
pub(crate) fn end_closers() {
    with(|closing| {
        for pid in closing.children.keys() {
            // A failed kill means that it has exited already.
            let _ = wait::kill_made(*pid, KILL);
        }
    });
}

impl Closing {
    /// Starts a child that closes these in order. Without a child they wait for the next call.
    fn close(&mut self, fds: Vec<OwnedFd>) {
        let count = fds.len();
        let closed = match count {
            0 => return,
            _ if self.children.len() >= limit::CLOSERS => Err(fds),
            _ => process::close_elsewhere(fds),
        };
        match closed {
            Ok(pid) => drop(self.children.insert(pid, count)),
            Err(fds) => self.left.extend(fds.into_iter().map(Rc::new)),
        }
    }

    /// The number of descriptors that can each have a child of their own.
    fn room(&self) -> usize {
        let given: usize = self.children.values().sum();
        if given + self.left.len() >= limit::DESCRIPTORS_LEFT {
            return 0;
        }
        let alone = self.left.iter().filter(|fd| may_wait(fd)).count();
        limit::CLOSERS.saturating_sub(self.children.len() + alone)
    }
}

/// Handles a reaped child. Returns false if it was not a closing child.
pub(crate) fn closer_ended(pid: Pid) -> bool {
    with(|closing| closing.children.remove(&pid)).flatten().is_some()
}

/// Counts unused descriptors.
pub(crate) fn dropped(count: usize) {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    with(|closing| closing.dropped = closing.dropped.saturating_add(count));
}

/// The number of unused descriptors so far.
pub(crate) fn all_dropped() -> u64 {
    with(|closing| closing.dropped).unwrap_or(0)
}

/// The number of descriptors that may be accepted from a message now.
pub(crate) fn room() -> usize {
    with(|closing| closing.room()).unwrap_or(limit::CLOSERS)
}

/// Returns `None` in a nested call, or at the end of the thread.
fn with<T>(work: impl FnOnce(&mut Closing) -> T) -> Option<T> {
    CLOSING.try_with(|closing| closing.try_borrow_mut().ok().map(|mut all| work(&mut all))).ok()?
}

impl Foreign {
    /// All descriptors of one message.
    pub(crate) fn all(fds: Vec<OwnedFd>) -> Vec<Foreign> {
        let foreign = |fd: OwnedFd| Foreign { fd: Rc::new(fd).into(), is_kept: false };
        fds.into_iter().map(foreign).collect()
    }

    /// The descriptors of a message that may be kept. The others will be closed.
    pub(crate) fn keepable(fds: Vec<OwnedFd>) -> Vec<Foreign> {
        let mut all = Foreign::all(fds);
        let came = all.len();
        all.retain(Foreign::is_keepable);
        dropped(came.saturating_sub(all.len()));
        all
    }

    /// Marks it as kept for a unit. Init closes a kept socket directly, because its address must be
    /// free when the unit has ended. This does not block: the unit has read the socket's messages.
    pub(crate) fn kept(mut self) -> Foreign {
        self.is_kept = true;
        self
    }

    /// The descriptor for a process that is started with it.
    pub(crate) fn share(&self) -> Rc<OwnedFd> {
        self.fd.clone()
    }

    /// Returns true for a socket or a pipe. Tests the descriptor only, never the file behind it.
    pub(crate) fn has_other_end(&self) -> bool {
        is_socket(&self.fd) || is_pipe(&self.fd)
    }

    /// Returns true if closing a copy cannot block.
    fn is_keepable(&self) -> bool {
        is_socket(&self.fd) || is_pipe_or_memfd(&self.fd) || is_local(&self.fd)
    }
}

impl AsFd for Foreign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if is_pipe_or_memfd(&self.fd) || (self.is_kept && is_socket(&self.fd)) {
            return;
        }
        let fd = self.fd.clone();
        with(|closing| {
            if closing.by == Some(nix::unistd::getpid()) {
                closing.left.push(fd);
            }
        });
    }
}

fn is_socket(fd: &OwnedFd) -> bool {
    getsockopt(fd, sockopt::SockType).is_ok()
}

/// Returns true if its close may block by itself: a socket with SO_LINGER, or a file of another
/// machine or of FUSE.
fn may_wait(fd: &OwnedFd) -> bool {
    match getsockopt(fd, sockopt::SockType) {
        Ok(_) => getsockopt(fd, sockopt::Linger).is_ok_and(|linger| linger.l_onoff != 0),
        Err(_) => !is_local(fd),
    }
}

fn is_pipe(fd: &OwnedFd) -> bool {
    fcntl(fd, FcntlArg::F_GETPIPE_SZ).is_ok()
}

fn is_pipe_or_memfd(fd: &OwnedFd) -> bool {
    is_pipe(fd) || memfd::is_memory(fd)
}

/// Returns true for a file system of this machine, or for none. Returns false if unknown.
fn is_local(fd: &OwnedFd) -> bool {
    matches!(mount_table::fs_kind_of(fd.as_fd()), Some(FsKind::Memory | FsKind::Here))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::tests::is_alone;
    use crate::sys::no_linger::tests::stuck;
    use groundstate_units::spec::Exit;
    use std::fs::File;

    fn foreign(fd: impl Into<OwnedFd>) -> Foreign {
        Foreign::all(vec![fd.into()]).remove(0)
    }

    fn is_open(number: i32) -> bool {
        std::path::Path::new(&format!("/proc/self/fd/{number}")).exists()
    }

    #[test]
    fn close_that_may_wait_is_left_to_a_child() {
        if !is_alone("fd::tests::close_that_may_wait_is_left_to_a_child") {
            return;
        }
        begin();
        let (read, _write) = std::io::pipe().unwrap();
        let memory = memfd::create(c"test").unwrap();
        for harmless in [OwnedFd::from(read), memory] {
            let number = harmless.as_raw_fd();
            drop(foreign(harmless));
            assert!(with(|closing| closing.left.is_empty()).unwrap(), "descriptor {number}");
        }
        let (connection, listener) = stuck();
        let number = connection.as_raw_fd();
        let kept = foreign(connection);
        let shared = kept.share();
        drop(kept);
        close_left();
        assert!(is_open(number), "a child that is about to start may share it");
        drop(shared);
        // Only the child waits until the peer is gone.
        close_left();
        let children = with(|closing| closing.children.clone()).unwrap();
        let child = *children.keys().next().unwrap();
        while is_open(number) {
            std::thread::yield_now();
        }
        assert!(wait::peek_one(child).unwrap().is_none(), "the child still waits");
        drop(listener);
        wait::await_end(child).unwrap();
        assert!(closer_ended(child) && !closer_ended(child));
        with(|closing| closing.by = None);
    }

    #[test]
    fn closers_are_killed_before_an_upgrade() {
        // A child that another test forks would have a copy of the socket, so that no close would
        // block.
        if !is_alone("fd::tests::closers_are_killed_before_an_upgrade") {
            return;
        }
        begin();
        let (connection, _listener) = stuck();
        drop(foreign(connection));
        close_left();
        let child = *with(|closing| closing.children.clone()).unwrap().keys().next().unwrap();
        end_closers();
        let ended = wait::await_end(child).unwrap();
        assert!(closer_ended(child));
        with(|closing| closing.by = None);
        assert_eq!(ended, Exit::Signal { signal: KILL, core: false });
    }

    #[test]
    fn sockets_and_local_files_are_kept() {
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let event = nix::sys::eventfd::EventFd::new().unwrap();
        let event = nix::unistd::dup(&event).unwrap();
        let kept: [OwnedFd; 4] = [
            socket.into(),
            File::open("/dev/null").unwrap().into(),
            File::open("/proc/self/stat").unwrap().into(),
            event,
        ];
        for fd in kept {
            assert!(foreign(fd).is_keepable());
        }
    }
}
