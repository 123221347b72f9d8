//! Units on three machines of a stand, for tests of `fleetctl rollout`.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use crate::stand::{HELLO, Plan, Stand, code, stdout, write};

/// A global unit.
pub(crate) fn everywhere() -> String {
    format!("{HELLO}\n[X-Fleet]\nGlobal=true\n")
}

/// The same file, which fails everywhere.
pub(crate) fn bad(text: &str) -> String {
    text.replace("/bin/sleep 1000", "/bin/false")
}

/// The same file, which fails for one unit on one machine.
pub(crate) fn bad_for(text: &str, unit: &str, machine: &str) -> String {
    text.replace("/bin/sleep 1000", &format!("/bin/fails/{unit}/{machine}"))
}

/// Three machines without units.
pub(crate) fn three() -> Stand {
    Stand::new(Plan { failing: true, ..Plan::of(&["m1", "m2", "m3"]) })
}

/// Returns the file hash of each unit on each machine.
pub(crate) fn hashes(stand: &Stand) -> Vec<String> {
    let list = ["list-units", "--fields=unit,machine,hash", "--no-legend", "--full"];
    stdout(&stand.fleetctl(&list)).lines().map(str::to_string).collect()
}

/// Starts units of a file on three machines.
pub(crate) fn running(name: &str, text: &str, units: &[&str], count: usize) -> Stand {
    let stand = three();
    write(&stand, name, text);
    assert_eq!(code(&stand.fleetctl(&[&["start"], units].concat())), 0);
    stand.until("they are there", |stand| hashes(stand).len() == count);
    stand
}
