//! What lives as the machine begins anew ([`super::there`]) is needed, as it must have been: its trigger
//! has fired, or else it is wished for. What was to be stopped and waited for the end of another is
//! wished for by nobody, but while something lives that nobody knows the file of, and that could need it:
//! so long it is spared.

use super::action::Action;
use super::mutant::Mutant;
use super::there::{Ends, There};
use super::{Ix, Machine};
use crate::generation::{Generation, UnitId};
use crate::name::Name;
use crate::time::Time;
use std::collections::BTreeSet;

impl Machine {
    /// Wished for by nobody else: what is due, as long as something lives that could need it.
    pub fn spared(&self) -> &BTreeSet<Name> {
        &self.spared
    }

    /// The same in an init that goes on as another image.
    pub fn spared_before(&mut self, spared: BTreeSet<Name>) {
        self.spared = spared;
    }

    /// With the boot, and with each generation that may have corrected its file.
    pub(super) fn need_what_lives(&mut self, now: Time, out: &mut Vec<Action>) {
        let waits = self.waits_for_a_file();
        if self.there.is_empty() {
            return self.spare_no_longer(now, waits);
        }
        let spared = if waits { self.spare_the_due() } else { BTreeSet::new() };
        let (told, due) = (Mutant::WhatEndsIsWanted, Mutant::WhatIsDueIsWanted);
        let (told, due) = (self.planted(told), self.planted(due));
        let is_wanted = |there: &There| match there.ends {
            Ends::No => there.lives,
            Ends::Told => there.lives && told,
            Ends::Due => there.lives && due,
        };
        let alive = self.there.iter().filter(|(_, there)| is_wanted(there));
        let alive = alive.map(|(name, _)| name);
        let names: BTreeSet<Name> = alive.chain(&spared).cloned().collect();
        if !self.planted(Mutant::WhatLivesIsUnwanted) {
            names.into_iter().for_each(|name| self.need_one(now, name, &spared, out));
        }
        let generation = self.generation.clone();
        let undone = self.planted(Mutant::WhatIsDoneIsNotUndone);
        let mut there = std::mem::take(&mut self.there);
        there.retain(|name, there| {
            let Some(unit) = generation.find_unit(name.as_str()) else {
                return there.lives && !self.planted(Mutant::WhatIsAwayIsForgotten);
            };
            let is_usable = generation.unit(unit).is_some_and(|unit| unit.fault.is_none());
            let is_to_end = there.ends != Ends::No && !undone;
            there.lives || ((self.cell(unit.0).needed || is_to_end) && is_usable)
        });
        self.there = there;
        self.spare_no_longer(now, waits);
        self.ground(now);
    }

    /// What lives without a usable file begins only later, and could need any of those that wait for
    /// their stop.
    fn waits_for_a_file(&self) -> bool {
        self.there.iter().any(|(name, there)| there.lives && !is_usable(&self.generation, name))
    }

    /// None of those that begin is to be stopped any more. Scripts that are done are none the less.
    fn spare_the_due(&mut self) -> BTreeSet<Name> {
        let generation = &self.generation;
        let due = self
            .there
            .iter_mut()
            .filter(|(name, there)| there.ends == Ends::Due && is_usable(generation, name));
        let spared = due.map(|(name, there)| {
            there.ends = Ends::No;
            name.clone()
        });
        spared.collect()
    }

    /// What could need them has begun, and does or not, or has ended: nobody else wishes for them.
    fn spare_no_longer(&mut self, now: Time, waits: bool) {
        if waits || self.spared.is_empty() || self.planted(Mutant::WhatIsSparedIsWantedForEver) {
            return;
        }
        for name in std::mem::take(&mut self.spared) {
            self.wish.want.remove(&name);
        }
        self.ground(now);
    }

    /// A trigger had fired, somebody was connected to it, or it had been wished for.
    fn need_one(&mut self, now: Time, name: Name, spared: &BTreeSet<Name>, out: &mut Vec<Action>) {
        let Some(UnitId(ix)) = self.generation.find_unit(name.as_str()) else { return };
        if self.cell(ix).needed {
            return;
        }
        let triggers = self.triggers.iter().copied();
        let mut holders: Vec<Ix> = triggers.filter(|t| self.activated(*t) == Some(ix)).collect();
        holders.extend(self.is_place(UnitId(ix)).then_some(ix));
        for holder in holders {
            let cell = self.cell_mut(holder);
            // What is not needed itself holds nobody.
            cell.fired = cell.needed || holder == ix;
        }
        self.ground(now);
        // What the operator has dropped was on its way down.
        if !self.cell(ix).needed && !self.graph.is_masked(UnitId(ix)) {
            // Refused, it begins all the same, and is stopped in order.
            let wish = self.wish_for(UnitId(ix), &name);
            let is_wanted = self.want(now, wish.clone(), None, out).is_ok();
            self.spared.extend(Some(wish).filter(|_| is_wanted && spared.contains(&name)));
            self.ground(now);
        }
    }

    /// What to wish for to mean this unit: its name may be another's target.
    fn wish_for(&self, unit: UnitId, name: &Name) -> Name {
        let is_meant = |name: &Name| self.graph.meant(&self.generation, name).unit() == Some(unit);
        let own = self.generation.unit(unit).map_or(&[][..], |unit| &unit.provides);
        let targets = own.iter().filter_map(|target| self.generation.target(*target));
        let mut wishes = std::iter::once(name).chain(targets.map(|target| &target.name));
        wishes.find(|name| is_meant(name)).unwrap_or(name).clone()
    }
}

fn is_usable(generation: &Generation, name: &Name) -> bool {
    let unit = generation.find_unit(name.as_str());
    unit.and_then(|unit| generation.unit(unit)).is_some_and(|unit| unit.fault.is_none())
}
