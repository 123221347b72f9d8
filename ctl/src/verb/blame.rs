//! `blame`, `critical-chain`, `plot`: durations of starts, and which of them the goal waited for.
//! `blame` uses the latest start of each unit; the others use the first, which a restart does not
//! change.

use crate::arguments;
use crate::exit::{Error, Exit};
use crate::session::{self, Session};
use crate::spelling;
use crate::style::{self, Style, Tone};
use groundstate_units::control::answer::{Blame, Cause, Failure, Graph, Status, Timing};
use groundstate_units::control::request::Verb;
use groundstate_units::spec::DependencyKind;
use groundstate_units::text::name::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// Maximum number of units in a picture; browsers render more only slowly.
const MAX_BARS: usize = 2_000;

/// `blame`.
pub(crate) fn blame(session: &Session) -> Result<Exit, Error> {
    let (blame, value) = session.ask_as::<Blame>(Verb::Blame {})?;
    session.show(&value, || list(&blame.units, &session.style))?;
    Ok(Exit::Done)
}

/// `critical-chain`.
pub(crate) fn critical_chain(
    session: &Session,
    asked: &arguments::TargetsOrGoal,
) -> Result<Exit, Error> {
    let (blame, value) = session.ask_as::<Blame>(Verb::Blame {})?;
    let units = at_boot(&blame.units);
    let (graph, _) = session.ask_as::<Graph>(Verb::Graph {})?;
    let roots: Vec<String> = if asked.targets.is_empty() {
        graph.goal.clone()
    } else {
        asked.targets.iter().map(Name::to_string).collect()
    };
    if let Some(unknown) =
        asked.targets.iter().find(|name| provider(&graph, name.as_str()).is_none())
    {
        let names = graph.nodes.iter().flat_map(|node| node.provides.iter().chain([&node.unit]));
        let hint = match spelling::nearest(unknown.as_str(), names.map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`initctl status --all` lists all".to_string(),
        };
        let message = format!("no target and no unit is named `{unknown}`");
        let failure = Failure::new(Failure::UNKNOWN_TARGET, message, hint);
        return Err(Error::Failed(Exit::Usage, failure));
    }
    session.show(&value, || chain(&units, &graph, &roots, &session.style))?;
    Ok(Exit::Done)
}

/// `plot`.
pub(crate) fn plot(session: &Session) -> Result<Exit, Error> {
    let (blame, value) = session.ask_as::<Blame>(Verb::Blame {})?;
    if session.json {
        session::print_json(&value)?;
    } else {
        let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
        let goal = status.units.iter().filter(|unit| {
            status.goal.iter().any(|goal| *goal == unit.unit || unit.provides.contains(goal))
        });
        let goal: Vec<&str> = goal.map(|unit| unit.unit.as_str()).collect();
        session::print(&picture(&until_the_goal(at_boot(&blame.units), &goal)))?;
    }
    Ok(Exit::Done)
}

/// Returns the first start of each unit.
fn at_boot(units: &[Timing]) -> Vec<Timing> {
    units.iter().map(|unit| unit.first.as_deref().unwrap_or(unit).clone()).collect()
}

/// Removes units that were not needed before the goal was up: a manual start hours later is not
/// part of the boot.
fn until_the_goal(mut units: Vec<Timing>, goal: &[&str]) -> Vec<Timing> {
    let of_goal = units.iter().filter(|unit| goal.contains(&unit.unit.as_str()));
    let ready: Option<Vec<u64>> = of_goal.map(|unit| unit.ready_us).collect();
    if let Some(end) = ready.and_then(|ready| ready.into_iter().max()) {
        units.retain(|unit| unit.waited_from_us <= end);
    }
    units
}

fn took(unit: &Timing) -> Option<Duration> {
    Some(Duration::from_micros(unit.ready_us?.saturating_sub(unit.started_us?)))
}

/// Returns the units that were started.
fn started(units: &[Timing]) -> impl Iterator<Item = &Timing> {
    units.iter().filter(|unit| unit.started_us.is_some())
}

/// Returns when a dependent unit could continue after `unit`; with `or_fail`, also after its
/// failure.
fn released_at(unit: &Timing, kind: DependencyKind, or_fail: bool) -> Option<u64> {
    let softly = matches!(kind, DependencyKind::WaitsFor | DependencyKind::After);
    let failed = unit.failed_us.filter(|_| softly || or_fail);
    unit.ready_us.into_iter().chain(failed).min()
}

/// Lists the longest first, after those that are not ready yet.
pub(super) fn list(units: &[Timing], style: &Style) -> String {
    let mut units: Vec<&Timing> = started(units).collect();
    units.sort_by_key(|unit| (unit.ready_us.is_some(), std::cmp::Reverse(took(unit)), &unit.unit));
    let mut text = String::new();
    for unit in units {
        let _ = match took(unit) {
            Some(took) => writeln!(text, "{:>9}  {}", style::span(took), unit.unit),
            None => {
                let word = style.paint(Tone::Warning, "not ready");
                writeln!(text, "{word}  {}", unit.unit)
            }
        };
    }
    text
}

/// Walks from each root down along the dependency that was ready, or had failed, last.
pub(super) fn chain(units: &[Timing], graph: &Graph, roots: &[String], style: &Style) -> String {
    let timing: BTreeMap<&str, &Timing> =
        units.iter().map(|unit| (unit.unit.as_str(), unit)).collect();
    let origin = units.iter().map(|unit| unit.waited_from_us).min().unwrap_or(0);
    let mut text = format!(
        "{}\n",
        style.paint(Tone::Quiet, "@ time from boot until ready or failed; + duration of the start")
    );
    for root in roots {
        let mut next = provider(graph, root).map(|unit| (unit, None));
        let mut seen = BTreeSet::new();
        let mut depth = 0;
        while let Some((unit, continued_at)) = next.filter(|(unit, _)| seen.insert(*unit)) {
            let at = timing.get(unit);
            let span = |at: u64| style::span(Duration::from_micros(at.saturating_sub(origin)));
            let ready = at.and_then(|at| at.ready_us);
            let failed = at.and_then(|at| at.failed_us);
            // A failure before a later success counts only if the dependent continued at it.
            let failed = failed.filter(|failed| continued_at == Some(*failed) || ready.is_none());
            let when = match (failed, ready) {
                (Some(at), _) => format!("@{}  {}", span(at), style.paint(Tone::Bad, "failed")),
                (None, Some(at)) => format!("@{}", span(at)),
                (None, None) => "not ready".to_string(),
            };
            let took = at.filter(|_| failed.is_none()).and_then(|at| took(at));
            let took = took.map(|took| format!("  +{}", style::span(took)));
            let lead =
                if depth == 0 { String::new() } else { format!("{}`- ", "   ".repeat(depth - 1)) };
            let _ = writeln!(text, "{lead}{unit}  {when}{}", took.unwrap_or_default());
            depth += 1;
            // A dependency that became ready only after this start (by a later restart) did not
            // delay it.
            let started = at.and_then(|at| at.started_us);
            let started = failed.or(started).unwrap_or(u64::MAX);
            let edges = graph.edges.iter();
            let ordering = edges.filter(|edge| edge.from == unit && edge.kind.orders());
            let pending = ordering.clone().filter_map(|edge| {
                let to = edge.to.as_deref().filter(|_| waits_now(graph, unit, &edge.target))?;
                Some((to, released_at(timing.get(to)?, edge.kind, false)))
            });
            // A pending dependency delays longer than all finished ones.
            let pending = pending.filter(|_| ready.is_none() && failed.is_none());
            if let Some(longest) = pending.max_by_key(|(_, until)| until.unwrap_or(u64::MAX)) {
                next = Some((longest.0, None));
                continue;
            }
            let held = ordering.filter_map(|edge| {
                let to = edge.to.as_deref()?;
                let until = released_at(timing.get(to)?, edge.kind, failed.is_some())?;
                (until <= started).then_some((to, Some(until)))
            });
            next = held.max_by_key(|(_, until)| *until);
        }
    }
    text
}

/// Returns true if a unit is waiting for this target.
fn waits_now(graph: &Graph, unit: &str, target: &str) -> bool {
    let node = graph.nodes.iter().find(|node| node.unit == unit);
    match node.and_then(|node| node.reason.as_ref()).map(|reason| &reason.cause) {
        Some(Cause::On { targets }) => targets.iter().any(|on| on == target),
        Some(_) | None => false,
    }
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

/// Draws a bar per unit: grey while waiting, coloured while starting.
fn picture(units: &[Timing]) -> String {
    let origin = units.iter().map(|unit| unit.waited_from_us).min().unwrap_or(0);
    let last = |unit: &Timing| unit.ready_us.max(unit.failed_us).max(unit.started_us);
    let end = units.iter().filter_map(last).max().unwrap_or(0);
    let mut units: Vec<(u64, &Timing)> =
        units.iter().filter_map(|unit| Some((unit.started_us?, unit))).collect();
    units.sort_by_key(|(started, unit)| (*started, &unit.unit));
    units.truncate(MAX_BARS);
    let whole = end.saturating_sub(origin).max(1);
    let x = |at: u64| 200.0 + 800.0 * at.saturating_sub(origin) as f64 / whole as f64;
    let height = 40 + 18 * units.len();
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1160\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <text x=\"200\" y=\"20\">{} until the last start was done</text>\n",
        style::span(Duration::from_micros(whole))
    );
    for (at, (started, unit)) in units.iter().enumerate() {
        let y = 32 + 18 * at;
        let (from, started) = (x(unit.waited_from_us), x(*started));
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
    use groundstate_units::control::answer::{Edge, Node, Reason};
    use groundstate_units::spec::Kind;

    fn timing(unit: &str, from: u64, started: u64, ready: Option<u64>) -> Timing {
        Timing {
            unit: unit.to_string(),
            waited_from_us: from,
            started_us: Some(started),
            ready_us: ready,
            failed_us: None,
            after: None,
            restarts: 0,
            first: None,
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
    fn blame_lists_unready_units_first_then_the_longest_start() {
        let want = "not ready  slow\n     2.0s  db\n     50ms  web\n     20ms  log\n";
        assert_eq!(list(&timings(), &Style::PLAIN), want);
    }

    fn node(unit: &str) -> Node {
        Node {
            unit: unit.to_string(),
            kind: Kind::Oneshot,
            provides: vec![unit.to_string()],
            state: None,
            degraded: false,
            needed: true,
            reason: None,
        }
    }

    fn edge(from: &str, kind: DependencyKind, to: &str) -> Edge {
        let to = to.to_string();
        Edge { from: from.into(), target: to.clone(), to: Some(to), kind, optional: false }
    }

    #[test]
    fn critical_chain_follows_the_dependency_that_was_ready_last() {
        let hard = DependencyKind::DependsOn;
        let graph = Graph {
            schema: 1,
            goal: vec!["web".into()],
            nodes: vec![node("db"), node("log"), node("web")],
            edges: vec![edge("web", hard, "log"), edge("web", hard, "db")],
        };
        let text = chain(&timings(), &graph, &["web".to_string()], &Style::PLAIN);
        assert!(text.ends_with("web  @2.0s  +50ms\n`- db  @2.0s  +2.0s\n"), "{text}");
    }

    #[test]
    fn critical_chain_follows_the_dependency_that_failed_last() {
        let graph = Graph {
            schema: 1,
            goal: vec!["all".into()],
            nodes: vec![node("all"), node("db"), node("log"), node("web")],
            edges: vec![
                edge("all", DependencyKind::WaitsFor, "web"),
                edge("all", DependencyKind::WaitsFor, "log"),
                edge("web", DependencyKind::DependsOn, "db"),
            ],
        };
        // db failed at 3 s and was ready at 9 s; web never got as far as a start until then.
        let mut db = timing("db", 0, 8_000_000, Some(9_000_000));
        db.failed_us = Some(3_000_000);
        let mut web = timing("web", 0, 0, None);
        (web.started_us, web.failed_us) = (None, Some(3_000_000));
        let all = timing("all", 0, 3_000_000, Some(3_000_000));
        let units = [all, db, timing("log", 0, 0, Some(20_000)), web];
        let text = chain(&units, &graph, &["all".to_string()], &Style::PLAIN);
        let want = "all  @3.0s  +0ms\n`- web  @3.0s  failed\n   `- db  @3.0s  failed\n";
        assert!(text.ends_with(want), "{text}");
        assert!(!list(&units, &Style::PLAIN).contains("web"), "it was never started");
    }

    #[test]
    fn critical_chain_of_a_waiting_unit_leads_to_its_pending_dependency() {
        let on = |targets: &[&str]| {
            let targets = targets.iter().map(|target| (*target).to_string()).collect();
            Some(Reason { text: String::new(), cause: Cause::On { targets } })
        };
        let soft = DependencyKind::WaitsFor;
        let mut graph = Graph {
            schema: 1,
            goal: vec!["all".into()],
            nodes: vec![node("all"), node("crash"), node("slow")],
            edges: vec![edge("all", soft, "slow"), edge("all", soft, "crash")],
        };
        let mut all = timing("all", 0, 0, None);
        all.started_us = None;
        let mut crash = timing("crash", 0, 3_000_000, None);
        crash.failed_us = Some(3_010_000);
        let units = [all, crash, timing("slow", 0, 0, None)];
        for waits in [&["crash", "slow"][..], &["slow"]] {
            graph.nodes[0].reason = on(waits);
            let text = chain(&units, &graph, &["all".to_string()], &Style::PLAIN);
            assert!(text.ends_with("all  not ready\n`- slow  not ready\n"), "{text}");
        }
    }

    #[test]
    fn critical_chain_and_plot_ignore_restarts_and_late_starts() {
        let hard = DependencyKind::DependsOn;
        let graph = Graph {
            schema: 1,
            goal: vec!["web".into()],
            nodes: vec![node("db"), node("web")],
            edges: vec![edge("web", hard, "db")],
        };
        let mut db = timing("db", 3_600_000_000, 3_600_000_000, Some(3_600_900_000));
        db.first = Some(Box::new(timing("db", 0, 0, Some(2_000_000))));
        let late = timing("late", 3_700_000_000, 3_700_000_000, Some(3_700_000_001));
        let units = at_boot(&[db, timing("web", 0, 2_000_000, Some(2_050_000)), late]);
        let text = chain(&units, &graph, &["web".to_string()], &Style::PLAIN);
        assert!(text.ends_with("web  @2.0s  +50ms\n`- db  @2.0s  +2.0s\n"), "{text}");
        let drawn = picture(&until_the_goal(units, &["web"]));
        assert!(drawn.contains(">2.0s until the last start was done<"), "{drawn}");
        assert!(!drawn.contains(">late<"), "{drawn}");
    }

    #[test]
    fn plot_has_a_bar_for_every_unit() {
        let text = picture(&timings());
        assert_eq!(text.matches("fill=\"#5aa469\"").count(), 3);
        assert_eq!(text.matches("not ready").count(), 1);
    }
}
