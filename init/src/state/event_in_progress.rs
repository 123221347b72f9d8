//! Marks the unit whose event init was processing when an image crashed. Its status shows the
//! reason `internal` until it is restarted or retried. No decision depends on the mark.

use crate::sys::inbox;
use groundstate_units::control::answer::{Cause, Reason, Status};
use groundstate_units::machine::event::Event;
use groundstate_units::machine::reason;
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::Generation;
use std::collections::BTreeSet;

/// Marked units.
pub(crate) type Suspects = BTreeSet<Name>;

/// The number of the unit that an event is about; 0 for none or several.
pub(crate) fn of(event: &Event, of_run: Option<&Name>) -> u64 {
    let named =
        if let Event::Restart(names) | Event::Retry(names) | Event::ReloadUnit(names) = event {
            names.first()
        } else if let Event::Fire(name) = event {
            Some(name)
        } else {
            of_run
        };
    named.map_or(0, |name| inbox::unit(name.as_str()))
}

/// The unit named in the inbox, if the generation has it.
pub(crate) fn unit_of(noted: u64, generation: &Generation) -> Option<Name> {
    let is_it = |name: &&Name| noted != 0 && inbox::unit(name.as_str()) == noted;
    generation.units.iter().map(|unit| &unit.name).find(is_it).cloned()
}

/// Clears the marks of units that are restarted or retried.
pub(crate) fn clear(suspects: &mut Suspects, event: &Event) {
    if let Event::Restart(names) | Event::Retry(names) = event {
        names.iter().for_each(|name| _ = suspects.remove(name));
    }
}

/// Adds the reason `internal` to marked units without another reason.
pub(crate) fn show(suspects: &Suspects, status: &mut Status) {
    for unit in &mut status.units {
        if unit.reason.is_none() && suspects.contains(unit.unit.as_str()) {
            let text = reason::Reason::Internal.to_string();
            unit.reason = Some(Reason { text, cause: Cause::Internal });
        }
    }
}
