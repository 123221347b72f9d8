//! The daemon's tasks, wired to each other: who keeps the cache, who says that the machine
//! is there, who leads, who puts what the machine was told to its init. [`super::life`]
//! runs them on the real machine; the simulation runs the very same.

use super::identity::Identity;
use super::init::Init;
use super::lead::Candidate;
use super::machine_lease::{Former, MachineLease, Sentry};
use super::metrics::Metrics;
use super::persisted_identity::{Held, Keep, Recalled};
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

/// A task that goes on for ever.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the tasks need to know.
pub struct Wiring {
    /// Where the cluster is kept.
    pub store: Store,
    /// Its keys.
    pub keys: Keys,
    /// The machine's time.
    pub clock: Clock,
    /// Which machine.
    pub identity: Identity,
    /// What it says of itself.
    pub record: MachineRecord,
    /// Its init.
    pub init: Init,
    /// How long the machine may be silent.
    pub ttl: Duration,
    /// `engine_reconcile_interval`; `None`: it never leads.
    pub engine: Option<Duration>,
    /// `reschedule_grace`
    pub grace: Duration,
    /// Operations the engine puts into one write.
    pub room: usize,
    /// Which units are run; `None`: all.
    pub trust_keeper: Option<TrustKeeper>,
    /// What is known of the time before fleetd began.
    pub recalled: Recalled,
    /// Where the next fleetd finds the same.
    pub keep: Keep,
}

/// See the head of the module.
pub struct Daemon {
    /// The cluster as it is known here.
    pub cache: EtcdCache,
    /// What the machine says of itself.
    pub record: watch::Sender<MachineRecord>,
    /// Whether it is in the cluster.
    pub machine_lease: watch::Receiver<MachineLease>,
    /// Why the cluster does not let it in, while it does not.
    pub turned_away: watch::Receiver<Option<String>>,
    /// The lease it leads by, or led by last.
    pub leads: watch::Receiver<Option<i64>>,
    /// When exclusive units are given up at the latest; `None`: none runs here.
    pub guarded: watch::Receiver<Option<Duration>>,
    /// How long its engine takes to decide.
    pub metrics: Arc<Metrics>,
    /// Something happened at init.
    pub happened: mpsc::Sender<()>,
    /// The units are to be stopped.
    pub leave: mpsc::Sender<Leave>,
}

impl Daemon {
    /// The handle, and the tasks that are to be run.
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
        let Recalled { known, ran, withheld, .. } = recalled.clone();
        let (refusing, refused) = watch::channel(BTreeSet::new());
        let follower = follower.knowing(known).on(identity.id.clone()).after(ran, withheld);
        let (record, records) = watch::channel(record);
        let (told, machine_lease) = watch::channel(MachineLease::default());
        let (leading, leads) = watch::channel(None);
        let (turning_away, turned_away) = watch::channel(None);
        let metrics: Arc<Metrics> = Arc::default();
        let sentry = Sentry {
            cache: cache.clone(),
            identity: identity.clone(),
            ttl,
            record: records,
            machine_lease: told,
            turned_away: turning_away,
            former: Former::default(),
        };
        let follower = follower.told_of(refused).follow();
        let mut tasks: Vec<Task> = vec![Box::pin(follower), Box::pin(sentry.stand())];
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
            tasks.push(Box::pin(candidate.stand()));
        }
        let ((leave, asked), (happened, happens)) = (mpsc::channel(1), mpsc::channel(1));
        let runner = UnitRunner::new(cache.clone(), identity, init, ttl, machine_lease.clone());
        let runner = runner.vouched_by(trust_keeper).after(recalled).remembered_by(keep);
        let (guarding, guarded) = watch::channel(None);
        let runner = runner.telling(refusing).counted_by(metrics.clone()).guarding(guarding);
        tasks.push(Box::pin(runner.work(asked, happens)));
        let daemon = Daemon {
            cache,
            record,
            machine_lease,
            turned_away,
            leads,
            guarded,
            metrics,
            happened,
            leave,
        };
        (daemon, tasks)
    }

    /// The leases that it lets go when it leaves: its machine's is not one of them where units may
    /// run on, for nobody is to begin them elsewhere before that has ended by itself.
    pub fn leases(&self, down: bool) -> impl Iterator<Item = i64> + use<> {
        let own = self.machine_lease.borrow().lease.filter(|_| down);
        own.into_iter().chain(*self.leads.borrow())
    }
}

/// What a fleetd knows of the one before it: all that was kept, unless a mistake is planted.
fn remembered(recalled: Recalled) -> Recalled {
    if planted(Mutant::BegunAnewForgets) {
        Recalled { known: recalled.known, ..Recalled::default() }
    } else if planted(Mutant::HeldForgotten) {
        Recalled { held: Held::default(), ..recalled }
    } else if planted(Mutant::WithheldForgotten) {
        Recalled { withheld: BTreeSet::new(), ..recalled }
    } else {
        recalled
    }
}

/// Has units stopped, and waits until they are. False: they may run on.
pub async fn stop_units(leave: mpsc::Sender<Leave>, stops: Stops) -> bool {
    let (done, left) = oneshot::channel();
    leave.send(Leave { stops, done }).await.is_ok() && left.await == Ok(true)
}

/// Lets leases go, so that nobody waits for their end. What does not answer in time is left.
pub async fn let_go(cache: &EtcdCache, leases: Vec<i64>, within: Duration) {
    for lease in leases {
        let _ = cache.clock().within(within, cache.store().revoke(lease)).await;
    }
}
