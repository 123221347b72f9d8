//! `blame`, `critical-chain`, `plot`: how long starts took, and which ones the goal had to
//! wait for. All three are drawn from one answer.

use crate::arguments;
use crate::exit::{Exit, Trouble};
use crate::session::{self, Session};
use crate::style::{self, Style, Tone};
use groundstate_units::control::answer::{Blame, Graph, Timing};
use groundstate_units::control::request::Verb;
use groundstate_units::name::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// Units drawn in a picture; a browser shows more only slowly.
const DRAWN: usize = 2_000;

/// `blame`.
pub(crate) fn blame(session: &Session) -> Result<Exit, Trouble> {
    let (blame, value) = session.ask_as::<Blame>(Verb::Blame {})?;
    session.show(&value, || list(&blame.units, &session.style))?;
    Ok(Exit::Done)
}

/// `critical-chain`.
pub(crate) fn critical_chain(session: &Session, asked: &arguments::Few) -> Result<Exit, Trouble> {
    let (blame, value) = session.ask_as::<Blame>(Verb::Blame {})?;
    let (graph, _) = session.ask_as::<Graph>(Verb::Graph {})?;
    let roots: Vec<String> = if asked.targets.is_empty() {
        graph.goal.clone()
    } else {
        asked.targets.iter().map(Name::to_string).collect()
    };
    session.show(&value, || chain(&blame.units, &graph, &roots, &session.style))?;
    Ok(Exit::Done)
}

/// `plot`.
pub(crate) fn plot(session: &Session) -> Result<Exit, Trouble> {
    let (blame, value) = session.ask_as::<Blame>(Verb::Blame {})?;
    if session.json {
        session::print_json(&value)?;
    } else {
        session::print(&picture(&blame.units))?;
    }
    Ok(Exit::Done)
}

fn took(unit: &Timing) -> Option<Duration> {
    Some(Duration::from_micros(unit.ready_us?.saturating_sub(unit.started_us)))
}

/// Longest first; what is not ready yet before all.
fn list(units: &[Timing], style: &Style) -> String {
    let mut units: Vec<&Timing> = units.iter().collect();
    units.sort_by_key(|unit| (unit.ready_us.is_some(), std::cmp::Reverse(took(unit)), &unit.unit));
    let mut text = String::new();
    for unit in units {
        let _ = match took(unit) {
            Some(took) => writeln!(text, "{:>9}  {}", style::span(took), unit.unit),
            None => {
                let word = style.paint(Tone::Uneasy, "not ready");
                writeln!(text, "{word}  {}", unit.unit)
            }
        };
    }
    text
}

/// From each root down along the dependency that was ready last.
fn chain(units: &[Timing], graph: &Graph, roots: &[String], style: &Style) -> String {
    let timing: BTreeMap<&str, &Timing> =
        units.iter().map(|unit| (unit.unit.as_str(), unit)).collect();
    let begun = units.iter().map(|unit| unit.waited_from_us).min().unwrap_or(0);
    let mut text = format!(
        "{}\n",
        style.paint(
            Tone::Quiet,
            "when it was ready after the beginning, and (+) how long its start took"
        )
    );
    for root in roots {
        let mut next = provider(graph, root);
        let mut seen = BTreeSet::new();
        let mut depth = 0;
        while let Some(unit) = next.filter(|unit| seen.insert(*unit)) {
            let at = timing.get(unit);
            let when = match at.and_then(|at| at.ready_us) {
                Some(ready) => style::span(Duration::from_micros(ready.saturating_sub(begun))),
                None => "not ready".to_string(),
            };
            let took = at.and_then(|at| took(at)).map(|took| format!("  +{}", style::span(took)));
            let lead =
                if depth == 0 { String::new() } else { format!("{}`- ", "   ".repeat(depth - 1)) };
            let _ = writeln!(text, "{lead}{unit}  @{when}{}", took.unwrap_or_default());
            depth += 1;
            // What was ready only after this one was started (a restart since) held it up for
            // nothing.
            let begun = at.map_or(u64::MAX, |at| at.started_us);
            let before = |to: &&str| {
                timing.get(to).and_then(|at| at.ready_us).is_some_and(|ready| ready <= begun)
            };
            next = graph
                .edges
                .iter()
                .filter(|edge| edge.from == unit && edge.kind.orders())
                .filter_map(|edge| edge.to.as_deref())
                .filter(before)
                .max_by_key(|to| timing.get(to).and_then(|at| at.ready_us));
        }
    }
    text
}

fn provider<'a>(graph: &'a Graph, name: &str) -> Option<&'a str> {
    let provides = |node: &&groundstate_units::control::answer::Node| {
        node.provides.iter().any(|target| target == name)
    };
    let mut nodes = graph.nodes.iter();
    let found = nodes.clone().filter(|node| node.needed).find(provides);
    let found = found.or_else(|| nodes.clone().find(provides));
    found.or_else(|| nodes.find(|node| node.unit == name)).map(|node| node.unit.as_str())
}

/// One bar a unit: grey while it waited, coloured while it started.
fn picture(units: &[Timing]) -> String {
    let begun = units.iter().map(|unit| unit.waited_from_us).min().unwrap_or(0);
    let end = units.iter().map(|unit| unit.ready_us.unwrap_or(unit.started_us)).max().unwrap_or(0);
    let mut units: Vec<&Timing> = units.iter().collect();
    units.sort_by_key(|unit| (unit.started_us, &unit.unit));
    units.truncate(DRAWN);
    let whole = end.saturating_sub(begun).max(1);
    let x = |at: u64| 200.0 + 800.0 * at.saturating_sub(begun) as f64 / whole as f64;
    let height = 40 + 18 * units.len();
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1160\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <text x=\"200\" y=\"20\">{} until the last start was done</text>\n",
        style::span(Duration::from_micros(whole))
    );
    for (at, unit) in units.iter().enumerate() {
        let y = 32 + 18 * at;
        let (from, started) = (x(unit.waited_from_us), x(unit.started_us));
        let (ready, colour) = match unit.ready_us {
            Some(ready) => (x(ready), "#5aa469"),
            None => (x(end), "#d1605e"),
        };
        let took = took(unit).map(style::span).unwrap_or_else(|| "not ready".to_string());
        let _ = writeln!(
            text,
            "<text x=\"192\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{from:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"12\" fill=\"#dddddd\"/>\
             <rect x=\"{started:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{}\">{took}</text>",
            y + 10,
            unit.unit,
            (started - from).max(0.0),
            (ready - started).max(1.0),
            ready + 4.0,
            y + 10,
        );
    }
    text.push_str("</svg>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::control::answer::{Edge, Node};
    use groundstate_units::spec::{DependencyKind, Kind};

    fn timing(unit: &str, from: u64, started: u64, ready: Option<u64>) -> Timing {
        Timing {
            unit: unit.to_string(),
            waited_from_us: from,
            started_us: started,
            ready_us: ready,
            after: None,
        }
    }

    fn timings() -> Vec<Timing> {
        vec![
            timing("db", 0, 0, Some(2_000_000)),
            timing("log", 0, 0, Some(20_000)),
            timing("web", 0, 2_000_000, Some(2_050_000)),
            timing("slow", 0, 0, None),
        ]
    }

    #[test]
    fn the_longest_start_is_blamed_first_after_those_that_are_not_ready() {
        let want = "not ready  slow\n     2.0s  db\n     50ms  web\n     20ms  log\n";
        assert_eq!(list(&timings(), &Style::PLAIN), want);
    }

    #[test]
    fn the_critical_chain_follows_what_was_ready_last() {
        let node = |unit: &str| Node {
            unit: unit.to_string(),
            kind: Kind::Oneshot,
            provides: vec![unit.to_string()],
            state: None,
            degraded: false,
            needed: true,
        };
        let edge = |from: &str, to: &str| Edge {
            from: from.into(),
            target: to.into(),
            to: Some(to.into()),
            kind: DependencyKind::DependsOn,
        };
        let graph = Graph {
            schema: 1,
            goal: vec!["web".into()],
            nodes: vec![node("db"), node("log"), node("web")],
            edges: vec![edge("web", "log"), edge("web", "db")],
        };
        let text = chain(&timings(), &graph, &["web".to_string()], &Style::PLAIN);
        assert!(text.ends_with("web  @2.0s  +50ms\n`- db  @2.0s  +2.0s\n"), "{text}");
    }

    #[test]
    fn a_picture_has_a_bar_for_every_unit() {
        let text = picture(&timings());
        assert_eq!(text.matches("fill=\"#5aa469\"").count(), 3);
        assert_eq!(text.matches("not ready").count(), 1);
    }
}
