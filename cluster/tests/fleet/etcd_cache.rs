//! The cache on an in-memory store: it follows changes, survives outages and compaction, and
//! repeats writes after conflicts.

use cluster::agent::{self, Goal};
use cluster::api::request::Request;
use cluster::api::why;
use cluster::clock::Clock;
use cluster::desired::Desired;
use cluster::etcd_cache::{EtcdCache, Health, WriteFault};
use cluster::key::{Keys, Subject};
use cluster::machine::MachineId;
use cluster::memory_store::MemoryStore;
use cluster::move_order::{Cause, Move};
use cluster::record::{ClusterRecord, MachineRecord, encode};
use cluster::registry::{self, Epoch};
use cluster::snapshot::Snapshot;
use cluster::store::Store;
use cluster::transaction::{Operation, Transaction};
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(10);

fn on_one_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(SOON, test).await.unwrap() });
}

fn wish(
    name: &UnitName,
    desired: Desired,
) -> impl FnMut(&Snapshot) -> Result<Option<Transaction>, ()> {
    let file = UnitFile::parse("[Service]\nExecStart=/bin/true\n").unwrap();
    move |snapshot| {
        if snapshot.units.contains_key(name) && snapshot.desired_of(name) == desired {
            return Ok(None);
        }
        Ok(Some(registry::create(snapshot, name, &file, desired)))
    }
}

async fn sees(cache: &EtcdCache, mut what: impl FnMut(&Snapshot) -> bool) {
    cache.changes().wait_for(|snapshot| what(snapshot)).await.unwrap();
}

#[test]
fn cache_shows_each_write_and_keeps_its_contents_during_an_outage() {
    on_one_thread(async {
        let (store, name) = (Store::memory(), UnitName::new("a.service").unwrap());
        let (cache, task) = EtcdCache::start(store.clone(), Keys::under("/f"));
        cache.health().wait_for(|health| health.fault.is_none()).await.unwrap();
        let revision = cache.write(wish(&name, Desired::Loaded)).await.unwrap();
        assert!(cache.reached(revision, SOON).await);
        assert_eq!(cache.snapshot().desired_of(&name), Desired::Loaded);

        store.set_reachable(false);
        cache.health().wait_for(|health| health.fault.is_some()).await.unwrap();
        assert_eq!(cache.snapshot().desired_of(&name), Desired::Loaded);
        let refused = cache.write(wish(&name, Desired::Launched)).await;
        assert!(matches!(refused, Err(WriteFault::Store(_))), "{refused:?}");

        store.set_reachable(true);
        cache.health().wait_for(|health| health.fault.is_none()).await.unwrap();
        cache.write(wish(&name, Desired::Launched)).await.unwrap();
        sees(&cache, |snapshot| snapshot.desired_of(&name) == Desired::Launched).await;
        task.abort();
    });
}

#[test]
fn keys_of_an_expired_lease_disappear_from_the_cache() {
    on_one_thread(async {
        let store = Store::memory();
        let (cache, task) = EtcdCache::start(store.clone(), Keys::under("/f"));
        let lease = store.grant(Duration::from_millis(50)).await.unwrap();
        let id = cluster::machine::MachineId::new("m1").unwrap();
        let lead = registry::lead(cache.keys(), &id, lease.id);
        assert!(store.commit(&lead).await.unwrap().is_some());
        sees(&cache, |snapshot| snapshot.leader.is_some()).await;
        sees(&cache, |snapshot| snapshot.leader.is_none()).await;
        assert!(!store.keep_alive(lease.id).await.unwrap());
        assert_eq!(store.commit(&lead).await.unwrap(), None, "the lease has ended");
        task.abort();
    });
}

#[test]
fn write_based_on_stale_data_is_repeated() {
    on_one_thread(async {
        let (store, name) = (Store::memory(), UnitName::new("a.service").unwrap());
        let (cache, task) = EtcdCache::start(store.clone(), Keys::under("/f"));
        cache.health().wait_for(|health| health.fault.is_none()).await.unwrap();
        // The cache has not seen it: no task has run in between.
        let file = UnitFile::parse("[Service]\nExecStart=/bin/false\n").unwrap();
        let empty = Snapshot::new(cache.keys().clone());
        let other = registry::create(&empty, &name, &file, Desired::Inactive);
        assert!(store.commit(&other).await.unwrap().is_some());
        let revision = cache.write(wish(&name, Desired::Launched)).await.unwrap();
        assert!(cache.reached(revision, SOON).await);
        assert_eq!(cache.snapshot().desired_of(&name), Desired::Launched);
        task.abort();
    });
}

#[test]
fn cache_keeps_its_contents_when_all_keys_are_deleted() {
    on_one_thread(async {
        let (store, name) = (Store::memory(), UnitName::new("a.service").unwrap());
        let keys = Keys::under("/f");
        let record = encode(&ClusterRecord { id: "c1".to_string() });
        let found = Transaction::default().put(keys.of(&Subject::Cluster), record);
        store.commit(&found).await.unwrap().unwrap();
        let (cache, task) = EtcdCache::start(store.clone(), keys.clone());
        cache.health().wait_for(|health| health.fault.is_none()).await.unwrap();
        let revision = cache.write(wish(&name, Desired::Launched)).await.unwrap();
        assert!(cache.reached(revision, SOON).await);
        let operations = vec![Operation::DeletePrefix("/f/".to_string())];
        let all = Transaction { operations, ..Transaction::default() };
        store.commit(&all).await.unwrap().unwrap();
        let has_fault = |health: &Health, what: &str| {
            health.fault.as_ref().is_some_and(|fault| fault.to_string().contains(what))
        };
        let mut health = cache.health();
        health
            .wait_for(|health| has_fault(health, "all keys of the cluster were deleted"))
            .await
            .unwrap();
        health
            .wait_for(|health| has_fault(health, "etcd shows no cluster instead of"))
            .await
            .unwrap();
        assert_eq!(cache.snapshot().desired_of(&name), Desired::Launched, "what was known stays");
        // A new cache that knows its cluster accepts nothing either.
        let known = cache.snapshot().known();
        assert!(known.is_some());
        let (next, follower) = EtcdCache::new(store.clone(), keys, Clock::system());
        let following = tokio::spawn(follower.knowing(known).follow());
        let mut health = next.health();
        health
            .wait_for(|health| has_fault(health, "etcd shows no cluster instead of"))
            .await
            .unwrap();
        assert_eq!(next.snapshot().revision, cache.snapshot().revision);
        [task, following].iter().for_each(JoinHandle::abort);
    });
}

#[test]
fn writes_to_another_cluster_created_at_the_same_revision_fail() {
    let founded = |id: &str| {
        let (mut store, keys) = (MemoryStore::default(), Keys::under("/f"));
        let record = encode(&ClusterRecord { id: id.to_string() });
        store.commit(&Transaction::default().put(keys.of(&Subject::Cluster), record)).unwrap();
        let snapshot = Snapshot::of(keys, &store.read("/f"));
        (store, snapshot)
    };
    let (mut ours, snapshot) = founded("ours");
    let (mut other, _) = founded("other");
    assert_eq!(ours.revision(), other.revision());
    let file = UnitFile::parse("[Service]\nExecStart=/bin/true\n").unwrap();
    let name = UnitName::new("a.service").unwrap();
    let write = registry::create(&snapshot, &name, &file, Desired::Loaded);
    let write = registry::of_this_cluster(&snapshot, write);
    assert_eq!(other.commit(&write), None);
    assert!(ours.commit(&write).is_some());
}

/// Units on a machine, and that machine's cache.
async fn of_a_machine(store: &Store, count: usize) -> (EtcdCache, JoinHandle<()>, Vec<UnitName>) {
    let (keys, me) = (Keys::under("/f"), MachineId::new("m1").unwrap());
    let now = async || Snapshot::of(keys.clone(), &store.read(keys.root()).await.unwrap());
    let commit = async |write: Transaction| store.commit(&write).await.unwrap().unwrap();
    let lease = store.grant(SOON * 10).await.unwrap().id;
    let epoch = Epoch(commit(registry::lead(&keys, &me, lease)).await);
    let record = MachineRecord {
        ip: String::new(),
        metadata: BTreeMap::new(),
        boot: String::new(),
        instance: "one".to_string(),
        disk: None,
        version: "1".to_string(),
        listen: None,
    };
    commit(registry::register(&now().await, &me, &record, lease).unwrap()).await;
    let file = UnitFile::parse("[Service]\nExecStart=/bin/true\n").unwrap();
    let name = |n: usize| UnitName::new(&format!("u{n:x}.service")).unwrap();
    let units: Vec<UnitName> = (0..count).map(name).collect();
    for unit in &units {
        commit(registry::create(&now().await, unit, &file, Desired::Launched)).await;
        let (unit, to) = (unit.clone(), Some(me.clone()));
        let step = Move { unit, from: None, to, cause: Cause::Unplaced };
        commit(registry::carry_out(&now().await, epoch, &[step]).unwrap()).await;
    }
    let (cache, follower) = EtcdCache::new(store.clone(), keys.clone(), Clock::system());
    let task = tokio::spawn(follower.on(me.clone()).follow());
    sees(&cache, |snapshot| agent::goal(snapshot, &me, &Goal::new()).len() == count).await;
    (cache, task, units)
}

async fn destroy(store: &Store, units: &[UnitName]) {
    for unit in units {
        let keys = Keys::under("/f");
        let now = Snapshot::of(keys.clone(), &store.read(keys.root()).await.unwrap());
        store.commit(&registry::destroy(&now, unit).unwrap()).await.unwrap().unwrap();
    }
}

#[test]
fn many_units_missing_without_a_delete_event_keep_running() {
    on_one_thread(async {
        let store = Store::memory();
        let (cache, task, units) = of_a_machine(&store, 4).await;
        let me = MachineId::new("m1").unwrap();
        let before = agent::goal(&cache.snapshot(), &me, &Goal::new());
        destroy(&store, &units).await;
        store.compact();
        sees(&cache, |snapshot| snapshot.units.is_empty()).await;
        assert!(cache.snapshot().withheld.iter().eq(&units));
        assert_eq!(
            agent::goal(&cache.snapshot(), &me, &before),
            before,
            "withheld units keep running"
        );
        let asked = Request { method: "GET".to_string(), ..Request::default() };
        let why = |name: &str| why::item(&asked, name, &cache.snapshot());
        assert!(String::from_utf8(why("u0.service").body).unwrap().contains("kept running"));
        assert_eq!(why("u9.service").status, 404);

        // Another reading without them adds no information.
        cache.write(wish(&units[0], Desired::Inactive)).await.unwrap();
        store.compact();
        sees(&cache, |snapshot| snapshot.units.len() == 1).await;
        let left = agent::goal(&cache.snapshot(), &me, &before);
        assert!(
            left.keys().eq(&units[1..]),
            "etcd reports on the first unit, so it is no longer withheld"
        );
        // The watch sees it re-created and destroyed.
        let revision = cache.write(wish(&units[1], Desired::Inactive)).await.unwrap();
        assert!(cache.reached(revision, SOON).await);
        destroy(&store, &units[..2]).await;
        sees(&cache, |snapshot| snapshot.units.is_empty()).await;
        let left = agent::goal(&cache.snapshot(), &me, &before);
        assert!(left.keys().eq(&units[2..]), "{left:?}");
        task.abort();
    });
}

#[test]
fn refused_units_do_not_count_when_a_reading_is_judged() {
    on_one_thread(async {
        let store = Store::memory();
        let (first, task, units) = of_a_machine(&store, 16).await;
        let me = MachineId::new("m1").unwrap();
        let goal = agent::goal(&first.snapshot(), &me, &Goal::new());
        task.abort();
        destroy(&store, &units[..4]).await;
        store.compact();
        // If all sixteen ran, four missing ones would be few.
        for (refused, withheld) in [(&units[..0], &units[..0]), (&units[4..], &units[..4])] {
            let refused = watch::channel(refused.iter().cloned().collect()).1;
            let keys = first.keys().clone();
            let (cache, follower) = EtcdCache::new(store.clone(), keys, Clock::system());
            let follower = follower.on(me.clone()).after(goal.clone(), BTreeSet::new());
            let task = tokio::spawn(follower.with_refused(refused).follow());
            sees(&cache, |snapshot| snapshot.units.len() == 12).await;
            assert!(cache.snapshot().withheld.iter().eq(withheld));
            task.abort();
        }
    });
}

#[test]
fn units_destroyed_during_an_outage_are_stopped_afterwards() {
    on_one_thread(async {
        let store = Store::memory();
        let (cache, task, units) = of_a_machine(&store, 4).await;
        store.set_reachable(false);
        cache.health().wait_for(|health| health.fault.is_some()).await.unwrap();
        store.set_reachable(true);
        destroy(&store, &units).await;
        sees(&cache, |snapshot| snapshot.units.is_empty()).await;
        assert!(cache.snapshot().withheld.is_empty());
        task.abort();
    });
}
