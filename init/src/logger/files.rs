//! All log files: the sink of the lane that writes them. Lines that cannot be written are counted
//! and reported in the file later.

use super::channel::Settings;
use super::history::History;
use super::limit;
use super::pending_buffer::count_lines;
use super::sinks::Lines;
use groundstate_units::control::log_line::{LogLine, file_name};
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use groundstate_units::unit::account::Accounts;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{Gid, UnlinkatFlags, fchown, ftruncate, geteuid, unlinkat, write};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// A job of the lane of files.
#[derive(Debug)]
pub(crate) enum Job {
    /// Write lines to the unit's file.
    Lines(Arc<Lines>),
    /// Lines of this unit that were dropped.
    Lost(Name, u64),
    /// Use new settings.
    Settings(Settings),
    /// Read older lines for a client.
    History(History),
}

/// Receives the first failure to write files: the unit and the reason.
type Tell = Box<dyn Fn(&Name, &str) + Send>;

/// Open files and failures.
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

/// Lines missing in a file.
#[derive(Debug)]
struct Trouble {
    lost: u64,
    why: String,
    /// The time of the next attempt.
    rest: Option<Instant>,
}

impl Files {
    /// Opens nothing before the first line.
    pub(crate) fn new(settings: Settings, tell: Tell) -> Files {
        let keeping = keeping(&settings);
        let (open, troubles) = (BTreeMap::new(), BTreeMap::new());
        Files { settings, keeping, dir: None, open, troubles, clock: 0, tell }
    }

    /// Carries out one job.
    pub(crate) fn take(&mut self, job: Job) {
        match job {
            Job::Lines(lines) => self.write(&lines),
            Job::Lost(unit, lost) => {
                // The stuck disk was reported when it happened.
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
                    // A reader does not create the directory.
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
            self.trouble(unit, count_lines(text), "", None);
            return;
        }
        let note = self.troubles.get(unit).map(Trouble::note);
        if let Err((written, why)) = self.append(lines, note.as_deref()) {
            // Files are opened again later: the directory may have changed by then.
            self.open.remove(unit);
            self.dir = None;
            let lost = count_lines(text.get(written..).unwrap_or_default());
            let rest = Instant::now() + limit::FILE_REST;
            self.trouble(unit, lost, why.desc(), Some(rest));
        }
    }

    /// On an error, also returns how many bytes of `text` were written nevertheless, in whole
    /// lines.
    fn append(&mut self, lines: &Lines, note: Option<&[u8]>) -> Result<(), (usize, Errno)> {
        let (unit, text) = (&lines.unit, lines.text.as_slice());
        let none = |why| (0, why);
        if self.dir.is_none() {
            self.dir = Some(directory(&self.settings.log_dir, self.keeping).map_err(none)?);
        }
        let Some(dir) = self.dir.as_ref().map(AsFd::as_fd) else { return Ok(()) };
        if !self.open.contains_key(unit) {
            let file = LogFile::open(dir, file_name(unit), self.keeping).map_err(none)?;
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
        open.file.follow(dir).map_err(none)?;
        let mark = lines.mark.as_ref();
        let (begin, before) = mark.map_or((0, None), |mark| mark.resume_point(open.file.inode()));
        if let Some(size) = before {
            open.file.take_back(size).map_err(none)?;
        }
        if let Some(note) = note {
            let noted = open.file.append(dir, note, &mut |_, _, _| {});
            noted.map_err(|torn| none(torn.why))?;
            self.troubles.remove(unit);
        }
        let mut told = |written: usize, inode, size| {
            if let Some(mark) = mark {
                mark.record_progress(begin + written, inode, size);
            }
        };
        let rest = text.get(begin..).unwrap_or_default();
        let appended = open.file.append(dir, rest, &mut told);
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
    /// The stored line that reports the loss.
    fn note(&self) -> Vec<u8> {
        note(&format!("{} lines lost: {}", self.lost, self.why))
    }
}

/// A stored line of the logger itself.
pub(crate) fn note(text: &str) -> Vec<u8> {
    let mut stored = Vec::new();
    let line =
        LogLine { time: now(), run: None, level: None, continued: false, text: text.as_bytes() };
    line.render(&mut stored);
    stored
}

/// The wall clock; times before 1970 count as 1970.
pub(crate) fn now() -> WallTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    WallTime::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn keeping(settings: &Settings) -> Keeping {
    Keeping {
        size: settings.log_size.max(1),
        keep: settings.log_keep,
        group: group(&settings.log_readers),
    }
}

/// The id of a group, by /etc/group or as a number. The logger may read the file, because nothing
/// waits for the logger.
pub(crate) fn group(name: &str) -> Option<u32> {
    let mut text = String::new();
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = File::options().read(true).custom_flags(flags).open("/etc/group");
    if let Ok(file) = file {
        // An unreadable file counts as empty.
        let _ = file.take(limit::GROUP_FILE).read_to_string(&mut text);
    }
    let found = Accounts::parse("", &text).group(name).map(|group| group.gid);
    found.or_else(|| groundstate_units::unit::account::id(name))
}

/// Opens the log directory, creating it if missing. Only after PID 1 has reported that its file
/// system is mounted.
fn directory(path: &str, keeping: Keeping) -> Result<OwnedFd, Errno> {
    if let Ok(found) = open_directory(path) {
        return Ok(found);
    }
    DirBuilder::new().recursive(true).mode(0o750).create(path).map_err(errno)?;
    let made = open_directory(path).map_err(errno)?;
    if let Some(group) = keeping.group {
        // This fails without root or membership in the group; then the group has no access.
        let _ = nix::unistd::fchown(&made, None, Some(nix::unistd::Gid::from_raw(group)));
    }
    Ok(made)
}

fn open_directory(path: &str) -> std::io::Result<OwnedFd> {
    let flags = libc::O_DIRECTORY | libc::O_NONBLOCK | libc::O_CLOEXEC;
    Ok(File::options().read(true).custom_flags(flags).open(path)?.into())
}

// The log file of one unit
//
// Whole lines are appended, and the file is rotated by size. Any other file at its path (a symbolic
// link, a FIFO, a file with a second link or another owner) is moved aside like a full file. It is
// never followed, waited for, written or truncated.

/// Rotation settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeping {
    /// Size at which it is rotated; a single longer line still fits.
    pub(crate) size: u64,
    /// Number of rotated files kept.
    pub(crate) keep: u32,
    /// The group that may read them.
    pub(crate) group: Option<u32>,
}

/// An open log file with this process as the only writer.
#[derive(Debug)]
pub(crate) struct LogFile {
    fd: OwnedFd,
    inode: u64,
    size: u64,
    name: String,
    keeping: Keeping,
}

/// A partial write.
#[derive(Debug)]
pub(crate) struct Torn {
    /// Bytes of whole lines that are in the file (or its predecessor) nevertheless.
    pub(crate) written: usize,
    /// The error that ended it.
    pub(crate) why: Errno,
}

impl LogFile {
    /// Opens or creates the file of this name in `dir`.
    fn open(dir: BorrowedFd<'_>, name: String, keeping: Keeping) -> Result<LogFile, Errno> {
        match LogFile::open_ours(dir, &name, keeping) {
            Err(None) => {
                rotate(dir, &name, keeping.keep.max(1))?;
                LogFile::open_ours(dir, &name, keeping).map_err(|why| why.unwrap_or(Errno::EEXIST))
            }
            Err(Some(why)) => Err(why),
            Ok(file) => Ok(file),
        }
    }

    /// `Err(None)` means that another kind of file exists at the path.
    fn open_ours(
        dir: BorrowedFd<'_>,
        name: &str,
        keeping: Keeping,
    ) -> Result<LogFile, Option<Errno>> {
        // O_RDWR to check whether the last line is whole; O_NONBLOCK so that a FIFO does not block.
        let flags = OFlag::O_RDWR
            | OFlag::O_APPEND
            | OFlag::O_CREAT
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_NOCTTY
            | OFlag::O_CLOEXEC;
        let fd = match openat(dir, name, flags, Mode::from_bits_truncate(0o640)) {
            Ok(fd) => fd,
            Err(Errno::ELOOP | Errno::EISDIR | Errno::ENXIO | Errno::ENODEV) => return Err(None),
            Err(why) => return Err(Some(why)),
        };
        let found = fstat(&fd)?;
        if !is_ours(&found) {
            return Err(None);
        }
        if let Some(group) = keeping.group.filter(|group| *group != found.st_gid) {
            // This fails without root or membership in the group; then the group has no access.
            let _ = fchown(&fd, None, Some(Gid::from_raw(group)));
        }
        let (inode, size) = (found.st_ino, u64::try_from(found.st_size).unwrap_or(0));
        let mut file = LogFile { fd, inode, size, name: name.to_string(), keeping };
        file.end_torn_line().map_err(Some)?;
        Ok(file)
    }

    /// Removes a last line that was truncated by a crash of the logger or a power loss, because a
    /// partial line may mislead (12 instead of 123).
    fn end_torn_line(&mut self) -> Result<(), Errno> {
        let most = u64::try_from(limit::STORED_LINE).unwrap_or(u64::MAX).min(self.size);
        let mut last = vec![0; 1.min(usize::try_from(most).unwrap_or(0))];
        let file = std::fs::File::from(self.fd.try_clone().map_err(errno)?);
        file.read_exact_at(&mut last, self.size.saturating_sub(1)).map_err(errno)?;
        if last.is_empty() || last == b"\n" {
            return Ok(());
        }
        last.resize(usize::try_from(most).unwrap_or(0), 0);
        file.read_exact_at(&mut last, self.size - most).map_err(errno)?;
        let torn = last.iter().rev().position(|byte| *byte == b'\n').unwrap_or(last.len());
        if most < self.size && torn == last.len() {
            // No line of ours is that long.
            self.size += write(&self.fd, b"\n")? as u64;
            return Ok(());
        }
        self.size -= torn as u64;
        ftruncate(&self.fd, i64::try_from(self.size).map_err(|_| Errno::EFBIG)?)
    }

    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    /// Checks the file at the path again. Another program may have removed or renamed the file, as
    /// logrotate does; then a new one is opened. It may also have truncated it.
    fn follow(&mut self, dir: BorrowedFd<'_>) -> Result<(), Errno> {
        match fstatat(dir, self.name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if found.st_ino == self.inode => {
                self.size = u64::try_from(found.st_size).unwrap_or(self.size);
                Ok(())
            }
            Ok(_) | Err(Errno::ENOENT) => self.renew(dir),
            Err(why) => Err(why),
        }
    }

    /// Continues with a new file.
    fn renew(&mut self, dir: BorrowedFd<'_>) -> Result<(), Errno> {
        *self = LogFile::open(dir, self.name.clone(), self.keeping)?;
        Ok(())
    }

    /// Truncates the file to a previous size. Lines that a killed logger added are written again.
    fn take_back(&mut self, size: u64) -> Result<(), Errno> {
        if size < self.size {
            ftruncate(&self.fd, i64::try_from(size).map_err(|_| Errno::EFBIG)?)?;
            self.size = size;
        }
        Ok(())
    }

    /// Appends whole lines and rotates if needed. Before each write it calls `told` with the bytes
    /// written so far, and the file and its size.
    fn append(
        &mut self,
        dir: BorrowedFd<'_>,
        lines: &[u8],
        told: &mut dyn FnMut(usize, u64, u64),
    ) -> Result<(), Torn> {
        let mut rest = lines;
        while !rest.is_empty() {
            let written = lines.len() - rest.len();
            let room = self.keeping.size.saturating_sub(self.size);
            let mut fits = whole_lines(rest, usize::try_from(room).unwrap_or(usize::MAX));
            if fits == 0 {
                if self.size > 0 {
                    // So a later logger sees that the file was rotated, and does not truncate it.
                    told(written, self.inode, self.size);
                    let rotated = rotate(dir, &self.name, self.keeping.keep);
                    rotated.and_then(|()| self.renew(dir)).map_err(|why| Torn { written, why })?;
                    continue;
                }
                fits = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
            }
            let (now, later) = rest.split_at_checked(fits).unwrap_or((rest, &[]));
            told(written, self.inode, self.size);
            self.write_lines(now)
                .map_err(|torn| Torn { written: written + torn.written, ..torn })?;
            rest = later;
        }
        Ok(())
    }

    fn write_lines(&mut self, lines: &[u8]) -> Result<(), Torn> {
        let mut done = 0;
        while let Some(rest) = lines.get(done..).filter(|rest| !rest.is_empty()) {
            match write(&self.fd, rest) {
                Ok(0) => return Err(self.cut(lines, done, Errno::ENOSPC)),
                Ok(bytes) => done += bytes,
                Err(Errno::EINTR) => {}
                Err(why) => return Err(self.cut(lines, done, why)),
            }
        }
        self.size += done as u64;
        Ok(())
    }

    /// Removes the partial line that was written before the error.
    fn cut(&mut self, lines: &[u8], done: usize, why: Errno) -> Torn {
        let written = whole_lines(lines, done);
        self.size += written as u64;
        if written < done
            && let Ok(size) = i64::try_from(self.size)
        {
            // If this fails, the partial line is removed at the next open.
            let _ = ftruncate(&self.fd, size);
        }
        Torn { written, why }
    }
}

fn is_ours(found: &FileStat) -> bool {
    let kind = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT;
    kind == SFlag::S_IFREG && found.st_nlink == 1 && found.st_uid == geteuid().as_raw()
}

/// Length of the whole lines within the first `most` bytes.
fn whole_lines(lines: &[u8], most: usize) -> usize {
    let head = lines.get(..most).unwrap_or(lines);
    head.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

/// Renames `NAME` to `NAME.1`, that to `NAME.2`, and so on; the one beyond `keep` is removed.
fn rotate(dir: BorrowedFd<'_>, name: &str, keep: u32) -> Result<(), Errno> {
    if keep == 0 {
        return ignore_missing(unlinkat(dir, name, UnlinkatFlags::NoRemoveDir));
    }
    // Only up to the first gap: files beyond it need not move.
    let numbered = |number: u32| format!("{name}.{number}");
    let taken =
        |number: u32| fstatat(dir, numbered(number).as_str(), AtFlags::AT_SYMLINK_NOFOLLOW).is_ok();
    let free = (1..keep).find(|number| !taken(*number)).unwrap_or(keep);
    for number in (1..free).rev() {
        ignore_missing(renameat(
            dir,
            numbered(number).as_str(),
            dir,
            numbered(number + 1).as_str(),
        ))?;
    }
    ignore_missing(renameat(dir, name, dir, numbered(1).as_str()))?;
    // `log-keep` may have been larger before.
    let beyond = (keep.saturating_add(1)..).take(limit::ROTATED_REMOVED);
    let remove = |number| unlinkat(dir, numbered(number).as_str(), UnlinkatFlags::NoRemoveDir);
    let _ = beyond.map(remove).take_while(Result::is_ok).count();
    Ok(())
}

/// Treats a missing file as success.
fn ignore_missing(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::ENOENT) => Ok(()),
        other => other,
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}
