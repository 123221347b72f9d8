//! The engine of the leader: it keeps a snapshot and a scheduler, and turns each change into
//! transactions.
//! Pure. The daemon that holds the lease supplies the time, the changes and the results of
//! transactions.

use crate::flap_damping::FlapDamping;
use crate::key::{Keys, Subject};
use crate::machine::{Machine, MachineId};
use crate::move_order::Move;
use crate::mutant::{Mutant, planted};
use crate::placement::Host;
use crate::registry::{self, Epoch};
use crate::scheduler::Scheduler;
use crate::snapshot::Snapshot;
use crate::transaction::{Change, MOST_OPERATIONS, Reading, Transaction};
use crate::txn_split;
use crate::unit_name::UnitName;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The smallest transaction limit of etcd that the engine accepts.
const FEWEST_OPERATIONS: usize = 16;

/// A write that the engine requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The moves of this write; empty if it only records a reason.
    pub moves: Vec<Move>,
    /// The units it affects.
    pub units: Vec<UnitName>,
    /// The transaction.
    pub transaction: Transaction,
}

/// See the head of the module.
#[derive(Clone, Debug)]
pub struct Engine {
    snapshot: Snapshot,
    scheduler: Scheduler,
    /// How long a machine that does not answer keeps its units.
    grace: Duration,
    /// Per silent machine, the time until which it keeps its units.
    away: BTreeMap<MachineId, Duration>,
    /// Until this time no silent machine loses its units, even if the grace is over.
    keep_all_until: Duration,
    /// Extends the grace of machines that come and go.
    flap_damping: FlapDamping,
    /// Maximum number of operations in a write that combines several groups.
    room: usize,
    /// Maximum number of operations that etcd accepts in one transaction; the same limit applies to
    /// conditions.
    most: usize,
    /// Units whose place and schedule disagreed in the last reading.
    misplaced: BTreeSet<UnitName>,
}

impl Engine {
    /// Creates an engine from a reading of everything under the root. `now` is any monotonic clock.
    pub fn new(keys: Keys, reading: &Reading, grace: Duration, now: Duration) -> Engine {
        let snapshot = Snapshot::of(keys.clone(), reading);
        let mut engine = Engine {
            snapshot: Snapshot::new(keys),
            scheduler: Scheduler::default(),
            grace,
            away: BTreeMap::new(),
            keep_all_until: Duration::ZERO,
            flap_damping: FlapDamping::default(),
            room: MOST_OPERATIONS,
            most: MOST_OPERATIONS,
            misplaced: BTreeSet::new(),
        };
        engine.replace(snapshot, now);
        engine
    }

    /// The engine's snapshot.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The engine's scheduler.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Takes a full reading, which reveals changes that the watch missed. Returns true if there
    /// were any.
    pub fn reread(&mut self, reading: &Reading, now: Duration) -> bool {
        if reading.revision < self.snapshot.revision {
            // A reading older than the snapshot cannot show missed changes.
            return false;
        }
        let fresh = self.snapshot.read_again(reading);
        let missed = fresh.revision == self.snapshot.revision
            && (fresh.units != self.snapshot.units
                || fresh.places != self.snapshot.places
                || fresh.schedules != self.snapshot.schedules);
        self.replace(fresh, now);
        if !planted(Mutant::ReasonsGrowOld) {
            // The reason why a unit is unplaced may have changed; it is recorded again.
            self.scheduler.examine_all_unplaced();
        }
        missed
    }

    /// Limits the operations of one write.
    #[must_use]
    pub fn with_room_for(self, operations: usize) -> Engine {
        Engine { room: operations, ..self }
    }

    /// Takes changes in revision order and ignores those already seen.
    pub fn absorb(&mut self, changes: &[Change], now: Duration) {
        for (change, subject) in self.snapshot.take(changes) {
            let Some(subject) = subject else { continue };
            match subject {
                // The machine came back, so its grace restarts if it is gone again at the end of
                // this batch.
                Subject::Machine(id) if matches!(change, Change::Put(_)) => {
                    self.away.remove(&id);
                    self.update_machine(&id, now);
                }
                Subject::Unit(name)
                | Subject::Desired(name)
                | Subject::Place(name)
                | Subject::Global(name) => {
                    self.scheduler.set_unit(&name, self.snapshot.scheduler_unit(&name));
                }
                Subject::Machine(id) => {
                    self.flap_damping.record_departure(&id, now);
                    self.update_machine(&id, now);
                }
                Subject::Metadata(id, _) | Subject::Drain(id) => self.update_machine(&id, now),
                // A re-created unit may ask for the same as before, but its recorded reason is
                // gone.
                Subject::Why(name) if !self.snapshot.whys.contains_key(&name) => {
                    if !planted(Mutant::LostReasonUntold) {
                        self.scheduler.examine(&name);
                    }
                }
                Subject::Cluster
                | Subject::Leader
                | Subject::Schedule(..)
                | Subject::Why(_)
                | Subject::Claim(..)
                | Subject::State(..) => {}
            }
        }
    }

    /// Keeps the units of all silent machines until `until`. A long silence of etcd may have
    /// expired the leases of live machines, which will register again.
    pub fn keep_units_until(&mut self, until: Duration, now: Duration) {
        if until <= self.keep_all_until {
            return;
        }
        self.keep_all_until = until;
        let longer = self.away.values_mut().filter(|end| **end < until);
        longer.for_each(|end| *end = until);
        let placed = self.snapshot.places.values().map(|kept| &kept.record.machine);
        let gone = placed.filter(|id| !self.snapshot.machines.contains_key(*id)).cloned();
        for id in gone.collect::<BTreeSet<_>>() {
            self.update_machine(&id, now);
        }
    }

    /// The time at which the engine needs to run again even without changes.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.away.values().min().copied()
    }

    /// Returns the writes that are due. Each may be sent only after the ones before it.
    pub fn tasks(&mut self, epoch: Epoch, now: Duration) -> Vec<Task> {
        let due = self.away.iter().filter(|(_, until)| **until <= now).map(|(id, _)| id.clone());
        for id in due.collect::<Vec<_>>() {
            self.away.remove(&id);
            if !planted(Mutant::GoneKeeps) {
                self.scheduler.set_machine(&id, None);
            }
        }
        let mut tasks = Vec::new();
        for name in std::mem::take(&mut self.misplaced) {
            let transaction = registry::align(&self.snapshot, epoch, &name);
            let units = vec![name];
            tasks.extend(transaction.map(|transaction| Task {
                moves: Vec::new(),
                units,
                transaction,
            }));
        }
        let decision = self.scheduler.decide();
        let mut put_off = BTreeSet::new();
        for group in decision.groups {
            tasks.extend(self.first_part_of(epoch, group, &mut put_off));
        }
        for (name, refusals) in decision.unplaced {
            if put_off.contains(&name) {
                continue;
            }
            let transaction = registry::explain(&self.snapshot, epoch, &name, &refusals);
            let task = transaction.map(|transaction| Task {
                moves: Vec::new(),
                units: vec![name],
                transaction,
            });
            tasks.extend(task);
        }
        merged(tasks, self.room)
    }

    /// Returns the part of a group that is written now, usually all of it. The rest is decided
    /// again.
    fn first_part_of(
        &mut self,
        epoch: Epoch,
        group: Vec<Move>,
        put_off: &mut BTreeSet<UnitName>,
    ) -> Vec<Task> {
        let mut left: Vec<UnitName> = group.iter().map(|step| step.unit.clone()).collect();
        let is_there = |name: &UnitName| self.snapshot.units.contains_key(name);
        let whole = left.iter().all(is_there);
        let cut = || txn_split::cut(&self.snapshot, epoch, &group, self.most);
        let piece = whole.then(cut).flatten();
        let mut tasks = Vec::new();
        if let Some(piece) = piece {
            let units: Vec<UnitName> = piece.moves.iter().map(|step| step.unit.clone()).collect();
            let done: BTreeSet<&UnitName> = units.iter().collect();
            left.retain(|name| !done.contains(name));
            tasks.push(Task { moves: piece.moves, units, transaction: piece.transaction });
        } else if whole {
            let nowhere = group.iter().filter(|step| step.from.is_none());
            for name in nowhere.map(|step| step.unit.clone()) {
                let transaction =
                    registry::explain_too_large(&self.snapshot, epoch, &name, self.most);
                tasks.extend(transaction.map(|transaction| Task {
                    moves: Vec::new(),
                    units: vec![name],
                    transaction,
                }));
            }
        }
        self.undo(&left);
        put_off.extend(left);
        tasks
    }

    /// Halves the transaction size after etcd rejected a write as too large. Returns false if it is
    /// already at the minimum.
    pub fn halve_transactions(&mut self) -> bool {
        let less = (self.most / 2).max(FEWEST_OPERATIONS);
        let could = less < self.most;
        (self.most, self.room) = (less, self.room.min(less));
        could
    }

    /// Resets the units of a failed task to where the snapshot has them.
    pub fn undo(&mut self, units: &[UnitName]) {
        if planted(Mutant::LossForgotten) {
            return;
        }
        for name in units {
            self.scheduler.set_unit(name, None);
            self.scheduler.set_unit(name, self.snapshot.scheduler_unit(name));
        }
    }

    fn replace(&mut self, snapshot: Snapshot, now: Duration) {
        let old = std::mem::replace(&mut self.snapshot, snapshot);
        self.flap_damping.forget(now);
        for id in old.machines.keys().filter(|id| !self.snapshot.machines.contains_key(*id)) {
            self.flap_damping.record_departure(id, now);
        }
        let machines: BTreeSet<MachineId> =
            old.machines.keys().chain(self.snapshot.machines.keys()).cloned().collect();
        let placed = self.snapshot.places.values().map(|kept| kept.record.machine.clone());
        for id in machines.into_iter().chain(placed).collect::<BTreeSet<_>>() {
            self.update_machine(&id, now);
        }
        let names: BTreeSet<UnitName> =
            old.units.keys().chain(self.snapshot.units.keys()).cloned().collect();
        for name in names {
            self.scheduler.set_unit(&name, self.snapshot.scheduler_unit(&name));
        }
        self.misplaced = self.snapshot.misplaced();
    }

    /// Updates a machine in the scheduler. A machine that is gone stays there until its grace has
    /// expired.
    fn update_machine(&mut self, id: &MachineId, now: Duration) {
        let known = self.snapshot.machine(id).filter(|_| !self.snapshot.is_unreadable(id));
        if let Some(machine) = known {
            self.away.remove(id);
            self.scheduler.set_machine(id, Some(machine));
            return;
        }
        let damping = self.flap_damping.patience(id, now);
        let damping = if planted(Mutant::NeverTired) { Duration::ZERO } else { damping };
        let silence = self.keep_all_until.saturating_sub(now);
        let patience = self.grace.saturating_add(damping).max(silence);
        let host = self.scheduler.hosts().get(id);
        let draining = self.snapshot.drains.contains_key(id);
        let is_registered = self.snapshot.is_registered(id);
        if let Some(key) = self.snapshot.unreadable_key(id).filter(|_| is_registered) {
            // The machine is registered but unreadable: it keeps its units unless it is drained,
            // and gets no new ones. An override has no lease, so it may outlast its machine.
            let machine = host.map(|host| host.machine.clone()).unwrap_or_default();
            let unread = Some(key.to_string());
            self.away.remove(id);
            self.scheduler
                .set_machine(id, Some(Machine { away: true, draining, unread, ..machine }));
            return;
        }
        let machine = match host {
            // The metadata of the machine is known.
            Some(Host { machine, .. }) if !machine.metadata.is_empty() => {
                let metadata = self.snapshot.with_overrides(id, machine.metadata.clone());
                Machine { metadata, ..machine.clone() }
            }
            Some(host) => host.machine.clone(),
            // The registry places units on a machine that this engine has never seen.
            None if !self.grace.is_zero() || !silence.is_zero() => Machine::default(),
            None => return,
        };
        let waited_for = self.away.contains_key(id);
        if patience.is_zero() && !waited_for || planted(Mutant::NoGrace) {
            if planted(Mutant::GoneKeeps) {
                return;
            }
            self.scheduler.set_machine(id, None);
            return;
        }
        let until = now.saturating_add(patience);
        self.away.entry(id.clone()).or_insert(until);
        let machine = Machine { away: true, draining, unread: None, ..machine };
        self.scheduler.set_machine(id, Some(machine));
    }
}

/// Merges consecutive tasks into one transaction while they fit, so that the loss of a machine
/// takes one write instead of hundreds.
fn merged(tasks: Vec<Task>, room: usize) -> Vec<Task> {
    let mut merged: Vec<Task> = Vec::new();
    for task in tasks {
        if let Some(last) = merged.last_mut() {
            let both = last.transaction.clone().and(task.transaction.clone());
            if both.fits_in(room) {
                last.transaction = both;
                last.moves.extend(task.moves);
                last.units.extend(task.units);
                continue;
            }
        }
        merged.push(task);
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::Desired;
    use crate::memory_store::MemoryStore;
    use crate::record::MachineRecord;
    use crate::unit_file::UnitFile;

    #[test]
    fn gone_machine_with_an_unreadable_override_loses_its_units_after_the_grace() {
        let (keys, mut store) = (Keys::under("/test"), MemoryStore::default());
        let (id, unit) = (MachineId::new("m1").unwrap(), UnitName::new("a.service").unwrap());
        let grace = Duration::from_secs(30);
        let snapshot = |store: &MemoryStore| Snapshot::of(keys.clone(), &store.read(keys.root()));
        let engine = |store: &MemoryStore, now| {
            Engine::new(keys.clone(), &store.read(keys.root()), grace, now)
        };
        let run = |store: &mut MemoryStore, engine: &mut Engine, epoch, now| {
            for task in engine.tasks(epoch, now) {
                store.commit(&task.transaction).unwrap();
            }
        };
        let record = MachineRecord {
            ip: String::new(),
            metadata: BTreeMap::new(),
            boot: "boot".to_string(),
            instance: "instance".to_string(),
            disk: None,
            version: "1".to_string(),
            listen: None,
        };
        let lease = store.grant(u64::MAX);
        let write = registry::register(&snapshot(&store), &id, &record, lease).unwrap();
        store.commit(&write).unwrap();
        let of_leader = store.grant(u64::MAX);
        let lead = registry::lead(&keys, &MachineId::new("m2").unwrap(), of_leader);
        let epoch = Epoch(store.commit(&lead).unwrap());
        let file = UnitFile::parse("[Service]\nExecStart=/x\n").unwrap();
        let write = registry::create(&snapshot(&store), &unit, &file, Desired::Launched);
        store.commit(&write).unwrap();
        let mut first = engine(&store, Duration::ZERO);
        run(&mut store, &mut first, epoch, Duration::ZERO);
        assert_eq!(snapshot(&store).place_of(&unit), Some(&id));

        let key = keys.of(&Subject::metadata(&id, "role").unwrap());
        store.commit(&Transaction::default().put(key.clone(), b"{".to_vec())).unwrap();
        let mut watching = engine(&store, Duration::ZERO);
        assert_eq!(watching.scheduler().hosts()[&id].machine.unread, Some(key));
        assert_eq!(watching.next_deadline(), None, "a registered machine keeps its units");

        store.revoke(lease);
        let changes = store.changes_since(watching.snapshot().revision).unwrap();
        let changes: Vec<Change> = changes.into_iter().map(|(_, change)| change).collect();
        let gone = Duration::from_secs(5);
        watching.absorb(&changes, gone);
        // The other engine becomes the leader when the machine is already gone.
        for mut engine in [watching, engine(&store, gone)] {
            let mut store = store.clone();
            assert_eq!(engine.next_deadline(), Some(gone + grace));
            run(&mut store, &mut engine, epoch, gone);
            assert_eq!(snapshot(&store).place_of(&unit), Some(&id), "it lost its unit too early");
            run(&mut store, &mut engine, epoch, gone + grace);
            assert_eq!(snapshot(&store).place_of(&unit), None);
        }
    }
}
