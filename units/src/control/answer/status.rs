//! `status`: the system, its units, its targets.
//! See [`super`].

use super::Reason;
use crate::machine::reason::{State, System};
use crate::spec::Kind;
use serde::{Deserialize, Serialize};

/// What was added to and taken from the goal by hand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overlay {
    /// `+x`, `want x`.
    #[serde(default)]
    pub want: Vec<String>,
    /// `-y`.
    #[serde(default)]
    pub drop: Vec<String>,
    /// For each of `want`, in the same order: when it ends; null: never.
    #[serde(default)]
    pub until: Vec<Option<String>>,
}

/// Answer of `status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// Number of the present set of units.
    #[serde(default)]
    pub generation: u32,
    /// The goal's targets, without the overlay.
    #[serde(default)]
    pub goal: Vec<String>,
    /// The overlay.
    pub overlay: Overlay,
    /// Sources that were put, by name.
    #[serde(default)]
    pub sources: Vec<SourceStatus>,
    /// In one word.
    pub system: System,
    /// Nothing is starting, stopping or waiting, but for retries past a verdict: what `--wait` waits for.
    #[serde(default)]
    pub settled: bool,
    /// How the processes of a run are found: `cgroup2` or `process-group`.
    #[serde(default)]
    pub tracking: String,
    /// Crashes of PID 1 so far that it survived.
    #[serde(default)]
    pub crashes: u32,
    /// When it last came back from one.
    #[serde(default)]
    pub resumed: Option<String>,
    /// When init began.
    #[serde(default)]
    pub booted: String,
    /// init's clock at this answer.
    #[serde(default)]
    pub now: String,
    /// Units asked for, or all; by name.
    #[serde(default)]
    pub units: Vec<UnitStatus>,
    /// Targets asked for, or all; by name.
    #[serde(default)]
    pub targets: Vec<TargetStatus>,
}

/// One source of a [`Status`]: its roots are goals beside those given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// Its name.
    #[serde(default)]
    pub source: String,
    /// How often it was put.
    #[serde(default)]
    pub revision: u64,
    /// Its roots.
    #[serde(default)]
    pub roots: Vec<String>,
}

/// One unit of a [`Status`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct UnitStatus {
    /// Its name.
    pub unit: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Its description; may be empty.
    #[serde(default)]
    pub description: String,
    /// Its targets.
    #[serde(default)]
    pub provides: Vec<String>,
    /// What an operator sees.
    pub state: State,
    /// Active, but something it needs softly is not.
    #[serde(default)]
    pub degraded: bool,
    /// Where there is one.
    #[serde(default)]
    pub main_pid: Option<u32>,
    /// The present run, where there is one.
    #[serde(default)]
    pub run: Option<u64>,
    /// Since when it is in this state.
    #[serde(default)]
    pub since: String,
    /// Failures in a row.
    #[serde(default)]
    pub attempt: u32,
    /// When it is tried again by itself; null: it is not.
    #[serde(default)]
    pub next_try: Option<String>,
    /// Its failures count for what waits for it, also while it is tried again.
    #[serde(default)]
    pub verdict: bool,
    /// It runs with an older definition.
    #[serde(default)]
    pub stale: bool,
    /// The goal, or something the goal needs, needs it.
    #[serde(default)]
    pub needed: bool,
    /// Targets of needed units and goals that pull it in: at most a handful, for show.
    #[serde(default)]
    pub needed_by: Vec<String>,
    /// The last STATUS= it sent; may be empty.
    #[serde(default)]
    pub status: String,
    /// Why it is not simply running.
    #[serde(default)]
    pub reason: Option<Reason>,
    /// It can be told to take in its configuration anew.
    #[serde(default)]
    pub can_reload: bool,
    /// The last time that was tried it failed, or took too long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reload_failed: bool,
    /// An exited run counts as active. False: it is over, and the unit is inactive though its
    /// success stands.
    #[serde(default = "yes")]
    pub remains: bool,
    /// The file of its definition; may be empty for built-in units.
    #[serde(default)]
    pub file: String,
    /// The source it came from.
    #[serde(default)]
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
    /// Who provides it; null: nobody.
    pub unit: Option<String>,
    /// Its provider's; without one, `failed` where it is needed and else `disabled`.
    pub state: State,
    /// Its provider's flag.
    #[serde(default)]
    pub degraded: bool,
    /// Up only because of another target of its provider.
    #[serde(default)]
    pub coincidental: bool,
    /// Why it has no provider: it is `masked`, or `missing`. Null where it has one.
    #[serde(default)]
    pub reason: Option<Reason>,
}
