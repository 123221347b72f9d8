//! Claims that are made anew under another lease, as the book has them: what a fleetd knows of that is
//! judged by it ([`crate::sim::invariant`]).

use super::continuity::KEPT;
use super::world::World;
use crate::fleetd::daemon::Daemon;
use crate::machine::MachineId;
use crate::snapshot::Snapshot;
use crate::unit_name::UnitName;
use std::time::Duration;

/// A claim that was made anew under another lease.
pub struct Rebound {
    /// When.
    pub at: Duration,
    /// The lease it was made under before.
    pub former: i64,
    /// The new one is that of a fleetd that was there by then.
    pub asked: bool,
    /// A fleetd that has ended had seen it, and had the time to keep that.
    pub heard: bool,
}

impl World {
    pub(super) fn note_rebound(&mut self, before: &Snapshot, machine: &MachineId, name: &UnitName) {
        let lease = |of: &Snapshot| of.claim_of(name, machine).map(|kept| kept.lease);
        let key = (machine.clone(), name.clone());
        let has = |own: i64| {
            let mut there = self.machines.iter().filter(|one| one.id == *machine);
            let lease = |daemon: &Daemon| daemon.machine_lease.borrow().lease;
            there.any(|one| one.fleetd.as_ref().and_then(|it| lease(&it.daemon)) == Some(own))
        };
        match (lease(before), lease(&self.truth)) {
            (Some(former), Some(now)) => {
                let rebound = Rebound { at: self.now, former, asked: has(now), heard: false };
                self.book.rebound.insert(key, rebound)
            }
            _ => self.book.rebound.remove(&key),
        };
    }

    /// The fleetd there ends: what it has seen of its claims the next one may know by what it kept.
    pub(super) fn note_heard(&mut self, machine: usize) {
        let one = &self.machines[machine];
        let Some(fleetd) = &one.fleetd else { return };
        let snapshot = fleetd.daemon.cache.snapshot();
        let now = self.now;
        let lease =
            |of: &Snapshot, name: &UnitName| of.claim_of(name, &one.id).map(|kept| kept.lease);
        for ((_, name), rebound) in
            self.book.rebound.iter_mut().filter(|((id, _), _)| *id == one.id)
        {
            // While it asks for one thing after another it keeps nothing.
            let in_time = rebound.at + KEPT <= now;
            rebound.heard |= in_time && lease(&snapshot, name) == lease(&self.truth, name);
        }
    }
}
