//! Handwritten schedules for simulated clusters.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use cluster::mutant::{self, Mutant};
use cluster::sim::coverage::Coverage;
use cluster::sim::plan::{Deed, Plan, Rates};
use cluster::sim::run;
use cluster::transaction::MOST_OPERATIONS;
use std::time::Duration;

/// `agent_ttl`
pub(crate) const TTL: Duration = Duration::from_secs(9);

pub(crate) fn plan(machines: usize, deeds: Vec<(u64, Deed)>) -> Plan {
    let deeds = deeds.into_iter().map(|(at, deed)| (Duration::from_millis(at), deed)).collect();
    Plan {
        seed: 1,
        machines,
        engines: machines,
        signed: false,
        drift: vec![0; machines],
        ttl: TTL,
        interval: Duration::from_secs(1),
        grace: Duration::ZERO,
        room: MOST_OPERATIONS,
        rates: Rates { latency: 20, ..Rates::default() },
        deeds,
        heal: Duration::from_secs(45),
    }
}

pub(crate) fn put(unit: usize, asks: &str) -> Deed {
    Deed::Put { unit, asks: asks.to_string(), desired: "launched", at: 0 }
}

pub(crate) fn holds(plan: &Plan) {
    let played = run::run(plan, &mut Coverage::default(), true);
    let failure = played.err().map(|failure| {
        let log = failure.log.join("\n");
        format!("{log}\n{}: {}", failure.what, failure.detail)
    });
    assert_eq!(failure, None);
}

/// Checks that all plans pass without the mutant and that one fails with it.
pub(crate) fn one_detects(plans: impl Iterator<Item = Plan>, mutant: Mutant) {
    let plans: Vec<Plan> = plans.collect();
    plans.iter().for_each(holds);
    mutant::plant(Some(mutant));
    let fails = |plan| run::run(plan, &mut Coverage::default(), false).is_err();
    let seen = plans.iter().any(fails);
    mutant::plant(None);
    assert!(seen, "{mutant:?} is not seen");
}

/// Checks that a plan passes without the mutant and fails with it.
pub(crate) fn detects(plan: &Plan, mutant: Mutant) {
    holds(plan);
    mutant::plant(Some(mutant));
    let played = run::run(plan, &mut Coverage::default(), false);
    mutant::plant(None);
    assert!(played.is_err(), "{mutant:?} is not seen");
}
