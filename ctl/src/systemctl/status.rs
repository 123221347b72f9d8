//! `status` and `cat` for users: a block per unit, with its reason and the end of its log.

use super::enablement::Enablement;
use super::list::preset;
use super::pids;
use super::property::stamp;
use super::question::system_word;
use super::snapshot::{Found, Snapshot, session_of};
use super::unit_file::UnitFile;
use super::words::Asked;
use super::{FAILED, NO_SUCH_UNIT, NOT_RUNNING, Outcome, complain};
use crate::log_source;
use crate::resources;
use crate::session::{self, Session};
use crate::span;
use crate::style;
use groundstate_units::control::answer::UnitStatus;
use groundstate_units::machine::reason::State;
use groundstate_units::text::wall_clock::WallTime;
use std::fmt::Write;

/// Default number of log lines.
const LINES: u64 = 10;

/// `status`: exits 0 if all units are active, 3 if one is not, 4 if one is unknown.
pub(super) fn run(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    let snapshot = Snapshot::take(&session)?;
    let enablement = Enablement::of(&session, None)?;
    if asked.names.is_empty() {
        session::print(&system(&snapshot))?;
        return Ok(0);
    }
    let mut exit = 0;
    let names = pids::with_units(&session, &asked.names)?;
    for (at, found) in snapshot.chosen(&names).into_iter().enumerate() {
        if at > 0 {
            session::print("\n")?;
        }
        match found {
            Found::Unknown(name) => match enablement.find(&name) {
                Some(file) => {
                    session::print(&not_loaded(&name, &file, &enablement))?;
                    exit = if exit == 0 { NOT_RUNNING } else { exit };
                }
                None => {
                    complain(&format!("Unit {name} could not be found."));
                    exit = NO_SUCH_UNIT;
                }
            },
            Found::Unit(unit) => {
                session::print(&block(&session, &snapshot, &enablement, unit, asked))?;
                let active = matches!(snapshot.shown(unit).active, "active" | "reloading");
                exit = if active || exit != 0 { exit } else { NOT_RUNNING };
            }
        }
    }
    Ok(exit)
}

/// A unit that init has not loaded: its file is masked, or it is an unused instance of a template.
fn not_loaded(name: &str, file: &UnitFile, enablement: &Enablement) -> String {
    let loaded = match file.masked {
        true => format!("masked (Reason: Unit {name} is masked.)"),
        false => format!("loaded ({}; {})", file.shown, enablement.state(file)),
    };
    format!("○ {name}\n     Loaded: {loaded}\n     Active: inactive (dead)\n")
}

fn system(snapshot: &Snapshot) -> String {
    let status = &snapshot.status;
    let failed = |unit: &&UnitStatus| snapshot.shown(unit).active == "failed";
    let all = || status.units.iter().filter(|unit| unit.state == State::Failed);
    // Units that cannot start because of an error in a file or a unit that they need.
    let blocked = all().filter(|unit| !failed(unit)).count();
    let mut text = format!("● {}\n", session::hostname());
    let _ = writeln!(text, "    State: {}", system_word(status.system));
    let _ = writeln!(text, "    Units: {} loaded", status.units.len());
    let failed = status.units.iter().filter(failed).count();
    let _ = match blocked {
        0 => writeln!(text, "   Failed: {failed} units"),
        blocked => writeln!(
            text,
            "   Failed: {failed} units; {blocked} more cannot start (initctl status)"
        ),
    };
    let _ = writeln!(text, "    Since: {}", stamp(&status.booted));
    let _ = writeln!(text, "     Goal: {}", status.goal.join(" "));
    let signed = |sign: &str, names: &[String]| {
        names.iter().map(|name| format!(" {sign}{name}")).collect::<String>()
    };
    let overlay = signed("+", &status.overlay.want) + &signed("-", &status.overlay.drop);
    if !overlay.is_empty() {
        let _ = writeln!(text, "  Overlay:{overlay}");
    }
    text
}

fn block(
    session: &Session,
    snapshot: &Snapshot,
    enablement: &Enablement,
    unit: &UnitStatus,
    asked: &Asked,
) -> String {
    let shown = snapshot.shown(unit);
    let mark = match shown.active {
        "active" | "reloading" => "●",
        "failed" => "×",
        _ => "○",
    };
    let mut text = format!("{mark} {} - {}\n", shown.name, shown.description);
    let file = enablement.find(&shown.name);
    let state = file.as_ref().map(|file| enablement.state(file)).unwrap_or("static");
    let preset = preset(state).map(|word| format!("; preset: {word}")).unwrap_or_default();
    let place = if unit.file.is_empty() { "built in" } else { unit.file.as_str() };
    let _ = writeln!(text, "     Loaded: {} ({place}; {state}{preset})", shown.load);
    let now = WallTime::parse(&snapshot.status.now).unwrap_or_else(session::now);
    let ago = style::span(span::since(&unit.since, now));
    let (active, sub) = (shown.active, shown.sub);
    let since = stamp(&unit.since);
    let _ = writeln!(text, "     Active: {active} ({sub}) since {since}; {ago} ago");
    if let Some(why) = &unit.reason {
        let _ = writeln!(text, "        Why: {}", why.text);
    }
    if let Some(pid) = unit.main_pid {
        let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let _ = writeln!(text, "   Main PID: {pid} ({})", command.trim());
    }
    if !unit.status.is_empty() {
        let _ = writeln!(text, "     Status: \"{}\"", unit.status);
    }
    let used = resources::of(unit);
    if let Some(tasks) = used.tasks {
        let _ = writeln!(text, "      Tasks: {tasks}");
    }
    if let Some(memory) = used.memory {
        let _ = writeln!(text, "     Memory: {}", resources::size(memory));
    }
    if let Some(cpu) = used.cpu {
        let _ = writeln!(text, "        CPU: {}", style::span(cpu));
    }
    if !used.cgroup.is_empty() {
        let _ = writeln!(text, "     CGroup: {}", used.cgroup);
    }
    let lines = asked.lines.unwrap_or(LINES);
    let log = if lines == 0 { Vec::new() } else { log_source::tail(session, &unit.unit, lines) };
    if !log.is_empty() {
        text.push('\n');
    }
    for line in log {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// `cat`.
pub(super) fn cat(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    let enablement = Enablement::of(&session, asked.root.as_deref())?;
    let mut exit = 0;
    for name in &asked.names {
        let name = super::snapshot::with_suffix(name);
        match enablement.find(&name) {
            Some(file) => {
                let text = enablement.folders.text(&file);
                session::print(&format!("# {}\n{text}", file.shown))?;
                for drop_in in enablement.folders.drop_ins(&name) {
                    let text = enablement.folders.text_at(&drop_in);
                    session::print(&format!("\n# {}\n{text}", drop_in.display()))?;
                }
            }
            None => {
                complain(&format!("No files found for {name}."));
                exit = FAILED;
            }
        }
    }
    Ok(exit)
}
