//! `events`: one line of what happened.
//! See [`super`].

use super::Reason;
use crate::machine::reason::State;
use serde::{Deserialize, Serialize};

/// One object of `events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Event {
    /// Counted from 1.
    #[serde(default)]
    pub seq: u64,
    /// Wall-clock time.
    #[serde(default)]
    pub time: String,
    /// CLOCK_MONOTONIC, microseconds.
    #[serde(default)]
    pub mono_us: u64,
    /// Whose; null: init itself.
    pub unit: Option<String>,
    /// Which run.
    #[serde(default)]
    pub run: Option<u64>,
    /// `state`; of a trigger `fire`; for init itself `boot`, `set-target`, `reload`, `crash` …
    #[serde(default)]
    pub event: String,
    /// The state before.
    #[serde(default)]
    pub from: Option<State>,
    /// The state after.
    #[serde(default)]
    pub to: Option<State>,
    /// Why.
    #[serde(default)]
    pub reason: Option<Reason>,
    /// The event that led to this one.
    #[serde(default)]
    pub cause: Option<u64>,
}
