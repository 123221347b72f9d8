//! What PID 1 knows of the logger: its process, what it was told, and what it has yet to be
//! told. No call waits; what the logger does not take now is told when its socket is
//! writable. PID 1 reads no byte a service wrote.
//!
//! A turn of the loop: [`Handle::pipe_for`] for each start, [`Handle::flush`] at the end;
//! [`Handle::reports`] when the socket is readable; [`Handle::tick`] at [`Handle::deadline`];
//! [`Handle::look`] at a SIGCHLD, [`Handle::ended`] when the process was reaped.
//!
//! When the logger has ended, another one is started and given every pipe anew (see
//! [`super::pipe_keeper`]). No line of a file is lost or doubled by that (see [`super::pending_buffer`]). Lost is
//! what waited for other ways out (its [lanes](super::sinks)), and its tails.

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
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

fn delay() -> Duration {
    limit::RESTART_DELAY
}

/// PID 1's side of the logger.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Handle {
    settings: Settings,
    #[serde(default)]
    pub(super) files_open: bool,
    listener: Option<KeptFd<OwnedFd>>,
    /// The present logger has not been given it.
    #[serde(skip)]
    listener_is_new: bool,
    pub(super) link: Option<Link>,
    /// A logger of an earlier image that was killed. The next one starts once it has ended: a file has one writer.
    #[serde(skip)]
    predecessor: Option<Pid>,
    /// When to start the next one, if none is there.
    pub(super) start_at: Option<Time>,
    /// The pause before the next start.
    #[serde(default = "delay")]
    delay: Duration,
    pub(super) stash: Stash,
    /// What a logger has taken and not yet written.
    stage: Option<Stage>,
    /// Runs whose pipe is not known to be at its end.
    #[serde(skip)]
    pub(crate) runs: Table<RunId, Box<RunLog>>,
    /// Those of them the present logger has not been told.
    #[serde(default)]
    pub(super) untold: BTreeSet<RunId>,
    /// Read ends of this turn.
    #[serde(default)]
    pub(super) fresh: Vec<ReadEnd>,
    /// The last of them, which no commit knows yet.
    #[serde(skip)]
    uncommitted: usize,
    /// Ends seen since the stash was last packed.
    #[serde(default)]
    pub(super) dead: usize,
    #[serde(skip)]
    pub(super) crowd: Crowd,
    #[serde(default)]
    pub(super) finishing: bool,
}

impl Handle {
    /// Nothing is started yet. `listener` is `log.sock`, listening and non-blocking.
    pub(crate) fn new(settings: Settings, listener: Option<OwnedFd>) -> io::Result<Handle> {
        Ok(Handle {
            settings,
            files_open: false,
            listener: listener.map(KeptFd::from),
            listener_is_new: false,
            link: None,
            predecessor: None,
            start_at: None,
            delay: limit::RESTART_DELAY,
            stash: Stash::new()?,
            // Without one a logger that is killed loses what it has not yet written.
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
            // A limit of file sizes is an error of the file it stands before.
            let _ = sys::signal::ignore(sys::signal::XFSZ);
            process::run(&theirs, listener, stage, self.settings.clone())
        })?;
        Ok((pid, ours))
    }

    /// The socket to the logger, for the loop.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(Link::socket)
    }

    /// Waits for the end of this process before it starts another logger.
    pub(crate) fn wait_for(&mut self, predecessor: Pid) {
        self.predecessor = Some(predecessor);
    }

    /// SIGCHLD came: a logger that a signal has stopped is killed, or services would wait for it.
    pub(crate) fn look(&mut self, now: Time) {
        if let Some(link) = &mut self.link
            && wait::is_stopped(link.pid)
        {
            link.kill(now);
        }
    }

    /// When [`Handle::tick`] has something to do.
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
        if link.was_killed_twice() { Ticked::DoesNotEnd(link.pid) } else { Ticked::Nothing }
    }

    /// The logger's process.
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.link.as_ref().map(|link| link.pid)
    }

    /// Descriptors of PID 1's table that keep runs' pipes.
    #[cfg(test)]
    pub(crate) fn table_entries(&self) -> usize {
        self.stash.table_entries()
    }

    /// A new pipe for a run: what is given is the write end, for stdout and stderr together.
    /// It blocks its writer when full, as services expect; it is close-on-exec.
    ///
    /// # Errors
    /// Those of pipe(2): EMFILE, ENFILE; EINVAL: the pattern is longer than the core allows.
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
        self.grew();
        Ok(write)
    }

    /// The newest pipe stays here until the next commit. A crash before it takes back the run, and another
    /// run gets that number: the logger must not know the number yet.
    pub(crate) fn hold(&mut self) {
        self.uncommitted = self.uncommitted.saturating_add(1);
    }

    /// All pipes are part of the committed state.
    pub(crate) fn committed(&mut self) {
        self.uncommitted = 0;
    }

    /// Passes on what fills a message.
    pub(crate) fn pass_on(&mut self, now: Time) {
        if self.fresh.len() >= limit::FDS_A_MESSAGE {
            self.flush(now);
        }
    }

    /// [`Handle::flush`] has something to do.
    pub(crate) fn has_to_tell(&self) -> bool {
        let link = self.link.as_ref();
        let owes = link.is_some_and(|link| link.is_behind() || link.has_to_ask());
        owes || self.listener_is_new || !self.fresh.is_empty() || !self.untold.is_empty()
    }

    /// [`Handle::reports`] has something to do.
    pub(crate) fn may_report(&self) -> bool {
        let link = self.link.as_ref();
        let speaks = link.is_some_and(|link| link.may_say() || link.is_gone().is_some());
        speaks || !self.crowd.said.is_empty() || self.has_to_tell()
    }

    /// Tells the logger what it has not been told. At the end of each turn, and when its
    /// socket became writable.
    pub(crate) fn flush(&mut self, now: Time) {
        let known = self.fresh.len().saturating_sub(self.uncommitted);
        let uncommitted = self.fresh.split_off(known);
        while !self.fresh.is_empty() {
            let rest = self.fresh.split_off(self.fresh.len().min(limit::FDS_A_MESSAGE));
            let batch = std::mem::replace(&mut self.fresh, rest);
            self.untold.extend(batch.iter().map(|end| end.run));
            if let Some(link) = self.link.as_mut().filter(|link| !link.is_behind()) {
                tell(link, &self.runs, &mut self.untold, &batch);
            }
            self.stash.put(batch);
        }
        self.fresh = uncommitted;
        if let Some(link) = &mut self.link {
            link.flush();
        }
        self.hand_listener();
        self.tell_again();
        if let Some(link) = &mut self.link {
            link.ask(now, !self.untold.is_empty());
        }
    }

    /// Goes through the stash until each untold run is told or the logger takes no more.
    fn tell_again(&mut self) {
        let Handle { stash, link: Some(link), runs, untold, .. } = self else { return };
        if !untold.is_empty() {
            stash.show(|ends| {
                !untold.is_empty() && !link.is_behind() && tell(link, runs, untold, ends)
            });
        }
    }

    pub(super) fn order(&mut self, order: &Order) {
        if let Some(link) = &mut self.link {
            link.order(order);
        }
    }

    /// What the logger has said.
    pub(crate) fn reports(&mut self, now: Time) -> Vec<Report> {
        let mut reports = std::mem::take(&mut self.crowd.said);
        while let Some(report) = self.link.as_mut().and_then(|link| link.hear()) {
            match report {
                Report::Ready(run) => {
                    if let Some(log) = self.runs.get_mut(&run) {
                        log.ready_grep = None;
                    }
                }
                Report::Ended(run) => self.over(run),
                Report::Drained(_)
                | Report::Finished
                | Report::Pong(_)
                | Report::Trouble(..)
                | Report::Crowded(_)
                | Report::Lost(_) => {}
            }
            reports.push(report);
        }
        if let Some(pid) = self.link.as_ref().and_then(Link::is_gone) {
            self.ended(pid, now);
        }
        let behind = self.link.as_ref().is_some_and(Link::is_behind);
        if !self.untold.is_empty() || self.listener_is_new || behind {
            self.flush(now);
        }
        reports
    }

    fn over(&mut self, run: RunId) {
        if self.runs.remove(&run).is_none() {
            return;
        }
        self.untold.remove(&run);
        self.dead += 1;
        if self.dead > limit::FDS_A_MESSAGE && 2 * self.dead > self.stash.len() {
            self.repack();
        }
    }

    /// Asks the logger to read what this run's pipe holds; [`Report::Drained`] follows, or
    /// nothing (PID 1 waits for it a bounded time). False: there is nothing to wait for.
    pub(crate) fn drain(&mut self, run: RunId, now: Time) -> bool {
        if self.link.is_none() || !self.runs.contains_key(&run) {
            return false;
        }
        self.flush(now);
        self.order(&Order::Drain(run));
        self.flush(now);
        true
    }

    /// `log-dir-after` is active, or there is none: log files may be opened.
    pub(crate) fn open_files(&mut self, now: Time) {
        if !self.files_open {
            self.files_open = true;
            self.order(&Order::OpenFiles);
            self.flush(now);
        }
    }

    /// After a reload.
    pub(crate) fn set(&mut self, settings: Settings, now: Time) {
        if self.settings != settings {
            self.settings = settings.clone();
            self.order(&Order::Settings(settings));
            self.flush(now);
        }
    }

    /// `log.sock` was made anew.
    pub(crate) fn listen(&mut self, listener: OwnedFd) {
        self.listener = Some(listener.into());
        self.listener_is_new = true;
        self.hand_listener();
    }

    /// A logger that does not take it now is given it with the next flush, or from its start on.
    fn hand_listener(&mut self) {
        if let (Some(link), Some(listener)) = (&mut self.link, &self.listener)
            && self.listener_is_new
        {
            let given = link.hand(&Order::Listen, &[listener.as_fd()]);
            self.listener_is_new = given.is_err();
        }
    }

    /// The last order of a shutdown: [`Report::Finished`] follows, then the process ends and
    /// no other is started. False: there is none to wait for.
    pub(crate) fn finish(&mut self, now: Time) -> bool {
        self.flush(now);
        self.finishing = true;
        self.start_at = None;
        self.order(&Order::Finish);
        self.flush(now);
        self.link.is_some()
    }

    /// A child was reaped: true if it was the logger, which is then replaced at
    /// [`Handle::deadline`].
    pub(crate) fn ended(&mut self, pid: Pid, now: Time) -> bool {
        let Some(link) = self.link.take_if(|link| link.pid == pid) else { return false };
        if !self.finishing {
            if now.since(link.started) >= limit::STEADY {
                self.delay = limit::RESTART_DELAY;
                self.start_at = Some(now);
            } else {
                self.later(now);
            }
        }
        true
    }

    /// After a crash: the pipes that the stash holds are not those of the committed state.
    pub(crate) fn reconcile(&mut self) {
        let there = self.stash.recount();
        self.fresh.retain(|end| !there.contains(&end.run));
        // The logger may not have been told of a pipe in the stash. Told twice, it heeds the first.
        self.untold.extend(there.into_iter().filter(|run| self.runs.contains_key(run)));
        if let Some(link) = &mut self.link {
            link.owes_nothing();
        }
    }

    /// In another root: the next logger sees that root, and opens its files when it is told to.
    pub(crate) fn replace(&mut self, now: Time) {
        self.files_open = false;
        if let Some(link) = &mut self.link {
            link.kill(now);
        }
    }

    fn later(&mut self, now: Time) {
        self.start_at = Some(now.after(self.delay));
        self.delay = (self.delay * 2).min(limit::RESTART_DELAY_MAX);
    }
}

/// Sends these read ends to the logger, of runs it has not been told; true if all were taken.
fn tell(
    link: &mut Link,
    runs: &BTreeMap<RunId, Box<RunLog>>,
    untold: &mut BTreeSet<RunId>,
    ends: &[ReadEnd],
) -> bool {
    let mut told = true;
    let mut rest = ends;
    while !rest.is_empty() {
        let (mut logs, mut fds, mut bytes, mut taken) = (Vec::new(), Vec::new(), 0, 0);
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

/// Bytes this run takes in a message.
fn size(log: &RunLog) -> usize {
    fields::encode(log).map_or(0, |bytes| bytes.len())
}

// Pipes of runs that are over and that somebody still has open: a process that was left, or one that was
// handed the pipe by a unit. Each takes descriptors of the logger; so a unit has so many, and
// those of its oldest runs are closed.

/// Of the number of a pipe aside: unset, it is of a stream of a start.
const OF_A_START: u64 = 1 << 62;

/// The number of a pipe aside, from one that is counted down.
pub(crate) fn aside(number: u64, of_a_start: bool) -> RunId {
    RunId(if of_a_start { number & !OF_A_START } else { number })
}

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// Pipes made.
    made: usize,
    /// To be told with what the logger reports.
    pub(super) said: Vec<Report>,
}

impl Handle {
    /// One pipe more was made. From time to time all of them are looked at.
    pub(super) fn grew(&mut self) {
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
        // Whoever writes there is to be told that nobody reads.
        self.repack();
    }

    /// What this holds is read, and then no more of it as this.
    pub(crate) fn close(&mut self, run: RunId) {
        self.order(&Order::Close(run));
        self.runs.remove(&run);
        self.untold.remove(&run);
    }

    /// Lets go of the read ends of runs that are not known any more.
    pub(super) fn repack(&mut self) {
        let runs = &self.runs;
        self.fresh.retain(|end| runs.contains_key(&end.run));
        self.stash.repack(|run| runs.contains_key(&run));
        self.dead = 0;
    }

    /// Of each unit that has too many, the oldest.
    pub(super) fn surplus(&self) -> Vec<(Name, Vec<RunId>)> {
        // What is not a run's own is counted down, and of two kinds: the streams of a main process
        // that lives are not the oldest of the lines beside it.
        let kind = |run: RunId| (run.0 > u64::MAX / 2, run.0 & OF_A_START);
        let mut of_unit: BTreeMap<(&Name, (bool, u64)), Vec<RunId>> = BTreeMap::new();
        for log in self.runs.values() {
            of_unit.entry((&log.unit, kind(log.run))).or_default().push(log.run);
        }
        let too_many = |((unit, (aside, _)), mut runs): ((&Name, (bool, u64)), Vec<RunId>)| {
            if aside {
                runs.reverse();
            }
            runs.truncate(runs.len().saturating_sub(limit::PIPES_OF_A_UNIT));
            (!runs.is_empty()).then(|| (unit.clone(), runs))
        };
        of_unit.into_iter().filter_map(too_many).collect()
    }
}
