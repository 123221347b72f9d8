//! Every write of the cluster, as the transaction it is. Each is made from a
//! [`Picture`] and holds only if what it looked at is still so; one that does not
//! hold is made anew from a newer picture. What may be written follows from who asks:
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
use crate::picture::Picture;
use crate::record::{
    ClusterRecord, DesiredRecord, DrainRecord, Leader, MetadataRecord, PlaceRecord, ScheduleRecord,
    StateRecord, UnitRecord, encode,
};
use crate::requirement::Requirement;
use crate::signature::Signature;
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
    picture: &Picture,
    name: &UnitName,
    file: &UnitFile,
    desired: Desired,
) -> Transaction {
    create_signed(picture, name, file, None, desired, None)
}

/// The same, with who answers for it, and which machines take the file of a global unit `first`.
pub fn create_signed(
    picture: &Picture,
    name: &UnitName,
    file: &UnitFile,
    signature: Option<&Signature>,
    desired: Desired,
    first: Option<&BTreeSet<MachineId>>,
) -> Transaction {
    let keys = picture.keys();
    let of = |subject| keys.of(&subject);
    let mut transaction = off_the_machines(picture, name);
    let record = UnitRecord { options: file.clone(), signature: signature.cloned() };
    let asks = Requirement::of(file, Some(name));
    if !asks.replaces.is_empty() && !planted(Mutant::RingLetIn) {
        // Whether it closes a ring was asked of the files that are known: of no others it is true.
        transaction = transaction.when(Condition::NoneSince(keys.units(), picture.files_since));
    }
    transaction = transaction
        .put(of(Subject::Unit(name.clone())), encode(&record))
        .put(of(Subject::Desired(name.clone())), encode(&DesiredRecord { desired }));
    if asks.global && desired != Desired::Inactive && !name.is_template() {
        let hash = file.hash();
        let there = picture.units.get(name).filter(|_| first.is_some()).map(|kept| &*kept.record);
        let mut before = there.map(|there| UnitRecord {
            options: there.file.clone(),
            signature: there.signature.clone(),
        });
        if let Some(told) = picture.globals.get(name).filter(|told| told.record.before.is_some()) {
            // What stands there not all machines have taken; this is what all had.
            let key = of(Subject::Global(name.clone()));
            transaction = key_as_read(picture, transaction, key, Some(told.modified));
            before = told.record.before.clone().filter(|_| first.is_some());
        }
        let record = ScheduleRecord { desired, hash, first: first.cloned(), before };
        transaction = transaction.put(of(Subject::Global(name.clone())), encode(&record));
    }
    transaction
}

/// Somebody answers (anew) for a unit that is there: it stays where it is, and as it is.
pub fn sign(picture: &Picture, name: &UnitName, signature: &Signature) -> Option<Transaction> {
    let options = picture.units.get(name)?.record.file.clone();
    let record = UnitRecord { options, signature: Some(signature.clone()) };
    let key = picture.keys().of(&Subject::Unit(name.clone()));
    Some(as_read(picture, name).put(key, encode(&record)))
}

/// These machines take the file of a global unit, the others keep what they have; `None`: all take
/// it. `None` is answered where that is so already, or the unit is on no machine.
pub fn spread(
    picture: &Picture,
    name: &UnitName,
    first: Option<&BTreeSet<MachineId>>,
) -> Option<Transaction> {
    let told = picture.globals.get(name).filter(|told| told.record.first.as_ref() != first)?;
    let key = picture.keys().of(&Subject::Global(name.clone()));
    let before = told.record.before.clone().filter(|_| first.is_some());
    let record = ScheduleRecord { first: first.cloned(), before, ..told.record.clone() };
    let transaction =
        key_as_read(picture, as_read(picture, name), key.clone(), Some(told.modified));
    Some(transaction.put(key, encode(&record)))
}

/// Another wish for a unit that is there. On a machine already, that machine is told in
/// the same transaction; nobody need lead for it.
pub fn set_desired(picture: &Picture, name: &UnitName, desired: Desired) -> Option<Transaction> {
    let keys = picture.keys();
    let of = |subject| keys.of(&subject);
    let content = &picture.units.get(name)?.record;
    let wish = (of(Subject::Desired(name.clone())), encode(&DesiredRecord { desired }));
    let told = picture.globals.get(name).map(|told| told.record.clone());
    let (first, before) = told.map(|told| (told.first, told.before)).unwrap_or_default();
    let schedule = ScheduleRecord { desired, hash: content.hash.clone(), first, before };
    if desired == Desired::Inactive {
        return Some(off_the_machines(picture, name).put(wish.0, wish.1));
    }
    let mut transaction = as_read(picture, name).put(wish.0, wish.1);
    let told = if content.asks.global {
        // Which machines take its file first is as it is by then: a rollout goes on meanwhile.
        let (key, told) = (of(Subject::Global(name.clone())), picture.globals.get(name));
        transaction = key_as_read(picture, transaction, key, told.map(|told| told.modified));
        (!name.is_template()).then(|| Subject::Global(name.clone()))
    } else {
        let machine = picture.place_of(name).cloned();
        machine.map(|machine| Subject::Schedule(machine, name.clone()))
    };
    Some(match told {
        Some(subject) => transaction.put(of(subject), encode(&schedule)),
        None => transaction,
    })
}

/// Removes a unit with all that was said of it, a file that can not be read included;
/// `None` when it is not there.
pub fn destroy(picture: &Picture, name: &UnitName) -> Option<Transaction> {
    let keys = picture.keys();
    let unread = picture.unread_since(&keys.of(&Subject::Unit(name.clone()))).is_some();
    if !unread && !picture.units.contains_key(name) {
        return None;
    }
    let gone = off_the_machines(picture, name)
        .delete(keys.of(&Subject::Unit(name.clone())))
        .delete(keys.of(&Subject::Desired(name.clone())));
    Some(gone)
}

/// Carries out a group of moves that belong together; `None` when one of its units is not
/// there any more.
pub fn carry_out(picture: &Picture, epoch: Epoch, group: &[Move]) -> Option<Transaction> {
    let keys = picture.keys();
    let of = |subject| keys.of(&subject);
    let mut all = fenced(keys, epoch);
    for step in group {
        let content = &picture.units.get(&step.unit)?.record;
        let name = step.unit.clone();
        let mut one = match planted(Mutant::UnitNotCompared) {
            true => Transaction::default(),
            false => as_read(picture, &name),
        };
        if !planted(Mutant::MachineNotCompared) {
            for machine in [&step.from, &step.to].into_iter().flatten() {
                one = machine_as_read(picture, one, machine, &content.asks);
            }
            if let Some(to) = &step.to {
                one = peers_as_read(picture, one, group, &content.asks, to);
            }
        }
        if step.from.is_some() && !planted(Mutant::CauseNotCompared) {
            one = cause_as_read(picture, one, group, &step.cause);
        }
        let left = picture.place_of(&name).filter(|_| !planted(Mutant::ScheduleLeft));
        if let Some(from) = left {
            one = one.delete(of(Subject::Schedule(from.clone(), name.clone())));
        }
        match &step.to {
            Some(to) => {
                let desired = picture.desired_of(&name);
                let record = ScheduleRecord::new(desired, content.hash.clone());
                let place = PlaceRecord { machine: to.clone() };
                one = one
                    .put(of(Subject::Schedule(to.clone(), name.clone())), encode(&record))
                    .put(of(Subject::Place(name.clone())), encode(&place));
                if picture.whys.contains_key(&name) && !planted(Mutant::WhyLeft) {
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
pub fn align(picture: &Picture, epoch: Epoch, name: &UnitName) -> Option<Transaction> {
    let keys = picture.keys();
    let of = |machine: &MachineId| keys.of(&Subject::Schedule(machine.clone(), name.clone()));
    let place = picture.place_of(name);
    let mut transaction = fenced(keys, epoch).and(as_read(picture, name));
    let mut is_well = true;
    for (machine, told) in &picture.schedules {
        let told = told.get(name).filter(|_| place != Some(machine));
        if let Some(told) = told {
            transaction = key_as_read(picture, transaction, of(machine), Some(told.modified));
            transaction = transaction.delete(of(machine));
            is_well = false;
        }
    }
    let told = place.filter(|machine| !picture.is_told(machine, name));
    if let Some((machine, kept)) = told.zip(picture.units.get(name)) {
        let desired = picture.desired_of(name);
        let record = ScheduleRecord::new(desired, kept.record.hash.clone());
        transaction = key_as_read(picture, transaction, of(machine), None);
        transaction = transaction.put(of(machine), encode(&record));
        is_well = false;
    }
    (!is_well).then_some(transaction)
}

/// The same write, of this cluster alone: another etcd than ours does not take it, though it
/// was founded at the very revision that ours was.
#[must_use]
pub fn of_this_cluster(picture: &Picture, transaction: Transaction) -> Transaction {
    let Some(cluster) = &picture.cluster else { return transaction };
    let key = picture.keys().of(&Subject::Cluster);
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
/// ([`Picture::leads_nobody_since`]).
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
    picture: &Picture,
    machine: &MachineId,
    key: &str,
    value: Option<String>,
) -> Transaction {
    let there = picture.metadata.get(machine).and_then(|of| of.get(key));
    let modified = there.map(|kept| kept.modified);
    let key = picture.keys().of(&Subject::Metadata(machine.clone(), key.to_string()));
    let transaction = match planted(Mutant::MetadataNotCompared) {
        true => Transaction::default(),
        false => key_as_read(picture, Transaction::default(), key.clone(), modified),
    };
    transaction.put(key, encode(&MetadataRecord { value }))
}

/// Empties a machine, or lets it take units again.
pub fn drain(picture: &Picture, machine: &MachineId, draining: bool) -> Transaction {
    let key = picture.keys().of(&Subject::Drain(machine.clone()));
    let modified = picture.drains.get(machine).copied();
    let transaction = key_as_read(picture, Transaction::default(), key.clone(), modified);
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
fn off_the_machines(picture: &Picture, name: &UnitName) -> Transaction {
    let keys = picture.keys();
    let of = |subject| keys.of(&subject);
    let mut transaction = as_read(picture, name);
    let left = picture.place_of(name).filter(|_| !planted(Mutant::DestroyLeaves));
    if let Some(machine) = left {
        transaction = transaction
            .delete(of(Subject::Schedule(machine.clone(), name.clone())))
            .delete(of(Subject::Place(name.clone())));
    }
    // By its file: what a reading did not show must not outlive it.
    let is_global = picture.units.get(name).is_some_and(|kept| kept.record.asks.global);
    let said = [
        (Subject::Place(name.clone()), false),
        (Subject::Global(name.clone()), is_global || picture.globals.contains_key(name)),
    ];
    for (subject, there) in said {
        let key = of(subject);
        if there || picture.unread_since(&key).is_some() {
            transaction = transaction.delete(key);
        }
    }
    // An engine writes it by itself: whether it is there now, an older picture does not know.
    if planted(Mutant::ReasonByPicture) && !picture.whys.contains_key(name) {
        return transaction;
    }
    transaction.delete(of(Subject::Why(name.clone())))
}
