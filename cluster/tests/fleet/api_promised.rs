//! Guarantees of fleet's API documentation that no other file tests, and ours for unusual machines
//! and clusters.

use crate::stand::{HELLO, Plan, Stand, code, stderr, write};
use cluster::api::caller::Caller;
use cluster::api::request::Request;
use cluster::api::server::{ApiState, Settings};
use cluster::desired::Desired;
use cluster::etcd_cache::EtcdCache;
use cluster::key::Keys;
use cluster::record::WhyRecord;
use cluster::registry;
use cluster::store::Store;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use serde_json::{Value, json};
use std::time::Duration;

const SLEEP: &str = "/bin/sleep 1000";

#[test]
fn unknown_fields_of_a_create_request_are_ignored() {
    let stand = Stand::new(Plan::of(&["m1", "m2"]));
    let options = json!([{"section": "Service", "name": "ExecStart", "value": SLEEP}]);
    let body = json!({
        "desiredState": "inactive", "options": options, "currentState": "launched",
        "machineID": "m2", "hash": "0", "colour": "red",
    });
    assert_eq!(stand.put("a.service", &body.to_string()).status, 201);
    let made = json!({
        "name": "a.service", "options": options,
        "desiredState": "inactive", "currentState": "inactive",
    });
    assert_eq!(stand.get("/fleet/v1/units/a.service").json(), made);
    // The same request does not move the unit once it is placed.
    let launched = json!({"desiredState": "launched", "machineID": "m2"}).to_string();
    assert_eq!(stand.put("a.service", &launched).status, 204);
    stand.until("it is launched", |stand| {
        stand.get("/fleet/v1/units/a.service").json()["currentState"] == "launched"
    });
    assert_eq!(stand.get("/fleet/v1/units/a.service").json()["machineID"], "m1");
}

#[test]
fn root_url_of_the_discovery_document_is_unusable() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let root = stand.get("/fleet/v1/discovery").json()["rootUrl"].as_str().unwrap().to_string();
    assert_eq!(root, "$ENDPOINT/");
    let output = stand.fleetctl(&["--endpoint", &root, "list-machines"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
}

#[test]
fn refused_machine_does_not_speak_for_the_registered_one() {
    let (refusal_sender, machine_refusal) = tokio::sync::watch::channel(None);
    let settings = Settings { machine_refusal: Some(machine_refusal), ..Settings::default() };
    let stand = Stand::new(Plan { settings, ..Plan::of(&["m1"]) });
    write(&stand, "a.service", HELLO);
    assert_eq!(code(&stand.fleetctl(&["start", "a.service"])), 0);
    // Streams are not waited for.
    let all = ["units", "units/a.service", "state", "state/a.service", "machines", "why/a.service"];
    for path in all {
        assert_eq!(stand.get(&format!("/fleet/v1/{path}")).status, 200, "{path}");
    }
    refusal_sender.send(Some("another machine is registered under its id".to_string())).unwrap();
    for path in all.into_iter().chain(["events", "logs/a.service", "discovery"]) {
        let reply = stand.get(&format!("/fleet/v1/{path}"));
        let expected = "fleet server unable to communicate with etcd: the cluster refuses this machine: another machine is registered under its id";
        assert_eq!(reply.fault(), (503, expected.to_string()), "{path}");
        assert_eq!(reply.headers["retry-after"], "5", "{path}");
    }
    assert_eq!(stand.ask("DELETE", "/fleet/v1/units/a.service", None).status, 503);
    assert_eq!(stand.get("/healthz").status, 503);
    refusal_sender.send(None).unwrap();
    assert_eq!(stand.get("/fleet/v1/units/a.service").status, 200, "it was not destroyed");
}

#[test]
fn why_counts_the_machines_whose_reasons_it_omits() {
    let named = WhyRecord::MACHINES;
    let ids = (0..named + 3).map(|number| &*format!("m{number:03}").leak());
    let stand = Stand::new(Plan::of(&ids.collect::<Vec<_>>()));
    let asks = "[X-Fleet]\nMachineMetadata=disk=ssd\n";
    write(&stand, "ssd.service", &format!("{HELLO}{asks}"));
    write(&stand, "all.service", &format!("{HELLO}{asks}Global=true\n"));
    assert_eq!(code(&stand.fleetctl(&["start", "ssd.service", "all.service"])), 1);
    let why = |unit: &str| stand.get(&format!("/fleet/v1/why/{unit}")).json();
    let listed = |why: &Value| why["machines"].as_object().unwrap().len();
    let one = why("ssd.service");
    let text = format!("no machine of 35 can have it ({named} of them are listed, 3 are not)");
    assert_eq!((one["text"].as_str(), listed(&one)), (Some(text.as_str()), named));
    let all = why("all.service");
    let text = format!(
        "it is global: active on 0 of 35 machines, cannot run on 35 ({named} machines with a reason are listed, 3 are not)"
    );
    assert_eq!((all["text"].as_str(), listed(&all)), (Some(text.as_str()), named));
}

/// Returns the names of units or machines, and the next token.
fn page(list: &Value) -> (Vec<String>, String) {
    let items = list["units"].as_array().or(list["machines"].as_array()).cloned();
    let word = |one: Value| one["name"].as_str().or(one["id"].as_str()).unwrap().to_string();
    let next = list["nextPageToken"].as_str().unwrap_or_default().to_string();
    (items.unwrap_or_default().into_iter().map(word).collect(), next)
}

/// Returns unit names in list order.
fn units(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(|number| format!("u{number}.service")).collect()
}

#[test]
fn pages_after_the_snapshot_was_dropped_skip_and_repeat_no_item() {
    let settings = Settings { token_limit: 3, ..Settings::default() };
    let stand = Stand::new(Plan { settings, ..Plan::of(&[]) });
    let options = json!([{"section": "Service", "name": "ExecStart", "value": SLEEP}]);
    let put = |number: u32, wish: &str| {
        let body = json!({"desiredState": wish, "options": options}).to_string();
        stand.put(&format!("u{number}.service"), &body).status
    };
    (1..=9).for_each(|number| assert_eq!(put(number, "inactive"), 201));
    let list = |token: &str| {
        let query =
            if token.is_empty() { String::new() } else { format!("?nextPageToken={token}") };
        page(&stand.get(&format!("/fleet/v1/units{query}")).json())
    };
    let (first, next) = list("");
    assert_eq!(first, units(&[1, 2, 3]));
    // Requests more lists than the server keeps, and compacts etcd.
    for turn in 0..20 {
        assert_eq!(put(9, ["loaded", "inactive"][turn % 2]), 204);
        assert!(!list("").1.is_empty());
    }
    stand.store.compact();
    for gone in [2, 5] {
        let path = format!("/fleet/v1/units/u{gone}.service");
        assert_eq!(stand.ask("DELETE", &path, None).status, 204);
    }
    assert_eq!((put(25, "inactive"), put(55, "inactive")), (201, 201));
    let (second, next) = list(&next);
    assert_eq!(second, units(&[4, 55, 6]));
    assert_eq!(list(&next), (units(&[7, 8, 9]), String::new()));
}

#[test]
fn page_token_of_another_list_or_an_older_format_is_refused() {
    let settings = Settings { token_limit: 2, ..Settings::default() };
    let stand = Stand::new(Plan { settings, ..Plan::of(&["m1", "m2", "m3"]) });
    for number in 1..=3 {
        let options = json!([{"section": "Service", "name": "ExecStart", "value": SLEEP}]);
        let body = json!({"desiredState": "launched", "options": options}).to_string();
        assert_eq!(stand.put(&format!("u{number}.service"), &body).status, 201);
    }
    let next = |of: &str| page(&stand.get(&format!("/fleet/v1/{of}")).json()).1;
    stand.until("three states", |_| !next("state").is_empty());
    let ask = |of: &str, token: &str| stand.get(&format!("/fleet/v1/{of}?nextPageToken={token}"));
    let words = "invalid value of nextPageToken query parameter";
    let lists = ["units", "state", "machines"];
    for of in lists {
        let token = next(of);
        assert_eq!(ask(of, &token).status, 200, "{of}");
        for other in lists.into_iter().filter(|other| *other != of) {
            assert_eq!(ask(other, &token).fault(), (400, words.to_string()), "{of} at {other}");
        }
    }
    // An older token format does not name its list.
    let [limit, number] = [2_u16, 1].map(u16::to_le_bytes);
    let revision = 7_i64.to_le_bytes();
    for last in ["u2.service", "m2", ""] {
        let parts = [&limit[..], &number, &revision, last.as_bytes()];
        let token = cluster::api::page::encode(&parts.concat());
        for of in lists {
            assert_eq!(ask(of, &token).fault(), (400, words.to_string()), "{last} at {of}");
        }
    }
}

#[tokio::test]
async fn list_started_at_one_daemon_continues_at_another() {
    let (store, keys) = (Store::memory(), Keys::under("/f"));
    let caches = [(); 2].map(|()| EtcdCache::start(store.clone(), keys.clone()).0);
    for number in 1..=5 {
        let name = UnitName::new(&format!("u{number}.service")).unwrap();
        let file = UnitFile::parse(HELLO).unwrap();
        let make = |snapshot: &cluster::snapshot::Snapshot| {
            Ok::<_, ()>(Some(registry::create(snapshot, &name, &file, Desired::Inactive)))
        };
        let made = caches[0].write(make).await.unwrap();
        for cache in &caches {
            assert!(cache.reached(made, Duration::from_secs(30)).await);
        }
    }
    let settings = || Settings { token_limit: 3, ..Settings::default() };
    let [one, other] = caches.map(|cache| ApiState::new(cache, settings()));
    let list = async |api: &ApiState, query: String| {
        let (method, path) = ("GET".to_string(), "/fleet/v1/units".to_string());
        let caller = Caller::local();
        let request = Request { method, path, query, caller, ..Request::default() };
        let answer = api.answer(&request).await;
        page(&serde_json::from_slice(&answer.body).unwrap())
    };
    let (first, next) = list(&one, String::new()).await;
    assert_eq!(first, units(&[1, 2, 3]));
    let rest = list(&other, format!("nextPageToken={next}")).await;
    assert_eq!(rest, (units(&[4, 5]), String::new()));
}

#[test]
fn json_keys_are_case_insensitive_as_in_go() {
    let stand = Stand::new(Plan::of(&["m1"]));
    write(&stand, "a.service", HELLO);
    assert_eq!(code(&stand.fleetctl(&["submit", "a.service"])), 0);
    assert_eq!(
        stand.put("a.service", r#"{"Name":"a.service","DesiredState":"loaded"}"#).status,
        204
    );
    assert_eq!(stand.get("/fleet/v1/units/a.service").json()["desiredState"], "loaded");
}
