//! `doctor`: what a machine lacks for a boot. The client makes this answer, not init. See [`super`].

use super::SCHEMA;
use serde::{Deserialize, Serialize};
use serde_with::apply;

/// Answer of `doctor`.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Doctor {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Number of errors.
    pub errors: usize,
    /// Number of warnings.
    pub warnings: usize,
    /// All findings: errors, warnings, and then results without a fault.
    pub findings: Vec<Finding>,
}

/// One result of a check.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The level.
    #[serde_with(skip_apply)]
    pub level: Level,
    /// The file, program, unit or device that was checked.
    pub subject: String,
    /// The message.
    pub message: String,
    /// The hint: what to do; may be empty.
    pub hint: String,
}

/// The level of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A boot fails, or leaves out a part that was asked for.
    Error,
    /// A part of the machine does not work, or works differently than under the previous init.
    Warning,
    /// No fault.
    Ok,
}

impl Doctor {
    /// Sorts the findings by level and counts them.
    pub fn new(mut findings: Vec<Finding>) -> Doctor {
        findings.sort_by_key(|finding| finding.level);
        let count = |level| findings.iter().filter(|finding| finding.level == level).count();
        let (errors, warnings) = (count(Level::Error), count(Level::Warning));
        Doctor { schema: SCHEMA, errors, warnings, findings }
    }
}
