//! Access to cells by index, and the one place that changes a phase: it keeps timers, runs and
//! slots consistent with the phases.

use super::cell::Cell;
use super::mutant::Mutant;
use super::phase::Phase;
use super::timer::Key;
use super::{Ix, Machine};
use crate::text::time::Time;
use crate::unit::generation::{Unit, UnitId};

impl Machine {
    // --- cells ----------------------------------------------------------------

    pub(super) fn cell(&self, ix: Ix) -> &Cell {
        self.cells.get(ix as usize).unwrap_or(&self.empty)
    }

    pub(super) fn cell_mut(&mut self, ix: Ix) -> &mut Cell {
        match self.cells.get_mut(ix as usize) {
            Some(cell) => {
                if !std::mem::replace(&mut cell.changed, true) {
                    self.changed.push(ix);
                }
                cell
            }
            None => &mut self.empty,
        }
    }

    /// Returns the present definition, or `None` for a removed unit.
    pub(super) fn unit(&self, ix: Ix) -> Option<&Unit> {
        self.generation.unit(UnitId(ix))
    }

    pub(super) fn all(&self) -> Vec<Ix> {
        (0..u32::try_from(self.cells.len()).unwrap_or(u32::MAX)).collect()
    }

    pub(super) fn removed_ixs(&self) -> Vec<Ix> {
        self.all().into_iter().skip(self.generation.units.len()).collect()
    }

    pub(super) fn removed_name(&self, ix: Ix) -> Option<&crate::text::name::Name> {
        self.removed_units.get((ix as usize).checked_sub(self.generation.units.len())?)
    }

    pub(super) fn name(&self, ix: Ix) -> crate::text::name::Name {
        let own = self.unit(ix).map(|unit| &unit.name).or_else(|| self.removed_name(ix));
        own.unwrap_or(&self.generation.settings.default_target).clone()
    }

    /// Returns the sort key of a unit in the order of names, removed units included.
    pub(super) fn key(&self, ix: Ix) -> Key {
        match self.removed_name(ix) {
            None => (ix, u32::MAX, ix),
            Some(name) => {
                let place = self.generation.units.partition_point(|unit| unit.name < *name);
                (u32::try_from(place).unwrap_or(u32::MAX), ix, ix)
            }
        }
    }

    pub(super) fn show_later(&mut self, ix: Ix) {
        let cell = self.cell_mut(ix);
        if !std::mem::replace(&mut cell.touched, true) {
            self.touched.push(ix);
        }
    }

    // --- phases ---------------------------------------------------------------

    /// Removes a phase's deadlines, run and slot.
    pub(super) fn disarm(&mut self, ix: Ix, phase: &Phase) {
        let key = self.key(ix);
        self.timers.disarm(key, phase.deadlines());
        if let Some(run) = phase.run() {
            self.runs.remove(&run.id);
        }
        if phase.holds_slot() {
            self.slots_used = self.slots_used.saturating_sub(1);
        }
    }

    /// Enters a phase and adds its deadlines, run and slot. The caller has removed those of the
    /// previous phase.
    pub(super) fn put_phase(&mut self, ix: Ix, phase: Phase) {
        let key = self.key(ix);
        let rings = |at: &Time| *at < Time::HALF || !self.planted(Mutant::DeadlineSigned);
        let deadlines = phase.deadlines().map(|deadline| deadline.filter(|(at, _)| rings(at)));
        self.timers.arm(key, deadlines);
        if let Some(run) = phase.run() {
            self.runs.insert(run.id, ix);
        }
        if phase.holds_slot() {
            self.slots_used = self.slots_used.saturating_add(1);
        }
        self.cell_mut(ix).phase = phase;
        self.mark(ix);
    }

    pub(super) fn set_phase(&mut self, ix: Ix, phase: Phase) {
        let before = std::mem::take(&mut self.cell_mut(ix).phase);
        self.disarm(ix, &before);
        self.put_phase(ix, phase);
    }
}
