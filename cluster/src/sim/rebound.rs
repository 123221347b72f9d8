//! Records claims that were renewed under another lease, so that [`crate::sim::invariant`] can
//! judge what a fleetd knows about them.

use super::continuity::KEPT;
use super::world::World;
use crate::fleetd::daemon::Daemon;
use crate::machine::MachineId;
use crate::snapshot::Snapshot;
use crate::unit_name::UnitName;
use std::time::Duration;

/// A claim that was renewed under another lease.
pub struct Rebound {
    /// The time.
    pub at: Duration,
    /// The earlier lease.
    pub former: i64,
    /// True if the present fleetd requested the new one.
    pub asked: bool,
    /// True if a previous fleetd saw the new one and had time to save it.
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

    /// Records at the end of a fleetd which renewed claims it has seen and saved for its successor.
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
            // fleetd saves nothing while it sends a sequence of requests, so a claim that was
            // renewed a moment ago may not be saved.
            let in_time = rebound.at + KEPT <= now;
            rebound.heard |= in_time && lease(&snapshot, name) == lease(&self.truth, name);
        }
    }
}
