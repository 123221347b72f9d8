//! `plan`, and the answers of the verbs that change something.
//! See [`super`].

use super::Said;
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::collections::BTreeMap;

/// Answer of `plan`, and part of that of `set-target`, `want`, `reload`.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// Units to stop: waves in the order of the stops, sorted within a wave.
    pub stop: Vec<Vec<String>>,
    /// Units to start, in the same form.
    pub start: Vec<Vec<String>>,
    /// Units in both lists.
    pub restart: Vec<String>,
    /// Units that stay up unchanged.
    pub keep: Vec<String>,
    /// Units of these lists that come from a source, with its name.
    pub sources: BTreeMap<String, String>,
}

/// Answer of `set-target`, `want`, `unwant`, `reload` and the policy verbs: the effects of the
/// request.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The present generation.
    pub generation: u32,
    /// The plan.
    pub plan: Plan,
    /// Diagnostics about the unit files of a reload that was accepted.
    pub diagnostics: Vec<Said>,
}

/// Answer of `restart`, `reload-unit`, `kill`, `retry`.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The units concerned.
    pub units: Vec<String>,
    /// Units to restart that were not up; each starts as soon as it may.
    pub idle: Vec<String>,
}
