//! A plan as it is answered.

use crate::control::answer::{Plan, SCHEMA};
use crate::generation::Generation;
use crate::machine::plan;
use crate::name::Name;

/// A plan as it is answered. `generations`: those in which its units are.
pub fn plan(plan: &plan::Plan, generations: &[&Generation]) -> Plan {
    let names = |names: &[Name]| names.iter().map(Name::to_string).collect::<Vec<_>>();
    let source = |name: &Name| {
        let find = |of: &Generation| {
            Some(of.unit(of.find_unit(name.as_str())?)?.source.as_ref()?.to_string())
        };
        Some((name.to_string(), generations.iter().find_map(|of| find(of))?))
    };
    let waves = plan.stop.iter().chain(&plan.start).flatten();
    let all = waves.chain(&plan.restart).chain(&plan.keep);
    Plan {
        schema: SCHEMA,
        stop: plan.stop.iter().map(|wave| names(wave)).collect(),
        start: plan.start.iter().map(|wave| names(wave)).collect(),
        restart: names(&plan.restart),
        keep: names(&plan.keep),
        sources: all.filter_map(source).collect(),
    }
}
