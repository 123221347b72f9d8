//! Unmodified fleetctl 1.0 works: each command finishes, and every answer has the expected bytes.
//! `original` describes the recording.

use crate::original::Original;
use crate::stand::{Plan, Stand};
use cluster::api::server::Settings;

const SLEEP: &str = r#"[{"name":"ExecStart","section":"Service","value":"/bin/sleep 1000"}]"#;
const GLOBAL: &str = r#"{"name":"Global","section":"X-Fleet","value":"true"}"#;
const UNIT: &str = "hello@1.service";

#[test]
fn fleetctl_1_0_gets_the_expected_bytes() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let mut fleetctl = Original::at(&stand.socket());
    let missing = fleetctl.unit(UNIT);
    assert_eq!(missing.status, 404);
    assert_eq!(missing.body, r#"{"error":{"code":404,"message":"unit does not exist"}}"#);
    assert!(missing.head.contains("\r\ncontent-type: application/json\r\n"));
    let made = fleetctl.create(UNIT, SLEEP);
    assert_eq!((made.status, made.body.as_str()), (201, ""));
    assert!(!made.head.contains("\r\ncontent-type:"), "{}", made.head);
    assert!(made.head.contains("\r\ncontent-length: 0\r\n"), "{}", made.head);
    assert!(made.head.contains("\r\nserver: fleetd/v"), "{}", made.head);
    for reply in [&missing, &made] {
        assert!(reply.head.contains("\r\nx-content-type-options: nosniff\r\n"), "{}", reply.head);
        assert!(reply.head.contains("\r\ncontent-security-policy: "), "{}", reply.head);
        assert!(reply.head.contains("sandbox"), "{}", reply.head);
    }
    assert_eq!(
        fleetctl.unit(UNIT).body,
        format!(
            "{{\"currentState\":\"inactive\",\"desiredState\":\"inactive\",\
             \"name\":\"hello@1.service\",\"options\":{SLEEP}}}"
        )
    );
    let reply = fleetctl.wish(UNIT, "launched");
    assert_eq!((reply.status, reply.body.as_str()), (204, ""));
    assert!(!reply.head.contains("\r\ncontent-type:"), "{}", reply.head);
    fleetctl.start(UNIT);
    let state = "{\"hash\":\"2d432f4a06608c1a8b2848b66c836793a1d48ce6\",\"machineID\":\"m1\",\
                 \"name\":\"hello@1.service\",\"systemdActiveState\":\"active\",\
                 \"systemdLoadState\":\"loaded\",\"systemdSubState\":\"running\"}";
    assert_eq!(fleetctl.get("state/hello%401.service").body, state);
    // list-units, list-unit-files, list-machines.
    assert_eq!(fleetctl.get("state").body, format!("{{\"states\":[{state}]}}"));
    assert_eq!(
        fleetctl.get("units").body,
        format!(
            "{{\"units\":[{{\"currentState\":\"launched\",\"desiredState\":\"launched\",\
             \"machineID\":\"m1\",\"name\":\"hello@1.service\",\"options\":{SLEEP}}}]}}"
        )
    );
    let machines = r#"{"machines":[{"id":"m1","primaryIP":"127.0.0.1"}]}"#;
    assert_eq!(fleetctl.get("machines").body, machines);
}

#[test]
fn every_command_of_fleetctl_1_0_completes() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let mut fleetctl = Original::at(&stand.socket());
    fleetctl.submit(UNIT, SLEEP);
    assert!(!fleetctl.stop(UNIT), "an inactive unit cannot be stopped");
    fleetctl.load(UNIT);
    fleetctl.start(UNIT);
    fleetctl.restart(UNIT);
    assert!(fleetctl.stop(UNIT));
    assert!(fleetctl.stop(UNIT), "nothing is left to do");
    fleetctl.restart(UNIT);
    fleetctl.load(UNIT);
    fleetctl.start(UNIT);
    fleetctl.unload(UNIT);
    fleetctl.restart(UNIT);
    fleetctl.start(UNIT);
    fleetctl.destroy(UNIT);
    assert_eq!(fleetctl.get("units").body, "{}");
    assert_eq!(fleetctl.get("state").body, "{}");
}

#[test]
fn fleetctl_1_0_works_on_existing_units() {
    let stand = Stand::new(Plan::of(&["m1", "m2"]));
    let mut fleetctl = Original::at(&stand.socket());
    fleetctl.submit("hello@.service", SLEEP);
    fleetctl.submit_instance(UNIT, "hello@.service");
    assert_eq!(fleetctl.submit_again(UNIT).to_string(), SLEEP);
    fleetctl.start(UNIT);
    fleetctl.start_again(UNIT);
    let other = SLEEP.replace("1000", "2000");
    fleetctl.replace(UNIT, &other);
    let there = fleetctl.look_at(UNIT);
    assert_eq!((there["options"].to_string(), &there["machineID"]), (other, &"m1".into()));
    assert_eq!(fleetctl.submit_again("hello@.service").to_string(), SLEEP, "its template stays");
    let options = format!("{},{GLOBAL}]", SLEEP.trim_end_matches(']'));
    fleetctl.start_global("all.service", &options);
    stand.until("it is on both machines", |stand| {
        let states = stand.get("/fleet/v1/state?unitName=all.service").json();
        states["states"].as_array().is_some_and(|states| states.len() == 2)
    });
    assert_eq!(fleetctl.look_at("all.service")["machineID"], serde_json::Value::Null);
    for unit in [UNIT, "hello@.service", "all.service"] {
        fleetctl.destroy_and_go(unit);
        assert_eq!(fleetctl.unit(unit).status, 404, "it is gone when that is answered");
    }
}

#[test]
fn fleetctl_1_0_reads_lists_of_several_pages() {
    let settings = Settings { token_limit: 2, ..Settings::default() };
    let stand = Stand::new(Plan { settings, ..Plan::of(&["m1", "m2", "m3"]) });
    let mut fleetctl = Original::at(&stand.socket());
    let names: Vec<String> = (1..=5).map(|n| format!("hello@{n}.service")).collect();
    for name in &names {
        fleetctl.submit(name, SLEEP);
        fleetctl.start(name);
    }
    let named = |key: &str, (items, pages): (Vec<serde_json::Value>, usize)| {
        let names = items.iter().map(|item| item[key].as_str().unwrap().to_string());
        (names.collect::<Vec<_>>(), pages)
    };
    assert_eq!(named("name", fleetctl.list("units")), (names.clone(), 3));
    assert_eq!(named("name", fleetctl.list("state")), (names.clone(), 3));
    let machines = ["m1", "m2", "m3"].map(str::to_string).to_vec();
    assert_eq!(named("id", fleetctl.list("machines")), (machines, 2));
    assert!(fleetctl.stop(&names[4]), "it is found on the last page");
}
