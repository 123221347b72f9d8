//! How `fleetctl` ends badly: a code and, if it is still to be said, a sentence.

use std::time::Duration;

/// An end that is none of success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// The exit code.
    pub(super) code: u8,
    /// For stderr; empty: said already.
    pub(super) message: String,
    /// No answer, or none yet: the next one may be another.
    pub(super) passing: bool,
    /// When it may be, as who refused said.
    pub(super) later: Option<Duration>,
}

impl Trouble {
    /// Exit code 1, as fleetctl always had it.
    pub(super) fn new(message: impl Into<String>) -> Trouble {
        Trouble { code: 1, message: message.into(), passing: false, later: None }
    }

    /// The same of what may be gone in a moment.
    pub(super) fn passing(message: impl Into<String>) -> Trouble {
        Trouble { passing: true, ..Trouble::new(message) }
    }

    /// Exit code 1, and nothing more to say.
    pub(super) fn said() -> Trouble {
        Trouble::new("")
    }
}
