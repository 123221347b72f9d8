//! Effects of a start on other units, as in systemd: needed units start too, even if they were
//! stopped, and conflicting units are stopped.

use super::overlay::{report_left_out, set_overlay};
use super::wait::names;
use super::words::Asked;
use crate::exit::Error;
use crate::session::Session;
use groundstate_units::control::answer::{Graph, Status};
use groundstate_units::control::request::Verb;
use groundstate_units::spec::DependencyKind;
use groundstate_units::text::name::Name;
use std::collections::BTreeSet;

/// Returns the drops of the overlay that exclude the unit, or one that it pulls in.
pub(super) fn blocking_drops(
    session: &Session,
    now: &Status,
    unit: &str,
) -> Result<Vec<String>, Error> {
    if now.overlay.drop.is_empty() {
        return Ok(Vec::new());
    }
    let (graph, _) = session.ask_as::<Graph>(Verb::Graph {})?;
    let edges = Edges { graph: &graph, now };
    let pulled = edges.below(unit, DependencyKind::pulls_in);
    let is_needed = |drop: &&String| pulled.contains(edges.unit_of(drop));
    Ok(now.overlay.drop.iter().filter(is_needed).cloned().collect())
}

/// Makes the unit wanted and drops the units that it, or a unit that it pulls in, conflicts with.
/// It is one request, so that nothing stops if the start is refused. Returns false if there are no
/// conflicts.
pub(super) fn replace_rivals(
    session: &Session,
    asked: &Asked,
    now: &Status,
    name: &Name,
) -> Result<bool, Error> {
    let (graph, _) = session.ask_as::<Graph>(Verb::Graph {})?;
    if !graph.edges.iter().any(|edge| edge.kind == DependencyKind::Conflicts) {
        return Ok(false);
    }
    let edges = Edges { graph: &graph, now };
    let is_needed = |unit: &&str| now.units.iter().any(|one| one.unit == **unit && one.needed);
    let rivals: BTreeSet<&str> =
        edges.rivals(name.as_str()).into_iter().filter(is_needed).collect();
    if rivals.is_empty() {
        return Ok(false);
    }
    // A wanted unit that needs a rival is no longer wanted.
    let goes = |want: &str| {
        let below = edges.below(want, |kind| {
            matches!(kind, DependencyKind::DependsMs | DependencyKind::DependsOn)
        });
        below.iter().any(|unit| rivals.contains(unit))
    };
    let mut want: Vec<Name> = names(&now.overlay.want);
    want.retain(|want| !goes(edges.unit_of(want.as_str())));
    want.push(name.clone());
    let mut drop: Vec<Name> = names(&now.overlay.drop);
    drop.extend(rivals.iter().filter_map(|rival| Name::new(rival).ok()));
    set_overlay(session, now, want, drop)?;
    for rival in rivals {
        report_left_out(asked, rival);
    }
    Ok(true)
}

/// Returns the units that stop with this one, as in systemd for PartOf=, Requires=, Requisite=,
/// BindsTo= and StopPropagatedFrom=. Leaves out units without a process, such as targets, and units
/// that are not needed.
pub(super) fn followers(session: &Session, now: &Status, unit: &str) -> Result<Vec<Name>, Error> {
    let (graph, _) = session.ask_as::<Graph>(Verb::Graph {})?;
    let edges = Edges { graph: &graph, now };
    let runs = |name: &str| {
        let mut units = now.units.iter().filter(|one| one.kind.has_process() && one.needed);
        units.any(|one| one.unit == name)
    };
    let mut found = BTreeSet::from([unit]);
    let mut left = vec![unit];
    while let Some(stopped) = left.pop() {
        let follows =
            |kind| matches!(kind, DependencyKind::RestartWith | DependencyKind::DependsOn);
        for edge in graph.edges.iter().filter(|edge| follows(edge.kind)) {
            let to = edge.to.as_deref().unwrap_or_else(|| edges.unit_of(&edge.target));
            if to == stopped && runs(&edge.from) && found.insert(&edge.from) {
                left.push(&edge.from);
            }
        }
    }
    found.remove(unit);
    Ok(found.into_iter().filter_map(|name| Name::new(name).ok()).collect())
}

/// The graph, including the providers of dropped names.
struct Edges<'a> {
    graph: &'a Graph,
    now: &'a Status,
}

impl<'a> Edges<'a> {
    /// Returns the unit that provides a name, or that would provide it if it were not dropped.
    fn unit_of(&self, name: &'a str) -> &'a str {
        let provides = |unit: &&groundstate_units::control::answer::UnitStatus| {
            unit.provides.iter().any(|target| target == name)
        };
        self.now.units.iter().find(provides).map_or(name, |unit| unit.unit.as_str())
    }

    /// Returns a unit and those that it pulls in by these dependencies.
    fn below(&self, unit: &'a str, kind: impl Fn(DependencyKind) -> bool) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::from([unit]);
        let mut left = vec![unit];
        while let Some(unit) = left.pop() {
            for edge in self.graph.edges.iter().filter(|edge| edge.from == unit && kind(edge.kind))
            {
                let to = edge.to.as_deref().unwrap_or_else(|| self.unit_of(&edge.target));
                if found.insert(to) {
                    left.push(to);
                }
            }
        }
        found
    }

    /// Returns the units that conflict with a unit, or with one that it pulls in.
    fn rivals(&self, unit: &'a str) -> BTreeSet<&'a str> {
        let pulled = self.below(unit, DependencyKind::pulls_in);
        let edges = self.graph.edges.iter();
        let conflicts = edges.filter(|edge| edge.kind == DependencyKind::Conflicts);
        conflicts
            .filter_map(|edge| {
                let from = edge.from.as_str();
                let to = edge.to.as_deref().unwrap_or_else(|| self.unit_of(&edge.target));
                match (pulled.contains(from), pulled.contains(to)) {
                    (true, false) => Some(to),
                    (false, true) => Some(from),
                    (true, true) | (false, false) => None,
                }
            })
            .collect()
    }
}
