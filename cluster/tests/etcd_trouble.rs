//! An etcd that is full, silent, restored to an older state, or emptied: the cache keeps its
//! contents and reports why. Writes are refused and not lost, and everything continues once etcd
//! works.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

mod member;
mod wire;

use cluster::desired::Desired;
use cluster::etcd_cache::EtcdCache;
use cluster::key::Keys;
use cluster::registry;
use cluster::store::{EtcdConfig, Fault, Store};
use cluster::transaction::Transaction;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use member::{Etcd, PATIENCE, ROOT, folder, run, when_there};
use std::time::{Duration, Instant};
use wire::Wire;

fn name(number: u32) -> UnitName {
    UnitName::new(&format!("u{number}.service")).unwrap()
}

/// Creates the unit with that number. Returns whether it succeeded.
async fn make(cache: &EtcdCache, number: u32) -> bool {
    let file = UnitFile::parse("[Service]\nExecStart=/bin/true\n").unwrap();
    let write = |snapshot: &cluster::snapshot::Snapshot| {
        let there = snapshot.units.contains_key(&name(number));
        let new = || registry::create(snapshot, &name(number), &file, Desired::Inactive);
        Ok::<_, ()>((!there).then(new))
    };
    cache.write(write).await.is_ok()
}

async fn when_made(cache: &EtcdCache, number: u32) {
    let end = Instant::now() + PATIENCE;
    while !make(cache, number).await {
        assert!(Instant::now() < end, "unit {number} cannot be created");
        tokio::task::yield_now().await;
    }
    let mut snapshots = cache.changes();
    let seen = snapshots.wait_for(|snapshot| snapshot.units.contains_key(&name(number)));
    tokio::time::timeout(PATIENCE, seen).await.unwrap().unwrap();
}

/// Waits until the cache reports a fault.
async fn fault(cache: &EtcdCache, part: &str) {
    let mut health = cache.health();
    let has_fault = health.wait_for(|health| {
        health.fault.as_ref().is_some_and(|fault| fault.to_string().contains(part))
    });
    let has_fault =
        tokio::time::timeout(PATIENCE, has_fault).await.map(|has_fault| has_fault.is_ok());
    assert_eq!(has_fault, Ok(true), "{part}: {:?}", cache.health().borrow());
}

fn unit_count(cache: &EtcdCache) -> usize {
    cache.snapshot().units.len()
}

#[test]
fn etcd_restored_to_an_older_state_is_not_accepted() {
    run(async {
        let mut etcd = Etcd::start();
        let store = Store::etcd(etcd.config()).unwrap();
        when_there(&store).await;
        let (cache, _task) = EtcdCache::start(store.clone(), Keys::under("/fleet"));
        when_made(&cache, 1).await;
        etcd.kill();
        etcd.save_disk("old");
        etcd.restart();
        for number in 2..6 {
            when_made(&cache, number).await;
        }
        for past in ["old", "none at all"] {
            etcd.kill();
            etcd.save_disk("now");
            etcd.restore_disk(past);
            etcd.restart();
            fault(&cache, "etcd is at revision").await;
            assert_eq!(unit_count(&cache), 5, "the cache keeps its contents, disk {past}");
            etcd.kill();
            etcd.restore_disk("now");
            etcd.restart();
            when_made(&cache, if past == "old" { 6 } else { 7 }).await;
            let _ = std::fs::remove_dir_all(etcd.folder.join("now"));
            // The second turn expects five units again.
            for number in [6, 7] {
                let gone = cache
                    .write(|snapshot| Ok::<_, ()>(registry::destroy(snapshot, &name(number))))
                    .await
                    .unwrap();
                assert!(cache.reached(gone, PATIENCE).await);
            }
            assert_eq!(unit_count(&cache), 5);
        }
    });
}

#[test]
fn etcd_member_that_lost_its_disk_removes_no_unit_and_rejoins() {
    run(async {
        let mut members = Etcd::three(1_000);
        let endpoints: Vec<String> = members.iter().map(|member| member.url.clone()).collect();
        let store = Store::etcd(EtcdConfig { endpoints, ..members[0].impatient() }).unwrap();
        when_there(&store).await;
        let (cache, _task) = EtcdCache::start(store, Keys::under("/fleet"));
        for number in 1..6 {
            when_made(&cache, number).await;
        }
        let snapshots = cache.changes();
        let fewest = tokio::spawn(async move {
            let (mut snapshots, mut fewest) = (snapshots, usize::MAX);
            while snapshots.changed().await.is_ok() {
                fewest = fewest.min(snapshots.borrow_and_update().units.len());
                if snapshots.borrow().units.contains_key(&name(9)) {
                    break;
                }
            }
            fewest
        });
        // The first member is the one in use.
        members[0].kill();
        members[0].restore_disk("none at all");
        members[0].restart();
        when_made(&cache, 6).await;
        let mut client = members[1].client().await;
        let all = client.member_list().await.unwrap();
        let lost = all.members().iter().find(|member| member.name() == "n0").unwrap();
        let (id, peers) = (lost.id(), lost.peer_urls().to_vec());
        client.member_remove(id).await.unwrap();
        members[0].kill();
        members[0].restore_disk("none at all");
        when_added(&mut client, &peers).await;
        members[0].rejoin_as_new_member();
        let back = Store::etcd(members[0].impatient()).unwrap();
        when_there(&back).await;
        when_made(&cache, 9).await;
        assert_eq!(tokio::time::timeout(PATIENCE, fewest).await.unwrap().unwrap(), 5);
        let end = Instant::now() + PATIENCE;
        while back.read(ROOT).await.map(|read| read.entries.len()) != Ok(14) {
            assert!(Instant::now() < end, "the restored member does not have all keys");
            tokio::task::yield_now().await;
        }
    });
}

/// A rolling restart as in an upgrade; each member is the unavailable one in turn.
#[test]
fn rolling_restart_of_etcd_members_is_not_noticed() {
    run(async {
        let mut members = Etcd::three(1_000);
        let endpoints: Vec<String> = members.iter().map(|member| member.url.clone()).collect();
        let store = Store::etcd(EtcdConfig { endpoints, ..members[0].impatient() }).unwrap();
        when_there(&store).await;
        let (cache, _task) = EtcdCache::start(store.clone(), Keys::under("/fleet"));
        when_made(&cache, 0).await;
        for (number, at) in (1..).step_by(2).zip(0..members.len()) {
            members[at].kill();
            when_made(&cache, number).await;
            members[at].restart();
            when_there(&Store::etcd(members[at].config()).unwrap()).await;
            when_made(&cache, number + 1).await;
            assert_eq!(unit_count(&cache), usize::try_from(number).unwrap() + 2);
        }
        assert_eq!(cache.read().await.unwrap().units.len(), 7);
    });
}

/// Waits until etcd accepts a new member, once the others have been healthy for a while.
async fn when_added(client: &mut etcd_client::Client, peers: &[String]) {
    let end = Instant::now() + PATIENCE;
    while let Err(error) = client.member_add(peers, None).await {
        assert!(Instant::now() < end, "{error}");
        tokio::task::yield_now().await;
    }
}

#[test]
fn full_etcd_refuses_writes_and_keeps_its_contents() {
    run(async {
        let room = ["--quota-backend-bytes", "4000000"];
        let etcd = Etcd::of(folder(), "http", &room);
        let store = Store::etcd(etcd.config()).unwrap();
        when_there(&store).await;
        let (cache, _task) = EtcdCache::start(store.clone(), Keys::under("/fleet"));
        when_made(&cache, 1).await;
        let lease = store.grant(Duration::from_secs(60)).await.unwrap();
        let fill = Transaction::default().put(format!("{ROOT}x/fill"), vec![b'x'; 400_000]);
        let mut answers = vec![];
        let is_full = |answer: &Result<Option<i64>, Fault>| {
            let full = "database space exceeded";
            matches!(answer, Err(Fault::Unavailable(why)) if why.contains(full))
        };
        while !answers.last().is_some_and(is_full) {
            assert!(answers.len() < 100, "{answers:?}");
            answers.push(store.commit(&fill).await);
        }
        assert!(!make(&cache, 2).await, "a full etcd accepted a write");
        assert_eq!(store.keep_alive(lease.id).await, Ok(true), "a renewal needs no space");
        assert_eq!(unit_count(&cache), 1);
        assert_eq!(cache.read().await.unwrap().units.len(), 1, "a full etcd can be read");
        let mut client = etcd.client().await;
        let revision = store.read(ROOT).await.unwrap().revision;
        client.compact(revision, None).await.unwrap();
        client.defragment().await.unwrap();
        let (off, full) = (etcd_client::AlarmAction::Deactivate, etcd_client::AlarmType::Nospace);
        let mut member = etcd_client::AlarmOptions::new();
        member.with_member(client.status().await.unwrap().header().unwrap().member_id());
        client.alarm(off, full, Some(member)).await.unwrap();
        when_made(&cache, 2).await;
    });
}

#[test]
fn reading_in_several_pages_is_of_one_revision() {
    run(async {
        let etcd = Etcd::start();
        let store = Store::etcd(etcd.config()).unwrap();
        when_there(&store).await;
        let keys: Vec<String> = (0..2100).map(|n| format!("{ROOT}x/{n:05}")).collect();
        for some in keys.chunks(100) {
            let put = |all: Transaction, key: &String| all.put(key.clone(), b"0".to_vec());
            let write = some.iter().fold(Transaction::default(), put);
            assert!(store.commit(&write).await.unwrap().is_some());
        }
        let writer = Store::etcd(etcd.config()).unwrap();
        let (first, last) = (keys[0].clone(), keys[keys.len() - 1].clone());
        let writing = tokio::spawn(async move {
            for turn in 1_u64.. {
                let value = turn.to_string().into_bytes();
                let both = Transaction::default().put(first.clone(), value.clone());
                writer.commit(&both.put(last.clone(), value)).await.unwrap();
            }
        });
        let mut seen = std::collections::BTreeSet::new();
        let end = Instant::now() + PATIENCE;
        while seen.len() <= 10 {
            assert!(Instant::now() < end, "too few writes between the readings: {}", seen.len());
            let reading = store.read(ROOT).await.unwrap();
            assert_eq!(reading.entries.len(), keys.len());
            let value = |at: usize| reading.entries[at].value.clone();
            assert_eq!(value(0), value(keys.len() - 1));
            seen.insert(value(0));
        }
        writing.abort();
    });
}

#[test]
fn failing_wire_to_etcd_loses_no_change() {
    run(async {
        let etcd = Etcd::start();
        let direct = Store::etcd(etcd.config()).unwrap();
        when_there(&direct).await;
        let (own, _own_task) = EtcdCache::start(direct, Keys::under("/fleet"));
        when_made(&own, 0).await;
        let wire = Wire::open(vec![("127.0.0.1:0".parse().unwrap(), etcd.address())], None);
        let endpoints = vec![format!("http://{}", wire.addresses[0])];
        let store = Store::etcd(EtcdConfig { endpoints, ..etcd.impatient() }).unwrap();
        let (cache, _task) = EtcdCache::start(store, Keys::under("/fleet"));
        let mut snapshots = cache.changes();
        let all = |count: usize| {
            move |snapshot: &std::sync::Arc<cluster::snapshot::Snapshot>| {
                snapshot.units.len() == count
            }
        };
        tokio::time::timeout(PATIENCE, snapshots.wait_for(all(1))).await.unwrap().unwrap();
        let faults = [
            wire::Fault::HoldsAnswers,
            wire::Fault::HoldsQuestions,
            wire::Fault::HoldsAll,
            wire::Fault::Slow(Duration::from_secs(5)),
        ];
        for (turn, failing) in faults.into_iter().enumerate() {
            let affected = wire.affected();
            wire.set(failing);
            // Creates a unit while no event arrives.
            when_made(&own, 10 + u32::try_from(turn).unwrap()).await;
            fault(&cache, "did not answer within").await;
            assert_eq!(unit_count(&cache), turn + 1, "{failing:?}: the cache keeps its contents");
            assert!(wire.affected() > affected, "{failing:?} changed no chunk");
            wire.set(wire::Fault::None);
            let seen = snapshots.wait_for(all(turn + 2));
            tokio::time::timeout(PATIENCE, seen).await.unwrap().unwrap();
        }
        let mut missed = 0;
        for (turn, failing) in
            [wire::Fault::BreaksEach(7), wire::Fault::CutsEach(3)].into_iter().enumerate()
        {
            wire.set(failing);
            for number in 0..10 {
                when_made(&own, 100 + 10 * u32::try_from(turn).unwrap() + number).await;
                missed += usize::from(cache.health().borrow().fault.is_some());
            }
            wire.set(wire::Fault::None);
            let seen = snapshots.wait_for(all(5 + 10 * (turn + 1)));
            tokio::time::timeout(PATIENCE, seen).await.unwrap().unwrap();
        }
        println!("{missed} of 20 changes were made while the cache reported a fault");
    });
}

#[test]
fn two_addresses_of_one_member_without_a_leader_are_no_majority() {
    run(async {
        let peers = Etcd::urls();
        let target = |url: &String| url.rsplit('/').next().unwrap().parse().unwrap();
        let ends = peers.iter().map(|url| ("127.0.0.1:0".parse().unwrap(), target(url)));
        let wire = Wire::open(ends.collect(), None);
        let advertised = [0, 1, 2].map(|at| format!("http://{}", wire.addresses[at]));
        let members = Etcd::three_advertised_at(1_000, &peers, &advertised);
        let url = |at: usize| members[at].url.clone();
        let other = |at: usize| format!("{}/", url(at));
        let of = |endpoints: Vec<String>| {
            Store::etcd(EtcdConfig { endpoints, ..members[0].impatient() }).unwrap()
        };
        let one = of(vec![url(0), other(0)]);
        let most = of(vec![url(0), other(0), url(1)]);
        let stranger = of(vec![url(0), url(1), url(2)]);
        for store in [&one, &most] {
            when_there(store).await;
            let lease = store.grant(Duration::from_secs(120)).await.unwrap();
            let end = Instant::now() + PATIENCE;
            while store.keep_alive(lease.id).await != Ok(true) {
                assert!(Instant::now() < end, "the lease is not renewed");
                tokio::task::yield_now().await;
            }
            assert!(!store.is_leaderless(PATIENCE).await, "it has a leader");
        }
        wire.set(wire::Fault::HoldsAll);
        let end = Instant::now() + PATIENCE;
        while !most.is_leaderless(Duration::from_secs(1)).await {
            assert!(
                Instant::now() < end,
                "two of three members do not report that they have no leader"
            );
            tokio::task::yield_now().await;
        }
        assert!(
            !one.is_leaderless(Duration::from_secs(1)).await,
            "the answer of one of three members is no majority"
        );
        assert!(
            !stranger.is_leaderless(PATIENCE).await,
            "a store without a member list accepts no majority"
        );
    });
}
