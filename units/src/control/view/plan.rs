//! Answer of `plan`.

use crate::control::answer::{Plan, SCHEMA};
use crate::machine::plan;
use crate::text::name::Name;
use crate::unit::generation::Generation;
use std::collections::BTreeMap;

/// Converts a plan into its answer. `generations` are those that contain its units.
pub fn plan(plan: &plan::Plan, generations: &[&Generation]) -> Plan {
    let names = |names: &[Name]| names.iter().map(Name::to_string).collect::<Vec<_>>();
    // Most generations have no source, so no lookup by name is needed.
    let mut of_sources = BTreeMap::new();
    for generation in generations.iter().rev() {
        let units = generation.units.iter();
        of_sources.extend(units.filter_map(|unit| Some((&unit.name, unit.source.as_ref()?))));
    }
    let source =
        |name: &Name| of_sources.get(name).map(|source| (name.to_string(), source.to_string()));
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
