//! `blame`: how long starts took.
//! See [`super`].

use serde::{Deserialize, Serialize};

/// Answer of `blame`, which `critical-chain` and `plot` are drawn from too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blame {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// Units that have been started, or have failed for the sake of another; by name.
    #[serde(default)]
    pub units: Vec<Timing>,
}

/// How long one unit's latest start took. CLOCK_MONOTONIC, microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Timing {
    /// Its name.
    pub unit: String,
    /// When it became needed, or was next tried.
    #[serde(default)]
    pub waited_from_us: u64,
    /// When it was started; null: never, it failed for the sake of another.
    #[serde(default)]
    pub started_us: Option<u64>,
    /// When it became ready; null: not yet.
    #[serde(default)]
    pub ready_us: Option<u64>,
    /// When it had first failed so that what waits for it went on; null: it had not, or was ready
    /// before.
    #[serde(default)]
    pub failed_us: Option<u64>,
    /// The provider whose becoming ready let it start.
    #[serde(default)]
    pub after: Option<String>,
    /// How often init has restarted it by itself since it was last started or restarted by hand.
    #[serde(default)]
    pub restarts: u32,
    /// Its first start that became ready, where it has been started again since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Box<Timing>>,
}
