//! `blame`: the duration of starts. See [`super`].

use serde::{Deserialize, Serialize};
use serde_with::apply;

/// Answer of `blame`; `critical-chain` and `plot` are drawn from it too.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blame {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// Units that were started, or failed because of another unit; by name.
    pub units: Vec<Timing>,
}

/// Times of one unit's latest start: CLOCK_MONOTONIC, microseconds.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Timing {
    /// The unit's name.
    #[serde_with(skip_apply)]
    pub unit: String,
    /// The time at which the unit became needed, or was next tried.
    pub waited_from_us: u64,
    /// The time of the start; null if the unit failed because of another one.
    pub started_us: Option<u64>,
    /// The time at which the unit became ready; null if it is not.
    pub ready_us: Option<u64>,
    /// The time of the first failure that let waiting units continue; null if there was none, or
    /// the unit was ready before.
    pub failed_us: Option<u64>,
    /// The provider that became ready and so let the unit start.
    pub after: Option<String>,
    /// Number of automatic restarts since the last start or restart by hand.
    pub restarts: u32,
    /// The first start that became ready, if the unit has started again since; absent otherwise.
    #[serde_with(skip_apply)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Box<Timing>>,
}
