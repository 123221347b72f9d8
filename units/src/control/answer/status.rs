//! `status`: the system, its units, its targets.
//! See [`super`].

use super::Reason;
use crate::machine::reason::{State, System};
use crate::spec::Kind;
use serde::{Deserialize, Serialize};
use serde_with::apply;

/// The overlay: changes of the goal by hand.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overlay {
    /// Targets added with `+x` or `want x`.
    pub want: Vec<String>,
    /// Targets that the goal leaves out (`-y`).
    pub drop: Vec<String>,
    /// The time until which each target of `want` counts, in the same order; null for no limit.
    pub until: Vec<Option<String>>,
}

/// Answer of `status`.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// Number of the present generation.
    pub generation: u32,
    /// The goal's targets, without the overlay.
    pub goal: Vec<String>,
    /// The overlay.
    #[serde_with(skip_apply)]
    pub overlay: Overlay,
    /// Sources that were put, by name.
    pub sources: Vec<SourceStatus>,
    /// The state of the system.
    #[serde_with(skip_apply)]
    pub system: System,
    /// True if nothing is starting, stopping or waiting, except for retries after a verdict.
    /// `--wait` waits for this.
    pub settled: bool,
    /// The process tracking: `cgroup2` or `process-group`.
    pub tracking: String,
    /// Number of crashes that PID 1 survived.
    pub crashes: u32,
    /// The time of the last recovery from a crash.
    pub resumed: Option<String>,
    /// The time at which init started.
    pub booted: String,
    /// The time of this answer.
    pub now: String,
    /// The requested units, or all; by name.
    pub units: Vec<UnitStatus>,
    /// The requested targets, or all; by name.
    pub targets: Vec<TargetStatus>,
}

/// One source of a [`Status`]. Its roots are goals beside the given ones.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// Its name.
    pub source: String,
    /// The revision, which each put and each drop increments.
    pub revision: u64,
    /// The roots of the source.
    pub roots: Vec<String>,
}

/// One unit of a [`Status`].
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct UnitStatus {
    /// Its name.
    #[serde_with(skip_apply)]
    pub unit: String,
    /// The type.
    #[serde_with(skip_apply)]
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The description; may be empty.
    pub description: String,
    /// The targets the unit provides.
    pub provides: Vec<String>,
    /// The shown state.
    #[serde_with(skip_apply)]
    pub state: State,
    /// The unit is not needed and not active; screens show `idle`. `state` is `disabled` until 1.0,
    /// and `idle` from then on.
    pub idle: bool,
    /// The unit is active, but a unit that it pulls in, directly or indirectly, is not.
    pub degraded: bool,
    /// The pid of the main process, if there is one.
    pub main_pid: Option<u32>,
    /// The present run, if there is one.
    pub run: Option<u64>,
    /// The start of this state.
    pub since: String,
    /// Consecutive failures.
    pub attempt: u32,
    /// The time of the next automatic try; null if there is none.
    pub next_try: Option<String>,
    /// The unit counts as failed for its dependents, even while it is retried.
    pub verdict: bool,
    /// The run has an older definition.
    pub stale: bool,
    /// The goal, a source or a fired trigger needs the unit, directly or indirectly.
    pub needed: bool,
    /// The goal, the sources and at most eight needed units that pull the unit in, for display.
    pub needed_by: Vec<String>,
    /// The last STATUS= of the run; may be empty.
    pub status: String,
    /// The reason for the state; null if there is none, as for a unit that runs.
    pub reason: Option<Reason>,
    /// The unit can reload its configuration.
    pub can_reload: bool,
    /// The last reload failed or timed out; absent otherwise.
    #[serde_with(skip_apply)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reload_failed: bool,
    /// After a success the unit counts as active. False if it has no `remain`, or its run is over:
    /// an exited unit is then inactive, although its success still counts.
    #[serde_with(skip_apply)]
    #[serde(default = "yes")]
    pub remains: bool,
    /// The file of the definition; `(built in)` for a built-in unit, empty for a removed unit.
    pub file: String,
    /// The source of the unit.
    pub source: Option<String>,
}

fn yes() -> bool {
    true
}

/// One target of a [`Status`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetStatus {
    /// Its name.
    pub target: String,
    /// The provider; null if there is none.
    pub unit: Option<String>,
    /// The state of the provider. Without a provider, `failed` if the target is needed and
    /// `disabled` otherwise.
    pub state: State,
    /// The `degraded` flag of the provider.
    #[serde(default)]
    pub degraded: bool,
    /// The target is up only because of another target of its provider.
    #[serde(default)]
    pub coincidental: bool,
    /// The reason for a missing provider: `masked` or `missing`. Null if there is a provider.
    #[serde(default)]
    pub reason: Option<Reason>,
}
