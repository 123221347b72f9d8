//! The lines of several units in the order of time, from the logger or from its files.
//!
//! The logger selects lines by unit, number and time; this module applies all other filters. To find
//! the last lines that pass a filter, [`Lines::last`] asks for more and more lines.

use super::{Piece, Query, ask, attribute, is_down};
use crate::connection::Connection;
use crate::exit::Error;
use crate::machine::LOG_UNIT;
use crate::session::{self, Session};
use groundstate_units::control::answer::Failure;
use groundstate_units::control::log_line::{LogLine, ShownLine, file_name};
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The most bytes of lines in memory. A request for more last lines gets fewer.
const KEPT: usize = 64 * 1024 * 1024;
/// The logger reads files only for a request of at most this number of units.
const UNITS_OF_A_QUERY: usize = 64;
/// The logger reads files for at most this number of requests of a user.
const QUERIES: usize = 2;
/// The number of lines of each unit that the first request with a filter asks for.
const FIRST: u64 = 1000;
/// The next request asks for this many times more lines.
const GROWTH: u64 = 8;
/// The logger's own limit of lines of each unit.
const MOST: u64 = 1_000_000;

/// A filter. It may change the line; lines without a result are not shown.
pub(crate) type Filter<'a> = &'a dyn Fn(ShownLine) -> Option<ShownLine>;

/// A request.
pub(crate) struct Lines<'a> {
    /// The session.
    pub(crate) session: &'a Session,
    /// The directory of the files that are read if the logger is down. With `None`, a request fails.
    pub(crate) dir: Option<&'a str>,
    /// The units whose logs are read; empty for all.
    pub(crate) names: &'a [String],
    /// The earliest time.
    pub(crate) since: Option<WallTime>,
    /// Selects the lines.
    pub(crate) filter: Filter<'a>,
    /// The filter drops lines.
    pub(crate) is_filtered: bool,
}

/// The number of last lines.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Last<'a> {
    /// Of all units together.
    OfAll(u64),
    /// Of each unit. The filter passes lines of these units only; empty if it passes those of all.
    OfEach(u64, &'a [String]),
}

/// The answer to [`Lines::last`].
pub(crate) struct Answer {
    /// The lines in the order of time.
    pub(crate) lines: Vec<ShownLine>,
    /// Lines were dropped because of [`KEPT`].
    pub(crate) is_cut: bool,
    /// The end of the logs at the time of the request.
    pub(crate) position: Position,
    /// The error that ended the answer early.
    pub(crate) ended: Result<(), Error>,
}

/// The latest time of the lines of an answer, and how many lines of each unit have this time.
#[derive(Debug, Default)]
pub(crate) struct Position {
    time: String,
    counts: BTreeMap<String, usize>,
}

impl Position {
    fn record(&mut self, line: &ShownLine) {
        if line.time > self.time {
            self.time.clone_from(&line.time);
            self.counts.clear();
        }
        if line.time == self.time {
            *self.counts.entry(line.unit.clone()).or_default() += 1;
        }
    }

    /// Returns true if the line was in the answer. A unit's lines keep their order.
    fn skips(&mut self, line: &ShownLine) -> bool {
        if line.time != self.time {
            return false;
        }
        let left = self.counts.get_mut(&line.unit).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    }
}

impl Lines<'_> {
    /// Passes all lines to `put` as they arrive.
    ///
    /// # Errors
    /// The logs cannot be read; lines that were read before the error were passed on. Errors of `put`.
    pub(crate) fn all(
        &self,
        mut put: impl FnMut(ShownLine) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut merged = self.open(MOST)?;
        while let Some(line) = merged.next()? {
            if let Some(line) = (self.filter)(line) {
                put(line)?;
            }
        }
        Ok(())
    }

    /// Returns the last lines.
    ///
    /// # Errors
    /// The logs cannot be read.
    pub(crate) fn last(&self, last: Last<'_>, follows: bool) -> Result<Answer, Error> {
        let (Last::OfAll(wanted) | Last::OfEach(wanted, _)) = last;
        let mut count =
            if self.is_filtered || follows { wanted.max(FIRST) } else { wanted }.min(MOST);
        loop {
            let mut tails = Tails::new(last);
            let mut position = Position::default();
            let mut merged = self.open(count)?;
            let ended = loop {
                match merged.next() {
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                    Ok(Some(line)) => {
                        position.record(&line);
                        tails.note(&line);
                        if let Some(line) = (self.filter)(line) {
                            tails.keep(line);
                        }
                    }
                }
            };
            let until = if follows { position.time.as_str() } else { "" };
            if ended.is_err() || count >= MOST || tails.is_complete(count, until) {
                let (lines, is_cut) = tails.into_lines();
                return Ok(Answer { lines, is_cut, position, ended });
            }
            count = count.saturating_mul(GROWTH).min(MOST);
        }
    }

    /// Passes the lines behind `position` to `put` as they are written. Returns when the logger ends.
    ///
    /// # Errors
    /// The logs cannot be read. Errors of `put`.
    pub(crate) fn follow(
        &self,
        mut position: Position,
        mut put: impl FnMut(ShownLine) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut since = WallTime::parse(&position.time);
        if since.is_some_and(|since| since > session::now()) {
            // The clock was set back. Later lines have earlier times.
            since = Some(session::now());
        }
        let lines = if since.is_some() { None } else { Some(MOST) };
        let query = Query { names: self.names, lines, follow: true, since: since.or(self.since) };
        let mut connection = ask(self.session, &query)?;
        while let Some(Piece::Line(line)) = connection.next::<Piece>()? {
            if !position.skips(&line)
                && let Some(line) = (self.filter)(line)
            {
                put(line)?;
            }
        }
        Ok(())
    }

    /// Asks for the last `count` lines of each unit.
    fn open(&self, count: u64) -> Result<Merged, Error> {
        let is_split = self.names.len() <= QUERIES * UNITS_OF_A_QUERY;
        let size = if is_split { UNITS_OF_A_QUERY } else { self.names.len() };
        let mut parts = Vec::new();
        let chunks = if self.names.is_empty() {
            vec![self.names]
        } else {
            self.names.chunks(size).collect()
        };
        for names in chunks {
            match self.ask(names, count) {
                Ok(part) => parts.push(part),
                Err(error) if is_down(&error) && self.dir.is_some() => return self.files(),
                Err(error) => return Err(error),
            }
        }
        Ok(Merged { parts, error: None })
    }

    fn ask(&self, names: &[String], count: u64) -> Result<Part, Error> {
        let query = Query { names, lines: Some(count), follow: false, since: self.since };
        let mut part = Part::new(Source::Logger(ask(self.session, &query)?));
        part.advance();
        if !part.error.as_ref().is_some_and(is_unknown) {
            return Ok(part);
        }
        // One unit without a log ends the answer for all, so the units are examined one by one.
        let mut known = Vec::new();
        for name in names.iter().filter(|_| names.len() > 1) {
            let query = Query { names: std::slice::from_ref(name), lines: Some(0), ..query };
            match ask(self.session, &query)?.next::<Piece>() {
                Ok(_) => known.push(name.clone()),
                Err(error) if is_unknown(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if known.is_empty() {
            return Ok(Part::new(Source::None));
        }
        let query = Query { names: &known, ..query };
        let mut part = Part::new(Source::Logger(ask(self.session, &query)?));
        part.advance();
        Ok(part)
    }

    /// Reads the present file of each unit.
    fn files(&self) -> Result<Merged, Error> {
        let dir = self.dir.unwrap_or_default();
        let names = match self.names.is_empty() {
            true => super::units_in(dir),
            false => self.names.iter().filter_map(|name| Name::new(name).ok()).collect(),
        };
        let mut parts = Vec::new();
        for unit in names {
            let path = Path::new(dir).join(file_name(&unit));
            match File::open(&path) {
                Ok(file) => {
                    let path = path.to_string_lossy().into_owned();
                    let file = BufReader::new(file);
                    let mut part = Part::new(Source::File { file, unit, path, since: self.since });
                    part.advance();
                    parts.push(part);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::file(&path.to_string_lossy(), &error)),
            }
        }
        Ok(Merged { parts, error: None })
    }
}

/// Returns true if the logger has no log of a name.
fn is_unknown(error: &Error) -> bool {
    matches!(error, Error::Failed(_, failure) if failure.kind == Failure::UNKNOWN_TARGET)
}

/// A sequence of lines.
enum Source {
    Logger(Connection),
    File { file: BufReader<File>, unit: Name, path: String, since: Option<WallTime> },
    None,
}

impl Source {
    fn next(&mut self) -> Result<Option<ShownLine>, Error> {
        match self {
            Source::Logger(connection) => match connection.next::<Piece>()? {
                Some(Piece::Line(line)) => Ok(Some(line)),
                Some(Piece::End { .. }) => Ok(None),
                None => Err(connection.cut_off()),
            },
            Source::File { file, unit, path, since } => loop {
                let mut line = Vec::new();
                let read = file.read_until(b'\n', &mut line);
                if read.map_err(|error| Error::file(path, &error))? == 0 {
                    return Ok(None);
                }
                if let Some(parsed) = LogLine::parse(&line)
                    && since.is_none_or(|since| parsed.time >= since)
                {
                    return Ok(Some(ShownLine::new(unit.as_str(), &parsed)));
                }
            },
            Source::None => Ok(None),
        }
    }
}

/// A source with its next line.
struct Part {
    source: Source,
    head: Option<ShownLine>,
    error: Option<Error>,
}

impl Part {
    fn new(source: Source) -> Part {
        Part { source, head: None, error: None }
    }

    fn advance(&mut self) -> Option<ShownLine> {
        let next = self.source.next();
        let (head, error) = match next {
            Ok(head) => (head, None),
            Err(error) => (None, Some(error)),
        };
        if head.is_none() {
            self.source = Source::None;
        }
        self.error = error;
        std::mem::replace(&mut self.head, head)
    }
}

/// The lines of all sources. Lines of one source keep their order.
struct Merged {
    parts: Vec<Part>,
    error: Option<Error>,
}

impl Merged {
    /// Returns the next line, or an error after the lines that were read before it.
    fn next(&mut self) -> Result<Option<ShownLine>, Error> {
        for part in &mut self.parts {
            self.error = self.error.take().or(part.error.take());
        }
        if let Some(error) = self.error.take() {
            self.parts.clear();
            return Err(error);
        }
        let heads = self.parts.iter_mut().filter(|part| part.head.is_some());
        let first = heads.min_by(|a, b| time(a.head.as_ref()).cmp(time(b.head.as_ref())));
        Ok(first.and_then(Part::advance))
    }
}

fn time(line: Option<&ShownLine>) -> &str {
    line.map_or("", |line| &line.time)
}

/// The last lines so far.
struct Tails<'a> {
    last: Last<'a>,
    /// One for all units, or one for each.
    by_unit: BTreeMap<String, VecDeque<ShownLine>>,
    bytes: usize,
    is_cut: bool,
    /// The number of lines that the logger sent for a unit, and the time of the first one.
    sent: BTreeMap<String, (u64, String)>,
}

impl<'a> Tails<'a> {
    fn new(last: Last<'a>) -> Tails<'a> {
        let (by_unit, sent) = (BTreeMap::new(), BTreeMap::new());
        Tails { last, by_unit, bytes: 0, is_cut: false, sent }
    }

    fn note(&mut self, line: &ShownLine) {
        match self.sent.get_mut(&line.unit) {
            Some((count, _)) => *count += 1,
            None => drop(self.sent.insert(line.unit.clone(), (1, line.time.clone()))),
        }
    }

    fn keep(&mut self, line: ShownLine) {
        let (key, most) = match self.last {
            Last::OfAll(most) => ("", most),
            Last::OfEach(most, _) => (line.unit.as_str(), most),
        };
        if most == 0 {
            return;
        }
        self.bytes += size(&line);
        let tail = match self.by_unit.get_mut(key) {
            Some(tail) => tail,
            None => self.by_unit.entry(key.to_string()).or_default(),
        };
        tail.push_back(line);
        loop {
            let is_too_large = self.bytes > KEPT && tail.len() > 1;
            if !is_too_large && (tail.len() as u64) <= most {
                break;
            }
            self.is_cut |= is_too_large && (tail.len() as u64) <= most;
            self.bytes -= tail.pop_front().map_or(0, |line| size(&line));
        }
    }

    /// Returns true if no earlier line belongs to the result. `count` is the number of lines that were
    /// requested of each unit. No unit's answer may consist only of lines of the time `until`: the
    /// position must know all of them.
    fn is_complete(&self, count: u64, until: &str) -> bool {
        let fits = |tail: Option<&VecDeque<ShownLine>>, most: u64, first: &str| {
            most == 0
                || tail.is_some_and(|tail| tail.len() as u64 >= most && time(tail.front()) >= first)
        };
        self.is_cut
            || self.sent.iter().filter(|(_, (sent, _))| *sent >= count).all(|(unit, (_, first))| {
                let has_all = match self.last {
                    Last::OfAll(most) => fits(self.by_unit.get(""), most, first),
                    Last::OfEach(most, units) if unit == LOG_UNIT => {
                        units.iter().all(|unit| fits(self.by_unit.get(unit), most, first))
                    }
                    Last::OfEach(most, _) => fits(self.by_unit.get(unit), most, first),
                };
                has_all && first != until
            })
    }

    fn into_lines(self) -> (Vec<ShownLine>, bool) {
        let is_sorted = self.by_unit.len() <= 1;
        let mut lines: Vec<ShownLine> = self.by_unit.into_values().flatten().collect();
        if !is_sorted {
            lines.sort_by(|a, b| a.time.cmp(&b.time));
        }
        (lines, self.is_cut)
    }
}

fn size(line: &ShownLine) -> usize {
    size_of::<ShownLine>() + line.time.len() + line.unit.len() + line.line.len()
}

/// Returns a line of one of these units, with messages assigned to the unit of their sender; all
/// lines if there are no units. The log of [`LOG_UNIT`] itself is shown as it is stored.
pub(crate) fn of_units(mut line: ShownLine, units: &[String]) -> Option<ShownLine> {
    if !units.iter().any(|unit| unit == LOG_UNIT) {
        attribute(&mut line);
    }
    (units.is_empty() || units.contains(&line.unit)).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Colour, Common};

    fn line(unit: &str, second: u32, text: &str) -> ShownLine {
        ShownLine {
            time: format!("2026-11-21T05:12:{second:02}.000Z"),
            unit: unit.to_string(),
            run: None,
            stream: "output".into(),
            level: Some(6),
            line: text.to_string(),
            continued: false,
        }
    }

    fn tails<'a>(last: Last<'a>, units: &[String], lines: &[ShownLine]) -> Tails<'a> {
        let mut tails = Tails::new(last);
        for line in lines {
            tails.note(line);
            if let Some(line) = of_units(line.clone(), units) {
                tails.keep(line);
            }
        }
        tails
    }

    fn texts(tails: Tails<'_>) -> Vec<String> {
        tails.into_lines().0.into_iter().map(|line| line.line).collect()
    }

    #[test]
    fn last_lines_of_a_unit_contain_its_messages_of_syslog_in_order() {
        let units = ["ssh.service".to_string()];
        let lines = [
            line("ssh.service", 1, "a"),
            line(LOG_UNIT, 2, "ssh.service sshd[1]: b"),
            line(LOG_UNIT, 3, "cron.service cron[2]: c"),
            line("ssh.service", 4, "d"),
        ];
        for last in [Last::OfAll(2), Last::OfEach(2, &units)] {
            assert_eq!(texts(tails(last, &units, &lines)), ["sshd[1]: b", "d"]);
        }
        let each = texts(tails(Last::OfEach(1, &[]), &[], &lines));
        assert_eq!(each, ["cron[2]: c", "d"]);
        assert_eq!(texts(tails(Last::OfAll(0), &units, &lines)), [""; 0]);
        let own = [LOG_UNIT.to_string()];
        let stored = texts(tails(Last::OfAll(1), &own, &lines));
        assert_eq!(stored, ["cron.service cron[2]: c"], "the log of syslog(3) as it is stored");
    }

    #[test]
    fn more_lines_are_requested_until_no_earlier_line_belongs_to_the_result() {
        let units = ["ssh.service".to_string()];
        let other = |second| line(LOG_UNIT, second, "cron.service cron[2]: c");
        let own = |second| line("ssh.service", second, "own");
        let is_complete = |lines: &[ShownLine], count, until: &str| {
            let each = tails(Last::OfEach(2, &units), &units, lines).is_complete(count, until);
            assert_eq!(tails(Last::OfAll(2), &units, lines).is_complete(count, until), each);
            each
        };
        // The log of syslog(3) reaches back to the oldest line that is shown.
        assert!(is_complete(&[other(1), own(2), own(3), other(4)], 2, ""));
        // An earlier message of ssh.service may be missing.
        assert!(!is_complete(&[own(1), own(2), other(3), other(4)], 2, ""));
        assert!(!is_complete(&[other(3), other(4)], 2, ""));
        // Both logs are complete.
        assert!(is_complete(&[own(1), own(2), other(3), other(4)], 3, ""));
        // A follower must know all lines of the last moment.
        let latest = &other(4).time.clone();
        assert!(!is_complete(&[own(4), own(4), other(4), other(4)], 2, latest));
        assert!(is_complete(&[other(1), own(2), own(3), other(4)], 2, latest));
    }

    #[test]
    fn lines_beyond_the_limit_of_memory_are_dropped() {
        let long = "x".repeat(KEPT / 3);
        let lines = ["a", "b", "c", "d"].map(|end| line("web", 1, &format!("{long}{end}")));
        let (kept, is_cut) = tails(Last::OfAll(9), &[], &lines).into_lines();
        assert!(is_cut && kept.len() == 2 && kept.iter().any(|line| line.line.ends_with('d')));
        assert!(!tails(Last::OfAll(1), &[], &lines).into_lines().1, "none of the last is missing");
    }

    #[test]
    fn follower_skips_the_lines_of_the_answer_and_no_later_one() {
        let mut position = Position::default();
        for line in [line("a", 1, "x"), line("a", 2, "x"), line("b", 2, "x"), line("a", 1, "x")] {
            position.record(&line);
        }
        let seen = [line("a", 2, "x"), line("b", 2, "x")];
        assert!(seen.iter().all(|line| position.skips(line)));
        let later = [line("a", 2, "x"), line("b", 3, "x"), line("c", 2, "x")];
        assert!(later.iter().all(|line| !position.skips(line)));
    }

    #[test]
    fn lines_of_several_sources_are_merged_in_the_order_of_time() {
        let dir = std::env::temp_dir().join(format!("groundstate-merged-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = |unit: &str, lines: &[(u32, &str)]| {
            let stored = lines
                .iter()
                .map(|(second, text)| format!("2026-11-21T05:12:{second:02}.000Z 7 {text}\n"));
            std::fs::write(dir.join(format!("{unit}.log")), stored.collect::<String>()).unwrap();
        };
        // The clock was set back in `b`.
        file("a", &[(1, "a1"), (4, "a4")]);
        file("b", &[(2, "b2"), (5, "b5"), (3, "b3")]);
        file(LOG_UNIT, &[(2, "a sshd[7]: s2"), (6, "- kernel: [    1.000000] k6")]);
        let path = dir.to_string_lossy().into_owned();
        let socket = dir.join("control.sock");
        let common = Common { socket: Some(socket), json: false, color: Colour::Never };
        let session = Session::new(&common);
        let lines = |names: &[String], since: Option<&str>| {
            let filter = |line| of_units(line, &[]);
            let since = since.and_then(WallTime::parse);
            let lines = Lines {
                session: &session,
                dir: Some(&path),
                names,
                since,
                filter: &filter,
                is_filtered: true,
            };
            let mut all = Vec::new();
            lines
                .all(|line| {
                    all.push(line.line);
                    Ok(())
                })
                .unwrap();
            let last = lines.last(Last::OfAll(2), false).unwrap();
            assert!(last.ended.is_ok());
            let last: Vec<String> = last.lines.into_iter().map(|line| line.line).collect();
            assert!(all.ends_with(&last), "{all:?} {last:?}");
            all.join(" ")
        };
        assert_eq!(lines(&[], None), "a1 b2 sshd[7]: s2 a4 b5 b3 [    1.000000] k6");
        assert_eq!(lines(&["a".to_string(), "no".to_string()], None), "a1 a4");
        assert_eq!(lines(&["b".to_string()], Some("2026-11-21T05:12:05.000Z")), "b5");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
