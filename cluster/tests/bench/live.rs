//! Measures what users wait for: from a PUT to a launched unit, lists, the loss of a machine, and
//! the cost of an idle cluster.

use super::agents::Agents;
use super::machine::{Client, Machine};
use super::member::{Etcd, PATIENCE, run, when_there};
use super::{Row, median};
use cluster::desired::Desired;
use cluster::etcd_cache::EtcdCache;
use cluster::key::Keys;
use cluster::snapshot::Snapshot;
use cluster::store::Store;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const TTL: u64 = 5;
/// Duration of the idle measurement.
const IDLE: Duration = Duration::from_secs(15);
const KEYS: &str = "/_coreos.com/fleet/";

fn body(kind: &str) -> String {
    format!(
        r#"{{"desiredState":"launched","options":[
        {{"section":"Service","name":"ExecStart","value":"/bin/sleep 100000"}},
        {{"section":"X-Fleet","name":"MachineMetadata","value":"kind={kind}"}}]}}"#
    )
}

fn launched(snapshot: &Snapshot, prefix: &str) -> usize {
    let ours = snapshot.units.keys().filter(|name| name.as_str().starts_with(prefix));
    ours.filter(|name| snapshot.reached_by(name) == Desired::Launched).count()
}

/// Waits until this many units with the prefix are launched, by etcd's contents.
async fn when_launched(cache: &EtcdCache, prefix: &str, count: usize, most: Duration) {
    let mut snapshots = cache.changes();
    let all = snapshots.wait_for(|snapshot| launched(snapshot, prefix) >= count);
    let in_time = tokio::time::timeout(most, all).await.is_ok();
    let there = launched(&cache.snapshot(), prefix);
    assert!(in_time, "{there} of {count} units {prefix}* are launched after {most:?}");
}

/// Measures from the PUT of a unit until the API shows it as launched.
fn one_by_one(client: &mut Client) -> Duration {
    let mut times = Vec::new();
    for number in 0..25 {
        let path = format!("/units/one{number}.service");
        let began = Instant::now();
        assert_eq!(client.ask("PUT", &path, &body("real")).0, 201);
        while !client.get(&path).1.contains(r#""currentState":"launched""#) {
            assert!(began.elapsed() < PATIENCE, "{path} is not launched");
            std::thread::park_timeout(Duration::from_millis(2));
        }
        times.push(began.elapsed());
        assert_eq!(client.ask("DELETE", &path, "").0, 204);
    }
    median(times)
}

/// Puts this many units with several clients. Returns the time per PUT.
fn put_all(machine: &Machine, prefix: &str, count: usize, clients: usize) -> Duration {
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let one = |number: usize| {
            let mut client = machine.client();
            scope.spawn(move || {
                let mut times = Vec::new();
                for at in (number..count).step_by(clients) {
                    let began = Instant::now();
                    let path = format!("/units/{prefix}{at:05}.service");
                    // 503 means that the result is unknown; a retry gets an answer.
                    while !matches!(client.ask("PUT", &path, &body("simulated")).0, 201 | 204) {
                        assert!(began.elapsed() < PATIENCE, "{path} is not taken");
                        std::thread::park_timeout(Duration::from_millis(100));
                    }
                    times.push(began.elapsed());
                }
                times
            })
        };
        let all: Vec<_> = (0..clients).map(one).collect();
        all.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    median(times)
}

/// Fetches all pages of the unit list.
fn list(client: &mut Client) -> (Duration, usize) {
    let began = Instant::now();
    let (mut count, mut path) = (0, "/units".to_string());
    loop {
        let page: serde_json::Value = serde_json::from_str(&client.get(&path).1).unwrap();
        count += page["units"].as_array().map_or(0, Vec::len);
        match page["nextPageToken"].as_str() {
            Some(token) => path = format!("/units?nextPageToken={token}"),
            None => return (began.elapsed(), count),
        }
    }
}

async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

pub(crate) fn measure() -> Vec<Row> {
    let mut rows = Vec::new();
    eprintln!("live: a real etcd, real machines, simulated ones");
    run(async {
        let etcd = Etcd::start();
        let store = Store::etcd(etcd.config()).unwrap();
        when_there(&store).await;
        let keys = Keys::under(KEYS);
        let (cache, _task) = EtcdCache::start(store.clone(), keys.clone());
        let id = |digit: char| digit.to_string().repeat(32);
        let mut first = Machine::start(&etcd.folder, &id('a'), &etcd.url, "real", TTL);
        rows.extend(small(&etcd, &keys, &cache, &first).await);
        eprintln!("856 units are done");
        let second = Machine::start(&etcd.folder, &id('b'), &etcd.url, "real", TTL);
        rows.push(dies(&cache, &mut first, &second).await);
        eprintln!("a machine's death is done");
        rows.extend(large(&etcd, &keys, &cache, &second).await);
    });
    rows
}

/// Measures one unit, 600, 856, and an idle cluster.
async fn small(etcd: &Etcd, keys: &Keys, cache: &EtcdCache, machine: &Machine) -> Vec<Row> {
    let one = one_by_one(&mut machine.client());
    let _agents = Agents::start(etcd.config(), keys, 0, 10);
    let put = put_all(machine, "s", 600, 1);
    let began = Instant::now();
    when_launched(cache, "s", 600, PATIENCE).await;
    let rest = began.elapsed();
    put_all(machine, "t", 256, 1);
    when_launched(cache, "t", 256, PATIENCE).await;
    let mut client = machine.client();
    let lists: Vec<Duration> = (0..20)
        .map(|_| {
            let (took, count) = list(&mut client);
            assert_eq!(count, 856);
            took
        })
        .collect();
    pause(Duration::from_secs(2)).await;
    let before = machine.busy();
    pause(IDLE).await;
    let share = (machine.busy() - before).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    let seconds = Duration::from_secs(1);
    vec![
        Row::time("one unit, PUT to launched, p50", one, seconds / 10)
            .promised("< 100 ms", "2.3 s"),
        Row::time("a PUT, p50 of 600", put, seconds / 10).promised("", "1.5 ms"),
        Row::time("600 units, last PUT to all launched", rest, seconds).promised("< 1 s", "3.0 s"),
        Row::time("list of 856 units, all pages, p50", median(lists), seconds / 100)
            .promised("< 10 ms", "517 ms"),
        Row {
            what: "idle leader, 856 units",
            measured: format!("{share:.2} % of a core, {} MiB", machine.memory()),
            promised: "< 1 %",
            fleet: "23 %, 25 MiB",
            kept: share < 1.0,
        },
    ]
}

/// A leading machine with twenty units loses its power.
async fn dies(cache: &EtcdCache, first: &mut Machine, second: &Machine) -> Row {
    let mut client = second.client();
    for number in 0..20 {
        let path = format!("/units/r{number}.service");
        assert_eq!(client.ask("PUT", &path, &body("real")).0, 201);
    }
    when_launched(cache, "r", 20, PATIENCE).await;
    let other = |snapshot: &Snapshot| {
        let ours = snapshot.units.keys().filter(|name| name.as_str().starts_with('r'));
        let there = |name: &&cluster::unit_name::UnitName| {
            snapshot.place_of(name).is_some_and(|id| id.as_str().starts_with('b'))
                && snapshot.reached_by(name) == Desired::Launched
        };
        ours.filter(there).count()
    };
    let leader = cache.snapshot().leader.as_ref().map(|kept| kept.record.machine.to_string());
    assert!(leader.is_some_and(|leader| leader.starts_with('a')), "the first leads");
    assert!(other(&cache.snapshot()) < 20, "it has some of them");
    let began = Instant::now();
    first.kill();
    let mut snapshots = cache.changes();
    let all = snapshots.wait_for(|snapshot| other(snapshot) == 20);
    assert!(tokio::time::timeout(PATIENCE, all).await.is_ok(), "{}", other(&cache.snapshot()));
    let most = Duration::from_secs(TTL + 2);
    Row::time(
        "a leading machine dies: all its units run elsewhere, with a TTL of 5 s",
        began.elapsed(),
        most,
    )
    .promised("< TTL + 2 s", "28.6 s, TTL 30 s")
}

/// Measures ten thousand units on a hundred machines, and one more unit.
async fn large(etcd: &Etcd, keys: &Keys, cache: &EtcdCache, machine: &Machine) -> Vec<Row> {
    let agents = Agents::start(etcd.config(), keys, 10, 90);
    let began = Instant::now();
    let minute = Duration::from_secs(60);
    put_all(machine, "u", 10_000 - 876, 16);
    when_launched(cache, "u", 10_000 - 876, 5 * minute).await;
    let all = began.elapsed();
    pause(Duration::from_secs(2)).await;
    let (before, woken) = (cache.snapshot().revision, agents.woken.load(Ordering::Relaxed));
    put_all(machine, "v", 1, 1);
    when_launched(cache, "v", 1, PATIENCE).await;
    pause(Duration::from_secs(2)).await;
    let written = cache.snapshot().revision - before;
    let woken = agents.woken.load(Ordering::Relaxed) - woken;
    vec![
        Row::time("10,000 units on 100 machines, first PUT to all launched", all, minute / 2)
            .promised("< 30 s", ""),
        Row {
            what: "one unit more: revisions of etcd (its PUT, its place, its state), agents woken",
            measured: format!("{written}, {woken}"),
            promised: "3, 1",
            fleet: "",
            kept: written <= 3 && woken <= 1,
        },
    ]
}
