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
    pub seq: u64,
    /// Wall clock.
    pub time: String,
    /// CLOCK_MONOTONIC, microseconds.
    pub mono_us: u64,
    /// Whose; null: init itself.
    pub unit: Option<String>,
    /// Which run.
    pub run: Option<u64>,
    /// `state`; for init itself `boot`, `set-target`, `reload`, `crash` …
    pub event: String,
    /// The state before.
    pub from: Option<State>,
    /// The state after.
    pub to: Option<State>,
    /// Why.
    pub reason: Option<Reason>,
    /// The event that led to this one.
    pub cause: Option<u64>,
}
