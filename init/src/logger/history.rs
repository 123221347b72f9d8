//! Reads lines older than the tails from the files, in a thread for each request, as fast as its
//! client reads.
//!
//! The lane that writes the files also opens them, in its turn. So lines read from pipes before the
//! request are in the files, and later lines reach the client through [`super::clients`]. A
//! follower misses no line and gets none twice.

use super::limit;
use groundstate_units::control::log_line::{LogLine, file_name};
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use mio::Waker;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread;

/// A client's request.
#[derive(Debug)]
pub(crate) struct History {
    /// The units.
    pub(crate) sources: Vec<Source>,
    /// The number of last lines of each.
    pub(crate) most: u64,
    /// Lines before this time are skipped.
    pub(crate) since: Option<WallTime>,
    /// The channel to the client, which may be gone.
    pub(crate) to: SyncSender<Found>,
    /// Wakes the loop.
    pub(crate) waker: Arc<Waker>,
}

/// One unit of a request.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) unit: Name,
    /// The tail in memory. `None` if the logger does not know the unit.
    pub(crate) tail: Option<Vec<u8>>,
    /// True if its lines go to a file.
    pub(crate) in_file: bool,
}

/// A piece of the answer. The channel is closed after the last one.
#[derive(Debug)]
pub(crate) enum Found {
    /// Stored lines of a unit.
    Lines(Name, Vec<u8>),
    /// The unit has neither a tail nor a file.
    Nothing(Name),
}

impl History {
    /// Opens the files and starts a thread that reads them.
    pub(crate) fn open(self, dir: Option<BorrowedFd<'_>>) {
        let mut opened = Vec::new();
        for source in &self.sources {
            let files = match dir.filter(|_| source.in_file) {
                Some(dir) => open_files(dir, &source.unit),
                None => Vec::new(),
            };
            opened.push(choose(source, files));
        }
        let name = "log-history".to_string();
        let builder = thread::Builder::new().name(name).stack_size(limit::STACK);
        // Without a thread the channel closes, and the answer is empty.
        let _ = builder.spawn(move || {
            let waker = Arc::clone(&self.waker);
            // An error means that the client is gone.
            let _ = self.read(opened);
            let _ = waker.wake();
        });
    }

    fn read(self, opened: Vec<Option<Text>>) -> Result<(), Gone> {
        let mut readers = Vec::new();
        for (source, text) in self.sources.iter().zip(opened) {
            match text {
                None => self.send(Found::Nothing(source.unit.clone()))?,
                Some(text) => {
                    readers.extend(Reader::new(&source.unit, text, self.most, self.since));
                }
            }
        }
        let mut batch: Option<(Name, Vec<u8>)> = None;
        loop {
            // The oldest line of all units; each unit keeps its own order.
            let heads = readers.iter_mut().filter_map(Reader::head);
            let Some(reader) = heads.min_by_key(|reader| reader.time) else { break };
            let same = batch
                .as_ref()
                .is_some_and(|(unit, text)| *unit == reader.unit && text.len() < limit::READ);
            if !same && let Some((unit, text)) = batch.take() {
                self.send(Found::Lines(unit, text))?;
            }
            let (_, text) = batch.get_or_insert_with(|| (reader.unit.clone(), Vec::new()));
            text.append(&mut reader.line);
        }
        match batch {
            Some((unit, text)) => self.send(Found::Lines(unit, text)),
            None => Ok(()),
        }
    }

    fn send(&self, found: Found) -> Result<(), Gone> {
        self.to.send(found).map_err(|_| Gone)?;
        // The loop exists as long as this process.
        let _ = self.waker.wake();
        Ok(())
    }
}

/// The client no longer reads the answer.
struct Gone;

/// The source of a unit's lines.
enum Text {
    Memory(Vec<u8>),
    /// Oldest first, each with its length at the time of the request.
    Files(Vec<(File, u64)>),
}

/// Uses the files, unless the memory has newer lines (because of a full disk, for example).
fn choose(source: &Source, files: Vec<(File, u64)>) -> Option<Text> {
    let Some(tail) = source.tail.as_ref().filter(|tail| !tail.is_empty()) else {
        if files.is_empty() {
            return source.tail.is_some().then(|| Text::Memory(Vec::new()));
        }
        return Some(Text::Files(files));
    };
    let body = tail.strip_suffix(b"\n").unwrap_or(tail);
    let from = body.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let newest = tail.get(from..).unwrap_or_default();
    let has_newest_line = files.last().is_some_and(|(file, size)| {
        let mut end = vec![0; newest.len()];
        let at = size.checked_sub(newest.len() as u64);
        at.is_some_and(|at| file.read_exact_at(&mut end, at).is_ok()) && end == newest
    });
    Some(if has_newest_line { Text::Files(files) } else { Text::Memory(tail.clone()) })
}

/// Opens `UNIT.log` and its predecessors up to the first gap, oldest first.
fn open_files(dir: BorrowedFd<'_>, unit: &Name) -> Vec<(File, u64)> {
    let name = file_name(unit);
    let open = |name: &str| -> Option<(File, u64)> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = File::from(openat(dir, name, flags, Mode::empty()).ok()?);
        let found = file.metadata().ok()?;
        found.is_file().then_some((file, found.len()))
    };
    let rotated = (1..=limit::HISTORY_FILES).map_while(|number| open(&format!("{name}.{number}")));
    let mut files: Vec<(File, u64)> = open(&name).into_iter().chain(rotated).collect();
    files.reverse();
    files
}

/// The lines of one unit, oldest first.
struct Reader {
    unit: Name,
    from: Box<dyn BufRead>,
    since: Option<WallTime>,
    /// The next line; empty after it was taken.
    line: Vec<u8>,
    time: WallTime,
}

impl Reader {
    fn new(unit: &Name, text: Text, most: u64, since: Option<WallTime>) -> io::Result<Reader> {
        let from: Box<dyn BufRead> = match text {
            Text::Memory(mut text) => {
                let mut ends = text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
                let before = usize::try_from(most).ok().and_then(|most| ends.nth(most));
                let from = before.map_or(0, |(at, _)| at + 1);
                text.drain(..from);
                Box::new(io::Cursor::new(text))
            }
            Text::Files(files) => {
                Box::new(BufReader::with_capacity(limit::HISTORY_BUFFER, last_of(files, most)?))
            }
        };
        Ok(Reader { unit: unit.clone(), from, since, line: Vec::new(), time: WallTime::default() })
    }

    /// Reads the next line into `line` and `time`. Returns `None` at the end.
    fn head(&mut self) -> Option<&mut Reader> {
        while self.line.is_empty() {
            let most = limit::STORED_LINE as u64;
            let read = self.from.by_ref().take(most).read_until(b'\n', &mut self.line).ok()?;
            if read == 0 {
                return None;
            }
            let time = LogLine::parse(&self.line).map(|line| line.time);
            let late = time.is_some_and(|time| self.since.is_none_or(|since| time >= since));
            match time {
                Some(time) if late && self.line.ends_with(b"\n") => self.time = time,
                _ => self.line.clear(),
            }
        }
        Some(self)
    }
}

/// The last `most` lines of consecutive files.
fn last_of(files: Vec<(File, u64)>, most: u64) -> io::Result<Box<dyn Read>> {
    let mut all: Box<dyn Read> = Box::new(io::empty());
    let mut left = most;
    for (mut file, size) in files.into_iter().rev() {
        if left == 0 {
            break;
        }
        let (from, lines) = start_of_last(&file, size, left)?;
        left = left.saturating_sub(lines);
        file.seek(SeekFrom::Start(from))?;
        all = Box::new(file.take(size - from).chain(all));
    }
    Ok(all)
}

/// The offset of the last `most` lines of a file, and the number of lines from there on.
fn start_of_last(file: &File, size: u64, most: u64) -> io::Result<(u64, u64)> {
    let (mut end, mut newlines) = (size, 0);
    let mut block = vec![0; limit::HISTORY_BUFFER];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        block.truncate(usize::try_from(end - start).unwrap_or(0));
        file.read_exact_at(&mut block, start)?;
        for (at, byte) in block.iter().enumerate().rev() {
            if *byte == b'\n' && newlines == most {
                return Ok((start + at as u64 + 1, most));
            }
            newlines += u64::from(*byte == b'\n');
        }
        end = start;
    }
    Ok((0, newlines))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(texts: &[&str]) -> Vec<(File, u64)> {
        let open = |text: &&str| {
            let fd = nix::sys::memfd::memfd_create(c"log", nix::sys::memfd::MFdFlags::empty());
            let file = File::from(fd.unwrap());
            file.write_all_at(text.as_bytes(), 0).unwrap();
            (file, text.len() as u64)
        };
        texts.iter().map(open).collect()
    }

    #[test]
    fn last_lines_are_found_across_rotated_files() {
        let long = format!("{}\n", "x".repeat(3 * limit::HISTORY_BUFFER));
        for (most, want) in [
            (0, String::new()),
            (1, "6\n".to_string()),
            (2, "5\n6\n".to_string()),
            (3, format!("{long}5\n6\n")),
            (4, format!("3\n{long}5\n6\n")),
            (6, format!("1\n2\n3\n{long}5\n6\n")),
            (u64::MAX, format!("1\n2\n3\n{long}5\n6\n")),
        ] {
            let all = files(&["1\n2\n3\n", "", &long, "5\n6\n"]);
            let mut got = String::new();
            last_of(all, most).unwrap().read_to_string(&mut got).unwrap();
            assert!(got == want, "{most}");
        }
    }

    #[test]
    fn tail_in_memory_is_used_if_the_files_lack_its_newest_line() {
        let unit = Name::new("web").unwrap();
        let source = |tail: Option<&str>| Source {
            unit: unit.clone(),
            tail: tail.map(|text| text.as_bytes().to_vec()),
            in_file: true,
        };
        let up_to_date = choose(&source(Some("2\n3\n")), files(&["1\n2\n3\n"]));
        assert!(matches!(up_to_date, Some(Text::Files(_))));
        let behind = choose(&source(Some("2\n3\n")), files(&["1\n2\n"]));
        assert!(matches!(behind, Some(Text::Memory(text)) if text == b"2\n3\n"));
        assert!(matches!(choose(&source(Some("3\n")), files(&[])), Some(Text::Memory(_))));
        assert!(matches!(choose(&source(None), files(&["1\n"])), Some(Text::Files(_))));
        assert!(choose(&source(None), files(&[])).is_none());
    }
}
