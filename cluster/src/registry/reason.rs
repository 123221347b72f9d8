//! Records why a unit is on no machine. [`crate::placement`] determines the reasons.

use super::as_read::as_read;
use super::{Epoch, fenced};
use crate::key::Subject;
use crate::mutant::{Mutant, planted};
use crate::record::{WhyRecord, encode};
use crate::scheduler::Refusals;
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use crate::unit_name::UnitName;
use std::collections::BTreeMap;

/// Makes the write that records each machine's reason. Returns `None` if the record is up to date.
pub fn explain(
    snapshot: &Snapshot,
    epoch: Epoch,
    name: &UnitName,
    refusals: &Refusals,
) -> Option<Transaction> {
    let keys = snapshot.keys();
    let text = match refusals.len() {
        0 => "there is no machine in the cluster".to_string(),
        n => format!("no machine of {n} can have it{}", WhyRecord::beyond(n)),
    };
    let listed = refusals.iter().take(WhyRecord::MACHINES);
    let machines = listed.map(|(id, refusal)| (id.clone(), refusal.to_string())).collect();
    let record = WhyRecord { text, machines };
    let is_recorded = snapshot.whys.get(name).is_some_and(|kept| kept.record == record);
    if is_recorded || planted(Mutant::WhyUntold) {
        return None;
    }
    let transaction = fenced(keys, epoch).and(as_read(snapshot, name));
    Some(transaction.put(keys.of(&Subject::Why(name.clone())), encode(&record)))
}

/// Records that a unit is unplaced because its move and those tied to it exceed one transaction.
/// Returns `None` if the record is up to date.
pub fn explain_too_large(
    snapshot: &Snapshot,
    epoch: Epoch,
    name: &UnitName,
    most: usize,
) -> Option<Transaction> {
    let keys = snapshot.keys();
    let text = format!(
        "its move, with those of the units that move with it, exceeds the {most} \
         operations and conditions that etcd takes in one write"
    );
    let record = WhyRecord { text, machines: BTreeMap::new() };
    if snapshot.whys.get(name).is_some_and(|kept| kept.record == record) {
        return None;
    }
    let transaction = fenced(keys, epoch).and(as_read(snapshot, name));
    Some(transaction.put(keys.of(&Subject::Why(name.clone())), encode(&record)))
}
