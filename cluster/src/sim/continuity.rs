//! State that survives an engine or a fleetd. It has the units that run when the leading engine
//! disappears, and the state that a fleetd takes over from its predecessor.

use crate::desired::Desired;
use crate::fleetd::saved_state::{Keep, SavedState};
use crate::sim::lease_proof::LeaseProof;
use crate::sim::local_init::{Phase, Run, is_exclusive};
use crate::sim::world::{Shared, World, lock};
use crate::unit_name::UnitName;
use std::time::Duration;

/// A fleetd saves news within this time.
pub const KEPT: Duration = Duration::from_secs(2);

/// A unit that ran on a machine as scheduled.
pub struct Ran {
    /// The machine.
    pub machine: usize,
    /// The boot of the machine.
    pub boot: u64,
    /// The unit.
    pub unit: UnitName,
    /// The revision of its schedule.
    pub schedule_revision: i64,
    /// The run of the unit.
    pub life: u64,
}

impl World {
    /// Returns the scheduled units that run without a claim.
    pub fn all_that_runs(&self) -> Vec<Ran> {
        let mut all = Vec::new();
        // A leaving machine stops all its units, with or without a leader.
        let stays = self.machines.iter().enumerate().filter(|(_, machine)| !machine.leaving);
        for (number, machine) in stays {
            for (unit, kept) in self.truth.schedules.get(&machine.id).into_iter().flatten() {
                let run = machine.init.runs.get(unit.as_str());
                let run = run.filter(|run| run.phase == Phase::Up && !is_exclusive(&run.text));
                let text = self.truth.units.get(unit).map(|kept| kept.record.file.text());
                let of = |run: &Run| text.as_ref() == Some(&run.text);
                let launched = kept.record.desired == Desired::Launched;
                if let Some(run) = run.filter(|run| launched && of(run)) {
                    let (boot, schedule_revision, life) = (machine.boot, kept.modified, run.life);
                    all.push(Ran {
                        machine: number,
                        boot,
                        unit: unit.clone(),
                        schedule_revision,
                        life,
                    });
                }
            }
        }
        all
    }

    /// Records the start of a fleetd. The start is in time if the predecessor's saved state still
    /// proves the claim of each running exclusive unit.
    pub fn remember_restart(&mut self, machine: usize) {
        let one = &self.machines[machine];
        // Two thirds of the lease, with clock drift.
        let patience = self.plan.ttl * 2 / 3 * 98 / 100;
        let lives = |name: &String| {
            let unit = UnitName::new(name).ok();
            let claim = unit.and_then(|unit| self.truth.claim_of(&unit, &one.id));
            let proof = claim.and_then(|kept| self.etcd.proofs.get(&(machine, kept.lease)));
            let known = |proof: &LeaseProof| proof.known_at(one.down_until.saturating_sub(KEPT));
            proof.is_some_and(|proof| known(proof) + patience > self.now)
        };
        let mut exclusive = one.init.runs.iter().filter(|(_, run)| is_exclusive(&run.text));
        // If init's answers may be lost, the put is repeated and takes longer.
        let answered = self.plan.rates.init == 0;
        if answered && exclusive.all(|(name, _)| lives(name)) {
            self.book.restarted_in_time.insert(machine, one.down_until);
        } else {
            self.book.restarted_in_time.remove(&machine);
        }
    }

    /// Returns the saved state for a starting fleetd.
    pub fn recalled(&self, machine: usize) -> SavedState {
        let kept = self.book.recalled.get(&machine);
        let kept = kept.filter(|(boot, _)| *boot == self.machines[machine].boot);
        kept.map(|(_, recalled)| recalled.clone()).unwrap_or_default()
    }
}

/// Returns the function by which a fleetd saves its state.
pub fn keeper(shared: &Shared, machine: usize) -> Keep {
    let shared = shared.clone();
    let boot = lock(&shared).machines[machine].boot;
    Box::new(move |recalled| {
        lock(&shared).book.recalled.insert(machine, (boot, recalled.clone()));
    })
}
