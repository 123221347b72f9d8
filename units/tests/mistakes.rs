//! Reloads with mistakes in files whose units are up: whether the machine accepts the new set.
//! `unit_set.rs` tests the diagnostics.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod memory;

use groundstate_units::machine::Machine;
use groundstate_units::machine::event::Event;
use groundstate_units::text::time::Time;
use memory::Memory;
use std::sync::Arc;
use std::time::Duration;

const UNITS: &str = "/etc/groundstate/units";
const NATIVE: &str = "unit: web\nexec-start: /bin/x\nwanted-by: multi-user\n";
const IMPORTED: &str = "[Service]\nExecStart=/bin/x\n[Install]\nWantedBy=multi-user.target\n";
const UNWANTED: &str = "[Service]\nExecStart=/bin/x\n";

/// Boots the first set and reloads the second. Returns whether the reload is refused, and the units
/// that are needed afterwards.
fn reload(before: &Memory, after: &Memory) -> (bool, Vec<String>) {
    let first = before.load(None);
    let mut machine = Machine::new(Duration::from_secs(90));
    let generation = Arc::new(first.generation);
    machine
        .step(Time::default(), Event::Boot { generation: generation.clone(), targets: Vec::new() });
    let loaded = after.load(Some(&generation));
    let next = Arc::new(loaded.generation);
    let event = Event::Reload { generation: next, no_restart: false, tolerant: false };
    let refused = loaded.refused || machine.step(Time::default(), event).refused.is_some();
    let generation = machine.generation().clone();
    let needed = generation.unit_ids().filter(|id| machine.is_needed(*id));
    let names = needed.map(|id| generation.unit(id).unwrap().name.to_string());
    (refused, names.collect())
}

fn set(file: &str, text: &[u8]) -> Memory {
    let mut memory = Memory::new(&[]);
    memory.put(&format!("{UNITS}/goal.yaml"), "unit: multi-user\n");
    memory.put(&format!("{UNITS}/{file}"), text);
    memory
}

#[track_caller]
fn refuses(file: &str, good: &str, bad: &[u8]) {
    let before = set(file, good.as_bytes());
    let mut after = set(file, good.as_bytes());
    after.put(&format!("{UNITS}/{file}"), bad);
    let (refused, needed) = reload(&before, &after);
    let said = String::from_utf8_lossy(bad);
    assert!(refused, "{said:?} was taken");
    assert_eq!(needed.len(), 2, "{said:?}: {needed:?}");
}

#[test]
fn error_in_a_unit_wanted_by_the_goal_refuses_the_reload() {
    for bad in [
        "unit: web\nexec-strat: /bin/x\nwanted-by: multi-user\n",
        "unit: web\ntype: foo\nexec-start: /bin/x\nwanted-by: multi-user\n",
        // The loader does not read past the mistake, so the keys after it do not count as removed.
        "unit: web\nexec-start: [\nwanted-by: multi-user\n",
        "unit: web\nexec-start: /bin/x\n wanted-by: multi-user\n",
        "unit: web\nexec-start: /bin/x\numask: 9\n",
    ] {
        refuses("web.yaml", NATIVE, bad.as_bytes());
    }
    for bad in [
        &b"[Unit]\nDescription=caf\xe9\n[Service]\nExecStart=/bin/x\n"[..],
        b"[Service]\nType=foo\nExecStart=/bin/x\n[Install]\nWantedBy=multi-user.target\n",
        b"[Service]\nExecStart=/bin/\0x\n[Install]\nWantedBy=multi-user.target\n",
    ] {
        refuses("web.service", IMPORTED, bad);
    }
}

#[test]
fn error_in_a_unit_enabled_by_a_link_refuses_the_reload() {
    let mut before = set("web.service", UNWANTED.as_bytes());
    let link = format!("{UNITS}/multi-user.target.wants/web.service");
    before.link(&link, &format!("{UNITS}/web.service"));
    let mut after = set("web.service", UNWANTED.as_bytes());
    after.put(&format!("{UNITS}/web.service"), "[Service]\nExecStart=/bin/\0x\n");
    after.link(&link, &format!("{UNITS}/web.service"));
    let (refused, needed) = reload(&before, &after);
    assert!(refused);
    assert_eq!(needed, ["multi-user", "web.service"]);
}

#[test]
fn error_in_an_unwanted_unit_breaks_only_that_unit() {
    for (file, good, bad) in [
        ("web.yaml", "unit: web\nexec-start: /bin/x\n", "unit: web\nexec-strat: /bin/x\n"),
        ("web.service", UNWANTED, "[Service]\nExecStart=/bin/\0x\n"),
    ] {
        let before = set(file, good.as_bytes());
        let mut after = set(file, good.as_bytes());
        after.put(&format!("{UNITS}/{file}"), bad);
        assert_eq!(reload(&before, &after), (false, vec!["multi-user".to_string()]), "{file}");
    }
}

#[test]
fn broken_imported_unit_keeps_its_short_name() {
    let mut memory = set("web.service", b"[Service]\nExecStart=/bin/\0x\n");
    memory.put(&format!("{UNITS}/goal.yaml"), "unit: multi-user\ndepends-on: web\n");
    let loaded = memory.load(None);
    let codes: Vec<&str> = loaded.generation.diagnostics.iter().map(|d| d.code.as_str()).collect();
    assert!(!codes.contains(&"missing-target"), "{codes:?}");
}

#[test]
fn drop_in_linked_to_dev_null_hides_drop_ins_of_its_name() {
    let mut memory = set("web.service", UNWANTED.as_bytes());
    let lib = "/usr/lib/groundstate/units/web.service.d";
    memory.put(&format!("{lib}/10-more.conf"), "[Service]\nType=nonsense\n");
    let fault = |memory: &Memory| memory.load(None).generation.units[1].fault.clone();
    assert!(fault(&memory).is_some(), "the drop-in counts");
    let mask = format!("{UNITS}/web.service.d/10-more.conf");
    memory.link(&mask, "/dev/null");
    assert_eq!(fault(&memory), None);
}

#[test]
fn unit_name_in_place_of_a_target_is_reported_with_the_target() {
    let mut memory = set("web.yaml", b"unit: web\nprovides: http, https\nexec-start: /bin/x\n");
    memory.put(&format!("{UNITS}/goal.yaml"), "unit: multi-user\ndepends-on: web\n");
    let loaded = memory.load(None);
    let hints: Vec<&str> = loaded.generation.diagnostics.iter().map(|d| d.hint.as_str()).collect();
    assert!(hints.contains(&"`web` is a unit; write its target `http`"), "{hints:?}");
}
