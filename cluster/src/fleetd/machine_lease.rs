//! The machine's key in etcd, bound to a lease that this task keeps alive. Two machines with one id
//! exclude each other. A rebooted machine takes over the key of its previous run once the lease of
//! that key has not been renewed for two thirds of its time. When etcd is away for longer than the
//! lease, the machine registers again by itself; units that run here are not touched.

use super::identity::Identity;
use crate::etcd_cache::{EtcdCache, WriteFault};
use crate::fence;
use crate::key::Subject;
use crate::log;
use crate::mutant::{Mutant, planted};
use crate::record::MachineRecord;
use crate::registry::{self, Twin};
use crate::snapshot::Kept;
use std::time::Duration;
use tokio::sync::watch;

/// Delay between attempts to register.
const AGAIN: Duration = Duration::from_millis(500);
/// Renewals per lease.
const RENEWALS: u32 = 3;

/// Error when other clients write the same key.
const CONTENDED: &str = "other clients keep writing this machine's key";

/// The state of the machine's lease, for the other tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineLease {
    /// The lease that all keys of this machine are bound to; `None` if it is not registered.
    pub lease: Option<i64>,
    /// The last proof, by the cache's clock: the lease lives at least one TTL from then on.
    pub proof: Option<Duration>,
    /// The time at which etcd answered again after a silence that may have expired the leases of
    /// others.
    pub heard_again: Option<Duration>,
}

impl MachineLease {
    /// Returns the time until which no machine counts as gone after a silence of etcd, or `None` if
    /// that time is over. Live machines may have lost their leases in the silence, and register
    /// again. `ttl` is that of our own lease.
    pub fn silence_grace_end(&self, ttl: Duration, now: Duration) -> Option<Duration> {
        let silence_limit = fence::silence_limit(ttl);
        // After a silence, changes may arrive before the answer to our own renewal does.
        let old = self.proof.is_some_and(|proof| now.saturating_sub(proof) > silence_limit);
        let silent = old || self.lease.is_none();
        let since = if silent { Some(now) } else { self.heard_again };
        since.map(|since| since.saturating_add(silence_limit)).filter(|until| *until > now)
    }
}

/// The task that keeps the machine registered.
pub struct LeaseKeeper {
    /// The cache of the cluster.
    pub cache: EtcdCache,
    /// The identity of this machine.
    pub identity: Identity,
    /// Maximum silence.
    pub ttl: Duration,
    /// The record to publish.
    pub record: watch::Receiver<MachineRecord>,
    /// Publishes the state of the lease to the other tasks.
    pub machine_lease: watch::Sender<MachineLease>,
    /// Why the cluster refuses this machine, if it does.
    pub machine_refusal: watch::Sender<Option<String>>,
    /// The previous run of this machine, which may not be over yet.
    pub previous_run: PreviousRun,
}

/// Observations of the previous run, see [`LeaseKeeper::previous_run`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PreviousRun {
    /// The revision of its key, if its lease was found silent.
    silent: Option<i64>,
    /// The earliest time at which its silence can be long enough, computed from etcd's last answer.
    not_before: Duration,
    /// The revision of its key, and when it was first seen.
    seen: Option<(i64, Duration)>,
}

impl LeaseKeeper {
    /// Watches the lease; the task never ends.
    pub async fn run(mut self) {
        let mut was_registered = false;
        let mut logged = String::new();
        let clock = self.cache.clock().clone();
        loop {
            match self.register().await {
                Ok((lease, since)) => {
                    if std::mem::replace(&mut was_registered, true) {
                        let now = clock.now();
                        self.machine_lease.send_modify(|state| state.heard_again = Some(now));
                    }
                    let id = self.identity.id.clone();
                    log::info(format_args!("machine {id} is registered, lease {lease:x}"));
                    logged.clear();
                    self.renew_until_lost(lease, since).await;
                    self.machine_lease.send_replace(MachineLease::default());
                    log::error(format_args!("machine {id} is no longer registered"));
                }
                Err(why) if why != logged => {
                    log::error(format_args!("not registered: {why}"));
                    logged = why;
                    clock.sleep(AGAIN).await;
                }
                Err(_) => clock.sleep(AGAIN).await,
            }
        }
    }

    /// Registers the machine. Returns the lease, and the revision that bound the key to it.
    async fn register(&mut self) -> Result<(i64, i64), String> {
        let store = self.cache.store().clone();
        self.check_registrable().await?;
        let proof = self.cache.clock().now();
        let lease = store.grant(self.ttl).await.map_err(|fault| fault.to_string())?;
        match self.write(lease.id).await {
            Ok(revision) => {
                let state =
                    MachineLease { lease: Some(lease.id), proof: Some(proof), heard_again: None };
                self.machine_lease.send_replace(state);
                self.machine_refusal.send_replace(None);
                Ok((lease.id, revision))
            }
            Err(fault) => {
                let _ = store.revoke(lease.id).await;
                Err(match fault {
                    WriteFault::Refused(twin) => self.publish_refusal(&twin),
                    WriteFault::Store(fault) => fault.to_string(),
                    WriteFault::Contended => CONTENDED.to_string(),
                })
            }
        }
    }

    /// Checks whether the machine can register before it requests a lease: after a power failure
    /// all machines wait for their own old keys. It first waits for a reading of etcd.
    async fn check_registrable(&mut self) -> Result<(), String> {
        let mut snapshots = self.cache.changes();
        let read = snapshots.wait_for(|snapshot| snapshot.revision > 0);
        let _ = self.cache.clock().within(AGAIN, read).await;
        let record = self.record.borrow().clone();
        self.previous_run.silent = None;
        let Err(twin) = registry::register(&self.cache.snapshot(), &self.identity.id, &record, 0)
        else {
            return Ok(());
        };
        if twin.is_of_our_disk && self.is_over(&twin).await {
            self.previous_run.silent = Some(twin.there.modified);
            return Ok(());
        }
        Err(self.publish_refusal(&twin))
    }

    /// Returns true if the registered machine has been silent long enough to count as our previous
    /// run.
    async fn is_over(&mut self, twin: &Twin) -> bool {
        let now = self.cache.clock().now();
        let key = twin.there.modified;
        let seen = self.previous_run.seen.filter(|(modified, _)| *modified == key);
        let (_, since) = *self.previous_run.seen.insert(seen.unwrap_or((key, now)));
        // The machine wrote its key a short time ago, so it may still renew its lease. Its
        // `agent_ttl` sets that time, which may differ from ours.
        let wrote_lately = |ttl| now.saturating_sub(since) < fence::key_settle_time(ttl);
        if now < self.previous_run.not_before || wrote_lately(self.ttl) {
            return false;
        }
        match self.cache.store().remainder(twin.there.lease).await {
            Ok(Some(left)) => {
                self.previous_run.not_before = now + left.until_silent();
                left.is_silent() && !wrote_lately(left.granted)
            }
            // etcd has deleted the key with its lease, so no take-over is needed.
            Ok(None) => false,
            Err(fault) => {
                log::debug(format_args!("cannot tell whether the previous run is over: {fault}"));
                false
            }
        }
    }

    fn publish_refusal(&self, twin: &Twin) -> String {
        let why = self.refusal_text(twin);
        self.machine_refusal.send_replace(Some(why.clone()));
        why
    }

    fn refusal_text(&self, twin: &Twin) -> String {
        let (us, them) = (&self.identity, &twin.there.record);
        let waits = match twin.is_of_our_disk {
            true => {
                "has been silent for two thirds of agent_ttl (its owner runs, or ran, from this disk)"
            }
            false => "is gone",
        };
        format!(
            "another machine is registered under the id {}: at {:?}, boot {}, instance {}; this one is \
             boot {}, instance {}. Each machine needs its own id; a machine that has just been \
             rebooted waits until its old key {waits}",
            us.id, them.ip, them.boot, them.instance, us.boot, us.instance
        )
    }

    async fn write(&mut self, lease: i64) -> Result<i64, WriteFault<Box<Twin>>> {
        let record = self.record.borrow_and_update().clone();
        let (id, silent) = (self.identity.id.clone(), self.previous_run.silent);
        let key = self.key();
        self.cache
            .write(|snapshot| {
                let there = snapshot.machines.get(&id);
                let is_so = |kept: &Kept<_>| kept.lease == lease && kept.record == record;
                if there.is_some_and(is_so) && snapshot.unread_since(&key).is_none() {
                    return Ok(None);
                }
                registry::register_after_reboot(snapshot, &id, &record, lease, silent).map(Some)
            })
            .await
    }

    fn key(&self) -> String {
        self.cache.keys().of(&Subject::Machine(self.identity.id.clone()))
    }

    /// Renews the lease. Returns the time of the renewal, or `None` if the lease has expired or
    /// another machine owns our key.
    ///
    /// # Errors
    /// The result is unknown, with the reason.
    async fn renew(&self, lease: i64, since: i64) -> Result<Option<Duration>, String> {
        let clock = self.cache.clock();
        let proof = self.machine_lease.borrow().proof.unwrap_or_default();
        let was_long_silent = clock.since(proof) > fence::takeover_time(self.ttl);
        let rewrites = was_long_silent && !planted(Mutant::RenewalBeforeKey);
        let asked = clock.now();
        if rewrites && !self.rewrite_key(lease, since).await? {
            return Ok(None);
        }
        let began = clock.now();
        let alive = self.cache.store().keep_alive(lease).await;
        let alive = alive.map_err(|fault| fault.to_string())?;
        // If the renewal took long, a waiting successor may have found the lease silent before it.
        // A second write of the key succeeds only if no successor has taken over, and it makes a
        // waiting one start again.
        let late = rewrites && clock.since(asked) > fence::renew_grace(self.ttl);
        let stays = !alive || !late || self.rewrite_key(lease, since).await?;
        Ok((alive && stays).then_some(began))
    }

    /// Writes the key again before a machine renews after a long silence. A waiting successor then
    /// finds another revision and does not take over. Returns false if the successor has taken
    /// over.
    /// A snapshot older than `since` does not show our own key; a machine that was paused right
    /// after its registration has only such a snapshot.
    async fn rewrite_key(&self, lease: i64, since: i64) -> Result<bool, String> {
        let (id, record) = (&self.identity.id, self.record.borrow().clone());
        let written = self.cache.write(|snapshot| {
            let may_be_there = snapshot.machines.contains_key(id) || snapshot.revision < since;
            if !may_be_there || record.disk.is_none() {
                return Ok(None);
            }
            registry::register(snapshot, id, &record, lease).map(Some)
        });
        match self.cache.clock().within(self.ttl / RENEWALS, written).await {
            Some(Ok(_)) => Ok(true),
            Some(Err(WriteFault::Refused(_))) => Ok(false),
            Some(Err(WriteFault::Store(fault))) => Err(fault.to_string()),
            Some(Err(WriteFault::Contended)) => Err(CONTENDED.to_string()),
            None => Err("timed out waiting for etcd".to_string()),
        }
    }

    /// Renews the lease until it expires. A snapshot older than `since` shows the key before our
    /// registration.
    async fn renew_until_lost(&mut self, lease: i64, since: i64) {
        let clock = self.cache.clock().clone();
        let mut renewals = clock.every(self.ttl / RENEWALS);
        // True if the last write of the record failed.
        let mut unwritten = false;
        let mut snapshots = self.cache.changes();
        loop {
            tokio::select! {
                biased;
                () = renewals.tick() => {
                    match self.renew(lease, since).await {
                        Ok(Some(began)) => {
                            let now = clock.now();
                            let silence_limit = fence::silence_limit(self.ttl);
                            self.machine_lease.send_modify(|state| {
                                let before = state.proof.replace(began).unwrap_or(began);
                                if now.saturating_sub(before) > silence_limit {
                                    state.heard_again = Some(now);
                                }
                            });
                            unwritten = unwritten && self.write(lease).await.is_err();
                        }
                        Ok(None) => return,
                        Err(why) => {
                            log::debug(format_args!("cannot renew the lease: {why}"));
                            renewals.reset_after(AGAIN);
                        }
                    }
                }
                _ = self.record.changed() => {
                    unwritten = self.write(lease).await.is_err();
                }
                _ = snapshots.changed() => {
                    let snapshot = self.cache.snapshot();
                    let there = snapshot.machines.get(&self.identity.id);
                    // Another client may have deleted the key or taken it over. Then the machine
                    // writes it again.
                    let is_news = snapshot.revision >= since;
                    let is_ours = there.is_some_and(|kept| kept.lease == lease)
                        && snapshot.unread_since(&self.key()).is_none();
                    if snapshot.revision > 0 && is_news && !is_ours
                        && self.write(lease).await.is_err()
                        && self.cache.health().borrow().fault.is_none()
                    {
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::key::Keys;
    use crate::machine::MachineId;
    use crate::store::driven::{Answered, Call, Driven, DrivenWatch, Reply};
    use crate::store::{Remainder, Store};
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(10);

    fn record(rack: &str) -> MachineRecord {
        MachineRecord {
            ip: String::new(),
            metadata: BTreeMap::from([("rack".to_string(), rack.to_string())]),
            boot: "boot".to_string(),
            instance: "instance".to_string(),
            disk: None,
            version: "1".to_string(),
            listen: None,
        }
    }

    async fn until_published(cache: &EtcdCache, rack: &str) {
        let one = |kept: &crate::snapshot::Kept<MachineRecord>| kept.record == record(rack);
        let is_published = |snapshot: &std::sync::Arc<crate::snapshot::Snapshot>| {
            snapshot.machines.values().any(one)
        };
        cache.changes().wait_for(is_published).await.unwrap();
    }

    fn keeper(cache: &EtcdCache, record: watch::Receiver<MachineRecord>) -> LeaseKeeper {
        let id = MachineId::new("m1").unwrap();
        let (boot, instance, disk) = ("boot".to_string(), "instance".to_string(), None);
        LeaseKeeper {
            cache: cache.clone(),
            identity: Identity { id, boot, instance, disk },
            ttl: Duration::from_secs(3),
            record,
            machine_lease: watch::channel(MachineLease::default()).0,
            machine_refusal: watch::channel(None).0,
            previous_run: PreviousRun::default(),
        }
    }

    #[test]
    fn silent_machine_rewrites_its_key_although_its_snapshot_lacks_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Store::memory();
            // The machine was paused right after its registration: its cache has received no
            // change.
            let (cache, _still) = EtcdCache::new(store.clone(), Keys::under("/f"), Clock::system());
            let own = MachineRecord { disk: Some("disk".to_string()), ..record("1") };
            let (_record_sender, records) = watch::channel(own);
            let mut keeper = keeper(&cache, records);
            let lease = store.grant(keeper.ttl).await.unwrap().id;
            let since = keeper.write(lease).await.unwrap();
            assert_eq!(keeper.rewrite_key(lease, since).await, Ok(true));
            let there = cache.read().await.unwrap().machines[&keeper.identity.id].clone();
            assert!(
                there.modified > since,
                "a successor could still take over revision {since}: {there:?}"
            );
        });
    }

    /// A stopped clock, and a store that answers every call with the same remaining time of a
    /// lease.
    struct Stopped(Duration);

    impl crate::clock::Time for Stopped {
        fn now(&self) -> Duration {
            self.0
        }

        fn sleep_until(&self, _: Duration) -> crate::clock::Sleep {
            Box::pin(std::future::pending())
        }
    }

    impl Driven for Stopped {
        fn call(&self, _: Call) -> Answered<'static, Reply> {
            let (granted, left) = (Duration::from_secs(30), Duration::from_secs(5));
            Box::pin(async move { Ok(Reply::Left(Some(Remainder { granted, left }))) })
        }

        fn watch(&self, _: &str, _: i64) -> Answered<'static, Box<dyn DrivenWatch>> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn successor_waits_by_the_lease_time_of_the_machine_that_wrote_the_key() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (_record_sender, records) = watch::channel(record("1"));
            let (lease, created, modified) = (1, 7, 7);
            let there = Kept { record: record("1"), created, modified, lease };
            let twin = Twin { there, is_of_our_disk: true };
            for (seconds, is_over) in [(2, false), (7, false), (8, true)] {
                let now = Arc::new(Stopped(Duration::from_secs(100 + seconds)));
                let (store, clock) = (Store::driven(now.clone()), Clock::of(now));
                let (cache, _still) = EtcdCache::new(store, Keys::under("/f"), clock);
                let mut keeper = keeper(&cache, records.clone());
                keeper.ttl = Duration::from_secs(6);
                keeper.previous_run.seen = Some((modified, Duration::from_secs(100)));
                assert_eq!(keeper.is_over(&twin).await, is_over, "after {seconds} s");
            }
        });
    }

    #[test]
    fn failed_write_of_the_record_is_retried_at_the_next_renewal() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Store::memory();
            let (cache, _following) = EtcdCache::start(store.clone(), Keys::under("/f"));
            let (record_sender, records) = watch::channel(record("1"));
            tokio::spawn(keeper(&cache, records).run());
            timeout(SOON, until_published(&cache, "1")).await.unwrap();
            store.set_reachable(false);
            record_sender.send_replace(record("2"));
            // The store refuses at once: after these turns the keeper has made its attempt.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            store.set_reachable(true);
            timeout(SOON, until_published(&cache, "2")).await.unwrap();
        });
    }
}
