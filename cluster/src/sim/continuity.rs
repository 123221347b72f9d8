//! What goes on over an end: what runs when the engine that led is gone, and what a fleetd finds of
//! the one before it.

use crate::desired::Desired;
use crate::fleetd::recollection::{Keep, Recalled};
use crate::sim::local_init::{Phase, Run, is_exclusive};
use crate::sim::world::{Shared, World, lock};
use crate::unit_name::UnitName;

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
