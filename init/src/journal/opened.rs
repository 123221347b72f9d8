//! What is noted of sockets that a child of init's opens ([`super::notes`]).

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
    /// As the text of a note. What is broken stands behind the rest: another image's ends there.
    pub(crate) fn text(&self) -> Vec<u8> {
        let opened = postcard::to_allocvec(self).unwrap_or_default();
        postcard::to_extend(&self.broken, opened).unwrap_or_default()
    }

    pub(super) fn of_text(text: &[u8]) -> Option<Opened> {
        let (opened, broken) = postcard::take_from_bytes::<Opened>(text).ok()?;
        let broken = postcard::from_bytes(broken).unwrap_or_default();
        Some(Opened { broken, ..opened })
    }
}
