//! Conditions that make a write fail if keys have changed since the snapshot.

use crate::key::Subject;
use crate::machine::MachineId;
use crate::move_order::{Cause, Move};
use crate::placement::Refusal;
use crate::requirement::Requirement;
use crate::snapshot::Snapshot;
use crate::transaction::{Condition, Transaction};
use crate::unit_name::UnitName;

/// Maximum number of units that a write checks because they keep a global unit off a machine. One
/// such unit is enough to keep it off.
const KEPT_AWAY_BY: usize = 4;

/// Requires that the key is unchanged, also if its value is unreadable.
pub(super) fn key_as_read(
    snapshot: &Snapshot,
    transaction: Transaction,
    key: String,
    modified: Option<i64>,
) -> Transaction {
    let modified = snapshot.unread_since(&key).or(modified);
    transaction.when(Condition::as_read(key, modified))
}

/// Requires that the properties of the machine that the unit asks for are unchanged.
pub(super) fn machine_as_read(
    snapshot: &Snapshot,
    transaction: Transaction,
    machine: &MachineId,
    asks: &Requirement,
) -> Transaction {
    let of = |subject| snapshot.keys().of(&subject);
    let there = snapshot.machines.get(machine).map(|kept| kept.modified);
    let drain = snapshot.drains.get(machine).copied();
    let mut transaction =
        key_as_read(snapshot, transaction, of(Subject::Machine(machine.clone())), there);
    transaction = key_as_read(snapshot, transaction, of(Subject::Drain(machine.clone())), drain);
    let over = snapshot.metadata.get(machine);
    for key in asks.metadata.keys() {
        let Some(subject) = Subject::metadata(machine, key) else { continue };
        let modified = over.and_then(|of| of.get(key)).map(|kept| kept.modified);
        transaction = key_as_read(snapshot, transaction, of(subject), modified);
    }
    transaction
}

/// Requires that the units of MachineOf on machine `to` are unchanged, except those that move with
/// this unit.
pub(super) fn peers_as_read(
    snapshot: &Snapshot,
    mut transaction: Transaction,
    group: &[Move],
    asks: &Requirement,
    to: &MachineId,
) -> Transaction {
    for peer in asks.peers.iter().filter_map(|peer| UnitName::new(peer).ok()) {
        if group.iter().all(|step| step.unit != peer) {
            transaction = whereabouts_as_read(snapshot, transaction, &peer);
            let global = snapshot.globals.get(&peer).and_then(|_| snapshot.units.get(&peer));
            if let Some(kept) = global {
                transaction = machine_as_read(snapshot, transaction, to, &kept.record.asks);
            }
        }
    }
    transaction
}

/// Requires that the unit which causes the move is unchanged, unless it moves in the same group.
/// The cause is a unit that displaces the moved unit, or one that the moved unit follows.
pub(super) fn cause_as_read(
    snapshot: &Snapshot,
    transaction: Transaction,
    group: &[Move],
    cause: &Cause,
) -> Transaction {
    let Cause::Refused(machine, refusal) = cause else { return transaction };
    let cause_unit = match refusal {
        Refusal::Conflict { with, .. } => Some(with.clone()),
        Refusal::Replaced { by } => Some(by.clone()),
        Refusal::Peer { peer } => UnitName::new(peer).ok(),
        Refusal::MachineId { .. }
        | Refusal::Metadata { .. }
        | Refusal::Draining
        | Refusal::Away
        | Refusal::Unread { .. } => None,
    };
    match cause_unit.filter(|cause_unit| group.iter().all(|step| step.unit != *cause_unit)) {
        Some(cause_unit) => {
            let transaction = absence_as_read(snapshot, transaction, machine, &cause_unit);
            whereabouts_as_read(snapshot, transaction, &cause_unit)
        }
        None => transaction,
    }
}

/// Requires that a global unit is still absent from a machine: the metadata and the units that keep
/// it away are unchanged.
fn absence_as_read(
    snapshot: &Snapshot,
    transaction: Transaction,
    machine: &MachineId,
    name: &UnitName,
) -> Transaction {
    let asks = |name: &UnitName| snapshot.units.get(name).map(|kept| &kept.record.asks);
    let Some(own) = asks(name).filter(|asks| asks.global) else { return transaction };
    let keeps_away = |other: &&UnitName| {
        own.conflict_with(other.as_str()).is_some()
            || asks(other).is_some_and(|theirs| theirs.conflict_with(name.as_str()).is_some())
    };
    let placed = snapshot.schedules.get(machine).into_iter().flatten().map(|(other, _)| other);
    // Of two global units that conflict, the older one stays.
    let globals = snapshot.globals_by_age().into_iter().map(|(other, _)| other);
    let older = globals.take_while(|other| *other != name);
    let mut transaction = machine_as_read(snapshot, transaction, machine, own);
    for other in placed.chain(older).filter(keeps_away).take(KEPT_AWAY_BY) {
        transaction = whereabouts_as_read(snapshot, transaction, other);
    }
    transaction
}

fn whereabouts_as_read(
    snapshot: &Snapshot,
    transaction: Transaction,
    name: &UnitName,
) -> Transaction {
    let of = |subject| snapshot.keys().of(&subject);
    let place = snapshot.places.get(name).map(|kept| kept.modified);
    let global = snapshot.globals.get(name).map(|kept| kept.modified);
    let transaction = key_as_read(snapshot, transaction, of(Subject::Place(name.clone())), place);
    key_as_read(snapshot, transaction, of(Subject::Global(name.clone())), global)
}

/// Requires that the unit, its desired state and its place are unchanged.
pub(super) fn as_read(snapshot: &Snapshot, name: &UnitName) -> Transaction {
    let keys = snapshot.keys();
    let condition = |subject, revision| {
        let key = keys.of(&subject);
        let unread = snapshot.unread_since(&key);
        Condition::as_read(key, unread.or(revision))
    };
    let name = name.clone();
    Transaction::default()
        .when(condition(
            Subject::Unit(name.clone()),
            snapshot.units.get(&name).map(|kept| kept.modified),
        ))
        .when(condition(
            Subject::Desired(name.clone()),
            snapshot.desired.get(&name).map(|kept| kept.modified),
        ))
        .when(condition(
            Subject::Place(name.clone()),
            snapshot.places.get(&name).map(|kept| kept.modified),
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::Desired;
    use crate::key::Keys;
    use crate::memory_store::MemoryStore;
    use crate::registry::{create, create_signed, destroy, set_desired, spread};
    use crate::unit_file::UnitFile;

    #[test]
    fn desired_state_decided_during_a_rollout_fails_after_its_end() {
        let (keys, mut store) = (Keys::under("/test"), MemoryStore::default());
        let snapshot = |store: &MemoryStore| Snapshot::of(keys.clone(), &store.read(keys.root()));
        let name = UnitName::new("all.service").unwrap();
        let file = |text: &str| {
            let text = format!("[Service]\nExecStart={text}\n[X-Fleet]\nGlobal=true\n");
            UnitFile::parse(&text).unwrap()
        };
        let made = create(&snapshot(&store), &name, &file("/old"), Desired::Launched);
        store.commit(&made).unwrap();
        let first = [MachineId::new("m1").unwrap()].into();
        let (new, launched) = (file("/new"), Desired::Launched);
        let made = create_signed(&snapshot(&store), &name, &new, None, launched, Some(&first));
        store.commit(&made).unwrap();
        let amid = snapshot(&store);
        store.commit(&spread(&amid, &name, None).unwrap()).unwrap();
        assert_eq!(store.commit(&set_desired(&amid, &name, Desired::Loaded).unwrap()), None);
        let current = set_desired(&snapshot(&store), &name, Desired::Loaded).unwrap();
        assert!(store.commit(&current).is_some());
        let record = &snapshot(&store).globals[&name].record;
        assert_eq!((record.first.clone(), record.before.clone()), (None, None));
    }

    #[test]
    fn absent_global_unit_is_kept_away_by_an_older_one_of_any_name() {
        let (keys, mut store) = (Keys::under("/test"), MemoryStore::default());
        let snapshot = |store: &MemoryStore| Snapshot::of(keys.clone(), &store.read(keys.root()));
        let [older, newer] =
            ["zoo.service", "app.service"].map(|name| UnitName::new(name).unwrap());
        for (name, line) in [(&older, ""), (&newer, "Conflicts=zoo.service\n")] {
            let text = format!("[Service]\nExecStart=/x\n[X-Fleet]\nGlobal=true\n{line}");
            let file = UnitFile::parse(&text).unwrap();
            let made = create(&snapshot(&store), name, &file, Desired::Launched);
            store.commit(&made).unwrap();
        }
        let machine = MachineId::new("m1").unwrap();
        let is_absent =
            absence_as_read(&snapshot(&store), Transaction::default(), &machine, &newer);
        assert!(store.clone().commit(&is_absent).is_some());
        store.commit(&destroy(&snapshot(&store), &older).unwrap()).unwrap();
        assert_eq!(store.commit(&is_absent), None);
    }
}
