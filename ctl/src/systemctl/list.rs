//! `list-units` and similar verbs, `list-unit-files`, `list-jobs`: columns as in systemd, or JSON.

use super::Outcome;
use super::enablement::Enablement;
use super::shown::Shown;
use super::snapshot::{Snapshot, session_of, with_suffix};
use super::unit_file::UnitFile;
use super::words::Asked;
use crate::session;
use groundstate_units::machine::reason::State;
use groundstate_units::text::glob;
use serde::Serialize;

#[derive(Serialize)]
struct Row<'a> {
    unit: &'a str,
    load: &'a str,
    active: &'a str,
    sub: &'a str,
    description: &'a str,
}

/// `list-units`; `list-sockets` and similar verbs add a `--type`.
pub(super) fn units(asked: &Asked) -> Outcome {
    let snapshot = Snapshot::take(&session_of(asked.user))?;
    let mut types = asked.types.clone();
    if let Some(kind) = asked.verb.strip_prefix("list-").and_then(|rest| rest.strip_suffix('s'))
        && kind != "unit"
    {
        types.push(kind.to_string());
    }
    let everything = asked.all || !asked.states.is_empty() || !asked.names.is_empty();
    let mut shown: Vec<Shown> = Vec::new();
    for unit in &snapshot.status.units {
        let one = snapshot.shown(unit);
        let quiet =
            one.active == "inactive" && one.load == "loaded" && unit.state != State::Waiting;
        if everything || !(quiet || one.load == "masked") {
            shown.push(one);
        }
    }
    let named = |one: &Shown| {
        asked.names.is_empty()
            || asked.names.iter().any(|name| glob::matches(&with_suffix(name), &one.name))
    };
    let typed = |one: &Shown| types.is_empty() || types.iter().any(|kind| kind == one.kind());
    let in_state = |one: &Shown| {
        let words = [one.load, one.active, one.sub];
        asked.states.is_empty() || asked.states.iter().any(|state| words.contains(&state.as_str()))
    };
    shown.retain(|one| named(one) && typed(one) && in_state(one));
    shown.sort_by(|a, b| (a.kind(), &a.name).cmp(&(b.kind(), &b.name)));
    if asked.json {
        session::print_json(&shown.iter().map(row).collect::<Vec<_>>())?;
    } else {
        session::print(&table(&shown, asked))?;
    }
    Ok(0)
}

fn row(one: &Shown) -> Row<'_> {
    let Shown { name, load, active, sub, description } = one;
    Row { unit: name, load, active, sub, description }
}

fn table(shown: &[Shown], asked: &Asked) -> String {
    let lead = |one: &Shown| match one {
        _ if asked.plain => "",
        one if one.active == "failed" || one.load != "loaded" => "● ",
        _ => "  ",
    };
    let width = |cell: &dyn Fn(&Shown) -> usize, head: &str| {
        let head = if asked.no_legend { 0 } else { head.len() };
        shown.iter().map(cell).max().unwrap_or(0).max(head)
    };
    let (name, load) = (width(&|s| s.name.len(), "UNIT"), width(&|s| s.load.len(), "LOAD"));
    let (active, sub) = (width(&|s| s.active.len(), "ACTIVE"), width(&|s| s.sub.len(), "SUB"));
    let line = |lead: &str, cells: [&str; 5]| {
        let [a, b, c, d, e] = cells;
        format!("{lead}{a:name$} {b:load$} {c:active$} {d:sub$} {e}\n")
    };
    let mut text = String::new();
    if !asked.no_legend {
        let lead = if asked.plain { "" } else { "  " };
        text.push_str(&line(lead, ["UNIT", "LOAD", "ACTIVE", "SUB", "DESCRIPTION"]));
    }
    for one in shown {
        let cells = [one.name.as_str(), one.load, one.active, one.sub, one.description.as_str()];
        text.push_str(&line(lead(one), cells));
    }
    if !asked.no_legend {
        text.push_str(&format!("\n{} loaded units listed.\n", shown.len()));
    }
    text
}

/// `list-unit-files`.
pub(super) fn unit_files(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    let enablement = Enablement::of(&session, asked.root.as_deref())?;
    let fits = |file: &&UnitFile| {
        let kind = file.name.rsplit_once('.').map_or("", |(_, suffix)| suffix);
        let named = asked.names.is_empty()
            || asked.names.iter().any(|name| glob::matches(&with_suffix(name), &file.name));
        named && (asked.types.is_empty() || asked.types.iter().any(|one| one == kind))
    };
    let files = enablement.all();
    let states = files.iter().filter(fits).map(|file| (file.name.as_str(), enablement.state(file)));
    let rows: Vec<(&str, &str)> = states
        .filter(|(_, state)| {
            asked.states.is_empty() || asked.states.iter().any(|asked| asked == state)
        })
        .collect();
    if asked.json {
        let object = |(unit_file, state): &(&str, &str)| serde_json::json!({"unit_file": unit_file, "state": state, "preset": preset(state)});
        session::print_json(&rows.iter().map(object).collect::<Vec<_>>())?;
        return Ok(0);
    }
    let name = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(9);
    let mut text = String::new();
    if !asked.no_legend {
        text.push_str(&format!("{:name$} {:15} PRESET\n", "UNIT FILE", "STATE"));
    }
    for (file, state) in &rows {
        text.push_str(&format!("{file:name$} {state:15} {}\n", preset(state).unwrap_or("-")));
    }
    if !asked.no_legend {
        text.push_str(&format!("\n{} unit files listed.\n", rows.len()));
    }
    session::print(&text)?;
    Ok(0)
}

/// Debian enables everything by preset.
pub(super) fn preset(state: &str) -> Option<&'static str> {
    matches!(state, "enabled" | "enabled-runtime" | "disabled" | "masked").then_some("enabled")
}

/// `list-jobs`: units in transition.
pub(super) fn jobs(asked: &Asked) -> Outcome {
    let snapshot = Snapshot::take(&session_of(asked.user))?;
    let moving = |state: State| match state {
        State::Starting => Some(("start", "running")),
        State::Waiting => Some(("start", "waiting")),
        State::Stopping => Some(("stop", "running")),
        State::Disabled | State::Running | State::Reloading | State::Exited | State::Failed => None,
    };
    let mut text = String::new();
    for (at, unit) in snapshot.status.units.iter().enumerate() {
        if let Some((job, state)) = moving(unit.state) {
            text.push_str(&format!("{} {} {job} {state}\n", at + 1, snapshot.shown(unit).name));
        }
    }
    match (text.is_empty(), asked.no_legend) {
        (true, false) => session::print("No jobs running.")?,
        _ => session::print(&text)?,
    }
    Ok(0)
}
