//! Findings of a running init: the state of the system, and its failed units.

use super::facts::Facts;
use super::finding;
use groundstate_units::control::answer::{Cause, Finding, Level, Status, System, UnitStatus};
use groundstate_units::machine::reason::State;

/// Reports the state of the system and each failed unit.
pub(super) fn system(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(status) = &facts.status else { return Vec::new() };
    let mut found: Vec<Finding> = failed(status).map(failure_finding).collect();
    let word = status.system.as_str();
    let (level, hint) = match status.system {
        System::Running => (Level::Ok, ""),
        System::Failed => (Level::Error, "`initctl status` shows the units"),
        System::Degraded | System::Starting => (Level::Warning, "`initctl status` shows the units"),
        System::Stopping => (Level::Warning, ""),
    };
    found.push(finding(level, "system", word, hint));
    found
}

/// A unit that failed only because of a dependency repeats the failure of that dependency.
fn failed(status: &Status) -> impl Iterator<Item = &UnitStatus> {
    let is_root = |unit: &&UnitStatus| {
        let cause = unit.reason.as_ref().map(|reason| &reason.cause);
        unit.needed && !matches!(cause, Some(Cause::Dependency { .. }))
    };
    status.units.iter().filter(|unit| unit.state == State::Failed).filter(is_root)
}

fn failure_finding(unit: &UnitStatus) -> Finding {
    let why = unit.reason.as_ref().map_or("", |reason| reason.text.as_str());
    let message = if why.is_empty() { "failed".to_string() } else { format!("failed: {why}") };
    finding(Level::Error, &unit.unit, message, &format!("`initctl why {}`", unit.unit))
}
