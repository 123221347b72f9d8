//! About init itself, and about whose things are: `stats`, `ping`, `wait`, `source-list`,
//! `whose`, `cat`.
//! See [`super`].

use super::{Plan, Said, System};
use crate::unit::generation::{FileRecord, Stamp};
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
    /// What was not dealt with, because it was too much, not allowed or of no use.
    #[serde(default)]
    pub dropped: Dropped,
}

/// What init has dropped since it began. All count on to their end, and stay there. Over an upgrade and a
/// crash `callers-turned-away`, `messages-refused` and `messages-unusable` count on; the others begin at 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Dropped {
    /// Connections to the control socket for which there was no room, or that gave way to another.
    #[serde(default)]
    pub callers_turned_away: u64,
    /// Those that were cut off: what they were sent they did not read, or began a line and did not end it.
    #[serde(default)]
    pub callers_cut_off: u64,
    /// Datagrams on the notify socket from processes that may not speak for a unit.
    #[serde(default)]
    pub messages_refused: u64,
    /// Datagrams that were too long, or without a sender.
    #[serde(default)]
    pub messages_unusable: u64,
    /// Descriptors that came along on either socket and were closed.
    #[serde(default)]
    pub descriptors_closed: u64,
    /// Lines of init's own that were not said: too many at once, or nobody took them.
    #[serde(default)]
    pub lines_not_said: u64,
    /// Lines of units that a way out (a console, a log) did not get because it stood still.
    #[serde(default)]
    pub lines_not_shown: u64,
    /// What was told of runs that were over by then.
    #[serde(default)]
    pub events_too_late: u64,
}

impl Dropped {
    /// Each with its name in the answer.
    #[must_use]
    pub fn all(&self) -> [(&'static str, u64); 8] {
        [
            ("callers turned away", self.callers_turned_away),
            ("callers cut off", self.callers_cut_off),
            ("messages refused", self.messages_refused),
            ("messages unusable", self.messages_unusable),
            ("descriptors closed", self.descriptors_closed),
            ("lines not said", self.lines_not_said),
            ("lines not shown", self.lines_not_shown),
            ("events too late", self.events_too_late),
        ]
    }
}

/// Answer of `ping`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    /// Since when events are counted, of CLOCK_MONOTONIC in microseconds. Another init process counts from 1
    /// again, and says another time. 0: an init that does not say so.
    #[serde(default)]
    pub seq_mono_us: u64,
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
    /// The file and what was laid over it, as they were when they were read.
    #[serde(default)]
    pub stamps: Vec<Stamp>,
}

impl Located {
    /// The place of a unit by the record of its file.
    pub fn of(unit: &str, record: &FileRecord) -> Located {
        let drop_ins = &record.drop_ins;
        Located {
            schema: super::SCHEMA,
            unit: unit.to_string(),
            file: record.path.to_string(),
            line: 0,
            drop_ins: drop_ins.iter().map(|(path, _)| path.to_string()).collect(),
            stamps: [record.stamp].into_iter().chain(drop_ins.iter().map(|(_, at)| *at)).collect(),
        }
    }

    /// The drop-ins that are laid over this unit, in order, with their stamps. The record of the
    /// file also holds links that enable the unit and, for a template, drop-ins of all instances.
    #[cfg(feature = "text")]
    pub fn drop_ins_of_unit(&self) -> Vec<(&str, Stamp)> {
        use crate::import::systemd::{UnitName, instance_of_drop_in};
        let own = UnitName::of(&self.unit);
        let names = own.drop_in_names();
        let file_of = |path: &str| path.rsplit_once('/').map(|(_, file)| file.to_string());
        let mut found: Vec<(&str, Stamp)> = Vec::new();
        for (path, stamp) in self.drop_ins.iter().zip(self.stamps.iter().skip(1)) {
            let is_link = path.rsplit_once('/').is_none_or(|(dir, _)| !dir.ends_with(".d"));
            let instance = instance_of_drop_in(path);
            if is_link || instance.is_some_and(|owner| !names.iter().any(|name| name == owner)) {
                continue;
            }
            // The template's come first in the record; the instance's hides one of the same name.
            if instance.is_some() {
                found.retain(|(known, _)| file_of(known) != file_of(path));
            }
            found.push((path, *stamp));
        }
        if own.is_instance() {
            found.sort_by_key(|(path, _)| file_of(path));
        }
        found
    }
}
