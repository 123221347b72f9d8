//! The pipes services write into, found again by an init whose state is lost: a read end of each, so
//! that nobody is left without a reader when the logger of before ends.
//!
//! All of them lie in the stash of the image before ([`crate::logger`]), or in its table. The stash is
//! kept until each has a reader again, so that another crash finds them as this one did. Whose one is,
//! is told by the number of its run, and by who writes there.

use crate::event_loop::Init;
use crate::journal::carried;
use crate::journal::standing::Standing;
use crate::limit;
use crate::logger::{self, RunLog};
use crate::run::output::run_log;
use crate::sys::inherit;
use crate::voice::Level;
use groundstate_units::machine::event::RunId;
use groundstate_units::name::Name;
use groundstate_units::spec::{Log, LogPriority, Output, Run};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{SockType, getsockopt, sockopt};
use nix::sys::stat::fstat;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Numbers above this are pipes' beside a run's own ([`logger::aside`]).
const RUNS: u64 = u64::MAX / 2;

/// A read end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct End {
    #[serde(with = "carried")]
    fd: OwnedFd,
    /// As it lay in the stash; None: it was in the table, and may be no service's.
    run: Option<RunId>,
    /// The logger reads it meanwhile, as this.
    aside: Option<RunId>,
}

/// By inode.
pub(crate) type Ends = BTreeMap<u64, End>;

/// What is nobody's yet.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    ends: Ends,
    /// Where they lie as well.
    stashes: Vec<OwnedFd>,
    /// There was no room for all that lies there.
    is_cut: bool,
    seen: BTreeSet<u64>,
    highest: u64,
}

/// The inode of what stands behind a descriptor in /proc, where that is a pipe. Asks nobody.
fn pipe_at(path: &str) -> Option<u64> {
    let link = fs::read_link(path).ok()?;
    link.to_str()?.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok()
}

/// What tells it from any other that there is.
pub(crate) fn inode(pipe: &OwnedFd) -> Option<u64> {
    fstat(pipe).ok().map(|found| found.st_ino)
}

/// What this process has open.
fn pipes_of(pid: i32) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| pipe_at(entry.path().to_str()?)).collect()
}

/// Pipes these write into, and as which of their streams.
fn written_by(pids: &BTreeSet<i32>) -> impl Iterator<Item = (u8, u64)> {
    let at = |pid: &i32, number: u8| Some((number, pipe_at(&format!("/proc/{pid}/fd/{number}"))?));
    let pids = pids.iter().take(limit::WRITERS_LOOKED_AT);
    pids.flat_map(move |pid| [1, 2].into_iter().filter_map(move |number| at(pid, number)))
}

/// As the read end of a log is.
fn is_read_end(fd: BorrowedFd<'_>) -> bool {
    let flags = fcntl(fd, FcntlArg::F_GETFL).map(OFlag::from_bits_retain);
    flags.is_ok_and(|flags| {
        flags & OFlag::O_ACCMODE == OFlag::O_RDONLY
            && flags.contains(OFlag::O_NONBLOCK)
            && !flags.contains(OFlag::O_PATH)
    })
}

/// As that is which a start has, or its next line.
pub(crate) fn is_write_end(fd: &OwnedFd) -> bool {
    let flags = fcntl(fd, FcntlArg::F_GETFL).map(OFlag::from_bits_retain);
    flags.is_ok_and(|flags| flags & OFlag::O_ACCMODE == OFlag::O_WRONLY)
        && pipe_at(&format!("/proc/self/fd/{}", fd.as_raw_fd())).is_some()
}

/// Somebody can write there, or something is to be read.
fn is_of_use(fd: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    let is_over = poll(&mut asked, PollTimeout::ZERO).is_ok()
        && asked.iter().all(|asked| asked.revents() == Some(PollFlags::POLLHUP));
    !is_over
}

/// One of a pair that init has made itself: nobody else has put anything in.
fn may_be_a_stash(socket: BorrowedFd<'_>) -> bool {
    let own = nix::unistd::getpid().as_raw();
    getsockopt(&socket, sockopt::SockType).is_ok_and(|kind| kind == SockType::SeqPacket)
        && getsockopt(&socket, sockopt::PeerCredentials).is_ok_and(|peer| peer.pid() == own)
}

impl Pipes {
    /// What the image before had. Called before the rest of that is closed: its logger ends then.
    pub(crate) fn again() -> Pipes {
        let mut pipes = Pipes::default();
        let in_table = in_table();
        pipes.stashes = inherit::take_sockets(usize::MAX, may_be_a_stash);
        pipes.look();
        for number in in_table {
            if let Ok(fd) = inherit::take(number)
                && is_read_end(fd.as_fd())
            {
                pipes.add(fd, None);
            }
        }
        pipes
    }

    /// Those that none of these processes has open.
    pub(crate) fn unread(&self, helpers: &BTreeSet<i32>) -> Vec<BorrowedFd<'_>> {
        let read: BTreeSet<u64> = helpers.iter().flat_map(|pid| pipes_of(*pid)).collect();
        let unread = self.ends.iter().filter(|(inode, _)| !read.contains(inode));
        unread.map(|(_, end)| end.fd.as_fd()).collect()
    }

    /// What lies in the stashes; an empty one is none.
    fn look(&mut self) {
        self.is_cut = false;
        for socket in std::mem::take(&mut self.stashes) {
            let mut is_one = false;
            let looked = logger::look_into(socket.as_fd(), |ends| {
                is_one = true;
                ends.into_iter().for_each(|end| self.add(end.fd, Some(end.run)));
                true
            });
            self.is_cut |= looked.is_err();
            if is_one || looked.is_err() {
                self.stashes.push(socket);
            }
        }
    }

    fn add(&mut self, fd: OwnedFd, run: Option<RunId>) {
        let of_run = run.filter(|run| run.0 < RUNS);
        self.highest = self.highest.max(of_run.map_or(0, |run| run.0));
        let Some(inode) = inode(&fd) else { return };
        if self.seen.insert(inode) && is_of_use(&fd) {
            inherit::is_new(fd.as_fd());
            self.ends.insert(inode, End { fd, run, aside: None });
        } else if let (Some(end), Some(_)) = (self.ends.get_mut(&inode), of_run) {
            // It lies in that of another image too, which knew whose it is.
            end.run = of_run;
        }
    }

    /// The highest number of a run that had one.
    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// What this run writes into, or one of these processes.
    fn take(&mut self, run: Option<RunId>, pids: &BTreeSet<i32>) -> Option<End> {
        let is_it = |(_, end): &(&u64, &End)| run.is_some() && end.run == run;
        let of_run = self.ends.iter().find(is_it).map(|(inode, _)| *inode);
        let inode = of_run.or_else(|| {
            written_by(pids).map(|(_, inode)| inode).find(|inode| self.ends.contains_key(inode))
        })?;
        self.ends.remove(&inode)
    }

    /// What init had in its table.
    fn take_own(&mut self, inode: u64) -> Option<End> {
        let is_it = self.ends.get(&inode).is_some_and(|end| end.run.is_none());
        is_it.then(|| self.ends.remove(&inode)).flatten()
    }

    /// What one of these processes has open as this number, and init had in its table.
    fn take_open(&mut self, number: u16, pids: &BTreeSet<i32>) -> Option<End> {
        let pids = pids.iter().take(limit::WRITERS_LOOKED_AT);
        let mut inodes = pids.filter_map(|pid| pipe_at(&format!("/proc/{pid}/fd/{number}")));
        inodes.find_map(|inode| self.take_own(inode))
    }

    /// Those whose unit has no file just then, to go along with the state.
    pub(crate) fn ends(&self) -> &Ends {
        &self.ends
    }

    /// As an image before this one had them.
    pub(crate) fn of(ends: Ends) -> Pipes {
        Pipes { ends, ..Pipes::default() }
    }

    /// Of what was in the table these alone are of use to anybody.
    pub(crate) fn keep_own(&mut self, known: &BTreeSet<u64>) {
        self.ends.retain(|inode, end| end.run.is_some() || known.contains(inode));
    }

    /// All that these processes write into, and as which of their streams.
    fn take_all(&mut self, run: Option<RunId>, pids: &BTreeSet<i32>) -> Vec<(u8, End)> {
        if self.ends.is_empty() {
            return Vec::new();
        }
        let found = written_by(pids);
        let found = found.filter_map(|(stream, inode)| Some((stream, self.ends.remove(&inode)?)));
        let mut found: Vec<_> = found.collect();
        found.extend(self.take(run, &BTreeSet::new()).map(|end| (1, end)));
        found
    }
}

/// Numbers of pipes in the table of this process.
fn in_table() -> Vec<RawFd> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let pipes = paths.filter(|path| path.to_str().and_then(pipe_at).is_some());
    pipes.filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect()
}

impl Init {
    /// What the unit that is about to begin as this run writes into already.
    pub(crate) fn found_output(&mut self, run: RunId, name: &Name) -> Option<OwnedFd> {
        if !self.lineage.found.units.contains_key(name) {
            return None;
        }
        let pids = self.living_of(name);
        let end = self.lineage.found.pipes.take(Some(run), &pids)?;
        Some(self.own_end(end))
    }

    /// It is read as what it is from now on.
    fn own_end(&mut self, end: End) -> OwnedFd {
        if let (Some(aside), Some(logger)) = (end.aside, &mut self.logger) {
            logger.close(aside);
        }
        end.fd
    }

    /// What else this run writes into, which is taken up: pipes beside its own.
    pub(crate) fn found_asides(&mut self, run: RunId, spec: &Run, pids: &BTreeSet<i32>) {
        let Some(running) = self.runs.get(run) else { return };
        let (name, targets) = (running.name.clone(), running.targets.clone());
        for (stream, end) in self.lineage.found.pipes.take_all(None, pids) {
            let asked = spec.particular.as_ref().map(|particular| &particular.stdio);
            let asked = asked.map(|stdio| if stream == 1 { &stdio.output } else { &stdio.error });
            let log = if let Some(Output::As(log)) = asked { *log } else { spec.log };
            let told = run_log(self.next_aside(true), &name, &targets, spec, log);
            let end = self.own_end(end);
            self.read_on(RunLog { ready_grep: None, ..told }, end);
        }
    }

    /// Where this run, which is taken up, says that it is ready: it may have done so meanwhile.
    pub(crate) fn found_ready_pipe(
        &mut self,
        run: RunId,
        spec: &Run,
        standing: Option<&Standing>,
        pids: &BTreeSet<i32>,
    ) {
        let number = spec.particular.as_ref().and_then(|particular| particular.ready_fd);
        let Some(number) = number else { return };
        let pipes = &mut self.lineage.found.pipes;
        let written = standing.and_then(|standing| standing.ready);
        let end = written.and_then(|written| pipes.take_own(written));
        let Some(end) = end.or_else(|| pipes.take_open(number, pids)) else { return };
        self.hear_ready_again(run, end.fd);
    }

    /// The same where that is known.
    pub(crate) fn hear_ready_again(&mut self, run: RunId, read: OwnedFd) {
        if let Err(error) = self.hear_ready_from(run, read) {
            self.say(
                Level::Warning,
                format_args!("nobody hears when run {} is ready: {error}", run.0),
            );
        }
    }

    /// The unit files can not be had yet: nobody is to wait for a reader until they can.
    pub(crate) fn read_meanwhile(&mut self) {
        for (name, end) in self.named_pipes() {
            let Ok(copy) = end.fd.try_clone() else { continue };
            let aside = end.aside.unwrap_or_else(|| self.read_as_of(&name, copy));
            if let Some(inode) = inode(&end.fd) {
                let end = End { aside: Some(aside), ..end };
                self.lineage.found.pipes.ends.insert(inode, end);
            }
        }
    }

    /// With the boot: what no unit has taken has a reader too, for whoever writes there lives.
    pub(crate) fn keep_pipes(&mut self) {
        self.keep_named();
        if self.lineage.found.pipes.is_cut {
            self.lineage.found.pipes.look();
            self.keep_named();
        }
        let known = self.lineage.found.ready_ends();
        let pipes = &mut self.lineage.found.pipes;
        pipes.keep_own(&known);
        // What had no room this time either has none to write to, but is not ended for it.
        if !pipes.is_cut {
            let ends = std::mem::take(&mut pipes.ends);
            *pipes = Pipes { ends, ..Pipes::default() };
        }
    }

    fn keep_named(&mut self) {
        for (name, end) in self.named_pipes() {
            if end.aside.is_none() {
                self.read_as_of(&name, end.fd);
            }
        }
        let now = self.now;
        if let Some(logger) = &mut self.logger {
            logger.flush(now);
        }
    }

    /// All that are left and surely services', by the name of the unit as far as it is known.
    fn named_pipes(&mut self) -> Vec<(Name, End)> {
        let found = &self.lineage.found;
        let of_units = found.units.keys().map(|name| (name.clone(), None, self.living_of(name)));
        let of_none = found.cgroups.iter().filter_map(|left| {
            let living = self.tracker.living_in(&left.name);
            Some((Name::new(&left.unit).ok()?, left.run, living))
        });
        let all: Vec<_> = of_units.chain(of_none).collect();
        let mut named = Vec::new();
        for (name, run, pids) in all {
            let ends = self.lineage.found.pipes.take_all(run, &pids).into_iter();
            named.extend(ends.map(|(_, end)| (name.clone(), end)));
        }
        let ends = std::mem::take(&mut self.lineage.found.pipes.ends).into_iter();
        // What was in the table may be anything: another look may tell.
        let (rest, unknown): (BTreeMap<_, _>, BTreeMap<_, _>) =
            ends.partition(|(_, end)| end.run.is_none());
        self.lineage.found.pipes.ends = rest;
        for (count, end) in unknown.into_values().enumerate() {
            // The logger has so many of one name, and closes what is more.
            let name = Name::new(&format!("unknown-{}", 1 + count / limit::UNKNOWN_PIPES));
            named.extend(name.ok().map(|name| (name, end)));
        }
        named
    }

    fn read_as_of(&mut self, unit: &Name, end: OwnedFd) -> RunId {
        let run = self.next_aside(false);
        let targets = std::sync::Arc::from([unit.clone()]);
        let (unit, tag) = (unit.clone(), String::new());
        let (log, priority) = (Log::File, LogPriority::default());
        let ready_grep = None;
        self.read_on(
            RunLog { run, unit, targets, log, tag, priority, blocks: false, ready_grep },
            end,
        );
        run
    }

    fn read_on(&mut self, told: RunLog, end: OwnedFd) {
        if let Some(logger) = &mut self.logger {
            logger.take_up(told, Some(end));
        }
    }
}
