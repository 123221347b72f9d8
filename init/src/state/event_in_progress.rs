//! Whose event it was that init had in hand as it crashed: noted in passing, and shown as the
//! unit's reason (`internal`) where it has no other, until somebody restarts or retries the unit.
//! The mark decides nothing.

use crate::sys::inbox_layout;
use groundstate_units::machine::event::Event;
use groundstate_units::text::name::Name;
use std::collections::BTreeSet;

/// Those there are.
pub(crate) type Suspects = BTreeSet<Name>;

/// What tells the unit an event is about; 0: it is about none, or about many.
pub(crate) fn of(event: &Event, of_run: Option<&Name>) -> u64 {
    let named =
        if let Event::Restart(names) | Event::Retry(names) | Event::ReloadUnit(names) = event {
            names.first()
        } else if let Event::Fire(name) = event {
            Some(name)
        } else {
            of_run
        };
    named.map_or(0, |name| inbox_layout::unit(name.as_str()))
}
