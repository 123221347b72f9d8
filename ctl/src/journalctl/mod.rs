//! `journalctl` for units and scripts that call it: prints the logger's lines in the formats of
//! journalctl(1). Options select lines by unit, level, time and text. Other filters have no effect.

mod line;
mod when;
mod words;

use crate::exit::Error;
use crate::log_source::{self, Piece, Query};
use crate::machine::LOG_UNIT;
use crate::session::{self, Session};
use crate::systemctl::SUFFIXES;
use groundstate_units::control::answer::{Pong, Status};
use groundstate_units::control::log_line::ShownLine;
use groundstate_units::control::request::Verb;
use groundstate_units::text::glob;
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use words::Asked;

/// Runs the command.
pub(crate) fn main(words: &[String]) -> u8 {
    let asked = match Asked::parse(words, session::now()) {
        Ok(asked) => asked,
        Err(complaint) => {
            complain(&complaint);
            return 1;
        }
    };
    match run(&asked) {
        Ok(()) | Err(Error::OutputClosed) => 0,
        Err(Error::Printed(_)) => 1,
        Err(Error::Failed(_, failure)) => {
            complain(&failure.message);
            1
        }
    }
}

/// Prints a line to stderr.
fn complain(text: &str) {
    session::warn(text);
}

fn run(asked: &Asked) -> Result<(), Error> {
    if asked.help {
        return session::print(words::HELP);
    }
    if asked.is_maintenance {
        return Ok(());
    }
    if !asked.quiet {
        for what in &asked.ignored {
            let why = "the logger does not store that field";
            complain(&format!("journalctl: {what} filters no lines: {why}"));
        }
    }
    let session = crate::systemctl::session();
    let init = session.init()?;
    let mut asked = asked.clone();
    let mut units = Vec::new();
    let mut has_messages = false;
    if init.is_some() {
        let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
        if asked.boot {
            asked.since = asked.since.max(WallTime::parse(&status.booted));
        }
        units = chosen(&asked, &status);
        has_messages = status.units.iter().any(|unit| unit.unit == LOG_UNIT);
    }
    if units.is_empty() && !asked.units.is_empty() {
        // Unknown units, or no init to ask: use the requested names.
        units = asked.units.iter().map(|unit| full_name(unit, init.as_ref())).collect();
    }
    // journalctl shows all lines, or the last ones with -f and -e.
    let lines = match (asked.lines, asked.follow, asked.end) {
        (Some(lines), ..) => lines,
        (None, true, _) => 10,
        (None, _, true) => 1000,
        (None, false, false) => u64::MAX,
    };
    // The messages of syslog(3) of all units are in one log.
    let selected = units.clone();
    if has_messages && !selected.is_empty() {
        units.push(LOG_UNIT.to_string());
    }
    // While following, the last lines of each of the two logs are shown.
    let is_mixed = units.len() > selected.len() && !asked.follow;
    let has_filters =
        is_mixed || asked.grep.is_some() || asked.until.is_some() || asked.priorities.is_some();
    let query = Query {
        names: &units,
        // Filters need all lines.
        lines: Some(if has_filters { u64::MAX } else { lines }),
        follow: asked.follow,
        since: asked.since,
    };
    show(&session, &asked, &selected, &query, init.as_ref(), lines)
}

/// Returns the units that match the names and patterns.
fn chosen(asked: &Asked, status: &Status) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for unit in &status.units {
        let names = std::iter::once(&unit.unit).chain(&unit.provides);
        let mut names = names.flat_map(|name| [name.clone(), format!("{name}.service")]);
        let fits = names.any(|name| {
            asked.units.iter().any(|wanted| {
                wanted == &name
                    || glob::matches(wanted, &name)
                    || glob::matches(&format!("{wanted}.service"), &name)
            })
        });
        if fits {
            found.push(unit.unit.clone());
        }
    }
    found
}

fn full_name(unit: &str, init: Option<&Pong>) -> String {
    let suffix = unit.rsplit_once('.').is_some_and(|(_, suffix)| SUFFIXES.contains(&suffix));
    if suffix || init.is_none() { unit.to_string() } else { format!("{unit}.service") }
}

/// Prints the lines of the `selected` units, or all lines if there are none.
fn show(
    session: &Session,
    asked: &Asked,
    selected: &[String],
    query: &Query<'_>,
    init: Option<&Pong>,
    lines: u64,
) -> Result<(), Error> {
    let printer = line::Printer::new(asked);
    let mut kept: Vec<ShownLine> = Vec::new();
    let mut take = |mut line: ShownLine| -> Result<(), Error> {
        if !selected.iter().any(|unit| unit == LOG_UNIT) {
            log_source::attribute(&mut line);
        }
        if !selected.is_empty() && !selected.contains(&line.unit) || !asked.fits(&line) {
            return Ok(());
        }
        // Output that is cut or reversed must be complete first.
        if asked.follow {
            return session::print(&printer.render(&line));
        }
        kept.push(line);
        Ok(())
    };
    let mut ended = Ok(());
    match log_source::ask(session, query) {
        Ok(mut connection) => loop {
            match connection.next::<Piece>() {
                Ok(Some(Piece::Line(line))) => take(line)?,
                Ok(Some(Piece::End { .. })) => break,
                Ok(None) if asked.follow => break,
                Err(Error::Failed(_, failure)) if failure.kind == "unknown-target" => break,
                // Shows what has arrived.
                Ok(None) => {
                    ended = Err(connection.cut_off());
                    break;
                }
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
        },
        Err(error) if log_source::is_down(&error) => {
            let dir = init.map_or(session.places.log_dir.as_str(), |init| &init.paths.log_dir);
            let names = match query.names.is_empty() {
                true => log_source::units_in(dir),
                false => query.names.iter().filter_map(|name| Name::new(name).ok()).collect(),
            };
            for line in log_source::from_files(dir, &names, query, |_, _| {})? {
                take(line)?;
            }
        }
        Err(error) => return Err(error),
    }
    kept.sort_by(|a, b| a.time.cmp(&b.time));
    let from = kept.len().saturating_sub(usize::try_from(lines).unwrap_or(usize::MAX));
    let mut kept = kept.split_off(from);
    if asked.reverse {
        kept.reverse();
    }
    if kept.is_empty() && ended.is_ok() && !asked.follow && !asked.quiet && !asked.is_for_programs()
    {
        session::print("-- No entries --\n")?;
    }
    for line in &kept {
        session::print(&printer.render(line))?;
    }
    ended
}
