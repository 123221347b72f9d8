//! Every write of the cluster, as the transaction it is. Each is made from a
//! [`Picture`] and holds only if what it looked at is still so; one that does not
//! hold is made anew from a newer picture. What may be written follows from who asks:
//! people's wishes come through the API, moves from the engine that leads, presence
//! and states from the machine itself.

use crate::board::Refusals;
use crate::desired::Desired;
use crate::key::{Keys, Subject};
use crate::machine::MachineId;
use crate::move_order::Move;
use crate::picture::Picture;
use crate::record::{
    DesiredRecord, DrainRecord, Leader, MachineRecord, MetadataRecord, PlaceRecord, ScheduleRecord,
    StateRecord, UnitRecord, WhyRecord, encode,
};
use crate::requirement::Requirement;
use crate::transaction::{Condition, Transaction};
use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;

/// The right to decide: the lease of the engine that leads, and the revision that made
/// its key. No write of an engine lands once another leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(pub i64);

impl Epoch {
    fn fence(self, keys: &Keys) -> Condition {
        Condition::Created(keys.of(&Subject::Leader), self.0)
    }
}

/// Makes a unit, or puts another file in its place: destroyed and made anew in one.
pub fn create(
    picture: &Picture,
    name: &UnitName,
    file: &UnitFile,
    desired: Desired,
) -> Transaction {
    let keys = picture.keys();
    let of = |subject| keys.of(&subject);
    let mut transaction = off_the_machines(picture, name);
    let asks = Requirement::of(file, Some(name));
    transaction = transaction
        .put(of(Subject::Unit(name.clone())), encode(&UnitRecord { options: file.clone() }))
        .put(of(Subject::Desired(name.clone())), encode(&DesiredRecord { desired }));
    if asks.global && desired != Desired::Inactive && !name.is_template() {
        let record = ScheduleRecord { desired, hash: file.hash() };
        transaction = transaction.put(of(Subject::Global(name.clone())), encode(&record));
    }
    transaction
}

/// Another wish for a unit that is there. On a machine already, that machine is told in
/// the same transaction; nobody need lead for it.
pub fn set_desired(picture: &Picture, name: &UnitName, desired: Desired) -> Option<Transaction> {
    let keys = picture.keys();
    let of = |subject| keys.of(&subject);
    let content = &picture.units.get(name)?.record;
    let wish = (of(Subject::Desired(name.clone())), encode(&DesiredRecord { desired }));
    let schedule = ScheduleRecord { desired, hash: content.hash.clone() };
    if desired == Desired::Inactive {
        return Some(off_the_machines(picture, name).put(wish.0, wish.1));
    }
    let transaction = as_read(picture, name).put(wish.0, wish.1);
    let told = if content.asks.global {
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

/// Removes a unit with all that was said of it; `None` when it is not there.
pub fn destroy(picture: &Picture, name: &UnitName) -> Option<Transaction> {
    let keys = picture.keys();
    picture.units.get(name)?;
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
    let mut all = Transaction::default().when(epoch.fence(keys));
    for step in group {
        let content = &picture.units.get(&step.unit)?.record;
        let name = step.unit.clone();
        let mut one = as_read(picture, &name);
        if let Some(from) = picture.place_of(&name) {
            one = one.delete(of(Subject::Schedule(from.clone(), name.clone())));
        }
        match &step.to {
            Some(to) => {
                let desired = picture.desired_of(&name);
                let record = ScheduleRecord { desired, hash: content.hash.clone() };
                let place = PlaceRecord { machine: to.clone() };
                one = one
                    .put(of(Subject::Schedule(to.clone(), name.clone())), encode(&record))
                    .put(of(Subject::Place(name.clone())), encode(&place));
                if picture.whys.contains_key(&name) {
                    one = one.delete(of(Subject::Why(name)));
                }
            }
            None => one = one.delete(of(Subject::Place(name))),
        }
        all = all.and(one);
    }
    Some(all)
}

/// Says why a unit is on no machine; `None` when that is what it says already.
pub fn explain(
    picture: &Picture,
    epoch: Epoch,
    name: &UnitName,
    refusals: &Refusals,
) -> Option<Transaction> {
    let keys = picture.keys();
    let text = match refusals.len() {
        0 => "there is no machine in the cluster".to_string(),
        n => format!("none of the {n} machines can have it"),
    };
    let told = refusals.iter().take(WhyRecord::MACHINES);
    let machines = told.map(|(id, refusal)| (id.clone(), refusal.to_string())).collect();
    let record = WhyRecord { text, machines };
    if picture.whys.get(name).is_some_and(|kept| kept.record == record) {
        return None;
    }
    let transaction = as_read(picture, name).when(epoch.fence(keys));
    Some(transaction.put(keys.of(&Subject::Why(name.clone())), encode(&record)))
}

/// Takes the lead, when nobody has it.
pub fn lead(keys: &Keys, machine: &MachineId, lease: i64) -> Transaction {
    let key = keys.of(&Subject::Leader);
    let record = Leader { machine: machine.clone() };
    Transaction::default().when(Condition::Absent(key.clone())).put_bound(
        key,
        encode(&record),
        lease,
    )
}

/// Why a machine can not come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twin {
    /// The one that is there.
    pub there: MachineRecord,
}

/// Says that a machine is there. The one that was there under this id may be taken over
/// when it is the same boot of the same machine.
///
/// # Errors
/// Another machine is there under this id.
pub fn register(
    picture: &Picture,
    id: &MachineId,
    record: &MachineRecord,
    lease: i64,
) -> Result<Transaction, Box<Twin>> {
    let key = picture.keys().of(&Subject::Machine(id.clone()));
    let there = picture.machines.get(id);
    if let Some(kept) = there
        && (kept.record.boot != record.boot || kept.record.instance != record.instance)
    {
        return Err(Box::new(Twin { there: kept.record.clone() }));
    }
    let condition = Condition::as_read(key.clone(), there.map(|kept| kept.modified));
    Ok(Transaction::default().when(condition).put_bound(key, encode(record), lease))
}

/// Says what a unit is doing on a machine; with `None` that it is not there any more.
pub fn publish(
    keys: &Keys,
    machine: &MachineId,
    name: &UnitName,
    state: Option<&StateRecord>,
    lease: i64,
) -> Transaction {
    let key = keys.of(&Subject::State(machine.clone(), name.clone()));
    match state {
        Some(state) => Transaction::default().put_bound(key, encode(state), lease),
        None => Transaction::default().delete(key),
    }
}

/// Lays metadata over what a machine says; `None` hides what it says.
pub fn set_metadata(
    keys: &Keys,
    machine: &MachineId,
    key: &str,
    value: Option<String>,
) -> Transaction {
    let key = keys.of(&Subject::Metadata(machine.clone(), key.to_string()));
    Transaction::default().put(key, encode(&MetadataRecord { value }))
}

/// Empties a machine, or lets it take units again.
pub fn drain(keys: &Keys, machine: &MachineId, draining: bool) -> Transaction {
    let key = keys.of(&Subject::Drain(machine.clone()));
    match draining {
        true => Transaction::default().put(key, encode(&DrainRecord {})),
        false => Transaction::default().delete(key),
    }
}

/// The unit, its wish and its place are as the picture has them.
fn as_read(picture: &Picture, name: &UnitName) -> Transaction {
    let keys = picture.keys();
    let condition = |subject, revision| Condition::as_read(keys.of(&subject), revision);
    let name = name.clone();
    Transaction::default()
        .when(condition(
            Subject::Unit(name.clone()),
            picture.units.get(&name).map(|kept| kept.modified),
        ))
        .when(condition(
            Subject::Desired(name.clone()),
            picture.desired.get(&name).map(|kept| kept.modified),
        ))
        .when(condition(
            Subject::Place(name.clone()),
            picture.places.get(&name).map(|kept| kept.modified),
        ))
}

/// Nobody runs it any more, and nothing is said of it.
fn off_the_machines(picture: &Picture, name: &UnitName) -> Transaction {
    let keys = picture.keys();
    let of = |subject| keys.of(&subject);
    let mut transaction = as_read(picture, name);
    if let Some(machine) = picture.place_of(name) {
        transaction = transaction
            .delete(of(Subject::Schedule(machine.clone(), name.clone())))
            .delete(of(Subject::Place(name.clone())));
    }
    if picture.globals.contains_key(name) {
        transaction = transaction.delete(of(Subject::Global(name.clone())));
    }
    if picture.whys.contains_key(name) {
        transaction = transaction.delete(of(Subject::Why(name.clone())));
    }
    transaction
}
