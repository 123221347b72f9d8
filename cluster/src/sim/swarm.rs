//! Additions to a plan that make deeds interact. Several units that conflict on the only suitable
//! machine arrive together. Deeds follow each other before the first has taken effect. A daemon
//! gets a request just after its start. Seconds apart, such deeds never affect each other.
//! [`crate::sim::plan`] defines plans.

use crate::sim::plan::{Deed, Plan, UNITS, VALUES};
use crate::transaction::MOST_OPERATIONS;
use groundstate_units::simulator::rng::Rng;
use std::time::Duration;

/// Time span for the deeds of a crowd, in milliseconds.
const CROWD: u64 = 1_500;
/// Maximum delay of a following deed, in milliseconds.
const HASTE: u64 = 250;
/// Maximum delay of the first request to a starting fleetd, in milliseconds.
const FIRST_QUESTION: u64 = 2_500;

/// Makes a plan harder, or leaves it unchanged, depending on its seed.
pub fn thicken(plan: &mut Plan) {
    let mut chance = Rng::of(plan.seed, 3, 0);
    plan.room = [6, 20, MOST_OPERATIONS][chance.below(3)];
    if chance.percent(40) {
        if chance.percent(40) {
            plan.rates.late = 25;
        }
        for _ in 0..chance.between(1, 3) {
            crowd(&mut chance, plan);
        }
    }
    if chance.percent(60) {
        hasten(&mut chance, plan);
    }
    plan.deeds.sort_by_key(|(at, _)| *at);
}

/// Adds units that conflict with each other.
fn crowd(chance: &mut Rng, plan: &mut Plan) {
    let wanted = chance.below(plan.machines);
    let begin = chance.between(3_000, 38_000);
    for _ in 0..chance.between(3, 6) {
        let (unit, at) = (chance.below(6), chance.below(plan.machines));
        let other = UNITS[chance.below(6)];
        let asks = match chance.below(8) {
            0..=2 => format!("MachineMetadata=n={wanted}\nConflicts=[a-f].service\n"),
            3 => format!("Global=true\nConflicts={other}\n"),
            4 => format!("MachineOf={other}\n"),
            5 => format!("MachineOf={other}\nMachineMetadata=n={wanted}\n"),
            6 => format!("Exclusive=true\nMachineMetadata=k={}\n", VALUES[chance.below(3)]),
            _ => format!("Exclusive=true\nConflicts={other}\n"),
        };
        let when = Duration::from_millis(begin + chance.between(0, CROWD));
        plan.deeds.push((when, Deed::Put { unit, asks, desired: "launched", at }));
    }
    if chance.percent(50) {
        let when = Duration::from_millis(begin + chance.between(0, CROWD));
        let at = chance.below(plan.machines);
        plan.deeds.push((when, Deed::Drain { of: wanted, on: true, at }));
        let later = when + Duration::from_millis(chance.between(500, 6_000));
        plan.deeds.push((later, Deed::Drain { of: wanted, on: false, at }));
    }
}

/// Adds deeds that follow others before they have taken effect.
fn hasten(chance: &mut Rng, plan: &mut Plan) {
    for (at, deed) in plan.deeds.clone() {
        if !chance.percent(30) {
            continue;
        }
        let soon = at + Duration::from_millis(chance.between(1, HASTE));
        match deed {
            Deed::Put { unit, .. } | Deed::Wish { unit, .. } => {
                let next = after_a_wish(chance, plan, unit);
                plan.deeds.push((soon, next));
            }
            Deed::Metadata { of, .. } => {
                let (value, at) = (VALUES[chance.below(3)], chance.below(plan.machines));
                plan.deeds.push((soon, Deed::Metadata { of, value: Some(value), at }));
            }
            Deed::CrashFleetd { machine, time } => {
                plan.deeds.push((at, Deed::Compact));
                for _ in 0..3 {
                    let when = at + time + Duration::from_millis(chance.between(1, FIRST_QUESTION));
                    let unit = chance.below(6);
                    plan.deeds.push((when, Deed::Get { unit, at: machine }));
                }
            }
            Deed::Drain { of, on, at } => plan.deeds.push((soon, Deed::Drain { of, on: !on, at })),
            _ => {}
        }
    }
}

fn after_a_wish(chance: &mut Rng, plan: &Plan, unit: usize) -> Deed {
    let (of, at) = (chance.below(plan.machines), chance.below(plan.machines));
    match chance.below(8) {
        0 => Deed::Wish { unit, desired: "inactive", at },
        1 => Deed::Wish { unit, desired: "loaded", at },
        2 | 3 => Deed::Destroy { unit, at },
        4 => Deed::Put { unit, asks: String::new(), desired: "launched", at },
        5 => Deed::Drain { of, on: true, at },
        6 => Deed::Metadata { of, value: Some(VALUES[chance.below(3)]), at },
        _ => Deed::EndLease { machine: of },
    }
}
