//! Whose event it was that init had in hand as it crashed: noted in passing, and shown as the
//! unit's reason (`internal`) where it has no other, until somebody restarts or retries the unit.
//! The mark decides nothing.

use crate::event_loop::Init;
use crate::sys::inbox_layout;
use groundstate_units::control::answer::{Cause, Reason, Status};
use groundstate_units::machine::event::Event;
use groundstate_units::machine::reason;
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

impl Init {
    /// The one that was noted, if it is there still.
    pub(crate) fn suspect(&self, noted: u64) -> Option<Name> {
        let units = &self.machine.generation().units;
        let is_it = |name: &&Name| noted != 0 && inbox_layout::unit(name.as_str()) == noted;
        units.iter().map(|unit| &unit.name).find(is_it).cloned()
    }

    /// Somebody wants it anew.
    pub(crate) fn clear_suspects(&mut self, event: &Event) {
        if let Event::Restart(names) | Event::Retry(names) = event {
            names.iter().for_each(|name| _ = self.lineage.suspects.remove(name));
        }
    }

    /// Where nothing else is the matter with them, that is said of them.
    pub(crate) fn show_suspects(&self, status: &mut Status) {
        for unit in &mut status.units {
            if unit.reason.is_none() && self.lineage.suspects.contains(unit.unit.as_str()) {
                let text = reason::Reason::Internal.to_string();
                unit.reason = Some(Reason { text, cause: Cause::Internal });
            }
        }
    }
}
