//! C12, C13, C14 and C17: etcd's contents, registrations, and answers to clients.

use super::{Moment, Verdict, must};
use crate::desired::Desired;
use crate::key::Subject;
use crate::record::MachineRecord;
use crate::sim::book::Shape;
use crate::sim::client::Asked;
use crate::sim::partial::is_withheld;
use crate::sim::rules;
use crate::sim::world::World;
use crate::snapshot::{Kept, Snapshot};
use crate::transaction::Change;
use crate::unit_name::UnitName;
use std::collections::BTreeSet;
use std::time::Duration;

/// Time for which an evicted machine may act on its last snapshot.
const NEWS: Duration = Duration::from_secs(5);
/// Time within which a write to a foreign etcd is answered.
const FOREIGN_ANSWER: Duration = Duration::from_secs(1);

/// Returns true if this machine, and not its twin, is registered under its id.
pub(in crate::sim) fn is_member(world: &World, number: usize) -> bool {
    let machine = &world.machines[number];
    let there = world.truth.machines.get(&machine.id);
    there.is_some_and(|kept| machine.is_boot(&kept.record.boot))
}

/// No ring of Replaces is stored: its units would displace each other forever.
fn no_ring(truth: &Snapshot, changes: &[Change]) -> Verdict {
    let is_file = |change: &Change| match change {
        Change::Put(entry) => entry.key.starts_with(&truth.keys().units()),
        Change::Delete { .. } => false,
    };
    let ring = changes.iter().any(is_file).then(|| rules::ring(truth)).flatten();
    must(ring.is_none(), || format!("the unit {ring:?} displaces itself through Replaces"))
}

/// Schedules contain the desired state. Nothing is launched, or published as launched, without a
/// request. Invalid requests are refused.
pub(super) fn c12_states(world: &World, moment: &Moment<'_>) -> Verdict {
    let truth = &world.truth;
    let ever = |name: &UnitName| {
        let shapes = world.book.history.get(name).into_iter().flatten();
        let launched = |shape: &Shape| matches!(shape, Some((Desired::Launched, _)));
        shapes.into_iter().any(|(_, shape)| launched(shape))
    };
    match moment {
        Moment::Landed { changes, .. } => {
            no_ring(truth, changes)?;
            for (machine, schedule) in &truth.schedules {
                for (name, kept) in schedule {
                    let wish = truth.desired_of(name);
                    let hash = truth.units.get(name).map(|unit| &unit.record.hash);
                    let same = kept.record.desired == wish && Some(&kept.record.hash) == hash;
                    must(same, || {
                        format!("the schedule of {machine} has {kept:?} for {name}, desired {wish}")
                    })?;
                }
            }
            for (name, by) in &truth.states {
                let published = by.values().any(|kept| kept.record.reached == Desired::Launched);
                must(!published || ever(name), || {
                    format!("{name} is published as launched without a request")
                })?;
            }
            Ok(())
        }
        Moment::Put { added, .. } => {
            let unrequested = added.iter().find(|name| !ever(name));
            must(unrequested.is_none(), || format!("{unrequested:?} is launched without a request"))
        }
        Moment::Answered(asked) => {
            let template = asked.unit.as_ref().is_some_and(UnitName::is_template);
            let activates = !matches!(asked.desired, "" | "inactive");
            must(!(template && activates && asked.status < 300), || {
                "a template is launched".to_string()
            })
        }
        _ => Ok(()),
    }
}

fn schedule_is_place(truth: &Snapshot) -> Verdict {
    for (machine, schedule) in &truth.schedules {
        for name in schedule.keys() {
            let place = truth.place_of(name);
            must(place == Some(machine), || {
                format!("{machine} has {name} in its schedule, but its place is {place:?}")
            })?;
        }
    }
    for (name, kept) in &truth.places {
        let schedule = truth.schedules.get(&kept.record.machine);
        let is_scheduled = schedule.is_some_and(|schedule| schedule.contains_key(name));
        must(is_scheduled, || {
            format!("{name} has a place, but its machine has no schedule entry")
        })?;
    }
    Ok(())
}

/// Schedules and places agree; no key and no lease of a deleted subject is left.
pub(super) fn c13_no_leak(world: &World, moment: &Moment<'_>) -> Verdict {
    let truth = &world.truth;
    match moment {
        Moment::Landed { .. } => schedule_is_place(truth),
        Moment::Converged => {
            for (name, by) in &truth.states {
                for machine in by.keys() {
                    let is_scheduled =
                        truth.schedules.get(machine).is_some_and(|of| of.contains_key(name));
                    let here = is_scheduled || rules::globals(truth, machine).contains(name);
                    must(here || is_withheld(world, machine, name), || {
                        format!("{machine} still publishes a state of {name}")
                    })?;
                }
            }
            let claims =
                truth.claims.iter().flat_map(|(name, by)| by.keys().map(move |id| (name, id)));
            for (name, machine) in claims {
                let placed = truth.place_of(name) == Some(machine);
                must(placed, || {
                    format!("{machine} has a claim on {name}, which is placed elsewhere")
                })?;
            }
            for name in truth.whys.keys() {
                let nowhere = rules::is_wanted(truth, name) && truth.place_of(name).is_none();
                must(nowhere, || format!("a reason against placement of {name} is left"))?;
            }
            let machines = truth.machines.values().map(|kept| kept.lease);
            let leader = truth.leader.iter().map(|kept| kept.lease);
            let needed: BTreeSet<i64> = machines.chain(leader).collect();
            let leases: BTreeSet<i64> = world.etcd.leases.keys().copied().collect();
            must(leases == needed, || format!("leases {leases:?}, needed {needed:?}"))
        }
        _ => Ok(()),
    }
}

/// Each answer was true at some moment between request and answer, and a daemon never answers with
/// an older state than before.
pub(super) fn c14_api(world: &World, moment: &Moment<'_>) -> Verdict {
    let asked = match moment {
        Moment::Landed { changes, transaction: Some(_), .. } => {
            return metadata_is_asked_for(world, changes);
        }
        Moment::Answered(asked) => asked,
        _ => return Ok(()),
    };
    let (Some(unit), now) = (&asked.unit, world.truth.revision) else { return Ok(()) };
    // The answer may come from an incomplete reading.
    if world.book.sees_part.contains(&asked.at.0) {
        return Ok(());
    }
    // A write by a fleetd that did not know its cluster yet has no cluster condition, so any etcd
    // accepts it.
    let misled = world.machines[asked.at.0].foreign_until + FOREIGN_ANSWER >= world.now;
    if !asked.knew && misled {
        return Ok(());
    }
    match (asked.method, asked.status) {
        ("PUT", 201 | 204) => {
            let so = |shape: &Shape| {
                shape.as_ref().is_some_and(|(desired, hash)| {
                    let file = asked.hash.as_ref().is_none_or(|asked| asked == hash);
                    let wish = asked.desired.is_empty() || desired.as_str() == asked.desired;
                    file && wish
                })
            };
            let was = seen_since(world, asked, unit, now, so);
            must(was, || {
                format!("{unit}: PUT {} succeeded, but no revision shows it", asked.desired)
            })
        }
        ("DELETE", 204 | 404) => {
            let was = seen_since(world, asked, unit, now, Option::is_none);
            must(was, || format!("{unit}: DELETE succeeded, but the unit existed all the time"))
        }
        ("GET", 200 | 404) => {
            let body: serde_json::Value = serde_json::from_str(&asked.body).unwrap_or_default();
            let shown = body.get("desiredState").and_then(serde_json::Value::as_str);
            let so = |shape: &Shape| match shape {
                Some((desired, _)) => asked.status == 200 && shown == Some(desired.as_str()),
                None => asked.status == 404,
            };
            let slow = !world.is_calm(asked.at.0, Duration::from_secs(2));
            let floor = world.book.answered.get(&asked.at).copied().filter(|_| !slow);
            let floor = floor.max(world.book.start_revision.get(&asked.at).copied());
            let was = world.book.first(unit, (floor.unwrap_or_default(), now), so).is_some();
            must(was, || {
                format!("{unit}: GET gave {shown:?}, which no revision since {floor:?} shows")
            })
        }
        _ => Ok(()),
    }
}

/// Returns true if `so` holds for the unit at some revision between request and answer.
fn seen_since(
    world: &World,
    asked: &Asked,
    unit: &UnitName,
    now: i64,
    so: impl Fn(&Shape) -> bool,
) -> bool {
    world.book.first(unit, (asked.from, now), so).is_some()
}

/// Metadata is written only for pending requests or those with unknown result. After a successful
/// answer no retry may land, because it would undo later changes.
fn metadata_is_asked_for(world: &World, changes: &[Change]) -> Verdict {
    for change in changes {
        let Change::Put(entry) = change else { continue };
        let Some(Subject::Metadata(id, key)) = world.truth.keys().subject(&entry.key) else {
            continue;
        };
        let kept = world.truth.metadata.get(&id).and_then(|of| of.get(&key));
        let value = kept.and_then(|kept| kept.record.value.clone());
        let asked = world.book.patches.get(&(id.clone(), value.clone()));
        must(asked.is_some_and(|open| *open > 0), || {
            format!("{id}: {key}={value:?} is written without a pending request")
        })?;
    }
    Ok(())
}

/// A new run of a machine with the same disk may take over the key. The previous run must not have
/// renewed for two thirds of its lease.
fn may_take_over(world: &World, old: &Kept<MachineRecord>, new: &MachineRecord) -> bool {
    let shown = world.etcd.last_renewal.get(&old.lease);
    let silent = shown.is_none_or(|at| *at + world.plan.ttl * 2 / 3 <= world.now);
    old.record.instance == new.instance || silent && old.record.disk == new.disk
}

/// A machine key is not taken over from a machine that renews, and no claim while its lease exists.
/// An unregistered machine starts nothing.
pub(super) fn c17_identity(world: &World, moment: &Moment<'_>) -> Verdict {
    match moment {
        Moment::Landed { before, .. } => {
            for (id, kept) in &world.truth.machines {
                let old = before.machines.get(id);
                let may = old.is_none_or(|old| may_take_over(world, old, &kept.record));
                must(may, || {
                    format!("{id}: the key of {old:?} is taken over by {}", kept.record.instance)
                })?;
            }
            for (name, by) in &world.truth.claims {
                for (id, kept) in by {
                    let old = before.claim_of(name, id).map(|old| &old.record.instance);
                    let same = old.is_none_or(|old| *old == kept.record.instance);
                    must(same, || format!("{id}: the claim of {old:?} on {name} is taken over"))?;
                }
            }
            Ok(())
        }
        Moment::Put { machine, added, .. } => {
            let member = world.book.last_registered.get(machine).copied();
            let lately = is_member(world, *machine)
                || member.is_some_and(|at| at + NEWS + world.plan.ttl >= world.now);
            let one = &world.machines[*machine];
            let stood = one.paused_until + NEWS >= world.now;
            let cut = one.requests_lost_until.max(one.answers_lost_until) + NEWS >= world.now;
            must(added.is_empty() || lately || stood || cut, || {
                format!("machine {machine} is not registered and starts {added:?}")
            })
        }
        _ => Ok(()),
    }
}

impl World {
    /// Records the registered machines.
    pub fn note_members(&mut self) {
        for number in 0..self.machines.len() {
            if is_member(self, number) {
                self.book.last_registered.insert(number, self.now);
            }
        }
    }
}
