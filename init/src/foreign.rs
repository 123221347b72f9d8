//! Descriptors that others have passed to init: what may be kept, and how the rest is closed.
//!
//! close(2) is not always done at once. A file system in user space (fuse(4)) is asked first, and
//! need not answer; any user may have one, and the sockets of init are open to all. So init
//! closes nothing itself but what is the kernel's own, pipes and memory: a child that shares its
//! table of descriptors does (CLONE_FILES). The kernel takes a number out of the table before it
//! asks anybody, so that the child alone waits. It waits at the first of its descriptors, with the
//! others open still in init: what may wait has a child of its own, and no more is taken from
//! anybody than there can be children for.
//!
//! The other children of init get copies of its table, and close them: what may wait is not
//! kept at all ([`Foreign::keepable`]). What is done with those that are kept is
//! [`crate::store`]'s and [`crate::control`]'s.

use crate::journal::carried;
use crate::limit;
use crate::mounted::{self, Ground};
use crate::scribe;
use crate::sys::{Pid, inherit, memfd, process, wait};
use groundstate_units::time::Time;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::socket::{
    AddressFamily, SockaddrLike, SockaddrStorage, getsockname, getsockopt, sockopt,
};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

const KILL: u8 = 9;

/// One of them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Foreign {
    #[serde(with = "carried")]
    fd: Rc<OwnedFd>,
    is_kept: bool,
    /// Closing it waits for nobody.
    #[serde(skip)]
    is_harmless: bool,
}

/// Children that are at it, by pid, each with as many as it was given.
pub(crate) type Closers = BTreeMap<i32, usize>;

/// What is to be closed, and who is at it.
#[derive(Default)]
struct Closing {
    /// The process that closes elsewhere; in any other one, its children too, closing may wait.
    by: Option<Pid>,
    left: Vec<Rc<OwnedFd>>,
    /// Nobody is asked when they are closed.
    harmless: Vec<Rc<OwnedFd>>,
    /// Each with as many as it was given.
    children: BTreeMap<Pid, usize>,
    /// Those an image before this one had begun, which were to end with it.
    old: BTreeSet<Pid>,
    /// When it is said of them that they have not.
    told_at: Option<Time>,
    /// So many were of no use.
    dropped: u64,
}

thread_local! {
    static CLOSING: RefCell<Closing> = RefCell::default();
}

/// From now on this process leaves the closing to children.
pub(crate) fn begin() {
    with(|closing| closing.by = Some(nix::unistd::getpid()));
}

/// What an image before this one had open and this one has no use for. A socket that somebody had
/// passed to it may wait as any other, and a file of theirs.
pub(crate) fn close_rest() {
    close_rest_but(|_| false);
}

/// The same, but for these, which are given.
pub(crate) fn close_rest_but(stays: impl Fn(&OwnedFd) -> bool) -> Vec<OwnedFd> {
    begin();
    let asks_nobody = |fd: &OwnedFd| {
        // One that listens is closed at once: its address may be needed again.
        is_the_kernels(fd) || (!is_socket(fd) && is_of_here(fd)) || listens_on_a_network(fd)
    };
    let (staying, rest): (Vec<_>, Vec<_>) = inherit::rest().into_iter().partition(stays);
    let (at_once, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(asks_nobody);
    drop((at_once, Foreign::all(others)));
    close_left();
    staying
}

/// No message with descriptors can wait in such a one.
fn listens_on_a_network(fd: &OwnedFd) -> bool {
    let listens = getsockopt(fd, sockopt::AcceptConn).unwrap_or(false);
    let family = getsockname::<SockaddrStorage>(fd.as_raw_fd()).ok().and_then(|name| name.family());
    listens && family.is_some_and(|family| family != AddressFamily::Unix)
}

/// Children begin to close what was left since the last time. At the end of each part of a turn
/// in which something may have been passed: before anything else is cloned.
pub(crate) fn close_left() {
    with(|closing| {
        if closing.left.is_empty() && closing.harmless.is_empty() {
            return;
        }
        let harmless = free(&mut closing.harmless);
        let (mut together, alone): (Vec<_>, Vec<_>) =
            free(&mut closing.left).into_iter().partition(|fd| is_socket(fd) && !lingers(fd));
        together.extend(harmless);
        // Whatever waits lets the sockets before it be closed.
        together.sort_by_key(|fd| !is_socket(fd));
        let left = closing.close(together);
        closing.harmless.extend(left);
        for fd in alone {
            let left = closing.close(vec![fd]);
            closing.left.extend(left);
        }
    });
}

/// This child has written what init says, and does so no more once it has come to the end.
pub(crate) fn writes_still(pid: Pid) {
    with(|closing| closing.children.insert(pid, 0));
}

/// Before another image goes on: who is at it shares the table of this one, and would keep all that
/// is in it open for as long as it waits.
pub(crate) fn end_closers() {
    with(|closing| {
        for pid in closing.children.keys() {
            // It has ended already, or can not be ended.
            let _ = wait::kill_made(*pid, KILL);
        }
    });
}

/// Who is at it now, and who writes for this image ([`scribe`]): it was given none, and may wait as they do.
pub(crate) fn closers() -> Closers {
    let all = |closing: &mut Closing| closing.children.clone();
    let all = with(all).unwrap_or_default().into_iter().chain(scribe::pid().map(|pid| (pid, 0)));
    all.map(|(pid, count)| (pid.as_raw(), count)).collect()
}

/// An image before this one had begun these. What it had open they have too, for as long as they
/// can not be killed: they count as before, or each upgrade could leave as many again.
pub(crate) fn closers_before(all: Closers, now: Time) {
    with(|closing| {
        closing.old = all.keys().map(|pid| Pid::from_raw(*pid)).collect();
        let all = all.into_iter().map(|(pid, count)| (Pid::from_raw(pid), count));
        closing.children.extend(all);
        closing.told_at = Some(now.after(limit::CLOSERS_KILLED));
    });
}

/// When [`stuck_closers`] has something to say.
pub(crate) fn deadline() -> Option<Time> {
    with(|closing| closing.told_at.filter(|_| !closing.old.is_empty())).flatten()
}

/// How many of an image before this one are there still, once. 0: none, or it is not time.
pub(crate) fn stuck_closers(now: Time) -> usize {
    let count = |closing: &mut Closing| {
        let closes = |pid: &&Pid| closing.children.get(pid).is_some_and(|given| *given > 0);
        closing
            .told_at
            .take_if(|at| *at <= now)
            .map_or(0, |_| closing.old.iter().filter(closes).count())
    };
    with(count).unwrap_or(0)
}

/// Those nobody else has. A child that is on its way to its program may have one still.
fn free(all: &mut Vec<Rc<OwnedFd>>) -> Vec<OwnedFd> {
    let mut free = Vec::new();
    for fd in std::mem::take(all) {
        match Rc::try_unwrap(fd) {
            Ok(fd) => free.push(fd),
            Err(fd) => all.push(fd),
        }
    }
    free
}

impl Closing {
    /// A child closes these, one after the other. What is given is left.
    fn close(&mut self, fds: Vec<OwnedFd>) -> Vec<Rc<OwnedFd>> {
        let count = fds.len();
        let closed = match count {
            0 => return Vec::new(),
            _ if self.children.len() >= limit::CLOSERS => Err(fds),
            _ => process::close_elsewhere(fds),
        };
        match closed {
            Ok(pid) => {
                self.children.insert(pid, count);
                Vec::new()
            }
            Err(fds) => fds.into_iter().map(Rc::new).collect(),
        }
    }

    /// So many descriptors could be closed by children of their own.
    fn room(&self) -> usize {
        let given: usize = self.children.values().sum();
        if given + self.left.len() + self.harmless.len() >= limit::DESCRIPTORS_LEFT {
            return 0;
        }
        limit::CLOSERS.saturating_sub(self.children.len() + self.left.len())
    }
}

/// Those that have written for an image before this one and are there still.
pub(crate) fn scribes() -> Vec<Pid> {
    let all = |closing: &mut Closing| {
        let all = closing.children.iter().filter(|(_, given)| **given == 0);
        all.map(|(pid, _)| *pid).collect()
    };
    with(all).unwrap_or_default()
}

/// A child was reaped. False: it closed nothing.
pub(crate) fn closer_ended(pid: Pid) -> bool {
    let ended = |closing: &mut Closing| {
        closing.old.remove(&pid);
        closing.children.remove(&pid)
    };
    with(ended).flatten().is_some()
}

/// So many of those that came are of no use.
pub(crate) fn dropped(count: usize) {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    with(|closing| closing.dropped = closing.dropped.saturating_add(count));
}

/// All that were of no use so far.
pub(crate) fn all_dropped() -> u64 {
    with(|closing| closing.dropped).unwrap_or(0)
}

/// No more descriptors than this are to be taken from anybody.
pub(crate) fn room() -> usize {
    with(|closing| closing.room()).unwrap_or(limit::CLOSERS)
}

/// None: within itself, or at the end of the thread.
fn with<T>(work: impl FnOnce(&mut Closing) -> T) -> Option<T> {
    CLOSING.try_with(|closing| closing.try_borrow_mut().ok().map(|mut all| work(&mut all))).ok()?
}

impl Foreign {
    /// All that came with one message.
    pub(crate) fn all(fds: Vec<OwnedFd>) -> Vec<Foreign> {
        fds.into_iter().map(Foreign::of).collect()
    }

    /// Those of one message that may be kept. The others are left to be closed.
    pub(crate) fn keepable(fds: Vec<OwnedFd>) -> Vec<Foreign> {
        let mut all = Foreign::all(fds);
        let came = all.len();
        all.retain_mut(|foreign| {
            foreign.is_harmless = foreign.is_keepable();
            foreign.is_harmless
        });
        dropped(came.saturating_sub(all.len()));
        all
    }

    fn of(fd: OwnedFd) -> Foreign {
        Foreign { fd: Rc::new(fd), is_kept: false, is_harmless: false }
    }

    /// It is kept, for a unit. A socket is closed at once from now on: its address is to be free
    /// when the unit has ended, and what could be queued in it has been looked at by the unit.
    pub(crate) fn kept(mut self) -> Foreign {
        self.is_kept = true;
        self
    }

    /// The descriptor, for whoever is started with it.
    pub(crate) fn share(&self) -> Rc<OwnedFd> {
        self.fd.clone()
    }

    /// A socket or a pipe. Asked of the descriptor, never of what is behind it.
    pub(crate) fn has_other_end(&self) -> bool {
        is_socket(&self.fd) || is_pipe(&self.fd)
    }

    /// Closing it, or a copy of it, waits for nobody.
    fn is_keepable(&self) -> bool {
        is_socket(&self.fd) || is_the_kernels(&self.fd) || is_of_here(&self.fd)
    }
}

impl AsFd for Foreign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if is_the_kernels(&self.fd) || (self.is_kept && is_socket(&self.fd)) {
            return;
        }
        let fd = self.fd.clone();
        with(|closing| {
            if closing.by != Some(nix::unistd::getpid()) {
                return;
            }
            let left = if self.is_harmless { &mut closing.harmless } else { &mut closing.left };
            left.push(fd);
        });
    }
}

fn is_socket(fd: &OwnedFd) -> bool {
    getsockopt(fd, sockopt::SockType).is_ok()
}

/// It waits at its close, as long as whoever has it has said.
fn lingers(fd: &OwnedFd) -> bool {
    getsockopt(fd, sockopt::Linger).is_ok_and(|linger| linger.l_onoff != 0)
}

fn is_pipe(fd: &OwnedFd) -> bool {
    fcntl(fd, FcntlArg::F_GETPIPE_SZ).is_ok()
}

fn is_the_kernels(fd: &OwnedFd) -> bool {
    is_pipe(fd) || memfd::is_memory(fd)
}

/// It is of a file system of this machine, or of none. False too where that can not be told.
fn is_of_here(fd: &OwnedFd) -> bool {
    matches!(mounted::ground_of(fd.as_fd()), Some(Ground::Memory | Ground::Here))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::impatience::tests::stuck;
    use groundstate_units::spec::Exit;
    use std::fs::File;

    fn foreign(fd: impl Into<OwnedFd>) -> Foreign {
        Foreign::all(vec![fd.into()]).remove(0)
    }

    fn is_open(number: i32) -> bool {
        std::path::Path::new(&format!("/proc/self/fd/{number}")).exists()
    }

    #[test]
    fn what_may_wait_is_closed_by_a_child_and_the_rest_at_once() {
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
        assert!(is_open(number), "somebody is started with it");
        drop(shared);
        // Nobody waits here: the child does, until the other end is gone.
        close_left();
        let children = with(|closing| closing.children.clone()).unwrap();
        let child = *children.keys().next().unwrap();
        while is_open(number) {
            std::thread::yield_now();
        }
        assert!(wait::peek_one(child).unwrap().is_none(), "it waits");
        drop(listener);
        wait::await_end(child).unwrap();
        assert!(closer_ended(child) && !closer_ended(child));
        with(|closing| closing.by = None);
    }

    #[test]
    fn who_waits_at_a_close_is_ended_before_another_image_goes_on() {
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
    fn those_of_an_image_before_this_one_count_until_they_end_and_are_told_of_once() {
        let [one, other] = [2_000_000_001, 2_000_000_002];
        closers_before(BTreeMap::from([(one, 1), (other, 3)]), Time::ZERO);
        assert_eq!(room(), limit::CLOSERS - 2);
        let late = Time::ZERO.after(limit::CLOSERS_KILLED);
        assert_eq!((deadline(), stuck_closers(Time::ZERO)), (Some(late), 0));
        assert!(closer_ended(Pid::from_raw(one)));
        assert_eq!(closers(), BTreeMap::from([(other, 3)]));
        assert_eq!((stuck_closers(late), stuck_closers(late), deadline()), (1, 0, None));
        assert!(closer_ended(Pid::from_raw(other)));
        assert_eq!(room(), limit::CLOSERS);
    }

    #[test]
    fn who_wrote_for_an_image_before_this_one_is_known_from_who_closes() {
        let [closer, scribe] = [2_000_000_003, 2_000_000_004];
        closers_before(BTreeMap::from([(closer, 2), (scribe, 0)]), Time::ZERO);
        assert_eq!(scribes(), [Pid::from_raw(scribe)]);
        assert!(closer_ended(Pid::from_raw(scribe)) && closer_ended(Pid::from_raw(closer)));
        assert_eq!(scribes(), []);
    }

    #[test]
    fn only_what_nobody_is_asked_about_is_kept() {
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
