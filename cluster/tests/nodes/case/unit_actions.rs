//! Operations on units: fleet's unit_action tests.

use super::{Case, SLEEPS, sample, sleeps_with};
use crate::stand::Cluster;
use crate::stand::program::until;

pub(super) const CASES: [Case; 9] =
    [
        sample("started_units_run_and_stopped_ones_do_not", started_and_stopped)
            .like(&["TestUnitRunnable", "TestUnitStart"]),
        sample("submitted_units_are_listed_by_name_and_destroyed", submitted_and_destroyed)
            .like(&["TestUnitSubmit", "TestUnitCat", "TestListUnitFilesOrder"]),
        sample("loaded_units_are_on_machines_and_do_not_run", loaded_and_unloaded)
            .like(&["TestUnitLoad", "TestUnitStatus"]),
        sample("restarted_units_run_again", restarted).like(&["TestUnitRestart"]),
        sample("replaced_units_have_the_new_file", replaced).like(&[
            "TestUnitSubmitReplace",
            "TestUnitLoadReplace",
            "TestUnitStartReplace",
        ]),
        sample("instances_of_a_template_go_where_their_names_say", instances)
            .like(&["TestTemplatesWithSpecifiersInMetadata"]),
        sample("loaded_unit_starts_and_stops_with_the_unit_in_its_wanted_by", install)
            .like(&["TestInstallUnit"]),
        sample("list_units_shows_the_states_of_systemctl_on_the_machine", same_words),
        sample("unit_passes_through_inactive_loaded_and_launched", flow)
            .like(&["TestSystemdUnitFlow"]),
    ];

/// Creates `count` files: NAME@01.service and so on.
fn several(cluster: &Cluster, name: &str, count: usize) -> Vec<String> {
    let names: Vec<String> = (1..=count).map(|n| format!("{name}@{n:02}.service")).collect();
    names.iter().for_each(|name| cluster.file(name, SLEEPS));
    names
}

fn command<'a>(words: &[&'a str], names: &'a [String]) -> Vec<&'a str> {
    words.iter().copied().chain(names.iter().map(String::as_str)).collect()
}

fn started_and_stopped(cluster: &mut Cluster) {
    let names = several(cluster, "hello", 3);
    for _ in 0..2 {
        cluster.node(1).fleetctl(&command(&["start"], &names));
        let active = cluster.when_active(2, 3);
        assert!(names.iter().all(|name| active.contains_key(name)), "{active:?}");
        for (unit, on) in &active {
            let number = on.first().unwrap();
            assert!(cluster.node(*number).main_pid(unit).is_some(), "{unit} runs on n{number}");
        }
        cluster.node(2).fleetctl(&command(&["stop"], &names));
        cluster.when_active(3, 0);
    }
}

fn submitted_and_destroyed(cluster: &mut Cluster) {
    let names = several(cluster, "hello", 20);
    let backwards: Vec<String> = names.iter().rev().cloned().collect();
    for _ in 0..2 {
        cluster.node(1).fleetctl(&command(&["submit"], &backwards));
        // Other machines show a change within moments.
        for number in 1..=3 {
            until("all are there", || (cluster.unit_files(number).len() == 20).then_some(()));
        }
        let text = cluster.node(2).fleetctl(&["list-unit-files", "--fields=unit", "--no-legend"]);
        assert_eq!(text.lines().collect::<Vec<_>>(), names);
        assert_eq!(cluster.node(3).fleetctl(&["cat", &names[4]]), SLEEPS);
        assert!(cluster.active(1).unwrap().is_empty());
        cluster.node(3).fleetctl(&command(&["destroy"], &names));
        until("all are gone", || cluster.unit_files(1).is_empty().then_some(()));
    }
}

fn loaded_and_unloaded(cluster: &mut Cluster) {
    let names = several(cluster, "hello", 6);
    for _ in 0..2 {
        cluster.node(1).fleetctl(&command(&["load"], &names));
        let units = cluster.units(1).unwrap();
        assert_eq!(units.len(), 6, "{units:?}");
        let as_told = |line: &crate::stand::UnitLine| line.load == "loaded" && line.sub == "dead";
        assert!(units.iter().all(as_told), "{units:?}");
        for number in 1..=3 {
            assert_eq!(units.iter().filter(|line| line.node == number).count(), 2, "{units:?}");
        }
        cluster.node(1).fleetctl(&command(&["unload"], &names));
        until("nothing is listed", || cluster.units(1)?.is_empty().then_some(()));
    }
}

fn restarted(cluster: &mut Cluster) {
    let names = several(cluster, "hello", 3);
    let pids = |cluster: &Cluster| -> Vec<Option<i64>> {
        let active = cluster.when_active(1, 3);
        let pid = |(unit, on): (&String, &std::collections::BTreeSet<u8>)| {
            cluster.node(*on.first().unwrap()).main_pid(unit)
        };
        active.iter().map(pid).collect()
    };
    cluster.node(1).fleetctl(&command(&["start"], &names));
    let before = pids(cluster);
    cluster.node(1).fleetctl(&command(&["restart"], &names));
    let after = pids(cluster);
    assert!(before.iter().zip(&after).all(|(old, new)| old != new), "{before:?} {after:?}");
    cluster.node(1).fleetctl(&command(&["stop"], &names));
    cluster.when_active(1, 0);
    cluster.node(1).fleetctl(&command(&["restart"], &names));
    cluster.when_active(1, 3);
}

fn replaced(cluster: &mut Cluster) {
    for (verb, count) in [("submit", 9), ("load", 6), ("start", 3)] {
        let names = several(cluster, verb, count);
        cluster.node(1).fleetctl(&command(&[verb], &names));
        let other = SLEEPS.replace("100000", "200000");
        names.iter().for_each(|name| cluster.file(name, &other));
        cluster.node(1).fleetctl(&command(&[verb, "--replace"], &names));
        assert_eq!(cluster.unit_files(1).len(), count);
        for name in &names {
            until("another node knows of it", || {
                (cluster.node(2).fleetctl(&["cat", name]) == other).then_some(())
            });
        }
        if verb == "start" {
            cluster.when_active(1, count);
        }
        cluster.node(1).fleetctl(&command(&["destroy"], &names));
    }
}

fn instances(cluster: &mut Cluster) {
    cluster.file("metadata@.service", &sleeps_with("MachineMetadata=hostname=%i"));
    cluster.node(1).fleetctl(&["submit", "metadata@.service"]);
    for number in 1..=3 {
        let name = format!("metadata@n{number}.service");
        cluster.node(1).fleetctl(&["start", &name]);
        assert_eq!(cluster.when_on(2, &name), number);
    }
    let nowhere = ["start", "--block-attempts=2", "metadata@invalid.service"];
    let (code, _, printed) = cluster.node(1).try_fleetctl(&nowhere);
    assert_eq!(code, 1, "{printed}");
    let why = "its metadata has hostname=n2, not invalid";
    assert!(printed.contains(why), "{printed}");
}

/// LOAD, ACTIVE and SUB of list-units equal the output of systemctl on the node.
fn same_words(cluster: &mut Cluster) {
    let service = |rest: &str| format!("[Service]\n{rest}\n");
    let units = [
        ("running.service", service("ExecStart=/bin/sleep 100000")),
        ("failed.service", service("ExecStart=/bin/false\nRestart=no")),
        ("retried.service", service("ExecStart=/bin/false\nRestart=always\nRestartSec=1h")),
        ("done.service", service("Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true")),
        ("over.service", service("Type=oneshot\nExecStart=/bin/true")),
        (
            "slow.service",
            service("Type=oneshot\nExecStart=/bin/sleep 100000\nTimeoutStartSec=infinity"),
        ),
        ("listens.socket", "[Socket]\nListenStream=7779\n".to_string()),
        ("listens.service", service("ExecStart=/bin/sleep 100000")),
        ("ticks.timer", "[Timer]\nOnActiveSec=1h\nUnit=later.service\n".to_string()),
        ("later.service", service("ExecStart=/bin/sleep 100000")),
        (
            "stops.service",
            service(
                "ExecStart=/bin/sh -c 'trap : TERM; while :; do sleep 1; done'\nTimeoutStopSec=20s",
            ),
        ),
        ("bad.service", service("Type=oneshot")),
        ("looks.path", "[Path]\nPathExists=/nowhere\nUnit=later.service\n".to_string()),
    ];
    for (name, text) in &units {
        cluster.file(name, text);
        let word =
            if ["listens.service", "later.service"].contains(name) { "load" } else { "start" };
        cluster.node(1).fleetctl(&[word, "--no-block", name]);
    }
    cluster.when_on(1, "stops.service");
    cluster.node(1).fleetctl(&["stop", "--no-block", "stops.service"]);
    until("each is listed as on its node", || {
        let lines = cluster.units(1)?;
        let same = |line: &crate::stand::UnitLine| {
            let states = cluster.node(line.node).systemctl(&line.unit);
            states == format!("{} {} {}", line.load, line.active, line.sub)
        };
        (lines.len() == units.len() && lines.iter().all(same)).then_some(())
    });
}

fn flow(cluster: &mut Cluster) {
    let shown = |cluster: &Cluster| {
        let units = cluster.units(1).unwrap();
        let columns =
            |line: &crate::stand::UnitLine| format!("{} {} {}", line.load, line.active, line.sub);
        units.iter().map(columns).collect::<Vec<_>>()
    };
    let becomes = |cluster: &Cluster, wanted: &str| {
        until(wanted, || (shown(cluster) == [wanted]).then_some(()));
    };
    cluster.file("hello.service", SLEEPS);
    cluster.node(1).fleetctl(&["submit", "hello.service"]);
    assert!(shown(cluster).is_empty());
    cluster.node(1).fleetctl(&["load", "hello.service"]);
    becomes(cluster, "loaded inactive dead");
    let file = cluster::unit_file::UnitFile::parse(SLEEPS).unwrap();
    let hash = |cluster: &Cluster| {
        let states = cluster.node(1).list("list-units").unwrap();
        states[0]["hash"].as_str().unwrap_or_default().to_string()
    };
    assert_eq!(hash(cluster), file.hash());
    cluster.node(1).fleetctl(&["start", "hello.service"]);
    becomes(cluster, "loaded active running");
    assert_eq!(hash(cluster), file.hash());
    cluster.node(1).fleetctl(&["stop", "hello.service"]);
    becomes(cluster, "loaded inactive dead");
    cluster.node(1).fleetctl(&["unload", "hello.service"]);
    until("nothing is listed", || shown(cluster).is_empty().then_some(()));
}

fn install(cluster: &mut Cluster) {
    cluster.file("hello.service", SLEEPS);
    let unit = "[Unit]\nBindsTo=hello.service\nAfter=hello.service\n\n";
    let wanted = "\n[Install]\nWantedBy=hello.service\n\n[X-Fleet]\nMachineOf=hello.service\n";
    cluster.file("discovery.service", &format!("{unit}{SLEEPS}{wanted}"));
    cluster.node(1).fleetctl(&["load", "hello.service", "discovery.service"]);
    let shown = |cluster: &Cluster| {
        let lines = cluster.units(1)?;
        Some(lines.into_iter().map(|line| (line.unit, line.active, line.node)).collect::<Vec<_>>())
    };
    let becomes = |cluster: &Cluster, active: &str| {
        until(&format!("both are {active}"), || {
            let lines = shown(cluster)?;
            let alike = lines.iter().all(|line| line.1 == active && line.2 == lines[0].2);
            (lines.len() == 2 && alike).then_some(())
        });
    };
    becomes(cluster, "inactive");
    for _ in 0..2 {
        cluster.node(2).fleetctl(&["start", "hello.service"]);
        becomes(cluster, "active");
        cluster.node(2).fleetctl(&["stop", "hello.service"]);
        becomes(cluster, "inactive");
    }
}
