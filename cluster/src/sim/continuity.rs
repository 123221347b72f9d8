//! What goes on over an end: what runs when the engine that led is gone, and what a fleetd finds of
//! the one before it.

use crate::desired::Desired;
use crate::fleetd::persisted_identity::{Keep, Recalled};
use crate::sim::local_init::{Phase, Run, is_exclusive};
use crate::sim::sign::Sign;
use crate::sim::world::{Shared, World, lock};
use crate::unit_name::UnitName;
use std::time::Duration;

/// What a fleetd heard it keeps within that time; before it was begun anew it was down at least as long.
pub const KEPT: Duration = Duration::from_secs(2);

/// A unit that ran on a machine as it was told.
pub struct Ran {
    /// Where.
    pub machine: usize,
    /// In which boot of it.
    pub boot: u64,
    /// Which.
    pub unit: UnitName,
    /// The revision at which it was told.
    pub told: i64,
    /// Which life of the unit.
    pub life: u64,
}

impl World {
    /// What runs as it was told, of what needs no claim.
    pub fn all_that_runs(&self) -> Vec<Ran> {
        let mut all = Vec::new();
        // Who is leaving stops all it has, led or not.
        let stays = self.machines.iter().enumerate().filter(|(_, machine)| !machine.leaving);
        for (number, machine) in stays {
            for (unit, kept) in self.truth.schedules.get(&machine.id).into_iter().flatten() {
                let run = machine.init.runs.get(unit.as_str());
                let run = run.filter(|run| run.phase == Phase::Up && !is_exclusive(&run.text));
                let text = self.truth.units.get(unit).map(|kept| kept.record.file.text());
                let of = |run: &Run| text.as_ref() == Some(&run.text);
                let launched = kept.record.desired == Desired::Launched;
                if let Some(run) = run.filter(|run| launched && of(run)) {
                    let (boot, told, life) = (machine.boot, kept.modified, run.life);
                    all.push(Ran { machine: number, boot, unit: unit.clone(), told, life });
                }
            }
        }
        all
    }

    /// A fleetd begins: in time, if none of the claims that exclusive units run by there is to be given
    /// up yet, by what the one before it can have kept of it.
    pub fn remember_anew(&mut self, machine: usize) {
        let one = &self.machines[machine];
        // Two thirds of the lease, by clocks that run apart.
        let patience = self.plan.ttl * 2 / 3 * 98 / 100;
        let lives = |name: &String| {
            let unit = UnitName::new(name).ok();
            let claim = unit.and_then(|unit| self.truth.claim_of(&unit, &one.id));
            let sign = claim.and_then(|kept| self.etcd.signs.get(&(machine, kept.lease)));
            let known = |sign: &Sign| sign.known_at(one.down_until.saturating_sub(KEPT));
            sign.is_some_and(|sign| known(sign) + patience > self.now)
        };
        let mut exclusive = one.init.runs.iter().filter(|(_, run)| is_exclusive(&run.text));
        // An init that does not answer is told again and again.
        let answered = self.plan.rates.init == 0;
        if answered && exclusive.all(|(name, _)| lives(name)) {
            self.book.anew.insert(machine, one.down_until);
        } else {
            self.book.anew.remove(&machine);
        }
    }

    /// What a fleetd that begins finds of the one before it.
    pub fn recalled(&self, machine: usize) -> Recalled {
        let kept = self.book.recalled.get(&machine);
        let kept = kept.filter(|(boot, _)| *boot == self.machines[machine].boot);
        kept.map(|(_, recalled)| recalled.clone()).unwrap_or_default()
    }
}

/// A fleetd keeps what the next one is to find.
pub fn keeper(shared: &Shared, machine: usize) -> Keep {
    let shared = shared.clone();
    let boot = lock(&shared).machines[machine].boot;
    Box::new(move |recalled| {
        lock(&shared).book.recalled.insert(machine, (boot, recalled.clone()));
    })
}
