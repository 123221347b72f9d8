//! Whether a unit at init has come to an end, and to which. What is told of it is [`super`]'s.

use crate::record::Ended;
use groundstate_units::control::answer::{Cause, UnitStatus};
use groundstate_units::machine::reason::State;

/// What came of it, as far as init does nothing more by itself.
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

/// Nothing runs any more of what was there before another one came under its name.
pub fn has_given_way(unit: Option<&UnitStatus>) -> bool {
    unit.is_none_or(|unit| {
        let is_left = unit.state == State::Failed && !is_down(Some(unit));
        !is_left && !unit.stale && unit.state != State::Stopping
    })
}

/// Nothing of it runs, nor does init begin it (again) by itself.
pub fn is_out(unit: Option<&UnitStatus>) -> bool {
    is_down(unit) && unit.is_none_or(|unit| !unit.needed)
}

/// Nothing of it runs (any more). What init can not kill does, though init has given it up: its run
/// goes on, and of one whose file is gone no more is said than that.
pub fn is_down(unit: Option<&UnitStatus>) -> bool {
    unit.is_none_or(|unit| {
        let cause = unit.reason.as_ref().map(|reason| &reason.cause);
        let is_ghost = unit.stale && unit.run.is_some() && unit.state == State::Failed;
        let is_left = is_ghost || matches!(cause, Some(Cause::Unkillable { .. }));
        !is_left && matches!(unit.state, State::Disabled | State::Failed | State::Waiting)
    })
}
