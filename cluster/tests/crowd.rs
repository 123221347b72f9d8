//! A hundred machines at once on a real etcd: what they cost it, and how they come back when all
//! of them lose their power. The measured times stand in the README's table, not here.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that can not go on has failed"
)]

mod machines;
mod member;

use cluster::desired::Desired;
use cluster::key::Keys;
use cluster::mirror::Mirror;
use cluster::picture::Picture;
use cluster::registry;
use cluster::store::{EtcdConfig, Store};
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use machines::{Crowd, counted};
use member::{Etcd, run, when_there};
use std::time::{Duration, Instant};

const MACHINES: usize = 100;
/// What all of them may take for anything, by the rows.
const MINUTE: Duration = Duration::from_secs(60);

/// A hundredth of ten thousand, or with GROUNDSTATE_ALL a tenth.
fn units() -> usize {
    if std::env::var_os("GROUNDSTATE_ALL").is_some() { 1_000 } else { 100 }
}

/// A hundred machines of one process wait for each other: none of them shall take that for an etcd
/// that does not answer.
fn patient(etcd: &Etcd) -> EtcdConfig {
    EtcdConfig { request_timeout: Duration::from_secs(15), ..etcd.config() }
}

async fn submit(mirror: &Mirror, number: usize) {
    let name = UnitName::new(&format!("u{number:05}.service")).unwrap();
    let text = format!("[Service]\nExecStart=/bin/sleep {number}\n");
    let file = UnitFile::parse(&text).unwrap();
    let made = |picture: &Picture| {
        let there = picture.units.contains_key(&name);
        let new = || registry::create(picture, &name, &file, Desired::Launched);
        Ok::<_, ()>((!there).then(new))
    };
    mirror.write(made).await.unwrap();
}

fn launched(picture: &Picture) -> usize {
    let all = picture.units.keys();
    all.filter(|name| picture.reached_by(name) == Desired::Launched).count()
}

/// Waits until it is so, for so long; how long it took.
async fn when(
    mirror: &Mirror,
    what: &str,
    most: Duration,
    so: impl Fn(&Picture) -> bool,
) -> Duration {
    let began = Instant::now();
    let mut pictures = mirror.changes();
    let seen = tokio::time::timeout(most, pictures.wait_for(|picture| so(picture))).await;
    let now = mirror.picture();
    let machines = now.machines.len();
    assert!(seen.is_ok(), "{what}: {machines} machines, {} units launched", launched(&now));
    began.elapsed()
}

#[test]
fn many_units_on_a_hundred_machines_cost_etcd_little() {
    run(async {
        let etcd = Etcd::start();
        let store = Store::etcd(etcd.config()).unwrap();
        when_there(&store).await;
        let keys = Keys::under("/fleet");
        let (mirror, _task) = Mirror::start(store, keys.clone());
        let _crowd = Crowd::start(&patient(&etcd), &keys, "one", MINUTE, MACHINES);
        when(&mirror, "all are there", MINUTE, |now| {
            now.machines.len() == MACHINES && now.leader.is_some()
        })
        .await;
        let began = Instant::now();
        for number in 0..units() {
            submit(&mirror, number).await;
        }
        when(&mirror, "all are launched", 2 * MINUTE, |now| launched(now) == units()).await;
        println!("{} units are launched after {:?}", units(), began.elapsed());
        assert!(began.elapsed() < 2 * MINUTE);
        let per_machine = units().div_ceil(MACHINES);
        let picture = mirror.picture();
        assert!(picture.schedules.values().all(|of| of.len() == per_machine), "least loaded first");
        // Nothing happens: nothing is written but signs of life, which are no revisions.
        let (before, since) = (picture.revision, Instant::now());
        tokio::time::sleep(Duration::from_secs(5)).await;
        let written = mirror.read().await.unwrap().revision - before;
        println!("{written} revisions in {:?} of quiet", since.elapsed());
        assert!(written <= 50, "{written} revisions while nothing happens");
        // One change more: nobody reads all there is for it.
        let sent = "etcd_network_client_grpc_sent_bytes_total";
        let all: usize = {
            let reading = mirror.store().read(keys.root()).await.unwrap();
            reading.entries.iter().map(|entry| entry.key.len() + entry.value.len()).sum()
        };
        let quiet = counted(etcd.address(), sent);
        submit(&mirror, units()).await;
        when(&mirror, "one more", MINUTE, |now| launched(now) == units() + 1).await;
        let told = counted(etcd.address(), sent) - quiet;
        println!("{told} bytes for one change, all there is has {all}");
        assert!(told < 0.25 * (all * MACHINES) as f64, "{told} bytes for one change of {all}");
        let size = etcd.client().await.status().await.unwrap().db_size();
        // Two hundred MB for ten thousand; what an empty one takes beside it.
        let most = 4_000_000 + 20_000 * i64::try_from(units()).unwrap();
        println!("etcd keeps {size} bytes");
        assert!(size < most, "{size} bytes are kept, {most} at most");
    });
}

#[test]
fn a_hundred_machines_that_boot_at_once_are_all_back_within_a_minute() {
    run(async {
        let etcd = Etcd::start();
        let store = Store::etcd(etcd.config()).unwrap();
        when_there(&store).await;
        let keys = Keys::under("/fleet");
        let (mirror, _task) = Mirror::start(store, keys.clone());
        // Long enough for a busy machine, and for who waits to show how it waits.
        let ttl = Duration::from_secs(12);
        let first = Crowd::start(&patient(&etcd), &keys, "one", ttl, MACHINES);
        when(&mirror, "all are there", MINUTE, |now| now.machines.len() == MACHINES).await;
        for number in 0..MACHINES {
            submit(&mirror, number).await;
        }
        when(&mirror, "all run", MINUTE, |now| launched(now) == MACHINES).await;
        let granted = "etcd_debugging_lease_granted_total";
        let before = counted(etcd.address(), granted);
        drop(first);
        let _second = Crowd::start(&patient(&etcd), &keys, "two", ttl, MACHINES);
        let booted = |now: &Picture| {
            let anew = now.machines.values().filter(|kept| kept.record.boot == "two").count();
            anew == MACHINES && launched(now) == MACHINES && now.leader.is_some()
        };
        let took = when(&mirror, "all are back", MINUTE, booted).await;
        let leases = counted(etcd.address(), granted) - before;
        println!("all are back after {took:?}, {leases} leases were asked for");
        // One a machine, and one each time that nobody leads; who waited for its own key asked for
        // two a second before.
        assert!(leases <= 12.0 * MACHINES as f64, "{leases} leases for {MACHINES} machines");
    });
}
