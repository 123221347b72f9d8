//! Reads and discards what services write while init is a caretaker ([`crate::crash::caretaker`]). A child of
//! init's does it, with a copy of each read end that no logger has open. Without a reader a service
//! would block on a full pipe, or die of SIGPIPE; and block on a full notify socket.
//!
//! The read ends lie in the stash of an earlier image ([`crate::logger`]), or in the descriptor table.

use crate::base::procfs;
use crate::logger;
use crate::sys::wait::{self, Ended};
use crate::sys::{Pid, inherit, process as maker};
use groundstate_units::spec::Exit;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{SockType, getsockopt, sockopt};
use nix::sys::stat::fstat;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

const KILL: u8 = 9;
/// Bytes that are read at a time.
const PORTION: usize = 16 * 1024;

/// All read ends, and the child that empties them.
pub(crate) struct Drain {
    /// By inode.
    ends: BTreeMap<u64, OwnedFd>,
    /// They hold the same read ends, and those for which the table had no room.
    _stashes: Vec<OwnedFd>,
    notify: Option<OwnedFd>,
    pid: Option<Pid>,
    /// No process has a write end any more.
    is_over: bool,
    /// Loggers and other helpers of earlier images.
    helpers: BTreeSet<i32>,
}

impl Drain {
    /// With the read ends of earlier images, and their notify socket. [`Drain::turn`] starts it.
    pub(crate) fn of_the_rest(notify: Option<OwnedFd>) -> Drain {
        let children = procfs::children().into_iter();
        let helpers = children.filter(|pid| procfs::runs_this_program(Pid::from_raw(*pid)));
        let (helpers, mut ends) = (helpers.collect(), BTreeMap::new());
        let in_table = in_table();
        let mut add = |end: OwnedFd| {
            if let Ok(found) = fstat(&end) {
                ends.entry(found.st_ino).or_insert(end);
            }
        };
        let stashes = inherit::take_sockets(usize::MAX, may_be_a_stash);
        for stash in &stashes {
            // An error: the table has no room for more copies.
            let _ = logger::look_into(stash.as_fd(), |all| {
                all.into_iter().for_each(|end| add(end.fd.into_inner()));
                true
            });
        }
        let own = in_table.into_iter().filter_map(|number| inherit::take(number).ok());
        own.filter(|fd| is_read_end(fd.as_fd())).for_each(add);
        Drain { ends, _stashes: stashes, notify, pid: None, is_over: false, helpers }
    }

    /// Starts the child where there is none. False: it could not be started, and is to be tried again.
    pub(crate) fn turn(&mut self) -> bool {
        if self.pid.is_none() && !self.is_over {
            let read: BTreeSet<u64> = self.helpers.iter().flat_map(|pid| pipes_of(*pid)).collect();
            let unread = self.ends.iter().filter(|(inode, _)| !read.contains(inode));
            let unread: Vec<BorrowedFd<'_>> = unread.map(|(_, end)| end.as_fd()).collect();
            let notify = self.notify.as_ref().map(AsFd::as_fd);
            self.is_over = unread.is_empty() && notify.is_none();
            if !self.is_over {
                let kept: Vec<BorrowedFd<'_>> = unread.iter().copied().chain(notify).collect();
                self.pid = maker::fork(&kept, || empty(unread, notify)).ok();
            }
        }
        self.pid.is_some() || self.is_over
    }

    /// A child was reaped.
    pub(crate) fn reaped(&mut self, ended: Ended) {
        if self.pid.take_if(|of| *of == ended.pid).is_some() {
            self.is_over |= ended.exit == Exit::Code(0);
        } else if self.helpers.remove(&ended.pid.as_raw()) {
            // The pipes that this helper read have no reader any more.
            self.is_over = false;
            if let Some(pid) = self.pid {
                // It has ended already, or is started again when it is reaped.
                let _ = wait::kill_made(pid, KILL);
            }
        }
    }
}

/// In the child: until no process has a write end any more.
fn empty(mut open: Vec<BorrowedFd<'_>>, notify: Option<BorrowedFd<'_>>) -> u8 {
    let _ = maker::die_with_parent(KILL);
    let _ = maker::set_name(c"init: drains");
    while !open.is_empty() || notify.is_some() {
        let all = open.iter().copied().chain(notify);
        let mut asked: Vec<PollFd<'_>> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut asked, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return 1,
        }
        let mut told = asked.iter().map(|asked| asked.revents().unwrap_or(PollFlags::empty()));
        open.retain(|fd| told.next().is_none_or(|told| told.is_empty() || has_more(*fd)));
        if let (Some(notify), Some(told)) = (notify, told.next())
            && !told.is_empty()
        {
            // A datagram of no bytes is read like any other.
            let _ = nix::unistd::read(notify, &mut [0]);
        }
    }
    0
}

/// Takes a portion. False: the pipe is empty and no process has the write end.
fn has_more(pipe: BorrowedFd<'_>) -> bool {
    let mut bytes = [0u8; PORTION];
    match nix::unistd::read(pipe, &mut bytes) {
        Ok(0) => false,
        Ok(_) | Err(Errno::EINTR | Errno::EAGAIN) => true,
        Err(_) => false,
    }
}

/// The inode of what stands behind a descriptor in /proc, where that is a pipe. Opens nothing.
fn pipe_at(path: &str) -> Option<u64> {
    let link = fs::read_link(path).ok()?;
    link.to_str()?.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok()
}

/// Pipes this process has open.
fn pipes_of(pid: i32) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| pipe_at(entry.path().to_str()?)).collect()
}

/// Numbers of pipes in the table of this process.
fn in_table() -> Vec<RawFd> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let pipes = paths.filter(|path| path.to_str().and_then(pipe_at).is_some());
    pipes.filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect()
}

/// The flags that the logger sets on a read end.
fn is_read_end(fd: BorrowedFd<'_>) -> bool {
    let flags = fcntl(fd, FcntlArg::F_GETFL).map(OFlag::from_bits_retain);
    flags.is_ok_and(|flags| {
        flags & OFlag::O_ACCMODE == OFlag::O_RDONLY
            && flags.contains(OFlag::O_NONBLOCK)
            && !flags.contains(OFlag::O_PATH)
    })
}

/// One of a pair that init has made itself: no other process has put anything in.
fn may_be_a_stash(socket: BorrowedFd<'_>) -> bool {
    let own = nix::unistd::getpid().as_raw();
    getsockopt(&socket, sockopt::SockType).is_ok_and(|kind| kind == SockType::SeqPacket)
        && getsockopt(&socket, sockopt::PeerCredentials).is_ok_and(|peer| peer.pid() == own)
}
