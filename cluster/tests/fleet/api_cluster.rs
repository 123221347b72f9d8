//! API v1 with the cluster behind it: machines, metadata, draining, reasons, outages of the
//! registry, and event streams.

use crate::stand::{Plan, Stand, code, stderr};
use cluster::record::{ClusterRecord, encode};
use cluster::transaction::{Operation, Transaction};

const SLEEP: &str = r#"[{"name":"ExecStart","section":"Service","value":"/bin/sleep 1000"}]"#;

fn body(options: Option<&str>, desired: Option<&str>) -> String {
    let mut fields = Vec::new();
    fields.extend(desired.map(|desired| format!("\"desiredState\":\"{desired}\"")));
    fields.extend(options.map(|options| format!("\"options\":{options}")));
    format!("{{{}}}", fields.join(","))
}

#[test]
fn patched_metadata_overrides_that_of_the_machine() {
    let plan =
        Plan { machines: vec![("m1", vec![("region", "eu"), ("disk", "ssd")])], ..Plan::default() };
    let stand = Stand::new(plan);
    let patch = |body: &str| stand.ask("PATCH", "/fleet/v1/machines", Some(body));
    let metadata = || stand.get("/fleet/v1/machines").json()["machines"][0]["metadata"].clone();
    let reply = patch(
        r#"[{"op":"add","path":"/m1/metadata/rack","value":{"value":"7"}},
            {"op":"replace","path":"/m1/metadata/region","value":{"value":"us"}},
            {"op":"remove","path":"/m1/metadata/disk"}]"#,
    );
    assert_eq!(reply.status, 204);
    assert_eq!(reply.headers["content-type"], "application/json");
    assert_eq!(metadata(), serde_json::json!({"rack": "7", "region": "us"}));
    // Like Go's JSON decoder, ignores the case of keys.
    let cased = patch(r#"[{"Op":"add","PATH":"/m1/metadata/row","Value":{"VALUE":"3"}}]"#);
    assert_eq!((cased.status, &metadata()["row"]), (204, &serde_json::json!("3")));
    assert_eq!(patch(r#"[{"op":"remove","path":"/m1/metadata/row"}]"#).status, 204);
    let table = [
        (
            r#"[{"op":"noop","path":"/m1/metadata/a","value":{"value":"1"}}]"#,
            "invalid op: expect add, remove, or replace",
        ),
        (r#"[{"op":"add","path":"/m1/a","value":{"value":"1"}}]"#, "machine metadata path invalid"),
        (
            r#"[{"op":"add","path":"/m1/metadata/a b","value":{"value":"1"}}]"#,
            "machine metadata path invalid",
        ),
        (
            r#"[{"op":"add","path":"/m1/metadata/a"}]"#,
            "invalid value: add and replace require a value",
        ),
        (
            r#"[{"op":"add","path":"/m1/metadata/good","value":{"value":"1"}},{"op":"bad"}]"#,
            "invalid op: expect add, remove, or replace",
        ),
        ("", "EOF"),
        ("[", "unexpected EOF"),
    ];
    for (body, words) in table {
        assert_eq!(patch(body).fault(), (400, words.to_string()), "{body}");
    }
    assert_eq!(patch(r#"[{"op":"add","path":"/m1/metadata/a","value":"bar"}]"#).status, 400);
    assert_eq!(metadata(), serde_json::json!({"rack": "7", "region": "us"}), "all or nothing");
    for nothing in ["[]", "null"] {
        assert_eq!(patch(nothing).status, 204);
    }
}

#[test]
fn api_and_fleetctl_explain_a_rejected_etcd_and_the_remedy() {
    let stand = Stand::new(Plan::of(&["m1"]));
    stand.put("a.service", &body(Some(SLEEP), None));
    let key = stand.keys.of(&cluster::key::Subject::Cluster);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let record = encode(&ClusterRecord { id: "c1".to_string() });
    let named = Transaction::default().put(key, record);
    runtime.block_on(stand.store.commit(&named)).unwrap();
    // The answer to this write includes the one before it.
    assert_eq!(stand.put("b.service", &body(Some(SLEEP), None)).status, 201);
    let wipe = Transaction {
        operations: vec![Operation::DeletePrefix(stand.keys.root().to_string())],
        ..Transaction::default()
    };
    runtime.block_on(stand.store.commit(&wipe)).unwrap();
    let words = "remove the file `cluster` in fleetd's runtime directory";
    stand.until("/healthz names the remedy", |stand| stand.get("/healthz").body.contains(words));
    for path in ["/healthz", "/fleet/v1/why/a.service", "/fleet/v1/units", "/fleet/v1/events"] {
        let (status, message) = stand.get(path).fault();
        assert!(status == 503 && message.contains(words), "{path}: {message}");
    }
    let why = stand.fleetctl(&["why", "a"]);
    assert!(code(&why) == 1 && stderr(&why).contains(words), "{}", stderr(&why));
}

#[test]
fn unavailable_registry_is_reported_until_it_answers_again() {
    let stand = Stand::new(Plan::of(&["m1"]));
    stand.put("a.service", &body(Some(SLEEP), None));
    stand.store.set_reachable(false);
    stand.until("503", |stand| stand.get("/healthz").status == 503);
    for path in ["/fleet/v1/units", "/fleet/v1/state", "/fleet/v1/discovery", "/", "/bogus"] {
        let reply = stand.get(path);
        let words = "fleet server unable to communicate with etcd".to_string();
        assert_eq!(reply.fault(), (503, words), "{path}");
        assert_eq!(reply.headers["retry-after"], "1");
    }
    assert!(stand.get("/metrics").body.contains("fleet_registry_up 0"));
    stand.store.set_reachable(true);
    stand.until("200", |stand| stand.get("/fleet/v1/units/a.service").status == 200);
    assert_eq!(stand.get("/healthz").body, r#"{"status":"ok"}"#);
    let metrics = stand.get("/metrics");
    assert!(metrics.body.contains("fleet_units 1") && metrics.body.contains("fleet_machines 1"));
}

#[test]
fn why_names_the_place_or_each_machines_reason() {
    let stand = Stand::new(Plan::of(&["m1", "m2"]));
    let options = r#"[{"name":"MachineMetadata","section":"X-Fleet","value":"disk=ssd"}]"#;
    stand.put("a.service", &body(Some(options), Some("launched")));
    let why = || stand.get("/fleet/v1/why/a.service").json();
    stand.until("a reason", |_| why()["unplaceable"] == true);
    assert_eq!(why()["text"], "no machine of 2 can have it");
    assert_eq!(why()["machines"]["m1"], "its metadata has no disk=ssd");
    let add = r#"[{"op":"add","path":"/m2/metadata/disk","value":{"value":"ssd"}}]"#;
    assert_eq!(stand.ask("PATCH", "/fleet/v1/machines", Some(add)).status, 204);
    stand.until("placed", |_| why()["machineID"] == "m2");
    assert_eq!(why()["unplaceable"], false);
    assert_eq!(stand.get("/fleet/v1/why/none.service").status, 404);
}

#[test]
fn start_of_a_conflicting_global_unit_names_machines_and_conflict() {
    let stand = Stand::new(Plan::of(&["m1", "m2"]));
    let launched = |own: &str, options: &str| {
        let file = format!("[Service]\nExecStart=/bin/true\n\n[X-Fleet]\nGlobal=true\n{options}");
        std::fs::write(stand.folder.join(own), file).unwrap();
        stand.fleetctl(&["start", stand.folder.join(own).to_str().unwrap()])
    };
    launched("logger.service", "");
    let started = launched("app.service", "Conflicts=logger.service\n");
    assert!(started.status.success(), "{started:?}");
    let printed = String::from_utf8_lossy(&started.stderr).into_owned();
    for line in [
        "Unit app.service cannot run on 2 machines: it is global: active on 0 of 2 machines, cannot run on 2",
        "m1: logger.service is on it (Conflicts=logger.service)",
        "m2: logger.service is on it (Conflicts=logger.service)",
    ] {
        assert!(printed.contains(line), "{line:?} in {printed}");
    }
    let why = stand.get("/fleet/v1/why/app.service").json();
    assert_eq!(why["refusals"], 2);
}

#[test]
fn why_of_a_global_unit_counts_active_and_failed_machines() {
    let stand = Stand::new(Plan { failing: true, ..Plan::of(&["m1", "m2"]) });
    let file = "[Service]\nExecStart=/bin/fails/g.service/m2\n\n[X-Fleet]\nGlobal=true\n";
    std::fs::write(stand.folder.join("g.service"), file).unwrap();
    stand.fleetctl(&["start", stand.folder.join("g.service").to_str().unwrap()]);
    let why = || stand.get("/fleet/v1/why/g.service").json();
    let text = "it is global: active on 1 of 2 machines, failed on 1";
    stand.until("states", |_| why()["text"] == text);
    assert_eq!(why()["machines"]["m2"], "failed (failed)");
    assert_eq!(why()["machines"].as_object().unwrap().len(), 1);
}

#[test]
fn drained_machine_loses_its_units_and_takes_units_after_undrain() {
    let stand = Stand::new(Plan::of(&["m1", "m2"]));
    stand.put("a.service", &body(Some(SLEEP), Some("launched")));
    let place = |stand: &Stand| stand.get("/fleet/v1/units/a.service").json()["machineID"].clone();
    stand.until("on m1", |stand| place(stand) == "m1");
    assert_eq!(stand.ask("PUT", "/fleet/v1/drain/m1", None).status, 204);
    stand.until("on m2", |stand| place(stand) == "m2");
    assert!(stand.get("/fleet/v1/machines").body.contains("\"draining\":true"));
    assert_eq!(stand.ask("DELETE", "/fleet/v1/drain/m1", None).status, 204);
    assert!(!stand.get("/fleet/v1/machines").body.contains("draining"));
    assert_eq!(stand.ask("PUT", "/fleet/v1/drain/m9", None).status, 404);
}

#[test]
fn ui_page_and_event_stream_are_served() {
    use std::io::{BufRead, BufReader, Write};
    let stand = Stand::new(Plan::of(&["m1"]));
    let page = stand.get("/ui");
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(page.headers["x-content-type-options"], "nosniff");
    assert!(page.headers["content-security-policy"].contains("script-src"));
    assert!(page.body.contains("EventSource"));
    let mut stream = stand.connect();
    stream.write_all(b"GET /fleet/v1/events HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut next = |part: &str| lines.find(|line| line.as_ref().unwrap().contains(part)).is_some();
    assert!(next("\"kind\":\"resync\""));
    stand.put("a.service", &body(Some(SLEEP), Some("launched")));
    assert!(next("\"text\":\"loaded/active/running\""));
}
