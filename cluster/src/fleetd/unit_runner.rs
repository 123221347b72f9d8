//! Runs the units that the cluster assigns to this machine.
//! It puts the files and roots of [`crate::agent`] at the local init when they change, and
//! publishes the states that init reports. Without etcd, or while the machine is not registered, it
//! puts nothing and units keep running. Only exclusive units are given up, before their claim can
//! expire.

mod claims;
mod final_stop;
mod handover;
mod release;
mod report;
mod saving;
mod silence;

use super::identity::Identity;
use super::init::Init;
use super::machine_lease::MachineLease;
use super::metrics::Metrics;
use super::saved_state::{Keep, SavedState};
use super::trusted_keys::TrustKeeper;
use crate::agent::{self, Goal};
use crate::etcd_cache::EtcdCache;
use crate::fence::ClaimValidity;
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

/// Interval for checking claims and retrying failures.
const PULSE: Duration = Duration::from_millis(250);
/// Delay that combines events of init into one request.
const TOGETHER: Duration = Duration::from_millis(10);

/// File hashes of units.
type Hashes = BTreeMap<UnitName, String>;

/// The task.
pub struct UnitRunner {
    cache: EtcdCache,
    me: MachineId,
    /// Distinguishes our claims from those of an earlier run of the machine.
    instance: String,
    init: Init,
    ttl: Duration,
    machine_lease: watch::Receiver<MachineLease>,
    goal: Goal,
    /// The source at init, as far as known; `None` if we have not put any yet.
    put: Option<SourceSet>,
    /// The last known source, while the current one is unknown.
    had: Option<SourceSet>,
    /// The file hashes of the source that init's last reported states belong to.
    hashes: Hashes,
    /// The file hashes of a newer source, until init has reported the states under it.
    fresh: Option<Hashes>,
    /// The file hashes of running processes, which may be older than the files at init.
    running: Hashes,
    revision: Option<u64>,
    complaints: BTreeMap<String, String>,
    units: BTreeMap<String, UnitStatus>,
    held: BTreeSet<UnitName>,
    /// The revisions of our claims, which an older snapshot does not show.
    claimed: BTreeMap<UnitName, i64>,
    /// The revisions of released claims that the snapshot still shows.
    released: BTreeMap<UnitName, i64>,
    /// The lease of the claims.
    held_under: Option<i64>,
    /// Units whose claim may still be under an earlier lease, with its validity.
    earlier: BTreeMap<UnitName, ClaimValidity>,
    /// Of those, the units whose claim under the present lease was requested with unknown result.
    requested_again: BTreeSet<UnitName>,
    /// The published states, and their lease.
    published: BTreeMap<UnitName, report::Published>,
    published_under: Option<i64>,
    /// The newest revision of our own state writes.
    published_at: i64,
    /// Init did not report the unit states at the last request.
    blind: bool,
    /// Units that were given up but may still be at init.
    giving_up: BTreeSet<UnitName>,
    /// A retry is needed.
    again: bool,
    /// A retry is needed because etcd failed, or because a key is bound to a lease of ours that may
    /// have expired. There are no retries while the lease is overdue.
    etcd_failed: bool,
    /// The logged fault of init; each is logged once.
    fault: String,
    /// When the first request to init failed, while init does not answer.
    silent: Option<Duration>,
    /// The time of the last request to init.
    asked_init: Duration,
    /// Why init permanently refuses the source.
    refused: Option<String>,
    /// The refused source, which is not retried continuously.
    put_off: Option<handover::PutOff>,
    /// Init is shutting down and accepts nothing more.
    ending: bool,
    /// Init had no source of ours at the last request.
    init_has_no_source: bool,
    proof: Option<Duration>,
    asked_members: Option<Duration>,
    /// Checks signatures; `None` to run all units.
    trust_keeper: Option<TrustKeeper>,
    /// The withheld units that were last logged.
    withheld: BTreeSet<UnitName>,
    /// The goal of the previous fleetd; `None` once init has reported which of its units still run.
    ran: Option<Goal>,
    /// Publishes wanted units that do not run, for the guard against suspicious readings.
    refusing: watch::Sender<BTreeSet<UnitName>>,
    /// The latest time to give up exclusive units; `None` if none runs here.
    give_up_deadline: watch::Sender<Option<Duration>>,
    /// Saves the state for the next fleetd.
    keep: Option<Keep>,
    /// The last saved state, and when.
    kept: Option<(SavedState, Duration)>,
    /// Counts reconciliations.
    metrics: Arc<Metrics>,
}

/// A request to stop units and exit.
pub struct Leave {
    /// The units to stop.
    pub stops: Stops,
    /// Gets true when they have stopped, false on timeout.
    pub done: oneshot::Sender<bool>,
}

/// The units that stop with fleetd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    /// All units of this machine, which leaves the cluster.
    All,
    /// Only units with a claim: without fleetd nothing stops them when the lease expires.
    Exclusive,
}

impl UnitRunner {
    /// Creates the unit runner of a machine.
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
            requested_again: BTreeSet::new(),
            published: BTreeMap::new(),
            published_under: None,
            published_at: 0,
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
            init_has_no_source: false,
            proof: None,
            asked_members: None,
            trust_keeper: None,
            withheld: BTreeSet::new(),
            ran: None,
            refusing: watch::channel(BTreeSet::new()).0,
            give_up_deadline: watch::channel(None).0,
            keep: None,
            kept: None,
            metrics: Arc::default(),
        }
    }

    /// Runs only units that the keeper trusts.
    #[must_use]
    pub fn with_trust_keeper(self, trust_keeper: Option<TrustKeeper>) -> UnitRunner {
        UnitRunner { trust_keeper, ..self }
    }

    /// Publishes the wanted units that do not run.
    #[must_use]
    pub fn with_refusing(self, refusing: watch::Sender<BTreeSet<UnitName>>) -> UnitRunner {
        UnitRunner { refusing, ..self }
    }

    /// Publishes the latest time to give up exclusive units.
    #[must_use]
    pub fn with_give_up_deadline(
        self,
        give_up_deadline: watch::Sender<Option<Duration>>,
    ) -> UnitRunner {
        UnitRunner { give_up_deadline, ..self }
    }

    /// Counts reconciliations in these metrics.
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> UnitRunner {
        UnitRunner { metrics, ..self }
    }

    /// Runs until a [`Leave`] request. `happens` signals events of init.
    pub async fn work(mut self, mut leave: mpsc::Receiver<Leave>, mut happens: mpsc::Receiver<()>) {
        let mut news = self.cache.news();
        let clock = self.cache.clock().clone();
        let (mut pulse, mut alarm) = (clock.every(PULSE), clock.alarm());
        loop {
            alarm.set(self.due());
            self.publish_deadline();
            tokio::select! {
                // The guard of exclusive units has priority over everything else when a machine
                // resumes after a pause.
                biased;
                () = alarm.rings() => self.guard_claims().await,
                () = pulse.tick() => {
                    self.guard_claims().await;
                    self.ping_init().await;
                    if self.needs_retry() {
                        self.reconcile().await;
                    }
                    self.save_periodically();
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
                    if now.lease.is_some() && now.lease != self.published_under {
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
                    let down = self.stop_and_wait(leave.stops, &mut happens).await;
                    let _ = leave.done.send(down);
                    return;
                }
            }
        }
    }

    /// Returns true if there is something to retry.
    fn needs_retry(&mut self) -> bool {
        self.take_proof();
        self.again || self.is_retry_due() || self.etcd_failed && !self.is_overdue()
    }

    fn is_concerned(&self, batch: Result<Arc<Vec<Change>>, broadcast::error::RecvError>) -> bool {
        // The receiver lagged, or everything was read again.
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
                // The newest serial of every unit is recorded, wherever it runs.
                Some(Subject::Unit(_)) if self.trust_keeper.is_some() => true,
                // Another unit may wait for the release of our claim.
                Some(Subject::Claim(machine, _)) if machine == self.me => true,
                Some(
                    Subject::Claim(_, name)
                    | Subject::Unit(name)
                    | Subject::Desired(name)
                    | Subject::Place(name),
                ) => self.goal.contains_key(&name),
                Some(Subject::State(machine, name)) => {
                    machine == self.me && !self.has_published(&name, change.revision())
                }
                _ => false,
            }
        };
        batch.is_empty() || batch.iter().any(concerns)
    }

    /// Brings init, the claims and the published states in line with the snapshot.
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
        if !self.is_registered(&snapshot, lease) && !outside {
            self.again = true;
            return;
        }
        self.hold_under(lease);
        let is_ready = self.take_over().await;
        let next = agent::goal(&snapshot, &self.me, &self.goal);
        let before = std::mem::replace(&mut self.goal, next);
        self.log_withheld(&snapshot);
        if let Some(trust_keeper) = &mut self.trust_keeper {
            trust_keeper.judge(&snapshot, &mut self.goal, &before);
        }
        agent::refuse_namesakes(&mut self.goal, &before);
        let refused = self.goal.iter().filter(|(_, one)| one.refusal.is_some());
        self.refusing.send_replace(refused.map(|(name, _)| name.clone()).collect());
        self.remember(SavedState::of(&snapshot, self.goal.clone()));
        if is_ready && self.claim(&snapshot, lease).await {
            self.put().await;
        }
        self.publish(&snapshot, lease).await;
    }

    /// Returns true if the snapshot shows this machine registered with that lease; only then it
    /// acts on its schedule.
    fn is_registered(&self, snapshot: &Snapshot, lease: i64) -> bool {
        snapshot.machines.get(&self.me).is_some_and(|kept| kept.lease == lease)
    }
}
