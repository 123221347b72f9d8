//! `status`: shows targets and problems first, and hides healthy units.

use crate::arguments;
use crate::exit::{Error, Exit};
use crate::log_source;
use crate::resources::{self, Resources};
use crate::session::{self, Session};
use crate::span;
use crate::style::{self, Style, Tone};
use groundstate_units::control::answer::{Cause, Status, TargetStatus, UnitStatus};
use groundstate_units::control::request::Verb;
use groundstate_units::machine::reason::State;
use groundstate_units::text::wall_clock::WallTime;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Number of log lines under a unit requested by name.
const TAIL: u64 = 5;
/// Columns that the resources leave for the details of a unit: `up 23h 59m`.
const DETAILS: usize = 10;
/// More idle instances of a template than this are one line, as those for the connections of a
/// socket.
const INSTANCES: usize = 3;

/// Asks init and prints the status.
pub(crate) fn run(session: &Session, asked: &arguments::Status) -> Result<Exit, Error> {
    let (mut status, value) =
        session.ask_as::<Status>(Verb::Status { targets: asked.targets.clone() })?;
    requested_names_first(&mut status);
    let by_name = !asked.targets.is_empty();
    let style = &session.style;
    let now = WallTime::parse(&status.now).unwrap_or_else(session::now);
    if asked.check {
        session.show(&value, || check_lines(&status, by_name, style))?;
        return Ok(if all_running(&status, by_name) { Exit::Done } else { Exit::Bad });
    }
    session.show(&value, || {
        if by_name {
            let tail = |unit: &str| log_source::tail(session, unit, TAIL);
            details(&status, now, style, &tail, &resources::of)
        } else {
            render(&status, now, style, asked.all, !asked.no_headings, &resources::of)
        }
    })?;
    let failed = status.targets.iter().any(|target| target.state == State::Failed)
        || status.units.iter().any(|unit| unit.state == State::Failed);
    Ok(if by_name && failed { Exit::Bad } else { Exit::Done })
}

/// Orders names so that a requested target comes before one that is provided along with it.
fn requested_names_first(status: &mut Status) {
    let along: BTreeSet<&str> = status
        .targets
        .iter()
        .filter(|target| target.coincidental)
        .map(|target| target.target.as_str())
        .collect();
    for unit in &mut status.units {
        unit.provides.sort_by_key(|target| along.contains(target.as_str()));
    }
}

fn all_running(status: &Status, by_name: bool) -> bool {
    use groundstate_units::control::answer::System;
    if !by_name {
        return status.system == System::Running;
    }
    let targets = status.targets.iter().all(|target| target.state.is_active());
    targets && status.units.iter().all(|unit| unit.state.is_active())
}

fn check_lines(status: &Status, by_name: bool, style: &Style) -> String {
    if !by_name {
        return style.paint(style::system_tone(status.system), status.system.as_str());
    }
    let mut text = String::new();
    for unit in &status.units {
        let word = style.paint(style::tone(unit.state, unit.degraded), &word(unit));
        let _ = writeln!(text, "{} {word}", label(unit));
    }
    text
}

/// Formats the whole system. `used` reads the resources of a unit, which `all` adds.
pub(crate) fn render(
    status: &Status,
    now: WallTime,
    style: &Style,
    all: bool,
    headings: bool,
    used: &dyn Fn(&UnitStatus) -> Resources,
) -> String {
    let mut text = String::new();
    if headings {
        text.push_str(&heading(status, now, style));
    }
    let mut shown: Vec<&UnitStatus> =
        status.units.iter().filter(|unit| all || needs_attention(unit)).collect();
    shown.sort_by_key(|unit| (urgency(unit), label(unit)));
    let hidden = status.units.len() - shown.len();
    let mut idle: BTreeMap<&str, usize> = BTreeMap::new();
    shown.retain(|unit| {
        let Some(template) = template_of_idle(unit) else { return true };
        let count = idle.entry(template).or_default();
        *count += 1;
        *count <= INSTANCES
    });
    let lost = lost_goals(status);
    let labels = shown.iter().map(|unit| label(unit).chars().count());
    let labels = labels.chain(lost.iter().map(|goal| goal.target.chars().count()));
    let width = labels.max().unwrap_or(0).min(40);
    let words = shown.iter().map(|unit| word(unit).chars().count());
    let words = words.chain(lost.iter().map(|goal| lost_word(goal).chars().count()));
    let words = words.max().unwrap_or(0);
    let used: Vec<Resources> = shown.iter().filter(|_| all).map(|unit| used(unit)).collect();
    let cells = cells(&used, 4 + width + 2 + words, style);
    for goal in &lost {
        text.push_str(&lost_row(goal, (width, words), style));
    }
    for (at, unit) in shown.iter().enumerate() {
        let cells = cells.get(at).map_or("", String::as_str);
        text.push_str(&row(unit, cells, now, (width, words), style));
    }
    for (template, count) in idle.into_iter().filter(|(_, count)| *count > INSTANCES) {
        let more = style::count(count - INSTANCES, "more instance");
        let _ = writeln!(text, "  - {more} of {template}  idle");
    }
    if headings {
        text.push_str(&footing(&lost, &shown, hidden, style));
    }
    text
}

/// Returns `name@` for an idle instance of this template.
fn template_of_idle(unit: &UnitStatus) -> Option<&str> {
    let end = unit.unit.find('@')? + 1;
    unit.unit.get(..end).filter(|_| unit.state == State::Disabled)
}

/// Returns goal targets without a provider, which no unit's line would show.
fn lost_goals(status: &Status) -> Vec<&TargetStatus> {
    let goal = |target: &&TargetStatus| status.goal.contains(&target.target);
    status.targets.iter().filter(goal).filter(|target| target.unit.is_none()).collect()
}

fn lost_word(goal: &TargetStatus) -> String {
    style::word(goal.state, false, goal.reason.as_ref())
}

/// Formats such a target like [`row`].
fn lost_row(goal: &TargetStatus, widths: (usize, usize), style: &Style) -> String {
    let tone = style::tone(goal.state, false);
    let glyph = style.paint(tone, &style::glyph(goal.state, false).to_string());
    let word = style.paint(tone, &style::pad(&lost_word(goal), widths.1));
    let why = goal.reason.as_ref().map(|why| why.text.as_str()).unwrap_or_default();
    let used = 4 + widths.0 + 2 + widths.1 + 2;
    let why = style.hang(why, used, used);
    format!("  {glyph} {}  {word}  {why}\n", style::pad(&goal.target, widths.0))
}

fn heading(status: &Status, now: WallTime, style: &Style) -> String {
    let goal = if status.goal.is_empty() { "(no goal)".to_string() } else { status.goal.join(" ") };
    let word = style.paint(style::system_tone(status.system), status.system.as_str());
    let up = style::span(span::since(&status.booted, now));
    let tally = tally(&status.units);
    let rest = format!("up {up}   generation {}", status.generation);
    let used = goal.chars().count() + 2 + status.system.as_str().len() + 3;
    let fits = style.width.is_none_or(|width| used + tally.len() + 3 + rest.len() <= width);
    let goal = style.bold(&goal);
    let mut text = match fits {
        true => format!("{goal}  {word}   {tally}   {rest}\n"),
        false => format!("{goal}  {word}   {rest}\nunits      {tally}\n"),
    };
    if status.crashes > 0 {
        let when = status.resumed.as_deref().map(|at| style::span(span::since(at, now)));
        let when = when.map(|span| format!(", the last {span} ago")).unwrap_or_default();
        let crashes = style::count(status.crashes as usize, "crash").replace("crashs", "crashes");
        let line = format!("init       survived {crashes}{when}");
        let _ = writeln!(text, "{}", style.paint(Tone::Warning, &line));
    }
    if status.tracking == "process-group" {
        let _ = writeln!(
            text,
            "tracking   by process group and descent: init cannot use cgroup v2 here"
        );
    }
    for source in &status.sources {
        let roots =
            if source.roots.is_empty() { "nothing".to_string() } else { source.roots.join(" ") };
        let line =
            format!("source     {}, revision {}, wants {roots}", source.source, source.revision);
        let _ = writeln!(text, "{}", style.cut(&line, 0));
    }
    if let Some(overlay) = overlay(status, now) {
        let _ = writeln!(text, "overlay    {overlay}");
    }
    text
}

/// Formats `+tcpdump (47m left) -cron`.
fn overlay(status: &Status, now: WallTime) -> Option<String> {
    let overlay = &status.overlay;
    let mut parts = Vec::new();
    for (at, want) in overlay.want.iter().enumerate() {
        let until = overlay.until.get(at).and_then(Option::as_deref);
        let left = until.map(|at| format!(" ({} left)", style::span(span::until(at, now))));
        parts.push(format!("+{want}{}", left.unwrap_or_default()));
    }
    parts.extend(overlay.drop.iter().map(|drop| format!("-{drop}")));
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Formats `41 needed: 1 failed, 1 degraded, 38 running, 1 exited`.
fn tally(units: &[UnitStatus]) -> String {
    let needed: Vec<&UnitStatus> = units.iter().filter(|unit| unit.needed).collect();
    let mut counts: BTreeMap<(u8, String), usize> = BTreeMap::new();
    for unit in &needed {
        let flag = if unit.degraded { "degraded" } else { unit.state.word() };
        *counts.entry((urgency(unit), flag.to_string())).or_default() += 1;
    }
    let mut merged: Vec<(String, usize)> = Vec::new();
    for ((_, word), count) in counts {
        match merged.iter_mut().find(|(known, _)| *known == word) {
            Some((_, sum)) => *sum += count,
            None => merged.push((word, count)),
        }
    }
    if merged.is_empty() {
        return "nothing needed".to_string();
    }
    let parts: Vec<String> = merged.iter().map(|(word, n)| format!("{n} {word}")).collect();
    format!("{} needed: {}", needed.len(), parts.join(", "))
}

/// Formats the columns of the resources, for each unit in order. `used` columns precede them. The
/// last columns are left out if the details of a unit would have no room.
fn cells(resources: &[Resources], mut used: usize, style: &Style) -> Vec<String> {
    let table: Vec<[Option<String>; 3]> = resources.iter().map(Resources::columns).collect();
    let mut lines = vec![String::new(); table.len()];
    for column in 0..3 {
        let column: Vec<Option<&str>> =
            table.iter().map(|cells| cells.get(column)?.as_deref()).collect();
        let width = column.iter().flatten().map(|cell| cell.chars().count()).max();
        let Some(width) = width else { continue };
        used += 2 + width;
        if style.width.is_some_and(|columns| used + 2 + DETAILS > columns) {
            break;
        }
        for ((line, cell), resources) in lines.iter_mut().zip(column).zip(resources) {
            // A unit without values keeps the room for its details.
            if *resources != Resources::default() {
                let _ = write!(line, "  {:>width$}", cell.unwrap_or_default());
            }
        }
    }
    lines
}

/// Formats a line; `widths` are those of names and states. `cells` has the resources.
fn row(
    unit: &UnitStatus,
    cells: &str,
    now: WallTime,
    widths: (usize, usize),
    style: &Style,
) -> String {
    let tone = style::tone(unit.state, unit.degraded);
    let glyph = style.paint(tone, &style::glyph(unit.state, unit.degraded).to_string());
    let name = style::pad(&label(unit), widths.0);
    let said = row_details(unit, now);
    let word = word(unit);
    let gap = widths.1.saturating_sub(word.chars().count());
    let used = 4 + widths.0 + 2 + widths.1 + cells.chars().count() + 2;
    let said = match needs_attention(unit) {
        true => style.hang(&said, used, used),
        false => style.cut(&said, used),
    };
    let word = style.paint(tone, &word);
    let line = format!("  {glyph} {name}  {word}{}{cells}  {said}", " ".repeat(gap));
    format!("{}\n", line.trim_end())
}

/// Returns the details of a state: reason, failures, duration, dependents.
fn row_details(unit: &UnitStatus, now: WallTime) -> String {
    let mut parts = Vec::new();
    if let Some(reason) = &unit.reason {
        parts.push(reason.text.clone());
    }
    if !unit.status.is_empty() && unit.state != State::Disabled {
        parts.push(format!("\"{}\"", unit.status));
    }
    let counted =
        unit.reason.as_ref().is_some_and(|why| matches!(why.cause, Cause::Backoff { .. }));
    if unit.attempt > 1 && !unit.state.is_active() && !counted {
        parts.push(format!("failed {} times", unit.attempt));
    }
    if let Some(span) = until_next_try(unit, now) {
        parts.push(format!("next try in {span}"));
    }
    if unit.stale {
        parts.push("runs with an older definition".to_string());
    }
    if let Some(source) = &unit.source {
        parts.push(format!("from source {source}"));
    }
    let bad = unit.state == State::Failed || unit.state == State::Waiting;
    if bad && !unit.needed_by.is_empty() {
        parts.push(format!("needed by {}", unit.needed_by.join(", ")));
    } else if unit.state != State::Disabled {
        let word = if unit.state.is_active() { "up" } else { "for" };
        parts.push(format!("{word} {}", style::span(span::since(&unit.since, now))));
    }
    parts.join(", ")
}

fn until_next_try(unit: &UnitStatus, now: WallTime) -> Option<String> {
    Some(style::span(span::until(unit.next_try.as_deref()?, now)))
}

fn footing(lost: &[&TargetStatus], shown: &[&UnitStatus], hidden: usize, style: &Style) -> String {
    let mut parts = Vec::new();
    let worst = shown.first().filter(|unit| urgency(unit) <= 1).map(|unit| name(unit));
    if let Some(worst) = lost.first().map(|goal| goal.target.as_str()).or(worst) {
        parts.push(format!("initctl why {worst}"));
    }
    if hidden > 0 {
        let units = style::count(hidden, "healthy or idle unit");
        parts.push(format!("{units} hidden, --all shows them"));
    }
    if parts.is_empty() {
        return String::new();
    }
    format!("{}\n", style.paint(Tone::Quiet, &format!("hint: {}", parts.join("   "))))
}

/// Formats units requested by name in full.
pub(crate) fn details(
    status: &Status,
    now: WallTime,
    style: &Style,
    tail: &dyn Fn(&str) -> Vec<String>,
    used: &dyn Fn(&UnitStatus) -> Resources,
) -> String {
    let mut text = String::new();
    for unit in &status.units {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&detail(unit, &status.targets, now, style, &used(unit)));
        let lines = tail(&unit.unit);
        for (at, line) in lines.iter().enumerate() {
            let lead = if at == 0 { "log" } else { "" };
            let _ = writeln!(text, "  {} {line}", style::pad(lead, 11));
        }
    }
    for target in status.targets.iter().filter(|target| target.unit.is_none()) {
        let word = style::word(target.state, false, target.reason.as_ref());
        let word = style.paint(style::tone(target.state, false), &word);
        let why = target.reason.as_ref().map(|why| why.text.as_str()).unwrap_or_default();
        let line = format!("{}  {word}   {why}", style.bold(&target.target));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn detail(
    unit: &UnitStatus,
    targets: &[TargetStatus],
    now: WallTime,
    style: &Style,
    used: &Resources,
) -> String {
    let tone = style::tone(unit.state, unit.degraded);
    let since = style::span(span::since(&unit.since, now));
    let mut text = format!(
        "{} {}  {}   for {since}\n",
        style.paint(tone, &style::glyph(unit.state, unit.degraded).to_string()),
        style.bold(&label(unit)),
        style.paint(tone, &word(unit)),
    );
    let mut field = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {} {value}", style::pad(name, 11));
        }
    };
    field("about", unit.description.clone());
    field(
        "reason",
        unit.reason.as_ref().map(|why| style.hang(&why.text, 14, 14)).unwrap_or_default(),
    );
    let next = until_next_try(unit, now).map(|span| format!("retried in {span}"));
    field("next", next.unwrap_or_default());
    match unit.attempt {
        0 => {}
        1 => field("failures", "1".to_string()),
        more => field("failures", format!("{more} in a row")),
    }
    field("says", unit.status.clone());
    let provided: Vec<String> = unit
        .provides
        .iter()
        .map(|target| {
            let coincidental = targets.iter().any(|t| t.target == *target && t.coincidental);
            format!("{target}{}", if coincidental { " (coincidental)" } else { "" })
        })
        .collect();
    field("targets", provided.join(", "));
    field("type", unit.kind.as_str().to_string());
    field("main pid", unit.main_pid.map(|pid| pid.to_string()).unwrap_or_default());
    field("resources", used.line());
    field("needed by", unit.needed_by.join(", "));
    field("file", unit.file.clone());
    field("from", unit.source.as_ref().map(|name| format!("source {name}")).unwrap_or_default());
    if unit.reload_failed {
        field("reload", "the last one failed; `initctl logs` shows why".to_string());
    }
    if unit.stale {
        field("stale", "runs with an older definition; `initctl restart` replaces it".to_string());
    }
    text
}

fn word(unit: &UnitStatus) -> String {
    style::word(unit.state, unit.degraded, unit.reason.as_ref())
}

/// Returns the name that operators use: the unit's own if a target has it, else its first target.
fn name(unit: &UnitStatus) -> &str {
    if unit.provides.contains(&unit.unit) {
        return &unit.unit;
    }
    unit.provides.first().unwrap_or(&unit.unit)
}

/// Like [`name`], with the unit's name if it differs.
fn label(unit: &UnitStatus) -> String {
    let name = name(unit);
    if name == unit.unit { name.to_string() } else { format!("{name} ({})", unit.unit) }
}

fn needs_attention(unit: &UnitStatus) -> bool {
    urgency(unit) < 6
}

/// Returns the sort key: most urgent first.
fn urgency(unit: &UnitStatus) -> u8 {
    match unit.state {
        State::Failed if word(unit) == "failed" => 0,
        State::Failed => 1,
        State::Stopping => 2,
        State::Waiting | State::Starting => 3,
        State::Reloading => 4,
        State::Running | State::Exited if unit.degraded || unit.stale => 5,
        State::Running => 6,
        State::Exited => 7,
        State::Disabled => 8,
    }
}

#[cfg(test)]
mod tests;
