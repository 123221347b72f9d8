//! What etcd holds, decoded and kept: filled from one reading, carried on by changes.
//! The engine, the agent and the API all look at a snapshot and never at raw keys. A
//! value that can not be read is set aside and told; what it stood for before stays.

mod entry;
mod unreadable_value;

use crate::desired::Desired;
use crate::key::{Keys, Subject};
use crate::machine::{Machine, MachineId};
use crate::mutant::{Mutant, planted};
use crate::native_unit::{self, Native};
use crate::placement::Seat;
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

/// A record, and when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept<T> {
    /// What it says.
    pub record: T,
    /// The revision that made its key.
    pub created: i64,
    /// The revision that last wrote it.
    pub modified: i64,
    /// The lease it is bound to; 0: none.
    pub lease: i64,
}

/// A unit's file with what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// As it came.
    pub file: UnitFile,
    /// Its SHA-1.
    pub hash: String,
    /// What it asks of a machine.
    pub asks: Arc<Requirement>,
    /// Who answers for it, where somebody does.
    pub signature: Option<Signature>,
    native: native_unit::Once,
}

impl Content {
    /// Of a file under that name.
    pub fn of(name: &UnitName, file: UnitFile) -> Content {
        let asks = Arc::new(Requirement::of(&file, Some(name)));
        let native = native_unit::Once::default();
        Content { hash: file.hash(), asks, file, signature: None, native }
    }

    /// What it was, of a native unit: read once, however often it is looked at.
    pub fn native(&self) -> Option<&Native> {
        self.native.of(&self.file)
    }

    /// With that signature.
    #[must_use]
    pub fn signed(self, signature: Option<Signature>) -> Content {
        Content { signature, ..self }
    }
}

/// Which cluster it is, and how far it had come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its id.
    pub cluster: String,
    /// Nothing older is it.
    pub revision: i64,
}

/// A value that can not be read.
#[derive(Clone, Copy, Debug)]
struct Unread {
    modified: i64,
    lease: i64,
}

/// See the head of the module.
#[derive(Clone, Debug)]
pub struct Snapshot {
    keys: Keys,
    /// All up to this revision is in it.
    pub revision: i64,
    /// Which cluster this is.
    pub cluster: Option<Kept<ClusterRecord>>,
    /// Who decides.
    pub leader: Option<Kept<Leader>>,
    /// The files.
    pub units: BTreeMap<UnitName, Kept<Arc<Content>>>,
    /// What is wished for them.
    pub desired: BTreeMap<UnitName, Kept<DesiredRecord>>,
    /// Where they are.
    pub places: BTreeMap<UnitName, Kept<PlaceRecord>>,
    /// What each machine was told.
    pub schedules: BTreeMap<MachineId, BTreeMap<UnitName, Kept<ScheduleRecord>>>,
    /// Global units that are wished for.
    pub globals: BTreeMap<UnitName, Kept<ScheduleRecord>>,
    /// Why units are nowhere.
    pub whys: BTreeMap<UnitName, Kept<WhyRecord>>,
    /// Who runs exclusive units, or may still.
    pub claims: BTreeMap<UnitName, BTreeMap<MachineId, Kept<ClaimRecord>>>,
    /// Machines that are there.
    pub machines: BTreeMap<MachineId, Kept<MachineRecord>>,
    /// What was laid over what they say.
    pub metadata: BTreeMap<MachineId, BTreeMap<String, Kept<MetadataRecord>>>,
    /// Machines that are to be emptied, and since which revision.
    pub drains: BTreeMap<MachineId, i64>,
    /// What units are doing.
    pub states: BTreeMap<UnitName, BTreeMap<MachineId, Kept<StateRecord>>>,
    /// Values that can not be read, by key.
    pub set_aside: BTreeMap<String, RecordError>,
    /// When those were written: a write that puts one right must know.
    unread: BTreeMap<String, Unread>,
    /// The last revision that wrote the file of a unit, whichever.
    pub files_since: i64,
    /// Units that go on here though nothing is known of them any more ([`crate::suspicious_read_guard`]).
    pub withheld: BTreeSet<UnitName>,
}

impl Snapshot {
    /// Of nothing.
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

    /// Of nothing but which cluster it is to be.
    pub fn expecting(keys: Keys, known: Known) -> Snapshot {
        let record = ClusterRecord { id: known.cluster };
        let cluster = Some(Kept { record, created: 0, modified: 0, lease: 0 });
        Snapshot { cluster, revision: known.revision, ..Snapshot::new(keys) }
    }

    /// Which cluster this is; `None`: none that has an id.
    pub fn known(&self) -> Option<Known> {
        let cluster = self.cluster.as_ref()?.record.id.clone();
        Some(Known { cluster, revision: self.revision })
    }

    /// Of everything under the root, at one revision.
    pub fn of(keys: Keys, reading: &Reading) -> Snapshot {
        Snapshot::new(keys).read_anew(reading)
    }

    /// The one after this: of everything under the root, and of what is known already where a value
    /// can not be read.
    #[must_use]
    pub fn read_anew(&self, reading: &Reading) -> Snapshot {
        let mut snapshot = Snapshot::new(self.keys.clone());
        for entry in &reading.entries {
            snapshot.apply(&Change::Put(entry.clone()));
        }
        snapshot.revision = reading.revision;
        snapshot.carry_over(self);
        snapshot.stand_in();
        snapshot
    }

    /// The keys it is about.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Takes one change in: what it was about, if it is anything of ours that changed.
    pub fn apply(&mut self, change: &Change) -> Option<Subject> {
        match change {
            Change::Put(entry) => {
                self.revision = self.revision.max(entry.modified);
                let is_file = |rest: &str| rest.starts_with("unit/");
                if entry.key.strip_prefix(self.keys.root()).is_some_and(is_file) {
                    self.files_since = self.files_since.max(entry.modified);
                }
                let subject = self.keys.subject(&entry.key)?;
                self.hear_of(&subject);
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
                self.hear_of(&subject);
                self.delete(&subject);
                Some(subject)
            }
        }
    }

    /// etcd has told of that unit: it is not withheld any more.
    fn hear_of(&mut self, subject: &Subject) {
        if let Some(name) = subject.unit() {
            self.withheld.remove(name);
        }
    }

    /// Takes a batch of changes in, as a watch tells them; what was seen before does not count
    /// again, for it would bring back what has been overwritten since. Answers what is new.
    pub fn take<'c>(&mut self, changes: &'c [Change]) -> Vec<(&'c Change, Option<Subject>)> {
        let seen = self.revision;
        let new = |change: &&Change| change.revision() > seen || planted(Mutant::RepeatsCount);
        changes.iter().filter(new).map(|change| (change, self.apply(change))).collect()
    }

    /// Why a reading may not take the place of this snapshot: it is older, or of another
    /// cluster. An etcd that was emptied, put back to an earlier day, or that shows us only
    /// a part, would stop every unit.
    pub fn doubt(&self, fresh: &Snapshot) -> Option<String> {
        if planted(Mutant::ForeignBelieved) {
            return None;
        }
        if fresh.revision < self.revision {
            let (now, then) = (fresh.revision, self.revision);
            return Some(format!("etcd is at revision {now}, and was at {then} already"));
        }
        let id = |snapshot: &Snapshot| snapshot.cluster.as_ref().map(|kept| kept.record.id.clone());
        let (known, now) = (id(self)?, id(fresh));
        (now.as_ref() != Some(&known)).then(|| {
            let now = now.map_or("no cluster".to_string(), |now| format!("cluster {now}"));
            format!("etcd shows {now} where cluster {known} was")
        })
    }

    /// When a value that can not be read was written; `None`: there is none under that key.
    pub fn unread_since(&self, key: &str) -> Option<i64> {
        self.unread.get(key).map(|unread| unread.modified)
    }

    /// The same of one that no lease holds: nobody who is there has written it.
    pub fn unread_and_unbound(&self, key: &str) -> Option<i64> {
        self.unread.get(key).filter(|unread| unread.lease == 0).map(|unread| unread.modified)
    }

    /// When the key of who leads was written, if no lease holds it: nobody leads by it, and it does
    /// not end by itself.
    pub fn leads_nobody_since(&self) -> Option<i64> {
        match self.unread.get(&self.keys.of(&Subject::Leader)) {
            Some(unread) => (unread.lease == 0).then_some(unread.modified),
            None => self.leader.as_ref().filter(|kept| kept.lease == 0).map(|kept| kept.modified),
        }
    }

    /// What is wished for a unit; nothing said is `inactive`.
    pub fn desired_of(&self, name: &UnitName) -> Desired {
        self.desired.get(name).map_or(Desired::Inactive, |kept| kept.record.desired)
    }

    /// Where a unit is.
    pub fn place_of(&self, name: &UnitName) -> Option<&MachineId> {
        self.places.get(name).map(|kept| &kept.record.machine)
    }

    /// A machine was told to have it.
    pub fn is_told(&self, machine: &MachineId, name: &UnitName) -> bool {
        self.schedules.get(machine).is_some_and(|told| told.contains_key(name))
    }

    /// Units that have a place of which its machine was not told, or machines that were told of a
    /// unit which has no place there: no write of ours does that.
    pub fn astray(&self) -> BTreeSet<UnitName> {
        let told = self.schedules.iter().flat_map(|(machine, told)| {
            told.keys().filter(move |name| self.place_of(name) != Some(machine))
        });
        let placed = self.places.iter();
        let untold = placed.filter(|(name, kept)| !self.is_told(&kept.record.machine, name));
        told.chain(untold.map(|(name, _)| name)).cloned().collect()
    }

    /// The claim that a machine holds.
    pub fn claim_of(&self, name: &UnitName, machine: &MachineId) -> Option<&Kept<ClaimRecord>> {
        self.claims.get(name)?.get(machine)
    }

    /// Another machine may run it still.
    pub fn is_claimed_by_others(&self, name: &UnitName, me: &MachineId) -> bool {
        self.claims.get(name).is_some_and(|by| by.keys().any(|id| id != me))
    }

    /// How far a unit has come, by the machine it is on.
    pub fn reached_by(&self, name: &UnitName) -> Desired {
        let state = self.place_of(name).and_then(|machine| self.states.get(name)?.get(machine));
        state.map_or(Desired::Inactive, |kept| kept.record.reached)
    }

    /// A unit as the engine's scheduler takes it.
    pub fn scheduler_unit(&self, name: &UnitName) -> Option<Unit> {
        let content = &self.units.get(name)?.record;
        Some(Unit {
            asks: content.asks.clone(),
            desired: self.desired_of(name),
            machine: self.place_of(name).cloned(),
            since: self.globals.get(name).map_or(0, age),
        })
    }

    /// Global units that are wished for, the oldest wish first. Of two that conflict the older stays.
    pub fn globals_by_age(&self) -> Vec<(&UnitName, &Kept<ScheduleRecord>)> {
        let mut all: Vec<_> = self.globals.iter().collect();
        all.sort_by_key(|(name, told)| (age(told), *name));
        all
    }

    /// What a machine was told to have, its global units chosen as its agent chooses them.
    pub fn seat(&self, id: &MachineId) -> Seat {
        let asks = |name: &UnitName, told: &Kept<ScheduleRecord>| {
            let wished = told.record.desired != Desired::Inactive && !name.is_template();
            let content = self.units.get(name).filter(|_| wished)?;
            Some((name.clone(), content.record.asks.clone()))
        };
        let told = self.schedules.get(id).into_iter().flatten();
        let scheduled = told.filter_map(|(name, told)| asks(name, told)).collect();
        let machine = self.machine(id).unwrap_or_default();
        let mut seat = Seat { machine, scheduled, ..Seat::default() };
        let globals = self.globals_by_age();
        let globals: Vec<_> = globals.into_iter().filter_map(|(n, told)| asks(n, told)).collect();
        seat.globals = seat.choose_globals(globals.iter().map(|(name, asks)| (name, asks)));
        seat
    }

    /// A machine with what was laid over what it says; `None` when it is not there.
    pub fn machine(&self, id: &MachineId) -> Option<Machine> {
        let record = &self.machines.get(id)?.record;
        let metadata = self.laid_over(id, record.metadata.clone());
        let draining = self.drains.contains_key(id);
        Some(Machine { ip: record.ip.clone(), metadata, draining, away: false, unread: None })
    }

    /// That metadata of a machine, with what operators laid over it.
    pub fn laid_over(
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

/// The revision of the wish for a global unit: that of its key, which lasts until the unit is inactive.
fn age(told: &Kept<ScheduleRecord>) -> i64 {
    if planted(Mutant::NewcomerEvicts) { 0 } else { told.created }
}
