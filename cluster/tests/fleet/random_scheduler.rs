//! The scheduler on random clusters, against a naive restatement of the rules.

use crate::from_text::{id, machine, name, unit};
use cluster::desired::Desired;
use cluster::machine::Machine;
use cluster::move_order::{Cause, Move};
use cluster::placement::Host;
use cluster::placement::Unit;
use cluster::scheduler::Scheduler;
use cluster::unit_name::UnitName;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// An event in a random cluster.
#[derive(Clone, Debug)]
enum Change {
    Unit(u8, String, Desired),
    Destroy(u8),
    Machine(u8, u8, bool),
    Gone(u8),
    /// The registry has the unit elsewhere than decided.
    Elsewhere(u8, u8),
}

fn options() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => Just(String::new()),
        2 => (0..6u8).prop_map(|n| format!("MachineOf=u{n}.service")),
        2 => (0..6u8).prop_map(|n| format!("Conflicts=u{n}.service")),
        1 => Just("Conflicts=u[0-2].service".to_string()),
        1 => (0..4u8).prop_map(|n| format!("MachineID=m{n}")),
        2 => (0..3u8).prop_map(|n| format!("MachineMetadata=k={n}")),
        1 => (0..3u8).prop_map(|n| format!("Replaces=u{n}.service")),
        1 => Just("Global=true".to_string()),
        1 => (0..3u8).prop_map(|n| format!("Global=true\nMachineMetadata=k={n}")),
        1 => (0..6u8).prop_map(|n| format!("Global=true\nConflicts=u{n}.service")),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let desired = prop_oneof![
        Just(Desired::Inactive),
        Just(Desired::Loaded),
        Just(Desired::Launched),
        Just(Desired::Launched)
    ];
    prop_oneof![
        6 => (0..9u8, options(), desired).prop_map(|(n, o, d)| Change::Unit(n, o, d)),
        1 => (0..9u8).prop_map(Change::Destroy),
        3 => (0..4u8, 0..4u8, prop::bool::weighted(0.1)).prop_map(|(n, k, d)| Change::Machine(n, k, d)),
        1 => (0..4u8).prop_map(Change::Gone),
        1 => (0..9u8, 0..5u8).prop_map(|(n, m)| Change::Elsewhere(n, m)),
    ]
}

fn apply(scheduler: &mut Scheduler, change: &Change) {
    let unit_name = |n: &u8| name(&format!("u{n}.service"));
    match change {
        Change::Unit(n, options, desired) => {
            let own = unit_name(n);
            let on = scheduler.units().get(&own).and_then(|unit| unit.machine.clone());
            // The API refuses rings of Replaces.
            let ring = (*n..9).any(|m| options == &format!("Replaces=u{m}.service"));
            let options = if ring { "" } else { options };
            let new = unit(own.as_str(), options, *desired, None);
            // The last one in the list was wanted first.
            let since = if new.asks.global { 9 - i64::from(*n) } else { 0 };
            scheduler.set_unit(&own, Some(Unit { machine: on, since, ..new }));
        }
        Change::Destroy(n) => scheduler.set_unit(&unit_name(n), None),
        Change::Machine(n, k, draining) => {
            let value = k.to_string();
            let machine = machine(&[("k", value.as_str())]);
            scheduler.set_machine(
                &id(&format!("m{n}")),
                Some(Machine { draining: *draining, ..machine }),
            );
        }
        Change::Gone(n) => scheduler.set_machine(&id(&format!("m{n}")), None),
        Change::Elsewhere(n, m) => {
            let own = unit_name(n);
            if let Some(old) = scheduler.units().get(&own).cloned() {
                let machine = (*m < 4).then(|| id(&format!("m{m}")));
                scheduler.set_unit(&own, Some(Unit { machine, ..old }));
            }
        }
    }
}

/// Applies a group to the registry; each placed unit must be allowed from then on.
fn land(registry: &mut Scheduler, group: &[Move]) {
    for step in group {
        let old = registry.units()[&step.unit].clone();
        registry.set_unit(&step.unit, Some(Unit { machine: step.to.clone(), ..old }));
    }
    for step in group {
        if let Some(to) = &step.to {
            let asks = &registry.units()[&step.unit].asks;
            let host = &registry.hosts()[to];
            // A global unit gives way without the engine.
            let globals = BTreeMap::new();
            let host = Host { globals, ..host.clone() };
            if asks.peers.is_empty() {
                assert_eq!(host.takes(to, &step.unit, asks), Ok(()), "{} to {to}", step.unit);
            }
        }
    }
}

/// Checks the rules: placed units are allowed, and unplaced ones fit nowhere.
fn check(scheduler: &Scheduler) {
    for (own, unit) in scheduler.units() {
        let wanted = unit.desired != Desired::Inactive && !unit.asks.global;
        match &unit.machine {
            Some(machine) => {
                assert!(wanted, "{own} is on {machine} and is not wanted");
                let host = &scheduler.hosts()[machine];
                assert!(host.scheduled.contains_key(own));
                assert_eq!(host.takes(machine, own, &unit.asks), Ok(()), "{own} on {machine}");
            }
            None if wanted => {
                for (machine, host) in scheduler.hosts() {
                    assert!(
                        host.takes(machine, own, &unit.asks).is_err(),
                        "{own} could be on {machine}"
                    );
                }
            }
            None => {}
        }
    }
    for host in scheduler.hosts().values() {
        let mut globals: Vec<(&UnitName, &Unit)> = scheduler
            .units()
            .iter()
            .filter(|(_, unit)| unit.asks.global && unit.desired != Desired::Inactive)
            .collect();
        globals.sort_by_key(|(_, unit)| unit.since);
        let globals = globals.into_iter().map(|(name, unit)| (name, &unit.asks));
        let chosen = host.choose_globals(globals);
        assert!(chosen.keys().eq(host.globals.keys()));
    }
}

/// `CASES` from the environment, or the given number.
fn cases(few: u32) -> u32 {
    std::env::var("CASES").ok().and_then(|all| all.parse().ok()).unwrap_or(few)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(1_500), ..ProptestConfig::default() })]

    #[test]
    fn every_wanted_unit_is_placed_correctly_or_fits_nowhere(
        rounds in prop::collection::vec(prop::collection::vec(change(), 1..6), 1..12)
    ) {
        let mut scheduler = Scheduler::default();
        for changes in &rounds {
            changes.iter().for_each(|change| apply(&mut scheduler, change));
            let before: BTreeMap<_, _> =
                scheduler.units().iter().map(|(n, u)| (n.clone(), u.machine.clone())).collect();
            let mut registry = scheduler.clone();
            let decision = scheduler.decide();
            check(&scheduler);
            for group in &decision.groups {
                land(&mut registry, group);
            }
            let mut applied = before.clone();
            for step in decision.groups.concat() {
                prop_assert_eq!(&applied[&step.unit], &step.from);
                applied.insert(step.unit, step.to);
            }
            let after: BTreeMap<_, _> =
                scheduler.units().iter().map(|(n, u)| (n.clone(), u.machine.clone())).collect();
            prop_assert_eq!(applied, after);
            for step in decision.groups.concat() {
                prop_assert!(step.from.is_none() || step.cause != Cause::Unplaced);
            }
            let mut fresh = Scheduler::default();
            for (id, host) in scheduler.hosts() {
                fresh.set_machine(id, Some(host.machine.clone()));
            }
            for (name, unit) in scheduler.units() {
                fresh.set_unit(name, Some(unit.clone()));
            }
            prop_assert!(fresh.decide().groups.is_empty(), "a new scheduler would move a unit");
            prop_assert!(scheduler.decide().groups.is_empty(), "nothing changed, nothing moves");
        }
    }
}
