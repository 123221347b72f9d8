//! Failed and interrupted rollouts: which machine has which file afterwards. Setup as in
//! `rollout.rs`.

use crate::proxy::{hears, put_at, spawn, through_proxy};
use crate::rolled::{bad, bad_for, everywhere, hashes, running, three};
use crate::stand::{HELLO, Stand, code, stderr, stdout, write};
use cluster::unit_file::UnitFile;
use std::io::BufReader;
use std::process::Command;

/// Three machines with the file, and its hashes.
fn all_have_it(words: &[&str]) -> (Stand, Vec<String>) {
    let stand = three();
    write(&stand, "all.service", &everywhere());
    for name in ["ann.key", "bob.key"].iter().filter(|_| !words.is_empty()) {
        let mut openssl = Command::new("openssl");
        openssl.args(["genpkey", "-algorithm", "ed25519", "-out", name]);
        assert!(openssl.current_dir(&stand.folder).status().unwrap().success());
    }
    assert_eq!(code(&stand.fleetctl(&[words, &["start", "all.service"]].concat())), 0);
    stand.until("it is on all", |stand| hashes(stand).len() == 3);
    let old = hashes(&stand);
    (stand, old)
}

/// An interrupted rollout whose first machine failed.
fn left_in_the_middle() -> (Stand, Vec<String>) {
    let (stand, old) = all_have_it(&[]);
    write(&stand, "all.service", &bad(&everywhere()));
    assert_eq!(code(&stand.fleetctl(&["rollout", "--no-rollback", "all.service"])), 1);
    assert_eq!(hashes(&stand)[1..], old[1..]);
    (stand, old)
}

#[test]
fn machines_that_a_rollout_did_not_reach_keep_their_file_in_a_rollback() {
    let (stand, old) = left_in_the_middle();
    let (middle, cat) = (hashes(&stand), stdout(&stand.fleetctl(&["cat", "all"])));
    write(&stand, "all.service", &bad(&everywhere()).replace("/bin/false", "/bin/false # 2"));
    let failed = stand.fleetctl(&["rollout", "all.service"]);
    assert!(stderr(&failed).contains("restored the old file"), "{}", stderr(&failed));
    stand.until("the first has what it had", |stand| hashes(stand) == middle);
    assert_eq!(stdout(&stand.fleetctl(&["cat", "all"])), cat);
    // The previous file of all machines is still stored.
    write(&stand, "all.service", &cat);
    assert_eq!(code(&stand.fleetctl(&["rollout", "all.service"])), 1);
    stand.until("all have what they had", |stand| hashes(stand) == old);
}

/// The failing rollout reached more machines than the interrupted one.
#[test]
fn machines_that_only_the_second_rollout_reached_get_their_file_back() {
    let (stand, old) = left_in_the_middle();
    let middle = hashes(&stand);
    write(&stand, "all.service", &bad_for(&everywhere(), "all.service", "m3"));
    let failed = stand.fleetctl(&["rollout", "all.service"]);
    assert!(stderr(&failed).contains("failed on m3"), "{}", stderr(&failed));
    assert!(stderr(&failed).contains("restored the old file"), "{}", stderr(&failed));
    stand.until("all have what they had", |stand| hashes(stand) == middle);
    let unit = stand.get("/fleet/v1/units/all.service").json();
    assert_eq!(unit["machines"], serde_json::json!(["m1"]));
    // The previous file of all machines is still stored.
    assert!(unit["before"]["options"].to_string().contains("/bin/sleep 1000"), "{unit}");
    assert_eq!(middle[1..], old[1..]);
}

#[test]
fn rollback_restores_both_files_of_an_instance_in_an_interrupted_rollout() {
    let stand = running("web@.service", &everywhere(), &["web@1", "web@2"], 6);
    let file = UnitFile::parse(&everywhere().replace("1000", "3000")).unwrap();
    let half = serde_json::json!({
        "options": file.options, "desiredState": "launched", "machines": ["m1"],
    });
    assert_eq!(stand.put("web@1.service", &half.to_string()).status, 201);
    stand.until("the first has it", |stand| hashes(stand)[0].ends_with(&file.hash()));
    let middle = hashes(&stand);
    write(&stand, "web@.service", &bad_for(&everywhere(), "web@2.service", "m3"));
    let failed = stand.fleetctl(&["rollout", "web@.service"]);
    assert!(stderr(&failed).contains("web@2.service failed on m3"), "{}", stderr(&failed));
    stand.until("all have what they had", |stand| hashes(stand) == middle);
}

#[test]
fn continued_rollout_first_checks_machines_that_have_the_file() {
    let (stand, old) = left_in_the_middle();
    let again = stand.fleetctl(&["rollout", "--no-rollback", "all.service"]);
    assert_eq!(code(&again), 1);
    assert!(stderr(&again).contains("failed on m1"), "{}", stderr(&again));
    assert_eq!((stdout(&again), &hashes(&stand)[1..]), (String::new(), &old[1..]));
}

#[test]
fn rollout_of_a_non_global_file_for_a_global_unit_is_refused() {
    let (stand, old) = all_have_it(&[]);
    write(&stand, "all.service", &HELLO.replace("1000", "2000"));
    let refused = stand.fleetctl(&["rollout", "all.service"]);
    assert_eq!(code(&refused), 1);
    assert!(
        stderr(&refused).contains("is global, and the new file makes it not global"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(hashes(&stand), old);
}

#[test]
fn file_written_by_another_client_during_a_rollout_stays() {
    let (stand, _) = all_have_it(&[]);
    let other = UnitFile::parse(&everywhere().replace("1000", "3000")).unwrap();
    let put = serde_json::json!({ "options": other.options, "desiredState": "launched" });
    let (socket, mut is_put) = (stand.socket(), false);
    let way = through_proxy(&stand, move |asked| {
        if asked.contains(r#""machines":["m1","m2"]"#) && !is_put {
            is_put = true;
            put_at(&socket, "all.service", &put.to_string());
        }
        false
    });
    write(&stand, "all.service", &everywhere().replace("1000", "2000"));
    let rolled = stand.fleetctl(&[&way, "rollout", "all.service"]);
    assert_eq!(code(&rolled), 1);
    assert!(stderr(&rolled).contains("another file"), "{}", stderr(&rolled));
    assert!(!stderr(&rolled).contains("restored the old file"), "{}", stderr(&rolled));
    stand.until("all have the other", |stand| {
        let all = hashes(stand);
        all.len() == 3 && all.iter().all(|one| one.ends_with(&other.hash()))
    });
    assert!(stand.get("/fleet/v1/units/all.service").json()["machines"].is_null());
}

#[test]
fn rollout_that_could_not_be_rolled_back_is_refused() {
    let signs = |key: &'static str| ["--sign-key", key, "--cluster-name", "here"];
    let (stand, old) = all_have_it(&signs("bob.key"));
    write(&stand, "all.service", &everywhere().replace("1000", "2000"));
    let rollout = |flags: &[&str]| {
        stand.fleetctl(&[&signs("ann.key")[..], &["rollout", "all.service"], flags].concat())
    };
    let refused = rollout(&[]);
    assert_eq!(code(&refused), 1);
    assert!(stderr(&refused).contains("signed with another key"), "{}", stderr(&refused));
    assert_eq!(hashes(&stand), old);
    // It stays interrupted if the key that signed the previous file is missing.
    write(&stand, "all.service", &bad(&everywhere()));
    assert_eq!(code(&rollout(&["--no-rollback"])), 1);
    let middle = hashes(&stand);
    assert_eq!(middle[1..], old[1..]);
    for key in [&signs("ann.key")[..], &[]] {
        let refused = stand.fleetctl(&[key, &["rollout", "all.service"]].concat());
        assert!(stderr(&refused).contains("signed with another key"), "{}", stderr(&refused));
        assert_eq!(hashes(&stand), middle);
    }
    let back = stand.fleetctl(&[&signs("bob.key")[..], &["rollout", "all.service"]].concat());
    assert!(stderr(&back).contains("restored the old file"), "{}", stderr(&back));
    stand.until("all have what they had", |stand| hashes(stand) == old);
}

#[test]
fn short_etcd_outage_does_not_roll_back_a_global_rollout() {
    let (stand, old) = all_have_it(&[]);
    let (store, mut is_away) = (stand.store.clone(), false);
    let way = through_proxy(&stand, move |asked| {
        if asked.contains(r#""machines":["m1","m2"]"#) && !is_away {
            is_away = true;
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
    assert!(hashes(&stand).iter().zip(&old).all(|(new, old)| new != old), "{:?}", hashes(&stand));
}
