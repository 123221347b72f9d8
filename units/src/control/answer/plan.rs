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
    /// Units in the order they will be told: waves, sorted within.
    #[serde(default)]
    pub stop: Vec<Vec<String>>,
    /// Likewise.
    #[serde(default)]
    pub start: Vec<Vec<String>>,
    /// Those in both lists that were and stay needed.
    #[serde(default)]
    pub restart: Vec<String>,
    /// Up, and left alone.
    #[serde(default)]
    pub keep: Vec<String>,
    /// Those of all these that come from a source, with its name.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
}

/// Answer of `set-target`, `want`, `unwant`, `reload` and the policy verbs: what was
/// set going.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// The generation that holds now.
    #[serde(default)]
    pub generation: u32,
    /// What will happen.
    #[serde(default)]
    pub plan: Plan,
    /// What was found in the unit files of a reload that was taken all the same.
    #[serde(default)]
    pub diagnostics: Vec<Said>,
}

/// Answer of `restart`, `reload-unit`, `kill`, `retry`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// The units that were told.
    #[serde(default)]
    pub units: Vec<String>,
    /// Of these, to be restarted, those that were not up: each starts as soon as it may.
    #[serde(default)]
    pub idle: Vec<String>,
}
