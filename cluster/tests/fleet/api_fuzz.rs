//! Random requests and stored values: the API answers without a 5xx of its own, and can read what
//! it wrote.

use crate::stand::{Plan, Reply, Stand};
use cluster::api::answer::{Answer, Outcome};
use cluster::api::caller::Caller;
use cluster::api::request::Request;
use cluster::api::route::decide;
use cluster::api::view::View;
use cluster::key::Keys;
use cluster::memory_store::MemoryStore;
use cluster::snapshot::Snapshot;
use cluster::transaction::{MOST_OPERATIONS, Transaction};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::io::Write;

fn keys() -> Keys {
    Keys::under("/test")
}

fn snapshot(store: &MemoryStore) -> Snapshot {
    Snapshot::of(keys(), &store.read(keys().root()))
}

/// The server's loop without a socket.
fn answer(store: &mut MemoryStore, request: &Request) -> Answer {
    let now = snapshot(store);
    match decide(request, &View { now: &now, then: None, limit: 3, insecure: false }) {
        Outcome::Answer(answer) => answer,
        Outcome::Write(transaction, answer) => {
            assert!(transaction.fits_in(MOST_OPERATIONS));
            assert!(store.commit(&transaction).is_some(), "it was made from the newest snapshot");
            answer
        }
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("a.service".to_string()),
        Just("b@.service".to_string()),
        Just("b%401.service".to_string()),
        "[ -~]{0,12}",
        "[a-c@.%2F]{1,6}(\\.service)?",
    ]
}

fn path() -> impl Strategy<Value = String> {
    let prefix = prop_oneof![Just("/fleet/v1"), Just("/v1-alpha"), Just("")];
    let kind = prop_oneof![
        Just("/units"),
        Just("/state"),
        Just("/machines"),
        Just("/discovery"),
        Just("/why"),
        Just("/drain"),
        Just("/logs"),
        Just("/"),
        Just("")
    ];
    let item = prop_oneof![Just(String::new()), name().prop_map(|name| format!("/{name}"))];
    (prefix, kind, item).prop_map(|(prefix, kind, item)| format!("{prefix}{kind}{item}"))
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let desired =
        prop_oneof![Just("launched"), Just("loaded"), Just("inactive"), Just(""), Just("flying")];
    let option = (
        "(Service|X-Fleet|[ -~]{0,4})",
        "(Global|Replaces|MachineOf|Conflicts|[ -~]{0,4})",
        "(true|a\\.\\*|\\[|[ -~\\n]{0,8})",
    );
    let unit = (desired, prop::collection::vec(option, 0..4)).prop_map(|(desired, options)| {
        let options: Vec<_> = options
            .into_iter()
            .map(|(section, name, value)| serde_json::json!({"section": section, "name": name, "value": value}))
            .collect();
        serde_json::to_vec(&serde_json::json!({"desiredState": desired, "options": options})).unwrap()
    });
    let patch =
        ("(add|remove|x)", "/(m1|[ -~]{0,3})/metadata/[a-z/]{0,3}").prop_map(|(op, path)| {
            serde_json::to_vec(
                &serde_json::json!([{"op": op, "path": path, "value": {"value": "v"}}]),
            )
            .unwrap()
        });
    prop_oneof![4 => unit, 1 => patch, 1 => prop::collection::vec(any::<u8>(), 0..40), 1 => "[\\[\\]{}\":,a0n]{0,20}".prop_map(String::into_bytes)]
}

fn request() -> impl Strategy<Value = Request> {
    let method = prop_oneof![
        Just("GET"),
        Just("PUT"),
        Just("DELETE"),
        Just("PATCH"),
        Just("POST"),
        "[A-Z]{1,6}".prop_map(|m| Box::leak(m.into_boxed_str()) as &str)
    ];
    let query =
        prop_oneof![Just(String::new()), "nextPageToken=[A-Za-z0-9_=-]{0,16}", "[ -~]{0,16}"];
    (method, path(), query, body()).prop_map(|(method, path, query, body)| Request {
        method: method.to_string(),
        path,
        query,
        content_types: vec!["application/json".to_string()],
        body,
        caller: Caller::local(),
        is_original: false,
    })
}

/// Existing keys with arbitrary values.
fn stored() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let key = prop_oneof![
        Just("unit/a.service"),
        Just("desired/a.service"),
        Just("place/a.service"),
        Just("why/a.service"),
        Just("machine/m1"),
        Just("metadata/m1/k"),
        Just("drain/m1"),
        Just("state/m1/a.service"),
        Just("schedule/m1/a.service"),
        Just("global/a.service"),
        Just("claim/m1/a.service"),
        Just("cluster"),
        Just("leader"),
        Just("unit/..."),
        Just("x/y")
    ];
    let value = prop_oneof![
        Just(br#"{"v":1,"options":[]}"#.to_vec()),
        Just(br#"{"v":1,"options":[{"section":"S","name":"N","value":"V"}]}"#.to_vec()),
        Just(br#"{"v":1,"desired":"launched"}"#.to_vec()),
        Just(br#"{"v":1,"machine":"m1"}"#.to_vec()),
        Just(br#"{"v":9}"#.to_vec()),
        Just(br#"{"v":1,"ip":"","metadata":{},"boot":"","instance":"","version":""}"#.to_vec()),
        Just(br#"{"v":1,"hash":"","load":"","active":"","sub":"","reached":"loaded"}"#.to_vec()),
        prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec((key.prop_map(|key| format!("/test/v3/{key}")), value), 0..12)
}

/// `CASES` from the environment, or the given number.
fn cases(few: u32) -> u32 {
    std::env::var("CASES").ok().and_then(|all| all.parse().ok()).unwrap_or(few)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(2_000)))]

    #[test]
    fn any_request_is_answered(stored in stored(), requests in prop::collection::vec(request(), 1..12)) {
        let mut store = MemoryStore::default();
        for (key, value) in stored {
            store.commit(&Transaction::default().put(key, value));
        }
        let before = snapshot(&store).set_aside.len();
        for request in &requests {
            let answer = answer(&mut store, request);
            prop_assert!(answer.status < 500, "{request:?}: {answer:?}");
            if answer.content_type == Some("application/json") && answer.status != 204 {
                prop_assert!(serde_json::from_slice::<serde_json::Value>(&answer.body).is_ok());
            }
        }
        prop_assert!(snapshot(&store).set_aside.len() <= before, "it wrote an unreadable value");
    }
}

#[test]
fn any_bytes_on_the_socket_leave_the_server_answering() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let mut runner = proptest::test_runner::TestRunner::default();
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..200),
        "(GET|PUT) /[ -~]{0,30} HTTP/1\\.1\r\n([A-Za-z-]{1,16}: [ -~]{0,20}\r\n){0,3}\r\n[ -~]{0,20}".prop_map(String::into_bytes),
    ];
    for _ in 0..cases(500).min(20_000) {
        let bytes = bytes.new_tree(&mut runner).unwrap().current();
        let mut stream = stand.connect();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        if let Some(reply) = Reply::read(&mut stream) {
            assert!(reply.status < 500, "{:?}: {reply:?}", String::from_utf8_lossy(&bytes));
        }
    }
    assert_eq!(stand.get("/healthz").status, 200);
}
