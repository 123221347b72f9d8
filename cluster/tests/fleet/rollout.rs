//! `fleetctl rollout`: replaces the file of running units, a few at a time. Setup as in
//! `fleetctl.rs`.

use crate::rolled::{bad, everywhere, three};
use crate::stand::{HELLO, Plan, Stand, code, stderr, stdout, write};
use cluster::unit_file::UnitFile;

#[test]
fn rollout_continues_while_units_become_active_and_rolls_back_otherwise() {
    let stand = Stand::new(Plan { failing: true, ..Plan::of(&["m1", "m2"]) });
    write(&stand, "web@.service", HELLO);
    assert_eq!(code(&stand.fleetctl(&["start", "web@1", "web@2", "web@3"])), 0);
    let new = HELLO.replace("1000", "2000");
    write(&stand, "web@.service", &new);
    let rolled = stand.fleetctl(&["rollout", "--batch=2", "web@.service"]);
    assert_eq!(code(&rolled), 0, "{}", stderr(&rolled));
    assert!(stdout(&rolled).contains("Rolled out 3 units"));
    for number in 1..=3 {
        assert_eq!(stdout(&stand.fleetctl(&["cat", &format!("web@{number}")])), new);
    }
    write(&stand, "web@.service", &HELLO.replace("/bin/sleep 1000", "/bin/false"));
    let failed = stand.fleetctl(&["rollout", "web@.service"]);
    assert_eq!(code(&failed), 1);
    assert!(stderr(&failed).contains("unit web@1.service failed on"), "{}", stderr(&failed));
    for number in 1..=3 {
        assert_eq!(stdout(&stand.fleetctl(&["cat", &format!("web@{number}")])), new);
    }
    stand.until("all run again", |stand| {
        let list = stdout(&stand.fleetctl(&["list-units", "--fields=active", "--no-legend"]));
        list == "active\nactive\nactive\n"
    });
}

#[test]
fn global_unit_is_rolled_out_machine_by_machine() {
    let stand = three();
    let everywhere = everywhere();
    write(&stand, "all.service", &everywhere);
    assert_eq!(code(&stand.fleetctl(&["start", "all"])), 0);
    let hashes = |stand: &Stand| -> Vec<String> {
        let list = ["list-units", "--fields=hash,active", "--no-legend", "--full"];
        let list = stdout(&stand.fleetctl(&list));
        list.lines().map(str::to_string).collect()
    };
    stand.until("it is on all", |stand| hashes(stand).len() == 3);
    let old = hashes(&stand);
    // The rollout ends at the first machine where it fails.
    write(&stand, "all.service", &bad(&everywhere));
    let failed = stand.fleetctl(&["rollout", "--no-rollback", "all.service"]);
    assert_eq!(code(&failed), 1);
    let printed = (stdout(&failed), stderr(&failed));
    assert!(printed.0.contains("on m1\n") && !printed.0.contains("on m2"), "{printed:?}");
    assert!(printed.1.contains("failed on m1"), "{printed:?}");
    let now = hashes(&stand);
    assert!(now[0] != old[0] && now[1..] == old[1..], "the others have the old file: {now:?}");
    let machines = || stand.get("/fleet/v1/units/all.service").json()["machines"].clone();
    assert_eq!(machines(), serde_json::json!(["m1"]));
    write(&stand, "all.service", &everywhere.replace("/bin/sleep 1000", "/bin/false # 2"));
    let failed = stand.fleetctl(&["rollout", "all.service"]);
    assert!(stderr(&failed).contains("restored the old file"), "{}", stderr(&failed));
    assert_eq!(code(&stand.fleetctl(&["destroy", "all"])), 0);
    write(&stand, "all.service", &everywhere);
    assert_eq!(code(&stand.fleetctl(&["start", "all"])), 0);
    stand.until("the old file runs everywhere", |stand| hashes(stand) == old);
    write(&stand, "all.service", &everywhere.replace("1000", "2000"));
    let rolled = stand.fleetctl(&["rollout", "--batch=2", "all.service"]);
    assert_eq!(code(&rolled), 0, "{}", stderr(&rolled));
    let printed = stdout(&rolled);
    assert!(
        printed.contains("Replacing all.service on m1 m2\nReplacing all.service on m3\n"),
        "{printed}"
    );
    let new = hashes(&stand);
    assert!(new.len() == 3 && new[0] != old[0] && new.iter().all(|one| *one == new[0]), "{new:?}");
    assert!(machines().is_null(), "it is over");
}

#[test]
fn interrupted_rollout_continues() {
    let stand = three();
    let everywhere = everywhere();
    let machines = || stand.get("/fleet/v1/units/all.service").json()["machines"].clone();
    let hashes = || -> std::collections::BTreeSet<String> {
        let list = ["list-units", "--fields=hash", "--no-legend", "--full"];
        stdout(&stand.fleetctl(&list)).lines().map(str::to_string).collect()
    };
    for (number, words) in [
        ("2000", ["rollout", "all.service"].as_slice()),
        ("3000", ["start", "--replace", "all.service"].as_slice()),
    ] {
        write(&stand, "all.service", &everywhere.replace("1000", &format!("{number}0")));
        assert_eq!(code(&stand.fleetctl(&["start", "--replace", "all"])), 0);
        let new = everywhere.replace("1000", number);
        write(&stand, "all.service", &new);
        let file = UnitFile::parse(&new).unwrap();
        // The state of a rollout whose client disappeared.
        let half = serde_json::json!({
            "options": file.options, "desiredState": "launched", "machines": ["m1"],
        });
        assert_eq!(stand.put("all.service", &half.to_string()).status, 201);
        stand.until("one has the new file, two the old one", |_| hashes().len() == 2);
        let rolled = stand.fleetctl(words);
        assert_eq!(code(&rolled), 0, "{}", stderr(&rolled));
        let printed = stdout(&rolled);
        let one_by_one = "Replacing all.service on m2\nReplacing all.service on m3\nRolled out";
        assert_eq!(printed.contains(one_by_one), words[0] == "rollout", "{printed}");
        assert!(!printed.contains("othing to do"), "{printed}");
        assert!(machines().is_null(), "it is over");
        stand.until("all have it", |_| hashes() == [file.hash()].into());
    }
    let again = stand.fleetctl(&["rollout", "all.service"]);
    assert!(stdout(&again).starts_with("Nothing to do"), "{}", stdout(&again));
}

#[test]
fn continued_rollout_that_fails_restores_the_old_file() {
    let stand = three();
    let everywhere = everywhere();
    write(&stand, "all.service", &everywhere);
    assert_eq!(code(&stand.fleetctl(&["start", "all"])), 0);
    let bad = bad(&everywhere);
    write(&stand, "all.service", &bad);
    let list = ["list-units", "--fields=active", "--no-legend"];
    let active = |stand: &Stand| stdout(&stand.fleetctl(&list));
    stand.until("it is on all", |stand| active(stand) == "active\n".repeat(3));
    let options = UnitFile::parse(&bad).unwrap().options;
    let half = serde_json::json!({
        "options": options, "desiredState": "launched", "machines": ["m1"],
    });
    assert_eq!(stand.put("all.service", &half.to_string()).status, 201);
    // A change of desired state in the middle keeps the rollout.
    for wish in ["loaded", "launched"] {
        let wish = serde_json::json!({ "desiredState": wish });
        assert_eq!(stand.put("all.service", &wish.to_string()).status, 204);
    }
    stand.until("one has failed", |stand| active(stand).matches("active").count() == 2);
    let failed = stand.fleetctl(&["rollout", "all.service"]);
    assert_eq!(code(&failed), 1);
    let printed = stderr(&failed);
    assert!(
        printed.contains("failed on m1") && printed.contains("restored the old file"),
        "{printed}"
    );
    stand.until("the old file runs everywhere", |stand| active(stand) == "active\n".repeat(3));
    assert_eq!(stdout(&stand.fleetctl(&["cat", "all"])), everywhere);
    let unit = stand.get("/fleet/v1/units/all.service").json();
    assert!(unit["machines"].is_null() && unit["before"].is_null(), "it is over: {unit}");
}
