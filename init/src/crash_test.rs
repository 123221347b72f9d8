//! A bug on purpose, in debug builds alone: `initctl restart crash-test`, of whoever may restart
//! units at all, panics where a bug of the machine would. What follows is [`crate::step`]'s and
//! [`crate::replay`]'s; a build as it is shipped knows no such name.

use groundstate_units::machine::event::Event;

/// The unit.
const UNIT: &str = "crash-test";

/// Panics if this is asked for.
pub(crate) fn strike(event: &Event) {
    let is_it =
        matches!(event, Event::Restart(units) if units.iter().any(|name| name.as_str() == UNIT));
    // Never in a build that is shipped: the module is not there.
    assert!(!is_it, "a bug on purpose");
}
