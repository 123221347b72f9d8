//! A machine of the cluster as others see it. The registry adds and removes machines;
//! [`crate::scheduler`] decides what runs on them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Length of an id in lists.
pub const SHORT: usize = 8;

/// The machine's id, from its `/etc/machine-id`: one to 64 of `[A-Za-z0-9_.-]`. It is not all zeros
/// and not `uninitialized`, and it does not start with a dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MachineId(Arc<str>);

/// A text that is not a machine id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineIdError(String);

impl fmt::Display for MachineIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a machine id: 1 to 64 letters, digits, - _ or ., not starting with a dot, \
             not all zeros, not `uninitialized`",
            self.0
        )
    }
}

impl std::error::Error for MachineIdError {}

impl MachineId {
    /// Checks and creates a machine id.
    ///
    /// # Errors
    /// The text does not fit into a key or does not identify a machine.
    pub fn new(text: &str) -> Result<MachineId, MachineIdError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let fits = (1..=64).contains(&text.len()) && text.chars().all(allowed);
        // systemd writes this into an image that was never booted: all such machines would share
        // one id.
        if !fits
            || text == "uninitialized"
            || text.chars().all(|c| c == '0')
            || text.starts_with('.')
        {
            return Err(MachineIdError(text.chars().take(80).collect()));
        }
        Ok(MachineId(Arc::from(text)))
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first characters, as shown in lists.
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

/// A machine as the scheduler sees it: its own metadata merged with the operators' overrides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The address for other machines; empty if unknown.
    pub ip: String,
    /// Metadata, which units match with MachineMetadata.
    pub metadata: BTreeMap<String, String>,
    /// The machine takes no new units, and its units are moved away.
    pub draining: bool,
    /// The machine does not answer and its grace is running, or `unread` is set. It keeps its units
    /// and gets no new ones.
    pub away: bool,
    /// An unreadable key of the machine, if any. The machine then keeps its units and gets no new
    /// ones.
    #[serde(default)]
    pub unread: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_that_does_not_identify_a_machine_is_refused() {
        for bad in
            ["", "uninitialized", "00000000000000000000000000000000", "a/b", "..", "a b", "\n"]
        {
            assert!(MachineId::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(MachineId::new("282f949fd1d3e94").unwrap().short(), "282f949f");
        assert_eq!(MachineId::new("m1").unwrap().short(), "m1");
    }
}
