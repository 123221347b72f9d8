//! Cache of everything that etcd holds about the cluster.
//! A task keeps a [`Snapshot`] current from one reading and a watch. It reads again when the watch
//! is lost or stale. The cache keeps its content while etcd does not answer; [`Health`] tells how
//! old it is.

mod withholding;

use crate::agent::{self, Goal};
use crate::clock::Clock;
use crate::key::{Keys, Subject};
use crate::machine::MachineId;
use crate::mutant::{Mutant, planted};
use crate::record::encode;
use crate::registry;
use crate::snapshot::{Known, Snapshot};
use crate::store::{Batch, Fault, Store, Watch};
use crate::transaction::{Change, Entry, Reading, Transaction};
use crate::unit_name::UnitName;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, watch};

/// Delay between attempts to reach a store that does not answer.
const AGAIN: Duration = Duration::from_millis(250);
/// Interval between probes of an idle store.
const PULSE: Duration = Duration::from_secs(1);
/// Minimum interval between full readings when etcd's revision advances without events. Other
/// programs may write to etcd too.
const FULL_READING: Duration = Duration::from_secs(30);
/// Number of batches a listener may lag behind.
const BACKLOG: usize = 1024;
/// Number of attempts for one write.
const TRIES: u32 = 8;

/// The health of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Time of its last answer, by the cache's clock.
    pub last_contact: Option<Duration>,
    /// The fault since then, or `None` if the store answers.
    pub fault: Option<Fault>,
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteFault<E> {
    /// The caller's closure refused to make a transaction.
    Refused(E),
    /// The store does not answer, or the result is unknown.
    Store(Fault),
    /// Other clients wrote the same keys at every attempt.
    Contended,
}

/// A handle; clones share one snapshot.
#[derive(Clone)]
pub struct EtcdCache {
    store: Store,
    keys: Keys,
    clock: Clock,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    health: watch::Receiver<Health>,
    news: broadcast::Sender<Arc<Vec<Change>>>,
}

impl EtcdCache {
    /// Starts the task, which ends with the runtime or when [`tokio::task::JoinHandle::abort`] is
    /// called on the handle.
    pub fn start(store: Store, keys: Keys) -> (EtcdCache, tokio::task::JoinHandle<()>) {
        let (cache, follower) = EtcdCache::new(store, keys, Clock::system());
        (cache, tokio::spawn(follower.follow()))
    }

    /// Returns a handle, and the follower that keeps it current once it is run.
    pub fn new(store: Store, keys: Keys, clock: Clock) -> (EtcdCache, Follower) {
        let (snapshot, snapshots) = watch::channel(Arc::new(Snapshot::new(keys.clone())));
        let nothing = Health {
            last_contact: None,
            fault: Some(Fault::Unavailable("etcd has not answered yet".to_string())),
        };
        let (health, healths) = watch::channel(nothing);
        let news = broadcast::channel(BACKLOG).0;
        let cache = EtcdCache {
            store: store.clone(),
            keys: keys.clone(),
            clock: clock.clone(),
            snapshot: snapshots,
            health: healths,
            news: news.clone(),
        };
        (
            cache,
            Follower {
                store,
                keys,
                clock,
                snapshot,
                health,
                news,
                machine: None,
                goal: Goal::new(),
                refused: None,
            },
        )
    }

    /// Returns the current snapshot. Release it soon: the follower copies a snapshot that is still
    /// held before changing it.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// Signals each change of the snapshot.
    pub fn changes(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }

    /// Streams each batch of changes after it was applied. An empty batch means that everything was
    /// read again. A slow receiver loses the oldest batches and gets an error.
    pub fn news(&self) -> broadcast::Receiver<Arc<Vec<Change>>> {
        self.news.subscribe()
    }

    /// Signals each change of the store's health.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// The store behind the cache.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The clock of the cache.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The keys of the cluster.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Waits until the snapshot has reached `revision`. Returns false on timeout.
    pub async fn reached(&self, revision: i64, within: Duration) -> bool {
        let mut snapshots = self.snapshot.clone();
        let seen = snapshots.wait_for(|snapshot| snapshot.revision >= revision);
        matches!(self.clock.within(within, seen).await, Some(Ok(_)))
    }

    /// Reads everything from the store.
    ///
    /// # Errors
    /// The store did not answer, or the answer is doubtful ([`Snapshot::doubt`]).
    pub async fn read(&self) -> Result<Snapshot, Fault> {
        let known = self.snapshot().revision;
        let reading = self.store.read(self.keys.root()).await?;
        let fresh = Snapshot::of(self.keys.clone(), &reading);
        let now = self.snapshot();
        if (known..now.revision).contains(&fresh.revision) {
            // The watch advanced while the reading was in flight; that is no cause for doubt.
            return Ok((*now).clone());
        }
        match now.doubt(&fresh) {
            Some(doubt) => Err(doubtful(&doubt)),
            None => Ok(fresh),
        }
    }

    /// Makes a transaction from the snapshot and commits it. If a condition fails or the result is
    /// unknown, the write is made again from a fresh reading, a bounded number of times.
    /// `make` returns `Ok(None)` when no write is needed. Returns the revision of the write, or the
    /// one at which none was needed.
    ///
    /// # Errors
    /// `make` refused; the store failed; or other clients interfered every time.
    pub async fn write<E>(
        &self,
        mut make: impl FnMut(&Snapshot) -> Result<Option<Transaction>, E>,
    ) -> Result<i64, WriteFault<E>> {
        let mut snapshot = self.snapshot();
        let mut last = WriteFault::Contended;
        for _ in 0..TRIES {
            let Some(transaction) = make(&snapshot).map_err(WriteFault::Refused)? else {
                return Ok(snapshot.revision);
            };
            let transaction = registry::of_this_cluster(&snapshot, transaction);
            match self.store.commit(&transaction).await {
                Ok(Some(revision)) => return Ok(revision),
                Ok(None) => last = WriteFault::Contended,
                Err(Fault::Unknown(why)) => last = WriteFault::Store(Fault::Unknown(why)),
                Err(fault) => return Err(WriteFault::Store(fault)),
            }
            match self.read().await {
                Ok(fresh) => snapshot = Arc::new(fresh),
                Err(fault) => return Err(WriteFault::Store(unless_unknown(&last, fault))),
            }
        }
        Err(last)
    }
}

/// The hint for an operator whose etcd was restored from a backup or replaced.
const REMEDY: &str = "its contents are ignored; to accept them, remove the file `cluster` in \
                      fleetd's runtime directory (/run/fleet) and restart fleetd";

fn doubtful(doubt: &str) -> Fault {
    Fault::Unavailable(format!("{doubt}: {REMEDY}"))
}

impl Health {
    /// Returns why etcd's contents are not accepted, with the hint for the operator.
    pub fn doubt(&self) -> Option<&str> {
        match &self.fault {
            Some(Fault::Unavailable(why)) if why.ends_with(REMEDY) => Some(why),
            Some(Fault::Unavailable(_) | Fault::Refused(_) | Fault::Unknown(_)) | None => None,
        }
    }
}

/// Keeps an unknown result of the write if the following reading fails too.
fn unless_unknown<E>(last: &WriteFault<E>, fault: Fault) -> Fault {
    match last {
        WriteFault::Store(unknown @ Fault::Unknown(_)) => unknown.clone(),
        WriteFault::Store(Fault::Unavailable(_) | Fault::Refused(_))
        | WriteFault::Refused(_)
        | WriteFault::Contended => fault,
    }
}

/// The task that keeps an [`EtcdCache`] current.
pub struct Follower {
    store: Store,
    keys: Keys,
    clock: Clock,
    snapshot: watch::Sender<Arc<Snapshot>>,
    health: watch::Sender<Health>,
    news: broadcast::Sender<Arc<Vec<Change>>>,
    machine: Option<MachineId>,
    /// The goal of the machine by the last reading, including withheld units.
    goal: Goal,
    /// Units of the goal that do not run there.
    refused: Option<watch::Receiver<BTreeSet<UnitName>>>,
}

impl Follower {
    /// Guards the running units of a machine against suspicious readings
    /// ([`crate::suspicious_read_guard`]).
    #[must_use]
    pub fn on(self, machine: MachineId) -> Follower {
        Follower { machine: Some(machine), ..self }
    }

    /// Starts from a previous goal, some of whose units are `withheld`.
    #[must_use]
    pub fn after(self, goal: Goal, withheld: BTreeSet<UnitName>) -> Follower {
        self.snapshot.send_modify(|snapshot| Arc::make_mut(snapshot).withheld = withheld);
        Follower { goal, ..self }
    }

    /// Accepts only the given cluster from the start.
    #[must_use]
    pub fn knowing(self, known: Option<Known>) -> Follower {
        if let Some(known) = known {
            self.snapshot.send_replace(Arc::new(Snapshot::expecting(self.keys.clone(), known)));
        }
        self
    }

    /// Follows etcd; the task never ends.
    pub async fn follow(mut self) {
        loop {
            let Err(fault) = self.until_lost().await else { continue };
            self.health.send_modify(|health| health.fault = Some(fault));
            self.clock.sleep(AGAIN).await;
        }
    }

    /// Mutant: a reading in which everything but the cluster record is missing.
    fn as_if_emptied(&self) -> Reading {
        let snapshot = self.snapshot.borrow();
        let key = self.keys.of(&Subject::Cluster);
        let entry = snapshot.cluster.iter().map(|kept| Entry {
            key: key.clone(),
            value: encode(&kept.record),
            created: kept.created,
            modified: kept.modified,
            lease: kept.lease,
        });
        Reading { revision: snapshot.revision, entries: entry.collect() }
    }

    /// Returns true if the cluster key was deleted. The cluster itself never deletes that key, so
    /// another program deleted everything.
    fn is_wiped(&self, changes: &[Change]) -> bool {
        let key = self.keys.of(&Subject::Cluster);
        let is_it =
            |change: &Change| matches!(change, Change::Delete { key: gone, .. } if *gone == key);
        changes.iter().any(is_it)
    }

    fn contact(&self) {
        let now = self.clock.now();
        self.health.send_if_modified(|health| {
            let back = health.fault.take().is_some();
            health.last_contact = Some(now);
            back
        });
    }

    /// Computes the goal of this machine from a snapshot and the previous goal.
    fn next_goal(&self, snapshot: &Snapshot, before: &Goal) -> Goal {
        self.machine.as_ref().map_or_else(Goal::new, |me| agent::goal(snapshot, me, before))
    }

    /// Reads everything and installs it. Returns the watch of later changes, and the
    /// [`Store::turn`] of the etcd member that serves it. The reading, which holds all units, is
    /// dropped here because the watch may run for months.
    async fn begin(&mut self) -> Result<(Watch, usize), Fault> {
        let root = self.keys.root();
        let reading = match self.store.read(root).await {
            Err(_) if planted(Mutant::FaultIsEmpty) => self.as_if_emptied(),
            read => read?,
        };
        let watch = self.store.watch(root, reading.revision).await?;
        let turn = self.store.turn();
        let mut fresh = self.snapshot.borrow().read_again(&reading);
        if let Some(doubt) = self.snapshot.borrow().doubt(&fresh) {
            return Err(doubtful(&doubt));
        }
        // The goal is carried from reading to reading, like the units that run. So a second
        // suspicious reading is compared with the goal before the first.
        let begins = self.health.borrow().last_contact.is_none();
        let goal = match begins {
            true => self.goal.clone(),
            false => self.next_goal(&self.snapshot.borrow(), &self.goal),
        };
        fresh.withheld = self.withheld(&goal, &fresh).await?;
        self.goal = self.next_goal(&fresh, &goal);
        self.snapshot.send_replace(Arc::new(fresh));
        Ok((watch, turn))
    }

    /// Follows the watch. Returns `Ok` when everything has to be read again at once.
    async fn until_lost(&mut self) -> Result<(), Fault> {
        let (mut watch, turn) = self.begin().await?;
        let root = self.keys.root();
        let last_reading = self.clock.now();
        let mut newer: Option<i64> = None;
        self.contact();
        let _ = self.news.send(Arc::new(Vec::new()));
        let mut pulse = self.clock.every(PULSE);
        loop {
            let batch = tokio::select! {
                biased;
                batch = watch.next() => batch?,
                () = pulse.tick() => {
                    // An idle watch and a dead one look alike.
                    let there = self.store.read(&format!("{root}leader")).await?.revision;
                    self.contact();
                    if self.store.turn() != turn {
                        return Ok(());
                    }
                    let here = self.snapshot.borrow().revision;
                    let silent = newer.is_some_and(|newer| newer > here);
                    let is_due = self.clock.since(last_reading) > FULL_READING;
                    if silent && is_due && !planted(Mutant::SilenceBelieved) {
                        return Ok(());
                    }
                    newer = newer.filter(|_| silent).or((there > here).then_some(there));
                    continue;
                }
            };
            match batch {
                Batch::Compacted if planted(Mutant::CompactionIgnored) => {
                    let now = self.store.read(&format!("{root}leader")).await?.revision;
                    watch = self.store.watch(root, now).await?;
                }
                Batch::Compacted => return Ok(()),
                Batch::Changes { changes, .. } if self.is_wiped(&changes) => {
                    return Err(doubtful("all keys of the cluster were deleted from etcd"));
                }
                Batch::Changes { revision, changes } => {
                    self.snapshot.send_modify(|snapshot| {
                        let snapshot = Arc::make_mut(snapshot);
                        snapshot.take(&changes);
                        snapshot.revision = snapshot.revision.max(revision);
                    });
                    self.contact();
                    if !changes.is_empty() {
                        let _ = self.news.send(Arc::new(changes));
                    }
                }
            }
        }
    }
}
