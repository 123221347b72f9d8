//! Requests on `log.sock`: answered from the tails, or from the files where these hold less
//! than is asked for ([`super::history`]).

use super::clients::Follow;
use super::history::{History, Source};
use super::limit;
use super::process::Logger;
use groundstate_units::control::answer::{End, Failure, Line};
use groundstate_units::control::log_line::{LogLine, ShownLine};
use groundstate_units::control::log_query::{LogQuery, LogVerb};
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

/// Serves the clients that are due: root first, the others one after the other for as long as this
/// turn of the loop may take. The next turn goes on with those that are left.
pub(crate) fn serve_all(logger: &mut Logger) {
    let mut until = None;
    for (client, root) in logger.clients.order() {
        if !root {
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                return;
            }
            until = until.or_else(|| now.checked_add(limit::SERVING_A_TURN));
        }
        logger.clients.begin(client);
        serve(logger, client);
    }
}

/// Does what a client asks for, as far as it takes the answers, and at most so many requests.
fn serve(logger: &mut Logger, client: usize) {
    for _ in 0..limit::REQUESTS_A_TURN {
        let Some(query) = logger.clients.next(client) else { return };
        let id = query.id;
        let refused = match query.verb {
            LogVerb::Ping => {
                if let Some(answers) = logger.clients.answers(client) {
                    answers.end(id);
                }
                None
            }
            LogVerb::Logs => logs(logger, client, query).err(),
        };
        if let (Some(failure), Some(answers)) = (refused, logger.clients.answers(client)) {
            answers.error(id, failure);
        }
    }
    logger.clients.is_due(client);
}

fn logs(logger: &mut Logger, client: usize, query: LogQuery) -> Result<(), Failure> {
    let usage = |message: String| Failure::new(Failure::USAGE, message, "");
    if query.targets.len() > limit::QUERY_TARGETS {
        return Err(usage(format!("more than {} targets at once", limit::QUERY_TARGETS)));
    }
    let since = match query.since.as_deref().map(|text| (text, WallTime::parse(text))) {
        None => None,
        Some((_, Some(wall))) => Some(wall),
        Some((text, None)) => {
            return Err(usage(format!("{text:?} is no time of the form {}", WallTime::default())));
        }
    };
    let names = query
        .targets
        .iter()
        .map(|text| Name::new(text).map_err(|why| usage(format!("{text:?}: {why}"))));
    let names = names.collect::<Result<Vec<Name>, Failure>>()?;
    let most = match (query.n, since) {
        (Some(n), _) => n.min(limit::QUERY_LINES),
        (None, Some(_)) => limit::QUERY_LINES,
        (None, None) => limit::QUERY_DEFAULT,
    };
    let wanted = Wanted::new(logger, &names, most, since);
    if !wanted.in_memory(logger) && wanted.read_files(logger, client, query.id)? {
        // The answer comes piece by piece.
    } else if let (Some(unknown), false) = (wanted.unknown.first(), query.follow) {
        let message = format!("{unknown} has written nothing since the logger started");
        let hint = "no log file can be read at the moment";
        return Err(Failure::new(Failure::UNKNOWN_TARGET, message, hint));
    } else {
        let lines = merged(logger, &wanted);
        let Some(answers) = logger.clients.answers(client) else { return Ok(()) };
        for (unit, text) in lines {
            answers.lines(query.id, &unit, text);
        }
        if !query.follow {
            answers.end(query.id);
        }
    }
    if query.follow {
        logger.clients.follow(client, Follow { id: query.id, names });
    }
    Ok(())
}

/// What one request asks for.
struct Wanted {
    /// Units by number, in order, none twice.
    numbers: Vec<u64>,
    /// Names the logger has not heard of; there may be files.
    unknown: Vec<Name>,
    most: u64,
    since: Option<WallTime>,
}

impl Wanted {
    fn new(logger: &Logger, names: &[Name], most: u64, since: Option<WallTime>) -> Wanted {
        let (mut numbers, mut unknown) = (Vec::new(), Vec::new());
        for name in names {
            match logger.units.find(name) {
                Some(number) => numbers.push(number),
                None => unknown.push(name.clone()),
            }
        }
        if names.is_empty() {
            numbers = logger.units.numbers();
        }
        numbers.sort_unstable();
        numbers.dedup();
        Wanted { numbers, unknown, most, since }
    }

    /// The tails hold all that is asked for, or more units are asked for than files are read.
    fn in_memory(&self, logger: &mut Logger) -> bool {
        if self.numbers.len() + self.unknown.len() > limit::HISTORY_UNITS {
            return true;
        }
        self.unknown.is_empty()
            && self.numbers.iter().all(|number| {
                let Some(unit) = logger.units.get_mut(*number) else { return true };
                let lines = unit.tail.lines();
                let first = lines.split(|byte| *byte == b'\n').next().and_then(LogLine::parse);
                let enough =
                    lines.iter().filter(|byte| **byte == b'\n').count() as u64 >= self.most;
                let early = first.zip(self.since).is_some_and(|(line, since)| line.time < since);
                enough || early || !unit.in_file
            })
    }

    /// Has the files read. False: there are none to read now.
    fn read_files(&self, logger: &mut Logger, client: usize, id: u64) -> Result<bool, Failure> {
        if !logger.clients.has_room_for_history(client) {
            let message = "too many ask for old lines at once";
            return Err(Failure::new(Failure::BUSY, message, "try again"));
        }
        let mut sources = Vec::new();
        for number in &self.numbers {
            let Some(unit) = logger.units.get_mut(*number) else { continue };
            let (name, in_file) = (unit.name.clone(), unit.in_file);
            sources.push(Source { unit: name, tail: Some(unit.tail.lines().to_vec()), in_file });
        }
        let unheard = self.unknown.iter().cloned();
        sources.extend(unheard.map(|unit| Source { unit, tail: None, in_file: true }));
        let (to, from) = sync_channel(limit::HISTORY_AHEAD);
        let (most, since, waker) = (self.most, self.since, logger.out.waker());
        if logger.out.history(History { sources, most, since, to, waker }).is_err() {
            return Ok(false);
        }
        logger.clients.history(client, id, from);
        Ok(true)
    }
}

/// The last lines of these units, in the order of time; those of one unit stay in theirs.
fn merged(logger: &mut Logger, wanted: &Wanted) -> Vec<(Name, Vec<u8>)> {
    let most = usize::try_from(wanted.most).unwrap_or(usize::MAX);
    let mut all: Vec<(WallTime, Name, Vec<u8>)> = Vec::new();
    for number in &wanted.numbers {
        let Some(unit) = logger.units.get_mut(*number) else { continue };
        let name = unit.name.clone();
        let lines: Vec<(WallTime, &[u8])> = unit
            .tail
            .lines()
            .split_inclusive(|byte| *byte == b'\n')
            .filter_map(|stored| Some((LogLine::parse(stored)?.time, stored)))
            .filter(|(time, _)| wanted.since.is_none_or(|since| *time >= since))
            .collect();
        let skip = lines.len().saturating_sub(most);
        all.extend(
            lines.into_iter().skip(skip).map(|(time, text)| (time, name.clone(), text.to_vec())),
        );
    }
    // Stable: lines of one unit with the same time stay in order (a clock set back moves them).
    if wanted.numbers.len() > 1 {
        all.sort_by_key(|(time, _, _)| *time);
    }
    all.into_iter().map(|(_, name, text)| (name, text)).collect()
}

// What one client of `log.sock` is still to be sent: stored lines, turned into JSON only as
// fast as it reads.

/// Bytes of JSON made ahead.
const AHEAD: usize = limit::READ;

/// Answers on their way, in order.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pieces: VecDeque<Piece>,
    /// Bytes of the stored lines in `pieces`.
    bytes: usize,
    ready: Vec<u8>,
    sent: usize,
}

#[derive(Debug)]
enum Piece {
    Lines { id: u64, unit: Name, text: Vec<u8>, at: usize },
    End(u64),
    Error(u64, Failure),
}

impl Answers {
    /// Some stored lines of a unit.
    pub(crate) fn lines(&mut self, id: u64, unit: &Name, text: Vec<u8>) {
        self.bytes += text.len();
        self.pieces.push_back(Piece::Lines { id, unit: unit.clone(), text, at: 0 });
    }

    /// The end of an answer.
    pub(crate) fn end(&mut self, id: u64) {
        self.pieces.push_back(Piece::End(id));
    }

    /// Refused.
    pub(crate) fn error(&mut self, id: u64, failure: Failure) {
        self.pieces.push_back(Piece::Error(id, failure));
    }

    /// Refused in the middle: what was not yet turned into JSON is left out.
    pub(crate) fn cut(&mut self, id: u64, failure: Failure) {
        self.pieces.clear();
        self.bytes = 0;
        self.error(id, failure);
    }

    /// Stored bytes not yet turned into JSON.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes
    }

    /// Everything was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.sent == self.ready.len()
    }

    /// The next bytes to send; empty when there are none.
    pub(crate) fn next(&mut self) -> &[u8] {
        if self.sent == self.ready.len() {
            self.sent = 0;
            self.ready.clear();
            self.ready.shrink_to(AHEAD);
            while self.ready.len() < AHEAD && self.render() {}
        }
        self.ready.get(self.sent..).unwrap_or_default()
    }

    /// So many of them were taken.
    pub(crate) fn taken(&mut self, bytes: usize) {
        self.sent = (self.sent + bytes).min(self.ready.len());
    }

    /// Turns one line or object into JSON; false: there is none.
    fn render(&mut self) -> bool {
        match self.pieces.front_mut() {
            None => return false,
            Some(Piece::Lines { id, unit, text, at }) => {
                let rest = text.get(*at..).unwrap_or_default();
                if let Some(stored) = rest.split_inclusive(|byte| *byte == b'\n').next() {
                    *at += stored.len();
                    if let Some(line) = LogLine::parse(stored) {
                        let shown = ShownLine::new(unit.as_str(), &line);
                        write(&mut self.ready, &Line::ok(*id, shown));
                    }
                    return true;
                }
                self.bytes = self.bytes.saturating_sub(text.len());
            }
            Some(Piece::End(id)) => write(&mut self.ready, &Line::ok(*id, End { end: true })),
            Some(Piece::Error(id, failure)) => {
                write(&mut self.ready, &Line::<End>::error(*id, failure.clone()));
            }
        }
        self.pieces.pop_front();
        true
    }
}

fn write(to: &mut Vec<u8>, answer: &impl Serialize) {
    // Writing to memory can not fail, and these types have no map with odd keys.
    if serde_json::to_writer(&mut *to, answer).is_ok() {
        to.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_order_however_little_is_taken_at_once() {
        let mut answers = Answers::default();
        let web = Name::new("web").unwrap();
        let text = b"2026-11-21T05:25:46.123Z 17 a\xff\x1b\nno stored line\n2026-11-21T05:25:46.123Z - b\n";
        answers.lines(7, &web, text.to_vec());
        answers.end(7);
        answers.error(8, Failure::new(Failure::DENIED, "no", ""));
        let mut got = Vec::new();
        while let Some(byte) = answers.next().first().copied() {
            got.push(byte);
            answers.taken(1);
        }
        assert!(answers.is_empty() && answers.waiting() == 0);
        let want = concat!(
            r#"{"v":1,"id":7,"ok":{"time":"2026-11-21T05:25:46.123Z","unit":"web","run":17,"#,
            r#""stream":"output","line":"a�\u001b","continued":false}}"#,
            "\n",
            r#"{"v":1,"id":7,"ok":{"time":"2026-11-21T05:25:46.123Z","unit":"web","run":null,"#,
            r#""stream":"logger","line":"b","continued":false}}"#,
            "\n",
            r#"{"v":1,"id":7,"ok":{"end":true}}"#,
            "\n",
            r#"{"v":1,"id":8,"error":{"kind":"denied","message":"no","hint":""}}"#,
            "\n",
        );
        assert_eq!(String::from_utf8(got).unwrap(), want);
    }
}
