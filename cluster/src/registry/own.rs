//! What a machine writes of itself: that it is there, and which exclusive units it may run. All of
//! it is bound to its lease. A machine that was booted anew finds what its last run wrote: its key
//! it takes over once that run has been silent for long, its claims end with that run's lease.

use crate::key::Subject;
use crate::machine::MachineId;
use crate::mutant::{Mutant, planted};
use crate::record::{ClaimRecord, MachineRecord, encode};
use crate::snapshot::{Kept, Snapshot};
use crate::transaction::{Condition, Transaction};
use crate::unit_name::UnitName;

/// Why a machine can not come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twin {
    /// The one that is there.
    pub there: Kept<MachineRecord>,
    /// It runs, or ran, from our disk, or from one that is a copy of it.
    pub is_of_our_disk: bool,
}

/// Says that a machine is there. The one that was there under this id may be taken over
/// when it is the same boot of the same machine.
///
/// # Errors
/// Another machine is there under this id.
pub fn register(
    snapshot: &Snapshot,
    id: &MachineId,
    record: &MachineRecord,
    lease: i64,
) -> Result<Transaction, Box<Twin>> {
    succeed(snapshot, id, record, lease, None)
}

/// The same of a machine that may have been booted anew. `silent`: the revision of a key whose
/// lease was found silent for long ([`crate::store::Remainder::is_silent`]). One of a run from our
/// disk may be taken over then, as long as nobody has written it again.
///
/// # Errors
/// Another machine is there under this id, or may be.
pub fn succeed(
    snapshot: &Snapshot,
    id: &MachineId,
    record: &MachineRecord,
    lease: i64,
    silent: Option<i64>,
) -> Result<Transaction, Box<Twin>> {
    let key = snapshot.keys().of(&Subject::Machine(id.clone()));
    let there = snapshot.machines.get(id);
    if let Some(kept) = there
        && (kept.record.boot != record.boot || kept.record.instance != record.instance)
        && !planted(Mutant::TwinLetIn)
    {
        let is_of_our_disk = kept.record.disk.is_some() && kept.record.disk == record.disk;
        let ended = silent == Some(kept.modified) || planted(Mutant::HeirImpatient);
        if !is_of_our_disk || !ended {
            return Err(Box::new(Twin { there: kept.clone(), is_of_our_disk }));
        }
    }
    // What nobody can read was somebody's, as long as a lease holds it.
    let modified = match there {
        Some(kept) => snapshot.unread_since(&key).or(Some(kept.modified)),
        None => snapshot.unread_and_unbound(&key),
    };
    let condition = Condition::as_read(key.clone(), modified);
    Ok(Transaction::default().when(condition).put_bound(key, encode(record), lease))
}

/// That claim was made by this run of the machine: one of an earlier run stands until its lease has
/// ended, for what it is for may run there still.
pub fn is_own_claim(claim: &Kept<ClaimRecord>, instance: &str) -> bool {
    let by = claim.record.instance.as_deref();
    by.is_none_or(|by| by == instance) || planted(Mutant::HeirClaims)
}

/// Takes the right to run an exclusive unit that this machine was told to run: when nobody
/// has it, or for another lease of its own. `None`: it is another machine's, or an earlier run's,
/// or the unit's place is not here. Each machine's claim is a key of its own, and is made only while
/// the unit's place is that machine: so where this place stands unchanged, no other claim can have
/// been made since, and those made before are in any snapshot that has this place in it.
pub fn claim(
    snapshot: &Snapshot,
    (machine, instance): (&MachineId, &str),
    name: &UnitName,
    lease: i64,
) -> Option<Transaction> {
    let keys = snapshot.keys();
    let key = keys.of(&Subject::Claim(machine.clone(), name.clone()));
    let place = keys.of(&Subject::Place(name.clone()));
    let placed = snapshot.places.get(name).filter(|kept| kept.record.machine == *machine)?;
    if snapshot.is_claimed_by_others(name, machine) && !planted(Mutant::ClaimStolen) {
        return None;
    }
    let there = snapshot.claim_of(name, machine);
    if there.is_some_and(|kept| !is_own_claim(kept, instance)) {
        return None;
    }
    let record = ClaimRecord { machine: machine.clone(), instance: Some(instance.to_string()) };
    let transaction = Transaction::default()
        .when(Condition::as_read(key.clone(), there.map(|kept| kept.modified)))
        .when(Condition::Unchanged(place, placed.modified));
    Some(transaction.put_bound(key, encode(&record), lease))
}

/// Gives that right back, when nothing of the unit runs here any more.
pub fn release(snapshot: &Snapshot, machine: &MachineId, name: &UnitName) -> Option<Transaction> {
    let key = snapshot.keys().of(&Subject::Claim(machine.clone(), name.clone()));
    let there = snapshot.claim_of(name, machine)?;
    let held = Condition::Unchanged(key.clone(), there.modified);
    Some(Transaction::default().when(held).delete(key))
}
