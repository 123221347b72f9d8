//! The logger's process: one loop over PID 1's orders, the runs' pipes and `log.sock`. When idle it
//! wakes only for a line without its end ([`Unfinished`]). Work that may block is behind a lane of
//! [`super::sinks`].

use super::channel::{Order, Report, RunLog, Settings, decode, send_reports};
use super::clients::{Clients, Readers};
use super::pending_buffer::{Intake, Stage};
use super::query::{self, Context};
use super::sinks::{Lines, Out, Room};
use super::stream::Stream;
use super::units::Units;
use super::{files, limit};
use crate::base::token;
use crate::sys;
use groundstate_units::control::log_line::Prefix;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Log;
use mio::unix::SourceFd;
use mio::{Events, Poll, Token, Waker};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ORDERS: Token = Token(0);
const LANES: Token = Token(1);
const LISTENER: Token = Token(2);
const FIRST_PIPE: usize = LISTENER.0 + 1 + limit::CLIENTS;

/// Reads of pipes between two checks of everything else.
const READS_A_TURN: usize = 64;

/// Runs the logger, in a fresh fork of PID 1 that has only the descriptors 0–2 and these. Returns
/// its exit status.
pub(crate) fn run(
    orders: &OwnedFd,
    listener: Option<&OwnedFd>,
    stage: Option<&Stage>,
    settings: Settings,
) -> u8 {
    // The name is only for `ps`.
    let _ = sys::process::set_name(c"groundstate-log");
    // Like init, it should be the OOM killer's last victim.
    crate::output::oom_score::protect_from_oom();
    // Without this, a missing reader would kill the logger instead of failing write(2).
    let _ = sys::signal::ignore(Signal::SIGPIPE);
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o027));
    let ended = orders
        .try_clone()
        .and_then(|orders| {
            let listener = listener.map(OwnedFd::try_clone).transpose()?;
            let stage = stage.map(Stage::copy).transpose()?;
            Logger::new(orders, listener, stage, settings)
        })
        .and_then(Logger::run);
    u8::from(ended.is_err())
}

/// One run's open pipe.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) run: RunId,
    pub(super) unit: u64,
    pub(super) log: Log,
    blocks: bool,
    pub(super) fd: OwnedFd,
    pub(super) stream: Stream,
    /// True if it is in the queue of pipes to read.
    queued: bool,
}

/// A pipe that still holds bytes and is checked again later. The kernel wakes its reader only once
/// a write is complete, but a write larger than the pipe's room waits for the reader.
#[derive(Debug)]
struct Unfinished {
    seen: usize,
    due: Instant,
    pause: Duration,
}

#[derive(Debug)]
pub(super) struct Logger {
    pub(super) intake: Option<Intake>,
    /// Lines that the previous logger had read and not written.
    left: Vec<Lines>,
    poll: Poll,
    pub(super) orders: OwnedFd,
    pub(super) reports: VecDeque<Report>,
    pub(super) pipes: BTreeMap<usize, Pipe>,
    by_run: BTreeMap<RunId, usize>,
    next_pipe: usize,
    /// Pipes that may have something to read.
    ready: VecDeque<usize>,
    pub(super) units: Units,
    pub(super) clients: Clients,
    pub(super) out: Out,
    /// Pipes with an unfinished line.
    unfinished: BTreeMap<usize, Unfinished>,
    /// Buffers for one read, and for the lines it completes.
    pub(super) buffer: Vec<u8>,
    pub(super) lines: Vec<u8>,
    /// True if PID 1 has requested the end, or is gone.
    is_finishing: bool,
}

impl Logger {
    fn new(
        orders: OwnedFd,
        listener: Option<OwnedFd>,
        stage: Option<Stage>,
        settings: Settings,
    ) -> io::Result<Logger> {
        let poll = Poll::new()?;
        token::watch_both(poll.registry(), &orders, ORDERS.0)?;
        let mut clients = Clients::new(LISTENER, Readers::new(&settings.log_readers));
        if let Some(listener) = listener {
            clients.listen(poll.registry(), listener)?;
        }
        let taken = stage.and_then(|stage| Intake::new(stage).ok());
        let (intake, left) =
            taken.map_or((None, Vec::new()), |(intake, left)| (Some(intake), left));
        let waker = Waker::new(poll.registry(), LANES)?;
        Ok(Logger {
            intake,
            left,
            poll,
            orders,
            reports: VecDeque::new(),
            pipes: BTreeMap::new(),
            by_run: BTreeMap::new(),
            next_pipe: FIRST_PIPE,
            ready: VecDeque::new(),
            unfinished: BTreeMap::new(),
            units: Units::default(),
            clients,
            out: Out::new(settings, Arc::new(waker)),
            buffer: Vec::new(),
            lines: Vec::new(),
            is_finishing: false,
        })
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut wait = None;
        while !self.is_finishing {
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                match event.token() {
                    ORDERS => self.take_orders(),
                    LANES => self.clients.readers_are_due(),
                    LISTENER => self.clients.note_callers(),
                    token if token.0 < FIRST_PIPE => self.clients.note_due(token.0),
                    token => self.queue_pipe(token.0),
                }
            }
            self.clients.accept(self.poll.registry());
            let Logger { clients, units, out, .. } = &mut self;
            query::serve_all(&mut Context { clients, units, out });
            wait = self.read_some();
            if self.clients.has_more() {
                wait = Some(Duration::ZERO);
            }
            self.reports.extend(self.out.trouble().map(|(unit, why)| Report::Trouble(unit, why)));
            self.reports.extend(self.out.lost(Instant::now()).map(Report::Lost));
            send_reports(&self.orders, &mut self.reports);
        }
        self.end();
        Ok(())
    }

    fn queue_pipe(&mut self, number: usize) {
        if let Some(pipe) = self.pipes.get_mut(&number)
            && !pipe.queued
        {
            pipe.queued = true;
            self.ready.push_back(number);
        }
    }

    fn take_orders(&mut self) {
        let mut buffer = vec![0; limit::MESSAGE];
        loop {
            let got = sys::socket::receive(self.orders.as_fd(), &mut buffer);
            if sys::socket::is_over(&got) {
                self.is_finishing = true;
                return;
            }
            let Ok(mut got) = got else { break };
            let order = buffer.get(..got.length).and_then(|bytes| decode::<Order>(bytes).ok());
            match order {
                Some(Order::Read(logs)) => {
                    for (log, fd) in logs.into_iter().zip(got.fds) {
                        self.begin(log, fd);
                    }
                }
                Some(Order::Settings(settings)) => {
                    self.clients.readers = Readers::new(&settings.log_readers);
                    self.out.set(settings);
                }
                Some(Order::OpenFiles) => {
                    let mut first = std::mem::take(&mut self.left);
                    first.extend(self.units.backlog());
                    self.out.open_files(first);
                }
                Some(Order::Listen) => {
                    if let Some(listener) = got.fds.pop() {
                        // On an error, the old listener stays.
                        let _ = self.clients.listen(self.poll.registry(), listener);
                    }
                }
                Some(Order::Drain(run)) => self.drain(run),
                Some(Order::Ping(number)) => self.reports.push_back(Report::Pong(number)),
                Some(Order::Close(run)) => {
                    if let Some(number) = self.by_run.get(&run).copied() {
                        self.empty(number);
                        self.close(number);
                    }
                }
                Some(Order::Finish) => self.is_finishing = true,
                // Only PID 1 writes here, and it is the same program.
                None => {}
            }
        }
        send_reports(&self.orders, &mut self.reports);
    }

    fn begin(&mut self, log: RunLog, fd: OwnedFd) {
        if self.by_run.contains_key(&log.run) {
            return;
        }
        let number = self.next_pipe;
        self.next_pipe += 1;
        let unit = self.units.begin(&log);
        let stream = Stream::new(log.ready_grep, log.priority);
        self.by_run.insert(log.run, number);
        let (run, blocks, log) = (log.run, log.blocks, log.log);
        let watched = token::watch(self.poll.registry(), &fd, number);
        self.pipes.insert(number, Pipe { run, unit, log, blocks, fd, stream, queued: false });
        if watched.is_err() {
            // Without a watch, the pipe is read as long as it has bytes.
            self.queue_pipe(number);
        }
    }

    /// Reads pipes in turn until all are empty or held back, or the turn is over. Returns the time
    /// to wait for the next event.
    fn read_some(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.queue_unfinished(now);
        let mut held: Option<Instant> = None;
        let mut held_back = 0;
        for _ in 0..READS_A_TURN {
            if held_back >= self.ready.len() {
                break;
            }
            let Some(number) = self.ready.pop_front() else { break };
            let Some(pipe) = self.pipes.get(&number) else { continue };
            if let Room::Full(until) = self.out.room(pipe.log, pipe.blocks, now) {
                self.ready.push_back(number);
                held = Some(held.map_or(until, |before| before.min(until)));
                held_back += 1;
                continue;
            }
            held_back = 0;
            if self.read(number) {
                self.ready.push_back(number);
            } else if let Some(pipe) = self.pipes.get_mut(&number) {
                pipe.queued = false;
            }
        }
        if self.ready.is_empty() {
            // Releases large buffers after a busy time.
            self.buffer = Vec::new();
            self.lines = Vec::new();
            return self.until_unfinished(now);
        }
        if held_back < self.ready.len() {
            return Some(Duration::ZERO);
        }
        let held =
            held.map(|until| until.saturating_duration_since(now) + Duration::from_millis(1));
        [held, self.until_unfinished(now)].into_iter().flatten().min()
    }

    /// Schedules a check of a pipe with `seen` bytes of an unfinished line. The pause doubles while
    /// nothing is added.
    pub(super) fn look_again(&mut self, number: usize, seen: usize) {
        let before = self.unfinished.get(&number).filter(|before| before.seen == seen);
        let longer = |before: &Unfinished| (before.pause * 2).min(limit::UNFINISHED_MOST);
        let pause = before.map_or(limit::UNFINISHED_LEAST, longer);
        let due = Instant::now() + pause;
        self.unfinished.insert(number, Unfinished { seen, due, pause });
    }

    /// Notes that the pipe has no unfinished line.
    pub(super) fn note_finished(&mut self, number: usize) {
        self.unfinished.remove(&number);
    }

    fn queue_unfinished(&mut self, now: Instant) {
        let due = self.unfinished.iter().filter(|(_, it)| it.due <= now);
        let due: Vec<usize> = due.map(|(number, _)| *number).collect();
        due.into_iter().for_each(|number| self.queue_pipe(number));
    }

    fn until_unfinished(&self, now: Instant) -> Option<Duration> {
        // A pipe in the queue is read earlier anyway.
        let waits = |number: &usize| self.pipes.get(number).is_some_and(|pipe| !pipe.queued);
        let due = self.unfinished.iter().filter(|(number, _)| waits(number)).map(|(_, it)| it.due);
        due.min().map(|due| due.saturating_duration_since(now) + Duration::from_millis(1))
    }

    /// Reads a pipe once. Returns true if there may be more.
    fn read(&mut self, number: usize) -> bool {
        let now = Instant::now();
        let Some(pipe) = self.pipes.get_mut(&number) else { return false };
        self.buffer.resize(limit::READ, 0);
        if pipe.log == Log::File
            && self.out.keeps_files(now)
            && let Some(more) = self.read_staged(number)
        {
            return more;
        }
        let Some(pipe) = self.pipes.get_mut(&number) else { return false };
        let got = loop {
            match nix::unistd::read(&pipe.fd, &mut self.buffer) {
                Err(Errno::EINTR) => {}
                other => break other,
            }
        };
        let prefix = Prefix::new(files::now(), Some(pipe.run));
        self.lines.clear();
        let (ready, more) = match got {
            Ok(0) | Err(_) if got != Err(Errno::EAGAIN) => {
                (pipe.stream.end(&prefix, &mut self.lines), None)
            }
            Ok(bytes) => {
                let bytes = self.buffer.get(..bytes).unwrap_or_default();
                (pipe.stream.feed(bytes, &prefix, &mut self.lines), Some(true))
            }
            Err(_) => return false,
        };
        let (run, unit, log) = (pipe.run, pipe.unit, pipe.log);
        self.publish(unit, log);
        if ready {
            self.reports.push_back(Report::Ready(run));
        }
        if more.is_none() {
            self.close(number);
        }
        more.unwrap_or(false)
    }

    /// Passes `self.lines` to the unit's tail, its lanes and its followers.
    fn publish(&mut self, unit: u64, log: Log) {
        if self.lines.is_empty() {
            return;
        }
        let Some(lines) = self.units.push(unit, &self.lines) else { return };
        self.send(unit, log, lines);
    }

    /// Passes `lines` to the unit's lanes and followers.
    pub(super) fn send(&mut self, unit: u64, log: Log, lines: Lines) {
        if self.clients.any_follows()
            && let Some(unit) = self.units.get_mut(unit)
        {
            self.clients.publish(&unit.name, &unit.targets, &lines.text);
        }
        if let Some(unit) = self.units.get_mut(unit) {
            self.out.push(Arc::new(lines), log, &mut unit.lost);
        }
    }

    fn close(&mut self, number: usize) {
        let Some(pipe) = self.pipes.remove(&number) else { return };
        self.unfinished.remove(&number);
        // The descriptor is closed right after; a failure means that it is not registered.
        let _ = self.poll.registry().deregister(&mut SourceFd(&pipe.fd.as_raw_fd()));
        self.by_run.remove(&pipe.run);
        self.units.end(pipe.unit);
        self.reports.push_back(Report::Ended(pipe.run));
    }

    /// Reads the present content of a pipe, whether or not its lane has room.
    fn drain(&mut self, run: RunId) {
        if let Some(number) = self.by_run.get(&run).copied() {
            self.empty(number);
        }
        self.reports.push_back(Report::Drained(run));
    }

    fn empty(&mut self, number: usize) {
        for _ in 0..limit::DRAIN.div_ceil(limit::READ) {
            if !self.read(number) {
                return;
            }
        }
    }

    /// Finishes: reads and writes the remaining output, or gives up at the time limit.
    fn end(&mut self) {
        // No logger follows: unfinished lines are read too.
        self.intake = None;
        let numbers: Vec<usize> = self.pipes.keys().copied().collect();
        for number in numbers {
            self.empty(number);
            let Some(pipe) = self.pipes.get_mut(&number) else { continue };
            let (unit, log) = (pipe.unit, pipe.log);
            self.lines.clear();
            pipe.stream.end(&Prefix::new(files::now(), Some(pipe.run)), &mut self.lines);
            self.publish(unit, log);
        }
        self.out.finish();
        // PID 1 may be gone.
        self.reports.push_back(Report::Finished);
        send_reports(&self.orders, &mut self.reports);
    }

    /// Reads the whole lines in a pipe whose lines go to a log file, by the pending buffer. Returns
    /// `None` if the pipe must be read directly.
    pub(super) fn read_staged(&mut self, number: usize) -> Option<bool> {
        let (pipe, intake) = (self.pipes.get_mut(&number)?, self.intake.as_mut()?);
        let seen = match intake.look(&pipe.fd, &mut self.buffer) {
            Ok(0) => return None,
            Ok(seen) => seen,
            Err(Errno::EAGAIN) => {
                self.note_finished(number);
                return Some(false);
            }
            Err(_) => return None,
        };
        let bytes = self.buffer.get(..seen)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let last = whole == 0 && has_no_writer(&pipe.fd);
        if whole == 0 && !last {
            // The rest of the line follows, unless the pipe has no room for it.
            if is_full(&pipe.fd, seen) {
                self.note_finished(number);
                return None;
            }
            self.look_again(number, seen);
            return Some(false);
        }
        let bytes = if last { bytes } else { bytes.get(..whole)? };
        let prefix = Prefix::new(files::now(), Some(pipe.run));
        self.lines.clear();
        let mut ready = pipe.stream.feed(bytes, &prefix, &mut self.lines);
        ready |= last && pipe.stream.end(&prefix, &mut self.lines);
        let count = bytes.len();
        let mut lines = self.units.push(pipe.unit, &self.lines)?;
        if ready {
            // Reported while the line is still in the pipe: if this logger dies now, the next one
            // finds it.
            self.reports.push_back(Report::Ready(pipe.run));
            send_reports(&self.orders, &mut self.reports);
        }
        match intake.take(&pipe.fd, count, &lines) {
            Ok(mark) => lines.mark = Some(mark),
            Err(_) => drop(nix::unistd::read(&pipe.fd, self.buffer.get_mut(..count)?)),
        }
        let (unit, log) = (pipe.unit, pipe.log);
        self.note_finished(number);
        self.send(unit, log, lines);
        Some(true)
    }
}

/// Returns true if the pipe has no writer.
fn has_no_writer(pipe: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    let answered = poll(&mut asked, PollTimeout::ZERO);
    answered.is_ok()
        && asked.iter().filter_map(PollFd::revents).any(|is| is.contains(PollFlags::POLLHUP))
}

/// Returns true if writers of the pipe block; `seen` bytes are in it.
fn is_full(pipe: &OwnedFd, seen: usize) -> bool {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let Ok(write) = open(path.as_str(), flags, Mode::empty()) else {
        return seen >= limit::READ / 4;
    };
    let mut asked = [PollFd::new(write.as_fd(), PollFlags::POLLOUT)];
    seen >= limit::READ || matches!(poll(&mut asked, PollTimeout::ZERO), Ok(0))
}
