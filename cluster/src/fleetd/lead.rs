//! Leads the cluster: one engine owns the key `leader`, which is bound to its lease. It writes the
//! tasks of the [`Engine`], each conditional on the revision that wrote that key. This task feeds
//! the engine and reports the results of its writes.

mod etcd_silence;
mod writing;

use super::machine_lease::MachineLease;
use super::metrics::Metrics;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::etcd_cache::EtcdCache;
use crate::fence;
use crate::key::Subject;
use crate::log;
use crate::machine::MachineId;
use crate::mutant::{Mutant, planted};
use crate::registry::{self, Epoch};
use crate::snapshot::Snapshot;
use crate::store::{Batch, Fault};
use crate::transaction::{Change, Entry};
use etcd_silence::EtcdSilence;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Delay between attempts to be elected.
const AGAIN: Duration = Duration::from_millis(500);
/// The same if etcd denies the right to lead.
const DENIED: Duration = Duration::from_secs(60);
/// A candidate waits this long for each machine with a smaller id. So the first machine is elected
/// before the second requests anything.
const STEP: Duration = Duration::from_millis(50);
/// Upper limit of that wait, because machines with smaller ids may never lead.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// The leader's lease in reconcile intervals, as in fleet.
const LEASE: u32 = 5;
/// Renewals per lease.
const RENEWALS: u32 = 3;
/// Reconcile intervals between full readings.
const FULL_READING: u32 = 15;

/// The duration of a leader's lease. It expires before the lease of the leader's machine, so that
/// the next leader sees that machine disappear and moves its units at once.
pub fn lease(interval: Duration, ttl: Duration) -> Duration {
    let lease = interval * LEASE;
    if planted(Mutant::LeadsLong) { lease } else { lease.min(fence::patience(ttl)) }
}

/// The task of a candidate and leader.
pub struct Candidate {
    /// The cache of the cluster.
    pub cache: EtcdCache,
    /// The machine that would lead.
    pub machine: MachineId,
    /// `engine_reconcile_interval`
    pub interval: Duration,
    /// `agent_ttl`
    pub ttl: Duration,
    /// `reschedule_grace`
    pub grace: Duration,
    /// Maximum number of operations in one write.
    pub room: usize,
    /// The machine's lease: only a registered machine leads.
    pub machine_lease: watch::Receiver<MachineLease>,
    /// The lease of the leader key in this term or the last one, to be revoked on exit.
    pub leading: watch::Sender<Option<i64>>,
    /// Metrics of the engine.
    pub metrics: Arc<Metrics>,
}

/// Why a term ended.
enum Over {
    /// The key or the lease is gone.
    Lost,
    Fault(Fault),
}

impl From<Fault> for Over {
    fn from(fault: Fault) -> Over {
        Over::Fault(fault)
    }
}

impl Candidate {
    /// Runs the election; the task never ends.
    pub async fn run(mut self) {
        let mut snapshots = self.cache.changes();
        let mut denied = false;
        loop {
            let mut pause = AGAIN;
            if self.machine_lease.wait_for(|state| state.lease.is_some()).await.is_err() {
                return;
            }
            let (own, led) = (self.machine_lease.borrow().lease, *self.leading.borrow());
            let left = led.filter(|_| !planted(Mutant::LetGoOnce));
            let free = |now: &Arc<Snapshot>| {
                let open = !is_led(now) || is_half_won(now, &self.machine, own);
                now.revision > 0 && (open || is_led_by(now, left))
            };
            if snapshots.wait_for(free).await.is_err() {
                return;
            }
            if let Some(lease) = left.filter(|_| is_led_by(&self.cache.snapshot(), left)) {
                // The term is over but its lease may exist, and etcd renews it in full after a loss
                // of quorum. So this loop revokes the lease again until the cache shows that it is
                // gone.
                let _ = self.cache.store().revoke(lease).await;
                self.cache.clock().sleep(AGAIN).await;
                continue;
            }
            let first = self.comes_first(&mut snapshots).await;
            if matches!(first, Some(false)) {
                continue;
            }
            if first.is_none() {
                self.cache.clock().sleep(AGAIN).await;
                continue;
            }
            let ended = self.term().await;
            self.metrics.leads_until(Duration::ZERO);
            match ended {
                Ok(()) | Err(Over::Lost) => {}
                Err(Over::Fault(fault)) if fault.is_denied() => {
                    if !std::mem::replace(&mut denied, true) {
                        log::error(format_args!(
                            "engine: etcd does not allow this machine to lead: give its user the role \
                             of an engine, or set disable_engine"
                        ));
                    }
                    pause = DENIED;
                }
                Err(Over::Fault(fault)) => log::debug(format_args!("engine: {fault}")),
            }
            let over = self.leading.borrow().filter(|now| Some(*now) != led);
            if let Some(lease) = over {
                log::info(format_args!("engine: no longer leading"));
                let _ = self.cache.store().revoke(lease).await;
            }
            self.cache.clock().sleep(pause).await;
        }
    }

    /// Waits for the candidates with smaller ids, then reads the leader key from etcd. After a
    /// power failure all machines see no leader, and most snapshots are outdated. Returns false if
    /// another machine leads, and `None` if etcd does not answer or the snapshot does not show that
    /// leader yet.
    async fn comes_first(&self, snapshots: &mut watch::Receiver<Arc<Snapshot>>) -> Option<bool> {
        let (own, snapshot) = (self.machine_lease.borrow().lease, self.cache.snapshot());
        if is_half_won(&snapshot, &self.machine, own) {
            return Some(true);
        }
        let before = snapshot.machines.range(..self.machine.clone()).count();
        drop(snapshot);
        let before = u32::try_from(before).unwrap_or(u32::MAX);
        let wait = STEP.saturating_mul(before).min(LONGEST_WAIT);
        let led = snapshots.wait_for(|snapshot| is_led(snapshot));
        if self.cache.clock().within(wait, led).await.is_some() {
            return Some(false);
        }
        let made = self.leader_key().await.ok()?;
        made.is_none_or(|made| made.lease == 0 || Some(made.lease) == own).then_some(true)
    }

    fn etcd_silence(&self) -> EtcdSilence {
        EtcdSilence { machine_lease: self.machine_lease.clone(), ttl: self.ttl }
    }

    async fn leader_key(&self) -> Result<Option<Entry>, Fault> {
        let key = self.cache.keys().of(&Subject::Leader);
        let reading = self.cache.store().read(&key).await?;
        Ok(reading.entries.into_iter().find(|entry| entry.key == key))
    }

    /// Stands for election and, if it wins, leads until the term ends. A candidate first binds the
    /// leader key to its machine's lease, so that losing candidates request no lease from etcd.
    /// Only the winner requests a leader lease. A winner that is interrupted before that requests
    /// it when it stands again. If it never does, the key expires with the machine's lease.
    async fn term(&mut self) -> Result<(), Over> {
        let store = self.cache.store().clone();
        let keys = self.cache.keys().clone();
        let Some(own) = self.machine_lease.borrow().lease else { return Ok(()) };
        let leaderless_since = self.cache.snapshot().leaderless_since();
        if leaderless_since.is_some() {
            let key = keys.of(&Subject::Leader);
            log::error(format_args!(
                "engine: {key} has no lease; treating the leader key as stale"
            ));
        }
        let lead = registry::lead_after(&keys, &self.machine, own, leaderless_since);
        match store.commit(&lead).await {
            // The key tells the result.
            Ok(_) | Err(Fault::Unknown(_)) => {}
            Err(fault) => return Err(fault.into()),
        }
        let made = self.leader_key().await?;
        let unwon = planted(Mutant::LeaseUnwon);
        let Some(made) = made.filter(|made| made.lease == own || unwon) else {
            return Err(Over::Lost);
        };
        let granted = self.cache.clock().now();
        let lease = store.grant(lease(self.interval, self.ttl)).await?;
        self.leading.send_replace(Some(lease.id));
        let renewed = registry::start_epoch(&keys, &self.machine, lease.id, Epoch(made.modified));
        match store.commit(&renewed).await {
            Ok(Some(_)) => {}
            Ok(None) => return Err(Over::Lost),
            Err(fault) => return Err(fault.into()),
        }
        let reading = store.read(keys.root()).await?;
        let key = keys.of(&Subject::Leader);
        let made = reading.entries.iter().find(|entry| entry.key == key);
        let Some(made) = made.filter(|entry| entry.lease == lease.id) else {
            return Err(Over::Lost);
        };
        let epoch = Epoch(made.modified);
        self.metrics.elected();
        self.metrics.leads_until(granted + lease.ttl);
        log::info(format_args!("engine: {} leads, since revision {}", self.machine, epoch.0));
        let clock = self.cache.clock().clone();
        let engine = Engine::new(keys, &reading, self.grace, clock.now());
        let seen = reading.revision;
        // The reading holds all units and must not stay in memory for a term, which may last for
        // months.
        drop(reading);
        let mut engine = engine.with_room_for(self.room);
        self.etcd_silence().inform(&mut engine, clock.now());
        let renewed = clock.now();
        let term = Term {
            cache: self.cache.clone(),
            engine,
            epoch,
            lease: lease.id,
            machine: self.machine.clone(),
            clock,
            etcd_silence: self.etcd_silence(),
            behind: false,
            ttl: lease.ttl,
            renewed,
            again: None,
            refusal: String::new(),
            seen,
            metrics: self.metrics.clone(),
            spent: None,
        };
        term.lead(self.interval * FULL_READING).await
    }
}

/// Returns true if a machine leads, or a lease keeps the key until it expires.
fn is_led(snapshot: &Snapshot) -> bool {
    snapshot.leader.is_some() && snapshot.leaderless_since().is_none()
}

/// Returns true if this machine was elected but has no leader lease yet.
fn is_half_won(snapshot: &Snapshot, machine: &MachineId, own: Option<i64>) -> bool {
    let leader = snapshot.leader.as_ref();
    leader.is_some_and(|kept| kept.record.machine == *machine && Some(kept.lease) == own)
}

/// Returns true if the key is held by the lease of our own ended term.
fn is_led_by(snapshot: &Snapshot, left: Option<i64>) -> bool {
    let lease = snapshot.leader.as_ref().map(|kept| kept.lease);
    left.is_some() && lease == left && is_led(snapshot)
}

struct Term {
    cache: EtcdCache,
    engine: Engine,
    epoch: Epoch,
    lease: i64,
    machine: MachineId,
    clock: Clock,
    etcd_silence: EtcdSilence,
    /// A write failed because the store has a newer revision, which the watch will report.
    behind: bool,
    ttl: Duration,
    /// The time at which the last successful renewal was requested.
    renewed: Duration,
    /// The time to retry a rejected write.
    again: Option<Duration>,
    /// The last logged reason.
    refusal: String,
    /// The engine decides only once it has seen this revision, its own write.
    seen: i64,
    metrics: Arc<Metrics>,
    /// Time spent on changes since the last decision.
    spent: Option<Duration>,
}

impl Term {
    async fn lead(mut self, full_reading: Duration) -> Result<(), Over> {
        let store = self.cache.store().clone();
        let keys = self.cache.keys().clone();
        if self.engine.snapshot().cluster.is_none() {
            let id = format!("{}-{:x}", self.machine, self.lease);
            match store.commit(&registry::create_cluster(&keys, self.epoch, id)).await {
                Ok(Some(_)) => {}
                Ok(None) => return Err(Over::Lost),
                Err(fault) => return Err(fault.into()),
            }
        }
        let mut watch = store.watch(keys.root(), self.engine.snapshot().revision).await?;
        let clock = self.clock.clone();
        let mut renewals = clock.every(self.ttl / RENEWALS);
        let mut full_readings = clock.every(full_reading);
        full_readings.reset();
        let mut turn = store.turn();
        loop {
            if !self.awaits_changes() {
                self.carry_out().await?;
            }
            // While the engine waits for changes, a passed deadline cannot be handled and must not
            // cause a busy loop.
            let due = self
                .engine
                .next_deadline()
                .filter(|_| !self.awaits_changes() || planted(Mutant::SpinsOnDeadline));
            let due = due.into_iter().chain(self.again.take()).min();
            let due = due.unwrap_or_else(|| clock.now() + full_reading);
            tokio::select! {
                biased;
                batch = watch.next() => match batch {
                    Ok(Batch::Changes { changes, .. }) => self.take_in(&changes)?,
                    Ok(Batch::Compacted) | Err(_) => {
                        self.read_again().await?;
                        watch = store.watch(keys.root(), self.engine.snapshot().revision).await?;
                    }
                },
                () = renewals.tick() => {
                    let before = self.renewed;
                    self.renew_lease().await?;
                    if self.renewed == before {
                        renewals.reset_after(AGAIN);
                    } else if store.turn() != turn {
                        turn = store.turn();
                        self.read_again().await?;
                        watch = store.watch(keys.root(), self.engine.snapshot().revision).await?;
                    }
                }
                () = full_readings.tick() => {
                    self.read_again().await?;
                    // A dead watch would delay each result until the next full reading.
                    if !planted(Mutant::DeafForEver) {
                        watch = store.watch(keys.root(), self.engine.snapshot().revision).await?;
                    }
                }
                () = clock.sleep_until(due) => {}
            }
        }
    }

    /// Renews the lease.
    async fn renew_lease(&mut self) -> Result<(), Over> {
        let began = self.clock.now();
        match self.cache.store().keep_alive(self.lease).await {
            Ok(true) => {
                self.renewed = began;
                self.metrics.leads_until(began + self.ttl);
            }
            Ok(false) => return Err(Over::Lost),
            Err(fault) if self.clock.since(self.renewed) > self.ttl => return Err(fault.into()),
            Err(_) => {}
        }
        Ok(())
    }

    /// Returns true if the next decision must wait for changes from the watch.
    fn awaits_changes(&self) -> bool {
        self.behind || self.engine.snapshot().revision < self.seen
    }

    fn take_in(&mut self, changes: &[Change]) -> Result<(), Over> {
        let began = self.clock.now();
        self.etcd_silence.inform(&mut self.engine, began);
        self.engine.absorb(changes, began);
        self.spend(began);
        self.behind = false;
        self.check_leads()
    }

    fn spend(&mut self, since: Duration) {
        let before = self.spent.unwrap_or_default();
        self.spent = Some(before.saturating_add(self.clock.since(since)));
    }

    /// Fails if the snapshot no longer shows the leader key under this term's lease.
    fn check_leads(&self) -> Result<(), Over> {
        let snapshot = self.engine.snapshot();
        // If another program wrote an unreadable leader key, the epoch of this engine is over.
        let key = self.cache.keys().of(&Subject::Leader);
        let leader = snapshot.leader.as_ref().filter(|_| snapshot.unread_since(&key).is_none());
        if leader.is_some_and(|kept| kept.lease == self.lease) { Ok(()) } else { Err(Over::Lost) }
    }

    /// Starts a new epoch after a write with unknown result, so that it cannot land after the next
    /// decision.
    async fn start_epoch(&mut self) -> Result<(), Over> {
        if !planted(Mutant::EpochKept) {
            let renewed =
                registry::start_epoch(self.cache.keys(), &self.machine, self.lease, self.epoch);
            match self.cache.store().commit(&renewed).await {
                Ok(Some(revision)) => self.epoch = Epoch(revision),
                Ok(None) => return Err(Over::Lost),
                Err(fault) => return Err(fault.into()),
            }
        }
        self.read_again().await
    }

    async fn read_again(&mut self) -> Result<(), Over> {
        let reading = self.cache.store().read(self.cache.keys().root()).await?;
        let began = self.clock.now();
        self.etcd_silence.inform(&mut self.engine, began);
        let missed = self.engine.reread(&reading, began);
        self.spend(began);
        if missed {
            log::error(format_args!("engine: the watch missed a change, found by a full reading"));
        }
        self.behind = false;
        self.seen = 0;
        self.check_leads()
    }
}
