//! What is noted of a process that is started ([`super::notes`]), or of a line of which none came.

use super::frame;
use crate::run::procedure::Part;
use groundstate_units::machine::event::{ExecFailure, RunId};
use groundstate_units::spec::Log;
use serde::{Deserialize, Serialize};

/// A process that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// Of which run.
    pub(crate) run: RunId,
    /// Its line.
    pub(crate) part: Part,
    /// The slot in which it tells how far it came.
    pub(crate) slot: u32,
    /// The read end of its output, as long as it is in PID 1's table, and what tells it from another
    /// that got its number; -1: it is not there.
    pub(crate) output: (i32, u64),
    /// What tells its unit from another that might get the number of its run.
    pub(crate) unit: u64,
    /// Its cgroup was made ahead, as this one.
    pub(crate) ahead: Option<u64>,
    /// Pipes of its own, beside the run's.
    pub(crate) asides: Vec<Aside>,
    /// Just before it was, as [`crate::clock::ticks`] has it: tells it from another that got its pid.
    pub(crate) born: u64,
    /// Of the note alone.
    #[serde(skip)]
    pub(crate) more: More,
}

/// What stands behind a [`Begun`] in its note: that itself is kept in states, and stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct More {
    /// There is no process: why there is none.
    pub(crate) refused: Option<ExecFailure>,
    /// The read end of its `ready-fd`, as [`Begun::output`].
    pub(crate) ready: (i32, u64),
}

impl Begun {
    /// As the text of a note.
    pub(crate) fn text(&self) -> Vec<u8> {
        frame::behind(self, &self.more)
    }

    pub(super) fn of_text(text: &[u8]) -> Option<Begun> {
        frame::both(text).map(|(begun, more)| Begun { more, ..begun })
    }
}

/// The pipe of a line beside a start, or of a stream with a way out of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Aside {
    /// The number it has for the logger.
    pub(crate) run: RunId,
    /// The way out.
    pub(crate) log: Log,
    /// As [`Begun::output`].
    pub(crate) end: (i32, u64),
}
