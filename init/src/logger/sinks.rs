//! Which lines go which way: the lanes there are, started when first needed.

use super::files::{Files, Job};
use super::history::History;
use super::message::Settings;
use super::sink::{Records, Terminal};
use super::sink_thread::{Lane, Lines, Room};
use super::{files, limit};
use groundstate_units::spec::Log;
use groundstate_units::text::name::Name;
use groundstate_units::unit::settings::Echo;
use mio::Waker;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Instant;

/// Whose file can not be written, and why.
type Trouble = (Name, String);

/// What is said of a disk that neither writes nor refuses.
const STANDS_STILL: &str = "their disk has not answered for a while";

/// All ways out.
#[derive(Debug)]
pub(crate) struct Out {
    settings: Settings,
    waker: Arc<Waker>,
    files_open: bool,
    files: Option<Lane<Job>>,
    echo: Option<Lane<Arc<Lines>>>,
    console: Option<Lane<Arc<Lines>>>,
    kernel: Option<Lane<Arc<Lines>>>,
    syslog: Option<Lane<Arc<Lines>>>,
    /// Lines each way lacks because it stood still; told once it moves.
    dropped: BTreeMap<Way, u64>,
    /// Lines lost so on all ways together that PID 1 has not been told of, and when it was told last.
    untold: (u64, Option<Instant>),
    /// The lane of files stands still, which has been told.
    files_stand_still: bool,
    /// What the lane of files can not do.
    told: (SyncSender<Trouble>, Receiver<Trouble>),
}

impl Out {
    /// No thread yet.
    pub(crate) fn new(settings: Settings, waker: Arc<Waker>) -> Out {
        Out {
            settings,
            waker,
            files_open: false,
            files: None,
            echo: None,
            console: None,
            kernel: None,
            syslog: None,
            dropped: BTreeMap::new(),
            untold: (0, None),
            files_stand_still: false,
            told: mpsc::sync_channel(1),
        }
    }

    /// Files have begun not to be written: whose, and why.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.told.1.try_recv().ok()
    }

    /// Lines lost since the last time this was said; now and then only, for it wakes PID 1.
    pub(crate) fn lost(&mut self, now: Instant) -> Option<u64> {
        let (lost, told) = &mut self.untold;
        if *lost == 0 || told.is_some_and(|at| now.duration_since(at) < limit::LOST_TOLD) {
            return None;
        }
        *told = Some(now);
        Some(std::mem::take(lost))
    }

    /// Whether lines with this policy may be read now. Who `blocks` waits for a place of its own
    /// that stands still; for a copy nobody does.
    pub(crate) fn room(&mut self, log: Log, blocks: bool, now: Instant) -> Room {
        let own = match log {
            Log::File => self.files.as_mut().map(|lane| lane.room(now)),
            Log::Console => self.console.as_mut().map(|lane| lane.room(now)),
            Log::Kmsg => self.kernel.as_mut().map(|lane| lane.room(now)),
            Log::Syslog => self.syslog.as_mut().map(|lane| lane.room(now)),
            Log::Inherit | Log::Null => None,
        };
        let echo = self.echo.as_mut().map(|lane| lane.room(now));
        if blocks && own == Some(Room::Stuck) {
            return Room::Full(now + limit::STUCK);
        }
        // Full on one way holds the run back whatever the other says.
        match (own.unwrap_or(Room::Free), echo.unwrap_or(Room::Free)) {
            (Room::Full(until), _) | (_, Room::Full(until)) => Room::Full(until),
            _ => Room::Free,
        }
    }

    /// Lines go to files now.
    pub(super) fn keeps_files(&mut self, now: Instant) -> bool {
        self.files_open && self.files.as_mut().is_none_or(|lane| lane.room(now) != Room::Stuck)
    }

    /// Sends lines their ways; on a way that is stuck they are lost, and counted.
    pub(crate) fn push(&mut self, lines: Arc<Lines>, log: Log, lost: &mut u64) {
        let now = Instant::now();
        match log {
            Log::File => self.push_to_file(&lines, lost, now),
            Log::Console => self.push_to(Way::Console, &lines, now),
            Log::Kmsg => self.push_to(Way::Kernel, &lines, now),
            Log::Syslog => self.push_to(Way::Syslog, &lines, now),
            Log::Inherit | Log::Null => {}
        }
        if self.settings.echo != Echo::No && log != Log::Console {
            self.push_to(Way::Echo, &lines, now);
        }
    }

    fn push_to_file(&mut self, lines: &Arc<Lines>, lost: &mut u64, now: Instant) {
        if !self.files_open {
            return;
        }
        self.start_files();
        let Some(lane) = &mut self.files else { return };
        let stands_still = lane.room(now) == Room::Stuck;
        if stands_still {
            if !std::mem::replace(&mut self.files_stand_still, true) {
                // One that is not heard yet says enough.
                let _ = self.told.0.try_send((lines.unit.clone(), STANDS_STILL.to_string()));
            }
            *lost += lines.count();
            self.untold.0 += lines.count();
            return;
        }
        self.files_stand_still = false;
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
                // One that is not heard yet says enough; so does a logger that has ended.
                let _ = told.try_send((unit.clone(), why.to_string()));
                let _ = waker.wake();
            };
            let mut files = Files::new(self.settings.clone(), Box::new(tell));
            let sink = move |job| files.take(job);
            // Without a thread there are no files yet; the next lines try again.
            self.files = Lane::start("log-files", Arc::clone(&self.waker), sink).ok();
        }
    }

    fn push_to(&mut self, way: Way, lines: &Arc<Lines>, now: Instant) {
        let (waker, echo) = (Arc::clone(&self.waker), self.settings.echo);
        let lane = match way {
            Way::Echo => &mut self.echo,
            Way::Console => &mut self.console,
            Way::Kernel => &mut self.kernel,
            Way::Syslog => &mut self.syslog,
        };
        if lane.is_none() {
            *lane = way.start(waker, echo);
        }
        let Some(lane) = lane else { return };
        if lane.room(now) == Room::Stuck {
            *self.dropped.entry(way).or_default() += lines.count();
            self.untold.0 += lines.count();
            return;
        }
        if let Some(lost) = self.dropped.remove(&way) {
            let text = files::note(&format!("{lost} lines of all units lost here"));
            let (unit, target) = (lines.unit.clone(), lines.target.clone());
            let bytes = text.len();
            let (tag, facility) = (lines.tag.clone(), lines.facility);
            let note = Lines { unit, target, tag, facility, text, mark: None };
            lane.push(Arc::new(note), bytes);
        }
        lane.push(Arc::clone(lines), lines.text.len());
    }

    /// From now on there are files; first come these.
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

    /// Passes a request for old lines on; gives it back where there are no files to read.
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

    /// What wakes the loop.
    pub(crate) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Other settings from now on.
    pub(crate) fn set(&mut self, settings: Settings) {
        if settings.echo != self.settings.echo {
            self.echo = None;
        }
        if let Some(lane) = &self.files {
            lane.push(Job::Settings(settings.clone()), 0);
        }
        self.settings = settings;
    }

    /// Waits for everything to be out, as long as something moves.
    pub(crate) fn finish(&mut self) {
        if let Some(lane) = &self.files {
            lane.finish(limit::LAST_WRITES);
        }
        let others = [&self.echo, &self.console, &self.kernel, &self.syslog];
        others.into_iter().flatten().for_each(|lane| lane.finish(limit::LAST_WRITES));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Echo,
    Console,
    Kernel,
    Syslog,
}

impl Way {
    /// What it leads to is opened by the lane itself, whose descriptors are its own.
    fn start(self, waker: Arc<Waker>, echo: Echo) -> Option<Lane<Arc<Lines>>> {
        let lane = match self {
            Way::Echo => {
                let mut to = None;
                let sink = move |lines: Arc<Lines>| {
                    to.get_or_insert_with(|| Terminal::stdout(echo)).take(&lines)
                };
                Lane::start("log-echo", waker, sink)
            }
            Way::Console => {
                let mut to = None;
                let sink =
                    move |lines: Arc<Lines>| to.get_or_insert_with(Terminal::console).take(&lines);
                Lane::start("log-console", waker, sink)
            }
            Way::Kernel => {
                let mut to = None;
                let sink =
                    move |lines: Arc<Lines>| to.get_or_insert_with(Records::kernel).take(&lines);
                Lane::start("log-kmsg", waker, sink)
            }
            Way::Syslog => {
                let mut to = None;
                let sink =
                    move |lines: Arc<Lines>| to.get_or_insert_with(Records::syslog).take(&lines);
                Lane::start("log-syslog", waker, sink)
            }
        };
        lane.ok()
    }
}
