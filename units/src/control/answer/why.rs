//! `why`: the chain of reasons of one unit, and the units that depend on the unit. See [`super`].

use super::{Reason, UnitStatus};
use crate::machine::reason::State;
use crate::spec::DependencyKind;
use serde::{Deserialize, Serialize};
use serde_with::apply;

/// Answer of `why`.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Why {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The name in the request.
    #[serde_with(skip_apply)]
    pub target: String,
    /// The provider.
    pub unit: Option<String>,
    /// The state, as in [`super::TargetStatus`].
    #[serde_with(skip_apply)]
    pub state: State,
    /// See [`UnitStatus::degraded`].
    pub degraded: bool,
    /// The chain from the unit itself to the root cause, which is last. The `reason` of a link
    /// explains its state; its `target` is the name by which the previous link depends on it.
    pub chain: Vec<Link>,
    /// Pulling edges from needed units to the unit, then the goal, then sources.
    pub needed_by: Vec<Need>,
    /// Triggers that start the unit when they fire: timers, sockets and paths.
    pub activated_by: Vec<Affected>,
    /// Needed units that are not active, or degraded, because of this unit.
    pub affects: Vec<Affected>,
    /// The unit itself, as in `status`; null if no unit provides the target.
    pub detail: Option<UnitStatus>,
}

/// One link of [`Why::chain`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Link {
    /// The unit; null if no unit provides the target.
    pub unit: Option<String>,
    /// The name by which the previous link depends on the unit.
    pub target: String,
    /// Its state.
    pub state: State,
    /// See [`UnitStatus::degraded`].
    pub degraded: bool,
    /// The reason.
    pub reason: Option<Reason>,
    /// See [`UnitStatus::next_try`].
    pub next_try: Option<String>,
    /// Only `retry` or a new definition starts the failed unit again. Null if there is no unit.
    pub gives_up: Option<bool>,
    /// The file with the unit's text, and the line where it starts. Null if there is no unit.
    pub file: Option<String>,
    /// See `file`.
    pub line: Option<u32>,
}

/// One edge of [`Why::needed_by`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Need {
    /// The unit that names the target; null for the goal itself and for a source.
    pub unit: Option<String>,
    /// The target.
    pub target: String,
    /// The kind of the dependency; null for the goal itself and for a source.
    pub kind: Option<DependencyKind>,
    /// The source that has the target as a root; null if a unit or the goal itself names it.
    pub source: Option<String>,
}

/// One unit of [`Why::affects`], or of [`Why::activated_by`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Affected {
    /// Its name.
    pub unit: String,
    /// Its state.
    pub state: State,
    /// See [`UnitStatus::degraded`].
    #[serde(default)]
    pub degraded: bool,
    /// See [`UnitStatus::reason`].
    pub reason: Option<Reason>,
}
