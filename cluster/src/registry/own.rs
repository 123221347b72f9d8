//! Writes of a machine about itself: its registration and its claims on exclusive units, all bound
//! to its lease.
//! A rebooted machine finds the keys of its previous run. It takes over the machine key once that
//! run has been silent long enough; claims expire with the lease of that run.

use crate::key::Subject;
use crate::machine::MachineId;
use crate::mutant::{Mutant, planted};
use crate::record::{ClaimRecord, MachineRecord, encode};
use crate::snapshot::{Kept, Snapshot};
use crate::transaction::{Condition, Transaction};
use crate::unit_name::UnitName;

/// Why a machine cannot register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twin {
    /// The registered machine.
    pub there: Kept<MachineRecord>,
    /// True if that machine uses our disk or a copy of it.
    pub is_of_our_disk: bool,
}

/// Registers a machine. The record of the same boot of the same machine may be replaced.
///
/// # Errors
/// Another machine is registered under this id.
pub fn register(
    snapshot: &Snapshot,
    id: &MachineId,
    record: &MachineRecord,
    lease: i64,
) -> Result<Transaction, Box<Twin>> {
    register_after_reboot(snapshot, id, record, lease, None)
}

/// Like [`register`], for a machine that may have rebooted. `silent` is the revision of a key whose
/// lease was found silent ([`crate::store::Remainder::is_silent`]). The key of a run from our disk
/// may then be taken over, if it is still at that revision.
///
/// # Errors
/// Another machine is, or may be, registered under this id.
pub fn register_after_reboot(
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
    // An unreadable record belongs to a machine as long as its lease exists.
    let modified = match there {
        Some(kept) => snapshot.unread_since(&key).or(Some(kept.modified)),
        None => snapshot.unread_and_unbound(&key),
    };
    let condition = Condition::as_read(key.clone(), modified);
    Ok(Transaction::default().when(condition).put_bound(key, encode(record), lease))
}

/// Returns true if this run of the machine made the claim. A claim of an earlier run stands until
/// its lease expires, because the unit may still run. A claim that does not record its run counts
/// as our own.
pub fn is_own_claim(claim: &Kept<ClaimRecord>, instance: &str) -> bool {
    let by = claim.record.instance.as_deref();
    by.is_none_or(|by| by == instance) || planted(Mutant::HeirClaims)
}

/// Claims an exclusive unit that is scheduled here, if it is free or claimed under an earlier lease
/// of this run. Returns `None` if another machine or an earlier run holds a claim, or the unit's
/// place is elsewhere. Each machine claims under its own key, and only while the unit's place is
/// that machine. So while the place is unchanged, no other machine can make a claim. Every snapshot
/// that shows this place also shows all claims made before the unit got it.
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

/// Releases a claim, once no process of the unit runs here.
pub fn release(snapshot: &Snapshot, machine: &MachineId, name: &UnitName) -> Option<Transaction> {
    let key = snapshot.keys().of(&Subject::Claim(machine.clone(), name.clone()));
    let there = snapshot.claim_of(name, machine)?;
    let held = Condition::Unchanged(key.clone(), there.modified);
    Some(Transaction::default().when(held).delete(key))
}
