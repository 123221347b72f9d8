//! `logs`: what units wrote, from the logger, or from its files when it is down.

use crate::arguments;
use crate::connection::Connection;
use crate::exit::{Exit, Trouble};
use crate::log_source::{self, Piece, Query};
use crate::session::{self, Session};
use crate::span;
use crate::style::{Style, Tone};
use groundstate_units::control::answer::{Failure, Status};
use groundstate_units::control::request::Verb;
use groundstate_units::log_line::{ShownLine, printable};
use groundstate_units::name::Name;
use std::collections::BTreeMap;

/// Asks and prints.
pub(crate) fn run(session: &Session, asked: &arguments::Logs) -> Result<Exit, Trouble> {
    let since = match &asked.since {
        None => None,
        Some(text) => Some(span::point(text, session::now()).ok_or_else(|| {
            let hint = "a span as 10min, or a time as 2026-11-21T05:12:26Z";
            Trouble::usage(format!("--since: `{text}` is no point in time"), hint)
        })?),
    };
    let names: Vec<String> = asked.targets.iter().map(Name::to_string).collect();
    let query = Query { names: &names, lines: asked.lines, follow: asked.follow, since };
    let named = asked.targets.len() != 1;
    let known = if asked.follow { known(session, asked, &names) } else { Ok(()) };
    let asking = known.and_then(|()| log_source::ask(session, &query));
    let mut shown = Shown::default();
    match asking.and_then(|connection| shown.stream(session, connection, &query)) {
        Ok(0) if asked.lines == Some(0) => {}
        Ok(0) if !asked.follow && since.is_some() => {
            session.remark("nothing was written since then")
        }
        Ok(0) if !asked.follow => session.remark("nothing was written yet"),
        Ok(_) => {}
        Err(Trouble::Failed(_, failure)) if failure.kind == Failure::UNKNOWN_TARGET => {
            // init knows the names of those that have not written anything yet, and what was meant.
            session.ask(Verb::Status { targets: asked.targets.clone() })?;
            session.remark("nothing was written yet");
        }
        // Who follows has had what there was.
        Err(trouble) if log_source::is_down(&trouble) && !(asked.follow && shown.count > 0) => {
            let (dir, units) = places(session, &asked.targets)?;
            session.remark(&format!("the logger does not answer; reading its files in {dir}"));
            let units = if units.is_empty() { log_source::units_in(&dir) } else { units };
            let lines = log_source::from_files(&dir, &units, &query)?;
            if lines.is_empty() {
                let whose: Vec<&str> = asked.targets.iter().map(Name::as_str).collect();
                let of = if whose.is_empty() {
                    String::new()
                } else {
                    format!(" of {}", whose.join(", "))
                };
                let message = format!("there is nothing{of} in {dir}");
                let hint = "with no init to ask, names are those of units, and the directory is \
                            the default one";
                let failure = Failure::new(Failure::NO_INIT, message, hint);
                return Err(Trouble::Failed(Exit::NoInit, failure));
            }
            for line in lines {
                if !shown.takes(&line) {
                    put(session, &line, named)?;
                }
            }
        }
        Err(trouble) => return Err(trouble),
    }
    Ok(Exit::Done)
}

/// Who follows a name that is nobody's would wait for ever. One that has written nothing yet is
/// known to init alone; without an init any name may be followed.
fn known(session: &Session, asked: &arguments::Logs, names: &[String]) -> Result<(), Trouble> {
    let query = Query { names, lines: Some(0), follow: false, since: None };
    let heard = log_source::ask(session, &query)
        .and_then(|connection| Shown::default().stream(session, connection, &query))
        .map(drop);
    match heard {
        Err(Trouble::Failed(_, failure)) if failure.kind == Failure::UNKNOWN_TARGET => {}
        heard => return heard,
    }
    match session.ask(Verb::Status { targets: asked.targets.clone() }) {
        Ok(_) | Err(Trouble::Failed(Exit::NoInit | Exit::TimedOut, _)) => Ok(()),
        Err(trouble) => Err(trouble),
    }
}

/// What of one answer is shown already, should the logger not come to its end: lines have no numbers.
#[derive(Default)]
struct Shown {
    count: usize,
    of: BTreeMap<String, usize>,
}

impl Shown {
    /// Shows an answer as it comes; gives how many lines it had.
    fn stream(
        &mut self,
        session: &Session,
        mut connection: Connection,
        query: &Query<'_>,
    ) -> Result<usize, Trouble> {
        loop {
            match connection.next::<Piece>()? {
                Some(Piece::Line(line)) => {
                    put(session, &line, query.names.len() != 1)?;
                    self.count += 1;
                    if !query.follow {
                        *self.of.entry(key(&line)).or_default() += 1;
                    }
                }
                Some(Piece::End { .. }) => return Ok(self.count),
                None if query.follow => return Ok(self.count),
                None => return Err(connection.broken("closed the connection within an answer")),
            }
        }
    }

    /// It is, once for each time that it was.
    fn takes(&mut self, line: &ShownLine) -> bool {
        let left = self.of.get_mut(&key(line)).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    }
}

/// All that a line is.
fn key(line: &ShownLine) -> String {
    let run = line.run.map(|run| run.0);
    format!("{} {} {run:?} {} {}", line.time, line.unit, line.continued, line.line)
}

fn put(session: &Session, line: &ShownLine, named: bool) -> Result<(), Trouble> {
    if session.json {
        return session::print_json(line);
    }
    session::print(&render(line, named, &session.style))
}

fn render(line: &ShownLine, named: bool, style: &Style) -> String {
    let unit = if named { format!("{} | ", line.unit) } else { String::new() };
    let text = printable(line.line.as_bytes());
    let text = if line.run.is_none() { style.paint(Tone::Uneasy, &text) } else { text.into() };
    format!("{} {unit}{text}\n", style.paint(Tone::Quiet, &line.time))
}

/// Where the files are and which units are asked for; without init as far as it can be told.
fn places(session: &Session, targets: &[Name]) -> Result<(String, Vec<Name>), Trouble> {
    let init = match session.init() {
        Err(Trouble::Failed(Exit::TimedOut, _)) => None,
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

    #[test]
    fn what_a_terminal_would_act_on_is_shown_and_not_done() {
        let line = ShownLine {
            time: "2026-11-21T05:12:26.123Z".to_string(),
            unit: "web".to_string(),
            run: Some(RunId(1)),
            stream: "output".into(),
            line: "\u{1b}[2Jgone".to_string(),
            continued: false,
        };
        let want = "2026-11-21T05:12:26.123Z web | \\x1b[2Jgone\n";
        assert_eq!(render(&line, true, &Style::PLAIN), want);
    }
}
