//! `logs`: the output of units, from the logger, or from its files if it is down.

use crate::arguments;
use crate::connection::Connection;
use crate::exit::{Error, Exit};
use crate::log_source::lines::Last::OfEach;
use crate::log_source::lines::{Lines, of_units};
use crate::log_source::{self, Piece, Query};
use crate::machine::LOG_UNIT;
use crate::session::{self, Session};
use crate::span;
use crate::style::{Style, Tone};
use groundstate_units::control::answer::{Failure, Status, UnitStatus};
use groundstate_units::control::log_line::{ShownLine, printable};
use groundstate_units::control::request::Verb;
use groundstate_units::text::log_level::LEVELS;
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use std::collections::BTreeMap;

/// Asks the logger and prints the lines.
pub(crate) fn run(session: &Session, asked: &arguments::Logs) -> Result<Exit, Error> {
    let since = match &asked.since {
        None => None,
        Some(text) => Some(span::point(text, session::now()).ok_or_else(|| {
            let hint = "a span such as 10min, or a time such as 2026-11-21T05:12:26Z";
            Error::usage(format!("--since: `{text}` is not a time"), hint)
        })?),
    };
    if let Some(selected) = with_messages(session, asked)
        && let Some(exit) = run_with_messages(session, asked, since, &selected)?
    {
        return Ok(exit);
    }
    let names: Vec<String> = asked.targets.iter().map(Name::to_string).collect();
    let query = Query { names: &names, lines: asked.lines, follow: asked.follow, since };
    let with_unit = asked.targets.len() != 1;
    let checked = if asked.follow { check_names(session, asked, &names) } else { Ok(()) };
    let asking = checked.and_then(|()| log_source::ask(session, &query));
    let mut shown = Shown::default();
    match asking.and_then(|connection| shown.stream(session, connection, &query)) {
        Ok(0) if asked.lines == Some(0) => {}
        Ok(0) if !asked.follow => session.remark(nothing(since)),
        Ok(_) => {}
        Err(Error::Failed(_, failure)) if failure.kind == Failure::UNKNOWN_TARGET => {
            // init knows units without output, and can suggest names.
            session.ask(Verb::Status { targets: asked.targets.clone() })?;
            session.remark(nothing(None));
        }
        // With --follow the user has already seen the stored lines.
        Err(error) if log_source::is_down(&error) && !(asked.follow && shown.count > 0) => {
            let (dir, units) = places(session, &asked.targets)?;
            session.remark(&format!("the logger does not answer; reading its files in {dir}"));
            let units = if units.is_empty() { log_source::units_in(&dir) } else { units };
            let choose = |unit: &Name, lines: &mut _| shown.remove_shown(unit, lines);
            let lines = log_source::from_files(&dir, &units, &query, choose)?;
            if lines.is_empty() && shown.count == 0 {
                let whose: Vec<&str> = asked.targets.iter().map(Name::as_str).collect();
                let of = if whose.is_empty() {
                    String::new()
                } else {
                    format!(" of {}", whose.join(", "))
                };
                let message = format!("no log{of} in {dir}");
                let hint = "without an init, names must be unit names, and the directory is the \
                            default one";
                let failure = Failure::new(Failure::NO_INIT, message, hint);
                return Err(Error::Failed(Exit::NoInit, failure));
            }
            for line in lines {
                put(session, &line, with_unit)?;
            }
        }
        Err(error) => return Err(error),
    }
    Ok(Exit::Done)
}

/// Returns the requested units, if the log of [`LOG_UNIT`] may have messages of theirs. An unknown unit
/// is an error of the request without messages.
fn with_messages(session: &Session, asked: &arguments::Logs) -> Option<Vec<String>> {
    let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() }).ok()?;
    let is_log = |unit: &UnitStatus| unit.unit == LOG_UNIT;
    status.units.iter().find(|unit| is_log(unit))?;
    let mut selected = Vec::new();
    for target in &asked.targets {
        let fits = |unit: &&UnitStatus| {
            unit.unit == target.as_str() || unit.provides.iter().any(|name| name == target.as_str())
        };
        let mut units = status.units.iter().filter(fits).peekable();
        units.peek()?;
        for unit in units {
            if is_log(unit) {
                return None;
            }
            selected.push(unit.unit.clone());
        }
    }
    Some(selected)
}

/// Prints the lines of the `selected` units, or of all units, with their messages of syslog(3).
/// Returns `None` without having printed a line if the logger does not answer.
fn run_with_messages(
    session: &Session,
    asked: &arguments::Logs,
    since: Option<WallTime>,
    selected: &[String],
) -> Result<Option<Exit>, Error> {
    let mut names = selected.to_vec();
    if !selected.is_empty() {
        names.push(LOG_UNIT.to_string());
    }
    let filter = |line| of_units(line, selected);
    let lines =
        Lines { session, dir: None, names: &names, since, filter: &filter, is_filtered: true };
    let count = match (asked.lines, since) {
        (Some(count), _) => count,
        (None, Some(_)) => u64::MAX,
        (None, None) => 10,
    };
    let with_unit = selected.len() != 1;
    if asked.lines.is_none() && since.is_some() && !asked.follow {
        let mut has_printed = false;
        let printed = lines.all(|line| {
            has_printed = true;
            put(session, &line, with_unit)
        });
        return match printed {
            Err(error) if log_source::is_down(&error) && !has_printed => Ok(None),
            Err(error) => Err(error),
            Ok(()) => {
                if !has_printed {
                    session.remark(nothing(since));
                }
                Ok(Some(Exit::Done))
            }
        };
    }
    let answer = match lines.last(OfEach(count, selected), asked.follow) {
        Err(error) if log_source::is_down(&error) => return Ok(None),
        answer => answer?,
    };
    match answer.ended {
        Err(error) if log_source::is_down(&error) => return Ok(None),
        ended => ended?,
    }
    if answer.is_cut {
        session.remark("the oldest of these lines do not fit into memory and are left out");
    }
    for line in &answer.lines {
        put(session, line, with_unit)?;
    }
    if asked.follow {
        lines.follow(answer.position, |line| put(session, &line, with_unit))?;
    } else if answer.lines.is_empty() && asked.lines != Some(0) {
        session.remark(nothing(since));
    }
    Ok(Some(Exit::Done))
}

/// The remark about an empty log.
fn nothing(since: Option<WallTime>) -> &'static str {
    if since.is_some() { "nothing was written since then" } else { "nothing was written yet" }
}

/// Checks that followed names exist: following an unknown unit would wait forever. Only init knows
/// a unit without output; without an init any name may be followed.
fn check_names(session: &Session, asked: &arguments::Logs, names: &[String]) -> Result<(), Error> {
    let query = Query { names, lines: Some(0), follow: false, since: None };
    let listed = log_source::ask(session, &query)
        .and_then(|connection| Shown::default().stream(session, connection, &query))
        .map(drop);
    match listed {
        Err(Error::Failed(_, failure)) if failure.kind == Failure::UNKNOWN_TARGET => {}
        listed => return listed,
    }
    match session.ask(Verb::Status { targets: asked.targets.clone() }) {
        Ok(_) | Err(Error::Failed(Exit::NoInit | Exit::TimedOut, _)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The part of an answer that was already shown. If the logger breaks off, the files have the rest.
/// Lines have no numbers, but a unit's lines arrive in the order of its file.
#[derive(Default)]
struct Shown {
    count: usize,
    last: BTreeMap<String, Last>,
}

/// The position in a unit's log: the latest time, and the lines of that time with their counts.
#[derive(Default)]
struct Last {
    time: String,
    of: BTreeMap<String, usize>,
}

impl Shown {
    /// Prints an answer as it arrives. Returns the number of lines.
    fn stream(
        &mut self,
        session: &Session,
        mut connection: Connection,
        query: &Query<'_>,
    ) -> Result<usize, Error> {
        loop {
            match connection.next::<Piece>()? {
                Some(Piece::Line(line)) => {
                    put(session, &line, query.names.len() != 1)?;
                    self.count += 1;
                    if !query.follow {
                        self.record(line);
                    }
                }
                Some(Piece::End { .. }) => return Ok(self.count),
                None if query.follow => return Ok(self.count),
                None => return Err(connection.cut_off()),
            }
        }
    }

    fn record(&mut self, line: ShownLine) {
        let text = text(&line);
        let last = self.last.entry(line.unit).or_default();
        if last.time != line.time {
            *last = Last { time: line.time, of: BTreeMap::new() };
        }
        *last.of.entry(text).or_default() += 1;
    }

    /// Removes the lines already shown: all before the latest time, and of that time as many as
    /// were shown.
    fn remove_shown(&self, unit: &Name, lines: &mut Vec<ShownLine>) {
        let Some(Last { time, of }) = self.last.get(unit.as_str()) else { return };
        let moment = lines.iter().position(|line| line.time == *time);
        // The last shown line came from the memory of the logger and is in no file.
        let before = || lines.iter().take_while(|line| line.time < *time).count();
        let mut rest = lines.split_off(moment.unwrap_or_else(before));
        let mut of = of.clone();
        rest.retain(|line| {
            let of_moment = (line.time == *time).then(|| of.get_mut(&text(line))).flatten();
            of_moment.filter(|left| **left > 0).map(|left| *left -= 1).is_none()
        });
        *lines = rest;
    }
}

/// Returns the line's contents without unit and time.
fn text(line: &ShownLine) -> String {
    let run = line.run.map(|run| run.0);
    format!("{run:?} {:?} {} {}", line.level, line.continued, line.line)
}

fn put(session: &Session, line: &ShownLine, with_unit: bool) -> Result<(), Error> {
    if session.json {
        return session::print_json(line);
    }
    session::print(&render(line, with_unit, &session.style))
}

fn render(line: &ShownLine, with_unit: bool, style: &Style) -> String {
    let unit = if with_unit { format!("{} | ", line.unit) } else { String::new() };
    let text = printable(line.line.as_bytes());
    // A level set by the unit is shown by name.
    let level = line.level.and_then(|level| LEVELS.get(usize::from(level)));
    let text = level.map_or(text.to_string(), |level| format!("{level}: {text}"));
    let text = match line.priority() {
        0..=3 => style.paint(Tone::Bad, &text),
        4 => style.paint(Tone::Warning, &text),
        _ if line.run.is_none() => style.paint(Tone::Warning, &text),
        _ => text,
    };
    format!("{} {unit}{text}\n", style.paint(Tone::Quiet, &line.time))
}

/// Returns the log directory and the requested units; without init as far as possible.
fn places(session: &Session, targets: &[Name]) -> Result<(String, Vec<Name>), Error> {
    let init = match session.init() {
        Err(Error::Failed(Exit::TimedOut, _)) => None,
        asked => asked?,
    };
    let Some(init) = init else {
        return Ok((session.places.log_dir.clone(), targets.to_vec()));
    };
    let (status, _) = session.ask_as::<Status>(Verb::Status { targets: targets.to_vec() })?;
    let units = status.units.iter().filter_map(|unit| Name::new(&unit.unit).ok()).collect();
    Ok((init.paths.log_dir, units))
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::machine::event::RunId;

    fn line(unit: &str, second: u32, text: &str) -> ShownLine {
        ShownLine {
            time: format!("2026-11-21T05:12:{second:02}.000Z"),
            unit: unit.to_string(),
            run: Some(RunId(1)),
            stream: "output".into(),
            level: None,
            line: text.to_string(),
            continued: false,
        }
    }

    #[test]
    fn resumed_log_shows_only_lines_after_the_last_shown_one() {
        let all = [(1, "a"), (5, "x"), (3, "set back"), (3, "a"), (3, "b"), (3, "a"), (4, "a")];
        let file = || all.map(|(second, text)| line("web", second, text)).to_vec();
        for told in 0..=all.len() {
            let mut shown = Shown::default();
            let lines = file().into_iter().take(told);
            lines.for_each(|line| shown.record(line));
            shown.record(line("other", 9, "a"));
            let mut left = file();
            shown.remove_shown(&"web".parse().unwrap(), &mut left);
            let texts = |lines: &[ShownLine]| lines.iter().map(text).collect::<Vec<_>>();
            assert_eq!(texts(&left), texts(&file()[told..]), "{told} were shown");
        }
        // The remembered position covers one moment, however many lines were shown.
        let mut shown = Shown::default();
        (0..60).for_each(|second| shown.record(line("web", second, "a")));
        assert_eq!(shown.last["web"].of.len(), 1);
        let mut left = vec![line("web", 1, "a"), line("web", 60, "new")];
        shown.remove_shown(&"web".parse().unwrap(), &mut left);
        assert_eq!(left.len(), 1, "the last that was shown is in no file");
    }

    #[test]
    fn control_characters_in_a_log_line_are_escaped() {
        let want = "2026-11-21T05:12:26.000Z web | \\x1b[2Jgone\n";
        assert_eq!(render(&line("web", 26, "\u{1b}[2Jgone"), true, &Style::PLAIN), want);
        let error = ShownLine { level: Some(3), ..line("web", 26, "gone") };
        let want = "2026-11-21T05:12:26.000Z web | err: gone\n";
        assert_eq!(render(&error, true, &Style::PLAIN), want);
    }
}
