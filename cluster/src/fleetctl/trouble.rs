//! Errors of `fleetctl`: an exit code and, if not printed yet, a message.

use std::time::Duration;

/// An error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// The exit code.
    pub(super) code: u8,
    /// The message for stderr; empty if already printed.
    pub(super) message: String,
    /// True if a retry may succeed: there was no answer, or not yet.
    pub(super) passing: bool,
    /// The server's Retry-After.
    pub(super) retry_after: Option<Duration>,
}

impl Trouble {
    /// An error with exit code 1, as in fleetctl.
    pub(super) fn new(message: impl Into<String>) -> Trouble {
        Trouble { code: 1, message: message.into(), passing: false, retry_after: None }
    }

    /// An error that a retry may resolve.
    pub(super) fn passing(message: impl Into<String>) -> Trouble {
        Trouble { passing: true, ..Trouble::new(message) }
    }

    /// Exit code 1 without a message.
    pub(super) fn already_printed() -> Trouble {
        Trouble::new("")
    }
}
