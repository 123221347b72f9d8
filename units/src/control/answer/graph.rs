//! `graph` and `tree`: units and edges.
//! See [`super`].

use super::Reason;
use crate::machine::reason::State;
use crate::spec::{DependencyKind, Kind};
use serde::{Deserialize, Serialize};
use serde_with::apply;

/// Answer of `tree` and `graph`.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The goal with the overlay.
    pub goal: Vec<String>,
    /// Units, by name.
    pub nodes: Vec<Node>,
    /// Edges, by unit.
    pub edges: Vec<Edge>,
}

/// One unit of a [`Graph`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Node {
    /// The unit's name.
    pub unit: String,
    /// The unit's type.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The targets the unit provides.
    #[serde(default)]
    pub provides: Vec<String>,
    /// The unit's state; null offline.
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
    /// The provider; null if there is none.
    #[serde(default)]
    pub to: Option<String>,
    /// The kind of the dependency.
    pub kind: DependencyKind,
    /// The dependency is optional, written `t?`.
    #[serde(default)]
    pub optional: bool,
}
