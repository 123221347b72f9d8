//! Orders the moves of one engine round: which moves belong together, and which must wait for
//! another to make room. [`crate::scheduler`] decides which units move.

use crate::machine::MachineId;
use crate::mutant::{Mutant, planted};
use crate::placement::{Refusal, Unit};
use crate::requirement::Requirement;
use crate::unit_name::UnitName;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A unit's change of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The unit.
    pub unit: UnitName,
    /// The machine where the registry has it.
    pub from: Option<MachineId>,
    /// The target; `None` if no machine meets its requirements or it is not wanted.
    pub to: Option<MachineId>,
    /// The reason.
    pub cause: Cause,
}

/// Why a unit is moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It was on no machine.
    Unplaced,
    /// The unit is no longer wanted on a machine.
    Inactive,
    /// Its machine is gone.
    Gone(MachineId),
    /// Its machine no longer meets its requirements.
    Refused(MachineId, Refusal),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Unplaced => f.write_str("target state active and unit not scheduled"),
            Cause::Inactive => f.write_str("target state inactive"),
            Cause::Gone(machine) => write!(f, "target Machine({machine}) went away"),
            Cause::Refused(machine, refusal) => {
                write!(f, "target Machine({machine}) unable to run unit: {refusal}")
            }
        }
    }
}

/// The moves of a round, in the order they were decided.
#[derive(Clone, Debug, Default)]
pub struct MoveOrder {
    moves: BTreeMap<UnitName, Move>,
    order: Vec<UnitName>,
}

impl MoveOrder {
    /// Adds a move. A unit that leaves one machine and finds another makes a single move.
    pub fn note(&mut self, step: Move) {
        self.order.push(step.unit.clone());
        match self.moves.get_mut(&step.unit) {
            Some(earlier) => earlier.to = step.to,
            None => {
                self.moves.insert(step.unit.clone(), step);
            }
        }
    }

    /// Returns the moves in decision order. Moves that depend on each other form one group, at the
    /// position of the last of them. A unit that returns to its place makes no move.
    pub fn groups(self, units: &BTreeMap<UnitName, Unit>) -> Vec<Vec<Move>> {
        let MoveOrder { moves, order } = self;
        let moves: BTreeMap<UnitName, Move> =
            moves.into_iter().filter(|(_, step)| step.from != step.to).collect();
        let last: BTreeMap<&UnitName, usize> =
            order.iter().enumerate().map(|(at, name)| (name, at)).collect();
        let ties = ties(&moves, units);
        let mut groups: Vec<(usize, Vec<Move>)> = Vec::new();
        let mut done: BTreeSet<&UnitName> = BTreeSet::new();
        for name in &order {
            let (mut at, mut group, mut todo) = (0, Vec::new(), vec![name]);
            while let Some(name) = todo.pop() {
                let Some((name, step)) = moves.get_key_value(name) else { continue };
                if done.insert(name) {
                    at = at.max(last.get(name).copied().unwrap_or_default());
                    group.push(step.clone());
                    todo.extend(ties.get(name).into_iter().flatten());
                }
            }
            if !group.is_empty() {
                groups.push((at, group));
            }
        }
        groups.sort_by_key(|(at, _)| *at);
        groups.into_iter().map(|(_, group)| group).collect()
    }
}

/// Finds the moves that belong together. A unit is tied to the units that it follows. If it follows
/// a global unit, it is tied to the units that decide whether that one runs there. A move that
/// takes a place is tied to the move that clears it.
fn ties<'m>(
    moves: &'m BTreeMap<UnitName, Move>,
    units: &BTreeMap<UnitName, Unit>,
) -> BTreeMap<&'m UnitName, BTreeSet<&'m UnitName>> {
    let mut leaving: BTreeMap<&MachineId, Vec<&UnitName>> = BTreeMap::new();
    for (name, step) in moves {
        if let Some(from) = &step.from {
            leaving.entry(from).or_default().push(name);
        }
    }
    let mut ties: BTreeMap<&UnitName, BTreeSet<&UnitName>> = BTreeMap::new();
    let mut tie = |one, other| {
        ties.entry(one).or_default().insert(other);
        ties.entry(other).or_default().insert(one);
    };
    let mut unsettling = None;
    for (name, step) in moves {
        let Some(unit) = units.get(name) else { continue };
        for peer in unit.asks.peers.iter().filter(|_| !planted(Mutant::FollowersApart)) {
            if let Some((peer, _)) = moves.get_key_value(peer.as_str()) {
                tie(name, peer);
            }
        }
        if unit.asks.peers.iter().any(|peer| is_global(units, peer)) {
            let unsettling = unsettling.get_or_insert_with(|| unsettling_globals(moves, units));
            let there = [&step.from, &step.to].into_iter().flatten();
            for other in there.filter_map(|machine| unsettling.get(machine)).flatten() {
                tie(name, other);
            }
        }
        let cleared = step.to.as_ref().and_then(|to| leaving.get(to)).into_iter().flatten();
        for other in cleared.filter(|other| clash(units, name, &unit.asks, other)) {
            tie(name, other);
        }
    }
    ties
}

fn is_global(units: &BTreeMap<UnitName, Unit>, name: &str) -> bool {
    units.get(name).is_some_and(|unit| unit.asks.global)
}

/// Returns for each machine the moves that may change its set of global units.
fn unsettling_globals<'m>(
    moves: &'m BTreeMap<UnitName, Move>,
    units: &BTreeMap<UnitName, Unit>,
) -> BTreeMap<&'m MachineId, Vec<&'m UnitName>> {
    let globals = units.iter().filter(|(_, unit)| unit.asks.global);
    let globals: Vec<&UnitName> = globals.map(|(name, _)| name).collect();
    let mut unsettling: BTreeMap<&MachineId, Vec<&UnitName>> = BTreeMap::new();
    for (name, step) in moves {
        let Some(unit) = units.get(name) else { continue };
        if globals.iter().any(|global| clash(units, name, &unit.asks, global)) {
            for machine in [&step.from, &step.to].into_iter().flatten() {
                unsettling.entry(machine).or_default().push(name);
            }
        }
    }
    unsettling
}

fn clash(
    units: &BTreeMap<UnitName, Unit>,
    name: &UnitName,
    asks: &Requirement,
    other: &UnitName,
) -> bool {
    let apart = |asks: &Requirement, name: &str| {
        asks.conflict_with(name).is_some() || asks.drives_away(name)
    };
    let theirs = units.get(other).map(|unit| &unit.asks);
    apart(asks, other.as_str()) || theirs.is_some_and(|asks| apart(asks, name.as_str()))
}
