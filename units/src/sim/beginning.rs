//! What a machine that begins anew beside what lives may order, and what it has to know still: said once
//! more, naively. Who asks it is [`super::subject`].

use crate::generation::UnitId;
use crate::machine::Machine;
use crate::machine::action::Action;
use crate::machine::event::RunId;
use crate::machine::need::Wish;
use crate::machine::there::{Ends, There};
use crate::name::Name;
use crate::spec::DependencyKind;
use std::collections::{BTreeMap, BTreeSet};

/// The runs that these orders begin.
pub(super) fn begun(actions: &[Action]) -> impl Iterator<Item = (UnitId, RunId)> {
    actions.iter().filter_map(|action| match action {
        Action::Start { unit, run, .. } => Some((*unit, *run)),
        Action::Stop { .. }
        | Action::Kill { .. }
        | Action::ReloadUnit { .. }
        | Action::Note(_)
        | Action::Emergency
        | Action::Finish(_) => None,
    })
}

/// What of a wish is another after the machine was lost. `lives`: something did.
pub(super) fn forgotten(was: &Wish, is: &Wish, actions: &[Action], lives: bool) -> Option<String> {
    if lives && actions.contains(&Action::Emergency) {
        return Some("there is an emergency beside what lives".to_string());
    }
    let stays = |(name, until)| is.want.get(name) == Some(until);
    let goal = !lives || is.goal == was.goal;
    let is_whole = goal && is.drop == was.drop && was.want.iter().all(stays);
    (!is_whole).then(|| format!("{was:?} has become {is:?}"))
}

/// Those it has an edge to, and those that its order reaches past units that have no process: of these
/// nothing is there.
fn providers_of(machine: &Machine, of: UnitId) -> Vec<(UnitId, DependencyKind)> {
    let (generation, graph) = (machine.generation(), machine.graph());
    let edges =
        |unit| graph.edges(unit).iter().filter_map(|edge| Some((edge.provider?, edge.kind)));
    let mut found: Vec<(UnitId, DependencyKind)> = edges(of).collect();
    let (mut next, mut seen) = (0, BTreeSet::new());
    while let Some((at, kind)) = found.get(next).copied() {
        next += 1;
        let is_past = generation.unit(at).is_some_and(|unit| !unit.kind.has_process());
        if is_past && kind.orders() && seen.insert(at) {
            let past = edges(at).filter(|(_, kind)| kind.orders());
            // Of the edges behind only the order is its own.
            found.extend(past.map(|(to, _)| (to, DependencyKind::After)));
        }
    }
    found
}

/// Who restarts with what is to be stopped, and what depends on those: they hear of it as soon as that is
/// told, and may know of it from the beginning.
pub(super) fn follows_due(machine: &Machine, there: &BTreeMap<Name, There>) -> BTreeSet<UnitId> {
    let (generation, graph) = (machine.generation(), machine.graph());
    let is_due = |id: &UnitId| {
        let unit = generation.unit(*id).and_then(|unit| there.get(&unit.name));
        unit.is_some_and(|there| there.ends == Ends::Due)
    };
    let mut found: BTreeSet<UnitId> = generation.unit_ids().filter(is_due).collect();
    loop {
        let follows = |id: &UnitId| {
            graph.edges(*id).iter().any(|edge| {
                let hears =
                    matches!(edge.kind, DependencyKind::RestartWith | DependencyKind::DependsOn);
                hears && edge.provider.is_some_and(|provider| found.contains(&provider))
            })
        };
        let more: Vec<UnitId> =
            generation.unit_ids().filter(|id| !found.contains(id)).filter(follows).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Who is told to stop before it may be, or is and those that restart with it do not hear of that.
pub(super) fn out_of_turn(
    anew: &Machine,
    there: &BTreeMap<Name, There>,
    actions: &[Action],
) -> Option<String> {
    let generation = anew.generation();
    let ends = |name: &Name| there.get(name).map_or(Ends::No, |there| there.ends);
    let is_stopped = |name: &Name, run: RunId| {
        let is_it = |action: &Action| matches!(action, Action::Stop { name: of, run: of_run, .. } if of == name && *of_run == run);
        actions.iter().any(is_it)
    };
    for (id, unit) in generation.unit_ids().zip(&generation.units) {
        let waits = ends(&unit.name) != Ends::No && anew.is_up(id);
        for (of, kind) in providers_of(anew, id) {
            let Some(provider) = generation.unit(of) else { continue };
            let Some(was) = there.get(&provider.name).filter(|it| it.ends != Ends::Told) else {
                continue;
            };
            if of == id || !is_stopped(&provider.name, was.run) {
                continue;
            }
            let (name, by) = (&unit.name, &provider.name);
            if waits && kind.orders() && !provider.live.stop_promptly {
                return Some(format!("{by} is told to stop before {name} is down"));
            }
            let hears = kind == DependencyKind::RestartWith && anew.is_up(id);
            if hears && !anew.must_stop(id) {
                return Some(format!("{by} is told to stop, and {name} does not hear of it"));
            }
        }
    }
    None
}
