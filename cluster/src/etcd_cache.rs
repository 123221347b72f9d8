//! All that etcd holds of the cluster, cached: a task keeps a [`Snapshot`] up to date by one reading
//! and a watch. It reads again when the watch is lost or too much time has passed. The cache is never
//! emptied because etcd does not answer; [`Health`] says since when nothing new has come.

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

/// Between two tries to reach a store that does not answer.
const AGAIN: Duration = Duration::from_millis(250);
/// A store is asked for a sign of life that often, when nothing changes.
const PULSE: Duration = Duration::from_secs(1);
/// Where etcd has moved on and its watch has told nothing, all is read anew, that often at
/// most: others may write there too.
const PROOF: Duration = Duration::from_secs(30);
/// Batches a listener may be behind.
const BACKLOG: usize = 1024;
/// How often a write is made anew.
const TRIES: u32 = 8;

/// Whether the store answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// When it last did, by the cache's clock.
    pub last_contact: Option<Duration>,
    /// Since then: why not. `None`: it answers.
    pub fault: Option<Fault>,
}

/// Why a write was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteFault<E> {
    /// Who makes it found a reason not to.
    Refused(E),
    /// The store does not answer, or whether it was done is not known.
    Store(Fault),
    /// Others wrote the same keys, every time.
    Contended,
}

/// A handle; clones look at the same snapshot.
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

    /// A handle, and what keeps it up to date once somebody runs it.
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

    /// What is known now. Hold it no longer than needed: a snapshot that somebody holds is
    /// copied before it changes.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// Wakes at each change.
    pub fn changes(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }

    /// Each batch of changes after it was taken in; an empty one: all was read anew. Who is
    /// too slow loses the oldest and is told so.
    pub fn news(&self) -> broadcast::Receiver<Arc<Vec<Change>>> {
        self.news.subscribe()
    }

    /// Whether the store answers.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// Where it reads, and where one writes.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The time it goes by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The keys of the cluster.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Waits until what was committed at that revision can be seen here; false: not in time.
    pub async fn reached(&self, revision: i64, within: Duration) -> bool {
        let mut snapshots = self.snapshot.clone();
        let seen = snapshots.wait_for(|snapshot| snapshot.revision >= revision);
        matches!(self.clock.within(within, seen).await, Some(Ok(_)))
    }

    /// What the store holds at this moment.
    ///
    /// # Errors
    /// No answer, or one that may not be believed ([`Snapshot::doubt`]).
    pub async fn read(&self) -> Result<Snapshot, Fault> {
        let known = self.snapshot().revision;
        let reading = self.store.read(self.keys.root()).await?;
        let fresh = Snapshot::of(self.keys.clone(), &reading);
        let now = self.snapshot();
        if (known..now.revision).contains(&fresh.revision) {
            // While it was on its way the watch told more: no cause for doubt.
            return Ok((*now).clone());
        }
        match now.doubt(&fresh) {
            Some(doubt) => Err(doubtful(&doubt)),
            None => Ok(fresh),
        }
    }

    /// Makes a write from what is known and carries it out; where a condition did not hold,
    /// or nobody knows whether it was done, it is made anew from a fresh reading, a bounded
    /// number of times. `make` answers `Ok(None)` when nothing need be written (any more).
    /// The answer is the revision it made, or the one at which there was nothing to do.
    ///
    /// # Errors
    /// Refused by who makes it; the store; too many others.
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

/// The remedy for an operator whose etcd was restored from a backup, or replaced.
const REMEDY: &str = "nothing is taken from it. If it is right, say so: remove the file `cluster` in \
                      fleetd's runtime directory (/run/fleet) and restart fleetd";

fn doubtful(doubt: &str) -> Fault {
    Fault::Unavailable(format!("{doubt}: {REMEDY}"))
}

impl Health {
    /// Why what etcd answers is not believed, and what an operator does then.
    pub fn doubt(&self) -> Option<&str> {
        match &self.fault {
            Some(Fault::Unavailable(why)) if why.ends_with(REMEDY) => Some(why),
            Some(Fault::Unavailable(_) | Fault::Refused(_) | Fault::Unknown(_)) | None => None,
        }
    }
}

/// A write nobody knows of stays so when it can not be looked for either.
fn unless_unknown<E>(last: &WriteFault<E>, fault: Fault) -> Fault {
    match last {
        WriteFault::Store(unknown @ Fault::Unknown(_)) => unknown.clone(),
        WriteFault::Store(Fault::Unavailable(_) | Fault::Refused(_))
        | WriteFault::Refused(_)
        | WriteFault::Contended => fault,
    }
}

/// What keeps an [`EtcdCache`] up to date.
pub struct Follower {
    store: Store,
    keys: Keys,
    clock: Clock,
    snapshot: watch::Sender<Arc<Snapshot>>,
    health: watch::Sender<Health>,
    news: broadcast::Sender<Arc<Vec<Change>>>,
    machine: Option<MachineId>,
    /// What was to run there by the last reading, and what went on without its word.
    goal: Goal,
    /// What of it does not run there.
    refused: Option<watch::Receiver<BTreeSet<UnitName>>>,
}

impl Follower {
    /// For a machine, whose units no reading stops without a word ([`crate::suspicious_read_guard`]).
    #[must_use]
    pub fn on(self, machine: MachineId) -> Follower {
        Follower { machine: Some(machine), ..self }
    }

    /// That ran on the machine before this began, some of it `withheld` from being stopped.
    #[must_use]
    pub fn after(self, goal: Goal, withheld: BTreeSet<UnitName>) -> Follower {
        self.snapshot.send_modify(|snapshot| Arc::make_mut(snapshot).withheld = withheld);
        Follower { goal, ..self }
    }

    /// It holds to that cluster from the beginning.
    #[must_use]
    pub fn knowing(self, known: Option<Known>) -> Follower {
        if let Some(known) = known {
            self.snapshot.send_replace(Arc::new(Snapshot::expecting(self.keys.clone(), known)));
        }
        self
    }

    /// Goes on for ever.
    pub async fn follow(mut self) {
        loop {
            let Err(fault) = self.until_lost().await else { continue };
            self.health.send_modify(|health| health.fault = Some(fault));
            self.clock.sleep(AGAIN).await;
        }
    }

    /// The mistake: of all that was known of the cluster nothing is there but which it is.
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

    /// Nothing of ours ever deletes that key: somebody has deleted everything.
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

    /// What is to be on this machine, after what was.
    fn next_goal(&self, snapshot: &Snapshot, before: &Goal) -> Goal {
        self.machine.as_ref().map_or_else(Goal::new, |me| agent::goal(snapshot, me, before))
    }

    /// Reads all and takes it in. The watch of what comes next, and the turn in which it was read.
    /// The reading, which has all units in it, ends here: what follows may run for months.
    async fn begin(&mut self) -> Result<(Watch, usize), Fault> {
        let root = self.keys.root();
        let reading = match self.store.read(root).await {
            Err(_) if planted(Mutant::FaultIsEmpty) => self.as_if_emptied(),
            read => read?,
        };
        let watch = self.store.watch(root, reading.revision).await?;
        let turn = self.store.turn();
        let mut fresh = self.snapshot.borrow().read_anew(&reading);
        if let Some(doubt) = self.snapshot.borrow().doubt(&fresh) {
            return Err(doubtful(&doubt));
        }
        // Carried on from reading to reading, as what runs is: of a second one that has less in it
        // what the first one had is no measure.
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

    /// `Ok`: read again at once.
    async fn until_lost(&mut self) -> Result<(), Fault> {
        let (mut watch, turn) = self.begin().await?;
        let root = self.keys.root();
        let proved = self.clock.now();
        let mut ahead: Option<i64> = None;
        self.contact();
        let _ = self.news.send(Arc::new(Vec::new()));
        let mut pulse = self.clock.every(PULSE);
        loop {
            let batch = tokio::select! {
                biased;
                batch = watch.next() => batch?,
                () = pulse.tick() => {
                    // A stream that is quiet and one that is dead look alike.
                    let there = self.store.read(&format!("{root}leader")).await?.revision;
                    self.contact();
                    if self.store.turn() != turn {
                        return Ok(());
                    }
                    let here = self.snapshot.borrow().revision;
                    let silent = ahead.is_some_and(|ahead| ahead > here);
                    if silent && !planted(Mutant::SilenceBelieved) && self.clock.since(proved) > PROOF {
                        return Ok(());
                    }
                    ahead = ahead.filter(|_| silent).or((there > here).then_some(there));
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
                    return Err(doubtful("all of the cluster was deleted from etcd"));
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
