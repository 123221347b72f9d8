//! `journalctl` for units and scripts that call it: prints the logger's lines in the formats of
//! journalctl(1). Options select lines by unit, level, time and text. Other filters have no effect.

mod boots;
mod fields;
mod kernel;
mod line;
mod when;
mod words;

use crate::exit::Error;
use crate::log_source::lines::{Answer, Last, Lines, of_units};
use crate::log_source::units_in;
use crate::machine::LOG_UNIT;
use crate::session;
use crate::systemctl::SUFFIXES;
use boots::Boots;
use groundstate_units::control::answer::{Pong, Status};
use groundstate_units::control::log_line::ShownLine;
use groundstate_units::control::request::Verb;
use groundstate_units::text::glob;
use groundstate_units::text::wall_clock::WallTime;
use kernel::Messages;
use line::Printer;
use std::collections::VecDeque;
use words::{Asked, Form};

/// The most units that the logger reads files for in one request without names.
const UNITS: usize = 64;

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
    let status = match init {
        Some(_) => Some(session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?.0),
        None => None,
    };
    let dir = init.as_ref().map_or(&session.places.log_dir, |init| &init.paths.log_dir);
    let last = count(asked);
    let typed = asked;
    let mut asked = asked.clone();
    let shows_boots =
        matches!(asked.form, Form::Json | Form::JsonPretty | Form::JsonSse | Form::Verbose);
    let mut boots = Boots::default();
    if asked.boot.is_some() || asked.list_boots || shows_boots {
        let booted = status.as_ref().and_then(|status| WallTime::parse(&status.booted));
        boots = Boots::read(&session, dir, booted)?;
    }
    let everything = Lines {
        session: &session,
        dir: Some(dir),
        names: &[],
        since: None,
        filter: &Some,
        is_filtered: false,
    };
    if asked.list_boots {
        let newest = everything.last(Last::OfAll(1), false)?.lines.pop();
        let newest = newest.and_then(|line| WallTime::parse(&line.time));
        let printer = Printer::new(&asked, Boots::default());
        return session::print(&boots.table(&asked, newest, |time| printer.date(time)));
    }
    let mut is_present = true;
    if let Some(wanted) = &asked.boot {
        let range = boots.find(wanted)?;
        is_present = boots.is_present(range);
        asked.since = asked.since.max(Some(range.since));
        let untils = asked.until.into_iter().chain(range.until);
        asked.until = untils.min();
    }
    let printer = Printer::new(&asked, boots);
    let log_unit =
        status.iter().flat_map(|status| &status.units).find(|unit| unit.unit == LOG_UNIT);
    if asked.kernel && is_present && log_unit.is_none_or(|unit| unit.main_pid.is_none()) {
        // All these messages are of this boot, also if the clock was set meanwhile.
        return show_kernel(typed, last, &printer);
    }
    let mut selected = status.as_ref().map(|status| chosen(&asked, status)).unwrap_or_default();
    if selected.is_empty() && !asked.units.is_empty() {
        // Unknown units, or no init to ask: use the requested names.
        selected = asked.units.iter().map(|unit| full_name(unit, init.as_ref())).collect();
    }
    let mut names = selected.clone();
    // The messages of syslog(3) of all units, and those of the kernel, are in one log.
    if asked.kernel {
        names = vec![LOG_UNIT.to_string()];
    } else if log_unit.is_some()
        && !selected.is_empty()
        && !selected.iter().any(|unit| unit == LOG_UNIT)
    {
        names.push(LOG_UNIT.to_string());
    } else if selected.is_empty() && !asked.follow {
        // The logger does not know units that have not run in this boot, and without names it reads
        // the files of a limited number of units.
        let stored = units_in(dir);
        if !is_present || stored.len() > UNITS {
            names = stored.iter().map(ToString::to_string).collect();
        }
    }
    let filter = |line| of_units(line, &selected).filter(|line| asked.fits(line));
    let lines = Lines {
        names: &names,
        since: asked.since,
        filter: &filter,
        is_filtered: asked.has_filters() || names.len() != selected.len(),
        ..everything
    };
    show(&asked, last, &lines, &printer)
}

/// The number of last lines to show; `None` for all. `-f` and `-e` have a default.
fn count(asked: &Asked) -> Option<u64> {
    match (asked.lines, asked.follow, asked.end) {
        (Some(lines), ..) => Some(lines),
        (None, true, _) => Some(if asked.since.is_some() { u64::MAX } else { 10 }),
        (None, _, true) => Some(1000),
        (None, false, false) => None,
    }
    .filter(|lines| *lines < u64::MAX || asked.follow)
}

/// Prints the lines of the log.
fn show(
    asked: &Asked,
    last: Option<u64>,
    lines: &Lines<'_>,
    printer: &Printer,
) -> Result<(), Error> {
    let print = |line: ShownLine| session::print(&printer.render(&line));
    if last.is_none() && !asked.reverse {
        let mut has_printed = false;
        lines.all(|line| {
            has_printed = true;
            print(line)
        })?;
        return if has_printed { Ok(()) } else { say_no_entries(asked) };
    }
    let answer = lines.last(Last::OfAll(last.unwrap_or(u64::MAX)), asked.follow)?;
    let Answer { lines: mut found, is_cut, position, ended } = answer;
    if is_cut && !asked.quiet {
        complain("journalctl: the oldest of these lines do not fit into memory and are left out");
    }
    if asked.reverse {
        found.reverse();
    }
    if found.is_empty() && ended.is_ok() {
        say_no_entries(asked)?;
    }
    found.into_iter().try_for_each(print)?;
    ended?;
    if asked.follow { lines.follow(position, print) } else { Ok(()) }
}

fn say_no_entries(asked: &Asked) -> Result<(), Error> {
    match asked.follow || asked.quiet || asked.is_for_programs() {
        true => Ok(()),
        false => session::print("-- No entries --\n"),
    }
}

/// Prints the messages that the kernel has in memory.
fn show_kernel(asked: &Asked, last: Option<u64>, printer: &Printer) -> Result<(), Error> {
    let print = |line: &ShownLine| session::print(&printer.render(line));
    let mut messages = Messages::open()?;
    let last = last.and_then(|last| usize::try_from(last).ok()).unwrap_or(usize::MAX);
    // The kernel limits its memory.
    let mut found = VecDeque::new();
    while let Some(line) = messages.next()? {
        if asked.fits(&line) {
            found.push_back(line);
            found.drain(..found.len().saturating_sub(last));
        }
    }
    if asked.reverse {
        found.make_contiguous().reverse();
    }
    if found.is_empty() {
        say_no_entries(asked)?;
    }
    found.iter().try_for_each(print)?;
    if !asked.follow {
        return Ok(());
    }
    loop {
        messages.wait()?;
        while let Some(line) = messages.next()? {
            if asked.fits(&line) {
                print(&line)?;
            }
        }
    }
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
