//! What may be where, said once more and naively, from what etcd holds alone: so that the
//! scheduler's cleverness is judged by something else than itself.

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

/// It is to be on a machine, by the engine's doing.
pub fn is_wanted(snapshot: &Snapshot, name: &UnitName) -> bool {
    let scheduled = asks(snapshot, name).is_some_and(|asks| !asks.global);
    scheduled && !name.is_template() && snapshot.desired_of(name) != Desired::Inactive
}

/// One of them may not be beside the other.
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

/// A unit that would drive itself away in the end, by way of those it replaces.
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

/// What a machine says of itself and what was laid over it.
fn metadata(snapshot: &Snapshot, id: &MachineId) -> BTreeMap<String, String> {
    let own = snapshot.machines.get(id).map(|kept| kept.record.metadata.clone());
    laid_over(snapshot, id, own.unwrap_or_default())
}

/// What was laid over that, which it says or said.
fn laid_over(
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

/// The units the engine put on a machine.
pub fn on(snapshot: &Snapshot, id: &MachineId) -> BTreeSet<UnitName> {
    let places = snapshot.places.iter().filter(|(_, kept)| kept.record.machine == *id);
    places.map(|(name, _)| name.clone()).collect()
}

/// The global units that are to be on a machine: of two that conflict, the one wished for earlier.
pub fn globals(snapshot: &Snapshot, id: &MachineId) -> BTreeSet<UnitName> {
    globals_by(snapshot, id, &metadata(snapshot, id))
}

/// The same of one that `has` that metadata.
fn globals_by(
    snapshot: &Snapshot,
    id: &MachineId,
    has: &BTreeMap<String, String>,
) -> BTreeSet<UnitName> {
    let mut there = on(snapshot, id);
    let mut chosen = BTreeSet::new();
    let mut by_wish: Vec<_> = snapshot.globals.iter().collect();
    by_wish.sort_by_key(|(_, kept)| kept.created);
    for (name, kept) in by_wish {
        let wanted = kept.record.desired != Desired::Inactive && !name.is_template();
        let fits = asks(snapshot, name).is_some_and(|asks| has_all(has, asks));
        if wanted && fits && there.iter().all(|other| !apart(snapshot, name, other)) {
            chosen.insert(name.clone());
            there.insert(name.clone());
        }
    }
    chosen
}

/// It is to run and is nowhere, and may be on that machine: where it runs there it goes on. Those
/// that follow another are left out: whether the other goes on there is no matter of places.
pub fn may_go_on(snapshot: &Snapshot, id: &MachineId, name: &UnitName) -> bool {
    let launched = snapshot.desired_of(name) == Desired::Launched && is_wanted(snapshot, name);
    launched && is_nowhere(snapshot, name) && refusal(snapshot, id, name).is_none()
}

/// It is on no machine, and may run without a claim.
pub fn is_nowhere(snapshot: &Snapshot, name: &UnitName) -> bool {
    let bound = asks(snapshot, name).is_none_or(|asks| asks.exclusive);
    !bound && snapshot.place_of(name).is_none()
}

/// Why a unit may not be on a machine, as if all else stayed where it is; `None`: it may.
pub fn refusal(snapshot: &Snapshot, id: &MachineId, name: &UnitName) -> Option<String> {
    if !snapshot.machines.contains_key(id) {
        return Some("the machine is not there".to_string());
    }
    stays_refused(snapshot, id, name)
}

/// The same of a machine that is not there any more, or not for now.
pub fn stays_refused(snapshot: &Snapshot, id: &MachineId, name: &UnitName) -> Option<String> {
    refused_by(snapshot, id, name, &metadata(snapshot, id))
}

/// The same of a machine that is not there, and of which is known what it `said` of itself.
pub fn away_refused(
    snapshot: &Snapshot,
    id: &MachineId,
    name: &UnitName,
    said: &BTreeMap<String, String>,
) -> Option<String> {
    refused_by(snapshot, id, name, &laid_over(snapshot, id, said.clone()))
}

fn refused_by(
    snapshot: &Snapshot,
    id: &MachineId,
    name: &UnitName,
    has: &BTreeMap<String, String>,
) -> Option<String> {
    let asks = asks(snapshot, name)?;
    if snapshot.drains.contains_key(id) {
        return Some("it is drained".to_string());
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
