//! `plan`, and the answers of the verbs that change something.
//! See [`super`].

use super::Said;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Answer of `plan`, and part of that of `set-target`, `want`, `reload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// Units to stop, in waves in the order in which they are told, sorted within a wave.
    #[serde(default)]
    pub stop: Vec<Vec<String>>,
    /// Units to start, in the same form.
    #[serde(default)]
    pub start: Vec<Vec<String>>,
    /// Units in both lists that were needed and stay needed.
    #[serde(default)]
    pub restart: Vec<String>,
    /// Units that stay up unchanged.
    #[serde(default)]
    pub keep: Vec<String>,
    /// Units of these lists that come from a source, with its name.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
}

/// Answer of `set-target`, `want`, `unwant`, `reload` and the policy verbs: the effects of the
/// request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// The present generation.
    #[serde(default)]
    pub generation: u32,
    /// The plan.
    #[serde(default)]
    pub plan: Plan,
    /// Diagnostics about the unit files of a reload that was accepted.
    #[serde(default)]
    pub diagnostics: Vec<Said>,
}

/// Answer of `restart`, `reload-unit`, `kill`, `retry`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// The units concerned.
    #[serde(default)]
    pub units: Vec<String>,
    /// Units to restart that were not up; each starts as soon as it may.
    #[serde(default)]
    pub idle: Vec<String>,
}
