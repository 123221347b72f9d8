//! What is noted of sockets that a child of init's opens ([`super::notes`]).

use super::frame;
use groundstate_units::machine::event::RunId;
use serde::{Deserialize, Serialize};

/// Sockets that have come from who opened them, or why they have not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Opened {
    /// Of which run.
    pub(crate) run: RunId,
    /// What tells its unit from another that might get the number of its run.
    pub(crate) unit: u64,
    /// Their numbers, and what tells each from another that got its number.
    pub(crate) descriptors: Vec<(i32, u64)>,
    /// Which one is not open, and why.
    #[serde(skip)]
    pub(crate) broken: Option<(String, i32)>,
}

impl Opened {
    /// As the text of a note. What is broken stands behind the rest.
    pub(crate) fn text(&self) -> Vec<u8> {
        frame::behind(self, &self.broken)
    }

    pub(super) fn of_text(text: &[u8]) -> Option<Opened> {
        frame::both(text).map(|(opened, broken)| Opened { broken, ..opened })
    }
}
