//! Guards running units against a suspicious reading of etcd.
//! A complete reading shows every moved, drained or stopped unit, and the watch reports destroyed
//! units. If a reading has no trace of many units that run here, they are withheld from being
//! stopped until etcd reports on them. Pure; [`crate::etcd_cache`] reads and watches.

use crate::agent::{self, Goal, Wanted};
use crate::desired::Desired;
use crate::key::{Keys, Subject};
use crate::machine::MachineId;
use crate::snapshot::Snapshot;
use crate::transaction::Change;
use crate::unit_name::UnitName;
use std::collections::BTreeSet;

/// Minimum number of missing units.
const LEAST: usize = 3;
/// A reading is suspicious only if more than this percentage of the running units is missing.
const SHARE: usize = 30;

/// Explanation shown for a withheld unit.
pub const WITHHELD: &str = "kept running: this unit and many others disappeared from etcd without a delete \
    event. To stop it, re-create and destroy it; to accept etcd's contents, remove the file \
    `cluster` in fleetd's runtime directory (/run/fleet) and restart fleetd";

/// Returns the guarded units. Exclusive units depend on their claim and are not guarded; refused
/// units do not run.
pub fn guarded(mut goal: Goal) -> Goal {
    let runs = |one: &Wanted| one.desired == Desired::Launched && one.refusal.is_none();
    goal.retain(|_, one| runs(one) && !one.content.asks.exclusive);
    goal
}

/// Units that ran here by one snapshot and are missing from a later one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// The missing units.
    pub units: BTreeSet<UnitName>,
    /// Number of units that ran here.
    ran: usize,
}

impl Missing {
    /// Compares the goal with a later snapshot.
    pub fn of(goal: Goal, after: &Snapshot, me: &MachineId) -> Missing {
        let goal = guarded(goal);
        let next = agent::goal(after, me, &goal);
        let gone = goal.keys().filter(|name| !next.contains_key(*name));
        let units = gone.filter(|name| !shows_whether_here(after, me, name)).cloned().collect();
        Missing { units, ran: goal.len() }
    }

    /// Returns true if more units are missing than are usually destroyed at once.
    pub fn are_many(&self) -> bool {
        self.units.len() >= LEAST && self.units.len() * 100 > self.ran * SHARE
    }
}

/// Removes the units that the changes report on.
pub fn remove_reported(units: &mut BTreeSet<UnitName>, keys: &Keys, changes: &[Change]) {
    for change in changes {
        let key = match change {
            Change::Put(entry) => &entry.key,
            Change::Delete { key, .. } => key,
        };
        if let Some(name) = keys.subject(key).as_ref().and_then(Subject::unit) {
            units.remove(name);
        }
    }
}

/// Returns the units withheld before that a later reading still does not mention.
pub fn still_withheld(before: &Snapshot, after: &Snapshot, me: &MachineId) -> BTreeSet<UnitName> {
    before.withheld.iter().filter(|name| !shows_whether_here(after, me, name)).cloned().collect()
}

/// Returns true if the snapshot shows whether the unit belongs here.
fn shows_whether_here(snapshot: &Snapshot, me: &MachineId, name: &UnitName) -> bool {
    let Some(kept) = snapshot.units.get(name) else { return false };
    if snapshot.desired_of(name) != Desired::Launched {
        return snapshot.desired.contains_key(name);
    }
    match kept.record.asks.global {
        true => snapshot.globals.contains_key(name),
        false => {
            let scheduled = snapshot.schedules.get(me).is_some_and(|all| all.contains_key(name));
            scheduled || snapshot.place_of(name) != Some(me)
        }
    }
}
