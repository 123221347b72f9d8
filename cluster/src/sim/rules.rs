//! What may be where, said once more and naively, from what etcd holds alone: so that the
//! board's cleverness is judged by something else than itself.

use crate::desired::Desired;
use crate::glob;
use crate::machine::MachineId;
use crate::picture::Picture;
use crate::requirement::Requirement;
use crate::unit_name::UnitName;
use std::collections::{BTreeMap, BTreeSet};

fn asks<'p>(picture: &'p Picture, name: &UnitName) -> Option<&'p Requirement> {
    Some(&*picture.units.get(name)?.record.asks)
}

/// It is to be on a machine, by the engine's doing.
pub fn is_wanted(picture: &Picture, name: &UnitName) -> bool {
    let scheduled = asks(picture, name).is_some_and(|asks| !asks.global);
    scheduled && !name.is_template() && picture.desired_of(name) != Desired::Inactive
}

/// One of them may not be beside the other.
fn apart(picture: &Picture, one: &UnitName, other: &UnitName) -> bool {
    let names = |a: &UnitName, b: &UnitName| {
        asks(picture, a).is_some_and(|asks| {
            asks.conflicts.iter().any(|pattern| glob::matches(pattern, b.as_str()))
        })
    };
    names(one, other) || names(other, one)
}

fn replaces(picture: &Picture, one: &UnitName, other: &UnitName) -> bool {
    asks(picture, one).is_some_and(|asks| {
        asks.replaces.iter().any(|pattern| glob::matches(pattern, other.as_str()))
    })
}

/// A unit that would drive itself away in the end, by way of those it replaces.
pub fn ring(picture: &Picture) -> Option<&UnitName> {
    let all = || picture.units.keys().filter(|name| !name.is_template());
    all().find(|first| {
        let mut reached: BTreeSet<&UnitName> = BTreeSet::from([*first]);
        let mut next: Vec<&UnitName> = vec![first];
        while let Some(at) = next.pop() {
            for other in all().filter(|other| *other != at && replaces(picture, at, other)) {
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
fn metadata(picture: &Picture, id: &MachineId) -> BTreeMap<String, String> {
    let own = picture.machines.get(id).map(|kept| kept.record.metadata.clone());
    laid_over(picture, id, own.unwrap_or_default())
}

/// What was laid over that, which it says or said.
fn laid_over(
    picture: &Picture,
    id: &MachineId,
    mut all: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    for (key, over) in picture.metadata.get(id).into_iter().flatten() {
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
pub fn on(picture: &Picture, id: &MachineId) -> BTreeSet<UnitName> {
    let places = picture.places.iter().filter(|(_, kept)| kept.record.machine == *id);
    places.map(|(name, _)| name.clone()).collect()
}

/// The global units that are to be on a machine: of two that conflict, the one wished for earlier.
pub fn globals(picture: &Picture, id: &MachineId) -> BTreeSet<UnitName> {
    globals_by(picture, id, &metadata(picture, id))
}

/// The same of one that `has` that metadata.
fn globals_by(
    picture: &Picture,
    id: &MachineId,
    has: &BTreeMap<String, String>,
) -> BTreeSet<UnitName> {
    let mut there = on(picture, id);
    let mut chosen = BTreeSet::new();
    let mut by_wish: Vec<_> = picture.globals.iter().collect();
    by_wish.sort_by_key(|(_, kept)| kept.created);
    for (name, kept) in by_wish {
        let wanted = kept.record.desired != Desired::Inactive && !name.is_template();
        let fits = asks(picture, name).is_some_and(|asks| has_all(has, asks));
        if wanted && fits && there.iter().all(|other| !apart(picture, name, other)) {
            chosen.insert(name.clone());
            there.insert(name.clone());
        }
    }
    chosen
}

/// It is to run and is nowhere, and may be on that machine: where it runs there it goes on. Those
/// that follow another are left out: whether the other goes on there is no matter of places.
pub fn may_go_on(picture: &Picture, id: &MachineId, name: &UnitName) -> bool {
    let launched = picture.desired_of(name) == Desired::Launched && is_wanted(picture, name);
    launched && is_nowhere(picture, name) && refusal(picture, id, name).is_none()
}

/// It is on no machine, and may run without a claim.
pub fn is_nowhere(picture: &Picture, name: &UnitName) -> bool {
    let bound = asks(picture, name).is_none_or(|asks| asks.exclusive);
    !bound && picture.place_of(name).is_none()
}

/// Why a unit may not be on a machine, as if all else stayed where it is; `None`: it may.
pub fn refusal(picture: &Picture, id: &MachineId, name: &UnitName) -> Option<String> {
    if !picture.machines.contains_key(id) {
        return Some("the machine is not there".to_string());
    }
    stays_refused(picture, id, name)
}

/// The same of a machine that is not there any more, or not for now.
pub fn stays_refused(picture: &Picture, id: &MachineId, name: &UnitName) -> Option<String> {
    refused_by(picture, id, name, &metadata(picture, id))
}

/// The same of a machine that is not there, and of which is known what it `said` of itself.
pub fn away_refused(
    picture: &Picture,
    id: &MachineId,
    name: &UnitName,
    said: &BTreeMap<String, String>,
) -> Option<String> {
    refused_by(picture, id, name, &laid_over(picture, id, said.clone()))
}

fn refused_by(
    picture: &Picture,
    id: &MachineId,
    name: &UnitName,
    has: &BTreeMap<String, String>,
) -> Option<String> {
    let asks = asks(picture, name)?;
    if picture.drains.contains_key(id) {
        return Some("it is drained".to_string());
    }
    if asks.machine_id.as_deref().is_some_and(|wanted| wanted != id.as_str()) {
        return Some("MachineID".to_string());
    }
    if !has_all(has, asks) {
        return Some("metadata".to_string());
    }
    let scheduled = on(picture, id);
    let globals = globals_by(picture, id, has);
    let there =
        |peer: &String| scheduled.contains(peer.as_str()) || globals.contains(peer.as_str());
    if !asks.peers.iter().all(there) {
        return Some("MachineOf".to_string());
    }
    for other in scheduled.iter().chain(&globals).filter(|other| *other != name) {
        if apart(picture, name, other) {
            return Some(format!("{other} conflicts"));
        }
        if replaces(picture, other, name) && !replaces(picture, name, other) {
            return Some(format!("{other} replaces it"));
        }
    }
    None
}
