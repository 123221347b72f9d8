//! A machine of the cluster as the others see it. How it comes and goes is the
//! registry's; what runs on it is [`crate::scheduler`]'s.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Characters of an id that lists show.
pub const SHORT: usize = 8;

/// The machine's id, from its `/etc/machine-id`: one to 64 of `[A-Za-z0-9_.-]`, not all zeros.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MachineId(Arc<str>);

/// A text that is no machine's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineIdError(String);

impl fmt::Display for MachineIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no machine id: 1 to 64 letters, digits, - _ or ., not all zeros, not `uninitialized`",
            self.0
        )
    }
}

impl std::error::Error for MachineIdError {}

impl MachineId {
    /// # Errors
    /// It could not be one part of a key, or could not tell machines apart.
    pub fn new(text: &str) -> Result<MachineId, MachineIdError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let fits = (1..=64).contains(&text.len()) && text.chars().all(allowed);
        // What systemd writes into an image that was never booted: all of them would be one.
        if !fits
            || text == "uninitialized"
            || text.chars().all(|c| c == '0')
            || text.starts_with('.')
        {
            return Err(MachineIdError(text.chars().take(80).collect()));
        }
        Ok(MachineId(Arc::from(text)))
    }

    /// All of it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its first characters, as lists show it.
    pub fn short(&self) -> &str {
        self.0.get(..SHORT).unwrap_or(&self.0)
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for MachineId {
    type Error = MachineIdError;

    fn try_from(text: String) -> Result<MachineId, MachineIdError> {
        MachineId::new(&text)
    }
}

impl From<MachineId> for String {
    fn from(id: MachineId) -> String {
        id.0.to_string()
    }
}

/// What it publishes, its own metadata and what operators laid over it in one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Where the others reach it; empty when it does not say.
    pub ip: String,
    /// Key and value; a unit asks for these by MachineMetadata.
    pub metadata: BTreeMap<String, String>,
    /// It takes nothing new, and what it has is to go elsewhere.
    pub draining: bool,
    /// It does not answer, and is still waited for: it keeps what it has and gets nothing new.
    pub away: bool,
    /// The key by which nobody can read what it says: it keeps what it has and gets nothing new.
    #[serde(default)]
    pub unread: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_can_not_tell_machines_apart_is_none() {
        for bad in
            ["", "uninitialized", "00000000000000000000000000000000", "a/b", "..", "a b", "\n"]
        {
            assert!(MachineId::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(MachineId::new("282f949fd1d3e94").unwrap().short(), "282f949f");
        assert_eq!(MachineId::new("m1").unwrap().short(), "m1");
    }
}
