//! Answers requests on `log.sock`, from the tails or, if they hold too little, from the files
//! ([`super::history`]).

use super::clients::{Clients, Follow};
use super::history::{History, Source};
use super::limit;
use super::pending_buffer::count_lines;
use super::sinks::Out;
use super::units::Units;
use groundstate_units::control::answer::Failure;
use groundstate_units::control::log_line::LogLine;
use groundstate_units::control::log_query::{LogQuery, LogVerb};
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

/// The parts of the logger that a request needs.
pub(super) struct Context<'a> {
    pub(super) clients: &'a mut Clients,
    pub(super) units: &'a mut Units,
    pub(super) out: &'a mut Out,
}

/// Serves the clients that are due: root first, then the others within the time of this turn. The
/// next turn continues with the rest.
pub(super) fn serve_all(log: &mut Context<'_>) {
    let mut until = None;
    for (client, root) in log.clients.order() {
        if !root {
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                return;
            }
            until = until.or_else(|| now.checked_add(limit::SERVING_A_TURN));
        }
        log.clients.begin(client);
        serve(log, client);
    }
}

/// Handles requests of a client while it reads the answers, up to a limit.
fn serve(log: &mut Context<'_>, client: usize) {
    for _ in 0..limit::REQUESTS_A_TURN {
        let Some(query) = log.clients.next(client) else { return };
        let id = query.id;
        let refused = match query.verb {
            LogVerb::Ping => {
                if let Some(answers) = log.clients.answers(client) {
                    answers.end(id);
                }
                None
            }
            LogVerb::Logs => logs(log, client, query).err(),
        };
        if let (Some(failure), Some(answers)) = (refused, log.clients.answers(client)) {
            answers.error(id, failure);
        }
    }
    log.clients.note_due(client);
}

fn logs(log: &mut Context<'_>, client: usize, query: LogQuery) -> Result<(), Failure> {
    let usage = |message: String| Failure::new(Failure::USAGE, message, "");
    if query.targets.len() > limit::QUERY_TARGETS {
        return Err(usage(format!("more than {} targets at once", limit::QUERY_TARGETS)));
    }
    let parse = |text: &String| {
        let form = WallTime::default();
        WallTime::parse(text)
            .ok_or_else(|| usage(format!("{text:?} is not a time of the form {form}")))
    };
    let since = query.since.as_ref().map(parse).transpose()?;
    let name = |text: &String| Name::new(text).map_err(|why| usage(format!("{text:?}: {why}")));
    let names = query.targets.iter().map(name).collect::<Result<Vec<Name>, Failure>>()?;
    let most = match (query.n, since) {
        (Some(n), _) => n.min(limit::QUERY_LINES),
        (None, Some(_)) => limit::QUERY_LINES,
        (None, None) => limit::QUERY_DEFAULT,
    };
    let wanted = Wanted::new(log, &names, most, since);
    if !wanted.in_memory(log) && wanted.read_files(log, client, query.id)? {
        // The answer is sent piece by piece.
    } else if let (Some(unknown), false) = (wanted.unknown.first(), query.follow) {
        let message = format!("{unknown} has written nothing since the logger started");
        let hint = "log files cannot be read at the moment";
        return Err(Failure::new(Failure::UNKNOWN_TARGET, message, hint));
    } else {
        let lines = merged(log, &wanted);
        let Some(answers) = log.clients.answers(client) else { return Ok(()) };
        for (unit, text) in lines {
            answers.lines(query.id, &unit, text);
        }
        if !query.follow {
            answers.end(query.id);
        }
    }
    if query.follow {
        log.clients.follow(client, Follow { id: query.id, names });
    }
    Ok(())
}

/// The content of a request.
struct Wanted {
    /// Numbers of units, sorted and unique.
    numbers: Vec<u64>,
    /// Names that the logger does not know; there may be files.
    unknown: Vec<Name>,
    most: u64,
    since: Option<WallTime>,
}

impl Wanted {
    fn new(log: &Context<'_>, names: &[Name], most: u64, since: Option<WallTime>) -> Wanted {
        let (mut numbers, mut unknown) = (Vec::new(), Vec::new());
        for name in names {
            match log.units.find(name) {
                Some(number) => numbers.push(number),
                None => unknown.push(name.clone()),
            }
        }
        if names.is_empty() {
            numbers = log.units.numbers();
        }
        numbers.sort_unstable();
        numbers.dedup();
        Wanted { numbers, unknown, most, since }
    }

    /// Returns true if the tails hold all requested lines, or the request names more units than
    /// files are read for.
    fn in_memory(&self, log: &mut Context<'_>) -> bool {
        if self.numbers.len() + self.unknown.len() > limit::HISTORY_UNITS {
            return true;
        }
        self.unknown.is_empty()
            && self.numbers.iter().all(|number| {
                let Some(unit) = log.units.get_mut(*number) else { return true };
                let lines = unit.tail.lines();
                let first = lines.split(|byte| *byte == b'\n').next().and_then(LogLine::parse);
                let enough = count_lines(lines) >= self.most;
                let early = first.zip(self.since).is_some_and(|(line, since)| line.time < since);
                enough || early || !unit.in_file
            })
    }

    /// Lets the files be read. Returns false if there are none to read now.
    fn read_files(&self, log: &mut Context<'_>, client: usize, id: u64) -> Result<bool, Failure> {
        if !log.clients.has_room_for_history(client) {
            let message = "too many requests for old lines";
            return Err(Failure::new(Failure::BUSY, message, "retry later"));
        }
        let mut sources = Vec::new();
        for number in &self.numbers {
            let Some(unit) = log.units.get_mut(*number) else { continue };
            let (name, in_file) = (unit.name.clone(), unit.in_file);
            sources.push(Source { unit: name, tail: Some(unit.tail.lines().to_vec()), in_file });
        }
        let unheard = self.unknown.iter().cloned();
        sources.extend(unheard.map(|unit| Source { unit, tail: None, in_file: true }));
        let (to, from) = sync_channel(limit::HISTORY_AHEAD);
        let (most, since, waker) = (self.most, self.since, log.out.waker());
        if log.out.history(History { sources, most, since, to, waker }).is_err() {
            return Ok(false);
        }
        log.clients.history(client, id, from);
        Ok(true)
    }
}

/// The last lines of these units in the order of time; lines of one unit keep their order.
fn merged(log: &mut Context<'_>, wanted: &Wanted) -> Vec<(Name, Vec<u8>)> {
    let most = usize::try_from(wanted.most).unwrap_or(usize::MAX);
    let mut all: Vec<(WallTime, Name, Vec<u8>)> = Vec::new();
    for number in &wanted.numbers {
        let Some(unit) = log.units.get_mut(*number) else { continue };
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
    // A stable sort keeps lines of one unit with the same time in order (a clock set back moves
    // them).
    if wanted.numbers.len() > 1 {
        all.sort_by_key(|(time, _, _)| *time);
    }
    all.into_iter().map(|(_, name, text)| (name, text)).collect()
}
