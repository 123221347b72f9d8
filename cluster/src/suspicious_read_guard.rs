//! Guards running units against a suspicious reading of etcd. A complete reading shows each unit that
//! was moved, drained or is not wished; a destroyed unit is told by the watch. When a reading has no
//! trace of many units that run here, these are withheld from being stopped until etcd tells something
//! about them. Pure; [`crate::etcd_cache`] reads and watches.

use crate::agent::{self, Goal, Wanted};
use crate::desired::Desired;
use crate::key::{Keys, Subject};
use crate::machine::MachineId;
use crate::snapshot::Snapshot;
use crate::transaction::Change;
use crate::unit_name::UnitName;
use std::collections::BTreeSet;

/// Fewer than that may go at once.
const LEAST: usize = 3;
/// And so many of a hundred that run.
const SHARE: usize = 30;

/// Why a unit runs that the cluster knows nothing of.
pub const WITHHELD: &str = "etcd has nothing of it any more, nor of many others that run here, and \
    nobody was seen to destroy it: it goes on. Make it anew and destroy it; or remove the file \
    `cluster` in fleetd's runtime directory (/run/fleet) and restart fleetd, and what etcd shows \
    counts";

/// What is not stopped without a word. What is exclusive runs under a claim, and is not kept
/// without one; what is refused does not run.
pub fn guarded(mut goal: Goal) -> Goal {
    let runs = |one: &Wanted| one.desired == Desired::Launched && one.refusal.is_none();
    goal.retain(|_, one| runs(one) && !one.content.asks.exclusive);
    goal
}

/// Units that ran here by one snapshot, and of which a later one says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Which.
    pub units: BTreeSet<UnitName>,
    /// So many ran here.
    ran: usize,
}

impl Missing {
    /// Of that goal, by a later snapshot, on that machine.
    pub fn of(goal: Goal, after: &Snapshot, me: &MachineId) -> Missing {
        let goal = guarded(goal);
        let next = agent::goal(after, me, &goal);
        let gone = goal.keys().filter(|name| !next.contains_key(*name));
        let units = gone.filter(|name| !is_told_of(after, me, name)).cloned().collect();
        Missing { units, ran: goal.len() }
    }

    /// More than are destroyed in one breath.
    pub fn are_many(&self) -> bool {
        self.units.len() >= LEAST && self.units.len() * 100 > self.ran * SHARE
    }
}

/// Takes out the units of which something was told.
pub fn hear(units: &mut BTreeSet<UnitName>, keys: &Keys, changes: &[Change]) {
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

/// What was withheld before, and of which a later reading says nothing either.
pub fn still(before: &Snapshot, after: &Snapshot, me: &MachineId) -> BTreeSet<UnitName> {
    before.withheld.iter().filter(|name| !is_told_of(after, me, name)).cloned().collect()
}

/// The snapshot says that the unit is to run here, or why it is not.
fn is_told_of(snapshot: &Snapshot, me: &MachineId, name: &UnitName) -> bool {
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
