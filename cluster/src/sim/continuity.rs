//! What goes on over an end: what runs when the engine that led is gone, and what a fleetd finds of
//! the one before it.

use crate::desired::Desired;
use crate::fleetd::recollection::Recalled;
use crate::sim::local_init::{Phase, Run, is_exclusive};
use crate::sim::world::World;
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
        for (number, machine) in self.machines.iter().enumerate() {
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

    /// Each fleetd keeps what the next one is to find.
    pub fn recollect(&mut self) {
        for machine in 0..self.machines.len() {
            let before = self.recalled(machine);
            let one = &self.machines[machine];
            let Some(fleetd) = &one.fleetd else { continue };
            let next = Recalled::of(&fleetd.daemon.mirror, &one.id, &before.ran);
            if let Some(next) = next.filter(|next| next.known != before.known) {
                self.book.recalled.insert(machine, (one.boot, next));
            }
        }
    }
}
