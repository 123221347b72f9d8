//! A unit as it is meant: after defaults and checks. No `Option` here means
//! "default", no string is really an enum.
//!
//! Split by who needs it: [`Live`] is what the machine decides by and what a reload
//! changes in place; [`Run`] is what it takes to run the process, and is looked at
//! only when one is started. Where it comes from: [`crate::manifest`]; where it
//! goes: [`crate::generation`].

mod particular;
mod run;

pub use particular::{
    Cgroup, Condition, ConditionKind, Directories, DirectoryKind, Ending, Input, KillMode,
    LogPriority, MainPid, OomPolicy, Opening, Output, Particular, Privileges, Schedule, Stdio,
    Terminal,
};
pub use run::{EnvFile, ExecLine, FdStore, Keep, Piece, Prefixes, Run};

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The six types of a unit with or without a process, and the three triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Supervised, and says READY=1 itself.
    ForegroundNotified,
    /// Supervised; ready when it runs, after `ready-wait`, or at a line.
    ForegroundSupervised,
    /// Forks into the background and leaves a pid file.
    BackgroundPidfile,
    /// Start, stop and reload are scripts.
    BackgroundScripted,
    /// A command run once.
    Oneshot,
    /// No process; exists for its dependencies.
    Virtual,
    /// Trigger: listens.
    Socket,
    /// Trigger: counts.
    Timer,
    /// Trigger: watches files.
    Path,
}

impl Kind {
    /// All of them, in the order the documentation lists them.
    pub const ALL: [Kind; 9] = [
        Kind::ForegroundNotified,
        Kind::ForegroundSupervised,
        Kind::BackgroundPidfile,
        Kind::BackgroundScripted,
        Kind::Oneshot,
        Kind::Virtual,
        Kind::Socket,
        Kind::Timer,
        Kind::Path,
    ];

    /// The word in a unit file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::ForegroundNotified => "foreground-notified",
            Kind::ForegroundSupervised => "foreground-supervised",
            Kind::BackgroundPidfile => "background-pidfile",
            Kind::BackgroundScripted => "background-scripted",
            Kind::Oneshot => "oneshot",
            Kind::Virtual => "virtual",
            Kind::Socket => "socket",
            Kind::Timer => "timer",
            Kind::Path => "path",
        }
    }

    /// A unit of this type runs a process.
    pub fn has_process(self) -> bool {
        !self.is_instant()
    }

    /// Its start and stop take no time and no slot.
    pub fn is_instant(self) -> bool {
        matches!(self, Kind::Virtual) || self.is_trigger()
    }

    /// Fires the target it `activates`.
    pub fn is_trigger(self) -> bool {
        matches!(self, Kind::Socket | Kind::Timer | Kind::Path)
    }
}

/// The kinds of dependency, as the unit files name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DependencyKind {
    /// Pulls in; gates on active; a loss stops the dependent.
    DependsOn,
    /// Pulls in; gates on active; latched for the dependent's run.
    DependsMs,
    /// Pulls in; gates on active or failed.
    WaitsFor,
    /// Pulls in.
    Wants,
    /// Order only: this unit after the provider.
    After,
    /// Order only: the provider after this unit.
    Before,
    /// Restarted when the provider is told to stop.
    RestartWith,
    /// Never up together.
    Conflicts,
    /// Order as `after`; and the provider has to be active, though this unit does not bring it in.
    RequiresActive,
    /// Reloads its own configuration when init lets the provider do so.
    ReloadWith,
    /// Pulls in while this unit is past its verdict.
    OnFailure,
    /// Pulls in while this unit is exited.
    OnSuccess,
    /// Pulls in while the provider has a connection of this socket's. The loader's, not a key.
    Accepts,
}

impl DependencyKind {
    /// All that have a key.
    pub const ALL: [DependencyKind; 12] = [
        DependencyKind::DependsOn,
        DependencyKind::DependsMs,
        DependencyKind::WaitsFor,
        DependencyKind::Wants,
        DependencyKind::After,
        DependencyKind::Before,
        DependencyKind::RestartWith,
        DependencyKind::Conflicts,
        DependencyKind::RequiresActive,
        DependencyKind::ReloadWith,
        DependencyKind::OnFailure,
        DependencyKind::OnSuccess,
    ];

    /// The key in a unit file.
    pub fn as_str(self) -> &'static str {
        match self {
            DependencyKind::DependsOn => "depends-on",
            DependencyKind::DependsMs => "depends-ms",
            DependencyKind::WaitsFor => "waits-for",
            DependencyKind::Wants => "wants",
            DependencyKind::After => "after",
            DependencyKind::Before => "before",
            DependencyKind::RestartWith => "restart-with",
            DependencyKind::Conflicts => "conflicts",
            DependencyKind::RequiresActive => "requires-active",
            DependencyKind::ReloadWith => "reload-with",
            DependencyKind::OnFailure => "on-failure",
            DependencyKind::OnSuccess => "on-success",
            DependencyKind::Accepts => "accepts",
        }
    }

    /// Makes the provider needed, whatever becomes of the dependent.
    pub fn pulls_in(self) -> bool {
        matches!(
            self,
            DependencyKind::DependsOn
                | DependencyKind::DependsMs
                | DependencyKind::WaitsFor
                | DependencyKind::Wants
        )
    }

    /// Orders starts and stops; rings over these are illegal.
    pub fn orders(self) -> bool {
        matches!(
            self,
            DependencyKind::DependsOn
                | DependencyKind::DependsMs
                | DependencyKind::WaitsFor
                | DependencyKind::After
                | DependencyKind::Before
                | DependencyKind::RequiresActive
        )
    }

    /// Makes the provider needed while the dependent has come to a certain end.
    pub fn pulls_in_at_end(self) -> bool {
        matches!(self, DependencyKind::OnFailure | DependencyKind::OnSuccess)
    }
}

/// When a unit that ended is started again. The classes are those of systemd.service(5),
/// `Restart=`; what a success is says [`Live::success_status`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// After a failure.
    OnFailure,
    /// After every end.
    Always,
    /// Not by itself.
    Never,
    /// After a success.
    OnSuccess,
    /// After a failure that is no exit status: a signal, a time-out, the watchdog.
    OnAbnormal,
    /// After a signal that is no success.
    OnAbort,
    /// After the watchdog's.
    OnWatchdog,
}

impl Restart {
    /// All of them, in the order the documentation lists them.
    pub const ALL: [Restart; 7] = [
        Restart::OnFailure,
        Restart::Always,
        Restart::Never,
        Restart::OnSuccess,
        Restart::OnAbnormal,
        Restart::OnAbort,
        Restart::OnWatchdog,
    ];

    /// The word in a file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Restart::OnFailure => "on-failure",
            Restart::Always => "always",
            Restart::Never => "never",
            Restart::OnSuccess => "on-success",
            Restart::OnAbnormal => "on-abnormal",
            Restart::OnAbort => "on-abort",
            Restart::OnWatchdog => "on-watchdog",
        }
    }
}

/// `restart-limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RestartLimit {
    /// Retries for ever.
    None,
    /// That many failures in a row are final.
    InARow(u32),
    /// That many failures within the span are final.
    Within(u32, Duration),
}

/// What a reload with changed keys of class *run* does to an up unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnChange {
    /// Stop it, start the new definition.
    Restart,
    /// Run exec-reload.
    Reload,
    /// Keep the run; shown as `stale`.
    Keep,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Exit {
    /// By exit(2), with this status.
    Code(u8),
    /// By this signal; `core` when it dumped one.
    Signal {
        /// Its number.
        signal: u8,
        /// It dumped core.
        core: bool,
    },
}

/// A list of ends by exit status or signal: `success-status`, `restart-except`, `restart-also`.
/// Sorted, no doubles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SuccessStatus {
    /// Exit statuses.
    pub codes: Vec<u8>,
    /// Signal numbers.
    pub signals: Vec<u8>,
}

impl SuccessStatus {
    /// The list names this end.
    pub fn lists(&self, exit: Exit) -> bool {
        match exit {
            Exit::Code(code) => self.codes.contains(&code),
            Exit::Signal { signal, .. } => self.signals.contains(&signal),
        }
    }
}

/// Keys of class *live*: the machine decides by them, a reload changes them in place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Live {
    /// One line for people.
    pub description: String,
    /// None: no limit.
    pub start_timeout: Option<Duration>,
    /// None: no limit.
    pub stop_timeout: Option<Duration>,
    /// The first signal of a stop.
    pub stop_signal: u8,
    /// When it is started again.
    pub restart: Restart,
    /// The first delay.
    pub restart_delay: Duration,
    /// The longest delay.
    pub restart_delay_max: Duration,
    /// Active this long: the failures before are forgotten.
    pub restart_reset: Duration,
    /// When retrying ends.
    pub restart_limit: RestartLimit,
    /// Failures in a row until the verdict; at least 1.
    pub failure_verdict: u32,
    /// Ends that are successes.
    pub success_status: SuccessStatus,
    /// Ends of the main process that no restart follows, whatever `restart` says.
    pub restart_except: SuccessStatus,
    /// Ends of the main process that a restart follows, whatever `restart` says.
    pub restart_also: SuccessStatus,
    /// Active this long at most; longer is a failure. None: no limit.
    pub run_timeout: Option<Duration>,
    /// What a changed definition does to an up run.
    pub on_change: OnChange,
    /// A reload never restarts it.
    pub essential: bool,
    /// Its stop waits for no unit that depends on it, and nothing it says prolongs it.
    pub stop_promptly: bool,
}

/// How a run's readiness is learned. Derived from the type and the ready-* keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Readiness {
    /// Ready in no time (virtual, triggers).
    Instant,
    /// The exec succeeded.
    Exec,
    /// That long after the exec, if it still runs.
    Wait(Duration),
    /// The shell reports it: READY=1, a line, a pid file, whichever the unit names.
    Reported,
    /// Its (last) process exited with success: oneshot, background-scripted.
    Exit,
}

/// Which processes may speak for a unit on the notify socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotifyAccess {
    /// The main process.
    Main,
    /// The main process and those init started for the unit (exec-reload …).
    Exec,
    /// Every process of the unit.
    All,
    /// None.
    None,
}

/// Where a unit's output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Log {
    /// The logger: tail in memory, a file per unit.
    File,
    /// /dev/kmsg.
    Kmsg,
    /// /dev/log.
    Syslog,
    /// /dev/console.
    Console,
    /// init's own stdout and stderr.
    Inherit,
    /// /dev/null.
    Null,
}

/// A `user:`/`group:` as the loader found it in /etc/passwd and /etc/group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Credentials {
    /// Numbers to set, or why there are none (said at start: stage `user`, this errno).
    pub ids: Result<Ids, Unresolved>,
}

/// Numbers to set, in the order groups, gid, uid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ids {
    /// User, when one was asked for.
    pub uid: Option<u32>,
    /// Group, when one was asked for or follows from the user.
    pub gid: Option<u32>,
    /// Supplementary groups; None: left as they are (no user was asked for).
    pub groups: Option<Vec<u32>>,
    /// USER and LOGNAME.
    pub user: Option<String>,
    /// HOME.
    pub home: Option<String>,
    /// SHELL.
    pub shell: Option<String>,
}

/// A user or group that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unresolved {
    /// `user` or `group`.
    pub what: String,
    /// The name as written.
    pub name: String,
}

/// A resource limit; None is infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResourceLimit {
    /// RLIMIT_* number of Linux.
    pub resource: u8,
    /// Soft.
    pub soft: Option<u64>,
    /// Hard.
    pub hard: Option<u64>,
}
