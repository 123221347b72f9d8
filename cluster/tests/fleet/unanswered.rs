//! fleetctl with lost answers and unavailable servers: requests and their effects stay.

use crate::proxy::{first, hears, put_at, spawn, through_proxy};
use crate::stand::{HELLO, Plan, Stand, code, stderr, stdout, write};
use cluster::unit_file::UnitFile;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

#[test]
fn unit_is_created_although_the_answer_was_lost() {
    let stand = Stand::new(Plan::of(&["m1"]));
    write(&stand, "a.service", HELLO);
    let way = through_proxy(&stand, first("PUT"));
    let made = stand.fleetctl(&[&way, "submit", "a.service"]);
    assert_eq!((code(&made), stderr(&made)), (0, String::new()));
}

#[test]
fn start_keeps_waiting_through_a_short_etcd_outage() {
    let stand = Stand::new(Plan::of(&["m1"]));
    write(&stand, "a.service", &format!("{HELLO}\n[X-Fleet]\nMachineOf=b.service\n"));
    write(&stand, "b.service", HELLO);
    let mut starts = spawn(&stand, &["start", "--block-attempts=60", "a.service"]);
    stand.until("its desired state is stored", |stand| {
        stdout(&stand.fleetctl(&["list-unit-files", "--no-legend", "--fields=dstate"]))
            == "launched\n"
    });
    stand.store.set_reachable(false);
    hears(&mut BufReader::new(starts.stderr.as_mut().unwrap()), "still waiting");
    stand.store.set_reachable(true);
    stand.until("it can be started", |stand| code(&stand.fleetctl(&["start", "b.service"])) == 0);
    let started = starts.wait_with_output().unwrap();
    assert_eq!(code(&started), 0);
    assert!(stdout(&started).contains("a.service launched"), "{}", stdout(&started));
}

#[test]
fn restart_continues_to_the_start_after_an_etcd_outage() {
    let stand = Stand::new(Plan::of(&["m1"]));
    write(&stand, "a.service", HELLO);
    assert_eq!(code(&stand.fleetctl(&["start", "a.service"])), 0);
    let (store, mut is_down) = (stand.store.clone(), false);
    let way = through_proxy(&stand, move |asked| {
        if asked.starts_with("PUT") && asked.contains("launched") && !is_down {
            is_down = true;
            store.set_reachable(false);
        }
        false
    });
    let mut restarts = spawn(&stand, &[&way, "restart", "a.service"]);
    hears(&mut BufReader::new(restarts.stderr.as_mut().unwrap()), "still waiting");
    stand.store.set_reachable(true);
    let restarted = restarts.wait_with_output().unwrap();
    assert_eq!(code(&restarted), 0);
    assert!(stdout(&restarted).contains("a.service launched"), "{}", stdout(&restarted));
}

fn desired_states(stand: &Stand) -> String {
    stdout(&stand.fleetctl(&["list-unit-files", "--no-legend", "--fields=unit,dstate"]))
}

#[test]
fn restart_that_cannot_observe_the_stop_leaves_no_unit_down() {
    let stand = Stand::new(Plan::of(&["m1"]));
    write(&stand, "a.service", HELLO);
    write(&stand, "b.service", HELLO);
    assert_eq!(code(&stand.fleetctl(&["start", "a.service", "b.service"])), 0);
    let (mut is_down, mut is_up) = (false, false);
    let way = through_proxy(&stand, move |asked| {
        is_down |= asked.starts_with("PUT") && asked.contains("loaded");
        is_up |= asked.starts_with("PUT") && asked.contains("launched");
        // No poll observes that the first unit stops.
        is_down && !is_up && asked.starts_with("GET")
    });
    let words = [&way, "restart", "--block-attempts=1", "a.service", "b.service"];
    let restarted = stand.fleetctl(&words);
    assert_eq!(code(&restarted), 1);
    assert!(stderr(&restarted).contains("timed out waiting for unit a.service"));
    // fleetctl restarts the other unit anyway.
    assert!(stdout(&restarted).contains("b.service launched"), "{}", stdout(&restarted));
    assert_eq!(desired_states(&stand), "a.service\tlaunched\nb.service\tlaunched\n");
}

#[test]
fn restart_of_an_unplaceable_unit_names_the_reason_and_keeps_it_launched() {
    let stand = Stand::new(Plan::of(&["m1"]));
    write(&stand, "a.service", &format!("{HELLO}\n[X-Fleet]\nMachineID=nope\n"));
    assert_eq!(code(&stand.fleetctl(&["start", "--no-block", "a.service"])), 0);
    let restarted = stand.fleetctl(&["restart", "a.service"]);
    assert_eq!(code(&restarted), 1);
    assert!(stderr(&restarted).contains("cannot be placed"), "{}", stderr(&restarted));
    assert_eq!(desired_states(&stand), "a.service\tlaunched\n");
}

#[test]
fn watched_list_with_json_prints_json() {
    let stand = Stand::new(Plan::of(&["m1"]));
    write(&stand, "a.service", HELLO);
    assert_eq!(code(&stand.fleetctl(&["start", "a.service"])), 0);
    let mut watches = spawn(&stand, &["--json", "list-units", "--watch"]);
    let mut printed = BufReader::new(watches.stdout.as_mut().unwrap());
    let mut next = || -> serde_json::Value {
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    };
    assert_eq!(next()[0]["systemdActiveState"], "active");
    assert_eq!(code(&stand.fleetctl(&["stop", "a.service"])), 0);
    while next()[0]["systemdActiveState"] != "inactive" {}
    watches.kill().unwrap();
    watches.wait().unwrap();
}

/// Waits until a server reports that etcd does not answer.
fn is_without_etcd(socket: &Path) {
    let mut answer = [0; 12];
    while answer != *b"HTTP/1.1 503" {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(b"GET /fleet/v1/state HTTP/1.1\r\nHost: domain-sock\r\n\r\n").unwrap();
        stream.read_exact(&mut answer).unwrap();
    }
}

#[test]
fn watched_list_continues_after_a_short_etcd_outage() {
    for path in ["GET /fleet/v1/events", "GET /fleet/v1/state"] {
        let stand = Stand::new(Plan::of(&["m1"]));
        write(&stand, "a.service", HELLO);
        assert_eq!(code(&stand.fleetctl(&["start", "a.service"])), 0);
        let (store, socket, mut asked_first) = (stand.store.clone(), stand.socket(), first(path));
        let way = through_proxy(&stand, move |asked| {
            if asked_first(asked) {
                store.set_reachable(false);
                is_without_etcd(&socket);
            }
            false
        });
        let mut watches = spawn(&stand, &[&way, "--json", "list-units", "--watch"]);
        hears(&mut BufReader::new(watches.stderr.as_mut().unwrap()), "still waiting");
        stand.store.set_reachable(true);
        hears(&mut BufReader::new(watches.stdout.as_mut().unwrap()), "\"active\"");
        watches.kill().unwrap();
        watches.wait().unwrap();
    }
}

#[test]
fn unit_recreated_during_its_destruction_is_not_waited_for() {
    for number in ["1000", "2000"] {
        let stand = Stand::new(Plan::of(&["m1"]));
        write(&stand, "a.service", HELLO);
        assert_eq!(code(&stand.fleetctl(&["start", "a.service"])), 0);
        let options = UnitFile::parse(&HELLO.replace("1000", number)).unwrap().options;
        let put = serde_json::json!({ "options": options, "desiredState": "loaded" });
        let (socket, mut is_gone, mut is_done) = (stand.socket(), false, false);
        let way = through_proxy(&stand, move |asked| {
            if is_gone && !std::mem::replace(&mut is_done, true) {
                put_at(&socket, "a.service", &put.to_string());
            }
            is_gone |= asked.starts_with("DELETE");
            false
        });
        let destroyed = stand.fleetctl(&[&way, "destroy", "--block-attempts=5", "a.service"]);
        assert_eq!((code(&destroyed), stderr(&destroyed)), (0, String::new()));
        let printed = stdout(&destroyed);
        assert_eq!(printed, "Destroyed a.service; a new unit has the same name\n");
        assert_eq!(desired_states(&stand), "a.service\tloaded\n");
    }
}
