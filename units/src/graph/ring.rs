//! Rings over the ordering edges. They are found without recursion and reported whole. A ring is
//! opened if it contains an imported order-only link; otherwise its units are broken.

use super::edge::{Link, Rows};
use super::{Broken, Edge, Fault};
use crate::limit;
use crate::text::diagnostic::Diagnostic;
use crate::unit::generation::{Generation, UnitId};
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::{BTreeMap, VecDeque};

/// One ordering link: the unit it leads to, and its number.
type Step = (UnitId, u32);

/// Drops imported order-only links on rings, from the last by file name and line to the first, until
/// no such link is on a ring. Breaks the units on the remaining rings.
pub(super) fn break_rings(
    generation: &Generation,
    links: &mut Vec<Link>,
    broken: &mut BTreeMap<UnitId, Broken>,
    faults: &mut Vec<Fault>,
) {
    let count = generation.units.len();
    let mut dropped = vec![false; links.len()];
    let mut steps = steps(count, links, broken, &dropped);
    let mut component = components(count, &steps);
    let order = droppable(generation, links, &component);
    if !order.is_empty() {
        let (drops, _) = to_drop(links, &component, &order);
        for index in &drops {
            dropped.get_mut(*index).into_iter().for_each(|flag| *flag = true);
        }
        report_drops(generation, links, &drops, faults);
        steps = self::steps(count, links, broken, &dropped);
        component = components(count, &steps);
    }
    report(generation, links, &steps, &component, broken, faults);
    let mut flags = dropped.into_iter();
    links.retain(|_| !flags.next().unwrap_or(false));
}

/// The droppable links within components, by file name and line.
fn droppable(generation: &Generation, links: &[Link], component: &[u32]) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::new();
    order.extend(links.iter().enumerate().filter_map(|(index, link)| {
        (link.droppable && ring_of(component, link).is_some()).then_some(index)
    }));
    let key = |index: usize| {
        let link = links.get(index)?;
        Some((&generation.unit(link.by)?.at.file, link.line, index))
    };
    order.sort_by(|one, other| key(*one).cmp(&key(*other)));
    order
}

/// Returns the component that holds both ends of an ordering link.
fn ring_of(component: &[u32], link: &Link) -> Option<u32> {
    let ring = at(component, link.from);
    let inside = ring != 0 && link.provider.is_some_and(|p| at(component, p) == ring);
    (inside && link.kind.orders()).then_some(ring)
}

/// An ordering link in the selection of links to drop: its ends, and its rank among the droppable
/// links from 1, or 0 if it is not droppable.
#[derive(Clone, Copy)]
struct Arrow {
    from: u32,
    to: u32,
    rank: u32,
}

/// Arrows that are examined together. Those with ranks from `low` to `high` are not decided yet.
struct Task {
    low: u32,
    high: u32,
    arrows: Vec<Arrow>,
}

/// Returns the droppable links to drop, the last first, and the number of arrows that all passes
/// examined.
///
/// A link is dropped if it closes a ring with all fixed links and the droppable links of lower
/// ranks: together they put its ends into one component. A binary search over the ranks finds, for
/// all links at once, the rank that joins the ends of each link. A link of at most the
/// middle rank whose ends are joined there belongs to the lower half. The others belong to the upper
/// half, in a graph where the components of the lower half are contracted. Each halving therefore examines a link once.
fn to_drop(links: &[Link], component: &[u32], order: &[usize]) -> (Vec<usize>, usize) {
    let mut ranks = vec![0u32; links.len()];
    for (rank, index) in (1u32..).zip(order) {
        ranks.get_mut(*index).into_iter().for_each(|place| *place = rank);
    }
    let arrows = links.iter().zip(ranks).filter_map(|(link, rank)| {
        ring_of(component, link)?;
        Some(Arrow { from: link.from.0, to: link.provider?.0, rank })
    });
    let high = u32::try_from(order.len()).unwrap_or(u32::MAX);
    let mut tasks = vec![Task { low: 0, high, arrows: arrows.collect() }];
    let (mut drops, mut looks) = (Vec::new(), 0);
    while let Some(Task { low, high, arrows }) = tasks.pop() {
        // Droppable links of lower ranks are decided already and only complete the graph.
        if !arrows.iter().any(|arrow| arrow.rank >= low.max(1)) {
            continue;
        }
        looks += arrows.len();
        if low == high {
            let at_last = arrows.iter().filter(|arrow| arrow.rank == low);
            drops.extend(
                at_last.filter_map(|arrow| order.get((arrow.rank as usize).checked_sub(1)?)),
            );
            continue;
        }
        let middle = low + (high - low) / 2;
        let (lower, upper) = halves(arrows, middle);
        tasks.push(Task { low, high: middle, arrows: lower });
        tasks.push(Task { low: middle + 1, high, arrows: upper });
    }
    (drops, looks)
}

/// Splits the arrows, by the components of the graph that has only the arrows up to rank `middle`.
/// The first list has the arrows of that graph whose ends are in one component. The second has all
/// other arrows, each end replaced by the number of its component.
fn halves(arrows: Vec<Arrow>, middle: u32) -> (Vec<Arrow>, Vec<Arrow>) {
    let mut units: Vec<u32> = arrows.iter().flat_map(|arrow| [arrow.from, arrow.to]).collect();
    units.sort_unstable();
    units.dedup();
    let local = |unit: u32| units.binary_search(&unit).unwrap_or(0);
    let present = arrows.iter().filter(|arrow| arrow.rank <= middle);
    let items: Vec<(UnitId, Step)> = present
        .map(|arrow| {
            let end = |unit| UnitId(u32::try_from(local(unit)).unwrap_or(u32::MAX));
            (end(arrow.from), (end(arrow.to), 0))
        })
        .collect();
    let component = components(units.len(), &Rows::new(units.len(), &items, |item| *item));
    // Units on no ring get numbers of their own.
    let rings = component.iter().copied().max().unwrap_or(0);
    let number = |unit: u32| {
        let at = local(unit);
        match component.get(at) {
            Some(ring) if *ring != 0 => *ring,
            _ => rings + 1 + u32::try_from(at).unwrap_or(0),
        }
    };
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    for arrow in arrows {
        let (from, to) = (number(arrow.from), number(arrow.to));
        if from == to && arrow.rank <= middle {
            lower.push(arrow);
        } else {
            upper.push(Arrow { from, to, ..arrow });
        }
    }
    (lower, upper)
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

/// Returns the number of each unit's ring component, or 0 for a unit on no ring. The components are
/// numbered from 1, in the order of their first units.
fn components(count: usize, steps: &Rows<Step>) -> Vec<u32> {
    let ids = || (0..u32::try_from(count).unwrap_or(u32::MAX)).map(UnitId);
    let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(count, 0);
    // The index type of the graph has room for every unit.
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

/// Reports the dropped links, the last first: one fault for each unit that loses links, because
/// there may be as many links as units squared.
fn report_drops(generation: &Generation, links: &[Link], drops: &[usize], faults: &mut Vec<Fault>) {
    let name = |id: UnitId| generation.unit(id).map_or("", |unit| unit.name.as_str());
    let mut shown: BTreeMap<(UnitId, UnitId), (usize, u32)> = BTreeMap::new();
    for link in drops.iter().filter_map(|index| links.get(*index)) {
        let at = faults.len();
        let (at, more) = shown.entry((link.by, link.from)).or_insert((at, 0));
        if let Some(fault) = faults.get_mut(*at) {
            *more += 1;
            fault.diagnostic.hint = format!("and {more} more of its orders are dropped");
            continue;
        }
        let provider = link.provider.map_or("", name);
        let message =
            format!("the order \"{} after {provider}\" is dropped to open a ring", name(link.from));
        let diagnostic = Diagnostic::warning("ring-opened", link.place(generation), message);
        faults.push(Fault { units: vec![link.from], diagnostic });
    }
}

/// Breaks every unit on a ring, and reports disjoint rings with one diagnostic each.
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
        let fault = ring_fault(generation, links, &path);
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

/// Returns the shortest path from a unit back to itself within its component that avoids used
/// units: each member with the link that leads on. Empty if there is none.
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

fn ring_fault(generation: &Generation, links: &[Link], path: &[(UnitId, u32)]) -> Fault {
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
    let at = places.first().cloned().unwrap_or(crate::text::diagnostic::Place {
        file: "".into(),
        line: 0,
        column: 0,
    });
    let hint = "remove one of these dependencies; `wants` pulls a unit in without an order";
    let diagnostic = Diagnostic::error("ring", at, format!("ring: {text}{first}"))
        .with_hint(hint)
        .with_related(places.into_iter().skip(1).collect());
    Fault { units: path.iter().map(|(unit, _)| *unit).collect(), diagnostic }
}

/// Returns all units, every provider of an ordering edge before its dependents (Kahn's algorithm).
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::DependencyKind;
    use crate::unit::generation::TargetId;
    use proptest::prelude::*;

    fn link(from: u32, to: u32, droppable: bool) -> Link {
        Link {
            from: UnitId(from),
            kind: DependencyKind::After,
            target: TargetId(to),
            provider: Some(UnitId(to)),
            optional: false,
            by: UnitId(from),
            line: 1,
            droppable,
        }
    }

    fn on_rings(count: usize, links: &[Link], dropped: &[bool]) -> Vec<u32> {
        components(count, &steps(count, links, &BTreeMap::new(), dropped))
    }

    /// The droppable links on rings, in the order of the list.
    fn candidates(links: &[Link], component: &[u32]) -> Vec<usize> {
        let each = links.iter().enumerate();
        let is = |link: &Link| link.droppable && ring_of(component, link).is_some();
        each.filter(|(_, link)| is(link)).map(|(index, _)| index).collect()
    }

    proptest! {
        /// The result equals dropping the last droppable link on a ring, one at a time, until no
        /// ring is left.
        #[test]
        fn batch_drop_of_links_equals_dropping_one_at_a_time(
            edges in prop::collection::vec((0u32..9, 0u32..9, 0u32..4), 0..60),
        ) {
            let links: Vec<Link> =
                edges.into_iter().map(|(from, to, kind)| link(from, to, kind != 0)).collect();
            let mut dropped = vec![false; links.len()];
            let component = on_rings(9, &links, &dropped);
            let order = candidates(&links, &component);
            let mut expected = Vec::new();
            for index in order.iter().rev() {
                if ring_of(&on_rings(9, &links, &dropped), &links[*index]).is_some() {
                    dropped[*index] = true;
                    expected.push(*index);
                }
            }
            prop_assert_eq!(to_drop(&links, &component, &order).0, expected);
        }
    }

    #[test]
    fn dropping_links_of_a_complete_graph_costs_little_more_than_its_links() {
        for count in [20u32, 40, 80] {
            let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
            let links: Vec<Link> = pairs
                .filter(|(from, to)| from != to)
                .map(|(from, to)| link(from, to, true))
                .collect();
            let component = on_rings(count as usize, &links, &vec![false; links.len()]);
            let order = candidates(&links, &component);
            let (drops, looks) = to_drop(&links, &component, &order);
            assert_eq!(drops.len(), links.len() / 2, "a line of units is left");
            let halvings = links.len().ilog2() as usize + 2;
            assert!(looks <= links.len() * halvings, "{looks} looks at {} links", links.len());
        }
    }
}
