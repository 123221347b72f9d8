//! `why`: the chain of reasons in words, down to the exit status or the line of a file, with
//! effects and next steps.

use crate::arguments;
use crate::exit::{Error, Exit};
use crate::log_source;
use crate::session::{self, Session};
use crate::span;
use crate::style::{self, Style, Tone};
use groundstate_units::control::answer::{Affected, Cause, Link, Need, UnitStatus, Why};
use groundstate_units::control::request::Verb;
use groundstate_units::machine::reason::State;
use groundstate_units::spec::{DependencyKind, Kind};
use groundstate_units::text::wall_clock::WallTime;
use std::fmt::Write;

/// Number of log lines of the root cause.
const TAIL: u64 = 5;
/// Start column of the values.
const COLUMN: usize = 15;
/// Maximum number of names in a line.
const NAMED: usize = 8;

/// Asks init and prints the explanation.
pub(crate) fn run(session: &Session, asked: arguments::OneTarget) -> Result<Exit, Error> {
    let (why, value) = session.ask_as::<Why>(Verb::Why { target: asked.target })?;
    session.show(&value, || {
        let root = why.chain.last().filter(|link| failed_by_itself(link));
        let tail = root.and_then(|link| link.unit.as_deref());
        let tail = tail.map(|unit| log_source::tail(session, unit, TAIL)).unwrap_or_default();
        render(&why, &tail, session::now(), &session.style)
    })?;
    Ok(Exit::Done)
}

/// Formats the explanation. `tail` has the last log lines of the root cause.
pub(crate) fn render(why: &Why, tail: &[String], now: WallTime, style: &Style) -> String {
    let mut text = headline(why, now, style);
    if why.chain.len() > 1 {
        text.push_str(&chain(&why.chain, style));
    }
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {} {value}", style::pad(name, COLUMN - 3));
        }
    };
    let wrapped = |value: &str| style.hang(value, COLUMN, COLUMN);
    let root = why.chain.last().filter(|link| failed_by_itself(link));
    let of_another = root.filter(|_| why.chain.len() > 1).map(label);
    if let Some(Link { file: Some(file), line: Some(line), .. }) = root {
        match &of_another {
            Some(name) => {
                field("root cause", &wrapped(&format!("{name}, defined in {file}:{line}")))
            }
            None => field("defined in", &format!("{file}:{line}")),
        }
    }
    field("last output", &tail.join(&format!("\n{}", " ".repeat(COLUMN))));
    if let Some(unit) = &why.detail {
        field("status", &wrapped(&unit.status));
        let source = unit.source.as_ref().map(|name| format!("source {name}"));
        field("from", &source.unwrap_or_default());
    }
    field("needed by", &wrapped(&needed_by(&why.needed_by)));
    field("activated by", &wrapped(&activated_by(&why.activated_by)));
    field("affects", &wrapped(&affects(&why.affects)));
    field("hint", &wrapped(hint(why)));
    field("next", &wrapped(&next(why, now)));
    text
}

/// Formats the name and state, the time in that state, and the reason.
fn headline(why: &Why, now: WallTime, style: &Style) -> String {
    let name = named(&why.target, why.unit.as_deref());
    let reason = why.chain.first().and_then(|link| link.reason.as_ref());
    let held_down = held_down(why);
    let masked = held_down.is_some();
    let word = match held_down {
        // The unit did not fail; the operator wants this state.
        Some(word) => word.to_string(),
        None => style::word(why.state, why.degraded, reason).to_uppercase(),
    };
    let mut said = String::new();
    if let Some(unit) = &why.detail {
        // The time of a degradation is not recorded.
        let up = if why.degraded { "up " } else { "" };
        let _ = write!(said, " ({up}{}", style::span(span::since(&unit.since, now)));
        match unit.attempt {
            0 => {}
            1 => said.push_str(", 1 failure"),
            more => {
                let _ = write!(said, ", {more} failures in a row");
            }
        }
        said.push(')');
    }
    if masked {
        // The word needs no explanation.
    } else if why.state == State::Disabled && why.detail.is_some() {
        said.push_str(" because the goal does not need it");
        if let Some(reason) = reason {
            let _ = write!(said, "; it could not start: {}", reason.text);
        }
    } else if let Some(because) = because(why) {
        let link = if reads_alone(why) { ":" } else { " because" };
        let _ = write!(said, "{link} {because}");
    }
    let tone = if masked { Tone::Warning } else { style::tone(why.state, why.degraded) };
    let used = name.chars().count() + 4 + word.chars().count();
    let said = said.split_once(' ').map_or((said.as_str(), ""), |parts| parts);
    let rest = style.hang(said.1, used + said.0.chars().count() + 1, 2);
    let (name, word) = (style.bold(&name), style.paint(tone, &word));
    let lead = format!("{name} is {word}{}", said.0);
    if rest.is_empty() { format!("{lead}\n") } else { format!("{lead} {rest}\n") }
}

/// Formats `web`, or `http (web)` for a target that the unit `web` provides.
fn named(target: &str, unit: Option<&str>) -> String {
    match unit {
        Some(unit) if unit != target => format!("{target} ({unit})"),
        Some(_) | None => target.to_string(),
    }
}

fn label(link: &Link) -> String {
    named(&link.target, link.unit.as_deref())
}

/// Returns the word for a unit that is itself masked or dropped. A unit that depends on it has the
/// word of its own state.
fn held_down(why: &Why) -> Option<&'static str> {
    let reason = why.chain.first()?.reason.as_ref()?;
    let Cause::Masked { target, dropped } = &reason.cause else { return None };
    let itself = why.unit.is_none() || why.state == State::Disabled || *target == why.target;
    let word = if dropped.is_some() { "DROPPED from the goal" } else { "MASKED" };
    itself.then_some(word)
}

/// Returns true if the reason is not a sentence about the unit.
fn reads_alone(why: &Why) -> bool {
    let reason = why.chain.first().and_then(|link| link.reason.as_ref());
    reason.is_some_and(|reason| {
        matches!(
            reason.cause,
            Cause::On { .. }
                | Cause::Slot
                | Cause::Backoff { .. }
                | Cause::Exec { .. }
                | Cause::Config { .. }
                | Cause::Skipped { .. }
                | Cause::Protocol { .. }
        )
    })
}

/// Returns the reason of the first link. For a degraded unit it is the state of the next link; for
/// a healthy unit, the units that need it.
fn because(why: &Why) -> Option<String> {
    if let Some(reason) = why.chain.first().and_then(|link| link.reason.as_ref()) {
        return Some(reason.text.clone());
    }
    if why.degraded {
        let below = why.chain.get(1)?;
        let no_unit = below.reason.as_ref().filter(|_| below.unit.is_none());
        return Some(match no_unit {
            Some(reason) => reason.text.clone(),
            None => format!("{} is {}", below.target, link_word(below)),
        });
    }
    match why.state {
        State::Disabled => Some("the goal does not need it".to_string()),
        State::Running | State::Exited | State::Starting | State::Reloading => {
            let Some(need) = why.needed_by.first() else {
                return Some(match why.activated_by.first() {
                    Some(trigger) => format!("{} activated it", trigger.unit),
                    None if why.detail.as_ref()?.needed => {
                        "init lets it finish, although its trigger has ended".to_string()
                    }
                    None => return None,
                });
            };
            Some(match &need.unit {
                Some(unit) => match need.kind {
                    Some(DependencyKind::OnFailure) => format!("{unit} failed"),
                    Some(DependencyKind::OnSuccess) => format!("{unit} succeeded"),
                    Some(_) | None => format!("{unit} needs {}", need.target),
                },
                None => match &need.source {
                    Some(source) => format!("it is a root of source {source}"),
                    None => "it is in the goal".to_string(),
                },
            })
        }
        State::Stopping => Some(match why.detail.as_ref()?.needed {
            true => "it is being restarted".to_string(),
            false => "the goal does not need it any more".to_string(),
        }),
        State::Failed | State::Waiting => None,
    }
}

fn link_word(link: &Link) -> String {
    style::word(link.state, link.degraded, link.reason.as_ref())
}

/// Formats the links, each one level deeper; states and reasons are aligned.
fn chain(links: &[Link], style: &Style) -> String {
    let mut text = String::new();
    let indent = |depth: usize| "  ".repeat(depth.min(12) + 1);
    let names = links.iter().enumerate();
    let width = |(depth, link): (usize, &Link)| indent(depth).len() + label(link).chars().count();
    let width = names.map(width).max().unwrap_or(0).min(48);
    let words = links.iter().map(|link| link_word(link).chars().count()).max().unwrap_or(0);
    for (depth, link) in links.iter().enumerate() {
        let indent = indent(depth);
        let tone = style::tone(link.state, link.degraded);
        let name = style::pad(&label(link), width.saturating_sub(indent.len()));
        let word = link_word(link);
        let said = link.reason.as_ref().map(|reason| reason.text.as_str()).unwrap_or_default();
        let used = width + 2 + 2 + words + 2;
        let cut = style.cut(said, used);
        // The cause at the end of the chain is shown whole.
        let below = if depth + 1 == links.len() && cut != said {
            style.wrap(said, indent.len() + 4)
        } else {
            Vec::new()
        };
        let said = if below.is_empty() { cut } else { String::new() };
        let glyph = style.paint(tone, &style::glyph(link.state, link.degraded).to_string());
        let word = style.paint(tone, &style::pad(&word, words));
        let line = format!("{indent}{glyph} {name}  {word}  {said}");
        let _ = writeln!(text, "{}", line.trim_end());
        for part in below {
            let _ = writeln!(text, "{indent}    {part}");
        }
    }
    text
}

/// Formats `network-online (depends-on), maddy (depends-ms), the goal`.
fn needed_by(needs: &[Need]) -> String {
    let mut parts: Vec<String> = needs
        .iter()
        .take(NAMED)
        .map(|need| match (&need.unit, need.kind) {
            (Some(unit), Some(kind)) => format!("{unit} ({})", kind.as_str()),
            (Some(unit), None) => unit.clone(),
            (None, _) => match &need.source {
                Some(source) => format!("source {source}"),
                None => "the goal".to_string(),
            },
        })
        .collect();
    if needs.len() > NAMED {
        parts.push(format!("and {} more", needs.len() - NAMED));
    }
    parts.join(", ")
}

fn affected_word(unit: &Affected) -> String {
    style::word(unit.state, unit.degraded, unit.reason.as_ref())
}

/// Formats the triggers, and where to see what they wait for.
fn activated_by(triggers: &[Affected]) -> String {
    let said = |it: &Affected| format!("{} ({})", it.unit, affected_word(it));
    let names: Vec<String> = triggers.iter().map(said).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("{}; see `initctl timers` and `initctl sockets`", names.join(", "))
}

fn affects(affected: &[Affected]) -> String {
    let mut parts: Vec<String> = affected
        .iter()
        .take(NAMED)
        .map(|unit| format!("{} ({})", unit.unit, affected_word(unit)))
        .collect();
    if affected.len() > NAMED {
        parts.push(format!("and {} more", affected.len() - NAMED));
    }
    parts.join(", ")
}

/// Explains the failure of a supervised unit whose process exited with status 0.
fn hint(why: &Why) -> &'static str {
    let (Some(root), Some(unit)) = (why.chain.last(), &why.detail) else { return "" };
    let is_supervised = matches!(unit.kind, Kind::ForegroundNotified | Kind::ForegroundSupervised);
    let is_down = matches!(root.state, State::Failed | State::Waiting);
    let cause = root.reason.as_ref().map(|reason| &reason.cause);
    let ended = matches!(cause, Some(Cause::Exit { code: 0 }));
    if !ended || !is_down || !is_supervised || root.unit.as_ref() != Some(&unit.unit) {
        return "";
    }
    if unit.file.ends_with(".service") {
        return "a program that ends or goes to the background by itself needs Type=oneshot or \
                Type=forking, or an option that keeps it in the foreground";
    }
    "a program that ends or goes to the background by itself needs type: oneshot or \
     background-pidfile, or an option that keeps it in the foreground"
}

/// Formats what happens automatically, and what an operator can do.
fn next(why: &Why, now: WallTime) -> String {
    let Some(root) = why.chain.last() else { return String::new() };
    let Some(reason) = &root.reason else { return String::new() };
    let name = root.unit.as_deref().unwrap_or(&root.target);
    if let Some(at) = &root.next_try {
        let left = style::span(span::until(at, now));
        return format!("retried in {left}; `initctl retry {name}` retries now");
    }
    match &reason.cause {
        Cause::Masked { dropped: Some(name), .. } => {
            format!("`initctl unwant {name}` removes -{name} from the goal")
        }
        Cause::Masked { target, .. } => format!("`initctl unmask {target}` allows its start"),
        Cause::Missing { target } => {
            format!("add a unit that provides {target}, then `initctl reload`")
        }
        Cause::Config { file, line, .. } => {
            format!(
                "correct {file}:{line}, then `initctl reload`; `initctl check` finds all errors"
            )
        }
        Cause::Conflict { target } => {
            format!("remove {name} or {target} from the goal")
        }
        Cause::Skipped { .. } => "nothing to do: a skipped unit counts as exited".to_string(),
        Cause::Slot => "starts when another start has finished".to_string(),
        Cause::On { .. } => "starts as soon as they are active".to_string(),
        Cause::Unkillable { .. } => {
            "nothing to do: init waits until the kernel has ended the process".to_string()
        }
        Cause::Dependency { .. } | Cause::Backoff { .. } => String::new(),
        Cause::Exit { .. }
        | Cause::Signal { .. }
        | Cause::StartTimeout
        | Cause::StopTimeout
        | Cause::Watchdog
        | Cause::RunTimeout
        | Cause::Exec { .. }
        | Cause::Oom
        | Cause::Protocol { .. }
        | Cause::Internal
        | Cause::Other => match root.state {
            State::Failed if root.gives_up == Some(false) => {
                format!("retried automatically; `initctl retry {name}` retries now")
            }
            State::Failed => next_of_failed(why, name),
            State::Disabled
            | State::Waiting
            | State::Starting
            | State::Running
            | State::Reloading
            | State::Exited
            | State::Stopping => String::new(),
        },
    }
}

fn next_of_failed(why: &Why, name: &str) -> String {
    let own: Option<&UnitStatus> = why.detail.as_ref().filter(|unit| unit.unit == name);
    match own {
        Some(unit) if !unit.needed => "nothing to do: the goal does not need it".to_string(),
        _ => format!(
            "not retried automatically; `initctl logs {name}` shows why, `initctl retry {name}` retries"
        ),
    }
}

fn failed_by_itself(link: &Link) -> bool {
    let Some(reason) = &link.reason else { return false };
    !matches!(
        reason.cause,
        Cause::Dependency { .. }
            | Cause::Masked { .. }
            | Cause::Missing { .. }
            | Cause::Config { .. }
            | Cause::Conflict { .. }
            | Cause::Slot
            | Cause::On { .. }
    )
}

#[cfg(test)]
mod tests;
