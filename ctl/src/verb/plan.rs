//! `plan`: the effect of a change before it happens; also printed by the verbs that apply changes.

use crate::arguments;
use crate::exit::{Error, Exit};
use crate::session::Session;
use crate::style::{self, Style, Tone};
use groundstate_units::control::answer::Plan;
use groundstate_units::control::request::Verb;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Maximum number of units listed per wave.
const NAMED: usize = 24;

/// Asks init and prints the plan.
pub(crate) fn run(session: &Session, asked: arguments::Plan) -> Result<Exit, Error> {
    let arguments::Goal { targets, want, drop } = asked.goal;
    let is_bare = targets.is_empty() && want.is_empty() && drop.is_empty() && !asked.reload;
    let verb = Verb::Plan { targets, want, drop, reload: asked.reload };
    let (plan, value) = session.ask_as::<Plan>(verb)?;
    session.show(&value, || {
        format!(
            "{}{}",
            render(&plan, &session.style),
            if is_bare { overlay_remark(&plan) } else { "" }
        )
    })?;
    Ok(Exit::Done)
}

/// Returns the remark for `plan` without arguments, which plans the goal without its overlay.
fn overlay_remark(plan: &Plan) -> &'static str {
    match is_nothing(plan) {
        true => "",
        false => "this plan is for the goal alone, without targets that were wanted or dropped\n",
    }
}

fn is_nothing(plan: &Plan) -> bool {
    plan.stop.is_empty() && plan.start.is_empty() && plan.restart.is_empty()
}

/// Formats the plan in waves.
pub(crate) fn render(plan: &Plan, style: &Style) -> String {
    if is_nothing(plan) {
        return format!(
            "nothing to do: {} kept as before\n",
            style::count(plan.keep.len(), "unit")
        );
    }
    let sum = |waves: &[Vec<String>]| waves.iter().map(Vec::len).sum::<usize>();
    let restart = plan.restart.len();
    let mut text = style.bold(&format!(
        "stop {}   restart {restart}   start {}   keep {}",
        sum(&plan.stop).saturating_sub(restart),
        sum(&plan.start).saturating_sub(restart),
        plan.keep.len()
    ));
    text.push('\n');
    waves(&mut text, "stop", &without(&plan.stop, &plan.restart), Tone::Warning, style);
    waves(&mut text, "start", &without(&plan.start, &plan.restart), Tone::Good, style);
    row(&mut text, "restart", "", &plan.restart, Tone::Moving, style);
    row(&mut text, "keep", "", &plan.keep, Tone::Quiet, style);
    text.push_str(&sources(plan));
    text
}

/// Returns the waves without the units that restart, which have a row of their own.
fn without(waves: &[Vec<String>], restart: &[String]) -> Vec<Vec<String>> {
    let rest = |wave: &Vec<String>| -> Vec<String> {
        wave.iter().filter(|unit| !restart.contains(unit)).cloned().collect()
    };
    waves.iter().map(rest).filter(|wave| !wave.is_empty()).collect()
}

/// Lists stopped and started units of controllers.
fn sources(plan: &Plan) -> String {
    let mut of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for unit in plan.stop.iter().chain(&plan.start).flatten() {
        if let Some(source) = plan.sources.get(unit) {
            of.entry(source).or_default().insert(unit);
        }
    }
    let mut text = String::new();
    for (source, units) in of {
        let shown: Vec<&str> = units.iter().take(NAMED).copied().collect();
        let more = units.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(text, "  from source {source}: {}{more}", shown.join(", "));
    }
    text
}

fn waves(text: &mut String, word: &str, waves: &[Vec<String>], tone: Tone, style: &Style) {
    for (at, wave) in waves.iter().enumerate() {
        let lead = if at == 0 { word } else { "" };
        row(text, lead, &(at + 1).to_string(), wave, tone, style);
    }
}

fn row(text: &mut String, lead: &str, number: &str, names: &[String], tone: Tone, style: &Style) {
    if names.is_empty() {
        return;
    }
    let mut shown: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = names.len().saturating_sub(NAMED);
    let more = format!("and {more} more");
    if names.len() > NAMED {
        shown.push(&more);
    }
    let lead = style.paint(tone, &style::pad(lead, 8));
    let indent = 2 + 8 + 4;
    let mut lines = wrapped(&shown, style.width.map(|width| width.saturating_sub(indent)));
    let first = if lines.is_empty() { String::new() } else { lines.remove(0) };
    let _ = writeln!(text, "  {lead}{} {first}", style::pad(number, 3));
    for line in lines {
        let _ = writeln!(text, "{}{line}", " ".repeat(indent));
    }
}

/// Wraps comma-separated names to `width` columns.
fn wrapped(names: &[&str], width: Option<usize>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for (at, name) in names.iter().enumerate() {
        let comma = if at + 1 == names.len() { "" } else { "," };
        let gap = usize::from(!line.is_empty());
        let length = line.chars().count() + gap + name.chars().count() + comma.len();
        if !line.is_empty() && width.is_some_and(|width| length > width) {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(name);
        line.push_str(comma);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &str) -> Vec<String> {
        words.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn plan_is_printed_in_waves() {
        let plan = Plan {
            schema: 1,
            stop: vec![names("nginx web"), names("postgres")],
            start: vec![names("web"), names("sulogin")],
            restart: names("web"),
            keep: names("console udev"),
            sources: BTreeMap::from([("web".to_string(), "fleet".to_string())]),
        };
        let want = "stop 2   restart 1   start 1   keep 2\n  \
                    stop    1   nginx\n          \
                    2   postgres\n  \
                    start   1   sulogin\n  \
                    restart     web\n  \
                    keep        console, udev\n  \
                    from source fleet: web\n";
        assert_eq!(render(&plan, &Style::PLAIN), want);
    }

    #[test]
    fn plan_without_changes_is_reported_as_such() {
        let plan = Plan { schema: 1, keep: names("a b"), ..Plan::default() };
        assert_eq!(render(&plan, &Style::PLAIN), "nothing to do: 2 units kept as before\n");
        assert_eq!(overlay_remark(&plan), "");
        let stops = Plan { stop: vec![names("job")], ..plan };
        assert!(overlay_remark(&stops).contains("without targets that were wanted"));
    }

    #[test]
    fn long_waves_are_wrapped_at_the_terminal_width() {
        let style = Style { colour: false, width: Some(30) };
        let plan =
            Plan { schema: 1, start: vec![names("alpha beta gamma delta")], ..Plan::default() };
        let text = render(&plan, &style);
        assert!(text.lines().skip(1).all(|line| line.chars().count() <= 30), "{text}");
        assert!(text.contains("\n              gamma, delta"), "{text}");
    }
}
