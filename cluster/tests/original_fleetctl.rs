//! fleetctl 1.0, unmodified, is served: each of its commands comes to its end, and every answer is
//! in the bytes that it reads. How it was recorded stands in `original`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where it is surprised"
)]

mod original;
mod stand;

use original::Original;
use stand::{Plan, Stand};

const SLEEP: &str = r#"[{"name":"ExecStart","section":"Service","value":"/bin/sleep 1000"}]"#;
const UNIT: &str = "hello@1.service";

#[test]
fn the_original_fleetctl_is_served_byte_for_byte() {
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
    for told in [&missing, &made] {
        assert!(told.head.contains("\r\nx-content-type-options: nosniff\r\n"), "{}", told.head);
        assert!(told.head.contains("\r\ncontent-security-policy: "), "{}", told.head);
        assert!(told.head.contains("sandbox"), "{}", told.head);
    }
    assert_eq!(
        fleetctl.unit(UNIT).body,
        format!(
            "{{\"currentState\":\"inactive\",\"desiredState\":\"inactive\",\
             \"name\":\"hello@1.service\",\"options\":{SLEEP}}}"
        )
    );
    let wished = fleetctl.wish(UNIT, "launched");
    assert_eq!((wished.status, wished.body.as_str()), (204, ""));
    assert!(!wished.head.contains("\r\ncontent-type:"), "{}", wished.head);
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
fn every_command_of_the_original_comes_to_its_end() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let mut fleetctl = Original::at(&stand.socket());
    fleetctl.submit(UNIT, SLEEP);
    assert!(!fleetctl.stop(UNIT), "what is inactive can not be stopped");
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
