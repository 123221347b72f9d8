//! `tree`: dependencies from the goal or the given targets down, or in reverse up to dependents.
//! Each unit's branch is drawn once.

use crate::arguments;
use crate::exit::{Error, Exit};
use crate::session::Session;
use crate::style::{self, Style, Tone};
use groundstate_units::control::answer::{Edge, Graph, Node};
use groundstate_units::control::request::Verb;
use groundstate_units::text::name::Name;
use std::collections::{BTreeMap, BTreeSet};

/// Asks init and prints the tree.
pub(crate) fn run(session: &Session, asked: &arguments::Tree) -> Result<Exit, Error> {
    let (graph, value) = session.ask_as::<Graph>(Verb::Graph {})?;
    let roots: Vec<String> = if asked.targets.is_empty() {
        graph.goal.clone()
    } else {
        asked.targets.iter().map(Name::to_string).collect()
    };
    let known = Index::new(&graph);
    if let Some(unknown) = asked.targets.iter().find(|name| known.unit(name.as_str()).is_none()) {
        let hint = "`initctl status --all` lists all";
        return Err(Error::usage(format!("no unit provides `{unknown}`"), hint));
    }
    session.show(&value, || render(&graph, &roots, asked.reverse, &session.style))?;
    Ok(Exit::Done)
}

struct Index<'a> {
    nodes: BTreeMap<&'a str, &'a Node>,
    providers: BTreeMap<&'a str, &'a str>,
}

impl<'a> Index<'a> {
    fn new(graph: &'a Graph) -> Index<'a> {
        let mut providers = BTreeMap::new();
        for node in &graph.nodes {
            for target in &node.provides {
                providers.entry(target.as_str()).or_insert(node.unit.as_str());
            }
        }
        // A provider chosen by init comes before one that merely claims the target.
        for edge in &graph.edges {
            if let Some(unit) = &edge.to {
                providers.insert(&edge.target, unit);
            }
        }
        let nodes = graph.nodes.iter().map(|node| (node.unit.as_str(), node)).collect();
        Index { nodes, providers }
    }

    /// Returns the unit of a target's or a unit's name.
    fn unit(&self, name: &str) -> Option<&'a str> {
        let provider = self.providers.get(name).copied();
        provider.or_else(|| self.nodes.get(name).map(|node| node.unit.as_str()))
    }
}

/// A line of the tree that is still to be drawn.
struct Branch<'a> {
    name: &'a str,
    kind: Option<&'static str>,
    lead: String,
    last: bool,
}

/// Draws the tree with an explicit stack, because a chain of units may be long.
pub(crate) fn render(graph: &Graph, roots: &[String], reverse: bool, style: &Style) -> String {
    let index = Index::new(graph);
    let mut below: BTreeMap<&str, Vec<&Edge>> = BTreeMap::new();
    let names: BTreeSet<(&str, &str)> =
        graph.edges.iter().map(|edge| (edge.from.as_str(), edge.target.as_str())).collect();
    // `web` duplicates `web.service`.
    let is_short = |edge: &&Edge| {
        let long =
            |suffix| names.contains(&(&edge.from, format!("{}.{suffix}", edge.target).as_str()));
        long("service") || long("target")
    };
    // A missing optional dependency is not shown.
    let shown = |edge: &&Edge| edge.kind.pulls_in() && !(edge.optional && edge.to.is_none());
    for edge in graph.edges.iter().filter(shown).filter(|edge| !is_short(edge)) {
        let key = if reverse { edge.to.as_deref() } else { Some(edge.from.as_str()) };
        if let Some(key) = key {
            below.entry(key).or_default().push(edge);
        }
    }
    let mut text = String::new();
    let mut drawn = BTreeSet::new();
    let mut open: Vec<Branch<'_>> = roots
        .iter()
        .rev()
        .map(|name| Branch { name, kind: None, lead: String::new(), last: true })
        .collect();
    while let Some(branch) = open.pop() {
        let unit = index.unit(branch.name);
        let root = branch.kind.is_none();
        let edges: &[&Edge] =
            unit.and_then(|unit| below.get(unit)).map(Vec::as_slice).unwrap_or_default();
        let is_repeated = unit.is_some_and(|unit| !drawn.insert(unit)) && !edges.is_empty();
        let elbow = match (root, branch.last) {
            (true, _) => "",
            (false, true) => "`- ",
            (false, false) => "|- ",
        };
        text.push_str(&format!("{}{elbow}{}", branch.lead, line(&branch, unit, &index, style)));
        text.push_str(if is_repeated { "  (above)\n" } else { "\n" });
        if is_repeated {
            continue;
        }
        let lead = match (root, branch.last) {
            (true, _) => String::new(),
            (false, true) => format!("{}   ", branch.lead),
            (false, false) => format!("{}|  ", branch.lead),
        };
        for (at, edge) in edges.iter().enumerate().rev() {
            let name = if reverse { edge.from.as_str() } else { edge.target.as_str() };
            open.push(Branch {
                name,
                kind: Some(edge.kind.as_str()),
                lead: lead.clone(),
                last: at + 1 == edges.len(),
            });
        }
    }
    text
}

fn line(branch: &Branch<'_>, unit: Option<&str>, index: &Index<'_>, style: &Style) -> String {
    let node = unit.and_then(|unit| index.nodes.get(unit));
    let name = match unit.filter(|unit| *unit != branch.name) {
        Some(unit) => format!("{} ({unit})", branch.name),
        None => branch.name.to_string(),
    };
    let mut text = match node.and_then(|node| Some((node, node.state?))) {
        Some((node, state)) => {
            let tone = style::tone(state, node.degraded);
            let glyph = style.paint(tone, &style::glyph(state, node.degraded).to_string());
            let word = style::word(state, node.degraded, node.reason.as_ref());
            format!("{glyph} {name}  {}", style.paint(tone, &word))
        }
        None if unit.is_none() => {
            format!("x {}  {}", branch.name, style.paint(Tone::Bad, "no unit provides it"))
        }
        None => name,
    };
    if let Some(kind) = branch.kind {
        text.push_str("  ");
        text.push_str(&style.paint(Tone::Quiet, kind));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::control::answer::{Cause, Reason};
    use groundstate_units::machine::reason::State;
    use groundstate_units::spec::{DependencyKind, Kind};

    fn node(unit: &str, state: State) -> Node {
        Node {
            unit: unit.to_string(),
            kind: Kind::Virtual,
            provides: vec![unit.to_string()],
            state: Some(state),
            degraded: false,
            needed: true,
            reason: None,
        }
    }

    fn edge(from: &str, to: &str, kind: DependencyKind) -> Edge {
        let to = to.to_string();
        Edge { from: from.into(), target: to.clone(), to: Some(to), kind, optional: false }
    }

    fn graph() -> Graph {
        Graph {
            schema: 1,
            goal: vec!["all".to_string()],
            nodes: vec![
                node("all", State::Running),
                node("db", State::Running),
                node("net", State::Failed),
                node("web", State::Waiting),
            ],
            edges: vec![
                edge("all", "web", DependencyKind::WaitsFor),
                edge("all", "db", DependencyKind::Wants),
                edge("db", "net", DependencyKind::DependsMs),
                edge("web", "db", DependencyKind::DependsOn),
                edge("web", "net", DependencyKind::After),
            ],
        }
    }

    #[test]
    fn tree_draws_each_branch_once_without_ordering_edges() {
        let want = "+ all  running\n\
                    |- . web  waiting  waits-for\n\
                    |  `- + db  running  depends-on\n\
                    |     `- x net  failed  depends-ms\n\
                    `- + db  running  wants  (above)\n";
        assert_eq!(render(&graph(), &["all".to_string()], false, &Style::PLAIN), want);
    }

    #[test]
    fn reversed_tree_leads_up_to_the_goal() {
        let text = render(&graph(), &["net".to_string()], true, &Style::PLAIN);
        assert!(text.starts_with("x net  failed\n`- + db  running  depends-ms\n"), "{text}");
        assert!(text.contains("all  running"), "{text}");
    }

    #[test]
    fn tree_distinguishes_a_failed_dependency_from_an_own_failure() {
        let mut graph = graph();
        let web = graph.nodes.iter_mut().find(|node| node.unit == "web").expect("web");
        web.state = Some(State::Failed);
        let cause = Cause::Dependency { target: "net".to_string(), unit: "net".to_string() };
        web.reason = Some(Reason { text: "net is failed".to_string(), cause });
        let text = render(&graph, &["all".to_string()], false, &Style::PLAIN);
        assert!(text.contains("x web  failed (dependency)  waits-for\n"), "{text}");
        assert!(text.contains("x net  failed  depends-ms\n"), "{text}");
    }

    #[test]
    fn tree_hides_missing_optional_targets_and_duplicate_names() {
        let mut graph = graph();
        graph.nodes.push(node("side.service", State::Running));
        let to = Some("side.service".to_string());
        for target in ["side", "side.service"] {
            let wanted = edge("all", target, DependencyKind::WaitsFor);
            graph.edges.push(Edge { to: to.clone(), optional: true, ..wanted });
        }
        let gone = edge("all", "sysinit.target", DependencyKind::DependsMs);
        graph.edges.push(Edge { to: None, optional: true, ..gone });
        let text = render(&graph, &["all".to_string()], false, &Style::PLAIN);
        assert_eq!(text.matches("side").count(), 1, "{text}");
        assert!(!text.contains("sysinit"), "{text}");
    }

    #[test]
    fn tree_of_a_ring_of_wants_terminates() {
        let mut graph = graph();
        graph.edges.push(edge("net", "all", DependencyKind::Wants));
        assert_eq!(render(&graph, &["all".to_string()], false, &Style::PLAIN).lines().count(), 6);
    }
}
