//! Carries out what the cluster tells this machine: puts the files and roots of [`crate::agent`] at the
//! local init when they change, and publishes the states that init reports. Without etcd, or
//! without a place in the cluster, nothing is put and units go on. Only exclusive units are given
//! up, when their claim may have ended.

mod claims;
mod final_stop;
mod handover;
mod memory;
mod release;
mod report;
mod silence;

use super::identity::Identity;
use super::init::Init;
use super::machine_lease::MachineLease;
use super::metrics::Metrics;
use super::persisted_identity::{Keep, Recalled};
use super::trusted_keys::TrustKeeper;
use crate::agent::{self, Goal};
use crate::etcd_cache::EtcdCache;
use crate::fence::Worth;
use crate::key::Subject;
use crate::machine::MachineId;
use crate::mutant::{Mutant, planted};
use crate::snapshot::Snapshot;
use crate::transaction::Change;
use crate::unit_name::UnitName;
use groundstate_units::control::answer::UnitStatus;
use groundstate_units::control::source_set::SourceSet;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

/// Claims are looked at, and what failed is tried again, that often.
const PULSE: Duration = Duration::from_millis(250);
/// Events of init that come together are one question.
const TOGETHER: Duration = Duration::from_millis(10);

/// Of units' files.
type Hashes = BTreeMap<UnitName, String>;

/// The task.
pub struct UnitRunner {
    cache: EtcdCache,
    me: MachineId,
    /// Tells our claims from those of an earlier run of the machine.
    instance: String,
    init: Init,
    ttl: Duration,
    machine_lease: watch::Receiver<MachineLease>,
    goal: Goal,
    /// What init holds, as far as we know; `None`: nothing was put by us yet.
    put: Option<SourceSet>,
    /// What it held by the last that was known, where that is not known any more.
    had: Option<SourceSet>,
    /// The hashes of what that was made of, once init has said how it fares.
    hashes: Hashes,
    /// The same, until then.
    fresh: Option<Hashes>,
    /// Of what runs: a process may be older than the file that init has by now.
    running: Hashes,
    revision: Option<u64>,
    complaints: BTreeMap<String, String>,
    units: BTreeMap<String, UnitStatus>,
    held: BTreeSet<UnitName>,
    /// The revisions at which they were claimed: an older snapshot does not know.
    claimed: BTreeMap<UnitName, i64>,
    /// The revisions of claims that were given back, as far as the snapshot knows of them still.
    released: BTreeMap<UnitName, i64>,
    /// The lease they are claimed under.
    held_under: Option<i64>,
    /// Those whose claim may be made under an earlier lease still, and what that is worth.
    earlier: BTreeMap<UnitName, Worth>,
    /// Those of them that were asked for under the present one: whether they are made anew is not known.
    asked_anew: BTreeSet<UnitName>,
    /// What was told, and under which lease.
    told: BTreeMap<UnitName, report::Told>,
    told_under: Option<i64>,
    /// The newest revision that we told something in.
    told_at: i64,
    /// init did not say how the units fare when it was asked last.
    blind: bool,
    /// What was given up may be at init still.
    giving_up: BTreeSet<UnitName>,
    /// Something failed and is to be tried again.
    again: bool,
    /// The same of what etcd did not do, or holds by a lease of ours that may be over: as long as nothing is
    /// heard of that, nothing comes of trying.
    etcd_failed: bool,
    /// What init's silence was said to be: it is said once.
    fault: String,
    /// init does not answer, since then.
    silent: Option<Duration>,
    /// When it was asked last.
    asked_init: Duration,
    /// Why init does not take what is put, where that is no passing matter.
    refused: Option<String>,
    /// What that was said of, which is not put again all the time.
    put_off: Option<handover::PutOff>,
    /// init stops everything itself, and takes nothing any more.
    ending: bool,
    /// init had nothing of ours when it was asked last.
    has_none: bool,
    proof: Option<Duration>,
    asked_members: Option<Duration>,
    /// `None`: everything is run.
    trust_keeper: Option<TrustKeeper>,
    /// What goes on though nothing is known of it, as it was said last.
    withheld: BTreeSet<UnitName>,
    /// What the fleetd before this one ran; `None`: it is known what of that runs still.
    ran: Option<Goal>,
    /// What is to run here and is not, for who judges readings by what runs.
    refusing: watch::Sender<BTreeSet<UnitName>>,
    /// When exclusive units are given up at the latest; `None`: none runs here.
    guarded: watch::Sender<Option<Duration>>,
    /// Keeps what the one after it is to know.
    keep: Option<Keep>,
    /// What was kept last, and when.
    kept: Option<(Recalled, Duration)>,
    /// Counts how often it looks at all it was told.
    metrics: Arc<Metrics>,
}

/// Asks it to leave: it stops units and answers.
pub struct Leave {
    /// Which.
    pub stops: Stops,
    /// When they are down, or can not be waited for any longer: false.
    pub done: oneshot::Sender<bool>,
}

/// What does not outlive fleetd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    /// The units of this machine: it leaves the cluster.
    All,
    /// Those that run under a claim alone: nobody is there to give them up when the lease ends.
    Exclusive,
}

impl UnitRunner {
    /// Of a machine.
    pub fn new(
        cache: EtcdCache,
        Identity { id: me, instance, .. }: Identity,
        init: Init,
        ttl: Duration,
        machine_lease: watch::Receiver<MachineLease>,
    ) -> UnitRunner {
        UnitRunner {
            cache,
            me,
            instance,
            init,
            ttl,
            machine_lease,
            goal: Goal::new(),
            put: None,
            had: None,
            hashes: Hashes::new(),
            fresh: None,
            running: Hashes::new(),
            revision: None,
            complaints: BTreeMap::new(),
            units: BTreeMap::new(),
            held: BTreeSet::new(),
            claimed: BTreeMap::new(),
            released: BTreeMap::new(),
            held_under: None,
            earlier: BTreeMap::new(),
            asked_anew: BTreeSet::new(),
            told: BTreeMap::new(),
            told_under: None,
            told_at: 0,
            blind: false,
            giving_up: BTreeSet::new(),
            again: false,
            etcd_failed: false,
            fault: String::new(),
            silent: None,
            asked_init: Duration::ZERO,
            refused: None,
            put_off: None,
            ending: false,
            has_none: false,
            proof: None,
            asked_members: None,
            trust_keeper: None,
            withheld: BTreeSet::new(),
            ran: None,
            refusing: watch::channel(BTreeSet::new()).0,
            guarded: watch::channel(None).0,
            keep: None,
            kept: None,
            metrics: Arc::default(),
        }
    }

    /// It runs what this vouches for alone.
    #[must_use]
    pub fn vouched_by(self, trust_keeper: Option<TrustKeeper>) -> UnitRunner {
        UnitRunner { trust_keeper, ..self }
    }

    /// It tells there what it does not run.
    #[must_use]
    pub fn telling(self, refusing: watch::Sender<BTreeSet<UnitName>>) -> UnitRunner {
        UnitRunner { refusing, ..self }
    }

    /// Tells there when exclusive units are given up at the latest.
    #[must_use]
    pub fn guarding(self, guarded: watch::Sender<Option<Duration>>) -> UnitRunner {
        UnitRunner { guarded, ..self }
    }

    /// Its looks at all it was told are counted there.
    #[must_use]
    pub fn counted_by(self, metrics: Arc<Metrics>) -> UnitRunner {
        UnitRunner { metrics, ..self }
    }

    /// Until it is asked to leave. `happens`: something did, at init.
    pub async fn work(mut self, mut leave: mpsc::Receiver<Leave>, mut happens: mpsc::Receiver<()>) {
        let mut news = self.cache.news();
        let clock = self.cache.clock().clone();
        let (mut pulse, mut alarm) = (clock.every(PULSE), clock.alarm());
        loop {
            alarm.set(self.due());
            self.tell_deadline();
            tokio::select! {
                // What guards exclusive units comes before all else: where a machine goes on that has
                // stood still, whatever else waits by then.
                biased;
                () = alarm.rings() => self.guard_claims().await,
                () = pulse.tick() => {
                    self.guard_claims().await;
                    self.hear_init().await;
                    if self.is_to_go_on() {
                        self.reconcile().await;
                    }
                    self.remember_now_and_then();
                }
                batch = news.recv() => {
                    let mut concerned = self.is_concerned(batch);
                    while let Ok(batch) = news.try_recv() {
                        concerned |= self.is_concerned(Ok(batch));
                    }
                    if concerned {
                        self.reconcile().await;
                    }
                }
                Ok(()) = self.machine_lease.changed() => {
                    let now = *self.machine_lease.borrow_and_update();
                    self.take_proof();
                    self.remember_claims();
                    if now.lease.is_some() && now.lease != self.told_under {
                        self.reconcile().await;
                    }
                }
                Some(()) = happens.recv() => {
                    clock.sleep(TOGETHER).await;
                    let _ = happens.try_recv();
                    self.look().await;
                    self.reconcile().await;
                }
                Some(leave) = leave.recv() => {
                    let down = self.say_farewell(leave.stops, &mut happens).await;
                    let _ = leave.done.send(down);
                    return;
                }
            }
        }
    }

    /// There is something to be tried again.
    fn is_to_go_on(&mut self) -> bool {
        self.take_proof();
        self.again || self.is_put_again() || self.etcd_failed && !self.is_overdue()
    }

    fn is_concerned(&self, batch: Result<Arc<Vec<Change>>, broadcast::error::RecvError>) -> bool {
        // Too slow, or read anew: whatever has changed.
        let Ok(batch) = batch else { return true };
        let keys = self.cache.keys();
        let concerns = |change: &Change| {
            let key = match change {
                Change::Put(entry) => &entry.key,
                Change::Delete { key, .. } => key,
            };
            match keys.subject(key) {
                Some(Subject::Schedule(machine, _)) => machine == self.me,
                Some(
                    Subject::Machine(machine)
                    | Subject::Metadata(machine, _)
                    | Subject::Drain(machine),
                ) => machine == self.me,
                Some(Subject::Global(_)) => true,
                // A newer one of any name is remembered, wherever it is to run.
                Some(Subject::Unit(_)) if self.trust_keeper.is_some() => true,
                // Another one may wait for the end of ours.
                Some(Subject::Claim(machine, _)) if machine == self.me => true,
                Some(
                    Subject::Claim(_, name)
                    | Subject::Unit(name)
                    | Subject::Desired(name)
                    | Subject::Place(name),
                ) => self.goal.contains_key(&name),
                Some(Subject::State(machine, name)) => {
                    machine == self.me && !self.has_told(&name, change.revision())
                }
                _ => false,
            }
        };
        batch.is_empty() || batch.iter().any(concerns)
    }

    /// All that follows from what is known now.
    async fn reconcile(&mut self) {
        self.metrics.reconciles();
        (self.again, self.etcd_failed) = (false, false);
        if self.blind {
            self.look().await;
        }
        let outside = planted(Mutant::ActsOutside);
        let Some(lease) = self.machine_lease.borrow().lease.or(outside.then_some(0)) else {
            return;
        };
        let snapshot = self.cache.snapshot();
        if snapshot.leader.is_none() && planted(Mutant::EngineAwaited) {
            return;
        }
        if !self.is_in(&snapshot, lease) && !outside {
            self.again = true;
            return;
        }
        self.hold_under(lease);
        let begun = self.begin().await;
        let next = agent::goal(&snapshot, &self.me, &self.goal);
        let before = std::mem::replace(&mut self.goal, next);
        self.say_withheld(&snapshot);
        if let Some(trust_keeper) = &mut self.trust_keeper {
            trust_keeper.judge(&snapshot, &mut self.goal, &before);
        }
        agent::part_namesakes(&mut self.goal, &before);
        let refused = self.goal.iter().filter(|(_, one)| one.refusal.is_some());
        self.refusing.send_replace(refused.map(|(name, _)| name.clone()).collect());
        self.remember(Recalled::of(&snapshot, self.goal.clone()));
        if begun && self.claim(&snapshot, lease).await {
            self.put().await;
        }
        self.tell(&snapshot, lease).await;
    }

    /// The cluster knows this machine by that lease: what it is told it does.
    fn is_in(&self, snapshot: &Snapshot, lease: i64) -> bool {
        snapshot.machines.get(&self.me).is_some_and(|kept| kept.lease == lease)
    }
}
