//! Histories of the API on a real etcd behind a faulty wire: concurrent answers must be explained
//! by some order of the requests.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a panic fails the test"
)]

mod history;
mod member;
mod wire;

use cluster::api::answer::Answer;
use cluster::api::caller::Caller;
use cluster::api::request::Request;
use cluster::api::server::{ApiState, Settings};
use cluster::etcd_cache::EtcdCache;
use cluster::key::Keys;
use cluster::store::{EtcdConfig, Store};
use history::{Deed, Operation, Outcome, holds};
use member::{Etcd, PATIENCE, run, when_there};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;
use tokio::time::timeout;
use wire::{Fault, Wire};

const CLIENTS: u64 = 4;
const DEEDS: u64 = 25;
const WISHES: [&str; 3] = ["inactive", "loaded", "launched"];

/// Returns the next pseudo-random number.
fn draw(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

fn drawn(seed: &mut u64, reads: bool) -> Deed {
    let wish = u8::try_from(draw(seed) % 3).unwrap();
    match draw(seed) % if reads { 10 } else { 6 } {
        0 | 1 => Deed::Put(u8::try_from(draw(seed) % 3).unwrap(), wish),
        2 | 3 => Deed::Wish(wish),
        4 | 5 => Deed::Delete,
        _ => Deed::Get,
    }
}

fn request(unit: &str, deed: Deed) -> Request {
    let option = |file: u8| format!(r#"[{{"section":"S","name":"N","value":"{file}"}}]"#);
    let (method, body) = match deed {
        Deed::Put(file, wish) => {
            let wish = WISHES[usize::from(wish)];
            ("PUT", format!(r#"{{"desiredState":"{wish}","options":{}}}"#, option(file)))
        }
        Deed::Wish(wish) => {
            ("PUT", format!(r#"{{"desiredState":"{}"}}"#, WISHES[usize::from(wish)]))
        }
        Deed::Delete => ("DELETE", String::new()),
        Deed::Get => ("GET", String::new()),
    };
    Request {
        method: method.to_string(),
        path: format!("/fleet/v1/units/{unit}"),
        content_types: vec!["application/json".to_string()],
        body: body.into_bytes(),
        caller: Caller::local(),
        ..Request::default()
    }
}

fn outcome(deed: Deed, answer: &Answer) -> Outcome {
    match (answer.status, deed) {
        (503, _) => Outcome::Unknown,
        (200, Deed::Get) => {
            let unit: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            let file = unit["options"][0]["value"].as_str().unwrap().parse().unwrap();
            let wish = WISHES.iter().position(|wish| unit["desiredState"] == *wish).unwrap();
            Outcome::Shown(Some((file, u8::try_from(wish).unwrap())))
        }
        (404, Deed::Get) => Outcome::Shown(None),
        (404 | 409, _) => Outcome::Missing,
        (201, _) => Outcome::Made,
        (204, _) => Outcome::Done,
        (status, _) => panic!("{deed:?}: {status} {}", String::from_utf8_lossy(&answer.body)),
    }
}

/// Counts requests and answers, and changes the fault after a fixed number of them.
struct Clock {
    time: Cell<u64>,
    faults: Vec<Fault>,
    wire: Wire,
}

impl Clock {
    fn next(&self) -> u64 {
        let time = self.time.get() + 1;
        self.time.set(time);
        if time.is_multiple_of(20) && !self.faults.is_empty() {
            let turn = usize::try_from(time / 20).unwrap();
            self.wire.set(self.faults[turn % self.faults.len()]);
        }
        time
    }
}

async fn client(
    api: ApiState,
    unit: String,
    mut seed: u64,
    reads: bool,
    clock: Rc<Clock>,
) -> Vec<Operation> {
    let mut own = Vec::new();
    for _ in 0..DEEDS {
        let deed = drawn(&mut seed, reads);
        let asked = clock.next();
        let answer = api.answer(&request(&unit, deed)).await;
        let answered = clock.next();
        own.push(Operation { deed, outcome: outcome(deed, &answer), asked, answered });
    }
    own
}

async fn api(endpoint: String, etcd: &Etcd) -> ApiState {
    let config = EtcdConfig { endpoints: vec![endpoint], ..etcd.impatient() };
    let (cache, _) = EtcdCache::start(Store::etcd(config).unwrap(), Keys::under("/fleet"));
    cache.health().wait_for(|health| health.fault.is_none()).await.unwrap();
    ApiState::new(cache, Settings::default())
}

/// Runs rounds of clients, all clients of a round on one unit. They are spread over `daemons`, the
/// first of which is behind the wire.
fn rounds(count: u64, daemons: usize, reads: bool, faults: &[Fault]) {
    run(async {
        let etcd = Etcd::start();
        when_there(&Store::etcd(etcd.config()).unwrap()).await;
        let wire = Wire::open(vec![("127.0.0.1:0".parse().unwrap(), etcd.address())], None);
        let mut apis = vec![api(format!("http://{}", wire.addresses[0]), &etcd).await];
        for _ in 1..daemons {
            apis.push(api(etcd.url.clone(), &etcd).await);
        }
        let clock = Rc::new(Clock { time: Cell::new(0), faults: faults.to_vec(), wire });
        let mut unknown = 0;
        for round in 0..count {
            let unit = format!("u{round}.service");
            let tasks = (0..CLIENTS).map(|number| {
                let api = apis[usize::try_from(number).unwrap() % apis.len()].clone();
                client(api, unit.clone(), round * 1000 + number, reads, clock.clone())
            });
            let local = tokio::task::LocalSet::new();
            let tasks: Vec<_> = tasks.map(|task| local.spawn_local(task)).collect();
            let mut history = Vec::new();
            local
                .run_until(async {
                    for task in tasks {
                        history.extend(task.await.unwrap());
                    }
                })
                .await;
            history.sort_by_key(|one| one.asked);
            unknown += history.iter().filter(|one| one.outcome == Outcome::Unknown).count();
            let lines: Vec<String> = history.iter().map(|one| format!("{one:?}")).collect();
            let sure = faults.is_empty();
            assert!(holds(&history, sure), "round {round}:\n{}", lines.join("\n"));
        }
        let all = count * CLIENTS * DEEDS;
        println!(
            "{all} requests, {unknown} without an answer, {} chunks changed by a fault",
            clock.wire.affected()
        );
        assert!(faults.is_empty() || clock.wire.affected() > 0, "no chunk was changed by a fault");
        assert!(
            unknown < usize::try_from(all).unwrap() / 4,
            "{unknown} unknown results are too many for a check"
        );
    });
}

#[test]
fn answers_of_one_daemon_are_explained_by_some_order_of_the_requests() {
    rounds(12, 1, true, &[]);
}

#[test]
fn answers_are_explained_by_some_order_although_the_wire_fails() {
    rounds(12, 1, true, &[Fault::None, Fault::BreaksEach(11), Fault::None, Fault::CutsEach(7)]);
}

#[test]
fn changes_through_several_daemons_are_explained_by_some_order() {
    rounds(12, 2, false, &[]);
}

/// While etcd is silent, requests are answered in time with 503 and Retry-After. A GET with
/// `may_use_cache` may be answered from the cache.
async fn is_answered_in_time(api: &ApiState, deed: Deed, may_use_cache: bool) {
    let answer = timeout(PATIENCE, api.answer(&request("a.service", deed))).await;
    let answer = answer.unwrap_or_else(|_| panic!("{deed:?} hangs"));
    if may_use_cache && deed == Deed::Get && answer.status == 200 {
        return;
    }
    assert_eq!(answer.status, 503, "{deed:?}");
    assert!(answer.retry_after.is_some_and(|after| (1..=5).contains(&after)), "{answer:?}");
}

/// Creates the unit. A busy disk may delay etcd longer than these requests wait.
async fn made(api: &ApiState) {
    let asked = Instant::now();
    loop {
        let answer = api.answer(&request("a.service", Deed::Put(1, 0))).await;
        if matches!(answer.status, 201 | 204) {
            return;
        }
        assert!(answer.status == 503 && asked.elapsed() < PATIENCE, "{answer:?}");
    }
}

#[test]
fn clients_are_answered_in_time_while_etcd_is_silent() {
    run(async {
        let etcd = Etcd::start();
        when_there(&Store::etcd(etcd.config()).unwrap()).await;
        let wire = Wire::open(vec![("127.0.0.1:0".parse().unwrap(), etcd.address())], None);
        let api = api(format!("http://{}", wire.addresses[0]), &etcd).await;
        made(&api).await;
        for hold in [Fault::HoldsAll, Fault::HoldsAnswers] {
            wire.set(hold);
            // In the first turn the cache does not know of the fault yet.
            for may_use_cache in [true, false] {
                let answer = |deed| is_answered_in_time(&api, deed, may_use_cache);
                let changes = [Deed::Put(2, 1), Deed::Wish(2), Deed::Delete];
                let [put, wish, delete] = changes.map(answer);
                tokio::join!(put, wish, delete, answer(Deed::Get));
                let fault = |health: &cluster::etcd_cache::Health| health.fault.is_some();
                timeout(PATIENCE, api.cache().health().wait_for(fault)).await.unwrap().unwrap();
                assert!(!api.is_healthy());
            }
            assert!(wire.affected() > 0);
            wire.set(Fault::None);
            let well = |health: &cluster::etcd_cache::Health| health.fault.is_none();
            timeout(PATIENCE, api.cache().health().wait_for(well)).await.unwrap().unwrap();
            made(&api).await;
        }
    });
}

#[test]
fn impossible_history_is_detected() {
    let at = |deed, outcome, asked, answered| Operation { deed, outcome, asked, answered };
    let put = at(Deed::Put(1, 0), Outcome::Made, 1, 2);
    let shown = |state, asked| at(Deed::Get, Outcome::Shown(state), asked, asked + 1);
    assert!(holds(&[put, shown(Some((1, 0)), 3)], true));
    assert!(!holds(&[put, shown(None, 3)], true), "a created unit exists until it is destroyed");
    let lost = Operation { outcome: Outcome::Unknown, ..put };
    assert!(
        holds(&[lost, shown(None, 3), shown(Some((1, 0)), 5)], true),
        "the PUT may land between the two reads"
    );
    assert!(
        !holds(&[lost, shown(Some((1, 0)), 3), shown(None, 5)], true),
        "a PUT that landed is not undone"
    );
    let gone = |asked| at(Deed::Delete, Outcome::Done, asked, asked + 1);
    assert!(!holds(&[put, gone(3), gone(5)], true), "a unit is destroyed only once");
    assert!(holds(&[put, gone(3), gone(5)], false));
    let both = [put, at(Deed::Delete, Outcome::Done, 3, 9), at(Deed::Wish(2), Outcome::Done, 4, 8)];
    assert!(holds(&both, true), "the desired state was set before the delete");
}
