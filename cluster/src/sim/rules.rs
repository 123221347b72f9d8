//! The placement rules, restated naively from etcd's contents alone, as an independent check of the
//! scheduler.

use crate::desired::Desired;
use crate::machine::MachineId;
use crate::requirement::Requirement;
use crate::snapshot::Snapshot;
use crate::unit_name::UnitName;
use groundstate_units::text::glob;
use std::collections::{BTreeMap, BTreeSet};

fn asks<'p>(snapshot: &'p Snapshot, name: &UnitName) -> Option<&'p Requirement> {
    Some(&*snapshot.units.get(name)?.record.asks)
}

/// Returns true if the engine should place the unit.
pub fn is_wanted(snapshot: &Snapshot, name: &UnitName) -> bool {
    let scheduled = asks(snapshot, name).is_some_and(|asks| !asks.global);
    scheduled && !name.is_template() && snapshot.desired_of(name) != Desired::Inactive
}

/// Returns true if one of the units conflicts with the other.
fn apart(snapshot: &Snapshot, one: &UnitName, other: &UnitName) -> bool {
    let names = |a: &UnitName, b: &UnitName| {
        asks(snapshot, a).is_some_and(|asks| {
            asks.conflicts.iter().any(|pattern| glob::matches(pattern, b.as_str()))
        })
    };
    names(one, other) || names(other, one)
}

fn replaces(snapshot: &Snapshot, one: &UnitName, other: &UnitName) -> bool {
    asks(snapshot, one).is_some_and(|asks| {
        asks.replaces.iter().any(|pattern| glob::matches(pattern, other.as_str()))
    })
}

/// Returns a unit that would displace itself through the units it replaces.
pub fn ring(snapshot: &Snapshot) -> Option<&UnitName> {
    let all = || snapshot.units.keys().filter(|name| !name.is_template());
    all().find(|first| {
        let mut reached: BTreeSet<&UnitName> = BTreeSet::from([*first]);
        let mut next: Vec<&UnitName> = vec![first];
        while let Some(at) = next.pop() {
            for other in all().filter(|other| *other != at && replaces(snapshot, at, other)) {
                if other == *first {
                    return true;
                }
                if reached.insert(other) {
                    next.push(other);
                }
            }
        }
        false
    })
}

/// Returns a machine's metadata with overrides.
fn metadata(snapshot: &Snapshot, id: &MachineId) -> BTreeMap<String, String> {
    let own = snapshot.machines.get(id).map(|kept| kept.record.metadata.clone());
    with_overrides(snapshot, id, own.unwrap_or_default())
}

/// Applies the overrides to a machine's present or last metadata.
fn with_overrides(
    snapshot: &Snapshot,
    id: &MachineId,
    mut all: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    for (key, over) in snapshot.metadata.get(id).into_iter().flatten() {
        match &over.record.value {
            Some(value) => all.insert(key.clone(), value.clone()),
            None => all.remove(key),
        };
    }
    all
}

fn has_all(has: &BTreeMap<String, String>, asks: &Requirement) -> bool {
    asks.metadata.iter().all(|(key, any)| has.get(key).is_some_and(|value| any.contains(value)))
}

/// Returns the units that the engine placed on a machine.
pub fn on(snapshot: &Snapshot, id: &MachineId) -> BTreeSet<UnitName> {
    let places = snapshot.places.iter().filter(|(_, kept)| kept.record.machine == *id);
    places.map(|(name, _)| name.clone()).collect()
}

/// Returns the global units that belong on a machine. Of two that conflict, only the one wanted
/// earlier is included.
pub fn globals(snapshot: &Snapshot, id: &MachineId) -> BTreeSet<UnitName> {
    globals_by(snapshot, id, &metadata(snapshot, id))
}

/// Like [`globals`], for the metadata `has`.
fn globals_by(
    snapshot: &Snapshot,
    id: &MachineId,
    has: &BTreeMap<String, String>,
) -> BTreeSet<UnitName> {
    let mut there = on(snapshot, id);
    let mut chosen = BTreeSet::new();
    let mut by_age: Vec<_> = snapshot.globals.iter().collect();
    by_age.sort_by_key(|(_, kept)| kept.created);
    for (name, kept) in by_age {
        let wanted = kept.record.desired != Desired::Inactive && !name.is_template();
        let fits = asks(snapshot, name).is_some_and(|asks| has_all(has, asks));
        if wanted && fits && there.iter().all(|other| !apart(snapshot, name, other)) {
            chosen.insert(name.clone());
            there.insert(name.clone());
        }
    }
    chosen
}

/// Returns true if the unit should run, has no place, and may be on that machine: if it runs there,
/// it keeps running. A follower is excluded if a unit that it follows has no place there.
pub fn may_keep_running(snapshot: &Snapshot, id: &MachineId, name: &UnitName) -> bool {
    let launched = snapshot.desired_of(name) == Desired::Launched && is_wanted(snapshot, name);
    launched && is_nowhere(snapshot, name) && refusal(snapshot, id, name).is_none()
}

/// Returns true if the unit has no place and needs no claim.
pub fn is_nowhere(snapshot: &Snapshot, name: &UnitName) -> bool {
    let bound = asks(snapshot, name).is_none_or(|asks| asks.exclusive);
    !bound && snapshot.place_of(name).is_none()
}

/// Returns why a unit may not be on a machine beside the units placed there, or `None` if it may.
pub fn refusal(snapshot: &Snapshot, id: &MachineId, name: &UnitName) -> Option<String> {
    if !snapshot.machines.contains_key(id) {
        return Some("the machine is not registered".to_string());
    }
    stays_refused(snapshot, id, name)
}

/// Like [`refusal`], also for a machine that is not registered.
pub fn stays_refused(snapshot: &Snapshot, id: &MachineId, name: &UnitName) -> Option<String> {
    refused_by(snapshot, id, name, &metadata(snapshot, id))
}

/// Like [`stays_refused`], for a machine that is gone, with its last metadata.
pub fn away_refused(
    snapshot: &Snapshot,
    id: &MachineId,
    name: &UnitName,
    last_metadata: &BTreeMap<String, String>,
) -> Option<String> {
    refused_by(snapshot, id, name, &with_overrides(snapshot, id, last_metadata.clone()))
}

fn refused_by(
    snapshot: &Snapshot,
    id: &MachineId,
    name: &UnitName,
    has: &BTreeMap<String, String>,
) -> Option<String> {
    let asks = asks(snapshot, name)?;
    if snapshot.drains.contains_key(id) {
        return Some("the machine is being drained".to_string());
    }
    if asks.machine_id.as_deref().is_some_and(|wanted| wanted != id.as_str()) {
        return Some("MachineID".to_string());
    }
    if !has_all(has, asks) {
        return Some("metadata".to_string());
    }
    let scheduled = on(snapshot, id);
    let globals = globals_by(snapshot, id, has);
    let there =
        |peer: &String| scheduled.contains(peer.as_str()) || globals.contains(peer.as_str());
    if !asks.peers.iter().all(there) {
        return Some("MachineOf".to_string());
    }
    for other in scheduled.iter().chain(&globals).filter(|other| *other != name) {
        if apart(snapshot, name, other) {
            return Some(format!("{other} conflicts"));
        }
        if replaces(snapshot, other, name) && !replaces(snapshot, name, other) {
            return Some(format!("{other} replaces it"));
        }
    }
    None
}
