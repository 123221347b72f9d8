//! Shrinks a failing schedule: removes deeds and network faults while it fails in the same way, for
//! a person to read.

use crate::sim::coverage::Coverage;
use crate::sim::plan::{Plan, Rates};
use crate::sim::run::{Failure, run};

/// Returns the smallest failing plan found and its failure, or `None` if it does not fail.
pub fn shrink(plan: &Plan) -> Option<(Plan, Failure)> {
    let fails = |plan: &Plan| run(plan, &mut Coverage::default(), false).err();
    let mut failure = fails(plan)?;
    let mut plan = plan.clone();
    let mut keep = |plan: &mut Plan, less: Plan| {
        let found = fails(&less).filter(|found| found.what == failure.what);
        found.is_some_and(|found| {
            (*plan, failure) = (less, found);
            true
        })
    };
    let calm = Rates { lost: 0, late: 0, refused: 0, init: 0, ..plan.rates.clone() };
    let less = Plan { rates: calm, ..plan.clone() };
    keep(&mut plan, less);
    let still = Plan { drift: vec![0; plan.machines], ..plan.clone() };
    keep(&mut plan, still);
    let mut chunk = plan.deeds.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        while at < plan.deeds.len() {
            let mut less = plan.clone();
            less.deeds.drain(at..(at + chunk).min(plan.deeds.len()));
            if !keep(&mut plan, less) {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    let log = run(&plan, &mut Coverage::default(), true).err();
    Some((plan, log.unwrap_or(failure)))
}
