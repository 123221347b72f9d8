//! Creates the daemon's tasks and connects them: etcd cache, machine lease, leader candidate, unit
//! runner. [`super::life`] runs them on the real machine; the simulation runs the same tasks.

use super::identity::Identity;
use super::init::Init;
use super::lead::Candidate;
use super::machine_lease::{LeaseKeeper, MachineLease, PreviousRun};
use super::metrics::Metrics;
use super::saved_state::{Held, Keep, SavedState};
use super::trusted_keys::TrustKeeper;
use super::unit_runner::{Leave, Stops, UnitRunner};
use crate::clock::Clock;
use crate::etcd_cache::EtcdCache;
use crate::key::Keys;
use crate::mutant::{Mutant, planted};
use crate::record::MachineRecord;
use crate::store::Store;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// A task that runs forever.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Inputs of the tasks.
pub struct Wiring {
    /// The store of the cluster.
    pub store: Store,
    /// The keys of the cluster.
    pub keys: Keys,
    /// The clock of the machine.
    pub clock: Clock,
    /// The identity of the machine.
    pub identity: Identity,
    /// The machine's published record.
    pub record: MachineRecord,
    /// The machine's init.
    pub init: Init,
    /// Maximum silence of the machine.
    pub ttl: Duration,
    /// `engine_reconcile_interval`, or `None` if the machine never leads.
    pub engine: Option<Duration>,
    /// `reschedule_grace`
    pub grace: Duration,
    /// Maximum number of operations in one write of the engine.
    pub room: usize,
    /// Checks signatures; `None` to run all units.
    pub trust_keeper: Option<TrustKeeper>,
    /// The saved state of the previous fleetd.
    pub recalled: SavedState,
    /// Saves the state for the next fleetd.
    pub keep: Keep,
}

/// Handles to the running tasks.
pub struct Daemon {
    /// The cache of the cluster.
    pub cache: EtcdCache,
    /// Sends a new machine record.
    pub record: watch::Sender<MachineRecord>,
    /// The machine's lease.
    pub machine_lease: watch::Receiver<MachineLease>,
    /// Why the cluster refuses the machine, if it does.
    pub machine_refusal: watch::Receiver<Option<String>>,
    /// The lease of the leader key while this machine leads, or of its last term.
    pub leads: watch::Receiver<Option<i64>>,
    /// The latest time to give up exclusive units; `None` if none runs here.
    pub give_up_deadline: watch::Receiver<Option<Duration>>,
    /// Metrics of engine and agent.
    pub metrics: Arc<Metrics>,
    /// Signals an event at init.
    pub happened: mpsc::Sender<()>,
    /// Requests that units be stopped.
    pub leave: mpsc::Sender<Leave>,
}

impl Daemon {
    /// Creates the tasks without running them.
    pub fn new(wiring: Wiring) -> (Daemon, Vec<Task>) {
        let Wiring {
            store,
            keys,
            clock,
            identity,
            record,
            init,
            ttl,
            engine,
            grace,
            room,
            trust_keeper,
            recalled,
            keep,
        } = wiring;
        let recalled = remembered(recalled);
        let (cache, follower) = EtcdCache::new(store, keys, clock);
        let SavedState { known, ran, withheld, .. } = recalled.clone();
        let (refusing, refused) = watch::channel(BTreeSet::new());
        let follower = follower.knowing(known).on(identity.id.clone()).after(ran, withheld);
        let (record, records) = watch::channel(record);
        let (lease_sender, machine_lease) = watch::channel(MachineLease::default());
        let (leading, leads) = watch::channel(None);
        let (refusal_sender, machine_refusal) = watch::channel(None);
        let metrics: Arc<Metrics> = Arc::default();
        let keeper = LeaseKeeper {
            cache: cache.clone(),
            identity: identity.clone(),
            ttl,
            record: records,
            machine_lease: lease_sender,
            machine_refusal: refusal_sender,
            previous_run: PreviousRun::default(),
        };
        let follower = follower.with_refused(refused).follow();
        let mut tasks: Vec<Task> = vec![Box::pin(follower), Box::pin(keeper.run())];
        if let Some(interval) = engine {
            let candidate = Candidate {
                cache: cache.clone(),
                machine: identity.id.clone(),
                interval,
                ttl,
                grace,
                room,
                machine_lease: machine_lease.clone(),
                leading,
                metrics: metrics.clone(),
            };
            tasks.push(Box::pin(candidate.run()));
        }
        let ((leave, asked), (happened, happens)) = (mpsc::channel(1), mpsc::channel(1));
        let runner = UnitRunner::new(cache.clone(), identity, init, ttl, machine_lease.clone());
        let runner = runner.with_trust_keeper(trust_keeper).after(recalled).with_keep(keep);
        let (deadlines, give_up_deadline) = watch::channel(None);
        let runner = runner
            .with_refusing(refusing)
            .with_metrics(metrics.clone())
            .with_give_up_deadline(deadlines);
        tasks.push(Box::pin(runner.work(asked, happens)));
        let daemon = Daemon {
            cache,
            record,
            machine_lease,
            machine_refusal,
            leads,
            give_up_deadline,
            metrics,
            happened,
            leave,
        };
        (daemon, tasks)
    }

    /// Returns the leases to revoke on exit. The machine's lease is included only if its units are
    /// `down`. Otherwise the units may still run, and the lease must keep other machines from
    /// starting them.
    pub fn leases(&self, down: bool) -> impl Iterator<Item = i64> + use<> {
        let own = self.machine_lease.borrow().lease.filter(|_| down);
        own.into_iter().chain(*self.leads.borrow())
    }
}

/// Returns the saved state, reduced if a mutant is planted.
fn remembered(recalled: SavedState) -> SavedState {
    if planted(Mutant::RestartForgets) {
        SavedState { known: recalled.known, ..SavedState::default() }
    } else if planted(Mutant::HeldForgotten) {
        SavedState { held: Held::default(), ..recalled }
    } else if planted(Mutant::WithheldForgotten) {
        SavedState { withheld: BTreeSet::new(), ..recalled }
    } else {
        recalled
    }
}

/// Stops units and waits for them. Returns false if they may still run.
pub async fn stop_units(leave: mpsc::Sender<Leave>, stops: Stops) -> bool {
    let (done, left) = oneshot::channel();
    leave.send(Leave { stops, done }).await.is_ok() && left.await == Ok(true)
}

/// Revokes leases, so that others need not wait for their expiry. Requests without an answer in
/// time are abandoned.
pub async fn revoke_leases(cache: &EtcdCache, leases: Vec<i64>, within: Duration) {
    for lease in leases {
        let _ = cache.clock().within(within, cache.store().revoke(lease)).await;
    }
}
