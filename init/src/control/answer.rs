//! The form of answers: one JSON object a line.

use crate::output::event_log::Entry;
use groundstate_units::control::answer::{Event as Shown, Failure, Line};
use groundstate_units::control::view::{self, Facts};
use groundstate_units::machine::reason::Refusal;
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use serde::Serialize;
use std::time::Duration;

/// An answer as the JSON of its `ok`, or `None` if it is sent later.
pub(crate) type Answered = Result<Option<Box<dyn erased::Answer>>, Failure>;

/// Type-erased answers.
pub(crate) mod erased {
    use super::{Line, Serialize};

    pub(crate) trait Answer {
        /// The line, with its newline.
        fn line(&self, id: u64) -> Vec<u8>;
    }

    impl<T: Serialize> Answer for T {
        fn line(&self, id: u64) -> Vec<u8> {
            super::line(&Line::ok(id, self))
        }
    }
}

pub(crate) fn line(answer: &impl Serialize) -> Vec<u8> {
    // A value that cannot be serialized is a bug; the client then gets an empty line.
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    line.push(b'\n');
    line
}

pub(crate) fn failed(id: u64, failure: Failure) -> Vec<u8> {
    line(&Line::<()>::error(id, failure))
}

#[allow(clippy::unnecessary_wraps, reason = "the last word of most verbs")]
pub(crate) fn now(answer: impl Serialize + 'static) -> Answered {
    Ok(Some(Box::new(answer)))
}

pub(crate) fn refused(refusal: Refusal) -> Failure {
    Failure::new(&refusal.kind, refusal.message, refusal.hint)
}

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
    Failure::new("stopping", "a shutdown is in progress", "")
}

pub(crate) fn wall(at: Duration) -> WallTime {
    WallTime::from_millis(u64::try_from(at.as_millis()).unwrap_or(u64::MAX))
}
