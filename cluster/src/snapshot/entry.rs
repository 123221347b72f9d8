//! Puts keys and values into a snapshot, and removes them. `unreadable_value` handles values that
//! cannot be read.

use super::{Content, Kept, Snapshot};
use crate::key::Subject;
use crate::record::{self, ClaimRecord, RecordError, UnitRecord};
use crate::transaction::Entry;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Snapshot {
    pub(super) fn put(&mut self, subject: &Subject, entry: &Entry) -> Result<(), RecordError> {
        match subject {
            Subject::Cluster => self.cluster = Some(kept(entry)?),
            Subject::Leader => self.leader = Some(kept(entry)?),
            Subject::Unit(name) => {
                let read: Kept<UnitRecord> = kept(entry)?;
                read.record
                    .options
                    .check()
                    .map_err(|error| RecordError::Malformed(error.to_string()))?;
                let Kept { record, created, modified, lease } = read;
                let content = Content::of(name, record.options).signed(record.signature);
                let content = Arc::new(content);
                let kept = Kept { record: content, created, modified, lease };
                self.units.insert(name.clone(), kept);
            }
            Subject::Desired(name) => insert(&mut self.desired, name, entry)?,
            Subject::Place(name) => insert(&mut self.places, name, entry)?,
            Subject::Schedule(machine, name) => {
                insert(self.schedules.entry(machine.clone()).or_default(), name, entry)?;
            }
            Subject::Global(name) => insert(&mut self.globals, name, entry)?,
            Subject::Why(name) => insert(&mut self.whys, name, entry)?,
            Subject::Claim(machine, name) => {
                // The key alone means that the machine may run the unit, whatever the value is.
                let Entry { created, modified, lease, .. } = *entry;
                let read = record::decode::<ClaimRecord>(&entry.value);
                let instance = read.as_ref().ok().and_then(|read| read.instance.clone());
                let record = ClaimRecord { machine: machine.clone(), instance };
                let held = Kept { record, created, modified, lease };
                self.claims.entry(name.clone()).or_default().insert(machine.clone(), held);
                read?;
            }
            Subject::Machine(id) => insert(&mut self.machines, id, entry)?,
            Subject::Metadata(id, key) => {
                insert(self.metadata.entry(id.clone()).or_default(), key, entry)?;
            }
            Subject::Drain(id) => {
                self.drains.insert(id.clone(), entry.modified);
            }
            Subject::State(machine, name) => {
                insert(self.states.entry(name.clone()).or_default(), machine, entry)?;
            }
        }
        Ok(())
    }

    pub(super) fn delete(&mut self, subject: &Subject) {
        match subject {
            Subject::Cluster => self.cluster = None,
            Subject::Leader => self.leader = None,
            Subject::Unit(name) => {
                self.units.remove(name);
            }
            Subject::Desired(name) => {
                self.desired.remove(name);
            }
            Subject::Place(name) => {
                self.places.remove(name);
            }
            Subject::Schedule(machine, name) => remove_of(&mut self.schedules, machine, name),
            Subject::Global(name) => {
                self.globals.remove(name);
            }
            Subject::Why(name) => {
                self.whys.remove(name);
            }
            Subject::Claim(machine, name) => remove_of(&mut self.claims, name, machine),
            Subject::Machine(id) => {
                self.machines.remove(id);
            }
            Subject::Metadata(id, key) => remove_of(&mut self.metadata, id, key),
            Subject::Drain(id) => {
                self.drains.remove(id);
            }
            Subject::State(machine, name) => remove_of(&mut self.states, name, machine),
        }
    }
}

fn kept<T: DeserializeOwned>(entry: &Entry) -> Result<Kept<T>, RecordError> {
    let Entry { created, modified, lease, .. } = *entry;
    Ok(Kept { record: record::decode(&entry.value)?, created, modified, lease })
}

fn insert<K: Clone + Ord, T: DeserializeOwned>(
    map: &mut BTreeMap<K, Kept<T>>,
    key: &K,
    entry: &Entry,
) -> Result<(), RecordError> {
    map.insert(key.clone(), kept(entry)?);
    Ok(())
}

fn remove_of<A: Ord, B: Ord, T>(map: &mut BTreeMap<A, BTreeMap<B, T>>, outer: &A, inner: &B) {
    if let Some(of) = map.get_mut(outer) {
        of.remove(inner);
        if of.is_empty() {
            map.remove(outer);
        }
    }
}
