//! The three states that a user can request for a unit. [`crate::snapshot::Snapshot::reached_by`]
//! returns the state that a unit has reached.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The requested state of a unit.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Desired {
    /// Stored, on no machine.
    #[default]
    Inactive,
    /// On a machine, not running.
    Loaded,
    /// Running on a machine.
    Launched,
}

impl Desired {
    /// The word for this state in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Desired::Inactive => "inactive",
            Desired::Loaded => "loaded",
            Desired::Launched => "launched",
        }
    }
}

impl fmt::Display for Desired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredError(String);

impl fmt::Display for DesiredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid desiredState {:?}: use inactive, loaded or launched", self.0)
    }
}

impl std::error::Error for DesiredError {}

impl FromStr for Desired {
    type Err = DesiredError;

    fn from_str(text: &str) -> Result<Desired, DesiredError> {
        let all = [Desired::Inactive, Desired::Loaded, Desired::Launched];
        let found = all.into_iter().find(|desired| desired.as_str() == text);
        found.ok_or_else(|| DesiredError(text.chars().take(80).collect()))
    }
}
