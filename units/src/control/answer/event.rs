//! `events`: one line of the event log. See [`super`].

use super::Reason;
use crate::machine::reason::State;
use serde::{Deserialize, Serialize};

/// One object of `events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Event {
    /// Sequence number, from 1.
    #[serde(default)]
    pub seq: u64,
    /// Wall-clock time.
    #[serde(default)]
    pub time: String,
    /// CLOCK_MONOTONIC, microseconds.
    #[serde(default)]
    pub mono_us: u64,
    /// The unit; null for init itself.
    pub unit: Option<String>,
    /// The run.
    #[serde(default)]
    pub run: Option<u64>,
    /// The kind: `state`, `fire` of a trigger, or `boot`, `set-target`, `reload`, `crash` … of init
    /// itself.
    #[serde(default)]
    pub event: String,
    /// The previous state.
    #[serde(default)]
    pub from: Option<State>,
    /// The new state.
    #[serde(default)]
    pub to: Option<State>,
    /// The reason.
    #[serde(default)]
    pub reason: Option<Reason>,
    /// The event that led to this one.
    #[serde(default)]
    pub cause: Option<u64>,
}
