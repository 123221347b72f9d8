//! `graph`: all dependencies, also those that only order units, for Graphviz or Mermaid. With
//! `--units DIR` no init is asked.

use crate::arguments;
use crate::exit::{Error, Exit};
use crate::session::{self, Session};
use crate::verb::check;
use groundstate_units::control::answer::{Edge, Graph, Node};
use groundstate_units::control::request::Verb;
use groundstate_units::machine::reason::State;
use groundstate_units::spec::DependencyKind;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Asks init and prints the graph.
pub(crate) fn run(session: &Session, asked: &arguments::Graph) -> Result<Exit, Error> {
    let (graph, value) = match &asked.units {
        Some(dir) => {
            let graph = check::graph_of(session, dir)?;
            let value = serde_json::value::to_raw_value(&graph)
                .map_err(|error| Error::local(error.to_string(), ""))?;
            (graph, value)
        }
        None => session.ask_as::<Graph>(Verb::Graph {})?,
    };
    if session.json {
        session::print_json(&value)?;
        return Ok(Exit::Done);
    }
    let graph = without_idle_connections(graph);
    if asked.mermaid {
        session::print(&mermaid(&graph))?;
    } else {
        session::print(&dot(&graph))?;
    }
    Ok(Exit::Done)
}

/// Leaves out the idle instances for connections of a socket but the first: they are alike.
fn without_idle_connections(mut graph: Graph) -> Graph {
    let is_idle = |node: &Node| matches!(node.state, None | Some(State::Disabled));
    let idle: BTreeSet<&str> =
        graph.nodes.iter().filter(|node| is_idle(node)).map(|node| node.unit.as_str()).collect();
    let mut sockets = BTreeSet::new();
    let is_alike = |edge: &&Edge| {
        let instance = edge.to.as_deref().filter(|to| idle.contains(to));
        edge.kind == DependencyKind::Accepts
            && instance.is_some()
            && !sockets.insert(edge.from.clone())
    };
    let alike: BTreeSet<String> =
        graph.edges.iter().filter(is_alike).filter_map(|edge| edge.to.clone()).collect();
    graph.nodes.retain(|node| !alike.contains(&node.unit));
    let is_left = |name: &String| !alike.contains(name);
    graph.edges.retain(|edge| is_left(&edge.from) && edge.to.as_ref().is_none_or(is_left));
    graph
}

/// Returns a fill colour for a state, light enough for black text.
fn fill(node: &Node) -> &'static str {
    match node.state {
        None => "#ffffff",
        Some(State::Failed) => "#f4a6a0",
        Some(State::Running | State::Exited) if node.degraded => "#f7dc8d",
        Some(State::Running | State::Exited) => "#b7dfb0",
        Some(State::Disabled) => "#e4e4e4",
        Some(State::Waiting | State::Starting | State::Stopping | State::Reloading) => "#b5d9ea",
    }
}

/// Solid lines bind, dashed ones are soft, dotted ones are ordering or other relations.
fn line(kind: DependencyKind) -> &'static str {
    match kind {
        DependencyKind::DependsOn | DependencyKind::DependsMs => "solid",
        DependencyKind::WaitsFor | DependencyKind::Wants => "dashed",
        DependencyKind::After
        | DependencyKind::Before
        | DependencyKind::RestartWith
        | DependencyKind::RequiresActive
        | DependencyKind::ReloadWith
        | DependencyKind::OnFailure
        | DependencyKind::OnSuccess
        | DependencyKind::Accepts
        | DependencyKind::Conflicts => "dotted",
    }
}

fn dot(graph: &Graph) -> String {
    let mut text = String::from(
        "digraph groundstate {\n  rankdir=LR;\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n",
    );
    for node in &graph.nodes {
        let state = node.state.map(State::word).unwrap_or("");
        let _ = writeln!(
            text,
            "  \"{}\" [fillcolor=\"{}\", tooltip=\"{} {state}\"];",
            node.unit,
            fill(node),
            node.kind.as_str()
        );
    }
    for edge in &graph.edges {
        let to = edge.to.as_deref().unwrap_or(&edge.target);
        let missing = if edge.to.is_none() { ", color=red" } else { "" };
        let _ = writeln!(
            text,
            "  \"{}\" -> \"{to}\" [style={}, label=\"{}\"{missing}];",
            edge.from,
            line(edge.kind),
            edge.kind.as_str()
        );
    }
    text.push_str("}\n");
    text
}

fn mermaid(graph: &Graph) -> String {
    let mut text = String::from("graph LR\n");
    // Mermaid's keywords may not be ids, so units get numbers.
    let id = |name: &str| graph.nodes.iter().position(|node| node.unit == name);
    for (at, node) in graph.nodes.iter().enumerate() {
        let _ = writeln!(text, "  u{at}[\"{}\"]", node.unit);
        let _ = writeln!(text, "  style u{at} fill:{}", fill(node));
    }
    for (at, edge) in graph.edges.iter().enumerate() {
        let Some(from) = id(&edge.from) else { continue };
        let kind = edge.kind.as_str();
        let arrow = match line(edge.kind) {
            "solid" => format!("-->|{kind}|"),
            _ => format!("-.->|{kind}|"),
        };
        let _ = match edge.to.as_deref().and_then(id) {
            Some(to) => writeln!(text, "  u{from} {arrow} u{to}"),
            None => writeln!(text, "  u{from} {arrow} m{at}[\"{} (no unit)\"]", edge.target),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::spec::Kind;

    fn graph() -> Graph {
        let node = |unit: &str, state| Node {
            unit: unit.to_string(),
            kind: Kind::Oneshot,
            provides: vec![unit.to_string()],
            state,
            degraded: false,
            needed: true,
            reason: None,
        };
        Graph {
            schema: 1,
            goal: vec![],
            nodes: vec![node("end", Some(State::Failed)), node("web", None)],
            edges: vec![
                Edge {
                    from: "web".into(),
                    target: "end".into(),
                    to: Some("end".into()),
                    kind: DependencyKind::DependsOn,
                    optional: false,
                },
                Edge {
                    from: "web".into(),
                    target: "gone".into(),
                    to: None,
                    kind: DependencyKind::After,
                    optional: false,
                },
            ],
        }
    }

    #[test]
    fn dot_output_has_every_node_and_edge() {
        let text = dot(&graph());
        assert!(
            text.contains(r##""end" [fillcolor="#f4a6a0", tooltip="oneshot failed"];"##),
            "{text}"
        );
        assert!(text.contains(r#""web" -> "end" [style=solid, label="depends-on"];"#), "{text}");
        assert!(text.contains(r#""web" -> "gone" [style=dotted, label="after", color=red];"#));
    }

    #[test]
    fn idle_instances_of_a_socket_are_left_out_but_the_first() {
        let mut whole = graph();
        let states = [State::Disabled, State::Running, State::Disabled, State::Disabled];
        for (at, state) in states.into_iter().enumerate() {
            let name = format!("echo@{at}");
            let mut node = whole.nodes.first().unwrap().clone();
            (node.unit, node.state) = (name.clone(), Some(state));
            whole.nodes.push(node);
            let mut edge = whole.edges.first().unwrap().clone();
            (edge.from, edge.to) = ("echo".to_string(), Some(name));
            edge.kind = DependencyKind::Accepts;
            whole.edges.push(edge);
        }
        let left = without_idle_connections(whole);
        let names: Vec<&str> = left.nodes.iter().map(|node| node.unit.as_str()).collect();
        assert_eq!(names, ["end", "web", "echo@0", "echo@1"]);
        assert_eq!(left.edges.len(), 4);
    }

    #[test]
    fn mermaid_output_uses_ids_that_are_no_keywords() {
        let text = mermaid(&graph());
        assert!(text.contains("u0[\"end\"]") && text.contains("u1 -->|depends-on| u0"), "{text}");
        assert!(text.contains("u1 -.->|after| m1[\"gone (no unit)\"]"), "{text}");
    }
}
