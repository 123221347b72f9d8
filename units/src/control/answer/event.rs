//! `events`: one line of the event log. See [`super`].

use super::Reason;
use crate::machine::reason::State;
use serde::{Deserialize, Serialize};
use serde_with::apply;

/// One object of `events`.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Event {
    /// Sequence number, from 1.
    pub seq: u64,
    /// Wall-clock time.
    pub time: String,
    /// CLOCK_MONOTONIC, microseconds.
    pub mono_us: u64,
    /// The unit; null for init itself.
    pub unit: Option<String>,
    /// The run.
    pub run: Option<u64>,
    /// The kind: `state`, `fire` of a trigger, or `boot`, `set-target`, `reload`, `crash` … of init
    /// itself.
    pub event: String,
    /// The previous state.
    pub from: Option<State>,
    /// The new state.
    pub to: Option<State>,
    /// The reason.
    pub reason: Option<Reason>,
    /// The event that led to this one.
    pub cause: Option<u64>,
}
