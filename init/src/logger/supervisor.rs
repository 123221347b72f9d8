//! PID 1's side of the logger: its process, the messages sent to it, and those pending. No call
//! blocks. Messages that the logger does not accept now are sent when its socket is writable. PID 1
//! reads no output of services.
//!
//! A turn of the loop calls [`Handle::pipe_for`] for each start and [`Handle::flush`] at the end.
//! It calls [`Handle::reports`] when the socket is readable, [`Handle::tick`] at
//! [`Handle::deadline`], [`Handle::kill_if_stopped`] at a SIGCHLD, and [`Handle::ended`] when the
//! process was reaped.
//!
//! When the logger has exited, PID 1 starts another one and passes every pipe to it (see
//! [`super::pipe_keeper`]). Log files lose and duplicate no line (see [`super::pending_buffer`]).
//! Lines queued for other [destinations](super::sinks) and the tails are lost.

use super::channel::{Link, Order, Report, RunLog, Settings, Ticked};
use super::pending_buffer::Stage;
use super::pipe_keeper::{ReadEnd, Stash};
use super::{limit, process};
use crate::state::carried::KeptFd;
use crate::state::table::Table;
use crate::sys;
use crate::sys::{Pid, wait};
use groundstate_units::limit::READY_GREP;
use groundstate_units::machine::event::RunId;
use groundstate_units::text::fields;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// PID 1's side of the logger.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Handle {
    settings: Settings,
    #[serde(default)]
    pub(super) files_open: bool,
    listener: Option<KeptFd<OwnedFd>>,
    /// True if the present logger has not got the listener.
    #[serde(skip)]
    listener_is_new: bool,
    pub(super) link: Option<Link>,
    /// A killed logger of an earlier image. The next one starts once it has exited, because a file
    /// has one writer.
    #[serde(skip)]
    predecessor: Option<Pid>,
    /// The time of the next start, if none is running.
    pub(super) start_at: Option<Time>,
    /// The last pause before a start; zero after a steady run.
    #[serde(default)]
    delay: Duration,
    pub(super) stash: Stash,
    /// Lines that a logger has read and not written.
    stage: Option<Stage>,
    /// Runs whose pipe may still have output.
    #[serde(skip)]
    pub(crate) runs: Table<RunId, Box<RunLog>>,
    /// Runs that the present logger does not know.
    #[serde(default)]
    pub(super) untold: BTreeSet<RunId>,
    /// Read ends of this turn.
    #[serde(default)]
    pub(super) fresh: Vec<ReadEnd>,
    /// The number of read ends at the end of `fresh` that are not committed yet.
    #[serde(skip)]
    uncommitted: usize,
    /// Runs ended since the stash was last packed.
    #[serde(default)]
    pub(super) dead: usize,
    #[serde(skip)]
    pub(super) crowd: Crowd,
    #[serde(default)]
    pub(super) finishing: bool,
}

impl Handle {
    /// Starts nothing yet. `listener` is `log.sock`, listening and non-blocking.
    pub(crate) fn new(settings: Settings, listener: Option<OwnedFd>) -> io::Result<Handle> {
        Ok(Handle {
            settings,
            files_open: false,
            listener: listener.map(KeptFd::from),
            listener_is_new: false,
            link: None,
            predecessor: None,
            start_at: None,
            delay: Duration::ZERO,
            stash: Stash::new()?,
            // Without a stage, a killed logger loses lines that it has not written.
            stage: Stage::new().ok(),
            runs: Table::default(),
            untold: BTreeSet::new(),
            fresh: Vec::new(),
            uncommitted: 0,
            dead: 0,
            crowd: Crowd::default(),
            finishing: false,
        })
    }

    /// Forks the logger. PID 1 then waits for [`Handle::socket`] to be readable or writable.
    pub(crate) fn start(&mut self, now: Time) -> io::Result<Pid> {
        self.start_at = None;
        match self.fork() {
            Ok((pid, socket)) => {
                self.link = Some(Link::new(pid, socket, now));
                self.listener_is_new = false;
                self.untold = self.runs.keys().copied().collect();
                if self.files_open {
                    self.order(&Order::OpenFiles);
                }
                self.flush(now);
                Ok(pid)
            }
            Err(error) => {
                self.later(now);
                Err(error)
            }
        }
    }

    fn fork(&mut self) -> io::Result<(Pid, OwnedFd)> {
        if self.predecessor.is_some_and(wait::is_living_child) {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        self.predecessor = None;
        let (ours, theirs) = sys::socket::pair()?;
        let listener = self.listener.as_deref();
        let stage = self.stage.as_ref();
        let mut kept: Vec<BorrowedFd<'_>> =
            std::iter::once(&theirs).chain(listener).map(AsFd::as_fd).collect();
        kept.extend(stage.iter().flat_map(|stage| stage.fds()));
        let pid = sys::process::fork(&kept, || {
            // A file size limit then fails a write instead of killing the logger.
            let _ = sys::signal::ignore(Signal::SIGXFSZ);
            process::run(&theirs, listener, stage, self.settings.clone())
        })?;
        Ok((pid, ours))
    }

    /// The socket to the logger, for the poll.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(Link::socket)
    }

    /// Waits for the exit of this process before it starts another logger.
    pub(crate) fn wait_for(&mut self, predecessor: Pid) {
        self.predecessor = Some(predecessor);
    }

    /// Handles SIGCHLD: kills a logger that a signal has stopped, because services would wait for
    /// it.
    pub(crate) fn kill_if_stopped(&mut self, now: Time) {
        if let Some(link) = &mut self.link
            && wait::is_stopped(link.pid)
        {
            link.kill(now);
        }
    }

    /// The time at which [`Handle::tick`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let silent = self.link.as_ref().and_then(Link::silent_at);
        [silent, self.start_at].into_iter().flatten().min()
    }

    /// Kills a silent logger; starts the next one when it is time.
    pub(crate) fn tick(&mut self, now: Time) -> Ticked {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Ticked::Nothing;
        }
        let Some(link) = &mut self.link else {
            return if self.start(now).is_ok() { Ticked::Started } else { Ticked::Nothing };
        };
        link.kill(now);
        if link.killed == 2 { Ticked::DoesNotEnd(link.pid) } else { Ticked::Nothing }
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        self.link.as_ref().map(|link| link.pid)
    }

    /// Number of descriptors in PID 1's table that keep runs' pipes.
    #[cfg(test)]
    pub(crate) fn table_entries(&self) -> usize {
        self.stash.table_entries()
    }

    /// Creates a pipe for a run and returns the write end, for stdout and stderr. It blocks its
    /// writer when full, as services expect, and is close-on-exec.
    ///
    /// # Errors
    /// Those of pipe(2): EMFILE, ENFILE. EINVAL if the pattern is longer than [`READY_GREP`].
    pub(crate) fn pipe_for(&mut self, mut log: RunLog) -> io::Result<OwnedFd> {
        if log.ready_grep.as_ref().is_some_and(|pattern| pattern.len() > READY_GREP) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&read, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let mut bytes = 0;
        let fits = |target: &&Name| {
            bytes += target.as_str().len();
            bytes <= limit::TARGET_NAMES
        };
        let told = log.targets.iter().take_while(fits).count();
        if let Some(told) = log.targets.get(..told).filter(|told| told.len() < log.targets.len()) {
            log.targets = told.into();
        }
        self.fresh.push(ReadEnd { run: log.run, fd: read.into() });
        self.runs.insert(log.run, Box::new(log));
        self.count_pipe();
        Ok(write)
    }

    /// Keeps the newest pipe here until the next commit. A crash before it discards the run, and
    /// another run gets its id, so the logger must not know it yet.
    pub(crate) fn hold(&mut self) {
        self.uncommitted = self.uncommitted.saturating_add(1);
    }

    /// Notes that all pipes are part of the committed state.
    pub(crate) fn note_commit(&mut self) {
        self.uncommitted = 0;
    }

    /// Passes on read ends that fill a message.
    pub(crate) fn pass_on(&mut self, now: Time) {
        if self.fresh.len() >= limit::FDS_A_MESSAGE {
            self.flush(now);
        }
    }

    /// Returns true if [`Handle::flush`] has something to do.
    pub(crate) fn has_to_flush(&self) -> bool {
        let link = self.link.as_ref();
        let owes = link.is_some_and(|link| link.is_behind() || link.has_to_ping());
        owes || self.listener_is_new || !self.fresh.is_empty() || !self.untold.is_empty()
    }

    /// Returns true if [`Handle::reports`] has something to do.
    pub(crate) fn may_report(&self) -> bool {
        let link = self.link.as_ref();
        let speaks = link.is_some_and(|link| link.may_say() || link.gone_pid().is_some());
        speaks || !self.crowd.said.is_empty() || self.has_to_flush()
    }

    /// Sends pending messages to the logger. Runs at the end of each turn, and when its socket is
    /// writable.
    pub(crate) fn flush(&mut self, now: Time) {
        let known = self.fresh.len().saturating_sub(self.uncommitted);
        let uncommitted = self.fresh.split_off(known);
        while !self.fresh.is_empty() {
            let rest = self.fresh.split_off(self.fresh.len().min(limit::FDS_A_MESSAGE));
            let batch = std::mem::replace(&mut self.fresh, rest);
            self.untold.extend(batch.iter().map(|end| end.run));
            if let Some(link) = self.link.as_mut().filter(|link| !link.is_behind()) {
                send_read_ends(link, &self.runs, &mut self.untold, &batch);
            }
            self.stash.put(batch);
        }
        self.fresh = uncommitted;
        if let Some(link) = &mut self.link {
            link.flush();
        }
        self.hand_listener();
        self.send_stash();
        if let Some(link) = &mut self.link {
            link.ping(now, !self.untold.is_empty());
        }
    }

    /// Goes through the stash until the logger knows every run or accepts no more.
    fn send_stash(&mut self) {
        let Handle { stash, link: Some(link), runs, untold, .. } = self else { return };
        if !untold.is_empty() {
            stash.show(|ends| {
                !untold.is_empty() && !link.is_behind() && send_read_ends(link, runs, untold, ends)
            });
        }
    }

    pub(super) fn order(&mut self, order: &Order) {
        if let Some(link) = &mut self.link {
            link.order(order);
        }
    }

    /// The reports of the logger.
    pub(crate) fn reports(&mut self, now: Time) -> Vec<Report> {
        let mut reports = std::mem::take(&mut self.crowd.said);
        while let Some(report) = self.link.as_mut().and_then(|link| link.hear()) {
            if let Report::Ready(run) = report
                && let Some(log) = self.runs.get_mut(&run)
            {
                log.ready_grep = None;
            }
            if let Report::Ended(run) = report {
                self.remove_run(run);
            }
            reports.push(report);
        }
        if let Some(pid) = self.link.as_ref().and_then(Link::gone_pid) {
            self.ended(pid, now);
        }
        let behind = self.link.as_ref().is_some_and(Link::is_behind);
        if !self.untold.is_empty() || self.listener_is_new || behind {
            self.flush(now);
        }
        reports
    }

    fn remove_run(&mut self, run: RunId) {
        if self.runs.remove(&run).is_none() {
            return;
        }
        self.untold.remove(&run);
        self.dead += 1;
        if self.dead > limit::FDS_A_MESSAGE && 2 * self.dead > self.stash.len() {
            self.repack();
        }
    }

    /// Asks the logger to read the content of this run's pipe. [`Report::Drained`] follows, or
    /// nothing (PID 1 waits a bounded time). Returns false if there is nothing to wait for.
    pub(crate) fn drain(&mut self, run: RunId, now: Time) -> bool {
        if self.link.is_none() || !self.runs.contains_key(&run) {
            return false;
        }
        self.flush(now);
        self.order(&Order::Drain(run));
        self.flush(now);
        true
    }

    /// Lets the logger open files: `log-dir-after` is active or not set.
    pub(crate) fn open_files(&mut self, now: Time) {
        if !self.files_open {
            self.files_open = true;
            self.order(&Order::OpenFiles);
            self.flush(now);
        }
    }

    /// Applies new settings after a reload.
    pub(crate) fn set(&mut self, settings: Settings, now: Time) {
        if self.settings != settings {
            self.settings = settings.clone();
            self.order(&Order::Settings(settings));
            self.flush(now);
        }
    }

    /// Passes a new `log.sock` to the logger.
    pub(crate) fn listen(&mut self, listener: OwnedFd) {
        self.listener = Some(listener.into());
        self.listener_is_new = true;
        self.hand_listener();
    }

    /// Passes the listener. If the logger does not accept it now, it gets it with the next flush or
    /// at its start.
    fn hand_listener(&mut self) {
        if let (Some(link), Some(listener)) = (&mut self.link, &self.listener)
            && self.listener_is_new
        {
            let given = link.hand(&Order::Listen, &[listener.as_fd()]);
            self.listener_is_new = given.is_err();
        }
    }

    /// Sends the last order of a shutdown. [`Report::Finished`] follows, then the process exits and
    /// is not replaced. Returns false if there is no logger to wait for.
    pub(crate) fn finish(&mut self, now: Time) -> bool {
        self.flush(now);
        self.finishing = true;
        self.start_at = None;
        self.order(&Order::Finish);
        self.flush(now);
        self.link.is_some()
    }

    /// Handles a reaped child. Returns true if it was the logger, which is then replaced at
    /// [`Handle::deadline`].
    pub(crate) fn ended(&mut self, pid: Pid, now: Time) -> bool {
        let Some(link) = self.link.take_if(|link| link.pid == pid) else { return false };
        if !self.finishing {
            if now.since(link.started) >= limit::STEADY {
                self.delay = Duration::ZERO;
                self.start_at = Some(now);
            } else {
                self.later(now);
            }
        }
        true
    }

    /// After a crash, compares the pipes in the stash with those of the committed state.
    pub(crate) fn reconcile(&mut self) {
        let there = self.stash.recount();
        self.fresh.retain(|end| !there.contains(&end.run));
        // The logger may not know a pipe in the stash. It ignores a run that it knows already.
        self.untold.extend(there.into_iter().filter(|run| self.runs.contains_key(run)));
        if let Some(link) = &mut self.link {
            link.asked = None;
        }
    }

    /// Replaces the logger after a change of the root. The next one opens its files in the new root
    /// when it is told to.
    pub(crate) fn replace(&mut self, now: Time) {
        self.files_open = false;
        if let Some(link) = &mut self.link {
            link.kill(now);
        }
    }

    fn later(&mut self, now: Time) {
        self.delay = (self.delay * 2).clamp(limit::RESTART_DELAY, limit::RESTART_DELAY_MAX);
        self.start_at = Some(now.after(self.delay));
    }
}

/// Bytes of [`Order::Read`] before and after its runs, at most.
const HEAD: usize = 16;

/// Sends read ends of runs that the logger does not know. Returns true if all were accepted.
fn send_read_ends(
    link: &mut Link,
    runs: &BTreeMap<RunId, Box<RunLog>>,
    untold: &mut BTreeSet<RunId>,
    ends: &[ReadEnd],
) -> bool {
    let mut told = true;
    let mut rest = ends;
    while !rest.is_empty() {
        let (mut logs, mut fds, mut bytes, mut taken) = (Vec::new(), Vec::new(), HEAD, 0);
        for end in rest {
            let log = runs.get(&end.run).map(Box::as_ref);
            let log = log.filter(|log| untold.contains(&log.run));
            let size = log.map_or(0, size);
            if !logs.is_empty() && bytes + size > limit::MESSAGE {
                break;
            }
            if let Some(log) = log {
                logs.push(log.clone());
                fds.push(end.fd.as_fd());
            }
            bytes += size;
            taken += 1;
        }
        rest = rest.get(taken..).unwrap_or_default();
        if logs.is_empty() {
            continue;
        }
        let runs: Vec<RunId> = logs.iter().map(|log| log.run).collect();
        match link.hand(&Order::Read(logs), &fds) {
            Ok(()) => untold.retain(|run| !runs.contains(run)),
            Err(_) => told = false,
        }
    }
    told
}

/// Upper bound of this run's size in a message.
fn size(log: &RunLog) -> usize {
    fields::encode(log).map_or(0, |bytes| bytes.len())
}

// Pipes of ended runs that a remaining process holds open
//
// Each takes descriptors of the logger. So their number is limited for each unit, and the oldest
// are closed.

/// A bit of the log ids of helper pipes. It is clear for an output of a start, and set for that of
/// a helper command.
const OF_A_HELPER_COMMAND: u64 = 1 << 62;

/// The log id of a helper pipe, from a number that is counted down.
pub(crate) fn helper_log_id(number: u64, of_a_start: bool) -> RunId {
    RunId(if of_a_start { number & !OF_A_HELPER_COMMAND } else { number })
}

/// When that limit is checked next, and what the check has to report.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// Pipes created.
    made: usize,
    /// Reports to add to those of the logger.
    pub(super) said: Vec<Report>,
}

impl Handle {
    /// Counts a new pipe. From time to time, checks the limit for all units.
    pub(super) fn count_pipe(&mut self) {
        self.crowd.made = self.crowd.made.wrapping_add(1);
        if !self.crowd.made.is_multiple_of(limit::PIPES_OF_A_UNIT) || self.link.is_none() {
            return;
        }
        let surplus = self.surplus();
        if surplus.is_empty() {
            return;
        }
        for (unit, runs) in surplus {
            for run in runs {
                self.close(run);
            }
            self.crowd.said.push(Report::Crowded(unit));
        }
        // A writer to a closed pipe must get SIGPIPE, so the read end goes too.
        self.repack();
    }

    /// Closes a pipe after its present content is read.
    pub(crate) fn close(&mut self, run: RunId) {
        self.order(&Order::Close(run));
        self.runs.remove(&run);
        self.untold.remove(&run);
    }

    /// Drops the read ends of unknown runs.
    pub(super) fn repack(&mut self) {
        let runs = &self.runs;
        self.fresh.retain(|end| runs.contains_key(&end.run));
        self.stash.repack(|run| runs.contains_key(&run));
        self.dead = 0;
    }

    /// The oldest runs of each unit that has too many.
    pub(super) fn surplus(&self) -> Vec<(Name, Vec<RunId>)> {
        // Ids of helper pipes are counted down, so the highest is the oldest. The outputs of starts
        // are counted apart from those of helper commands. Otherwise the output of a main process
        // that still runs would be the oldest, and be closed.
        let kind = |run: RunId| (run.0 > u64::MAX / 2, run.0 & OF_A_HELPER_COMMAND);
        let mut of_unit: BTreeMap<(&Name, (bool, u64)), Vec<RunId>> = BTreeMap::new();
        for log in self.runs.values() {
            of_unit.entry((&log.unit, kind(log.run))).or_default().push(log.run);
        }
        let too_many = |((unit, (is_helper, _)), mut runs): ((&Name, (bool, u64)), Vec<RunId>)| {
            if is_helper {
                runs.reverse();
            }
            runs.truncate(runs.len().saturating_sub(limit::PIPES_OF_A_UNIT));
            (!runs.is_empty()).then(|| (unit.clone(), runs))
        };
        of_unit.into_iter().filter_map(too_many).collect()
    }
}
