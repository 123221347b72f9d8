//! The decoded contents of etcd, from one reading and the changes since.
//! The engine, the agent and the API use a snapshot instead of raw keys. An unreadable value is set
//! aside and reported; the previous value stays in effect.

mod entry;
mod unreadable_value;

use crate::desired::Desired;
use crate::key::{Keys, Subject};
use crate::machine::{Machine, MachineId};
use crate::mutant::{Mutant, planted};
use crate::native_unit::{self, Native};
use crate::placement::Host;
use crate::placement::Unit;
use crate::record::{
    ClaimRecord, ClusterRecord, DesiredRecord, Leader, MachineRecord, MetadataRecord, PlaceRecord,
    RecordError, ScheduleRecord, StateRecord, WhyRecord,
};
use crate::requirement::Requirement;
use crate::signature::Signature;
use crate::transaction::{Change, Entry, Reading};
use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A record with its revisions and lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept<T> {
    /// The record.
    pub record: T,
    /// The revision that created its key.
    pub created: i64,
    /// The revision that last wrote it.
    pub modified: i64,
    /// The lease it is bound to, or 0.
    pub lease: i64,
}

/// A unit's file and the data derived from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The file as submitted.
    pub file: UnitFile,
    /// Its SHA-1.
    pub hash: String,
    /// Its requirements.
    pub asks: Arc<Requirement>,
    /// Its signature, if it is signed.
    pub signature: Option<Signature>,
    native: native_unit::LazyNative,
}

impl Content {
    /// Derives the content of a file under a name.
    pub fn of(name: &UnitName, file: UnitFile) -> Content {
        let asks = Arc::new(Requirement::of(&file, Some(name)));
        let native = native_unit::LazyNative::default();
        Content { hash: file.hash(), asks, file, signature: None, native }
    }

    /// The native unit, if it is one; parsed once.
    pub fn native(&self) -> Option<&Native> {
        self.native.of(&self.file)
    }

    /// Sets the signature.
    #[must_use]
    pub fn signed(self, signature: Option<Signature>) -> Content {
        Content { signature, ..self }
    }
}

/// The identity of a cluster and its newest known revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The id of the cluster.
    pub cluster: String,
    /// The revision below which a reading is stale.
    pub revision: i64,
}

/// The revision and lease of an unreadable value.
#[derive(Clone, Copy, Debug)]
struct Unread {
    modified: i64,
    lease: i64,
}

/// See the head of the module.
#[derive(Clone, Debug)]
pub struct Snapshot {
    keys: Keys,
    /// All changes up to this revision are included.
    pub revision: i64,
    /// The cluster record.
    pub cluster: Option<Kept<ClusterRecord>>,
    /// The leader.
    pub leader: Option<Kept<Leader>>,
    /// The unit files.
    pub units: BTreeMap<UnitName, Kept<Arc<Content>>>,
    /// The desired states.
    pub desired: BTreeMap<UnitName, Kept<DesiredRecord>>,
    /// The machine of each unit.
    pub places: BTreeMap<UnitName, Kept<PlaceRecord>>,
    /// The schedule of each machine.
    pub schedules: BTreeMap<MachineId, BTreeMap<UnitName, Kept<ScheduleRecord>>>,
    /// The wanted global units.
    pub globals: BTreeMap<UnitName, Kept<ScheduleRecord>>,
    /// The reasons why units are unplaced.
    pub whys: BTreeMap<UnitName, Kept<WhyRecord>>,
    /// The machines that run exclusive units, or may still run them.
    pub claims: BTreeMap<UnitName, BTreeMap<MachineId, Kept<ClaimRecord>>>,
    /// The registered machines.
    pub machines: BTreeMap<MachineId, Kept<MachineRecord>>,
    /// Metadata that overrides the machines' own.
    pub metadata: BTreeMap<MachineId, BTreeMap<String, Kept<MetadataRecord>>>,
    /// Draining machines, with the revision of the request.
    pub drains: BTreeMap<MachineId, i64>,
    /// The states of units on machines.
    pub states: BTreeMap<UnitName, BTreeMap<MachineId, Kept<StateRecord>>>,
    /// Unreadable values by key.
    pub set_aside: BTreeMap<String, RecordError>,
    /// The revisions of unreadable values, for the write that repairs them.
    unread: BTreeMap<String, Unread>,
    /// The last revision that wrote any unit file.
    pub files_since: i64,
    /// Units that keep running here although etcd has no trace of them
    /// ([`crate::suspicious_read_guard`]).
    pub withheld: BTreeSet<UnitName>,
}

impl Snapshot {
    /// An empty snapshot.
    pub fn new(keys: Keys) -> Snapshot {
        Snapshot {
            keys,
            revision: 0,
            cluster: None,
            leader: None,
            units: BTreeMap::new(),
            desired: BTreeMap::new(),
            places: BTreeMap::new(),
            schedules: BTreeMap::new(),
            globals: BTreeMap::new(),
            whys: BTreeMap::new(),
            claims: BTreeMap::new(),
            machines: BTreeMap::new(),
            metadata: BTreeMap::new(),
            drains: BTreeMap::new(),
            states: BTreeMap::new(),
            set_aside: BTreeMap::new(),
            unread: BTreeMap::new(),
            files_since: 0,
            withheld: BTreeSet::new(),
        }
    }

    /// An empty snapshot that accepts only the given cluster.
    pub fn expecting(keys: Keys, known: Known) -> Snapshot {
        let record = ClusterRecord { id: known.cluster };
        let cluster = Some(Kept { record, created: 0, modified: 0, lease: 0 });
        Snapshot { cluster, revision: known.revision, ..Snapshot::new(keys) }
    }

    /// Returns the identity of the cluster, or `None` if it has no id.
    pub fn known(&self) -> Option<Known> {
        let cluster = self.cluster.as_ref()?.record.id.clone();
        Some(Known { cluster, revision: self.revision })
    }

    /// Decodes a reading of everything under the root.
    pub fn of(keys: Keys, reading: &Reading) -> Snapshot {
        Snapshot::new(keys).read_again(reading)
    }

    /// Decodes a new reading of everything under the root, and keeps the known value where the new
    /// one is unreadable.
    #[must_use]
    pub fn read_again(&self, reading: &Reading) -> Snapshot {
        let mut snapshot = Snapshot::new(self.keys.clone());
        for entry in &reading.entries {
            snapshot.apply(&Change::Put(entry.clone()));
        }
        snapshot.revision = reading.revision;
        snapshot.carry_over(self);
        snapshot.restore_unreadable();
        snapshot
    }

    /// The keys of the cluster.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Applies one change. Returns its subject, or `None` if the key is not of the cluster or the new
    /// value is unreadable.
    pub fn apply(&mut self, change: &Change) -> Option<Subject> {
        match change {
            Change::Put(entry) => {
                self.revision = self.revision.max(entry.modified);
                let is_file = |rest: &str| rest.starts_with("unit/");
                if entry.key.strip_prefix(self.keys.root()).is_some_and(is_file) {
                    self.files_since = self.files_since.max(entry.modified);
                }
                let subject = self.keys.subject(&entry.key)?;
                self.forget_withheld(&subject);
                match self.put(&subject, entry) {
                    Ok(()) => {
                        self.set_aside.remove(&entry.key);
                        self.unread.remove(&entry.key);
                        Some(subject)
                    }
                    Err(error) => {
                        self.set_aside.insert(entry.key.clone(), error);
                        let Entry { modified, lease, .. } = *entry;
                        self.unread.insert(entry.key.clone(), Unread { modified, lease });
                        None
                    }
                }
            }
            Change::Delete { key, revision } => {
                self.revision = self.revision.max(*revision);
                self.set_aside.remove(key);
                self.unread.remove(key);
                let subject = self.keys.subject(key)?;
                self.forget_withheld(&subject);
                self.delete(&subject);
                Some(subject)
            }
        }
    }

    /// Removes a unit from the withheld ones after an event of etcd about it.
    fn forget_withheld(&mut self, subject: &Subject) {
        if let Some(name) = subject.unit() {
            self.withheld.remove(name);
        }
    }

    /// Applies a batch of changes from a watch and returns the new ones. Changes seen before are
    /// skipped, because they would restore values that were overwritten since.
    pub fn take<'c>(&mut self, changes: &'c [Change]) -> Vec<(&'c Change, Option<Subject>)> {
        let seen = self.revision;
        let new = |change: &&Change| change.revision() > seen || planted(Mutant::RepeatsCount);
        changes.iter().filter(new).map(|change| (change, self.apply(change))).collect()
    }

    /// Returns why a reading may not replace this snapshot: it is older, or of another cluster. An
    /// emptied, restored or partial etcd would otherwise stop every unit.
    pub fn doubt(&self, fresh: &Snapshot) -> Option<String> {
        if planted(Mutant::ForeignBelieved) {
            return None;
        }
        if fresh.revision < self.revision {
            let (now, then) = (fresh.revision, self.revision);
            return Some(format!(
                "etcd is at revision {now}, older than revision {then} seen before"
            ));
        }
        let id = |snapshot: &Snapshot| snapshot.cluster.as_ref().map(|kept| kept.record.id.clone());
        let (known, now) = (id(self)?, id(fresh));
        (now.as_ref() != Some(&known)).then(|| {
            let now = now.map_or("no cluster".to_string(), |now| format!("cluster {now}"));
            format!("etcd shows {now} instead of cluster {known}")
        })
    }

    /// Returns the revision of the unreadable value of a key, or `None` if the value is readable or
    /// absent.
    pub fn unread_since(&self, key: &str) -> Option<i64> {
        self.unread.get(key).map(|unread| unread.modified)
    }

    /// Like [`Self::unread_since`], for a value without a lease: no live machine wrote it.
    pub fn unread_and_unbound(&self, key: &str) -> Option<i64> {
        self.unread.get(key).filter(|unread| unread.lease == 0).map(|unread| unread.modified)
    }

    /// Returns the revision of a leader key that has no lease. No engine leads by such a key, and
    /// it does not expire.
    pub fn leaderless_since(&self) -> Option<i64> {
        match self.unread.get(&self.keys.of(&Subject::Leader)) {
            Some(unread) => (unread.lease == 0).then_some(unread.modified),
            None => self.leader.as_ref().filter(|kept| kept.lease == 0).map(|kept| kept.modified),
        }
    }

    /// The desired state of a unit; `inactive` if none is stored.
    pub fn desired_of(&self, name: &UnitName) -> Desired {
        self.desired.get(name).map_or(Desired::Inactive, |kept| kept.record.desired)
    }

    /// The unit's machine.
    pub fn place_of(&self, name: &UnitName) -> Option<&MachineId> {
        self.places.get(name).map(|kept| &kept.record.machine)
    }

    /// Returns true if the unit is in the machine's schedule.
    pub fn is_scheduled_on(&self, machine: &MachineId, name: &UnitName) -> bool {
        self.schedules.get(machine).is_some_and(|schedule| schedule.contains_key(name))
    }

    /// Returns units whose place and schedules disagree; no write of the cluster causes that.
    pub fn misplaced(&self) -> BTreeSet<UnitName> {
        let strays = self.schedules.iter().flat_map(|(machine, schedule)| {
            schedule.keys().filter(move |name| self.place_of(name) != Some(machine))
        });
        let placed = self.places.iter();
        let missing =
            placed.filter(|(name, kept)| !self.is_scheduled_on(&kept.record.machine, name));
        strays.chain(missing.map(|(name, _)| name)).cloned().collect()
    }

    /// The claim that a machine holds.
    pub fn claim_of(&self, name: &UnitName, machine: &MachineId) -> Option<&Kept<ClaimRecord>> {
        self.claims.get(name)?.get(machine)
    }

    /// Returns true if another machine holds a claim and may still run the unit.
    pub fn is_claimed_by_others(&self, name: &UnitName, me: &MachineId) -> bool {
        self.claims.get(name).is_some_and(|by| by.keys().any(|id| id != me))
    }

    /// The state that the unit's machine has reached for it.
    pub fn reached_by(&self, name: &UnitName) -> Desired {
        let state = self.place_of(name).and_then(|machine| self.states.get(name)?.get(machine));
        state.map_or(Desired::Inactive, |kept| kept.record.reached)
    }

    /// Returns the unit as the scheduler sees it.
    pub fn scheduler_unit(&self, name: &UnitName) -> Option<Unit> {
        let content = &self.units.get(name)?.record;
        Some(Unit {
            asks: content.asks.clone(),
            desired: self.desired_of(name),
            machine: self.place_of(name).cloned(),
            since: self.globals.get(name).map_or(0, age),
        })
    }

    /// The wanted global units, the oldest first; of two that conflict the older one stays.
    pub fn globals_by_age(&self) -> Vec<(&UnitName, &Kept<ScheduleRecord>)> {
        let mut all: Vec<_> = self.globals.iter().collect();
        all.sort_by_key(|(name, kept)| (age(kept), *name));
        all
    }

    /// The machine with its scheduled units, and its global units chosen as the agent does.
    pub fn host(&self, id: &MachineId) -> Host {
        let asks = |name: &UnitName, kept: &Kept<ScheduleRecord>| {
            let is_wanted = kept.record.desired != Desired::Inactive && !name.is_template();
            let content = self.units.get(name).filter(|_| is_wanted)?;
            Some((name.clone(), content.record.asks.clone()))
        };
        let schedule = self.schedules.get(id).into_iter().flatten();
        let scheduled = schedule.filter_map(|(name, kept)| asks(name, kept)).collect();
        let machine = self.machine(id).unwrap_or_default();
        let mut host = Host { machine, scheduled, ..Host::default() };
        let globals = self.globals_by_age();
        let globals: Vec<_> = globals.into_iter().filter_map(|(n, kept)| asks(n, kept)).collect();
        host.globals = host.choose_globals(globals.iter().map(|(name, asks)| (name, asks)));
        host
    }

    /// Returns true if the key `machine/ID` exists, even with an unreadable value.
    pub fn is_registered(&self, id: &MachineId) -> bool {
        let key = self.keys.of(&Subject::Machine(id.clone()));
        self.machines.contains_key(id) || self.unread.contains_key(&key)
    }

    /// The machine with overridden metadata, or `None` if it is not registered.
    pub fn machine(&self, id: &MachineId) -> Option<Machine> {
        let record = &self.machines.get(id)?.record;
        let metadata = self.with_overrides(id, record.metadata.clone());
        let draining = self.drains.contains_key(id);
        Some(Machine { ip: record.ip.clone(), metadata, draining, away: false, unread: None })
    }

    /// Applies the operators' overrides to a machine's metadata.
    pub fn with_overrides(
        &self,
        id: &MachineId,
        mut metadata: BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        for (key, over) in self.metadata.get(id).into_iter().flatten() {
            match &over.record.value {
                Some(value) => metadata.insert(key.clone(), value.clone()),
                None => metadata.remove(key),
            };
        }
        metadata
    }
}

/// The revision at which a global unit became wanted: its key exists until the unit is inactive.
fn age(global: &Kept<ScheduleRecord>) -> i64 {
    if planted(Mutant::NewcomerEvicts) { 0 } else { global.created }
}
