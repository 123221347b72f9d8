//! The history that invariants need besides etcd's contents: the times and revisions of facts, the
//! answers to clients, and the roots put at each init.

use crate::desired::Desired;
use crate::fleetd::saved_state::SavedState;
use crate::key::Subject;
use crate::machine::MachineId;
use crate::sim::continuity::Ran;
use crate::sim::departures::Departures;
use crate::sim::invariant::{Moment, is_member};
use crate::sim::local_init::is_exclusive;
use crate::sim::rebound::Rebound;
use crate::sim::rules;
use crate::sim::signer::Signed;
use crate::sim::world::World;
use crate::snapshot::Snapshot;
use crate::transaction::{Change, Entry, Operation, Transaction};
use crate::unit_name::UnitName;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A unit at a revision: its desired state and its file's hash. `None` if it does not exist.
pub type Shape = Option<(Desired, String)>;

/// The recorded history.
#[derive(Default)]
pub struct Book {
    /// Every shape of a unit, with its first revision.
    pub history: BTreeMap<UnitName, Vec<(i64, Shape)>>,
    /// When a key about the machine was last written.
    pub changed: BTreeMap<MachineId, Duration>,
    /// When anything but a state or the cluster key was last written.
    pub last_write: Duration,
    /// When a global unit was last written.
    pub global_written: Duration,
    /// When the schedule of a machine was last written, before the current write.
    pub schedule_written: BTreeMap<MachineId, Duration>,
    /// Since when a machine is not registered.
    pub gone: BTreeMap<MachineId, Duration>,
    /// Departures of machines.
    pub departures: Departures,
    /// When a machine's leader key was last written or deleted.
    pub elected: BTreeMap<MachineId, Duration>,
    /// Since when the current engine leads.
    pub led_since: Duration,
    /// The last published metadata of a machine.
    pub last_metadata: BTreeMap<MachineId, BTreeMap<String, String>>,
    /// The last revision at which a unit was not to run on a machine.
    pub unwanted: BTreeMap<(usize, UnitName), i64>,
    /// The last revision at which it became wanted there.
    pub wanted: BTreeMap<(usize, UnitName), i64>,
    /// The revision at which it was put there.
    pub put: BTreeMap<(usize, UnitName), i64>,
    /// The roots that the current fleetd of a machine has put.
    pub put_roots: BTreeMap<usize, BTreeSet<UnitName>>,
    /// When that fleetd first put a root.
    pub took_over: BTreeMap<usize, Duration>,
    /// When fleetd was back from a downtime, if that was before it had to give up the claims of its
    /// predecessor.
    pub restarted_in_time: BTreeMap<usize, Duration>,
    /// The newest revision that a machine has put at its init.
    pub acted: BTreeMap<usize, i64>,
    /// When a machine was last registered.
    pub last_registered: BTreeMap<usize, Duration>,
    /// History of signed units.
    pub signed: Signed,
    /// The units that ran when the last leading engine disappeared.
    pub ran_when_led: Vec<Ran>,
    /// The saved state of fleetd on a machine, with the boot.
    pub recalled: BTreeMap<usize, (u64, SavedState)>,
    /// The original entries of overwritten values.
    pub garbled: Vec<Entry>,
    /// Machines that may see incomplete readings.
    pub sees_part: BTreeSet<usize>,
    /// Claims that were renewed under another lease.
    pub rebound: BTreeMap<(MachineId, UnitName), Rebound>,
    /// Number of places written.
    pub moves: u64,
    /// The newest revision that answers of a machine were based on.
    pub answered: BTreeMap<(usize, u64), i64>,
    /// The revision at which a fleetd started.
    pub start_revision: BTreeMap<(usize, u64), i64>,
    /// Number of pending metadata requests of clients, which may still land.
    pub patches: BTreeMap<(MachineId, Option<String>), u64>,
}

impl Book {
    /// Returns the shape of a unit at a revision.
    pub fn at(&self, name: &UnitName, revision: i64) -> Shape {
        let shapes = self.history.get(name).map_or(&[][..], Vec::as_slice);
        let before = shapes.partition_point(|(since, _)| *since <= revision);
        before.checked_sub(1).and_then(|at| shapes.get(at)).and_then(|(_, shape)| shape.clone())
    }

    /// Returns the first revision from `from` to `to` at which `so` holds for the unit's shape.
    pub fn first(
        &self,
        name: &UnitName,
        (from, to): (i64, i64),
        so: impl Fn(&Shape) -> bool,
    ) -> Option<i64> {
        if so(&self.at(name, from)) {
            return Some(from);
        }
        let shapes = self.history.get(name)?;
        let within = shapes.iter().filter(|(since, _)| *since > from && *since <= to);
        within.filter(|(_, shape)| so(shape)).map(|(since, _)| *since).next()
    }
}

fn shape(snapshot: &Snapshot, name: &UnitName) -> Shape {
    let content = &snapshot.units.get(name)?.record;
    Some((snapshot.desired_of(name), content.hash.clone()))
}

/// Returns true if the unit is to run on the machine.
pub fn is_launched(snapshot: &Snapshot, id: &MachineId, name: &UnitName) -> bool {
    is_launched_with(snapshot, id, name, &rules::globals(snapshot, id))
}

/// Like [`is_launched`], with the global units that belong on the machine.
fn is_launched_with(
    snapshot: &Snapshot,
    id: &MachineId,
    name: &UnitName,
    globals: &BTreeSet<UnitName>,
) -> bool {
    let scheduled = snapshot.schedules.get(id).and_then(|of| of.get(name));
    let entry = scheduled.or_else(|| snapshot.globals.get(name).filter(|_| globals.contains(name)));
    entry.is_some_and(|kept| kept.record.desired == Desired::Launched)
}

impl World {
    /// Applies landed changes to the truth and judges them.
    pub fn take_in(&mut self, transaction: Option<&Transaction>, changes: &[Change]) {
        // Both snapshots apply every change, because a copy for each write would dominate the run
        // time.
        let empty = Snapshot::new(self.truth.keys().clone());
        let mut before = std::mem::replace(&mut self.before, empty);
        let subjects = self.truth.take(changes);
        let subjects: Vec<Subject> = subjects.into_iter().filter_map(|(_, about)| about).collect();
        self.truth.revision = self.etcd.store.revision();
        self.coverage.writes += 1;
        for change in changes {
            self.say_change(change);
        }
        for subject in &subjects {
            self.note(&before, subject);
        }
        let quiet = |subject: &Subject| matches!(subject, Subject::State(..) | Subject::Why(_));
        if !subjects.iter().all(quiet) {
            self.note_unwanted();
        }
        if subjects.iter().any(|subject| matches!(subject, Subject::Machine(_))) {
            // A machine that is registered for less than a second counts as well.
            self.note_members();
        }
        self.judge(&Moment::Landed { before: &before, changes, transaction });
        for subject in subjects {
            if let Subject::Schedule(machine, _) = subject {
                self.book.schedule_written.insert(machine, self.now);
            }
        }
        before.take(changes);
        before.revision = self.truth.revision;
        self.before = before;
    }

    fn say_change(&mut self, change: &Change) {
        let key = match change {
            Change::Put(entry) => &entry.key,
            Change::Delete { key, .. } => key,
        };
        let sum = key.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
        let micros = u64::try_from(self.now.as_micros()).unwrap_or_default();
        self.mix(sum ^ micros);
        self.say(|| match change {
            Change::Put(entry) => {
                let value = String::from_utf8_lossy(&entry.value).to_string();
                format!("  {} {key} = {value}", entry.modified)
            }
            Change::Delete { revision, .. } => format!("  {revision} {key} gone"),
        });
    }

    fn note(&mut self, before: &Snapshot, subject: &Subject) {
        let (now, revision) = (self.now, self.truth.revision);
        let everyone =
            |world: &World| world.machines.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
        let concerned = match subject {
            Subject::State(..) | Subject::Cluster => return,
            Subject::Leader => {
                let lease = |snapshot: &Snapshot| snapshot.leader.as_ref().map(|kept| kept.lease);
                if lease(before) != lease(&self.truth) {
                    self.book.led_since = now;
                }
                for leader in [&before.leader, &self.truth.leader].into_iter().flatten() {
                    self.book.elected.insert(leader.record.machine.clone(), now);
                }
                if self.truth.leader.is_some() {
                    self.coverage.count("leader changed");
                } else {
                    self.book.ran_when_led = self.all_that_runs();
                }
                Vec::new()
            }
            Subject::Unit(name) | Subject::Desired(name) => {
                let new = shape(&self.truth, name);
                let shapes = self.book.history.entry(name.clone()).or_default();
                if shapes.last().is_some_and(|(since, _)| *since == revision) {
                    shapes.pop();
                }
                if shapes.last().map(|(_, shape)| shape) != Some(&new) {
                    shapes.push((revision, new));
                }
                everyone(self)
            }
            Subject::Place(name) => {
                self.book.moves += 1;
                self.count_move(before, name);
                everyone(self)
            }
            Subject::Machine(id) => {
                self.note_machine(id);
                vec![id.clone()]
            }
            Subject::Why(_) => {
                self.coverage.count("unit unplaced");
                Vec::new()
            }
            Subject::Schedule(id, _) | Subject::Metadata(id, _) | Subject::Drain(id) => {
                vec![id.clone()]
            }
            Subject::Global(_) => {
                self.book.global_written = now;
                everyone(self)
            }
            Subject::Claim(machine, name) => {
                self.note_rebound(before, machine, name);
                everyone(self)
            }
        };
        self.book.last_write = now;
        for id in concerned {
            self.book.changed.insert(id, now);
        }
    }

    fn note_machine(&mut self, id: &MachineId) {
        match self.truth.machines.get(id) {
            Some(kept) => {
                self.book.last_metadata.insert(id.clone(), kept.record.metadata.clone());
                self.book.gone.remove(id);
                self.book.departures.has_come(id, self.truth.revision);
            }
            None => {
                self.book.departures.has_gone(id, self.truth.revision, self.now);
                self.book.gone.insert(id.clone(), self.now);
            }
        }
    }

    fn count_move(&mut self, before: &Snapshot, name: &UnitName) {
        let (from, to) = (before.place_of(name).cloned(), self.truth.place_of(name).cloned());
        if let (Some(from), Some(to)) = (&from, &to)
            && from != to
        {
            self.coverage.count("unit moved");
            let asks = self.truth.units.get(name).map(|kept| kept.record.asks.clone());
            if asks.is_some_and(|asks| !asks.peers.is_empty()) {
                self.coverage.count("follower moved");
            }
            let refusal = rules::stays_refused(&self.truth, from, name);
            if refusal.is_some_and(|why| why.ends_with("replaces it")) {
                self.coverage.count("unit displaced");
            }
        }
    }

    /// Records for each unit and machine whether it is currently not to run there.
    fn note_unwanted(&mut self) {
        let revision = self.truth.revision;
        for number in 0..self.machines.len() {
            // An unregistered machine starts and stops nothing, so only the reasons that hold after
            // its return count.
            if !is_member(self, number) {
                continue;
            }
            let machine = &self.machines[number];
            let globals = rules::globals(&self.truth, &machine.id);
            let unwanted = |name: &UnitName| {
                let text = machine.init.files.get(name.as_str());
                // An exclusive unit starts only with a claim. That applies if the file at init or
                // the stored file is exclusive.
                let next = self.truth.units.get(name).map(|kept| kept.record.asks.exclusive);
                let exclusive = text.is_some_and(|file| is_exclusive(file)) || next == Some(true);
                let claimed = self.truth.claim_of(name, &machine.id).is_some();
                let wanted = is_launched_with(&self.truth, &machine.id, name, &globals);
                let wanted = wanted || must_keep_running(self, number, name);
                !wanted || (exclusive && !claimed)
            };
            let roots = machine.init.roots.iter().filter_map(|root| UnitName::new(root).ok());
            let gone = roots.filter(|name| !self.truth.units.contains_key(name));
            let known = self.truth.units.keys().cloned();
            let (not, are): (Vec<UnitName>, Vec<UnitName>) = known.chain(gone).partition(unwanted);
            for name in not {
                self.book.unwanted.insert((number, name), revision);
            }
            for name in are {
                let key = (number, name);
                let not = self.book.unwanted.get(&key).copied().unwrap_or_default();
                let since = self.book.wanted.entry(key).or_insert(revision);
                *since = if *since < not { revision } else { *since };
            }
        }
    }

    /// Records the roots that a fleetd has added and removed at its init.
    pub fn remember_put(&mut self, machine: usize, added: &[UnitName], dropped: &[UnitName]) {
        let seen = self.machines[machine].fleetd.as_ref();
        let Some(seen) = seen.map(|fleetd| fleetd.daemon.cache.snapshot().revision) else { return };
        for name in added {
            let at = self.decided_at((machine, name.clone()), seen);
            self.book.put.insert((machine, name.clone()), at);
        }
        for name in dropped {
            self.book.put.remove(&(machine, name.clone()));
        }
        self.book.acted.insert(machine, seen);
        self.book.took_over.entry(machine).or_insert(self.now);
        let roots = self.book.put_roots.entry(machine).or_default();
        roots.retain(|name| !dropped.contains(name));
        roots.extend(added.iter().cloned());
    }

    /// Returns the revision that a start is based on. A start takes time, mostly for the claim. So
    /// at `seen`, the newest revision by then, the unit may be unwanted already.
    fn decided_at(&self, key: (usize, UnitName), seen: i64) -> i64 {
        let not = self.book.unwanted.get(&key).copied().filter(|at| *at <= seen);
        let since = self.book.wanted.get(&key).copied();
        let again = |at: i64| since.is_some_and(|since| (at..=seen).contains(&since));
        not.filter(|at| !again(*at)).map_or(seen, |at| at - 1)
    }

    /// Records the start of a fleetd: it does not know what its predecessor put, and its answers
    /// are at least this new.
    pub fn remember_start(&mut self, machine: usize) {
        let run = self.run_of(machine);
        self.book.put_roots.remove(&machine);
        self.book.took_over.remove(&machine);
        self.book.start_revision.insert((machine, run), self.truth.revision);
    }

    /// An id of the current fleetd of a machine.
    pub fn run_of(&self, machine: usize) -> u64 {
        let one = &self.machines[machine];
        one.boot << 32 | u64::try_from(one.down_until.as_millis()).unwrap_or(0)
    }
}

/// Returns true if a unit without a place must keep running on a machine. That holds if the unit
/// runs with its current file, the present fleetd has put it, and its requirements are met. A
/// fleetd that started later does not know the running file.
pub fn must_keep_running(world: &World, machine: usize, name: &UnitName) -> bool {
    let known = world.book.put_roots.get(&machine).is_some_and(|roots| roots.contains(name));
    known && may_keep_running(world, machine, name)
}

/// Like [`must_keep_running`], also for a unit that the present fleetd has not put.
pub fn may_keep_running(world: &World, machine: usize, name: &UnitName) -> bool {
    let one = &world.machines[machine];
    let text = world.truth.units.get(name).map(|kept| kept.record.file.text());
    rules::may_keep_running(&world.truth, &one.id, name)
        && text.is_some_and(|text| one.init.files.get(name.as_str()) == Some(&text))
}

/// Returns true if the transaction writes a place or a reason, which only an engine may.
pub fn is_engines(transaction: &Transaction, snapshot: &Snapshot) -> bool {
    transaction.operations.iter().any(|operation| match operation {
        Operation::Put { key, .. } => {
            matches!(snapshot.keys().subject(key), Some(Subject::Place(_) | Subject::Why(_)))
        }
        Operation::Delete(_) | Operation::DeletePrefix(_) => false,
    })
}
