//! Answers about init itself, sources and processes: `stats`, `ping`, `wait`, `source-list`,
//! `whose`, `cat`. See [`super`].

use super::{Plan, Said, System};
use crate::unit::generation::{FileRecord, Stamp};
use serde::{Deserialize, Serialize};
use serde_with::apply;

/// Answer of `stats`.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// Crashes survived.
    pub crashes: u32,
    /// Open file descriptors of PID 1.
    pub fds: u64,
    /// Resident bytes of PID 1.
    pub rss: u64,
    /// Turns of the event loop.
    pub wakeups: u64,
    /// Commits of the state.
    pub commits: Commits,
    /// Units in the generation.
    pub units: u64,
    /// Runs that are up.
    pub runs: u64,
    /// The process tracking: `cgroup2` or `process-group`.
    pub tracking: String,
    /// Counts of dropped input and output.
    pub dropped: Dropped,
}

/// Commits of the state since this image of init started.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Commits {
    /// Number of commits.
    pub count: u64,
    /// Number of unit records that these commits wrote.
    pub unit_records: u64,
    /// Duration of these commits in nanoseconds, including the writing of all other records.
    pub time_ns: u64,
}

/// Counts of what init has dropped since it started. They only grow, and stay at their maximum.
/// `callers-turned-away`, `messages-refused` and `messages-unusable` survive an upgrade and a
/// crash; the others restart at 0.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Dropped {
    /// Connections to the control socket that were refused for lack of room, or closed in favour of
    /// another.
    pub callers_turned_away: u64,
    /// Connections that were cut because the client did not read its answers, or did not complete a
    /// line.
    pub callers_cut_off: u64,
    /// Notify datagrams from processes that may not notify for a unit.
    pub messages_refused: u64,
    /// Notify datagrams that were too long or had no sender.
    pub messages_unusable: u64,
    /// Descriptors that init received from other processes and closed unused.
    pub descriptors_closed: u64,
    /// Log lines of init that were lost: too many at once, or no reader.
    pub lines_not_said: u64,
    /// Log lines of units that a blocked output (a console, a log) did not get.
    pub lines_not_shown: u64,
    /// Reports about runs that were over already.
    pub events_too_late: u64,
}

impl Dropped {
    /// Returns the counts with their names in the answer.
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
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Pong {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The version of init.
    pub version: String,
    /// The pid of init in its own namespace.
    pub pid: u32,
    /// The time at which init started.
    pub boot: String,
    /// The mode: `machine`, `container` or `supervisor`.
    pub mode: String,
    /// `seq` of the latest event.
    pub seq: u64,
    /// Start of the event count, CLOCK_MONOTONIC in microseconds. Another init process counts from
    /// 1 again and reports another time. 0 if init does not report it.
    pub seq_mono_us: u64,
    /// The paths of this init.
    #[serde_with(skip_apply)]
    pub paths: Paths,
}

/// The paths that init reads and writes.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Paths {
    /// The file `init.yaml`.
    pub config: String,
    /// The file `policy.yaml`.
    pub policy: String,
    /// The policy that lasts until the next boot; null without a runtime directory.
    pub runtime_policy: Option<String>,
    /// Directory of sockets and of files that last until the next boot; null if init has none.
    pub runtime_dir: Option<String>,
    /// Directory of log files.
    pub log_dir: String,
    /// Unit directories; files of an earlier one hide those of a later one.
    pub unit_dirs: Vec<String>,
}

/// Answer of `wait`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// The state of the system.
    pub system: System,
}

/// Answer of `source-list`.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sources {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The sources, by name.
    pub sources: Vec<Source>,
}

/// One source.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The name of the source.
    pub source: String,
    /// The uid that may put the source, besides root and init's uid.
    pub uid: u32,
    /// The revision, which each put and each drop increments; 0 before the first put.
    pub revision: u64,
    /// Names of the source's files.
    pub files: Vec<String>,
    /// The roots of the source.
    pub roots: Vec<String>,
}

/// Answer of `source-put` and `source-drop`.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Put {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The source.
    pub source: String,
    /// The present revision, which the next put may expect.
    pub revision: u64,
    /// The present generation.
    pub generation: u32,
    /// The plan; null if it was not requested.
    pub plan: Option<Plan>,
    /// Diagnostics about the files of the source.
    pub diagnostics: Vec<Said>,
}

/// Answer of `whose`.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Whose {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The pid of the request.
    pub pid: u32,
    /// The unit; null if the process belongs to none.
    pub unit: Option<String>,
    /// The targets of the unit.
    pub targets: Vec<String>,
    /// The run.
    pub run: Option<u64>,
    /// `main`, `helper` (exec-stop …) or `child`.
    pub role: Option<String>,
}

/// Answer of `cat`: the place of the text, because init does not keep it.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Located {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The unit.
    #[serde_with(skip_apply)]
    pub unit: String,
    /// The file with the unit's text.
    pub file: String,
    /// The first line of the text.
    pub line: u32,
    /// The drop-ins, in order.
    pub drop_ins: Vec<String>,
    /// Stamps of the file and the drop-ins at the time they were read.
    pub stamps: Vec<Stamp>,
}

impl Located {
    /// Returns the place of a unit from the record of its file.
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

    /// Returns the drop-ins of this unit, in order, with their stamps. The record of the file also
    /// holds links that enable the unit and, for a template, drop-ins of all instances.
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
            // Drop-ins of the template precede those of the instance in the record; a drop-in of
            // the instance hides one of the same name.
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
