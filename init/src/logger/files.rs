//! All log files: the lane's end that writes them. What can not be written is counted, and
//! said in the file once it can be.

use super::file::{Keeping, LogFile};
use super::history::History;
use super::limit;
use super::message::Settings;
use super::sink_thread::Lines;
use groundstate_units::control::log_line::LogLine;
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use groundstate_units::unit::account::Accounts;
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// What the lane of files carries.
#[derive(Debug)]
pub(crate) enum Job {
    /// To the unit's file.
    Lines(Arc<Lines>),
    /// So many lines of this unit did not get here.
    Lost(Name, u64),
    /// Keep files so from now on.
    Settings(Settings),
    /// Somebody wants to read what is written so far.
    History(History),
}

/// Hears that files have begun not to be written: whose was the first, and why.
type Tell = Box<dyn Fn(&Name, &str) + Send>;

/// Open files and troubles.
pub(crate) struct Files {
    settings: Settings,
    keeping: Keeping,
    dir: Option<OwnedFd>,
    open: BTreeMap<Name, Open>,
    troubles: BTreeMap<Name, Trouble>,
    clock: u64,
    tell: Tell,
}

#[derive(Debug)]
struct Open {
    file: LogFile,
    used: u64,
}

/// Lines a file lacks.
#[derive(Debug)]
struct Trouble {
    lost: u64,
    why: String,
    /// Not tried again before.
    rest: Option<Instant>,
}

impl Files {
    /// Nothing is opened before the first line.
    pub(crate) fn new(settings: Settings, tell: Tell) -> Files {
        let keeping = keeping(&settings);
        let (open, troubles) = (BTreeMap::new(), BTreeMap::new());
        Files { settings, keeping, dir: None, open, troubles, clock: 0, tell }
    }

    /// Does one job.
    pub(crate) fn take(&mut self, job: Job) {
        match job {
            Job::Lines(lines) => self.write(&lines),
            Job::Lost(unit, lost) => {
                // That the disk stood still was told then.
                self.lose(&unit, lost, "the log file could not be written in time", None);
            }
            Job::Settings(settings) => {
                if settings.log_dir != self.settings.log_dir {
                    self.dir = None;
                }
                self.open.clear();
                self.keeping = keeping(&settings);
                self.settings = settings;
            }
            Job::History(history) => {
                if self.dir.is_none() {
                    // Nothing is made for a reader.
                    self.dir = open_directory(&self.settings.log_dir).ok();
                }
                history.open(self.dir.as_ref().map(AsFd::as_fd));
            }
        }
    }

    fn write(&mut self, lines: &Lines) {
        let (unit, text) = (&lines.unit, lines.text.as_slice());
        let resting = self.troubles.get(unit).and_then(|trouble| trouble.rest);
        if resting.is_some_and(|until| Instant::now() < until) {
            self.trouble(unit, count(text), "", None);
            return;
        }
        let note = self.troubles.get(unit).map(Trouble::note);
        if let Err((written, why)) = self.append(lines, note.as_deref()) {
            // Open files are tried anew: the directory may be another by then.
            self.open.remove(unit);
            self.dir = None;
            let lost = count(text.get(written..).unwrap_or_default());
            let rest = Instant::now() + limit::FILE_REST;
            self.trouble(unit, lost, why.desc(), Some(rest));
        }
    }

    /// On error: how much of `text` is written all the same, in whole lines.
    fn append(&mut self, lines: &Lines, note: Option<&[u8]>) -> Result<(), (usize, Errno)> {
        let (unit, text) = (&lines.unit, lines.text.as_slice());
        let none = |why| (0, why);
        if self.dir.is_none() {
            self.dir = Some(directory(&self.settings.log_dir, self.keeping).map_err(none)?);
        }
        let Some(dir) = self.dir.as_ref().map(AsFd::as_fd) else { return Ok(()) };
        if !self.open.contains_key(unit) {
            let file = LogFile::open(dir, unit, self.keeping).map_err(none)?;
            if self.open.len() >= limit::FILES_OPEN
                && let Some(oldest) =
                    self.open.iter().min_by_key(|(_, open)| open.used).map(|(unit, _)| unit.clone())
            {
                self.open.remove(&oldest);
            }
            self.open.insert(unit.clone(), Open { file, used: 0 });
        }
        self.clock += 1;
        let Some(open) = self.open.get_mut(unit) else { return Ok(()) };
        open.used = self.clock;
        open.file.follow(dir, unit, self.keeping).map_err(none)?;
        let mark = lines.mark.as_ref();
        let (begin, before) = mark.map_or((0, None), |mark| mark.begins(open.file.inode()));
        if let Some(size) = before {
            open.file.take_back(size).map_err(none)?;
        }
        if let Some(note) = note {
            let noted = open.file.append(dir, unit, note, self.keeping, &mut |_, _, _| {});
            noted.map_err(|torn| none(torn.why))?;
            self.troubles.remove(unit);
        }
        let mut told = |written: usize, inode, size| {
            if let Some(mark) = mark {
                mark.goes_on(begin + written, inode, size);
            }
        };
        let rest = text.get(begin..).unwrap_or_default();
        let appended = open.file.append(dir, unit, rest, self.keeping, &mut told);
        told(rest.len(), 0, 0);
        appended.map_err(|torn| (begin + torn.written, torn.why))
    }

    fn trouble(&mut self, unit: &Name, lost: u64, why: &str, rest: Option<Instant>) {
        if self.troubles.is_empty() {
            (self.tell)(unit, why);
        }
        self.lose(unit, lost, why, rest);
    }

    fn lose(&mut self, unit: &Name, lost: u64, why: &str, rest: Option<Instant>) {
        if self.troubles.len() >= limit::UNITS && !self.troubles.contains_key(unit) {
            self.troubles.pop_first();
        }
        let new = || Trouble { lost: 0, why: String::new(), rest: None };
        let trouble = self.troubles.entry(unit.clone()).or_insert_with(new);
        trouble.lost += lost;
        if !why.is_empty() {
            trouble.why = why.to_string();
        }
        if rest.is_some() {
            trouble.rest = rest;
        }
    }
}

impl Trouble {
    /// The stored line that says it.
    fn note(&self) -> Vec<u8> {
        note(&format!("{} lines lost: {}", self.lost, self.why))
    }
}

/// A stored line of the logger's own.
pub(crate) fn note(text: &str) -> Vec<u8> {
    let mut stored = Vec::new();
    let line =
        LogLine { time: now(), run: None, level: None, continued: false, text: text.as_bytes() };
    line.render(&mut stored);
    stored
}

/// The wall clock; before 1970 counts as 1970.
pub(crate) fn now() -> WallTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    WallTime::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn count(text: &[u8]) -> u64 {
    text.iter().fold(0, |lines, byte| lines + u64::from(*byte == b'\n'))
}

fn keeping(settings: &Settings) -> Keeping {
    Keeping {
        size: settings.log_size.max(1),
        keep: settings.log_keep,
        group: group(&settings.log_readers),
    }
}

/// The number of a group, by /etc/group or written as a number. The logger may read it:
/// nothing waits for the logger.
pub(crate) fn group(name: &str) -> Option<u32> {
    let mut text = String::new();
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/etc/group");
    if let Ok(file) = file {
        // A file that can not be read names no group.
        let _ = file.take(limit::GROUP_FILE).read_to_string(&mut text);
    }
    let found = Accounts::parse("", &text).group(name).map(|group| group.gid);
    found.or_else(|| groundstate_units::unit::account::id(name))
}

/// Opens the log directory, made if it is not there. Only called once PID 1 said that what is
/// to be mounted there is mounted.
fn directory(path: &str, keeping: Keeping) -> Result<OwnedFd, Errno> {
    if let Ok(found) = open_directory(path) {
        return Ok(found);
    }
    DirBuilder::new().recursive(true).mode(0o750).create(path).map_err(errno)?;
    let made = open_directory(path).map_err(errno)?;
    if let Some(group) = keeping.group {
        // Refused where we are not root nor in the group: then its members do without.
        let _ = nix::unistd::fchown(&made, None, Some(nix::unistd::Gid::from_raw(group)));
    }
    Ok(made)
}

fn open_directory(path: &str) -> std::io::Result<OwnedFd> {
    let flags = libc::O_DIRECTORY | libc::O_NONBLOCK | libc::O_CLOEXEC;
    Ok(File::options().read(true).custom_flags(flags).open(path)?.into())
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}
