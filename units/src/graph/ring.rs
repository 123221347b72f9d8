//! Rings over the ordering edges: found without recursion, shown whole, opened
//! where only an imported order stands in the way. What is left is broken.

use super::edge::{Link, Rows};
use super::{Broken, Edge, Fault};
use crate::diagnostic::Diagnostic;
use crate::generation::{Generation, UnitId};
use crate::limit;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::{BTreeMap, VecDeque};

/// One ordering link as rings see it: to which unit, and which link it was.
type Step = (UnitId, u32);

/// Drops imported order-only links, last by file name and line first, until no ring is left;
/// units on the rings that remain are broken.
pub(super) fn break_rings(
    generation: &Generation,
    links: &mut Vec<Link>,
    broken: &mut BTreeMap<UnitId, Broken>,
    faults: &mut Vec<Fault>,
) {
    let count = generation.units.len();
    let mut dropped = vec![false; links.len()];
    loop {
        let steps = steps(count, links, broken, &dropped);
        let component = components(count, &steps);
        let worst = last_droppable(generation, links, &dropped, &component);
        for index in worst.values() {
            if let (Some(link), Some(flag)) = (links.get(*index), dropped.get_mut(*index)) {
                *flag = true;
                faults.push(opened(generation, link));
            }
        }
        if worst.is_empty() {
            report(generation, links, &steps, &component, broken, faults);
            break;
        }
    }
    let mut flags = dropped.into_iter();
    links.retain(|_| !flags.next().unwrap_or(false));
}

/// The ordering links between usable units, by dependent.
fn steps(
    count: usize,
    links: &[Link],
    broken: &BTreeMap<UnitId, Broken>,
    dropped: &[bool],
) -> Rows<Step> {
    let usable = |id: &UnitId| !broken.contains_key(id);
    let items: Vec<(UnitId, Step)> = (0u32..)
        .zip(links)
        .zip(dropped)
        .filter(|((_, link), dropped)| !**dropped && link.kind.orders() && usable(&link.from))
        .filter_map(|((index, link), _)| {
            let provider = link.provider.filter(usable)?;
            Some((link.from, (provider, index)))
        })
        .collect();
    Rows::new(count, &items, |item| *item)
}

/// For each unit the number of its ring component, in order of their first units, or 0 when it is on no ring.
fn components(count: usize, steps: &Rows<Step>) -> Vec<u32> {
    let ids = || (0..u32::try_from(count).unwrap_or(u32::MAX)).map(UnitId);
    let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(count, 0);
    // There are fewer of them than it has indices.
    ids().for_each(|_| _ = graph.try_add_node(()));
    for unit in ids() {
        for (next, _) in steps.row(unit) {
            let _ =
                graph.try_add_edge(NodeIndex::new(unit.index()), NodeIndex::new(next.index()), ());
        }
    }
    let to_itself = |unit: UnitId| steps.row(unit).iter().any(|(next, _)| *next == unit);
    let unit = |node: NodeIndex| u32::try_from(node.index()).ok().map(UnitId);
    let mut rings: Vec<Vec<UnitId>> = kosaraju_scc(&graph)
        .into_iter()
        .map(|ring| ring.into_iter().filter_map(unit).collect())
        .filter(|ring: &Vec<UnitId>| match ring.as_slice() {
            [one] => to_itself(*one),
            _ => true,
        })
        .collect();
    rings.sort_by_key(|ring| ring.iter().min().copied());
    let mut component = vec![0; count];
    for (number, ring) in (1..).zip(rings) {
        ring.into_iter().for_each(|unit| put(&mut component, unit, number));
    }
    component
}

fn at<T: Copy + Default>(values: &[T], unit: UnitId) -> T {
    values.get(unit.index()).copied().unwrap_or_default()
}

fn put<T>(values: &mut [T], unit: UnitId, value: T) {
    if let Some(slot) = values.get_mut(unit.index()) {
        *slot = value;
    }
}

/// Of each component the droppable link that comes last by file name and line.
fn last_droppable(
    generation: &Generation,
    links: &[Link],
    dropped: &[bool],
    component: &[u32],
) -> BTreeMap<u32, usize> {
    let key = |index: usize| {
        let link = links.get(index)?;
        let file = &generation.unit(link.by)?.at.file;
        Some((file.clone(), link.line, index))
    };
    let mut worst: BTreeMap<u32, usize> = BTreeMap::new();
    for (index, link) in links.iter().enumerate() {
        let ring = at(component, link.from);
        let inside = ring != 0 && link.provider.is_some_and(|p| at(component, p) == ring);
        if !link.droppable || !inside || dropped.get(index) == Some(&true) {
            continue;
        }
        let best = worst.entry(ring).or_insert(index);
        if key(index) > key(*best) {
            *best = index;
        }
    }
    worst
}

fn opened(generation: &Generation, link: &Link) -> Fault {
    let name = |id: UnitId| generation.unit(id).map_or("", |unit| unit.name.as_str());
    let provider = link.provider.map_or("", name);
    let message =
        format!("the order \"{} after {provider}\" is dropped to open a ring", name(link.from));
    let diagnostic = Diagnostic::warning("ring-opened", link.place(generation), message);
    Fault { units: vec![link.from], diagnostic }
}

/// Breaks every unit on a ring; shows disjoint rings, one diagnostic each.
fn report(
    generation: &Generation,
    links: &[Link],
    steps: &Rows<Step>,
    component: &[u32],
    broken: &mut BTreeMap<UnitId, Broken>,
    faults: &mut Vec<Fault>,
) {
    let mut shown: BTreeMap<u32, (Broken, usize)> = BTreeMap::new();
    let mut used = vec![false; component.len()];
    for unit in generation.unit_ids() {
        let ring = at(component, unit);
        let tries = shown.get(&ring).map_or(0, |(_, tries)| *tries);
        if ring == 0 || at(&used, unit) || tries >= limit::RINGS {
            continue;
        }
        let path = shortest_ring(steps, component, &used, unit);
        if path.is_empty() {
            if let Some((_, tries)) = shown.get_mut(&ring) {
                *tries += 1;
            }
            continue;
        }
        for (member, _) in &path {
            put(&mut used, *member, true);
        }
        let fault = said(generation, links, &path);
        let first = Broken {
            at: fault.diagnostic.at.clone(),
            message: fault.diagnostic.message.clone(),
            claims: None,
        };
        shown.entry(ring).or_insert((first, 0)).1 += 1;
        faults.push(fault);
    }
    for unit in generation.unit_ids() {
        if let Some((reason, _)) = shown.get(&at(component, unit)) {
            broken.insert(unit, reason.clone());
        }
    }
}

/// The shortest way from a unit back to itself within its component past no used unit: each
/// member with the link that leads on. Empty when there is none.
fn shortest_ring(
    steps: &Rows<Step>,
    component: &[u32],
    used: &[bool],
    start: UnitId,
) -> Vec<(UnitId, u32)> {
    let mut came: BTreeMap<UnitId, (UnitId, u32)> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(unit) = queue.pop_front() {
        for (next, link) in steps.row(unit) {
            if *next == start {
                let mut path = vec![(unit, *link)];
                let mut here = unit;
                while let Some((previous, link)) = came.get(&here).filter(|_| here != start) {
                    path.push((*previous, *link));
                    here = *previous;
                }
                path.reverse();
                return path;
            }
            let inside = at(component, *next) == at(component, start) && !at(used, *next);
            if inside && !came.contains_key(next) {
                came.insert(*next, (unit, *link));
                queue.push_back(*next);
            }
        }
    }
    Vec::new()
}

fn said(generation: &Generation, links: &[Link], path: &[(UnitId, u32)]) -> Fault {
    let name = |id: UnitId| generation.unit(id).map_or("", |unit| unit.name.as_str());
    let mut text = String::new();
    let mut places = Vec::new();
    for (unit, link) in path {
        let Some(link) = links.get(*link as usize) else { continue };
        let place = link.place(generation);
        let kind = link.kind.as_str();
        text.push_str(&format!("{} {kind} ({}:{}) ", name(*unit), place.file, place.line));
        places.push(place);
    }
    let first = path.first().map_or("", |(unit, _)| name(*unit));
    let at = places.first().cloned().unwrap_or(crate::diagnostic::Place {
        file: "".into(),
        line: 0,
        column: 0,
    });
    let hint = "one of these dependencies must go; `wants` pulls a unit in without an order";
    let diagnostic = Diagnostic::error("ring", at, format!("ring: {text}{first}"))
        .with_hint(hint)
        .with_related(places.into_iter().skip(1).collect());
    Fault { units: path.iter().map(|(unit, _)| *unit).collect(), diagnostic }
}

/// All units, providers of ordering edges first, else by name. Kahn's algorithm.
pub(super) fn order(count: usize, out: &Rows<Edge>) -> Vec<UnitId> {
    let ids = || (0..u32::try_from(count).unwrap_or(u32::MAX)).map(UnitId);
    let providers =
        |id: UnitId| out.row(id).iter().filter(|e| e.kind.orders()).filter_map(|e| e.provider);
    let turned: Vec<(UnitId, UnitId)> =
        ids().flat_map(|id| providers(id).map(move |provider| (provider, id))).collect();
    let dependents = Rows::new(count, &turned, |pair| *pair);
    let mut missing: Vec<usize> = ids().map(|id| providers(id).count()).collect();
    let mut order: Vec<UnitId> = ids().filter(|id| at(&missing, *id) == 0).collect();
    let mut next = 0;
    while let Some(unit) = order.get(next).copied() {
        next += 1;
        for dependent in dependents.row(unit) {
            let left = at(&missing, *dependent).saturating_sub(1);
            put(&mut missing, *dependent, left);
            if left == 0 {
                order.push(*dependent);
            }
        }
    }
    order
}
