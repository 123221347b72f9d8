//! The lines of several units in the order of time, from the logger or from its files.
//!
//! The logger selects lines by unit, number and time; this module applies all other filters. To
//! find the last lines that pass a filter, [`Lines::last`] asks for more and more lines.
//!
//! The logger reads files for [`UNITS`] units of a request. [`Lines::last`] asks for one part of
//! the units after the other. [`Lines::all`] asks for at most [`REQUESTS`] parts at once, and
//! merges them.

use super::merged::{Merged, Part, Source, time};
use super::{Piece, Query, ask, attribute, is_down};
use crate::exit::Error;
use crate::machine::LOG_UNIT;
use crate::session::{self, Session};
use groundstate_units::control::answer::Failure;
use groundstate_units::control::log_line::{LogLine, ShownLine, file_name};
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

/// The most bytes of lines in memory. A request for more last lines gets fewer.
const KEPT: usize = 64 * 1024 * 1024;
/// The logger reads files only for a request of at most this number of units.
const UNITS: usize = 64;
/// The logger reads files for at most this number of requests of a user at once.
const REQUESTS: usize = 2;
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
    pub(crate) session: &'a Session,
    /// The logger's directory. Without names, its files name the units.
    pub(crate) dir: &'a str,
    /// The units whose logs are read; empty for all.
    pub(crate) names: &'a [String],
    /// The earliest time; `None` for no limit.
    pub(crate) since: Option<WallTime>,
    pub(crate) filter: Filter<'a>,
    /// True if the filter can drop lines.
    pub(crate) is_filtered: bool,
    /// Called before the files are read because the logger is down.
    pub(crate) on_files: &'a dyn Fn(),
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
#[derive(Debug)]
pub(crate) struct Answer {
    /// The lines in the order of time.
    pub(crate) lines: Vec<ShownLine>,
    /// True if [`KEPT`] is too small for the requested lines.
    pub(crate) is_cut: bool,
    /// The logger is down, and its files have the lines.
    pub(crate) is_of_files: bool,
    /// The end of the logs at the time of the request.
    pub(crate) position: Position,
}

/// The place in the logs at which a follower continues: the time of a request, and the number of
/// lines of each unit that the answer has from this time on.
#[derive(Debug)]
pub(crate) struct Position {
    since: WallTime,
    /// `since` as text.
    start: String,
    counts: BTreeMap<String, usize>,
    latest: String,
}

impl Position {
    fn at(since: WallTime) -> Position {
        let (counts, latest) = (BTreeMap::new(), String::new());
        Position { since, start: since.to_string(), counts, latest }
    }

    fn record(&mut self, line: &ShownLine) {
        if line.time >= self.start {
            *self.counts.entry(line.unit.clone()).or_default() += 1;
        }
        if line.time > self.latest {
            self.latest.clone_from(&line.time);
        }
    }

    /// Returns true if the line was in the answer. A unit's lines keep their order.
    fn skips(&mut self, line: &ShownLine) -> bool {
        let left = self.counts.get_mut(&line.unit).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    }

    /// Returns number and earliest time of the stored lines that a follower asks for.
    fn query(&mut self, now: WallTime) -> (Option<u64>, Option<WallTime>) {
        if self.latest > now.to_string() {
            // The clock was set back: the answer has lines that are later than new ones.
            self.counts.clear();
            return (Some(0), None);
        }
        (None, Some(self.since))
    }
}

/// For each unit, the time of the last line that was read, and the number of lines in a row with
/// it.
#[derive(Debug, Default)]
struct LastRead(BTreeMap<String, (String, usize)>);

impl LastRead {
    fn record(&mut self, line: &ShownLine) {
        let LastRead(last_read) = self;
        match last_read.get_mut(&line.unit) {
            Some((time, count)) if *time == line.time => *count += 1,
            Some(last) => *last = (line.time.clone(), 1),
            None => drop(last_read.insert(line.unit.clone(), (line.time.clone(), 1))),
        }
    }

    /// Moves the file of a unit behind the last line that was read.
    fn skip(&self, unit: &Name, file: &mut BufReader<File>) -> io::Result<()> {
        let Some((time, count)) = self.0.get(unit.as_str()) else { return Ok(()) };
        let (mut left, mut at, mut behind, mut later) = (*count, 0, None, None);
        let mut line = Vec::new();
        while left > 0 && file.read_until(b'\n', &mut line)? > 0 {
            let start = at;
            at += line.len() as u64;
            let parsed = LogLine::parse(&line).map(|line| line.time.to_string());
            line.clear();
            match parsed {
                Some(parsed) if parsed == *time => {
                    left -= 1;
                    behind = Some(at);
                }
                Some(_) if behind.is_some() => break,
                Some(parsed) if parsed > *time => later = later.or(Some(start)),
                _ => {}
            }
        }
        // Without a line of this time, the last one came from the memory of the logger.
        file.seek(SeekFrom::Start(behind.or(later).unwrap_or(at)))?;
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Logger,
    Files,
}

impl Lines<'_> {
    /// Passes all lines to `put` as they arrive. Returns true if lines are missing because [`KEPT`]
    /// is too small; that happens only if there are more than [`REQUESTS`] parts.
    ///
    /// # Errors
    /// The logs cannot be read; lines that were read before the error were passed on. Errors of
    /// `put`.
    pub(crate) fn all(
        &self,
        mut put: impl FnMut(ShownLine) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let mut last_read = LastRead::default();
        for from in [From::Logger, From::Files] {
            if from == From::Files {
                (self.on_files)();
            }
            let units = match self.units(from) {
                Err(error) if from == From::Logger && is_down(&error) => continue,
                units => units?,
            };
            if units.len() > REQUESTS * UNITS {
                let answer = match self.last_from(from, Last::OfAll(u64::MAX), false) {
                    Err(error) if from == From::Logger && is_down(&error) => continue,
                    answer => answer?,
                };
                answer.lines.into_iter().try_for_each(put)?;
                return Ok(answer.is_cut);
            }
            let mut parts = Vec::new();
            let opened = units.chunks(UNITS).try_for_each(|names| {
                parts.append(&mut self.open(from, names, MOST, &last_read)?);
                Ok(())
            });
            let mut merged = Merged { parts, error: opened.err() };
            loop {
                match merged.next() {
                    Ok(None) => return Ok(false),
                    Ok(Some(line)) => {
                        last_read.record(&line);
                        if let Some(line) = (self.filter)(line) {
                            put(line)?;
                        }
                    }
                    Err(error) if from == From::Logger && is_down(&error) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(false)
    }

    /// Returns the last lines.
    ///
    /// # Errors
    /// The logs cannot be read.
    pub(crate) fn last(&self, last: Last<'_>, follows: bool) -> Result<Answer, Error> {
        match self.last_from(From::Logger, last, follows) {
            Err(error) if is_down(&error) => {
                (self.on_files)();
                self.last_from(From::Files, last, follows)
            }
            answer => answer,
        }
    }

    fn last_from(&self, from: From, last: Last<'_>, follows: bool) -> Result<Answer, Error> {
        let (Last::OfAll(wanted) | Last::OfEach(wanted, _)) = last;
        let mut count =
            if self.is_filtered || follows { wanted.max(FIRST) } else { wanted }.min(MOST);
        let units = self.units(from)?;
        let start = session::now();
        loop {
            let mut tails = Tails::new(last);
            let mut position = Position::at(start);
            for (part, names) in units.chunks(UNITS).enumerate() {
                let parts = self.open(from, names, count, &LastRead::default())?;
                let mut merged = Merged { parts, error: None };
                while let Some(line) = merged.next()? {
                    position.record(&line);
                    tails.note(&line);
                    if let Some(line) = (self.filter)(line) {
                        tails.keep(part, line);
                    }
                }
            }
            let until = follows.then_some(position.start.as_str());
            let is_of_files = from == From::Files;
            if is_of_files || count >= MOST || tails.is_complete(count, until) {
                let (lines, is_cut) = tails.into_lines();
                return Ok(Answer { lines, is_cut, is_of_files, position });
            }
            count = count.saturating_mul(GROWTH).min(MOST);
        }
    }

    /// Passes the lines behind `position` to `put` as they are written. Returns when the logger
    /// ends.
    ///
    /// # Errors
    /// The logs cannot be read. Errors of `put`.
    pub(crate) fn follow(
        &self,
        mut position: Position,
        mut put: impl FnMut(ShownLine) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (lines, since) = position.query(session::now());
        let since = since.map(|since| since.max(self.since.unwrap_or(since)));
        let query = Query { names: self.names, lines, follow: true, since };
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

    /// Returns the units whose logs are read.
    fn units(&self, from: From) -> Result<Vec<String>, Error> {
        if !self.names.is_empty() {
            return Ok(self.names.to_vec());
        }
        let stored = super::units_in(self.dir);
        let mut units: BTreeSet<String> = stored.iter().map(ToString::to_string).collect();
        if from == From::Logger {
            // Units that have no file yet.
            let query = Query { names: &[], lines: Some(1), follow: false, since: None };
            let mut source = Source::Logger(ask(self.session, &query)?);
            while let Some(line) = source.next()? {
                units.insert(line.unit);
            }
        }
        Ok(units.into_iter().collect())
    }

    /// Asks for the last `count` lines of each unit, or opens the files of the units.
    fn open(
        &self,
        from: From,
        names: &[String],
        count: u64,
        last_read: &LastRead,
    ) -> Result<Vec<Part>, Error> {
        match from {
            From::Logger => Ok(vec![self.ask(names, count)?]),
            From::Files => self.files(names, last_read),
        }
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

    /// Opens the present file of each unit, behind the lines that were read before.
    fn files(&self, names: &[String], last_read: &LastRead) -> Result<Vec<Part>, Error> {
        let mut parts = Vec::new();
        for unit in names.iter().filter_map(|name| Name::new(name).ok()) {
            let path = Path::new(self.dir).join(file_name(&unit));
            let failed = |error| Error::file(&path.to_string_lossy(), &error);
            let mut file = match File::open(&path) {
                Ok(file) => BufReader::new(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            last_read.skip(&unit, &mut file).map_err(failed)?;
            let path = path.to_string_lossy().into_owned();
            let mut part = Part::new(Source::File { file, unit, path, since: self.since });
            part.advance();
            parts.push(part);
        }
        Ok(parts)
    }
}

/// Returns true if the logger has no log of a name.
fn is_unknown(error: &Error) -> bool {
    matches!(error, Error::Failed(_, failure) if failure.kind == Failure::UNKNOWN_TARGET)
}

/// The last lines so far.
struct Tails<'a> {
    last: Last<'a>,
    /// Each part of the units has one tail, or one for each unit.
    tails: BTreeMap<(usize, String), Tail>,
    bytes: usize,
    /// Lines were dropped because of [`KEPT`].
    is_full: bool,
    /// The number of lines that were read of a unit, and the time of the first one.
    read: BTreeMap<String, (u64, String)>,
}

#[derive(Default)]
struct Tail {
    lines: VecDeque<ShownLine>,
    bytes: usize,
}

impl Tail {
    fn drop_first(&mut self) -> usize {
        let bytes = self.lines.pop_front().map_or(0, |line| size(&line));
        self.bytes -= bytes;
        bytes
    }
}

impl<'a> Tails<'a> {
    fn new(last: Last<'a>) -> Tails<'a> {
        let (tails, read) = (BTreeMap::new(), BTreeMap::new());
        Tails { last, tails, bytes: 0, is_full: false, read }
    }

    fn note(&mut self, line: &ShownLine) {
        match self.read.get_mut(&line.unit) {
            Some((count, _)) => *count += 1,
            None => drop(self.read.insert(line.unit.clone(), (1, line.time.clone()))),
        }
    }

    /// Keeps a line of the answer to the request for this part of the units.
    fn keep(&mut self, part: usize, line: ShownLine) {
        let (key, most) = match self.last {
            Last::OfAll(most) => (String::new(), most),
            Last::OfEach(most, _) => (line.unit.clone(), most),
        };
        let tail = self.tails.entry((part, key)).or_default();
        let bytes = size(&line);
        tail.bytes += bytes;
        self.bytes += bytes;
        tail.lines.push_back(line);
        if tail.lines.len() as u64 > most {
            self.bytes -= tail.drop_first();
        }
        while self.bytes > KEPT {
            let filled = self.tails.values_mut().filter(|tail| !tail.lines.is_empty());
            let victim = match self.last {
                Last::OfAll(_) => {
                    filled.min_by(|a, b| time(a.lines.front()).cmp(time(b.lines.front())))
                }
                // A unit with few lines keeps them.
                Last::OfEach(..) => filled.max_by_key(|tail| tail.bytes),
            };
            let Some(victim) = victim else { break };
            self.bytes -= victim.drop_first();
            self.is_full = true;
        }
    }

    /// Returns the time of the last line but `most - 1`, of a unit or of all. `None` if there are
    /// fewer.
    fn first_of(&self, unit: &str, most: u64) -> Option<&str> {
        let tails = self.tails.iter().filter(|((_, key), _)| key == unit);
        let mut times: Vec<&str> =
            tails.flat_map(|(_, tail)| tail.lines.iter().map(|line| line.time.as_str())).collect();
        times.sort_unstable();
        times.len().checked_sub(usize::try_from(most).ok()?).and_then(|at| times.get(at).copied())
    }

    /// Returns true if no earlier line belongs to the result. `count` is the number of lines that
    /// were requested of each unit. `until` is the start of [`Position`]: a position must know all
    /// later lines.
    fn is_complete(&self, count: u64, until: Option<&str>) -> bool {
        let fits = |unit: &str, most: u64, first: &str| {
            most == 0 || self.first_of(unit, most).is_some_and(|time| time >= first)
        };
        self.is_full
            || self.read.iter().filter(|(_, (read, _))| *read >= count).all(|(unit, (_, first))| {
                let has_all = match self.last {
                    Last::OfAll(most) => fits("", most, first),
                    // An earlier message may be of any unit.
                    Last::OfEach(most, []) if unit == LOG_UNIT => most == 0,
                    Last::OfEach(most, units) if unit == LOG_UNIT => {
                        units.iter().all(|unit| fits(unit, most, first))
                    }
                    Last::OfEach(most, _) => fits(unit, most, first),
                };
                has_all && until.is_none_or(|until| first.as_str() < until)
            })
    }

    /// Returns the lines in the order of time, and true if lines are missing because of [`KEPT`].
    fn into_lines(self) -> (Vec<ShownLine>, bool) {
        let is_sorted = self.tails.len() <= 1;
        let mut lines: Vec<ShownLine> =
            self.tails.into_values().flat_map(|tail| tail.lines).collect();
        if !is_sorted {
            lines.sort_by(|a, b| a.time.cmp(&b.time));
        }
        match self.last {
            Last::OfAll(most) => {
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                let is_cut = self.is_full && lines.len() < most;
                (lines.split_off(lines.len().saturating_sub(most)), is_cut)
            }
            Last::OfEach(most, _) => {
                let mut counts: BTreeMap<String, u64> = BTreeMap::new();
                let mut is_last = |line: &ShownLine| {
                    let count = counts.entry(line.unit.clone()).or_default();
                    *count += 1;
                    *count <= most
                };
                let mut kept: Vec<ShownLine> =
                    lines.into_iter().rev().filter(|line| is_last(line)).collect();
                kept.reverse();
                (kept, self.is_full)
            }
        }
    }
}

fn size(line: &ShownLine) -> usize {
    size_of::<ShownLine>() + line.time.len() + line.unit.len() + line.line.len()
}

/// Returns a line of one of these units, with messages assigned to the unit of their sender; all
/// lines if there are no units. [`LOG_UNIT`] alone selects its log as it is stored.
pub(crate) fn of_units(mut line: ShownLine, units: &[String]) -> Option<ShownLine> {
    if !matches!(units, [unit] if unit == LOG_UNIT) {
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
                tails.keep(0, line);
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
            let until = Some(until).filter(|until| !until.is_empty());
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
        // A follower must know all lines since the request.
        let latest = &other(4).time.clone();
        assert!(!is_complete(&[own(4), own(4), other(4), other(4)], 2, latest));
        assert!(is_complete(&[other(1), own(2), own(3), other(4)], 2, latest));
        // An earlier message may be of a unit that has no other line.
        let all = |lines: &[ShownLine], count| {
            tails(Last::OfEach(1, &[]), &[], lines).is_complete(count, None)
        };
        assert!(!all(&[own(1), other(2), other(3)], 2));
        assert!(all(&[own(1), own(2), other(3)], 2));
    }

    #[test]
    fn oldest_lines_beyond_the_limit_of_memory_are_dropped() {
        let long = "x".repeat(KEPT / 4);
        let kept = |last, lines: &[(usize, &str, u32, &str)]| {
            let mut tails = Tails::new(last);
            for (part, unit, second, end) in lines {
                let text = if *end == "small" { String::new() } else { long.clone() };
                tails.keep(*part, line(unit, *second, &format!("{text}{end}")));
            }
            let (lines, is_cut) = tails.into_lines();
            let end = |line: &ShownLine| line.line.trim_start_matches('x').to_string();
            (lines.iter().map(end).collect::<Vec<_>>().join(" "), is_cut)
        };
        let web = [(0, "web", 1, "a"), (0, "web", 2, "b"), (0, "web", 3, "c"), (0, "web", 4, "d")];
        assert_eq!(kept(Last::OfAll(9), &web), ("b c d".to_string(), true));
        assert_eq!(kept(Last::OfAll(1), &web), ("d".to_string(), false));
        assert_eq!(kept(Last::OfAll(3), &web), ("b c d".to_string(), false));
        // The lines of the second part are older.
        let parts = [web[1], web[2], web[3], (1, "old", 1, "e"), (1, "old", 5, "f")];
        assert_eq!(kept(Last::OfAll(9), &parts), ("c d f".to_string(), true));
        // A unit with few lines keeps them.
        let units = [(0, "few", 1, "small"), web[0], web[1], web[2], web[3]];
        assert_eq!(kept(Last::OfEach(9, &[]), &units), ("small b c d".to_string(), true));
    }

    #[test]
    fn follower_skips_the_lines_of_the_answer_and_no_later_one() {
        let at = |second| WallTime::parse(&line("a", second, "").time).unwrap();
        let position = |lines: &[ShownLine]| {
            let mut position = Position::at(at(2));
            lines.iter().for_each(|line| position.record(line));
            position
        };
        let told = [line("a", 1, "x"), line("a", 2, "x"), line("b", 2, "x"), line("a", 3, "x")];
        let mut here = position(&told);
        assert_eq!(here.query(at(3)), (None, Some(at(2))));
        let answered = [line("a", 2, "x"), line("b", 2, "x"), line("a", 3, "x")];
        assert!(answered.iter().all(|line| here.skips(line)));
        let later = [line("a", 3, "x"), line("b", 3, "x"), line("c", 2, "x")];
        assert!(later.iter().all(|line| !here.skips(line)));
        // The clock was set back: a request for lines since then would repeat all that are later.
        let mut ahead = position(&[line("a", 9, "x")]);
        assert_eq!(ahead.query(at(3)), (Some(0), None));
        assert!(!ahead.skips(&line("a", 3, "new")));
    }

    #[test]
    fn files_continue_behind_the_lines_that_the_logger_has_sent() {
        let dir = std::env::temp_dir().join(format!("groundstate-behind-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let all = [(1, "a"), (5, "x"), (3, "set back"), (3, "a"), (3, "b"), (3, "a"), (4, "a")];
        let path = dir.join("web.log");
        let stored = |(second, text)| format!("2026-11-21T05:12:0{second}.000Z 7 {text}\n");
        std::fs::write(&path, all.map(stored).concat()).unwrap();
        let rest = |last_read: &LastRead| {
            let mut file = BufReader::new(File::open(&path).unwrap());
            last_read.skip(&"web".parse().unwrap(), &mut file).unwrap();
            io::read_to_string(file).unwrap()
        };
        for told in 0..=all.len() {
            let mut last_read = LastRead::default();
            for (second, text) in all.into_iter().take(told) {
                last_read.record(&line("web", second, text));
            }
            last_read.record(&line("other", 9, "a"));
            assert_eq!(rest(&last_read), all.map(stored)[told..].concat(), "{told} were sent");
        }
        // The last line that was sent is in no file.
        let mut last_read = LastRead::default();
        last_read.record(&line("web", 2, "y"));
        assert_eq!(rest(&last_read), all.map(stored)[1..].concat());
        std::fs::remove_dir_all(&dir).unwrap();
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
        file(LOG_UNIT, &[(2, "a sshd[7]: s2"), (6, "- su[8]: s6")]);
        let path = dir.to_string_lossy().into_owned();
        let socket = dir.join("control.sock");
        let common = Common { socket: Some(socket), json: false, color: Colour::Never };
        let session = Session::new(&common);
        let lines = |names: &[String], since: Option<&str>| {
            let filter = |line| of_units(line, &[]);
            let since = since.and_then(WallTime::parse);
            let lines = Lines {
                session: &session,
                dir: &path,
                names,
                since,
                filter: &filter,
                is_filtered: true,
                on_files: &|| {},
            };
            let mut all = Vec::new();
            lines
                .all(|line| {
                    all.push(line.line);
                    Ok(())
                })
                .unwrap();
            let last = lines.last(Last::OfAll(2), false).unwrap();
            assert!(last.is_of_files);
            let last: Vec<String> = last.lines.into_iter().map(|line| line.line).collect();
            assert!(all.ends_with(&last), "{all:?} {last:?}");
            all.join(" ")
        };
        assert_eq!(lines(&[], None), "a1 b2 sshd[7]: s2 a4 b5 b3 su[8]: s6");
        assert_eq!(lines(&["a".to_string(), "no".to_string()], None), "a1 a4");
        assert_eq!(lines(&["b".to_string()], Some("2026-11-21T05:12:05.000Z")), "b5");
        // More files than parts that are merged at once.
        (0..150).for_each(|number| file(&format!("many-{number}"), &[(7, "m")]));
        assert_eq!(lines(&[], None).matches('m').count(), 150);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
