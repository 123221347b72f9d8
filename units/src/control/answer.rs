//! The answers of the control socket, which are also what `initctl --json` prints:
//! every field always there, `null` when it has no value. Fields may be added, none
//! renamed or dropped. Made from a machine in [`crate::view`]; the questions are not
//! here but in `request`.
//!
//! All points in time are texts, RFC 3339 in UTC with milliseconds; all names are
//! plain texts, so that an old `initctl` reads the answer of a newer init.

use crate::diagnostic::{Diagnostic, Severity};
use crate::machine::reason::State;
use crate::spec::{DependencyKind, Kind};
use serde::{Deserialize, Serialize};

/// The number in every answer's `schema`.
pub const SCHEMA: u32 = 1;
/// The number in every line's `v`.
pub const PROTOCOL: u32 = 1;

/// One line from init to a client. Exactly one of `ok` and `error` is there; the other is
/// left out. A stream that is not followed ends with an `ok` of [`End`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line<T> {
    /// [`PROTOCOL`].
    pub v: u32,
    /// The `id` of the request; 0 (or null) where it could not be read.
    #[serde(default, deserialize_with = "number_or_null")]
    pub id: u64,
    /// The answer, or one object of a stream.
    #[serde(skip_serializing_if = "Option::is_none", default = "Option::default")]
    pub ok: Option<T>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<Failure>,
}

fn number_or_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Option::<u64>::deserialize(from).map(Option::unwrap_or_default)
}

impl<T> Line<T> {
    /// An answer.
    pub fn ok(id: u64, answer: T) -> Line<T> {
        Line { v: PROTOCOL, id, ok: Some(answer), error: None }
    }

    /// A failure.
    pub fn error(id: u64, failure: Failure) -> Line<T> {
        Line { v: PROTOCOL, id, ok: None, error: Some(failure) }
    }
}

/// The last object of a stream that is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Always true.
    pub end: bool,
}

/// Why a request was not done. `kind` is a short stable word; those of
/// [`crate::machine::reason::Refusal`] and the constants here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The word.
    pub kind: String,
    /// The fact.
    pub message: String,
    /// What to do; may be empty.
    pub hint: String,
    /// The diagnostics of a refused reload; left out otherwise.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub report: Option<Report>,
}

impl Failure {
    /// The request is not one this init understands. Exit 64.
    pub const USAGE: &'static str = "usage";
    /// The name belongs to no target and no unit.
    pub const UNKNOWN_TARGET: &'static str = "unknown-target";
    /// The caller may not ask this. Exit 77.
    pub const DENIED: &'static str = "denied";
    /// The unit files were refused; `report` says why. Exit 65.
    pub const REFUSED: &'static str = "refused";
    /// It took too long. Exit 2.
    pub const TIMEOUT: &'static str = "timeout";
    /// Nobody is at the socket. Exit 69.
    pub const NO_INIT: &'static str = "no-init";
    /// Known, but not in this release. Exit 1.
    pub const UNSUPPORTED: &'static str = "unsupported";
    /// init is busy or out of some resource. Exit 1.
    pub const BUSY: &'static str = "busy";

    /// Without a report.
    pub fn new(kind: &str, message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { kind: kind.to_string(), message: message.into(), hint: hint.into(), report: None }
    }
}

/// `reason` of a unit, a link of a chain, an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// The sentence for people; the same in log, `why` and here.
    pub text: String,
    /// The fields for programs.
    #[serde(flatten)]
    pub cause: Cause,
}

/// A reason's kind, with its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Cause {
    /// Its process ended.
    Exit {
        /// exit(3)'s.
        code: u8,
    },
    /// A signal ended it.
    Signal {
        /// Its number.
        signal: u8,
        /// It dumped core.
        core: bool,
    },
    /// Not ready in time.
    StartTimeout,
    /// Not gone in time.
    StopTimeout,
    /// No ping in time.
    Watchdog,
    /// It could not be run.
    Exec {
        /// Where it broke off.
        stage: String,
        /// errno(3).
        errno: i32,
        /// What was to be run, opened or entered.
        path: String,
    },
    /// A provider is failed or past its verdict.
    Dependency {
        /// By which target.
        target: String,
        /// Which unit.
        unit: String,
    },
    /// A provider is masked, or it is masked itself.
    Masked {
        /// Which target.
        target: String,
    },
    /// Nobody provides it.
    Missing {
        /// Which target.
        target: String,
    },
    /// Its file is wrong.
    Config {
        /// Which file.
        file: String,
        /// From 1.
        line: u32,
        /// From 1; 0 where the whole line is meant.
        column: u32,
        /// What is wrong with it.
        message: String,
    },
    /// Another unit that may not be up with it came first.
    Conflict {
        /// By which target.
        target: String,
    },
    /// A condition was not met.
    Skipped {
        /// Which.
        condition: String,
    },
    /// The kernel killed it for want of memory.
    Oom,
    /// It did not keep to its type's protocol.
    Protocol {
        /// How.
        message: String,
    },
    /// Waits for a free slot.
    Slot,
    /// Waits for its next try.
    Backoff {
        /// Failures in a row.
        attempt: u32,
        /// When.
        at: String,
    },
    /// Waits for these targets.
    On {
        /// Which.
        targets: Vec<String>,
    },
    /// A process that can not be killed is left.
    Unkillable {
        /// Which, where it is known.
        pid: Option<u32>,
    },
    /// A bug of ours, contained.
    Internal,
    /// A kind this `initctl` does not know yet.
    #[serde(other)]
    Other,
}

/// The state of everything, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// Shutdown, reboot, exit.
    Stopping,
    /// A goal's provider is failed.
    Failed,
    /// Something needed is in its first start.
    Starting,
    /// Something needed is not active, or degraded.
    Degraded,
    /// All is as it should be.
    Running,
}

impl System {
    /// The word on the screen and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            System::Stopping => "stopping",
            System::Failed => "failed",
            System::Starting => "starting",
            System::Degraded => "degraded",
            System::Running => "running",
        }
    }
}

/// What was added to and taken from the goal by hand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overlay {
    /// `+x`, `want x`.
    pub want: Vec<String>,
    /// `-y`.
    pub drop: Vec<String>,
    /// For each of `want`, in the same order: when it ends; null: never.
    pub until: Vec<Option<String>>,
}

/// Answer of `status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Number of the present set of units.
    pub generation: u32,
    /// The goal's targets, without the overlay.
    pub goal: Vec<String>,
    /// The overlay.
    pub overlay: Overlay,
    /// In one word.
    pub system: System,
    /// Nothing is starting, stopping or waiting, but for retries past a verdict: what `--wait` waits for.
    pub settled: bool,
    /// Crashes of PID 1 so far that it survived.
    pub crashes: u32,
    /// When it last came back from one.
    pub resumed: Option<String>,
    /// When init began.
    pub booted: String,
    /// init's clock at this answer.
    pub now: String,
    /// Units asked for, or all; by name.
    pub units: Vec<UnitStatus>,
    /// Targets asked for, or all; by name.
    pub targets: Vec<TargetStatus>,
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
    pub description: String,
    /// Its targets.
    pub provides: Vec<String>,
    /// What an operator sees.
    pub state: State,
    /// Active, but something it needs softly is not.
    pub degraded: bool,
    /// Where there is one.
    pub main_pid: Option<u32>,
    /// The present run, where there is one.
    pub run: Option<u64>,
    /// Since when it is in this state.
    pub since: String,
    /// Failures in a row.
    pub attempt: u32,
    /// When it is tried again by itself; null: it is not.
    pub next_try: Option<String>,
    /// Its failures count for what waits for it, also while it is tried again.
    pub verdict: bool,
    /// It runs with an older definition.
    pub stale: bool,
    /// The goal, or something the goal needs, needs it.
    pub needed: bool,
    /// Targets of needed units and goals that pull it in: at most a handful, for show.
    pub needed_by: Vec<String>,
    /// The last STATUS= it sent; may be empty.
    pub status: String,
    /// Why it is not simply running.
    pub reason: Option<Reason>,
    /// The file of its definition; may be empty for built-in units.
    pub file: String,
    /// The source it came from.
    pub source: Option<String>,
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
    pub degraded: bool,
    /// Up only because of another target of its provider.
    pub coincidental: bool,
}

/// Answer of `plan`, and part of that of `set-target`, `want`, `reload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Units in the order they will be told: waves, sorted within.
    pub stop: Vec<Vec<String>>,
    /// Likewise.
    pub start: Vec<Vec<String>>,
    /// Those in both lists that were and stay needed.
    pub restart: Vec<String>,
    /// Up, and left alone.
    pub keep: Vec<String>,
}

/// Answer of `set-target`, `want`, `unwant`, `reload` and the policy verbs: what was
/// set going.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The generation that holds now.
    pub generation: u32,
    /// What will happen.
    pub plan: Plan,
}

/// Answer of `restart`, `reload-unit`, `kill`, `retry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The units that were told.
    pub units: Vec<String>,
}

/// Answer of `why`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Why {
    /// [`SCHEMA`].
    pub schema: u32,
    /// As asked.
    pub target: String,
    /// Who provides it.
    pub unit: Option<String>,
    /// As in [`TargetStatus`].
    pub state: State,
    /// See [`UnitStatus::degraded`].
    pub degraded: bool,
    /// From the unit itself to the root cause, which is last. Each link's `reason` says why it is
    /// as it is, its `target` the name by which the link before it depends on it.
    pub chain: Vec<Link>,
    /// Who needs it: pulling edges into it, from the nearest to the goal.
    pub needed_by: Vec<Need>,
    /// Needed units that are not active, or degraded, because of it.
    pub affects: Vec<Affected>,
    /// The unit itself, as in `status`; null where nobody provides the target.
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
    pub degraded: bool,
    /// Why.
    pub reason: Option<Reason>,
    /// See [`UnitStatus::next_try`].
    pub next_try: Option<String>,
}

/// One edge of [`Why::needed_by`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Need {
    /// The unit that names it; null: the goal itself.
    pub unit: Option<String>,
    /// The target named.
    pub target: String,
    /// In which list; null: the goal itself.
    pub kind: Option<DependencyKind>,
}

/// One unit of [`Why::affects`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Affected {
    /// Its name.
    pub unit: String,
    /// Its state.
    pub state: State,
    /// See [`UnitStatus::degraded`].
    pub degraded: bool,
}

/// One object of `events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Event {
    /// Counted from 1.
    pub seq: u64,
    /// Wall clock.
    pub time: String,
    /// CLOCK_MONOTONIC, microseconds.
    pub mono_us: u64,
    /// Whose; null: init itself.
    pub unit: Option<String>,
    /// Which run.
    pub run: Option<u64>,
    /// `state`; for init itself `boot`, `set-target`, `reload`, `crash` …
    pub event: String,
    /// The state before.
    pub from: Option<State>,
    /// The state after.
    pub to: Option<State>,
    /// Why.
    pub reason: Option<Reason>,
    /// The event that led to this one.
    pub cause: Option<u64>,
}

/// Answer of `tree` and `graph`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The goal with the overlay.
    pub goal: Vec<String>,
    /// Units, by name.
    pub nodes: Vec<Node>,
    /// Edges, by unit, in the order of the file.
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
    pub provides: Vec<String>,
    /// Its state; null offline.
    pub state: Option<State>,
    /// See [`UnitStatus::degraded`].
    pub degraded: bool,
    /// See [`UnitStatus::needed`].
    pub needed: bool,
}

/// One edge of a [`Graph`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// The unit that names the target.
    pub from: String,
    /// The target.
    pub target: String,
    /// Its provider; null: nobody.
    pub to: Option<String>,
    /// In which list.
    pub kind: DependencyKind,
}

/// Answer of `blame`, which `critical-chain` and `plot` are drawn from too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blame {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Units that have been started, by name.
    pub units: Vec<Timing>,
}

/// How long one unit's latest start took. CLOCK_MONOTONIC, microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Timing {
    /// Its name.
    pub unit: String,
    /// When it became needed, or was next tried.
    pub waited_from_us: u64,
    /// When it was started.
    pub started_us: u64,
    /// When it became ready; null: not yet.
    pub ready_us: Option<u64>,
    /// The provider whose becoming ready let it start.
    pub after: Option<String>,
}

/// Answer of `stats`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Crashes survived.
    pub crashes: u32,
    /// Open file descriptors of PID 1.
    pub fds: u64,
    /// Resident bytes of PID 1.
    pub rss: u64,
    /// Turns of the event loop.
    pub wakeups: u64,
    /// Units in the generation.
    pub units: u64,
    /// Runs that are up.
    pub runs: u64,
}

/// Answer of `ping`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pong {
    /// [`SCHEMA`].
    pub schema: u32,
    /// init's version.
    pub version: String,
    /// Its pid in its own namespace.
    pub pid: u32,
    /// When it began.
    pub boot: String,
    /// `seq` of the latest event.
    pub seq: u64,
    /// Where it reads and writes.
    pub paths: Paths,
}

/// Where this init reads and writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Paths {
    /// `init.yaml`.
    pub config: String,
    /// `policy.yaml`.
    pub policy: String,
    /// The one that lasts until the next boot; null without a runtime directory.
    pub runtime_policy: Option<String>,
    /// Sockets and what lasts until the next boot; null where there is none that can be written.
    pub runtime_dir: Option<String>,
    /// Log files.
    pub log_dir: String,
    /// Earlier hides later.
    pub unit_dirs: Vec<String>,
}

/// Answer of `wait`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// [`SCHEMA`].
    pub schema: u32,
    /// How it ended.
    pub system: System,
}

/// Answer of `source-list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sources {
    /// [`SCHEMA`].
    pub schema: u32,
    /// By name.
    pub sources: Vec<Source>,
}

/// One source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Its name.
    pub source: String,
    /// Who may put it, besides root and init's uid.
    pub uid: u32,
    /// Counted up by each put; 0: nothing was put yet.
    pub revision: u64,
    /// Names of its files.
    pub files: Vec<String>,
    /// Its roots.
    pub roots: Vec<String>,
}

/// Answer of `whose`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Whose {
    /// [`SCHEMA`].
    pub schema: u32,
    /// As asked.
    pub pid: u32,
    /// The unit; null: none of ours.
    pub unit: Option<String>,
    /// Its targets.
    pub targets: Vec<String>,
    /// The run.
    pub run: Option<u64>,
    /// `main`, `helper` (exec-stop …) or `child`.
    pub role: Option<String>,
}

/// Answer of `cat`: init has no text, only the place of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Located {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The unit.
    pub unit: String,
    /// Where its text is.
    pub file: String,
    /// The line it begins at.
    pub line: u32,
}

/// Answer of `check`, and what a refused reload comes with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// How many.
    pub errors: usize,
    /// How many.
    pub warnings: usize,
    /// All of them.
    pub diagnostics: Vec<Said>,
}

/// One diagnostic of a [`Report`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// How bad.
    pub severity: Severity,
    /// A short stable word.
    pub code: String,
    /// As given.
    pub file: String,
    /// From 1; 0: the whole file.
    pub line: u32,
    /// From 1; 0: the whole line.
    pub column: u32,
    /// The fact.
    pub message: String,
    /// What to do; may be empty.
    pub hint: String,
    /// Other places that belong to it.
    pub related: Vec<Spot>,
    /// The line of the file, cut short; empty when it is not at hand.
    pub excerpt: String,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spot {
    /// As given.
    pub file: String,
    /// From 1; 0: the whole file.
    pub line: u32,
    /// From 1; 0: the whole line.
    pub column: u32,
}

impl Report {
    /// Counts and copies.
    pub fn new(diagnostics: &[Diagnostic]) -> Report {
        let count = |severity| diagnostics.iter().filter(|d| d.severity == severity).count();
        Report {
            schema: SCHEMA,
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            diagnostics: diagnostics.iter().map(Said::from).collect(),
        }
    }
}

impl From<&Diagnostic> for Said {
    fn from(diagnostic: &Diagnostic) -> Said {
        let spot = |place: &crate::diagnostic::Place| Spot {
            file: place.file.to_string(),
            line: place.line,
            column: place.column,
        };
        Said {
            severity: diagnostic.severity,
            code: diagnostic.code.clone(),
            file: diagnostic.at.file.to_string(),
            line: diagnostic.at.line,
            column: diagnostic.at.column,
            message: diagnostic.message.clone(),
            hint: diagnostic.hint.clone(),
            related: diagnostic.related.iter().map(spot).collect(),
            excerpt: diagnostic.excerpt.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_flat_object_with_its_kind() {
        let reason =
            Reason { text: "its process exited 3".to_string(), cause: Cause::Exit { code: 3 } };
        let json = serde_json::to_string(&reason).unwrap();
        assert_eq!(json, r#"{"text":"its process exited 3","kind":"exit","code":3}"#);
        assert_eq!(serde_json::from_str::<Reason>(&json).unwrap(), reason);
    }

    #[test]
    fn a_reason_of_a_later_release_can_be_read() {
        let json = r#"{"kind":"eaten-by-grue","text":"it was dark"}"#;
        let reason: Reason = serde_json::from_str(json).unwrap();
        assert_eq!(reason.text, "it was dark");
        assert_eq!(reason.cause, Cause::Other);
    }

    #[test]
    fn a_unit_without_values_says_null_and_leaves_no_field_out() {
        let unit = UnitStatus {
            unit: "a".to_string(),
            kind: Kind::Virtual,
            description: String::new(),
            provides: vec![],
            state: State::Disabled,
            degraded: false,
            main_pid: None,
            run: None,
            since: "1970-01-01T00:00:00.000Z".to_string(),
            attempt: 0,
            next_try: None,
            verdict: false,
            stale: false,
            needed: false,
            needed_by: vec![],
            status: String::new(),
            reason: None,
            file: String::new(),
            source: None,
        };
        let json = serde_json::to_value(&unit).unwrap();
        for field in ["unit", "type", "provides", "state", "degraded", "main-pid", "since"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        for field in ["attempt", "stale", "reason"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert!(json.get("main-pid").is_some_and(serde_json::Value::is_null));
    }
}
