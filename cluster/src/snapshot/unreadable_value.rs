//! Substitutes for unreadable values: the previous value, or the facts that other keys imply. An
//! unreadable value is never treated as absent. [`crate::record`] defines the values.

use super::{Kept, Snapshot};
use crate::desired::Desired;
use crate::key::Subject;
use crate::machine::MachineId;
use crate::record::{DesiredRecord, PlaceRecord, ScheduleRecord};
use crate::unit_name::UnitName;
use std::collections::BTreeMap;

impl Snapshot {
    /// Keeps from `before` the values that are unreadable now.
    pub(super) fn carry_over(&mut self, before: &Snapshot) {
        for subject in self.unreadable_subjects() {
            match &subject {
                Subject::Cluster => self.cluster.clone_from(&before.cluster),
                Subject::Leader => self.leader.clone_from(&before.leader),
                Subject::Unit(name) => carry(&mut self.units, &before.units, name),
                Subject::Desired(name) => carry(&mut self.desired, &before.desired, name),
                Subject::Place(name) => carry(&mut self.places, &before.places, name),
                Subject::Global(name) => carry(&mut self.globals, &before.globals, name),
                Subject::Why(name) => carry(&mut self.whys, &before.whys, name),
                Subject::Machine(id) => carry(&mut self.machines, &before.machines, id),
                Subject::Schedule(machine, name) => {
                    carry_of(&mut self.schedules, &before.schedules, machine, name);
                }
                Subject::Metadata(id, key) => {
                    carry_of(&mut self.metadata, &before.metadata, id, key);
                }
                Subject::State(machine, name) => {
                    carry_of(&mut self.states, &before.states, name, machine);
                }
                // These keys count without their value.
                Subject::Claim(..) | Subject::Drain(_) => {}
            }
        }
    }

    /// Derives places and desired states from other keys where no previous value is known.
    pub(super) fn restore_unreadable(&mut self) {
        let unreadable = self.unreadable_subjects();
        for subject in &unreadable {
            if let Subject::Place(name) = subject {
                self.restore_place(name, &unreadable);
            }
        }
        for subject in &unreadable {
            if let Subject::Desired(name) = subject {
                let entry = self.globals.get(name).or_else(|| self.schedule_of(name));
                let desired = entry.map(|entry| entry.record.desired);
                let desired = desired.or_else(|| self.desired_by_place(name, &unreadable));
                let substitute =
                    desired.map(|desired| self.substitute_for(subject, DesiredRecord { desired }));
                self.desired.extend(substitute.map(|substitute| (name.clone(), substitute)));
            }
        }
        for subject in &unreadable {
            if let Subject::Schedule(machine, name) = subject
                && self.place_of(name) == Some(machine)
            {
                let substitute = self.with_desired(subject, name);
                let schedule = self.schedules.entry(machine.clone()).or_default();
                schedule.extend(substitute.map(|substitute| (name.clone(), substitute)));
            } else if let Subject::Global(name) = subject
                && self.asks_to_be_global(name) == Some(true)
            {
                let substitute = self.with_desired(subject, name);
                self.globals.extend(substitute.map(|substitute| (name.clone(), substitute)));
            }
        }
    }

    /// Returns true if [`Self::unreadable_key`] finds a key.
    pub fn is_unreadable(&self, id: &MachineId) -> bool {
        self.unreadable_key(id).is_some()
    }

    /// Returns the first key of a machine, its record or an override, whose value is unreadable and
    /// has no known previous value. The machine need not be registered.
    pub fn unreadable_key(&self, id: &MachineId) -> Option<&str> {
        if self.set_aside.is_empty() {
            return None;
        }
        let machine = self.keys.of(&Subject::Machine(id.clone()));
        let machine = self.set_aside.get_key_value(&machine).map(|(key, _)| key);
        let override_prefix = self.keys.of(&Subject::Metadata(id.clone(), String::new()));
        let is_known = |key: &str| {
            let name = key.strip_prefix(&override_prefix).unwrap_or_default();
            self.metadata.get(id).is_some_and(|over| over.contains_key(name))
        };
        let over = self.set_aside.range(override_prefix.clone()..).map(|(key, _)| key);
        let mut over = over.take_while(|key| key.starts_with(&override_prefix));
        let machine = machine.filter(|_| !self.machines.contains_key(id));
        machine.or_else(|| over.find(|key| !is_known(key))).map(String::as_str)
    }

    /// Subjects with an unreadable value and no known one.
    fn unreadable_subjects(&self) -> Vec<Subject> {
        self.set_aside
            .keys()
            .filter_map(|key| self.keys.subject(key))
            .filter(|subject| !self.knows(subject))
            .collect()
    }

    fn knows(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Cluster => self.cluster.is_some(),
            Subject::Leader => self.leader.is_some(),
            Subject::Unit(name) => self.units.contains_key(name),
            Subject::Desired(name) => self.desired.contains_key(name),
            Subject::Place(name) => self.places.contains_key(name),
            Subject::Global(name) => self.globals.contains_key(name),
            Subject::Why(name) => self.whys.contains_key(name),
            Subject::Machine(id) => self.machines.contains_key(id),
            Subject::Schedule(machine, name) => {
                self.schedules.get(machine).is_some_and(|schedule| schedule.contains_key(name))
            }
            Subject::Metadata(id, key) => {
                self.metadata.get(id).is_some_and(|over| over.contains_key(key))
            }
            Subject::State(machine, name) => {
                self.states.get(name).is_some_and(|on| on.contains_key(machine))
            }
            Subject::Claim(..) | Subject::Drain(_) => true,
        }
    }

    fn restore_place(&mut self, name: &UnitName, unreadable: &[Subject]) {
        let schedule = self.schedules.iter().find(|(_, schedule)| schedule.contains_key(name));
        let mut keys = unreadable.iter();
        let by_key = || {
            keys.find_map(|subject| {
                let Subject::Schedule(machine, of) = subject else { return None };
                (of == name).then_some(machine)
            })
        };
        let Some(machine) = schedule.map(|(machine, _)| machine).or_else(by_key).cloned() else {
            return;
        };
        let substitute =
            self.substitute_for(&Subject::Place(name.clone()), PlaceRecord { machine });
        self.places.insert(name.clone(), substitute);
    }

    /// The entry of the unit in its machine's schedule.
    fn schedule_of(&self, name: &UnitName) -> Option<&Kept<ScheduleRecord>> {
        self.schedules.get(self.place_of(name)?)?.get(name)
    }

    /// Derives the desired state of a unit with a place or a global key. Such a unit is wanted,
    /// because both keys are deleted when it is not. The result is the state that its machine has
    /// reached, or `launched` if the machine has reached none.
    fn desired_by_place(&self, name: &UnitName, unreadable: &[Subject]) -> Option<Desired> {
        let place = self.place_of(name);
        let may_be_global = unreadable.contains(&Subject::Global(name.clone()))
            && self.asks_to_be_global(name) != Some(false);
        if place.is_none() && !may_be_global {
            return None;
        }
        let states = self.states.get(name).into_iter().flatten();
        let own = states.filter(|(machine, _)| place.is_none_or(|place| place == *machine));
        let reached = own.map(|(_, kept)| kept.record.reached).max();
        reached.filter(|reached| *reached != Desired::Inactive).or(Some(Desired::Launched))
    }

    /// Returns whether the unit's file says `Global`, or `None` if the file is unreadable. The
    /// global key is no evidence, because another program may have written it.
    fn asks_to_be_global(&self, name: &UnitName) -> Option<bool> {
        self.units.get(name).map(|kept| kept.record.asks.global)
    }

    /// The schedule entry that the desired state implies.
    fn with_desired(&self, subject: &Subject, name: &UnitName) -> Option<Kept<ScheduleRecord>> {
        let desired = self.desired_of(name);
        let hash = self.units.get(name)?.record.hash.clone();
        let is_wanted = desired != Desired::Inactive;
        is_wanted.then(|| self.substitute_for(subject, ScheduleRecord::new(desired, hash)))
    }

    fn substitute_for<T>(&self, subject: &Subject, record: T) -> Kept<T> {
        let written = self.unread_since(&self.keys.of(subject)).unwrap_or_default();
        Kept { record, created: written, modified: written, lease: 0 }
    }
}

fn carry<K: Clone + Ord, V: Clone>(map: &mut BTreeMap<K, V>, before: &BTreeMap<K, V>, key: &K) {
    map.extend(before.get(key).map(|known| (key.clone(), known.clone())));
}

fn carry_of<A: Clone + Ord, B: Clone + Ord, V: Clone>(
    map: &mut BTreeMap<A, BTreeMap<B, V>>,
    before: &BTreeMap<A, BTreeMap<B, V>>,
    outer: &A,
    inner: &B,
) {
    if let Some(known) = before.get(outer).and_then(|of| of.get(inner)) {
        map.entry(outer.clone()).or_default().insert(inner.clone(), known.clone());
    }
}
