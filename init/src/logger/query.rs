//! Requests on `log.sock`, answered from the tails.

use super::clients::Follow;
use super::limit;
use super::process::Logger;
use groundstate_units::control::answer::Failure;
use groundstate_units::log_line::LogLine;
use groundstate_units::log_query::{LogQuery, LogVerb};
use groundstate_units::name::Name;
use groundstate_units::wall::Wall;

/// Does what a client asks for, as far as it takes the answers.
pub(crate) fn serve(logger: &mut Logger, client: usize) {
    while let Some(query) = logger.clients.next(client) {
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
}

fn logs(logger: &mut Logger, client: usize, query: LogQuery) -> Result<(), Failure> {
    let usage = |message: String| Failure::new(Failure::USAGE, message, "");
    if query.targets.len() > limit::QUERY_TARGETS {
        return Err(usage(format!("more than {} targets at once", limit::QUERY_TARGETS)));
    }
    let since = match query.since.as_deref().map(|text| (text, Wall::parse(text))) {
        None => None,
        Some((_, Some(wall))) => Some(wall),
        Some((text, None)) => {
            return Err(usage(format!("{text:?} is no time of the form {}", Wall::default())));
        }
    };
    let (mut names, mut numbers) = (Vec::new(), Vec::new());
    for text in &query.targets {
        let name = Name::new(text).map_err(|why| usage(format!("{text:?}: {why}")))?;
        match logger.units.find(&name) {
            Some(number) => numbers.push(number),
            None if query.follow => {}
            None => {
                let message = format!("{name} has written nothing since the logger started");
                return Err(Failure::new(Failure::UNKNOWN_TARGET, message, ""));
            }
        }
        names.push(name);
    }
    if names.is_empty() {
        numbers = logger.units.numbers();
    }
    numbers.sort_unstable();
    numbers.dedup();
    let most = match (query.n, since) {
        (Some(n), _) => n.min(limit::QUERY_LINES),
        (None, Some(_)) => limit::QUERY_LINES,
        (None, None) => limit::QUERY_DEFAULT,
    };
    let lines = merged(logger, &numbers, usize::try_from(most).unwrap_or(usize::MAX), since);
    let Some(answers) = logger.clients.answers(client) else { return Ok(()) };
    for (unit, text) in lines {
        answers.lines(query.id, &unit, text);
    }
    if query.follow {
        logger.clients.follow(client, Follow { id: query.id, names });
    } else {
        answers.end(query.id);
    }
    Ok(())
}

/// The last lines of these units, in the order of time; those of one unit stay in theirs.
fn merged(
    logger: &mut Logger,
    numbers: &[u64],
    most: usize,
    since: Option<Wall>,
) -> Vec<(Name, Vec<u8>)> {
    let mut all: Vec<(Wall, Name, Vec<u8>)> = Vec::new();
    for number in numbers {
        let Some(unit) = logger.units.get_mut(*number) else { continue };
        let name = unit.name.clone();
        let lines: Vec<(Wall, &[u8])> = unit
            .tail
            .lines()
            .split_inclusive(|byte| *byte == b'\n')
            .filter_map(|stored| Some((LogLine::parse(stored)?.time, stored)))
            .filter(|(time, _)| since.is_none_or(|since| *time >= since))
            .collect();
        let skip = lines.len().saturating_sub(most);
        all.extend(
            lines.into_iter().skip(skip).map(|(time, text)| (time, name.clone(), text.to_vec())),
        );
    }
    // Stable: lines of one unit with the same time stay in order (a clock set back moves them).
    if numbers.len() > 1 {
        all.sort_by_key(|(time, _, _)| *time);
    }
    all.into_iter().map(|(_, name, text)| (name, text)).collect()
}
