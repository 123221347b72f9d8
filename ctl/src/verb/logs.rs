//! `logs`: the output of units and their messages of syslog(3), from the logger, or from its files
//! if it is down.

use crate::arguments;
use crate::exit::{Error, Exit};
use crate::log_source::lines::Last::OfEach;
use crate::log_source::lines::{Lines, of_units};
use crate::machine::LOG_UNIT;
use crate::session::{self, Session};
use crate::span;
use crate::style::{Style, Tone};
use groundstate_units::control::answer::{Failure, Status};
use groundstate_units::control::log_line::{ShownLine, printable};
use groundstate_units::control::request::Verb;
use groundstate_units::text::log_level::LEVELS;
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use std::cell::Cell;

/// Asks the logger and prints the lines.
pub(crate) fn run(session: &Session, asked: &arguments::Logs) -> Result<Exit, Error> {
    let since = match &asked.since {
        None => None,
        Some(text) => Some(span::point(text, session::now()).ok_or_else(|| {
            let hint = "a span such as 10min, or a time such as 2026-11-21T05:12:26Z";
            Error::usage(format!("--since: `{text}` is not a time"), hint)
        })?),
    };
    let Places { dir, selected, has_messages } = places(session, &asked.targets)?;
    let with_unit = asked.targets.len() != 1;
    let put = |line: &ShownLine| put(session, line, with_unit);
    let mut names = selected.clone();
    if has_messages && !selected.is_empty() && !selected.iter().any(|unit| unit == LOG_UNIT) {
        names.push(LOG_UNIT.to_string());
    }
    let is_of_files = Cell::new(false);
    let on_files = || {
        is_of_files.set(true);
        session.remark(&format!("the logger does not answer; reading its files in {dir}"));
    };
    let filter = |line| of_units(line, &selected);
    let lines = Lines {
        session,
        dir: &dir,
        names: &names,
        since,
        filter: &filter,
        is_filtered: names.len() != selected.len(),
        on_files: &on_files,
    };
    let count = match (asked.lines, since) {
        (Some(count), _) => count,
        (None, Some(_)) => u64::MAX,
        (None, None) => 10,
    };
    let (mut is_empty, is_cut);
    if count == u64::MAX && !asked.follow {
        is_empty = true;
        is_cut = lines.all(|line| {
            is_empty = false;
            put(&line)
        })?;
    } else {
        if asked.follow {
            check_names(session, &asked.targets)?;
        }
        let answer = lines.last(OfEach(count, &selected), asked.follow)?;
        (is_empty, is_cut) = (answer.lines.is_empty(), answer.is_cut);
        answer.lines.iter().try_for_each(put)?;
        if asked.follow && !answer.is_of_files {
            lines.follow(answer.position, |line| put(&line))?;
            return Ok(Exit::Done);
        }
    }
    if is_cut {
        session.remark("the oldest lines do not fit into memory and are left out");
    }
    match is_empty && asked.lines != Some(0) {
        true => nothing(session, asked, since, is_of_files.get().then_some(&dir)),
        false => Ok(Exit::Done),
    }
}

/// Reports that there are no lines. `files` is the directory of the files, if the logger is down.
fn nothing(
    session: &Session,
    asked: &arguments::Logs,
    since: Option<WallTime>,
    files: Option<&String>,
) -> Result<Exit, Error> {
    if let Some(dir) = files {
        let whose: Vec<&str> = asked.targets.iter().map(Name::as_str).collect();
        let of = if whose.is_empty() { String::new() } else { format!(" of {}", whose.join(", ")) };
        let message = format!("no log{of} in {dir}");
        let hint =
            "without an init, names must be unit names, and the directory is the default one";
        return Err(Error::Failed(Exit::NoInit, Failure::new(Failure::NO_INIT, message, hint)));
    }
    // Init knows units without output, and can suggest names.
    check_names(session, &asked.targets)?;
    session.remark(match since {
        Some(_) => "nothing was written since then",
        None => "nothing was written yet",
    });
    Ok(Exit::Done)
}

/// Checks that the names exist: following an unknown unit would wait forever. Without an init,
/// every name is accepted.
fn check_names(session: &Session, targets: &[Name]) -> Result<(), Error> {
    match session.ask(Verb::Status { targets: targets.to_vec() }) {
        Ok(_) | Err(Error::Failed(Exit::NoInit | Exit::TimedOut, _)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The places of the requested lines.
struct Places {
    /// The directory of the log files.
    dir: String,
    /// The units of the requested names. An unknown name counts as that of a unit.
    selected: Vec<String>,
    /// The log of [`LOG_UNIT`] may have messages of other units.
    has_messages: bool,
}

fn places(session: &Session, targets: &[Name]) -> Result<Places, Error> {
    let names = || targets.iter().map(Name::to_string).collect();
    let init = match session.init() {
        Err(Error::Failed(Exit::TimedOut, _)) => None,
        asked => asked?,
    };
    let Some(init) = init else {
        let dir = session.places.log_dir.clone();
        return Ok(Places { dir, selected: names(), has_messages: true });
    };
    let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
    let mut selected: Vec<String> = Vec::new();
    for target in targets {
        let units = status.units.iter().filter(|unit| {
            unit.unit == target.as_str() || unit.provides.iter().any(|name| name == target.as_str())
        });
        let before = selected.len();
        selected.extend(units.map(|unit| unit.unit.clone()));
        if selected.len() == before {
            selected.push(target.to_string());
        }
    }
    selected.sort();
    selected.dedup();
    let has_messages = status.units.iter().any(|unit| unit.unit == LOG_UNIT);
    Ok(Places { dir: init.paths.log_dir, selected, has_messages })
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
        _ if line.stream == "logger" => style.paint(Tone::Warning, &text),
        _ => text,
    };
    format!("{} {unit}{text}\n", style.paint(Tone::Quiet, &span::local(&line.time)))
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
    fn control_characters_in_a_log_line_are_escaped() {
        let want = "2026-11-21T05:12:26.000Z web | \\x1b[2Jgone\n";
        assert_eq!(render(&line("web", 26, "\u{1b}[2Jgone"), true, &Style::PLAIN), want);
        let error = ShownLine { level: Some(3), ..line("web", 26, "gone") };
        let want = "2026-11-21T05:12:26.000Z web | err: gone\n";
        assert_eq!(render(&error, true, &Style::PLAIN), want);
    }
}
