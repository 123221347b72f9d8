//! `list-dependencies`: the tree of units that a unit pulls in, or with `--reverse` those that pull
//! it in.

use super::snapshot::{Found, Snapshot, session_of};
use super::words::Asked;
use super::{FAILED, Outcome, complain};
use crate::session;
use groundstate_units::control::answer::Graph;
use groundstate_units::control::request::Verb;
use groundstate_units::spec::DependencyKind;
use std::collections::BTreeSet;

/// Maximum depth.
const DEPTH: usize = 32;

/// `list-dependencies`.
pub(super) fn run(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    let snapshot = Snapshot::take(&session)?;
    let (graph, _) = session.ask_as::<Graph>(Verb::Graph {})?;
    let names = match asked.names.is_empty() {
        true => snapshot.status.goal.clone(),
        false => asked.names.clone(),
    };
    let mut exit = 0;
    for found in snapshot.chosen(&names) {
        match found {
            Found::Unit(unit) => {
                let mut tree =
                    Tree { snapshot: &snapshot, graph: &graph, asked, text: String::new() };
                tree.text = format!("{}\n", snapshot.shown(unit).name);
                tree.draw(&unit.unit);
                session::print(&tree.text)?;
            }
            Found::Unknown(name) => {
                complain(&format!("Unit {name} could not be found."));
                exit = FAILED;
            }
        }
    }
    Ok(exit)
}

struct Tree<'a> {
    snapshot: &'a Snapshot,
    graph: &'a Graph,
    asked: &'a Asked,
    text: String,
}

struct Branch {
    unit: String,
    stem: String,
    last: bool,
}

impl Tree<'_> {
    /// Walks depth first with an explicit stack. Expands each unit once; without `--all` and
    /// `--reverse`, it expands targets only.
    fn draw(&mut self, root: &str) {
        let mut open: BTreeSet<String> = [root.to_string()].into();
        let mut left = self.below(root, "");
        left.reverse();
        while let Some(Branch { unit, stem, last }) = left.pop() {
            let Some(status) = self.snapshot.status.units.iter().find(|one| one.unit == unit)
            else {
                continue;
            };
            let shown = self.snapshot.shown(status);
            let mark = match shown.active {
                "active" | "reloading" => "●",
                "failed" => "×",
                _ => "○",
            };
            let (fork, deeper) = if last { ("└─", "  ") } else { ("├─", "│ ") };
            match self.asked.plain {
                true => {
                    let indent = "  ".repeat(1 + stem.chars().count() / 2);
                    self.text.push_str(&format!("{indent}{}\n", shown.name));
                }
                false => self.text.push_str(&format!("{mark} {stem}{fork}{}\n", shown.name)),
            }
            let opens = self.asked.all || shown.kind() == "target" || self.asked.reverse;
            if opens && stem.chars().count() < 2 * DEPTH && open.insert(unit.clone()) {
                let mut below = self.below(&unit, &format!("{stem}{deeper}"));
                below.reverse();
                left.extend(below);
            }
        }
    }

    fn below(&self, unit: &str, stem: &str) -> Vec<Branch> {
        let follows = |kind: DependencyKind| match self.asked.after || self.asked.before {
            true => kind.orders(),
            false => kind.pulls_in(),
        };
        let mut names = BTreeSet::new();
        for edge in self.graph.edges.iter().filter(|edge| follows(edge.kind)) {
            // `before: x` is an edge from the unit that comes first.
            let turned = edge.kind == DependencyKind::Before;
            match (self.asked.reverse || self.asked.before) != turned {
                false if edge.from == unit => names.extend(edge.to.clone()),
                true if edge.to.as_deref() == Some(unit) => names.extend([edge.from.clone()]),
                _ => {}
            }
        }
        let count = names.len();
        let branch = |(at, unit)| Branch { unit, stem: stem.to_string(), last: at + 1 == count };
        names.into_iter().enumerate().map(branch).collect()
    }
}
