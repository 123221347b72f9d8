//! All writes of the cluster, as transactions.
//! Each is made from a [`Snapshot`] and commits only if everything that it relied on is unchanged;
//! otherwise it is made again from a newer snapshot. Users' requests come through the API, moves
//! from the leading engine, machine records and states from the machine itself.

mod as_read;
mod own;
mod reason;

pub use own::{Twin, claim, is_own_claim, register, register_after_reboot, release};

use crate::desired::Desired;
use crate::key::{Keys, Subject};
use crate::machine::MachineId;
use crate::move_order::Move;
use crate::mutant::{Mutant, planted};
use crate::record::{
    ClusterRecord, DesiredRecord, DrainRecord, Leader, MetadataRecord, PlaceRecord, ScheduleRecord,
    StateRecord, UnitRecord, encode,
};
use crate::requirement::Requirement;
use crate::signature::Signature;
use crate::snapshot::Snapshot;
use crate::transaction::{Condition, Transaction};
use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use as_read::{as_read, cause_as_read, key_as_read, machine_as_read, peers_as_read};
pub use reason::{explain, explain_too_large};
use std::collections::BTreeSet;

/// The right to decide: the revision that last wrote the key `leader`. An engine's write fails once
/// another engine leads, and so does a write sent before [`start_epoch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(pub i64);

impl Epoch {
    fn fence(self, keys: &Keys) -> Condition {
        Condition::Unchanged(keys.of(&Subject::Leader), self.0)
    }
}

/// Creates a unit, or replaces its file: destroys and re-creates it in one transaction.
pub fn create(
    snapshot: &Snapshot,
    name: &UnitName,
    file: &UnitFile,
    desired: Desired,
) -> Transaction {
    create_signed(snapshot, name, file, None, desired, None)
}

/// Like [`create`], with a signature. `first` are the machines that take the file of a global unit
/// first.
pub fn create_signed(
    snapshot: &Snapshot,
    name: &UnitName,
    file: &UnitFile,
    signature: Option<&Signature>,
    desired: Desired,
    first: Option<&BTreeSet<MachineId>>,
) -> Transaction {
    let keys = snapshot.keys();
    let of = |subject| keys.of(&subject);
    let mut transaction = without_placement(snapshot, name);
    let record = UnitRecord { options: file.clone(), signature: signature.cloned() };
    let asks = Requirement::of(file, Some(name));
    if !asks.replaces.is_empty() && !planted(Mutant::RingLetIn) {
        // The check for rings of Replaces covered the files of this snapshot, so the write requires
        // that no file has changed since.
        transaction = transaction.when(Condition::NoneSince(keys.units(), snapshot.files_since));
    }
    transaction = transaction
        .put(of(Subject::Unit(name.clone())), encode(&record))
        .put(of(Subject::Desired(name.clone())), encode(&DesiredRecord { desired }));
    if asks.global && desired != Desired::Inactive && !name.is_template() {
        let hash = file.hash();
        let there = snapshot.units.get(name).filter(|_| first.is_some()).map(|kept| &*kept.record);
        let mut before = there.map(|there| UnitRecord {
            options: there.file.clone(),
            signature: there.signature.clone(),
        });
        if let Some(global) =
            snapshot.globals.get(name).filter(|global| global.record.before.is_some())
        {
            // A rollout is in progress, so `before` stays the file that all machines had before it.
            let key = of(Subject::Global(name.clone()));
            transaction = key_as_read(snapshot, transaction, key, Some(global.modified));
            before = global.record.before.clone().filter(|_| first.is_some());
        }
        let record = ScheduleRecord { desired, hash, first: first.cloned(), before };
        transaction = transaction.put(of(Subject::Global(name.clone())), encode(&record));
    }
    transaction
}

/// Replaces the signature of an existing unit. Its place and state stay.
pub fn sign(snapshot: &Snapshot, name: &UnitName, signature: &Signature) -> Option<Transaction> {
    let options = snapshot.units.get(name)?.record.file.clone();
    let record = UnitRecord { options, signature: Some(signature.clone()) };
    let key = snapshot.keys().of(&Subject::Unit(name.clone()));
    Some(as_read(snapshot, name).put(key, encode(&record)))
}

/// Rolls the file of a global unit out to these machines, or to all if `None`. The others keep
/// their file. Returns `None` if nothing would change, or if the unit is not a wanted global unit.
pub fn spread(
    snapshot: &Snapshot,
    name: &UnitName,
    first: Option<&BTreeSet<MachineId>>,
) -> Option<Transaction> {
    let global =
        snapshot.globals.get(name).filter(|global| global.record.first.as_ref() != first)?;
    let key = snapshot.keys().of(&Subject::Global(name.clone()));
    let before = global.record.before.clone().filter(|_| first.is_some());
    let record = ScheduleRecord { first: first.cloned(), before, ..global.record.clone() };
    let transaction =
        key_as_read(snapshot, as_read(snapshot, name), key.clone(), Some(global.modified));
    Some(transaction.put(key, encode(&record)))
}

/// Changes the desired state of a unit. If the unit has a place, the same transaction updates that
/// machine's schedule, so no leader is needed.
pub fn set_desired(snapshot: &Snapshot, name: &UnitName, desired: Desired) -> Option<Transaction> {
    let keys = snapshot.keys();
    let of = |subject| keys.of(&subject);
    let content = &snapshot.units.get(name)?.record;
    let wish = (of(Subject::Desired(name.clone())), encode(&DesiredRecord { desired }));
    let global = snapshot.globals.get(name).map(|global| global.record.clone());
    let (first, before) = global.map(|global| (global.first, global.before)).unwrap_or_default();
    let schedule = ScheduleRecord { desired, hash: content.hash.clone(), first, before };
    if desired == Desired::Inactive {
        return Some(without_placement(snapshot, name).put(wish.0, wish.1));
    }
    let mut transaction = as_read(snapshot, name).put(wish.0, wish.1);
    let subject = if content.asks.global {
        // Keeps the set of machines that take the file first, because a rollout may be in progress.
        let (key, global) = (of(Subject::Global(name.clone())), snapshot.globals.get(name));
        transaction = key_as_read(snapshot, transaction, key, global.map(|global| global.modified));
        (!name.is_template()).then(|| Subject::Global(name.clone()))
    } else {
        let machine = snapshot.place_of(name).cloned();
        machine.map(|machine| Subject::Schedule(machine, name.clone()))
    };
    Some(match subject {
        Some(subject) => transaction.put(of(subject), encode(&schedule)),
        None => transaction,
    })
}

/// Removes a unit with its desired state, placement and reason, even if its file is unreadable. Its
/// machine removes the claim and the state. Returns `None` if the unit does not exist.
pub fn destroy(snapshot: &Snapshot, name: &UnitName) -> Option<Transaction> {
    let keys = snapshot.keys();
    let unread = snapshot.unread_since(&keys.of(&Subject::Unit(name.clone()))).is_some();
    if !unread && !snapshot.units.contains_key(name) {
        return None;
    }
    let gone = without_placement(snapshot, name)
        .delete(keys.of(&Subject::Unit(name.clone())))
        .delete(keys.of(&Subject::Desired(name.clone())));
    Some(gone)
}

/// Makes the write of a group of moves that belong together. Returns `None` if one of the units no
/// longer exists.
pub fn carry_out(snapshot: &Snapshot, epoch: Epoch, group: &[Move]) -> Option<Transaction> {
    let keys = snapshot.keys();
    let of = |subject| keys.of(&subject);
    let mut all = fenced(keys, epoch);
    for step in group {
        let content = &snapshot.units.get(&step.unit)?.record;
        let name = step.unit.clone();
        let mut one = match planted(Mutant::UnitNotCompared) {
            true => Transaction::default(),
            false => as_read(snapshot, &name),
        };
        if !planted(Mutant::MachineNotCompared) {
            for machine in [&step.from, &step.to].into_iter().flatten() {
                one = machine_as_read(snapshot, one, machine, &content.asks);
            }
            if let Some(to) = &step.to {
                one = peers_as_read(snapshot, one, group, &content.asks, to);
            }
        }
        if step.from.is_some() && !planted(Mutant::CauseNotCompared) {
            one = cause_as_read(snapshot, one, group, &step.cause);
        }
        let left = snapshot.place_of(&name).filter(|_| !planted(Mutant::ScheduleLeft));
        if let Some(from) = left {
            one = one.delete(of(Subject::Schedule(from.clone(), name.clone())));
        }
        match &step.to {
            Some(to) => {
                let desired = snapshot.desired_of(&name);
                let record = ScheduleRecord::new(desired, content.hash.clone());
                let place = PlaceRecord { machine: to.clone() };
                one = one
                    .put(of(Subject::Schedule(to.clone(), name.clone())), encode(&record))
                    .put(of(Subject::Place(name.clone())), encode(&place));
                if snapshot.whys.contains_key(&name) && !planted(Mutant::WhyLeft) {
                    one = one.delete(of(Subject::Why(name)));
                }
            }
            None => one = one.delete(of(Subject::Place(name))),
        }
        all = all.and(one);
    }
    Some(all)
}

/// Repairs schedules that disagree with the unit's place, because another program deleted or wrote
/// them. Afterwards the unit runs only at its place. Returns `None` if they agree.
pub fn align(snapshot: &Snapshot, epoch: Epoch, name: &UnitName) -> Option<Transaction> {
    let keys = snapshot.keys();
    let of = |machine: &MachineId| keys.of(&Subject::Schedule(machine.clone(), name.clone()));
    let place = snapshot.place_of(name);
    let mut transaction = fenced(keys, epoch).and(as_read(snapshot, name));
    let mut is_aligned = true;
    for (machine, schedule) in &snapshot.schedules {
        let stray = schedule.get(name).filter(|_| place != Some(machine));
        if let Some(stray) = stray {
            transaction = key_as_read(snapshot, transaction, of(machine), Some(stray.modified));
            transaction = transaction.delete(of(machine));
            is_aligned = false;
        }
    }
    let unscheduled = place.filter(|machine| !snapshot.is_scheduled_on(machine, name));
    if let Some((machine, kept)) = unscheduled.zip(snapshot.units.get(name)) {
        let desired = snapshot.desired_of(name);
        let record = ScheduleRecord::new(desired, kept.record.hash.clone());
        transaction = key_as_read(snapshot, transaction, of(machine), None);
        transaction = transaction.put(of(machine), encode(&record));
        is_aligned = false;
    }
    (!is_aligned).then_some(transaction)
}

/// Restricts a write to this cluster. An etcd of another cluster rejects it, even if that cluster
/// was created at the same revision.
#[must_use]
pub fn of_this_cluster(snapshot: &Snapshot, transaction: Transaction) -> Transaction {
    let Some(cluster) = &snapshot.cluster else { return transaction };
    let key = snapshot.keys().of(&Subject::Cluster);
    transaction.when(Condition::Has(key, encode(&cluster.record)))
}

/// Gives the cluster its id if it has none.
pub fn create_cluster(keys: &Keys, epoch: Epoch, id: String) -> Transaction {
    let key = keys.of(&Subject::Cluster);
    let transaction = fenced(keys, epoch).when(Condition::Absent(key.clone()));
    transaction.put(key, encode(&ClusterRecord { id }))
}

/// Takes the lead if there is no leader.
pub fn lead(keys: &Keys, machine: &MachineId, lease: i64) -> Transaction {
    lead_after(keys, machine, lease, None)
}

/// Like [`lead`], replacing a leader key of that revision whose lease is gone
/// ([`Snapshot::leaderless_since`]).
pub fn lead_after(
    keys: &Keys,
    machine: &MachineId,
    lease: i64,
    leaderless_since: Option<i64>,
) -> Transaction {
    let key = keys.of(&Subject::Leader);
    let record = Leader { machine: machine.clone() };
    let condition = Condition::as_read(key.clone(), leaderless_since);
    Transaction::default().when(condition).put_bound(key, encode(&record), lease)
}

/// Starts a new epoch of the same leader, after which earlier writes with unknown result can no
/// longer land.
pub fn start_epoch(keys: &Keys, machine: &MachineId, lease: i64, epoch: Epoch) -> Transaction {
    let record = Leader { machine: machine.clone() };
    let key = keys.of(&Subject::Leader);
    fenced(keys, epoch).put_bound(key, encode(&record), lease)
}

/// Publishes the state of a unit on a machine, or removes it if `state` is `None`. `last` is the
/// revision of the previous state, so that an older report that arrives late fails.
pub fn publish(
    keys: &Keys,
    machine: &MachineId,
    name: &UnitName,
    state: Option<&StateRecord>,
    last: Option<i64>,
    lease: i64,
) -> Transaction {
    let key = keys.of(&Subject::State(machine.clone(), name.clone()));
    let transaction = match planted(Mutant::StateNotCompared) {
        true => Transaction::default(),
        false => Transaction::default().when(Condition::as_read(key.clone(), last)),
    };
    match state {
        Some(state) => transaction.put_bound(key, encode(state), lease),
        None => transaction.delete(key),
    }
}

/// Overrides metadata of a machine; a `None` value hides the machine's own.
pub fn set_metadata(
    snapshot: &Snapshot,
    machine: &MachineId,
    key: &str,
    value: Option<String>,
) -> Transaction {
    let there = snapshot.metadata.get(machine).and_then(|of| of.get(key));
    let modified = there.map(|kept| kept.modified);
    let key = snapshot.keys().of(&Subject::Metadata(machine.clone(), key.to_string()));
    let transaction = match planted(Mutant::MetadataNotCompared) {
        true => Transaction::default(),
        false => key_as_read(snapshot, Transaction::default(), key.clone(), modified),
    };
    transaction.put(key, encode(&MetadataRecord { value }))
}

/// Drains a machine, or lets it take units again.
pub fn drain(snapshot: &Snapshot, machine: &MachineId, draining: bool) -> Transaction {
    let key = snapshot.keys().of(&Subject::Drain(machine.clone()));
    let modified = snapshot.drains.get(machine).copied();
    let transaction = key_as_read(snapshot, Transaction::default(), key.clone(), modified);
    match draining {
        true => transaction.put(key, encode(&DrainRecord {})),
        false => transaction.delete(key),
    }
}

fn fenced(keys: &Keys, epoch: Epoch) -> Transaction {
    match planted(Mutant::UnfencedWrite) {
        true => Transaction::default(),
        false => Transaction::default().when(epoch.fence(keys)),
    }
}

/// Removes the unit's place, its schedule, its global key and its reason.
fn without_placement(snapshot: &Snapshot, name: &UnitName) -> Transaction {
    let keys = snapshot.keys();
    let of = |subject| keys.of(&subject);
    let mut transaction = as_read(snapshot, name);
    let left = snapshot.place_of(name).filter(|_| !planted(Mutant::DestroyLeaves));
    if let Some(machine) = left {
        transaction = transaction
            .delete(of(Subject::Schedule(machine.clone(), name.clone())))
            .delete(of(Subject::Place(name.clone())));
    }
    // The unit's file decides, because the snapshot may lack the global key.
    let is_global = snapshot.units.get(name).is_some_and(|kept| kept.record.asks.global);
    let others = [
        (Subject::Place(name.clone()), false),
        (Subject::Global(name.clone()), is_global || snapshot.globals.contains_key(name)),
    ];
    for (subject, there) in others {
        let key = of(subject);
        if there || snapshot.unread_since(&key).is_some() {
            transaction = transaction.delete(key);
        }
    }
    // An engine may have written the reason after this snapshot, so it is deleted in any case.
    if planted(Mutant::ReasonBySnapshot) && !snapshot.whys.contains_key(name) {
        return transaction;
    }
    transaction.delete(of(Subject::Why(name.clone())))
}
