//! What init shows of itself and of the machine: the answers that only read.

use crate::output::event_log::Entry;
use groundstate_units::control::answer::{Event as Shown, Failure};
use groundstate_units::control::view::{self, Facts};
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use std::time::Duration;

/// A line of the event log. `facts` need no processes here.
pub(crate) fn event(entry: &Entry, facts: &Facts) -> Shown {
    let note = entry.note.as_ref();
    Shown {
        seq: entry.seq,
        time: wall(entry.wall).to_string(),
        mono_us: entry.at.as_nanos() / 1000,
        unit: note.map(|note| &note.unit).or(entry.trigger.as_ref()).map(Name::to_string),
        run: note.and_then(|note| note.run).map(|run| run.0),
        event: entry.event.to_string(),
        from: note.map(|note| note.from),
        to: note.map(|note| note.to),
        reason: note.and_then(|note| Some(view::reason(note.reason.as_ref()?, facts, None))),
        cause: entry.cause,
    }
}

pub(crate) fn stopping() -> Failure {
    Failure::new("stopping", "everything is being stopped", "")
}

pub(crate) fn wall(at: Duration) -> WallTime {
    WallTime::from_millis(u64::try_from(at.as_millis()).unwrap_or(u64::MAX))
}
