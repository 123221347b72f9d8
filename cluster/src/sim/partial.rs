//! Incomplete readings that look complete. The cause may be an etcd user with too few rights, a
//! member that lost data, or a proxy that truncates answers. For a while all full readings of one
//! machine are incomplete. [`crate::sim::invariant`] judges the machine's reaction.

use crate::machine::MachineId;
use crate::sim::watch::WatchFault;
use crate::sim::world::{Event, World};
use crate::snapshot::Snapshot;
use crate::transaction::Reading;
use crate::unit_name::UnitName;
use std::time::Duration;

/// Time until an answer that was in flight has arrived and its watch exists.
const ON_ITS_WAY: Duration = Duration::from_secs(3);
/// A machine without faults for this long has read everything.
const READ_AGAIN: Duration = Duration::from_secs(8);

/// The missing part of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// All keys.
    All,
    /// All keys of these kinds.
    Kinds(&'static [&'static str]),
    /// About half of the keys of these kinds: those with an odd sum of bytes.
    Half(&'static [&'static str]),
}

/// All kinds of keys that define units and their machines.
pub const OF_UNITS: &[&str] = &["unit/", "desired/", "place/", "schedule/", "global/"];

impl Hidden {
    /// Returns the reading without the hidden part.
    fn cut(self, root: &str, mut reading: Reading) -> Reading {
        let is_of = |key: &str, kinds: &[&str]| {
            let rest = key.strip_prefix(root).unwrap_or_default();
            kinds.iter().any(|kind| rest.starts_with(kind))
        };
        let is_odd = |key: &str| key.bytes().map(u32::from).sum::<u32>() % 2 == 1;
        reading.entries.retain(|entry| match self {
            Hidden::All => false,
            Hidden::Kinds(kinds) => !is_of(&entry.key, kinds),
            Hidden::Half(kinds) => !(is_of(&entry.key, kinds) && is_odd(&entry.key)),
        });
        reading
    }
}

/// Returns true if the unit was destroyed, but its machine got no event and withholds it.
pub fn is_withheld(world: &World, id: &MachineId, name: &UnitName) -> bool {
    let machines = world.machines.iter().filter(|machine| machine.id == *id);
    let mut seen = machines.filter_map(|one| Some(one.fleetd.as_ref()?.daemon.cache.snapshot()));
    !world.truth.units.contains_key(name) && seen.any(|seen| seen.withheld.contains(name))
}

impl World {
    /// Makes a machine's readings incomplete from now on, and makes it read again.
    pub(super) fn hide(&mut self, machine: usize, what: Hidden, time: Duration) {
        self.coverage.count("incomplete readings");
        let until = self.now + time;
        self.machines[machine].hidden = Some((what, until));
        self.book.sees_part.insert(machine);
        self.each_watch(machine, WatchFault::Broken);
        self.trouble(machine, until + ON_ITS_WAY);
        self.plan_at(until + ON_ITS_WAY, Event::Rouse(machine));
    }

    /// Makes all readings complete again.
    pub(super) fn hide_no_more(&mut self, machine: usize) {
        let now = self.now;
        if let Some((_, until)) = self.machines[machine].hidden.as_mut() {
            *until = now.min(*until);
            self.plan_in(ON_ITS_WAY, Event::Rouse(machine));
        }
    }

    /// Makes the machine read again after an incomplete reading.
    pub(super) fn end_hiding(&mut self, machine: usize) {
        if self.machines[machine].hidden.is_some_and(|(_, until)| until + ON_ITS_WAY <= self.now) {
            self.machines[machine].hidden = None;
            self.each_watch(machine, WatchFault::Broken);
        }
    }

    /// Returns the reading as the machine sees it.
    pub(super) fn as_read(&self, machine: usize, prefix: &str, reading: Reading) -> Reading {
        match self.machines[machine].hidden.filter(|(_, until)| self.now < *until) {
            Some((what, _)) if prefix == self.truth.keys().root() => what.cut(prefix, reading),
            _ => reading,
        }
    }

    /// Records which machines may still see an incomplete state.
    pub fn note_partial(&mut self) {
        let seen: Vec<usize> = self.book.sees_part.iter().copied().collect();
        for machine in seen {
            let one = &self.machines[machine];
            let withholds = |snapshot: &Snapshot| !snapshot.withheld.is_empty();
            if one.fleetd.as_ref().is_some_and(|one| withholds(&one.daemon.cache.snapshot())) {
                self.coverage.count("units withheld");
            }
            if one.hidden.is_none() && self.is_calm(machine, READ_AGAIN) {
                self.book.sees_part.remove(&machine);
            }
        }
    }
}
