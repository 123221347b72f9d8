//! `fleetctl rollout` with concurrent changes: units are destroyed or stopped, or machines leave.
//! Setup as in `rollout.rs`.

use crate::proxy::{hears, override_metadata, put_at, spawn, through_proxy};
use crate::rolled::{bad, everywhere, hashes, running, three};
use crate::stand::{HELLO, Stand, code, fleetctl, stderr, stdout, write};
use cluster::machine::MachineId;
use cluster::snapshot::Snapshot;
use cluster::unit_file::UnitFile;
use std::collections::BTreeSet;
use std::io::BufReader;

fn desired_states(stand: &Stand) -> String {
    stdout(&stand.fleetctl(&["list-unit-files", "--no-legend", "--fields=unit,dstate"]))
}

#[test]
fn short_etcd_outage_does_not_roll_back_a_rollout_of_instances() {
    let stand = running("web@.service", HELLO, &["web@1", "web@2", "web@3"], 3);
    let (store, mut is_away) = (stand.store.clone(), false);
    let way = through_proxy(&stand, move |asked| {
        if asked.starts_with("PUT") && asked.contains("web@2") && !is_away {
            is_away = true;
            store.set_reachable(false);
        }
        false
    });
    write(&stand, "web@.service", &HELLO.replace("1000", "2000"));
    let mut rolls = spawn(&stand, &[&way, "rollout", "web@.service"]);
    hears(&mut BufReader::new(rolls.stderr.as_mut().unwrap()), "still waiting");
    stand.store.set_reachable(true);
    let rolled = rolls.wait_with_output().unwrap();
    assert_eq!((code(&rolled), stderr(&rolled)), (0, String::new()));
    assert!(stdout(&rolled).contains("Rolled out 3 units"), "{}", stdout(&rolled));
}

#[test]
fn short_etcd_outage_at_its_start_does_not_end_a_global_rollout() {
    let stand = running("all.service", &everywhere(), &["all"], 3);
    let (store, mut is_away) = (stand.store.clone(), false);
    let way = through_proxy(&stand, move |asked| {
        if asked.starts_with("PUT") && !std::mem::replace(&mut is_away, true) {
            store.set_reachable(false);
        }
        false
    });
    write(&stand, "all.service", &everywhere().replace("1000", "2000"));
    let mut rolls = spawn(&stand, &[&way, "rollout", "all.service"]);
    hears(&mut BufReader::new(rolls.stderr.as_mut().unwrap()), "still waiting");
    stand.store.set_reachable(true);
    let rolled = rolls.wait_with_output().unwrap();
    assert_eq!((code(&rolled), stderr(&rolled)), (0, String::new()));
}

#[test]
fn unit_destroyed_or_unloaded_during_a_rollout_stays_so() {
    let stand = running("web@.service", HELLO, &["web@1", "web@2", "web@3"], 3);
    let new = HELLO.replace("1000", "2000");
    write(&stand, "web@.service", &new);
    let endpoint = format!("unix://{}", stand.socket().display());
    let (folder, mut is_done) = (stand.folder.clone(), false);
    let way = through_proxy(&stand, move |asked| {
        if asked.starts_with("PUT") && asked.contains("web@1") && !is_done {
            is_done = true;
            for words in [["destroy", "web@2"], ["unload", "web@3"]] {
                assert_eq!(code(&fleetctl(&folder, &endpoint, &words)), 0);
            }
        }
        false
    });
    let rolled = stand.fleetctl(&[&way, "rollout", "web@.service"]);
    assert_eq!((code(&rolled), stderr(&rolled)), (0, String::new()));
    let printed = stdout(&rolled);
    assert!(printed.contains("Unit web@2.service was destroyed in the meantime"), "{printed}");
    assert!(printed.contains("Rolled out 2 units"), "{printed}");
    assert_eq!(desired_states(&stand), "web@1.service\tlaunched\nweb@3.service\tinactive\n");
    assert_eq!(stdout(&stand.fleetctl(&["cat", "web@3"])), new);
}

#[test]
fn file_put_by_another_client_during_a_rollout_is_not_overwritten() {
    let stand = running("web@.service", HELLO, &["web@1", "web@2"], 2);
    let other = HELLO.replace("1000", "3000");
    let options = UnitFile::parse(&other).unwrap().options;
    let put = serde_json::json!({ "options": options, "desiredState": "launched" });
    let (socket, mut is_put) = (stand.socket(), false);
    let way = through_proxy(&stand, move |asked| {
        if asked.starts_with("PUT") && !std::mem::replace(&mut is_put, true) {
            put_at(&socket, "web@2.service", &put.to_string());
        }
        false
    });
    write(&stand, "web@.service", &HELLO.replace("1000", "2000"));
    let rolled = stand.fleetctl(&[&way, "rollout", "web@.service"]);
    assert_eq!(code(&rolled), 1);
    assert!(stderr(&rolled).contains("the file of unit web@2.service has changed"));
    assert_eq!(stdout(&stand.fleetctl(&["cat", "web@2"])), other);
}

#[test]
fn rollback_does_not_launch_a_unit_unloaded_meanwhile() {
    let stand = running("web@.service", HELLO, &["web@1", "web@2"], 2);
    write(&stand, "web@.service", &bad(HELLO));
    let endpoint = format!("unix://{}", stand.socket().display());
    let (folder, mut is_put, mut is_done) = (stand.folder.clone(), false, false);
    let way = through_proxy(&stand, move |asked| {
        if is_put && !is_done && asked.starts_with("GET") {
            is_done = true;
            assert_eq!(code(&fleetctl(&folder, &endpoint, &["unload", "--no-block", "web@2"])), 0);
        }
        is_put |= asked.starts_with("PUT") && asked.contains("web@2");
        false
    });
    let rolled = stand.fleetctl(&[&way, "rollout", "--batch=2", "web@.service"]);
    assert_eq!(code(&rolled), 1);
    assert_eq!(stderr(&rolled).matches("restored the old file").count(), 2, "{}", stderr(&rolled));
    assert_eq!(desired_states(&stand), "web@1.service\tlaunched\nweb@2.service\tinactive\n");
    assert_eq!(stdout(&stand.fleetctl(&["cat", "web@2"])), HELLO);
}

/// Runs a command at the first GET of the rollout after its PUT with the text `put`.
fn meanwhile(stand: &Stand, put: &'static str, words: &'static [&'static str]) -> String {
    let endpoint = format!("unix://{}", stand.socket().display());
    let (folder, mut is_put, mut is_done) = (stand.folder.clone(), false, false);
    through_proxy(stand, move |asked| {
        if is_put && asked.starts_with("GET") && !std::mem::replace(&mut is_done, true) {
            let done = fleetctl(&folder, &endpoint, words);
            assert_eq!(code(&done), 0, "{}", stderr(&done));
        }
        is_put |= asked.starts_with("PUT") && asked.contains(put);
        false
    })
}

#[test]
fn unit_stopped_or_destroyed_during_the_wait_causes_no_rollback() {
    let names = ["web@1", "web@2", "web@3"];
    for (words, message, left) in [
        (
            ["unload", "web@1"].as_slice(),
            "was stopped in the meantime",
            "web@1.service\tinactive\n",
        ),
        (&["destroy", "web@1"], "was destroyed in the meantime", ""),
    ] {
        let stand = running("web@.service", HELLO, &names, 3);
        let way = meanwhile(&stand, "web@1", words);
        write(&stand, "web@.service", &HELLO.replace("1000", "2000"));
        let rolled = stand.fleetctl(&[&way, "rollout", "--timeout=5", "web@.service"]);
        let printed = (stdout(&rolled), stderr(&rolled));
        assert_eq!((code(&rolled), printed.1.as_str()), (0, ""), "{printed:?}");
        let message = format!("Unit web@1.service {message}");
        assert_eq!(printed.0.matches(&message).count(), 1, "{printed:?}");
        let others = "web@2.service\tlaunched\nweb@3.service\tlaunched\n";
        assert_eq!(desired_states(&stand), format!("{left}{others}"));
    }
}

#[test]
fn global_unit_stopped_or_destroyed_during_the_wait_causes_no_rollback() {
    for (words, message, left) in [
        (&["stop", "all"], "all.service was stopped in the meantime", "all.service\tloaded\n"),
        (&["unload", "all"], "all.service was stopped in the meantime", "all.service\tinactive\n"),
        (&["destroy", "all"], "all.service was destroyed in the meantime", ""),
    ] {
        let stand = running("all.service", &everywhere(), &["all"], 3);
        let way = meanwhile(&stand, r#""machines":["m1","m2"]"#, words);
        let new = everywhere().replace("1000", "2000");
        write(&stand, "all.service", &new);
        let rolled = stand.fleetctl(&[&way, "rollout", "--timeout=5", "all.service"]);
        let printed = (stdout(&rolled), stderr(&rolled));
        assert_eq!((code(&rolled), printed.1.as_str()), (0, ""), "{printed:?}");
        assert_eq!(printed.0.matches(message).count(), 1, "{printed:?}");
        assert_eq!(desired_states(&stand), left);
        if !left.is_empty() {
            assert_eq!(stdout(&stand.fleetctl(&["cat", "all"])), new);
            assert!(stand.get("/fleet/v1/units/all.service").json()["machines"].is_null());
        }
    }
}

/// Runs a command between the rollout's last look at the unit and its PUT.
fn just_before(
    stand: &Stand,
    put: &'static str,
    mut does: impl FnMut() + Send + 'static,
) -> String {
    let mut is_done = false;
    through_proxy(stand, move |asked| {
        if asked.starts_with("PUT") && asked.contains(put) && !std::mem::replace(&mut is_done, true)
        {
            does();
        }
        false
    })
}

fn destroys(stand: &Stand, name: &'static str) -> impl FnMut() + Send + 'static {
    let endpoint = format!("unix://{}", stand.socket().display());
    let folder = stand.folder.clone();
    move || assert_eq!(code(&fleetctl(&folder, &endpoint, &["destroy", name])), 0)
}

#[test]
fn unit_destroyed_just_before_its_replacement_is_not_recreated() {
    let stand = running("web@.service", HELLO, &["web@1", "web@2"], 2);
    write(&stand, "web@.service", &HELLO.replace("1000", "2000"));
    let way = just_before(&stand, "units/web%402.service", destroys(&stand, "web@2"));
    let rolled = stand.fleetctl(&[&way, "rollout", "web@.service"]);
    assert_eq!((code(&rolled), stderr(&rolled)), (0, String::new()));
    let printed = stdout(&rolled);
    assert!(printed.contains("Unit web@2.service was destroyed in the meantime"), "{printed}");
    assert!(printed.contains("Rolled out 1 units"), "{printed}");
    assert_eq!(desired_states(&stand), "web@1.service\tlaunched\n");
}

#[test]
fn unit_destroyed_just_before_its_rollback_is_not_recreated() {
    let stand = running("a.service", HELLO, &["a"], 1);
    write(&stand, "a.service", &bad(HELLO));
    let way = just_before(&stand, "/bin/sleep", destroys(&stand, "a"));
    let rolled = stand.fleetctl(&[&way, "rollout", "a.service"]);
    assert_eq!(code(&rolled), 1);
    assert!(stderr(&rolled).contains("the unit was destroyed"), "{}", stderr(&rolled));
    assert_eq!(desired_states(&stand), "");
}

fn unloads(stand: &Stand, name: &'static str) -> impl FnMut() + Send + 'static {
    let endpoint = format!("unix://{}", stand.socket().display());
    let folder = stand.folder.clone();
    move || {
        let words = ["unload", "--no-block", name];
        assert_eq!(code(&fleetctl(&folder, &endpoint, &words)), 0);
    }
}

#[test]
fn unit_unloaded_just_before_its_replacement_stays_unloaded() {
    let stand = running("web@.service", HELLO, &["web@1", "web@2"], 2);
    let new = HELLO.replace("1000", "2000");
    write(&stand, "web@.service", &new);
    let way = just_before(&stand, "units/web%402.service", unloads(&stand, "web@2"));
    let rolled = stand.fleetctl(&[&way, "rollout", "web@.service"]);
    assert_eq!((code(&rolled), stderr(&rolled)), (0, String::new()));
    assert_eq!(desired_states(&stand), "web@1.service\tlaunched\nweb@2.service\tinactive\n");
    assert_eq!(stdout(&stand.fleetctl(&["cat", "web@2"])), new);
}

#[test]
fn unit_unloaded_just_before_its_rollback_stays_unloaded() {
    let stand = running("a.service", HELLO, &["a"], 1);
    write(&stand, "a.service", &bad(HELLO));
    let way = just_before(&stand, "/bin/sleep", unloads(&stand, "a"));
    let rolled = stand.fleetctl(&[&way, "rollout", "a.service"]);
    assert_eq!(code(&rolled), 1);
    assert!(stderr(&rolled).contains("Unit a.service: restored the old file"));
    assert_eq!(desired_states(&stand), "a.service\tinactive\n");
    assert_eq!(stdout(&stand.fleetctl(&["cat", "a"])), HELLO);
}

#[test]
fn file_put_just_before_a_replacement_is_kept() {
    let stand = running("web@.service", HELLO, &["web@1", "web@2"], 2);
    let other = HELLO.replace("1000", "3000");
    let way = just_before(&stand, "units/web%402.service", puts(&stand, "web@2.service", &other));
    write(&stand, "web@.service", &HELLO.replace("1000", "2000"));
    let rolled = stand.fleetctl(&[&way, "rollout", "web@.service"]);
    assert_eq!(code(&rolled), 1);
    assert!(stderr(&rolled).contains("the file of unit web@2.service has changed"));
    assert_eq!(stdout(&stand.fleetctl(&["cat", "web@2"])), other);
}

/// Three instances, and a file with which the third fails everywhere.
fn bad_third() -> (Stand, String) {
    let fails = ["m1", "m2", "m3"].map(|id| format!("/bin/fails/web@3.service/{id}"));
    let new = HELLO.replace("/bin/sleep 1000", &fails.join(" "));
    let stand = running("web@.service", HELLO, &["web@1", "web@2", "web@3"], 3);
    write(&stand, "web@.service", &new);
    (stand, new)
}

/// Another client puts this unit.
fn puts(stand: &Stand, name: &'static str, text: &str) -> impl FnMut() + Send + 'static {
    let options = UnitFile::parse(text).unwrap().options;
    let put = serde_json::json!({ "options": options, "desiredState": "launched" });
    let socket = stand.socket();
    move || put_at(&socket, name, &put.to_string())
}

#[test]
fn equal_file_put_by_another_client_is_not_rolled_back() {
    let (stand, new) = bad_third();
    let way = just_before(&stand, "units/web%402.service", puts(&stand, "web@2.service", &new));
    let rolled = stand.fleetctl(&[&way, "rollout", "web@.service"]);
    assert_eq!(code(&rolled), 1);
    assert!(stderr(&rolled).contains("web@3.service failed on"), "{}", stderr(&rolled));
    let cat = |name: &str| stdout(&stand.fleetctl(&["cat", name]));
    assert_eq!([cat("web@1"), cat("web@2"), cat("web@3")], [HELLO, new.as_str(), HELLO]);
}

#[test]
fn unit_recreated_from_the_same_file_is_not_rolled_back() {
    let (stand, new) = bad_third();
    let mut destroy = destroys(&stand, "web@1");
    let mut make = puts(&stand, "web@1.service", &new);
    let way = just_before(&stand, "units/web%403.service", move || {
        destroy();
        make();
    });
    let rolled = stand.fleetctl(&[&way, "rollout", "web@.service"]);
    assert_eq!(code(&rolled), 1);
    let message = "Unit web@1.service: keeping the unit, which was re-created in the meantime";
    assert!(stderr(&rolled).contains(message), "{}", stderr(&rolled));
    let cat = |name: &str| stdout(&stand.fleetctl(&["cat", name]));
    assert_eq!([cat("web@1"), cat("web@2"), cat("web@3")], [new.as_str(), HELLO, HELLO]);
}

#[test]
fn machine_that_no_longer_has_the_unit_causes_no_rollback() {
    let stand = three();
    let marked = format!("{}MachineMetadata=k=1\n", everywhere());
    for id in ["m1", "m2", "m3"] {
        override_metadata(&stand.socket(), id, "k", "1");
    }
    write(&stand, "all.service", &marked);
    assert_eq!(code(&stand.fleetctl(&["start", "all"])), 0);
    stand.until("it is on all", |stand| hashes(stand).len() == 3);
    write(&stand, "all.service", &marked.replace("1000", "2000"));
    let (socket, mut is_done) = (stand.socket(), false);
    let way = through_proxy(&stand, move |asked| {
        if asked.contains(r#""machines":["m1","m2"]"#) && !std::mem::replace(&mut is_done, true) {
            override_metadata(&socket, "m1", "k", "0");
            override_metadata(&socket, "m3", "k", "0");
        }
        false
    });
    let rolled = stand.fleetctl(&[&way, "rollout", "--timeout=20", "all.service"]);
    let printed = (stdout(&rolled), stderr(&rolled));
    assert_eq!(code(&rolled), 0, "{printed:?}");
    assert!(printed.0.contains("Unit all.service is no longer on m1"), "{printed:?}");
    assert!(!printed.0.contains("on m3\n"), "{printed:?}");
    stand.until("one has it", |stand| hashes(stand).len() == 1);
}

/// Rolls a global unit out on three machines. The machine m2 disappears just before fleetctl names
/// these machines in a request.
fn rollout_while_m2_disappears(machines: &'static str, timeout: &str) -> (i32, String, String) {
    let stand = running("all.service", &everywhere(), &["all"], 3);
    write(&stand, "all.service", &everywhere().replace("1000", "2000"));
    let (store, keys, mut is_done) = (stand.store.clone(), stand.keys.clone(), false);
    let way = through_proxy(&stand, move |asked| {
        if asked.contains(machines) && !std::mem::replace(&mut is_done, true) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let snapshot = Snapshot::of(keys.clone(), &store.read(keys.root()).await.unwrap());
                let lease = snapshot.machines[&MachineId::new("m2").unwrap()].lease;
                store.revoke(lease).await.unwrap();
            });
        }
        false
    });
    let words = [&way, "rollout", timeout, "--healthy-for=0", "all.service"];
    let rolled = stand.fleetctl(&words);
    (code(&rolled), stdout(&rolled), stderr(&rolled))
}

#[test]
fn machine_that_disappears_before_the_new_file_is_active_there_fails_the_rollout() {
    let (code, printed, faults) =
        rollout_while_m2_disappears(r#""machines":["m1","m2"]"#, "--timeout=3");
    assert_eq!(code, 1, "{printed}{faults}");
    let why = "unit all.service is not active after 3 s: m2 is not registered";
    assert!(faults.contains(why), "{faults}");
    assert!(faults.contains("restored the old file"), "{faults}");
    assert!(!printed.contains("no longer on m2") && !printed.contains("on m3\n"), "{printed}");
}

#[test]
fn machine_that_disappears_after_the_new_file_was_active_there_does_not_fail_the_rollout() {
    let (code, printed, faults) =
        rollout_while_m2_disappears(r#""machines":["m1","m2","m3"]"#, "--timeout=20");
    assert_eq!((code, faults), (0, String::new()), "{printed}");
    assert!(printed.contains("Unit all.service is no longer on m2\n"), "{printed}");
}

#[test]
fn global_instances_are_rolled_out_machine_by_machine() {
    let stand = running("web@.service", &everywhere(), &["web@1", "web@2"], 6);
    let old = hashes(&stand);
    write(&stand, "web@.service", &bad(&everywhere()));
    let failed = stand.fleetctl(&["rollout", "--no-rollback", "web@.service"]);
    assert_eq!(code(&failed), 1);
    let new = hashes(&stand);
    let changed = new.iter().zip(&old).filter(|(new, old)| new != old).count();
    assert_eq!(changed, 1, "{new:#?}");
    // Continues an interrupted rollout with a good file, including the second unit.
    write(&stand, "web@.service", &everywhere().replace("1000", "2000"));
    let rolled = stand.fleetctl(&["rollout", "web@.service"]);
    assert_eq!((code(&rolled), stderr(&rolled)), (0, String::new()));
    let printed = stdout(&rolled);
    for line in ["Replacing web@1.service on m3\n", "Replacing web@2.service on m1\n"] {
        assert!(printed.contains(line), "{printed}");
    }
    let all: BTreeSet<String> = hashes(&stand)
        .iter()
        .filter_map(|line| line.rsplit('\t').next().map(str::to_string))
        .collect();
    assert_eq!(all.len(), 1);
}

#[test]
fn interrupted_rollout_of_global_instances_continues_or_rolls_back() {
    let stand = running("web@.service", &everywhere(), &["web@1", "web@2"], 6);
    let old = hashes(&stand);
    let half = |text: &str| {
        let options = UnitFile::parse(text).unwrap().options;
        let half = serde_json::json!({
            "options": options, "desiredState": "launched", "machines": ["m1"],
        });
        assert_eq!(stand.put("web@1.service", &half.to_string()).status, 201);
    };
    write(&stand, "web@.service", &bad(&everywhere()));
    half(&bad(&everywhere()));
    let failed = stand.fleetctl(&["rollout", "--timeout=20", "web@.service"]);
    assert!(stderr(&failed).contains("failed on m1"), "{}", stderr(&failed));
    stand.until("all have what they had", |stand| hashes(stand) == old);
    let new = everywhere().replace("1000", "2000");
    write(&stand, "web@.service", &new);
    half(&new);
    let rolled = stand.fleetctl(&["rollout", "--timeout=20", "web@.service"]);
    assert_eq!((code(&rolled), stderr(&rolled)), (0, String::new()));
    assert!(!stdout(&rolled).contains("Replacing web@1.service on m1"), "{}", stdout(&rolled));
    assert!(hashes(&stand).iter().zip(&old).all(|(new, old)| new != old));
}
