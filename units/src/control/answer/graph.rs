//! `graph` and `tree`: units and edges.
//! See [`super`].

use super::Reason;
use crate::machine::reason::State;
use crate::spec::{DependencyKind, Kind};
use serde::{Deserialize, Serialize};

/// Answer of `tree` and `graph`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// The goal with the overlay.
    #[serde(default)]
    pub goal: Vec<String>,
    /// Units, by name.
    #[serde(default)]
    pub nodes: Vec<Node>,
    /// Edges, by unit, in the order of the file.
    #[serde(default)]
    pub edges: Vec<Edge>,
}

/// One unit of a [`Graph`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Node {
    /// Its name.
    pub unit: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Its targets.
    #[serde(default)]
    pub provides: Vec<String>,
    /// Its state; null offline.
    #[serde(default)]
    pub state: Option<State>,
    /// See [`super::UnitStatus::degraded`].
    #[serde(default)]
    pub degraded: bool,
    /// See [`super::UnitStatus::needed`].
    #[serde(default)]
    pub needed: bool,
    /// See [`super::UnitStatus::reason`]; null offline.
    #[serde(default)]
    pub reason: Option<Reason>,
}

/// One edge of a [`Graph`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// The unit that names the target.
    #[serde(default)]
    pub from: String,
    /// The target.
    pub target: String,
    /// Its provider; null: nobody.
    #[serde(default)]
    pub to: Option<String>,
    /// In which list.
    pub kind: DependencyKind,
    /// Written `t?`: it may be missing.
    #[serde(default)]
    pub optional: bool,
}
