//! Many machines at once on a real etcd: their cost, and their return after a power failure. Each
//! is the tasks of a fleetd; one is a real machine where possible. The README's table has the
//! measured times.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a panic fails the test"
)]

#[path = "bench/machine.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod machine;
mod machines;
mod member;

use cluster::desired::Desired;
use cluster::etcd_cache::EtcdCache;
use cluster::key::Keys;
use cluster::registry;
use cluster::snapshot::Snapshot;
use cluster::store::{EtcdConfig, Store};
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use machine::Machine;
use machines::{Crowd, counted};
use member::{Etcd, run, when_there};
use std::time::{Duration, Instant};

/// Time limit for each step.
const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
/// fleetd's default key prefix.
const ROOT: &str = "/_coreos.com/fleet/";
/// etcd's counter of answered reads.
const READS: &str = r#"grpc_server_handled_total{grpc_code="OK",grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"}"#;
const SENT: &str = "etcd_network_client_grpc_sent_bytes_total";
const GRANTED: &str = "etcd_debugging_lease_granted_total";

/// Number of machines and of units; GROUNDSTATE_CROWD makes them larger.
fn size() -> (usize, usize) {
    if std::env::var_os("GROUNDSTATE_CROWD").is_some() { (100, 1_000) } else { (20, 100) }
}

/// Returns settings with a long timeout: machines in one process delay each other, which must not
/// look like a silent etcd.
fn patient(etcd: &Etcd) -> EtcdConfig {
    EtcdConfig { request_timeout: Duration::from_secs(15), ..etcd.config() }
}

/// Starts a real machine. It needs a process namespace, which only root can create.
fn real(etcd: &Etcd) -> Option<Machine> {
    let may = nix::unistd::geteuid().is_root() && std::env::var_os("GROUNDSTATE_INIT").is_some();
    may.then(|| Machine::start(&etcd.folder, &"f".repeat(32), &etcd.url, "real", 60))
}

async fn submit(cache: &EtcdCache, number: usize) {
    let name = UnitName::new(&format!("u{number:05}.service")).unwrap();
    let text = format!("[Service]\nExecStart=/bin/sleep {}\n", 100_000 + number);
    let file = UnitFile::parse(&text).unwrap();
    let made = |snapshot: &Snapshot| {
        let there = snapshot.units.contains_key(&name);
        let new = || registry::create(snapshot, &name, &file, Desired::Launched);
        Ok::<_, ()>((!there).then(new))
    };
    cache.write(made).await.unwrap();
}

fn launched(snapshot: &Snapshot) -> usize {
    let all = snapshot.units.keys();
    all.filter(|name| snapshot.reached_by(name) == Desired::Launched).count()
}

/// Waits for a condition and returns the time it took.
async fn when(
    cache: &EtcdCache,
    what: &str,
    most: Duration,
    so: impl Fn(&Snapshot) -> bool,
) -> Duration {
    let began = Instant::now();
    let mut snapshots = cache.changes();
    let seen = tokio::time::timeout(most, snapshots.wait_for(|snapshot| so(snapshot))).await;
    let now = cache.snapshot();
    let machines = now.machines.len();
    assert!(seen.is_ok(), "{what}: {machines} machines, {} units launched", launched(&now));
    began.elapsed()
}

/// Returns the CPU share per machine in percent of a core.
fn share(busy: Duration, time: Duration, count: usize) -> f64 {
    busy.as_secs_f64() / time.as_secs_f64() * 100.0 / count as f64
}

/// In an idle cluster only leases are renewed, which creates no revisions, and no machine uses CPU
/// time.
async fn is_quiet(cache: &EtcdCache, crowd: &Crowd, real: Option<&Machine>, machines: usize) {
    let real_busy = || real.map_or(Duration::ZERO, Machine::busy);
    let (before, busy, own) = (cache.read().await.unwrap().revision, crowd.busy(), real_busy());
    let since = Instant::now();
    tokio::time::sleep(3 * SECOND).await;
    let time = since.elapsed();
    let each = share(crowd.busy() - busy, time, machines);
    let own = share(real_busy() - own, time, 1);
    let written = cache.read().await.unwrap().revision - before;
    println!(
        "quiet for {time:?}: {written} revisions, {each:.3} % of a core a machine, real: {own:.2} %"
    );
    assert!(written <= 5, "{written} revisions while nothing happens");
    assert!(each < 2.0 && own < 10.0, "{each} % and {own} % of a core while nothing happens");
}

/// A new unit causes no full reading: only its machine handles the write, the place and the state.
async fn one_more(etcd: &Etcd, cache: &EtcdCache, crowd: &Crowd, units: usize, machines: usize) {
    let reading = cache.store().read(cache.keys().root()).await.unwrap();
    let all: usize = reading.entries.iter().map(|entry| entry.key.len() + entry.value.len()).sum();
    let count = |name| counted(etcd.address(), name);
    let looks = || crowd.metrics.iter().map(|metrics| metrics.reconciled()).collect::<Vec<_>>();
    let looked = looks();
    let (sent, reads) = (count(SENT), count(READS));
    submit(cache, units).await;
    when(cache, "one more", MINUTE, |now| launched(now) == units + 1).await;
    let (bytes, reads) = (count(SENT) - sent, count(READS) - reads);
    let written = cache.snapshot().revision - reading.revision;
    let looks: Vec<u64> = looks().iter().zip(&looked).map(|(now, then)| now - then).collect();
    let looked: Vec<u64> = looks.into_iter().filter(|looks| *looks > 0).collect();
    println!("one change: {written} revisions, {reads} readings, {bytes} bytes of {all}");
    println!("reconciliations of each machine that reconciled: {looked:?}");
    // The machine that got the unit, unless it is the real one; all others ignored the event.
    assert!(looked.len() <= 1, "other machines reconciled too: {looked:?}");
    assert!(looked.iter().all(|looks| *looks <= 4), "{looked:?} reconciliations for one change");
    assert!(written <= 4, "{written} revisions for one change");
    assert!(bytes < 0.25 * (all * machines) as f64, "{bytes} bytes for one change of {all}");
}

/// Returns the number of engine decisions, and of those over a second.
fn decisions(crowd: &Crowd, real: Option<&Machine>) -> (u64, u64) {
    let metrics = real.map(|machine| machine.client().ask_at("GET", "/metrics", "").1);
    let number = |text: &String, name: &str| -> u64 {
        let name = format!("fleet_engine_reconcile_seconds_{name} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    };
    let own = metrics.map(|text| {
        let all = number(&text, "count");
        (all, all - number(&text, "bucket{le=\"1\"}"))
    });
    let others = crowd.metrics.iter().map(|metrics| metrics.slower_than(SECOND));
    others.chain(own).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[test]
fn many_units_on_many_machines_cost_etcd_little() {
    let (count, units) = size();
    run(async {
        let etcd = Etcd::start();
        let store = Store::etcd(etcd.config()).unwrap();
        when_there(&store).await;
        let keys = Keys::under(ROOT);
        let (cache, _task) = EtcdCache::start(store, keys.clone());
        let real = real(&etcd);
        let crowd = Crowd::start(&patient(&etcd), &keys, "one", (MINUTE, 2 * SECOND), count);
        let machines = count + usize::from(real.is_some());
        let there = |now: &Snapshot| now.machines.len() == machines && now.leader.is_some();
        when(&cache, "all are there", MINUTE, there).await;
        let (began, before) = (Instant::now(), cache.read().await.unwrap().revision);
        for number in 0..units {
            submit(&cache, number).await;
        }
        when(&cache, "all are launched", 2 * MINUTE, |now| launched(now) == units).await;
        let (took, busy) = (began.elapsed(), crowd.busy());
        assert!(took < 2 * MINUTE);
        let snapshot = cache.snapshot();
        let each = (snapshot.revision - before) as f64 / units as f64;
        println!(
            "{units} units on {machines} machines are launched after {took:?}, {each:.2} revisions each"
        );
        println!("all machines have used {busy:?} of CPU time");
        assert!(each <= 5.0, "{each} revisions a unit: its own, its place, its states");
        let most = units.div_ceil(machines) + 1;
        assert!(
            snapshot.schedules.values().all(|of| of.len() <= most),
            "a machine has more units than its share"
        );
        is_quiet(&cache, &crowd, real.as_ref(), machines).await;
        one_more(&etcd, &cache, &crowd, units, machines).await;
        assert!(
            crowd.metrics.iter().all(|metrics| metrics.reconciled() > 0),
            "a machine has never reconciled"
        );
        let (all, slow) = decisions(&crowd, real.as_ref());
        println!("{all} decisions of engines, {slow} took longer than a second");
        assert!(all >= units as u64 / 20, "{all} decisions are too few: no engine has led");
        assert!(slow * 10 <= all, "{slow} of {all} decisions took longer than a second");
        let size = etcd.client().await.status().await.unwrap().db_size();
        // 20 kB for each unit, plus 4 MB for an etcd without units.
        let most = 4_000_000 + 20_000 * i64::try_from(units).unwrap();
        println!("etcd keeps {size} bytes");
        assert!(size < most, "{size} bytes are kept, {most} at most");
    });
}

#[test]
fn machines_that_boot_together_are_all_registered_within_a_minute() {
    let (count, _) = size();
    run(async {
        let etcd = Etcd::start();
        let store = Store::etcd(etcd.config()).unwrap();
        when_there(&store).await;
        let keys = Keys::under(ROOT);
        let (cache, _task) = EtcdCache::start(store, keys.clone());
        // Long enough for a busy host, and to observe how waiting machines behave.
        let times = (12 * SECOND, 2 * SECOND);
        let first = Crowd::start(&patient(&etcd), &keys, "one", times, count);
        when(&cache, "all are there", MINUTE, |now| now.machines.len() == count).await;
        for number in 0..count {
            submit(&cache, number).await;
        }
        when(&cache, "all run", MINUTE, |now| launched(now) == count).await;
        let before = counted(etcd.address(), GRANTED);
        drop(first);
        let _second = Crowd::start(&patient(&etcd), &keys, "two", times, count);
        let booted = |now: &Snapshot| {
            let rebooted = now.machines.values().filter(|kept| kept.record.boot == "two").count();
            rebooted == count && launched(now) == count && now.leader.is_some()
        };
        let took = when(&cache, "all are back", MINUTE, booted).await;
        let leases = counted(etcd.address(), GRANTED) - before;
        println!(
            "{count} machines are registered again after {took:?}, with {leases} lease requests"
        );
        // Each machine requests a lease, and the leader one more. A machine that was too slow to
        // renew requests another. No machine may request leases while it waits for its own key, or
        // in each lost election.
        assert!(leases <= 2.5 * count as f64, "{leases} leases for {count} machines");
    });
}
