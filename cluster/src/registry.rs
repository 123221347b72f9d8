//! Every write of the cluster, as the transaction it is. Each is made from a
//! [`Snapshot`] and holds only if what it looked at is still so; one that does not
//! hold is made anew from a newer snapshot. What may be written follows from who asks:
//! people's wishes come through the API, moves from the engine that leads, presence
//! and states from the machine itself.

mod as_read;
mod own;
mod reason;

pub use own::{Twin, claim, is_own_claim, register, release, succeed};

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
pub use reason::{explain, set_aside};
use std::collections::BTreeSet;

/// The right to decide: the revision that last wrote the key `leader`. No write of an
/// engine lands once another leads, and none that was sent before [`renew`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(pub i64);

impl Epoch {
    fn fence(self, keys: &Keys) -> Condition {
        Condition::Unchanged(keys.of(&Subject::Leader), self.0)
    }
}

/// Makes a unit, or puts another file in its place: destroyed and made anew in one.
pub fn create(
    snapshot: &Snapshot,
    name: &UnitName,
    file: &UnitFile,
    desired: Desired,
) -> Transaction {
    create_signed(snapshot, name, file, None, desired, None)
}

/// The same, with who answers for it, and which machines take the file of a global unit `first`.
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
    let mut transaction = off_the_machines(snapshot, name);
    let record = UnitRecord { options: file.clone(), signature: signature.cloned() };
    let asks = Requirement::of(file, Some(name));
    if !asks.replaces.is_empty() && !planted(Mutant::RingLetIn) {
        // Whether it closes a ring was asked of the files that are known: of no others it is true.
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
        if let Some(told) = snapshot.globals.get(name).filter(|told| told.record.before.is_some()) {
            // What stands there not all machines have taken; this is what all had.
            let key = of(Subject::Global(name.clone()));
            transaction = key_as_read(snapshot, transaction, key, Some(told.modified));
            before = told.record.before.clone().filter(|_| first.is_some());
        }
        let record = ScheduleRecord { desired, hash, first: first.cloned(), before };
        transaction = transaction.put(of(Subject::Global(name.clone())), encode(&record));
    }
    transaction
}

/// Somebody answers (anew) for a unit that is there: it stays where it is, and as it is.
pub fn sign(snapshot: &Snapshot, name: &UnitName, signature: &Signature) -> Option<Transaction> {
    let options = snapshot.units.get(name)?.record.file.clone();
    let record = UnitRecord { options, signature: Some(signature.clone()) };
    let key = snapshot.keys().of(&Subject::Unit(name.clone()));
    Some(as_read(snapshot, name).put(key, encode(&record)))
}

/// These machines take the file of a global unit, the others keep what they have; `None`: all take
/// it. `None` is answered where that is so already, or the unit is on no machine.
pub fn spread(
    snapshot: &Snapshot,
    name: &UnitName,
    first: Option<&BTreeSet<MachineId>>,
) -> Option<Transaction> {
    let told = snapshot.globals.get(name).filter(|told| told.record.first.as_ref() != first)?;
    let key = snapshot.keys().of(&Subject::Global(name.clone()));
    let before = told.record.before.clone().filter(|_| first.is_some());
    let record = ScheduleRecord { first: first.cloned(), before, ..told.record.clone() };
    let transaction =
        key_as_read(snapshot, as_read(snapshot, name), key.clone(), Some(told.modified));
    Some(transaction.put(key, encode(&record)))
}

/// Another wish for a unit that is there. On a machine already, that machine is told in
/// the same transaction; nobody need lead for it.
pub fn set_desired(snapshot: &Snapshot, name: &UnitName, desired: Desired) -> Option<Transaction> {
    let keys = snapshot.keys();
    let of = |subject| keys.of(&subject);
    let content = &snapshot.units.get(name)?.record;
    let wish = (of(Subject::Desired(name.clone())), encode(&DesiredRecord { desired }));
    let told = snapshot.globals.get(name).map(|told| told.record.clone());
    let (first, before) = told.map(|told| (told.first, told.before)).unwrap_or_default();
    let schedule = ScheduleRecord { desired, hash: content.hash.clone(), first, before };
    if desired == Desired::Inactive {
        return Some(off_the_machines(snapshot, name).put(wish.0, wish.1));
    }
    let mut transaction = as_read(snapshot, name).put(wish.0, wish.1);
    let told = if content.asks.global {
        // Which machines take its file first is as it is by then: a rollout goes on meanwhile.
        let (key, told) = (of(Subject::Global(name.clone())), snapshot.globals.get(name));
        transaction = key_as_read(snapshot, transaction, key, told.map(|told| told.modified));
        (!name.is_template()).then(|| Subject::Global(name.clone()))
    } else {
        let machine = snapshot.place_of(name).cloned();
        machine.map(|machine| Subject::Schedule(machine, name.clone()))
    };
    Some(match told {
        Some(subject) => transaction.put(of(subject), encode(&schedule)),
        None => transaction,
    })
}

/// Removes a unit with all that was said of it, a file that can not be read included;
/// `None` when it is not there.
pub fn destroy(snapshot: &Snapshot, name: &UnitName) -> Option<Transaction> {
    let keys = snapshot.keys();
    let unread = snapshot.unread_since(&keys.of(&Subject::Unit(name.clone()))).is_some();
    if !unread && !snapshot.units.contains_key(name) {
        return None;
    }
    let gone = off_the_machines(snapshot, name)
        .delete(keys.of(&Subject::Unit(name.clone())))
        .delete(keys.of(&Subject::Desired(name.clone())));
    Some(gone)
}

/// Carries out a group of moves that belong together; `None` when one of its units is not
/// there any more.
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

/// Machines are told again what its place says, where somebody has deleted that or written something
/// else: it runs where it has its place, and nowhere else. `None`: all is well.
pub fn align(snapshot: &Snapshot, epoch: Epoch, name: &UnitName) -> Option<Transaction> {
    let keys = snapshot.keys();
    let of = |machine: &MachineId| keys.of(&Subject::Schedule(machine.clone(), name.clone()));
    let place = snapshot.place_of(name);
    let mut transaction = fenced(keys, epoch).and(as_read(snapshot, name));
    let mut is_well = true;
    for (machine, told) in &snapshot.schedules {
        let told = told.get(name).filter(|_| place != Some(machine));
        if let Some(told) = told {
            transaction = key_as_read(snapshot, transaction, of(machine), Some(told.modified));
            transaction = transaction.delete(of(machine));
            is_well = false;
        }
    }
    let told = place.filter(|machine| !snapshot.is_told(machine, name));
    if let Some((machine, kept)) = told.zip(snapshot.units.get(name)) {
        let desired = snapshot.desired_of(name);
        let record = ScheduleRecord::new(desired, kept.record.hash.clone());
        transaction = key_as_read(snapshot, transaction, of(machine), None);
        transaction = transaction.put(of(machine), encode(&record));
        is_well = false;
    }
    (!is_well).then_some(transaction)
}

/// The same write, of this cluster alone: another etcd than ours does not take it, though it
/// was founded at the very revision that ours was.
#[must_use]
pub fn of_this_cluster(snapshot: &Snapshot, transaction: Transaction) -> Transaction {
    let Some(cluster) = &snapshot.cluster else { return transaction };
    let key = snapshot.keys().of(&Subject::Cluster);
    transaction.when(Condition::Has(key, encode(&cluster.record)))
}

/// Gives the cluster its id, when it has none.
pub fn found(keys: &Keys, epoch: Epoch, id: String) -> Transaction {
    let key = keys.of(&Subject::Cluster);
    let transaction = fenced(keys, epoch).when(Condition::Absent(key.clone()));
    transaction.put(key, encode(&ClusterRecord { id }))
}

/// Takes the lead, when nobody has it.
pub fn lead(keys: &Keys, machine: &MachineId, lease: i64) -> Transaction {
    lead_after(keys, machine, lease, None)
}

/// The same where its key stands since that revision, and nobody leads by it
/// ([`Snapshot::leads_nobody_since`]).
pub fn lead_after(
    keys: &Keys,
    machine: &MachineId,
    lease: i64,
    nobody_since: Option<i64>,
) -> Transaction {
    let key = keys.of(&Subject::Leader);
    let record = Leader { machine: machine.clone() };
    let condition = Condition::as_read(key.clone(), nobody_since);
    Transaction::default().when(condition).put_bound(key, encode(&record), lease)
}

/// A new epoch of the same leader: what it sent before and nobody knows of can not land
/// any more.
pub fn renew(keys: &Keys, machine: &MachineId, lease: i64, epoch: Epoch) -> Transaction {
    let record = Leader { machine: machine.clone() };
    let key = keys.of(&Subject::Leader);
    fenced(keys, epoch).put_bound(key, encode(&record), lease)
}

/// Says what a unit is doing on a machine; with `None` that it is not there any more.
/// `last`: the revision of what was said before, so that an earlier word that comes late
/// does not count.
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

/// Lays metadata over what a machine says; `None` hides what it says.
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

/// Empties a machine, or lets it take units again.
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

/// Nobody runs it any more, and nothing is said of it.
fn off_the_machines(snapshot: &Snapshot, name: &UnitName) -> Transaction {
    let keys = snapshot.keys();
    let of = |subject| keys.of(&subject);
    let mut transaction = as_read(snapshot, name);
    let left = snapshot.place_of(name).filter(|_| !planted(Mutant::DestroyLeaves));
    if let Some(machine) = left {
        transaction = transaction
            .delete(of(Subject::Schedule(machine.clone(), name.clone())))
            .delete(of(Subject::Place(name.clone())));
    }
    // By its file: what a reading did not show must not outlive it.
    let is_global = snapshot.units.get(name).is_some_and(|kept| kept.record.asks.global);
    let said = [
        (Subject::Place(name.clone()), false),
        (Subject::Global(name.clone()), is_global || snapshot.globals.contains_key(name)),
    ];
    for (subject, there) in said {
        let key = of(subject);
        if there || snapshot.unread_since(&key).is_some() {
            transaction = transaction.delete(key);
        }
    }
    // An engine writes it by itself: whether it is there now, an older snapshot does not know.
    if planted(Mutant::ReasonByPicture) && !snapshot.whys.contains_key(name) {
        return transaction;
    }
    transaction.delete(of(Subject::Why(name.clone())))
}
