//! Decides which unit goes to which machine, and why.
//! Pure: the engine feeds changes, and [`Scheduler::decide`] answers with moves. Its cost depends
//! on the number of changes. Every engine with the same snapshot makes the same decisions.
//!
//! Rules:
//! - A unit with desired state loaded or launched is on one machine that meets its requirements.
//! - Among those machines it goes to the one with the fewest units, then the smallest id.
//! - It stays while that machine meets the requirements; units are not moved to balance the load.

use crate::desired::Desired;
use crate::machine::{Machine, MachineId};
use crate::move_order::{Cause, Move, MoveOrder};
use crate::mutant::{Mutant, planted};
use crate::placement::{Host, Refusal, Unit};
use crate::requirement::Requirement;
use crate::unit_name::UnitName;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum placements of one unit in one round; more indicates an undetected ring of Replaces.
const PLACED_A_ROUND: u32 = 8;

/// Each machine's reason not to have a unit; empty if there is no machine.
pub type Refusals = BTreeMap<MachineId, Refusal>;

/// The result of one round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Groups of moves in the order in which they must land; no intermediate state breaks a rule.
    /// The moves of a group land together, such as a unit and its followers by MachineOf.
    pub groups: Vec<Vec<Move>>,
    /// Units without a place in this round.
    pub unplaced: BTreeMap<UnitName, Refusals>,
}

/// See the head of the module.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    units: BTreeMap<UnitName, Unit>,
    hosts: BTreeMap<MachineId, Host>,
    /// Machines by load.
    by_load: BTreeSet<(usize, MachineId)>,
    /// Wanted global units, the oldest first.
    globals: BTreeMap<(i64, UnitName), Arc<Requirement>>,
    /// Units by the name of the unit they follow.
    followers: BTreeMap<String, BTreeSet<UnitName>>,
    /// Wanted units without a machine.
    unplaced: BTreeSet<UnitName>,
    /// Units to examine in the next round.
    dirty: BTreeSet<UnitName>,
    /// Set when capacity was freed since the last round; then all unplaced units are examined.
    freed: bool,
}

impl Scheduler {
    /// Adds or changes a unit, or removes it with `None`.
    pub fn set_unit(&mut self, name: &UnitName, unit: Option<Unit>) {
        if self.units.get(name) == unit.as_ref() {
            return;
        }
        if let Some(old) = self.units.remove(name) {
            self.forget(name, &old);
        }
        self.note_followers(name);
        let Some(unit) = unit else { return };
        for peer in &unit.asks.peers {
            self.followers.entry(peer.clone()).or_default().insert(name.clone());
        }
        if unit.asks.global {
            if unit.desired != Desired::Inactive && !name.is_template() {
                self.globals.insert((unit.since, name.clone()), unit.asks.clone());
            }
            self.choose_globals();
        } else if let Some(machine) = &unit.machine {
            self.put_on_host(name, &unit.asks, machine);
        }
        if unit.is_wanted(name) && unit.machine.is_none() {
            self.unplaced.insert(name.clone());
        }
        self.dirty.insert(name.clone());
        self.units.insert(name.clone(), unit);
        let disturbed = self.disturbed_by(name);
        self.dirty.extend(disturbed);
    }

    /// Adds or changes a machine, or removes it with `None`.
    pub fn set_machine(&mut self, id: &MachineId, machine: Option<Machine>) {
        if self.hosts.get(id).map(|host| &host.machine) == machine.as_ref() {
            return;
        }
        self.freed = true;
        let on_it = |unit: &Unit| unit.machine.as_ref() == Some(id);
        let hit = self.units.iter().filter(|(_, unit)| on_it(unit));
        let hit: Vec<(UnitName, Arc<Requirement>)> =
            hit.map(|(name, unit)| (name.clone(), unit.asks.clone())).collect();
        self.dirty.extend(hit.iter().map(|(name, _)| name.clone()));
        if let Some(old) = self.hosts.remove(id) {
            self.by_load.remove(&(old.load(), id.clone()));
        }
        let Some(machine) = machine else { return };
        let scheduled = hit.into_iter().collect();
        let mut host = Host { machine, scheduled, globals: BTreeMap::new() };
        host.globals = host.choose_globals(by_age(&self.globals));
        self.by_load.insert((host.load(), id.clone()));
        self.hosts.insert(id.clone(), host);
    }

    /// All units with their machines.
    pub fn units(&self) -> &BTreeMap<UnitName, Unit> {
        &self.units
    }

    /// All machines with their units.
    pub fn hosts(&self) -> &BTreeMap<MachineId, Host> {
        &self.hosts
    }

    /// Returns true if there is nothing to decide.
    pub fn is_settled(&self) -> bool {
        self.dirty.is_empty() && (!self.freed || self.unplaced.is_empty())
    }

    /// Examines the unit in the next round if it is unplaced.
    pub fn examine(&mut self, name: &UnitName) {
        if self.unplaced.contains(name) {
            self.dirty.insert(name.clone());
        }
    }

    /// Examines all unplaced units in the next round although nothing was freed.
    pub fn examine_all_unplaced(&mut self) {
        self.freed = true;
    }

    /// Decides the moves after all changes so far, and assumes that they succeed. The caller
    /// reports a failed move with [`Scheduler::set_unit`].
    pub fn decide(&mut self) -> Decision {
        let mut order = MoveOrder::default();
        let mut looked_at: BTreeSet<UnitName> = std::mem::take(&mut self.dirty);
        if std::mem::take(&mut self.freed) {
            looked_at.extend(self.unplaced.iter().cloned());
        }
        let mut waiting = looked_at.clone();
        // Units placed later may displace a unit again; a limit ends the loop.
        let mut tries: BTreeMap<UnitName, u32> = BTreeMap::new();
        while !waiting.is_empty() {
            self.lift(&mut waiting, &mut order);
            let mut again = BTreeSet::new();
            for name in std::mem::take(&mut waiting) {
                let tried = tries.entry(name.clone()).or_default();
                if *tried < PLACED_A_ROUND && self.place(&name, &mut order) {
                    *tried += 1;
                    again.extend(self.disturbed_by(&name));
                }
                looked_at.insert(name);
            }
            if std::mem::take(&mut self.freed) {
                again.extend(self.unplaced.iter().cloned());
            }
            again.extend(std::mem::take(&mut self.dirty));
            let spent = |name: &UnitName| tries.get(name).is_some_and(|n| *n >= PLACED_A_ROUND);
            again.retain(|name| !spent(name) || self.must_leave(name).is_some());
            waiting = again;
        }
        let unplaced = looked_at.into_iter().filter(|name| self.unplaced.contains(name));
        let unplaced = unplaced.map(|name| (name.clone(), self.refusals(&name))).collect();
        Decision { groups: order.groups(&self.units), unplaced }
    }

    /// Returns each machine's reason not to have the unit.
    pub fn refusals(&self, name: &UnitName) -> Refusals {
        let Some(unit) = self.units.get(name) else { return Refusals::new() };
        let refusal = |(id, host): (&MachineId, &Host)| {
            host.takes(id, name, &unit.asks).err().map(|refusal| (id.clone(), refusal))
        };
        self.hosts.iter().filter_map(refusal).collect()
    }

    /// Takes the units of `waiting` that cannot stay, and their followers, off their machines.
    fn lift(&mut self, waiting: &mut BTreeSet<UnitName>, order: &mut MoveOrder) {
        let mut todo: Vec<UnitName> = waiting.iter().rev().cloned().collect();
        while let Some(name) = todo.pop() {
            let Some(cause) = self.must_leave(&name) else { continue };
            let Some(unit) = self.units.get_mut(&name) else { continue };
            let from = unit.machine.take();
            let wanted = unit.is_wanted(&name);
            if let Some(machine) = &from {
                self.remove_from_host(&name, machine);
            }
            if wanted {
                self.unplaced.insert(name.clone());
            }
            order.note(Move { unit: name.clone(), from, to: None, cause });
            let followers = self.followers.get(name.as_str()).into_iter().flatten();
            todo.extend(followers.rev().cloned());
            waiting.insert(name);
        }
    }

    /// Returns why a unit cannot stay on its machine.
    fn must_leave(&self, name: &UnitName) -> Option<Cause> {
        let unit = self.units.get(name)?;
        let machine = unit.machine.as_ref()?;
        if !unit.is_wanted(name) {
            return Some(Cause::Inactive);
        }
        let Some(host) = self.hosts.get(machine) else {
            return Some(Cause::Gone(machine.clone()));
        };
        let uneven = |(load, _): &(usize, MachineId)| load + 1 < host.load();
        if planted(Mutant::EvensOut) && self.by_load.first().is_some_and(uneven) {
            return Some(Cause::Unplaced);
        }
        let refusal = host.takes(machine, name, &unit.asks).err()?;
        Some(Cause::Refused(machine.clone(), refusal))
    }

    /// Places an unplaced unit on the best machine. Returns false if no machine may have it.
    fn place(&mut self, name: &UnitName, order: &mut MoveOrder) -> bool {
        let Some(unit) = self.units.get(name) else { return false };
        if unit.machine.is_some() || !unit.is_wanted(name) {
            return false;
        }
        let asks = unit.asks.clone();
        let takes = |id: &&MachineId| {
            self.hosts.get(*id).is_some_and(|host| host.takes(id, name, &asks).is_ok())
        };
        let mut best = self.by_load.iter().map(|(_, id)| id);
        let Some(id) = best.find(takes).cloned() else { return false };
        self.put_on_host(name, &asks, &id);
        self.unplaced.remove(name);
        if let Some(unit) = self.units.get_mut(name) {
            unit.machine = Some(id.clone());
        }
        let cause = Cause::Unplaced;
        order.note(Move { unit: name.clone(), from: None, to: Some(id), cause });
        true
    }

    /// Returns the units to examine after this unit was placed: those that follow it and those it
    /// displaces.
    fn disturbed_by(&self, name: &UnitName) -> BTreeSet<UnitName> {
        let mut hit: BTreeSet<UnitName> = BTreeSet::new();
        let followers = self.followers.get(name.as_str()).into_iter().flatten();
        hit.extend(followers.filter(|follower| self.unplaced.contains(*follower)).cloned());
        let Some(unit) = self.units.get(name) else { return hit };
        let host = unit.machine.as_ref().and_then(|machine| self.hosts.get(machine));
        if let Some(host) = host.filter(|_| !unit.asks.replaces.is_empty()) {
            let away = |other: &&UnitName| *other != name && unit.asks.drives_away(other.as_str());
            hit.extend(host.scheduled.keys().filter(away).cloned());
        }
        hit
    }

    fn put_on_host(&mut self, name: &UnitName, asks: &Arc<Requirement>, machine: &MachineId) {
        self.change_host(machine, |host| {
            host.scheduled.insert(name.clone(), asks.clone());
        });
    }

    fn remove_from_host(&mut self, name: &UnitName, machine: &MachineId) {
        self.freed = true;
        self.change_host(machine, |host| {
            host.scheduled.remove(name);
        });
    }

    /// Changes the units of a machine, then updates its global units and its place in the order by
    /// load.
    fn change_host(&mut self, machine: &MachineId, change: impl FnOnce(&mut Host)) {
        let Some(host) = self.hosts.get_mut(machine) else { return };
        self.by_load.remove(&(host.load(), machine.clone()));
        change(host);
        let globals = host.choose_globals(by_age(&self.globals));
        let changed = globals.keys().ne(host.globals.keys());
        let old = std::mem::replace(&mut host.globals, globals);
        self.by_load.insert((host.load(), machine.clone()));
        if changed {
            self.freed = true;
            for name in old.keys() {
                self.note_followers(name);
            }
        }
    }

    /// Chooses the global units of every machine again after the set of globals changed.
    fn choose_globals(&mut self) {
        self.freed = true;
        let machines: Vec<MachineId> = self.hosts.keys().cloned().collect();
        for machine in machines {
            self.change_host(&machine, |_| ());
        }
    }

    fn note_followers(&mut self, name: &UnitName) {
        let followers = self.followers.get(name.as_str()).into_iter().flatten();
        self.dirty.extend(followers.cloned());
    }

    fn forget(&mut self, name: &UnitName, old: &Unit) {
        for peer in &old.asks.peers {
            if let Some(followers) = self.followers.get_mut(peer) {
                followers.remove(name);
                if followers.is_empty() {
                    self.followers.remove(peer);
                }
            }
        }
        self.unplaced.remove(name);
        self.dirty.remove(name);
        if let Some(machine) = &old.machine {
            self.remove_from_host(name, machine);
        }
        if self.globals.remove(&(old.since, name.clone())).is_some() {
            self.choose_globals();
        }
    }
}

fn by_age(
    globals: &BTreeMap<(i64, UnitName), Arc<Requirement>>,
) -> impl Iterator<Item = (&UnitName, &Arc<Requirement>)> {
    globals.iter().map(|((_, name), asks)| (name, asks))
}
