//! `fleetctl rollout` while others than it go on: what is destroyed, stopped, or leaves in the middle of it.
//! As in `rollout.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where it is surprised"
)]

mod stand;
mod way;

use cluster::unit_file::UnitFile;
use stand::{HELLO, Plan, Stand, code, fleetctl, stderr, stdout, write};
use std::collections::BTreeSet;
use std::io::BufReader;
use way::{begun, by_way_of, hears, laid_over};

fn everywhere() -> String {
    format!("{HELLO}\n[X-Fleet]\nGlobal=true\n")
}

fn bad(text: &str) -> String {
    text.replace("/bin/sleep 1000", "/bin/false")
}

/// Of each unit on each machine the hash of the file it has.
fn hashes(stand: &Stand) -> Vec<String> {
    let list = ["list-units", "--fields=unit,machine,hash", "--no-legend", "--full"];
    stdout(&stand.fleetctl(&list)).lines().map(str::to_string).collect()
}

fn wishes(stand: &Stand) -> String {
    stdout(&stand.fleetctl(&["list-unit-files", "--no-legend", "--fields=unit,dstate"]))
}

/// Units of that file that run, on three machines.
fn running(name: &str, text: &str, units: &[&str], count: usize) -> Stand {
    let stand = Stand::new(Plan { failing: true, ..Plan::of(&["m1", "m2", "m3"]) });
    write(&stand, name, text);
    assert_eq!(code(&stand.fleetctl(&[&["start"], units].concat())), 0);
    stand.until("they are there", |stand| hashes(stand).len() == count);
    stand
}

#[test]
fn a_moment_without_etcd_does_not_turn_a_rollout_of_instances_round() {
    let stand = running("web@.service", HELLO, &["web@1", "web@2", "web@3"], 3);
    let (store, mut is_away) = (stand.store.clone(), false);
    let way = by_way_of(&stand, move |asked| {
        if asked.starts_with("PUT") && asked.contains("web@2") && !is_away {
            is_away = true;
            store.set_reachable(false);
        }
        false
    });
    write(&stand, "web@.service", &HELLO.replace("1000", "2000"));
    let mut rolls = begun(&stand, &[&way, "rollout", "web@.service"]);
    hears(&mut BufReader::new(rolls.stderr.as_mut().unwrap()), "waiting on");
    stand.store.set_reachable(true);
    let rolled = rolls.wait_with_output().unwrap();
    assert_eq!((code(&rolled), stderr(&rolled)), (0, String::new()));
    assert!(stdout(&rolled).contains("Rolled out 3 units"), "{}", stdout(&rolled));
}

#[test]
fn a_moment_without_etcd_does_not_end_a_rollout_of_a_global_unit_as_it_begins() {
    let stand = running("all.service", &everywhere(), &["all"], 3);
    let (store, mut is_away) = (stand.store.clone(), false);
    let way = by_way_of(&stand, move |asked| {
        if asked.starts_with("PUT") && !std::mem::replace(&mut is_away, true) {
            store.set_reachable(false);
        }
        false
    });
    write(&stand, "all.service", &everywhere().replace("1000", "2000"));
    let mut rolls = begun(&stand, &[&way, "rollout", "all.service"]);
    hears(&mut BufReader::new(rolls.stderr.as_mut().unwrap()), "waiting on");
    stand.store.set_reachable(true);
    let rolled = rolls.wait_with_output().unwrap();
    assert_eq!((code(&rolled), stderr(&rolled)), (0, String::new()));
}

#[test]
fn what_was_destroyed_or_unloaded_in_the_middle_of_a_rollout_stays_so() {
    let stand = running("web@.service", HELLO, &["web@1", "web@2", "web@3"], 3);
    let new = HELLO.replace("1000", "2000");
    write(&stand, "web@.service", &new);
    let endpoint = format!("unix://{}", stand.socket().display());
    let (folder, mut is_done) = (stand.folder.clone(), false);
    let way = by_way_of(&stand, move |asked| {
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
    let told = stdout(&rolled);
    assert!(told.contains("Unit web@2.service was destroyed meanwhile"), "{told}");
    assert!(told.contains("Rolled out 2 units"), "{told}");
    assert_eq!(wishes(&stand), "web@1.service\tlaunched\nweb@3.service\tinactive\n");
    assert_eq!(stdout(&stand.fleetctl(&["cat", "web@3"])), new);
}

#[test]
fn another_file_that_was_put_in_the_middle_of_a_rollout_is_not_rolled_over() {
    let stand = running("web@.service", HELLO, &["web@1", "web@2"], 2);
    let other = HELLO.replace("1000", "3000");
    let options = UnitFile::parse(&other).unwrap().options;
    let put = serde_json::json!({ "options": options, "desiredState": "launched" });
    let (socket, mut is_put) = (stand.socket(), false);
    let way = by_way_of(&stand, move |asked| {
        if asked.starts_with("PUT") && !std::mem::replace(&mut is_put, true) {
            way::put_at(&socket, "web@2.service", &put.to_string());
        }
        false
    });
    write(&stand, "web@.service", &HELLO.replace("1000", "2000"));
    let rolled = stand.fleetctl(&[&way, "rollout", "web@.service"]);
    assert_eq!(code(&rolled), 1);
    assert!(stderr(&rolled).contains("web@2.service has another file by now"));
    assert_eq!(stdout(&stand.fleetctl(&["cat", "web@2"])), other);
}

#[test]
fn a_rollout_that_goes_back_wishes_nothing_that_was_unloaded_meanwhile() {
    let stand = running("a.service", HELLO, &["a"], 1);
    write(&stand, "a.service", &bad(HELLO));
    let endpoint = format!("unix://{}", stand.socket().display());
    let (folder, mut is_put, mut is_done) = (stand.folder.clone(), false, false);
    let way = by_way_of(&stand, move |asked| {
        if is_put && !is_done && asked.starts_with("GET") {
            is_done = true;
            assert_eq!(code(&fleetctl(&folder, &endpoint, &["unload", "--no-block", "a"])), 0);
        }
        is_put |= asked.starts_with("PUT");
        false
    });
    let rolled = stand.fleetctl(&[&way, "rollout", "--timeout=2", "a.service"]);
    assert_eq!(code(&rolled), 1);
    assert!(stderr(&rolled).contains("has its old file again"), "{}", stderr(&rolled));
    assert_eq!(wishes(&stand), "a.service\tinactive\n");
    assert_eq!(stdout(&stand.fleetctl(&["cat", "a"])), HELLO);
}

#[test]
fn a_machine_that_does_not_have_it_any_more_does_not_turn_a_rollout_round() {
    let stand = Stand::new(Plan { failing: true, ..Plan::of(&["m1", "m2", "m3"]) });
    let marked = format!("{}MachineMetadata=k=1\n", everywhere());
    for id in ["m1", "m2", "m3"] {
        laid_over(&stand.socket(), id, "k", "1");
    }
    write(&stand, "all.service", &marked);
    assert_eq!(code(&stand.fleetctl(&["start", "all"])), 0);
    stand.until("it is on all", |stand| hashes(stand).len() == 3);
    write(&stand, "all.service", &marked.replace("1000", "2000"));
    let (socket, mut is_done) = (stand.socket(), false);
    let way = by_way_of(&stand, move |asked| {
        if asked.contains(r#""machines":["m1","m2"]"#) && !std::mem::replace(&mut is_done, true) {
            laid_over(&socket, "m1", "k", "0");
            laid_over(&socket, "m3", "k", "0");
        }
        false
    });
    let rolled = stand.fleetctl(&[&way, "rollout", "--timeout=20", "all.service"]);
    let told = (stdout(&rolled), stderr(&rolled));
    assert_eq!(code(&rolled), 0, "{told:?}");
    assert!(told.0.contains("Unit all.service is not on m1 any more"), "{told:?}");
    assert!(!told.0.contains("on m3\n"), "{told:?}");
    stand.until("one has it", |stand| hashes(stand).len() == 1);
}

#[test]
fn instances_that_are_on_all_machines_are_rolled_out_machine_by_machine() {
    let stand = running("web@.service", &everywhere(), &["web@1", "web@2"], 6);
    let old = hashes(&stand);
    write(&stand, "web@.service", &bad(&everywhere()));
    let failed = stand.fleetctl(&["rollout", "--no-rollback", "web@.service"]);
    assert_eq!(code(&failed), 1);
    let new = hashes(&stand);
    let changed = new.iter().zip(&old).filter(|(new, old)| new != old).count();
    assert_eq!(changed, 1, "{new:#?}");
    // Goes on where it was left, with a file that is good, and comes to all of the second too.
    write(&stand, "web@.service", &everywhere().replace("1000", "2000"));
    let rolled = stand.fleetctl(&["rollout", "web@.service"]);
    assert_eq!((code(&rolled), stderr(&rolled)), (0, String::new()));
    let told = stdout(&rolled);
    for line in ["Replacing web@1.service on m3\n", "Replacing web@2.service on m1\n"] {
        assert!(told.contains(line), "{told}");
    }
    let all: BTreeSet<String> = hashes(&stand)
        .iter()
        .filter_map(|line| line.rsplit('\t').next().map(str::to_string))
        .collect();
    assert_eq!(all.len(), 1);
}

#[test]
fn instances_on_all_machines_that_were_left_in_the_middle_go_on_or_back() {
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
