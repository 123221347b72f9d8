//! Destinations of log lines: one lane each, started when first needed.

use super::channel::Settings;
use super::files::{Files, Job};
use super::history::History;
pub(crate) use super::pending_buffer::Lines;
use super::{files, limit};
use groundstate_units::control::log_line::{LogLine, printable};
use groundstate_units::spec::Log;
use groundstate_units::text::name::Name;
use groundstate_units::unit::settings::Echo;
use mio::Waker;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{io, thread};

/// The unit whose file cannot be written, and why.
type Trouble = (Name, String);

/// The reason reported for a disk that does not respond.
const NOT_RESPONDING: &str = "the disk does not respond";

/// All destinations.
#[derive(Debug)]
pub(crate) struct Out {
    settings: Settings,
    waker: Arc<Waker>,
    files_open: bool,
    files: Option<Lane<Job>>,
    /// The destinations other than files, from their first line on.
    lanes: BTreeMap<Destination, Lane<Arc<Lines>>>,
    /// Lines dropped at each destination because it was stuck; reported once it moves.
    dropped: BTreeMap<Destination, u64>,
    /// Dropped lines not yet reported to PID 1, and the time of the last report.
    untold: (u64, Option<Instant>),
    /// True if the lane of files is stuck and that was reported.
    files_are_stuck: bool,
    /// Failures of the lane of files.
    told: (SyncSender<Trouble>, Receiver<Trouble>),
}

impl Out {
    /// Starts no thread yet.
    pub(crate) fn new(settings: Settings, waker: Arc<Waker>) -> Out {
        Out {
            settings,
            waker,
            files_open: false,
            files: None,
            lanes: BTreeMap::new(),
            dropped: BTreeMap::new(),
            untold: (0, None),
            files_are_stuck: false,
            told: mpsc::sync_channel(1),
        }
    }

    /// The first failure to write files: the unit and the reason.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.told.1.try_recv().ok()
    }

    /// The number of lines lost since the last report. Reported only from time to time, because it
    /// wakes PID 1.
    pub(crate) fn lost(&mut self, now: Instant) -> Option<u64> {
        let (lost, told) = &mut self.untold;
        if *lost == 0 || told.is_some_and(|at| now.duration_since(at) < limit::LOST_TOLD) {
            return None;
        }
        *told = Some(now);
        Some(std::mem::take(lost))
    }

    /// Returns whether lines with this policy may be read now. With `blocks`, a run waits while its
    /// own destination is stuck, but never while the echo is.
    pub(crate) fn room(&mut self, log: Log, blocks: bool, now: Instant) -> Room {
        let own = if log == Log::File {
            self.files.as_mut().map(|lane| lane.room(now))
        } else {
            Destination::of(log)
                .and_then(|destination| self.lanes.get_mut(&destination))
                .map(|lane| lane.room(now))
        };
        let echo = self.lanes.get_mut(&Destination::Echo).map(|lane| lane.room(now));
        if blocks && own == Some(Room::Stuck) {
            return Room::Full(now + limit::STUCK);
        }
        // A full destination holds the run back, whatever the other one's state.
        match (own.unwrap_or(Room::Free), echo.unwrap_or(Room::Free)) {
            (Room::Full(until), _) | (_, Room::Full(until)) => Room::Full(until),
            _ => Room::Free,
        }
    }

    /// Returns true if lines go to files now.
    pub(super) fn keeps_files(&mut self, now: Instant) -> bool {
        self.files_open && self.files.as_mut().is_none_or(|lane| lane.room(now) != Room::Stuck)
    }

    /// Passes lines to their destinations. A stuck destination drops and counts them.
    pub(crate) fn push(&mut self, lines: Arc<Lines>, log: Log, lost: &mut u64) {
        let now = Instant::now();
        if log == Log::File {
            self.push_to_file(&lines, lost, now);
        } else if let Some(destination) = Destination::of(log) {
            self.push_to(destination, &lines, now);
        }
        if self.settings.echo != Echo::No && log != Log::Console {
            self.push_to(Destination::Echo, &lines, now);
        }
    }

    fn push_to_file(&mut self, lines: &Arc<Lines>, lost: &mut u64, now: Instant) {
        if !self.files_open {
            return;
        }
        self.start_files();
        let Some(lane) = &mut self.files else { return };
        let is_stuck = lane.room(now) == Room::Stuck;
        if is_stuck {
            if !std::mem::replace(&mut self.files_are_stuck, true) {
                // One pending report is enough.
                let _ = self.told.0.try_send((lines.unit.clone(), NOT_RESPONDING.to_string()));
            }
            *lost += lines.count();
            self.untold.0 += lines.count();
            return;
        }
        self.files_are_stuck = false;
        if *lost > 0 {
            lane.push(Job::Lost(lines.unit.clone(), std::mem::take(lost)), 0);
        }
        lane.push(Job::Lines(Arc::clone(lines)), lines.text.len());
    }

    fn start_files(&mut self) {
        if self.files.is_none() {
            let waker = Arc::clone(&self.waker);
            let told = self.told.0.clone();
            let tell = move |unit: &Name, why: &str| {
                // One pending report is enough. An error may also mean that the logger is ending.
                let _ = told.try_send((unit.clone(), why.to_string()));
                let _ = waker.wake();
            };
            let mut files = Files::new(self.settings.clone(), Box::new(tell));
            let sink = move |job| files.take(job);
            // Without a thread there are no files; the next lines try again.
            self.files = Lane::start("log-files", Arc::clone(&self.waker), sink).ok();
        }
    }

    fn push_to(&mut self, destination: Destination, lines: &Arc<Lines>, now: Instant) {
        let lane = match self.lanes.entry(destination) {
            Entry::Occupied(lane) => lane.into_mut(),
            Entry::Vacant(place) => {
                match destination.start(Arc::clone(&self.waker), self.settings.echo) {
                    Ok(lane) => place.insert(lane),
                    Err(_) => return,
                }
            }
        };
        if lane.room(now) == Room::Stuck {
            *self.dropped.entry(destination).or_default() += lines.count();
            self.untold.0 += lines.count();
            return;
        }
        if let Some(lost) = self.dropped.remove(&destination) {
            let text = files::note(&format!("{lost} lines of all units lost"));
            let bytes = text.len();
            lane.push(Arc::new(lines.with(text)), bytes);
        }
        lane.push(Arc::clone(lines), lines.text.len());
    }

    /// Enables files; these lines come first.
    pub(crate) fn open_files(&mut self, backlog: Vec<Lines>) {
        self.files_open = true;
        if backlog.is_empty() {
            return;
        }
        self.start_files();
        let Some(lane) = &mut self.files else { return };
        for lines in backlog {
            let bytes = lines.text.len();
            lane.push(Job::Lines(Arc::new(lines)), bytes);
        }
    }

    /// Passes on a request for old lines. Returns it if there are no files to read.
    pub(crate) fn history(&mut self, history: History) -> Result<(), History> {
        if self.files_open {
            self.start_files();
        }
        let Some(lane) = &mut self.files else { return Err(history) };
        if lane.room(Instant::now()) == Room::Stuck {
            return Err(history);
        }
        lane.push(Job::History(history), 0);
        Ok(())
    }

    /// The waker of the loop.
    pub(crate) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Uses new settings.
    pub(crate) fn set(&mut self, settings: Settings) {
        if settings.echo != self.settings.echo {
            self.lanes.remove(&Destination::Echo);
        }
        if let Some(lane) = &self.files {
            lane.push(Job::Settings(settings.clone()), 0);
        }
        self.settings = settings;
    }

    /// Waits until everything is written, as long as something moves.
    pub(crate) fn finish(&mut self) {
        if let Some(lane) = &self.files {
            lane.finish(limit::LAST_WRITES);
        }
        self.lanes.values().for_each(|lane| lane.finish(limit::LAST_WRITES));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Destination {
    Echo,
    Console,
    Kernel,
    Syslog,
}

impl Destination {
    /// The destination of a line with this policy. Returns `None` for a file and for no log.
    fn of(log: Log) -> Option<Destination> {
        match log {
            Log::Console => Some(Destination::Console),
            Log::Kmsg => Some(Destination::Kernel),
            Log::Syslog => Some(Destination::Syslog),
            Log::File | Log::Inherit | Log::Null => None,
        }
    }

    /// The lane opens its own destination, because an open may block.
    fn start(self, waker: Arc<Waker>, echo: Echo) -> io::Result<Lane<Arc<Lines>>> {
        let (name, open): (_, fn(Echo) -> Sink) = match self {
            Destination::Echo => ("log-echo", |echo| Sink::Terminal(Terminal::stdout(echo))),
            Destination::Console => ("log-console", |_| Sink::Terminal(Terminal::console())),
            Destination::Kernel => ("log-kmsg", |_| Sink::Records(Records::kernel())),
            Destination::Syslog => ("log-syslog", |_| Sink::Records(Records::Syslog(None))),
        };
        let mut sink = None;
        Lane::start(name, waker, move |lines: Arc<Lines>| {
            match sink.get_or_insert_with(|| open(echo)) {
                Sink::Terminal(terminal) => terminal.take(&lines),
                Sink::Records(records) => records.take(&lines),
            }
        })
    }
}

/// Where a lane's lines go.
enum Sink {
    Terminal(Terminal),
    Records(Records),
}

// A lane: a thread with a bounded queue, for a destination that may block. The thread may wait for
// its disk, terminal or reader; the logger's loop never does.
//
// A lane that is *full* but moving holds its runs back: their pipes are not read until there is
// room, so a slow disk loses nothing. A full lane without progress for [`limit::STUCK`] is *stuck*:
// its lines are dropped and counted, so that no service waits longer.

/// The room for more lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is room.
    Free,
    /// There is no room now; ask again when woken, or at this time.
    Full(Instant),
    /// The lane is stuck.
    Stuck,
}

/// The loop's end of a lane with jobs of type `J`.
#[derive(Debug)]
pub(crate) struct Lane<J> {
    shared: Arc<Shared<J>>,
    /// The start of the time without progress while it is full, and the jobs finished until then.
    full: Option<(Instant, u64)>,
    stuck: bool,
}

#[derive(Debug)]
struct Shared<J> {
    state: Mutex<State<J>>,
    /// Signalled if there is work or the lane is closed.
    work: Condvar,
    /// Signalled if all work is done.
    idle: Condvar,
}

#[derive(Debug)]
struct State<J> {
    jobs: VecDeque<(J, usize)>,
    /// Bytes of all unfinished jobs, including the one in progress.
    bytes: usize,
    done: u64,
    /// True if the loop waits for room.
    wanted: bool,
    closed: bool,
}

impl<J> Shared<J> {
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        // A panic of a sink leaves the queue intact, because the sink runs without the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Send + 'static> Lane<J> {
    /// Starts a thread that passes each job to `sink`. It wakes the loop when there is room again.
    pub(crate) fn start(
        name: &str,
        waker: Arc<Waker>,
        sink: impl FnMut(J) + Send + 'static,
    ) -> io::Result<Lane<J>> {
        let state =
            State { jobs: VecDeque::new(), bytes: 0, done: 0, wanted: false, closed: false };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            idle: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name(name.to_string()).stack_size(limit::STACK);
        thread.spawn(move || work(&theirs, &waker, sink))?;
        Ok(Lane { shared, full: None, stuck: false })
    }

    /// Adds a job of so many bytes. The caller checks for room before.
    pub(crate) fn push(&self, job: J, bytes: usize) {
        let mut state = self.shared.lock();
        state.bytes += bytes;
        state.jobs.push_back((job, bytes));
        drop(state);
        self.shared.work.notify_one();
    }

    /// Returns whether to push now. After [`Room::Full`] the loop is woken when there is room.
    pub(crate) fn room(&mut self, now: Instant) -> Room {
        let mut state = self.shared.lock();
        if state.bytes < limit::LANE {
            self.full = None;
            self.stuck = false;
            return Room::Free;
        }
        state.wanted = true;
        let done = state.done;
        drop(state);
        if self.stuck {
            return Room::Stuck;
        }
        let since = match self.full {
            Some((since, before)) if before == done => since,
            _ => {
                self.full = Some((now, done));
                now
            }
        };
        self.stuck = now.duration_since(since) >= limit::STUCK;
        if self.stuck { Room::Stuck } else { Room::Full(since + limit::STUCK) }
    }

    /// Waits until all jobs are done, or nothing has moved for `patience`. For the end of the
    /// logger.
    pub(crate) fn finish(&self, patience: Duration) {
        let mut state = self.shared.lock();
        let (mut done, mut since) = (state.done, Instant::now());
        while state.bytes > 0 || !state.jobs.is_empty() {
            if state.done != done {
                (done, since) = (state.done, Instant::now());
            }
            let left = patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                return;
            }
            let idle = &self.shared.idle;
            state = idle.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<J> Drop for Lane<J> {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_one();
    }
}

fn work<J>(shared: &Shared<J>, waker: &Waker, mut sink: impl FnMut(J)) {
    let mut state = shared.lock();
    loop {
        if let Some((job, bytes)) = state.jobs.pop_front() {
            drop(state);
            sink(job);
            state = shared.lock();
            state.bytes = state.bytes.saturating_sub(bytes);
            state.done += 1;
            if state.wanted && state.bytes < limit::LANE / 2 {
                state.wanted = false;
                // Fails only with 2^64 pending wake-ups.
                let _ = waker.wake();
            }
        } else if state.closed {
            return;
        } else {
            shared.idle.notify_all();
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

// Sinks other than files: init's stdout (echo), the console, the kernel's log, syslog. Each is the
// end of a [`Lane`], so it may block. Lines that cannot be delivered are lost.

/// Writes lines to a terminal or to init's stdout.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// `None` if it cannot be opened.
    fd: Option<OwnedFd>,
    raw: bool,
    shown: Vec<u8>,
}

impl Terminal {
    /// Uses init's stdout. Other processes share the descriptor, so its flags are not changed.
    pub(crate) fn stdout(echo: Echo) -> Terminal {
        let fd = std::io::stdout().as_fd().try_clone_to_owned().ok();
        Terminal { fd, raw: echo == Echo::Raw, shown: Vec::new() }
    }

    /// Uses /dev/console.
    pub(crate) fn console() -> Terminal {
        Terminal { fd: device("/dev/console").map(OwnedFd::from), raw: false, shown: Vec::new() }
    }

    /// Writes the lines; may block.
    pub(crate) fn take(&mut self, lines: &Lines) {
        self.shown.clear();
        for stored in lines.text.split_inclusive(|byte| *byte == b'\n') {
            let Some(line) = LogLine::parse(stored) else { continue };
            if self.raw {
                self.shown.extend_from_slice(line.text);
                if !line.continued {
                    self.shown.push(b'\n');
                }
            } else {
                self.shown.extend_from_slice(lines.target.as_str().as_bytes());
                self.shown.extend_from_slice(b" | ");
                self.shown.extend_from_slice(printable(line.text).as_bytes());
                self.shown.push(b'\n');
            }
        }
        let Some(fd) = &self.fd else { return };
        if write_all(fd.as_fd(), &self.shown).is_err() {
            // A closed pipe or a hung-up terminal stays unusable.
            self.fd = None;
        }
        self.shown.shrink_to(limit::READ);
    }
}

/// Opens a device for writing.
fn device(path: &str) -> Option<File> {
    let flags = libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC;
    File::options().write(true).custom_flags(flags).open(path).ok()
}

/// Writes all bytes and waits if the descriptor is not writable.
fn write_all(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match nix::unistd::write(fd, rest) {
            Ok(done) => rest = rest.get(done..).unwrap_or_default(),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                poll(&mut [PollFd::new(fd, PollFlags::POLLOUT)], PollTimeout::NONE)?;
            }
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// Writes one record for each line to /dev/kmsg or /dev/log.
#[derive(Debug)]
pub(crate) enum Records {
    /// The kernel's log. One write for each record; it never blocks.
    Kernel(Option<File>),
    /// The socket of a syslog daemon; connected again when the daemon was restarted.
    Syslog(Option<UnixDatagram>),
}

impl Records {
    /// Opens /dev/kmsg; `None` inside if that fails.
    pub(crate) fn kernel() -> Records {
        Records::Kernel(device("/dev/kmsg"))
    }

    /// Sends each line as a record.
    pub(crate) fn take(&mut self, lines: &Lines) {
        for stored in lines.text.split_inclusive(|byte| *byte == b'\n') {
            let Some(line) = LogLine::parse(stored) else { continue };
            let name = if lines.tag.is_empty() { lines.unit.as_str() } else { &lines.tag };
            // Facility and level of syslog(3). The text of a line sets them only if the unit's keys
            // allow it.
            let priority = lines.facility.saturating_mul(8) | line.priority();
            let who = match line.run {
                Some(run) => format!("<{priority}>{name}[{}]: ", run.0),
                None => format!("<{priority}>groundstate: {name}: "),
            };
            let text = printable(line.text);
            match self {
                Records::Kernel(Some(file)) => {
                    let record = cut(&who, &text, limit::KERNEL_RECORD);
                    // The kernel's own rate limit may refuse it, and logs that itself.
                    let _ = nix::unistd::write(&*file, record.as_bytes());
                }
                Records::Kernel(None) => {}
                Records::Syslog(socket) => {
                    let record = cut(&who, &text, limit::SYSLOG_RECORD);
                    send(socket, record.as_bytes());
                }
            }
        }
    }
}

fn send(socket: &mut Option<UnixDatagram>, record: &[u8]) {
    for _ in 0..2 {
        if socket.is_none() {
            let connected = UnixDatagram::unbound().and_then(|fresh| {
                fresh.set_nonblocking(true)?;
                fresh.connect("/dev/log")?;
                Ok(fresh)
            });
            *socket = connected.ok();
        }
        let Some(open) = socket.as_ref() else { return };
        match open.send(record) {
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => *socket = None,
            _ => return,
        }
    }
}

/// Joins both and truncates at a character boundary to at most `most` bytes.
fn cut(who: &str, text: &str, most: usize) -> String {
    let mut end = most.saturating_sub(who.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{who}{}", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::text::name::Name;
    use std::io::Read;
    use std::sync::mpsc::sync_channel;

    fn waker() -> (mio::Poll, Arc<Waker>) {
        let poll = mio::Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), mio::Token(0)).unwrap();
        (poll, Arc::new(waker))
    }

    #[test]
    fn jobs_are_done_in_order_and_finish_waits_for_them() {
        let (_poll, waker) = waker();
        let (done, seen) = sync_channel(100);
        let lane = Lane::start("test", waker, move |job: u32| done.send(job).unwrap()).unwrap();
        (0..100).for_each(|job| lane.push(job, 1));
        lane.finish(Duration::from_secs(60));
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn full_lane_holds_back_then_is_stuck_then_moves_again() {
        let (mut poll, waker) = waker();
        let (go, gate) = sync_channel(0);
        let mut lane = Lane::start("test", waker, move |(): ()| gate.recv().unwrap()).unwrap();
        let now = Instant::now();
        assert_eq!(lane.room(now), Room::Free);
        lane.push((), limit::LANE);
        assert_eq!(lane.room(now), Room::Full(now + limit::STUCK));
        assert_eq!(lane.room(now + limit::STUCK), Room::Stuck);
        go.send(()).unwrap();
        let mut events = mio::Events::with_capacity(4);
        poll.poll(&mut events, Some(Duration::from_secs(60))).unwrap();
        assert!(!events.is_empty(), "the loop was not woken");
        assert_eq!(lane.room(now + limit::STUCK), Room::Free);
    }

    #[test]
    fn a_lane_that_moves_is_never_stuck() {
        let (_poll, waker) = waker();
        let (go, gate) = sync_channel(0);
        let (done, seen) = sync_channel(10);
        let sink = move |(): ()| {
            gate.recv().unwrap();
            done.send(()).unwrap();
        };
        let mut lane = Lane::start("test", waker, sink).unwrap();
        let mut now = Instant::now();
        (0..5).for_each(|_| lane.push((), limit::LANE));
        for _ in 0..3 {
            assert!(matches!(lane.room(now), Room::Full(_)));
            go.send(()).unwrap();
            seen.recv().unwrap();
            let before = lane.full.unwrap().1;
            while lane.shared.lock().done == before {
                thread::yield_now();
            }
            now += limit::STUCK;
        }
        (0..2).for_each(|_| go.send(()).unwrap());
    }

    fn lines(text: &[u8]) -> Lines {
        let name = |text| Name::new(text).unwrap();
        let (unit, target) = (name("nginx"), name("web"));
        let (tag, facility) = (String::new(), groundstate_units::text::log_level::DAEMON);
        Lines { unit, target, tag, facility, text: text.to_vec(), mark: None }
    }

    fn shown(raw: bool, text: &[u8]) -> String {
        let (mut read, write) = std::io::pipe().unwrap();
        let mut terminal = Terminal { fd: Some(write.into()), raw, shown: Vec::new() };
        terminal.take(&lines(text));
        drop(terminal);
        let mut got = String::new();
        read.read_to_string(&mut got).unwrap();
        got
    }

    #[test]
    fn echo_names_the_target_and_shows_nothing_a_terminal_acts_on() {
        let text = b"2026-11-21T05:25:46.123Z 17 hello\n2026-11-21T05:25:46.123Z 17 \x1b[2Jx\rdb | forged\n";
        assert_eq!(shown(false, text), "web | hello\nweb | \\x1b[2Jx\\x0ddb | forged\n");
    }

    #[test]
    fn raw_echo_is_the_unchanged_output_of_the_service() {
        let text = b"2026-11-21T05:25:46.123Z 17+ \x1b[1mlong \n2026-11-21T05:25:46.123Z 17 line\n";
        assert_eq!(shown(true, text), "\u{1b}[1mlong line\n");
    }

    #[test]
    fn closed_reader_of_the_echo_is_not_written_to_again() {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let mut terminal = Terminal { fd: Some(write.into()), raw: true, shown: Vec::new() };
        terminal.take(&lines(b"2026-11-21T05:25:46.123Z 17 x\n"));
        assert!(terminal.fd.is_none());
    }

    #[test]
    fn record_is_truncated_at_a_character_boundary() {
        assert_eq!(cut("<30>x: ", "ääää", 12), "<30>x: ää");
        assert_eq!(cut("<30>x: ", "ä", 3), "<30>x: ");
    }
}
