//! Classifies the state of a unit at init: final result, stopped, or replaced. [`super`] publishes
//! it.

use crate::record::Ended;
use groundstate_units::control::answer::{Cause, UnitStatus};
use groundstate_units::machine::reason::State;

/// Returns the final result of a unit, or `None` while init may still act on the unit.
pub(super) fn ended(unit: &UnitStatus) -> Option<Ended> {
    let cause = unit.reason.as_ref().map(|reason| &reason.cause);
    match unit.state {
        State::Exited if matches!(cause, Some(Cause::Skipped { .. })) => Some(Ended::Skipped),
        State::Exited => Some(Ended::Done),
        State::Failed => Some(Ended::Failed),
        State::Disabled
        | State::Waiting
        | State::Starting
        | State::Running
        | State::Reloading
        | State::Stopping => None,
    }
}

/// Returns true if no process is left of the unit that previously had this name at init.
pub fn has_given_way(unit: Option<&UnitStatus>) -> bool {
    unit.is_none_or(|unit| {
        let is_left = unit.state == State::Failed && !is_down(Some(unit));
        !is_left && !unit.stale && unit.state != State::Stopping
    })
}

/// Returns true if the unit does not run and init will not start it by itself.
pub fn stays_down(unit: Option<&UnitStatus>) -> bool {
    is_down(unit) && unit.is_none_or(|unit| !unit.needed)
}

/// Returns true if no process of the unit runs. A unit that has exited counts as running until init
/// has stopped it. An unkillable run counts as running although init has given it up. If such a run
/// has no unit file, init reports it as stale and failed.
pub fn is_down(unit: Option<&UnitStatus>) -> bool {
    unit.is_none_or(|unit| {
        let cause = unit.reason.as_ref().map(|reason| &reason.cause);
        let is_ghost = unit.stale && unit.run.is_some() && unit.state == State::Failed;
        let is_left = is_ghost || matches!(cause, Some(Cause::Unkillable { .. }));
        !is_left && matches!(unit.state, State::Disabled | State::Failed | State::Waiting)
    })
}
