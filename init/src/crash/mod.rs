//! The caretaker: replaces the event loop when init has crashed and its state cannot be restored.
//! Services keep running. The caretaker reaps children, and a child of it reads pipes that no
//! logger reads ([`Drain`]). A machine's console gets the emergency shell. A shutdown signal still
//! stops all processes and ends the machine.
//!
//! The caretaker knows no units: it starts, stops and restarts nothing. It does not feed the
//! hardware watchdog, so that a machine with a watchdog reboots.

use crate::base::Level;
use crate::base::Mode;
use crate::base::paths::Paths;
use crate::base::{clock, limit, procfs, signals};
use crate::logger;
use crate::options::Options;
use crate::output::console_log::ConsoleLog;
use crate::output::parent_notify::Outer;
use crate::shutdown::emergency_shell::EmergencyShell;
use crate::shutdown::{self, End};
use crate::sys::no_linger::close_without_linger;
use crate::sys::socket::unix_name;
use crate::sys::wait::Ended;
use crate::sys::{Pid, inherit, process as maker, signal, wait};
use groundstate_units::control::place;
use groundstate_units::machine::event::Shutdown;
use groundstate_units::spec::Exit;
use groundstate_units::text::time::Time;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{SockType, UnixAddr, getsockopt, sockopt};
use nix::sys::stat::fstat;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

/// Runs the caretaker until a signal requests the end. `why` says why no state can be restored.
pub(crate) fn take_care(options: &Options, mode: Mode, why: &io::Error) -> End {
    let mut voice = ConsoleLog::of(mode, None);
    let text = "init crashed and cannot restore its state: services keep running, \
                but are no longer supervised";
    let way = match mode {
        Mode::Machine | Mode::Container => "SIGTERM, SIGINT and SIGPWR shut down",
        Mode::Supervisor => "SIGTERM ends init only",
    };
    voice.say(clock::now(), Level::Error, format_args!("{text} ({way}): {why}"));
    let mut shell = EmergencyShell::default();
    if mode == Mode::Machine {
        shell.restart_at(Time::ZERO);
    }
    voice.flush();
    let mut drain = Drain::take_over(refuse_requests(options));
    let how = reap_until_asked(mode, &mut shell, &mut drain);
    End::new(how, mode, Outer::at(None), None, None)
}

/// Closes the control socket and its connections, so that clients fail at once. Returns the notify
/// socket, which must be read: a service blocks in sendmsg(2) while its queue is full.
fn refuse_requests(options: &Options) -> Option<OwnedFd> {
    let (paths, _) = Paths::find(&options.paths);
    let dir = paths.runtime_dir?;
    let bound_to = |path: String| {
        let is_it = |name: UnixAddr| name.path() == Some(Path::new(&path));
        inherit::take_sockets(|socket| unix_name(socket).is_some_and(is_it))
    };
    close_without_linger(|| drop(bound_to(place::control_socket(&dir))));
    bound_to(format!("{dir}/notify.sock")).pop()
}

/// Signals are blocked first, because the kernel discards those that PID 1 neither blocks nor
/// handles.
fn reap_until_asked(mode: Mode, shell: &mut EmergencyShell, drain: &mut Drain) -> Shutdown {
    let awaited = signal::Awaited::block(signals::shutdown_signals().chain([libc::SIGCHLD]));
    loop {
        while let Ok(Some(ended)) = wait::reap_any() {
            if let Some(Err(why)) = shell.ended(ended.pid, ended.exit, clock::now()) {
                shutdown::console(&format!("cannot start a shell on the console: {why}"));
            }
            drain.reaped(ended);
        }
        if shell.is_due(clock::now()) {
            shell.restart_on_exit();
            // After an error it is due again after a pause.
            let _ = shell.start(clock::now());
        }
        let is_settled = drain.turn() && shell.deadline().is_none();
        let until = if is_settled { Duration::MAX } else { limit::SHELL_PAUSE };
        match awaited.next(until) {
            Ok(signal) => {
                if let Some(how) = signals::shutdown_by(signal, mode) {
                    return how;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Avoids spinning.
            Err(_) => clock::pause(Duration::from_millis(100)),
        }
    }
}

// Reads and discards the output of services
//
// A child does it, with a copy of each read end that no logger has open. Without a reader, a
// service would block on a full pipe or die of SIGPIPE, and block on a full notify socket.
//
// The read ends are in the stash of an earlier image ([`crate::logger`]) or in the descriptor
// table.

const KILL: u8 = 9;
/// Read size.
const PORTION: usize = 16 * 1024;

/// All read ends, and the child that reads them.
pub(crate) struct Drain {
    /// The read ends by inode.
    ends: BTreeMap<u64, OwnedFd>,
    /// Sockets that hold the read ends, including those without room in the descriptor table.
    _stashes: Vec<OwnedFd>,
    notify: Option<OwnedFd>,
    pid: Option<Pid>,
    /// True if the child has nothing to read.
    is_over: bool,
    /// Loggers and other helpers of earlier images.
    helpers: BTreeSet<i32>,
}

impl Drain {
    /// Takes over the read ends and the notify socket of earlier images. [`Drain::turn`] starts the
    /// child.
    pub(crate) fn take_over(notify: Option<OwnedFd>) -> Drain {
        let children = procfs::children().into_iter();
        let helpers = children.filter(|pid| procfs::runs_this_program(Pid::from_raw(*pid)));
        let (helpers, mut ends) = (helpers.collect(), BTreeMap::new());
        let in_table = pipes_of("self");
        let mut add = |end: OwnedFd| {
            if let Ok(found) = fstat(&end) {
                ends.entry(found.st_ino).or_insert(end);
            }
        };
        let stashes = inherit::take_sockets(may_be_a_stash);
        for stash in &stashes {
            // An error means that the descriptor table is full.
            let _ = logger::look_into(stash.as_fd(), |all| {
                all.into_iter().for_each(|end| add(end.fd.into_inner()));
                true
            });
        }
        let own = in_table.into_iter().filter_map(|(number, _)| inherit::take(number).ok());
        own.filter(|fd| is_read_end(fd.as_fd())).for_each(add);
        Drain { ends, _stashes: stashes, notify, pid: None, is_over: false, helpers }
    }

    /// Starts the child unless it is running. Returns false if that failed and is to be retried.
    pub(crate) fn turn(&mut self) -> bool {
        if self.pid.is_none() && !self.is_over {
            let read = self.helpers.iter().flat_map(pipes_of).map(|(_, inode)| inode);
            let read: BTreeSet<u64> = read.collect();
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

    /// Handles a reaped child.
    pub(crate) fn reaped(&mut self, ended: Ended) {
        if self.pid.take_if(|of| *of == ended.pid).is_some() {
            self.is_over |= ended.exit == Exit::Code(0);
        } else if self.helpers.remove(&ended.pid.as_raw()) {
            // The pipes that this helper read have lost their reader.
            self.is_over = false;
            if let Some(pid) = self.pid {
                // A failed kill means that it has exited; it is started again when it is reaped.
                let _ = wait::kill_made(pid, KILL);
            }
        }
    }
}

/// Runs in the child until no process has a write end any more.
fn empty(mut open: Vec<BorrowedFd<'_>>, notify: Option<BorrowedFd<'_>>) -> u8 {
    let _ = maker::die_with_parent();
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
            // An empty datagram is read like any other.
            let _ = nix::unistd::read(notify, &mut [0]);
        }
    }
    0
}

/// Reads a portion. Returns false if the pipe is empty and has no writer.
fn has_more(pipe: BorrowedFd<'_>) -> bool {
    let mut bytes = [0u8; PORTION];
    let read = nix::unistd::read(pipe, &mut bytes);
    matches!(read, Ok(1..) | Err(Errno::EINTR | Errno::EAGAIN))
}

/// The descriptors of a process that are pipes, with their inodes. Opens none of them.
fn pipes_of(process: impl Display) -> Vec<(RawFd, u64)> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let pipe = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        let inode = link.to_str()?.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, inode))
    };
    entries.filter_map(pipe).collect()
}

/// Returns true if the descriptor has the flags that the logger sets on a read end.
fn is_read_end(fd: BorrowedFd<'_>) -> bool {
    let flags = fcntl(fd, FcntlArg::F_GETFL).map(OFlag::from_bits_retain);
    flags.is_ok_and(|flags| {
        flags & OFlag::O_ACCMODE == OFlag::O_RDONLY
            && flags.contains(OFlag::O_NONBLOCK)
            && !flags.contains(OFlag::O_PATH)
    })
}

/// Returns true for one of a socket pair created by init: no other process has inserted messages.
fn may_be_a_stash(socket: BorrowedFd<'_>) -> bool {
    let own = nix::unistd::getpid().as_raw();
    getsockopt(&socket, sockopt::SockType).is_ok_and(|kind| kind == SockType::SeqPacket)
        && getsockopt(&socket, sockopt::PeerCredentials).is_ok_and(|peer| peer.pid() == own)
}
