//! `journalctl` for units and scripts that call it: prints the logger's lines in the formats of
//! journalctl(1). Options select lines by unit, level, time and text. Other filters have no effect.

mod boots;
mod fields;
mod line;
mod when;
mod words;

use crate::exit::Error;
use crate::log_source::lines::{Answer, Last, Lines, of_units};
use crate::log_source::units_in;
use crate::machine::{LOG_UNIT, kmsg};
use crate::session;
use crate::systemctl::SUFFIXES;
use boots::Boots;
use groundstate_units::control::answer::{Pong, Status};
use groundstate_units::control::log_line::ShownLine;
use groundstate_units::control::request::Verb;
use groundstate_units::text::glob;
use groundstate_units::text::wall_clock::WallTime;
use line::Printer;
use words::{Asked, Boot, Form};

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
            complain(&format!("journalctl: {what} is ignored: journalctl cannot filter by it"));
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
    let shows_boots =
        matches!(asked.form, Form::Json | Form::JsonPretty | Form::JsonSse | Form::Verbose);
    let mut boots = Boots::default();
    if asked.boot.is_some() || asked.list_boots || shows_boots {
        boots = Boots::read(&session, dir)?;
    }
    let on_files = || {
        if init.is_some() && !asked.quiet {
            let said = "the logger does not answer; reading its files in";
            complain(&format!("journalctl: {said} {dir}"));
        }
    };
    let everything = Lines {
        session: &session,
        dir,
        names: &[],
        since: None,
        filter: &Some,
        is_filtered: false,
        on_files: &on_files,
    };
    if asked.list_boots {
        let newest = everything.last(Last::OfAll(1), false)?.lines.pop();
        let newest = newest.and_then(|line| WallTime::parse(&line.time));
        let printer = Printer::new(asked, Boots::default());
        return session::print(&boots.table(asked, newest, |time| printer.date(time)));
    }
    let (mut since, mut until) = (asked.since, asked.until);
    if let Some(Boot::Of { id, offset }) = &asked.boot {
        let range = boots.find(id.as_deref(), *offset)?;
        since = since.max(Some(range.since));
        until = until.into_iter().chain(range.until).min();
    }
    let asked = Asked { since, until, ..asked.clone() };
    let printer = Printer::new(&asked, boots);
    let mut selected = status.as_ref().map(|status| chosen(&asked, status)).unwrap_or_default();
    if selected.is_empty() && !asked.units.is_empty() {
        // Unknown units, or no init to ask: use the requested names.
        selected = asked.units.iter().map(|unit| full_name(unit, init.as_ref())).collect();
    }
    let mut names = selected.clone();
    // The messages of syslog(3) of all units are in one log, and those of the kernel in another.
    let has_messages =
        status.as_ref().is_none_or(|status| status.units.iter().any(|unit| unit.unit == LOG_UNIT));
    if asked.kernel {
        names = vec![kmsg::UNIT.to_string()];
        if !asked.quiet && !units_in(dir).iter().any(|unit| unit.as_str() == kmsg::UNIT) {
            let hint = "`dmesg` shows the messages that the kernel has in memory";
            complain(&format!("journalctl: the unit {} has no log: {hint}", kmsg::UNIT));
        }
    } else if has_messages && !selected.is_empty() && !selected.iter().any(|it| it == LOG_UNIT) {
        names.push(LOG_UNIT.to_string());
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

/// Returns the number of last lines to show; `None` for all. `-f` and `-e` have a default.
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
        let is_cut = lines.all(|line| {
            has_printed = true;
            print(line)
        })?;
        warn_of_cut(asked, is_cut);
        return if has_printed { Ok(()) } else { say_no_entries(asked) };
    }
    let answer = lines.last(Last::OfAll(last.unwrap_or(u64::MAX)), asked.follow)?;
    let Answer { lines: mut found, is_cut, is_of_files, position } = answer;
    warn_of_cut(asked, is_cut);
    if asked.reverse {
        found.reverse();
    }
    if found.is_empty() {
        say_no_entries(asked)?;
    }
    found.into_iter().try_for_each(print)?;
    if asked.follow && !is_of_files { lines.follow(position, print) } else { Ok(()) }
}

fn warn_of_cut(asked: &Asked, is_cut: bool) {
    if is_cut && !asked.quiet {
        complain("journalctl: the oldest of these lines do not fit into memory and are left out");
    }
}

fn say_no_entries(asked: &Asked) -> Result<(), Error> {
    match asked.follow || asked.quiet || asked.is_for_programs() {
        true => Ok(()),
        false => session::print("-- No entries --\n"),
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
