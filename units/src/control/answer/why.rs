//! `why`: the chain of reasons, and what hangs on it.
//! See [`super`].

use super::{Reason, UnitStatus};
use crate::machine::reason::State;
use crate::spec::DependencyKind;
use serde::{Deserialize, Serialize};

/// Answer of `why`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Why {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// As asked.
    pub target: String,
    /// Who provides it.
    pub unit: Option<String>,
    /// As in [`super::TargetStatus`].
    pub state: State,
    /// See [`UnitStatus::degraded`].
    #[serde(default)]
    pub degraded: bool,
    /// From the unit itself to the root cause, which is last. Each link's `reason` says why it is
    /// as it is, its `target` the name by which the link before it depends on it.
    #[serde(default)]
    pub chain: Vec<Link>,
    /// Who needs it: pulling edges into it, from the nearest to the goal.
    #[serde(default)]
    pub needed_by: Vec<Need>,
    /// Triggers that bring it in when they fire: what waits for an hour, a connection, a file.
    #[serde(default)]
    pub activated_by: Vec<Affected>,
    /// Needed units that are not active, or degraded, because of it.
    #[serde(default)]
    pub affects: Vec<Affected>,
    /// The unit itself, as in `status`; null where nobody provides the target.
    #[serde(default)]
    pub detail: Option<UnitStatus>,
}

/// One link of [`Why::chain`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Link {
    /// Who; null where nobody provides the target.
    pub unit: Option<String>,
    /// By which name.
    pub target: String,
    /// Its state.
    pub state: State,
    /// See [`UnitStatus::degraded`].
    #[serde(default)]
    pub degraded: bool,
    /// Why.
    #[serde(default)]
    pub reason: Option<Reason>,
    /// See [`UnitStatus::next_try`].
    #[serde(default)]
    pub next_try: Option<String>,
    /// It has failed for good: nothing but `retry` or a new definition starts it again. Null
    /// where there is no unit.
    #[serde(default)]
    pub gives_up: Option<bool>,
}

/// One edge of [`Why::needed_by`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Need {
    /// The unit that names it; null: the goal itself.
    pub unit: Option<String>,
    /// The target named.
    pub target: String,
    /// In which list; null: the goal itself.
    #[serde(default)]
    pub kind: Option<DependencyKind>,
    /// With no unit: the source whose root it is; null: the goal itself.
    #[serde(default)]
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
    #[serde(default)]
    pub reason: Option<Reason>,
}
