//! stop, unload and destroy: the real binary against the real API. Other commands are in
//! `fleetctl.rs`.

use crate::stand::{HELLO, Plan, Stand, code, stderr, stdout, write};

#[test]
fn stop_and_destroy_report_exactly_the_affected_units() {
    let stand = Stand::new(Plan::of(&["m1"]));
    write(&stand, "a.service", HELLO);
    write(&stand, "all.service", &format!("{HELLO}[X-Fleet]\nGlobal=true\n"));
    assert_eq!(code(&stand.fleetctl(&["load", "a", "all"])), 0);
    let run = |words: &str| {
        let output = stand.fleetctl(&words.split(' ').collect::<Vec<_>>());
        (code(&output), stdout(&output), stderr(&output))
    };
    let stopped = |out: &str, names: &str| {
        (0, out.to_string(), format!("Successfully stopped units [{names}].\n"))
    };
    assert_eq!(run("stop a all"), stopped("Triggered global unit all.service stop\n", ""));
    assert_eq!(code(&stand.fleetctl(&["start", "a"])), 0);
    let triggered = stopped("Triggered unit a.service stop\n", "a.service");
    let absent = "Unit none.service does not exist.\n";
    let triggered = (triggered.0, triggered.1, format!("{absent}{}", triggered.2));
    assert_eq!(run("stop --no-block a none"), triggered);
    let destroyed = (0, "Destroyed a.service\n".to_string(), absent.to_string());
    assert_eq!(run("destroy none a"), destroyed);
}

#[test]
fn stop_and_restart_of_an_inactive_unit_fail() {
    let stand = Stand::new(Plan::of(&["m1"]));
    write(&stand, "ssd.service", &format!("{HELLO}[X-Fleet]\nMachineMetadata=disk=ssd\n"));
    write(&stand, "new.service", HELLO);
    assert_eq!(code(&stand.fleetctl(&["start", "--no-block", "ssd"])), 0);
    let stopped = stand.fleetctl(&["stop", "ssd"]);
    let words = "Unable to stop unit ssd.service in state inactive\n";
    assert_eq!((code(&stopped), stderr(&stopped)), (1, words.to_string()));
    assert_eq!(code(&stand.fleetctl(&["unload", "ssd"])), 0, "the request can be withdrawn");
    // A missing unit is submitted, and nothing else.
    let restarted = stand.fleetctl(&["restart", "new"]);
    let words = "Unable to restart unit new.service in state inactive\n";
    assert_eq!((code(&restarted), stderr(&restarted)), (0, words.to_string()));
    assert_eq!(stdout(&restarted), "Unit new.service inactive\n");
    assert_eq!(stdout(&stand.fleetctl(&["cat", "new"])), HELLO);
}
