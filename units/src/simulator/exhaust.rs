//! A complete search of small worlds: every graph of up to three units over the most important
//! kinds of dependency, and every sequence of events up to a depth. Machine and oracle are compared
//! after each event. Nothing is random. States that look and behave the same are visited once, and
//! graphs that differ only in unit names are searched once. Of units that report ([`SPEAKING`]) all
//! reports are tried. While such a unit is up, every event is also tried at the moment when a timer
//! is due, before the tick, because init sends the tick last.
//!
//! Run by `tests/src/bin/exhaust.rs`.

use crate::machine::event::{Event, Goal, RunId, Shutdown};
use crate::simulator::compare;
use crate::simulator::digest::Digest;
use crate::simulator::graph::Universe;
use crate::simulator::oracle::Oracle;
use crate::simulator::subject::Subject;
use crate::simulator::unit_model::{self, Entry, UnitModel};
use crate::spec::{DependencyKind as D, Exit, Kind, Restart};
use crate::text::time::Time;
use crate::unit::policy::Policy;
use crate::unit::settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// Counts of a search.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Number of graphs.
    pub graphs: u64,
    /// Number of different states.
    pub states: u64,
    /// Number of events tried.
    pub events: u64,
    /// Number of events after which machine and oracle agreed.
    pub agreed: u64,
}

/// The kinds of dependency of the first sweep.
pub const ORDERING: [D; 4] = [D::DependsOn, D::DependsMs, D::WaitsFor, D::After];
/// The kinds of the second sweep, with two units.
pub const OTHERS: [D; 4] = [D::Wants, D::Before, D::RestartWith, D::Conflicts];
/// The unit types of the first two sweeps.
pub const TYPES: [Kind; 3] = [Kind::ForegroundSupervised, Kind::Oneshot, Kind::Virtual];
/// The unit types of the third sweep: one sends all reports, one none.
pub const SPEAKING: [Kind; 2] = [Kind::ForegroundNotified, Kind::ForegroundSupervised];

/// The next event, and whether it comes when a timer is due, before the tick.
type Next = (bool, Event);

/// Returns every world of `units` units of these types over `kinds`, one of each class of equal
/// worlds.
pub fn worlds(units: usize, kinds: &[D], of: &[Kind]) -> Vec<UnitModel> {
    let pairs: Vec<(usize, usize)> =
        (0..units).flat_map(|from| (0..units).map(move |to| (from, to))).collect();
    let orders = kinds.iter().all(|kind| kind.orders() && *kind != D::Before);
    // Ordering edges lead from a higher number to a lower one; every graph without a ring has such
    // names.
    let pairs: Vec<(usize, usize)> =
        pairs.into_iter().filter(|(a, b)| a != b && (!orders || a > b)).collect();
    let choices = kinds.len() + 1;
    let mut worlds = Vec::new();
    let mut seen = BTreeSet::new();
    for types in 0..of.len().pow(units as u32) {
        for edges in 0..choices.pow(pairs.len() as u32) {
            let kind = |unit: usize| types / of.len().pow(unit as u32) % of.len();
            let edge = |pair: usize| edges / choices.pow(pair as u32) % choices;
            let types: Vec<usize> = (0..units).map(kind).collect();
            let mut matrix = vec![vec![0; units]; units];
            for (pair, (from, to)) in pairs.iter().enumerate() {
                matrix[*from][*to] = edge(pair);
            }
            if seen.insert(canonical(&types, &matrix)) {
                worlds.push(model(&types, &matrix, kinds, of));
            }
        }
    }
    worlds
}

/// Returns the least form over all renamings.
fn canonical(types: &[usize], matrix: &[Vec<usize>]) -> Vec<usize> {
    let units = types.len();
    let form = |order: &[usize]| -> Vec<usize> {
        let types = order.iter().map(|unit| types[*unit]);
        let edges = order.iter().flat_map(|a| order.iter().map(|b| matrix[*a][*b]));
        types.chain(edges).collect()
    };
    permutations(units).iter().map(|order| form(order)).min().unwrap_or_default()
}

fn permutations(units: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..units {
        let longer = |start: &Vec<usize>| {
            let start = start.clone();
            let fresh: Vec<usize> = (0..units).filter(|unit| !start.contains(unit)).collect();
            fresh
                .into_iter()
                .map(move |unit| [start.clone(), vec![unit]].concat())
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

fn model(types: &[usize], matrix: &[Vec<usize>], kinds: &[D], of: &[Kind]) -> UnitModel {
    let settings =
        Settings { shutdown_deadline: Some(Duration::from_secs(9)), ..Settings::default() };
    let entry = |unit: usize| {
        let kind = of[types[unit]];
        let mut live = unit_model::live(kind);
        live.failure_verdict = 2;
        live.restart = if kind == Kind::Oneshot { Restart::Never } else { live.restart };
        let edges = matrix[unit].iter().enumerate().filter(|(_, edge)| **edge > 0);
        Entry {
            kind,
            provides: vec![unit],
            edges: edges.map(|(to, edge)| (kinds[edge - 1], to, false)).collect(),
            wanted_by: Vec::new(),
            required_by: Vec::new(),
            pulled_by: Vec::new(),
            activates: None,
            live,
            readiness: unit_model::readiness(kind),
            has_exec_stop: false,
            has_exec_reload: kind == Kind::ForegroundNotified,
            run_hash: 1,
            broken: false,
            has_synonyms: false,
        }
    };
    UnitModel {
        units: (0..types.len()).map(|unit| (unit, entry(unit))).collect(),
        rank: (0..unit_model::UNITS).collect(),
        settings,
        policy: Policy::default(),
        roots: Vec::new(),
        rich: false,
    }
}

/// Machine, oracle, and the processes of the world.
#[derive(Clone)]
struct Node {
    subject: Subject,
    oracle: Oracle,
    now: Time,
    /// By unit, the live run, and whether its main process has exited.
    runs: BTreeMap<usize, (RunId, bool)>,
    /// By unit, the last run that is over. Not part of a state, because reports about it change
    /// nothing.
    over: BTreeMap<usize, RunId>,
}

/// Searches one world to the depth. Errors with the first difference and the events that lead to
/// it.
pub fn search(world: &UnitModel, depth: usize, counts: &mut Counts) -> Result<(), String> {
    let universe = unit_model::universe();
    let generation = world.generation(&universe, 1);
    counts.graphs += 1;
    let units = world.units.len();
    let top = |set: usize| -> Vec<_> {
        (0..units).filter(|u| set >> u & 1 == 1).map(|u| universe.targets[u].clone()).collect()
    };
    let root = Node {
        subject: Subject::default(),
        oracle: Oracle::new(universe.clone()),
        now: Time::from_nanos(1_000_000_000),
        runs: BTreeMap::new(),
        over: BTreeMap::new(),
    };
    let boot = (false, Event::Boot { generation, targets: top(1 << (units - 1)) });
    let boot = root.after(&boot, &universe, counts)?;
    let mut seen = BTreeSet::new();
    // By state, the event and the previous state that first led to it.
    let mut trail: Vec<(Option<usize>, Next)> = Vec::new();
    // Searches breadth first: each state is expanded once, at its first visit, when the most events
    // remain.
    let mut level = vec![(boot, None)];
    for depth_left in (0..depth).rev() {
        let mut next = Vec::new();
        for (node, reached) in level {
            for event in node.events(units, &universe, &top) {
                let child = node.after(&event, &universe, counts).map_err(|difference| {
                    let path = way(&trail, reached).join("\n");
                    format!("{world:?}\n{path}\n{event:?}\n{difference}")
                })?;
                if !seen.insert(child.fingerprint()) {
                    continue;
                }
                counts.states += 1;
                if depth_left > 0 {
                    trail.push((reached, event));
                    next.push((child, Some(trail.len() - 1)));
                }
            }
        }
        level = next;
    }
    Ok(())
}

/// Returns the events that lead to a state, in order.
fn way(trail: &[(Option<usize>, Next)], mut at: Option<usize>) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((before, event)) = at.and_then(|at| trail.get(at)) {
        names.push(format!("{event:?}"));
        at = *before;
    }
    names.reverse();
    names
}

impl Node {
    /// Returns the next events to try: wishes, facts of all runs, and time.
    fn events(
        &self,
        units: usize,
        universe: &Universe,
        top: &dyn Fn(usize) -> Vec<crate::text::name::Name>,
    ) -> Vec<Next> {
        let kind = |unit: usize| self.oracle.unit(unit).map(|unit| unit.kind);
        let speaks = |unit: usize| kind(unit) == Some(Kind::ForegroundNotified);
        let mut events = Vec::new();
        for set in 1..1 << units {
            let goal = Goal { targets: top(set), ..Goal::default() };
            events.push(Event::SetGoal(goal));
        }
        for (unit, (run, ended)) in &self.runs {
            if *ended {
                events.push(Event::Gone(*run));
                events.extend(speaks(*unit).then_some(Event::Ready(*run)));
                continue;
            }
            if speaks(*unit) || kind(*unit) == Some(Kind::ForegroundSupervised) {
                events.push(Event::Executed(*run));
            }
            events.push(Event::Ended(*run, Exit::Code(0)));
            events.push(Event::Ended(*run, Exit::Code(1)));
            events.push(Event::Exited(*run, Exit::Code(1)));
            if speaks(*unit) {
                events.extend([Event::Ready(*run), Event::Reloading(*run), Event::Stopping(*run)]);
                events.extend([true, false].map(|well| Event::Reloaded(*run, well)));
            }
        }
        for run in self.over.iter().filter(|(unit, _)| speaks(**unit)).map(|(_, run)| *run) {
            events.extend([Event::Ready(run), Event::Reloaded(run, true), Event::Gone(run)]);
        }
        events.push(Event::Restart(vec![universe.targets[0].clone()]));
        if speaks(0) {
            events.push(Event::ReloadUnit(vec![universe.targets[0].clone()]));
        }
        let mask = Policy { mask: [universe.targets[0].clone()].into(), ..Policy::default() };
        events.push(Event::SetPolicy(mask));
        events.push(Event::SetPolicy(Policy::default()));
        events.push(Event::Shutdown(Shutdown::Halt));
        let ahead = self.oracle.next_due().is_some_and(|due| due > self.now);
        let is_late = ahead && self.runs.keys().any(|unit| speaks(*unit));
        let late: Vec<Event> = if is_late { events.clone() } else { Vec::new() };
        let late = late.into_iter().map(|event| (true, event));
        let now = events.into_iter().map(|event| (false, event));
        now.chain(late).chain([(false, Event::Tick)]).collect()
    }

    /// Applies one event to machine and oracle; errors if they differ.
    fn after(
        &self,
        (is_late, event): &Next,
        universe: &Universe,
        counts: &mut Counts,
    ) -> Result<Node, String> {
        let mut next = self.clone();
        counts.events += 1;
        if *is_late || *event == Event::Tick {
            next.now = next.oracle.next_due().unwrap_or(next.now).max(next.now);
        }
        let (actions, refused) = next.subject.step(next.now, event.clone());
        let orders = compare::orders(universe, &actions);
        let (deeds, law) = next.oracle.step(next.now, event);
        if refused != law {
            return Err(format!("refused {refused}, the oracle says {law}"));
        }
        let same = |(what, detail): (String, String)| format!("{what}: {detail}");
        compare::same_orders(&orders, &deeds).map_err(same)?;
        compare::same_states(&next.oracle, &next.subject.see(universe)).map_err(same)?;
        counts.agreed += 1;
        next.world(event, &orders);
        Ok(next)
    }

    fn world(&mut self, event: &Event, orders: &[crate::simulator::view::Order]) {
        use crate::simulator::view::Order;
        match event {
            Event::Exited(run, _) => {
                self.runs.values_mut().filter(|it| it.0 == *run).for_each(|it| it.1 = true);
            }
            Event::Ended(run, _) | Event::Gone(run) => {
                let its = self.runs.iter().filter(|(_, it)| it.0 == *run);
                self.over.extend(its.map(|(unit, it)| (*unit, it.0)));
                self.runs.retain(|_, it| it.0 != *run);
            }
            _ => {}
        }
        for order in orders {
            match order {
                Order::Start(unit, run)
                    if self.oracle.unit(*unit).is_some_and(|unit| unit.kind.has_process()) =>
                {
                    self.runs.insert(*unit, (*run, false));
                }
                Order::Stop(unit, _, _, true) => _ = self.runs.remove(unit),
                _ => {}
            }
        }
    }

    /// Hashes the state of the oracle and of the processes, without run ids and with times relative
    /// to now.
    fn fingerprint(&self) -> u64 {
        let mut hasher = Digest::default();
        self.oracle.shape(&mut hasher);
        for (unit, (_, ended)) in &self.runs {
            (unit, ended).hash(&mut hasher);
        }
        hasher.finish()
    }
}
