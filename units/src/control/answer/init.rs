//! About init itself, and about whose things are: `stats`, `ping`, `wait`, `source-list`,
//! `whose`, `cat`.
//! See [`super`].

use super::{Plan, Said, System};
use serde::{Deserialize, Serialize};

/// Answer of `stats`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// Crashes survived.
    #[serde(default)]
    pub crashes: u32,
    /// Open file descriptors of PID 1.
    #[serde(default)]
    pub fds: u64,
    /// Resident bytes of PID 1.
    #[serde(default)]
    pub rss: u64,
    /// Turns of the event loop.
    #[serde(default)]
    pub wakeups: u64,
    /// Units in the generation.
    #[serde(default)]
    pub units: u64,
    /// Runs that are up.
    #[serde(default)]
    pub runs: u64,
    /// How the processes of a run are found: `cgroup2` or `process-group`.
    #[serde(default)]
    pub tracking: String,
}

/// Answer of `ping`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pong {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// init's version.
    #[serde(default)]
    pub version: String,
    /// Its pid in its own namespace.
    #[serde(default)]
    pub pid: u32,
    /// When it began.
    #[serde(default)]
    pub boot: String,
    /// What it is in charge of: `machine`, `container` or `supervisor`.
    #[serde(default)]
    pub mode: String,
    /// `seq` of the latest event.
    #[serde(default)]
    pub seq: u64,
    /// Where it reads and writes.
    pub paths: Paths,
}

/// Where this init reads and writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Paths {
    /// `init.yaml`.
    #[serde(default)]
    pub config: String,
    /// `policy.yaml`.
    #[serde(default)]
    pub policy: String,
    /// The one that lasts until the next boot; null without a runtime directory.
    #[serde(default)]
    pub runtime_policy: Option<String>,
    /// Sockets and what lasts until the next boot; null where there is none that can be written.
    #[serde(default)]
    pub runtime_dir: Option<String>,
    /// Log files.
    #[serde(default)]
    pub log_dir: String,
    /// Earlier hides later.
    #[serde(default)]
    pub unit_dirs: Vec<String>,
}

/// Answer of `wait`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// How it ended.
    pub system: System,
}

/// Answer of `source-list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sources {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// By name.
    #[serde(default)]
    pub sources: Vec<Source>,
}

/// One source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Its name.
    #[serde(default)]
    pub source: String,
    /// Who may put it, besides root and init's uid.
    #[serde(default)]
    pub uid: u32,
    /// Counted up by each put; 0: nothing was put yet.
    #[serde(default)]
    pub revision: u64,
    /// Names of its files.
    #[serde(default)]
    pub files: Vec<String>,
    /// Its roots.
    #[serde(default)]
    pub roots: Vec<String>,
}

/// Answer of `source-put` and `source-drop`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Put {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// Which source.
    #[serde(default)]
    pub source: String,
    /// The one it is at now: what the next put may expect.
    #[serde(default)]
    pub revision: u64,
    /// The generation that holds now.
    #[serde(default)]
    pub generation: u32,
    /// What will happen; null where it was not asked for.
    #[serde(default)]
    pub plan: Option<Plan>,
    /// What was found in the files of the source.
    #[serde(default)]
    pub diagnostics: Vec<Said>,
}

/// Answer of `whose`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Whose {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// As asked.
    #[serde(default)]
    pub pid: u32,
    /// The unit; null: none of ours.
    pub unit: Option<String>,
    /// Its targets.
    #[serde(default)]
    pub targets: Vec<String>,
    /// The run.
    #[serde(default)]
    pub run: Option<u64>,
    /// `main`, `helper` (exec-stop …) or `child`.
    #[serde(default)]
    pub role: Option<String>,
}

/// Answer of `cat`: init has no text, only the place of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Located {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// The unit.
    pub unit: String,
    /// Where its text is.
    #[serde(default)]
    pub file: String,
    /// The line it begins at.
    #[serde(default)]
    pub line: u32,
    /// What was laid over it, in order.
    #[serde(default)]
    pub drop_ins: Vec<String>,
}
