//! A unit as it is meant: after defaults and checks. No `Option` here means
//! "default", no string is really an enum.
//!
//! Split by who needs it: [`Live`] is what the machine decides by and what a reload
//! changes in place; [`Run`] is what it takes to run the process, and is looked at
//! only when one is started. Where it comes from: [`crate::unit::manifest`]; where it
//! goes: [`crate::unit::generation`].

pub mod value;

mod particular;

use crate::text::fields::is_default;
pub use particular::{
    Cgroup, Condition, ConditionKind, Directories, DirectoryKind, Ending, Input, KillMode,
    LogPriority, MainPid, OomPolicy, Opening, Output, Particular, Privileges, Schedule, Stdio,
    Terminal,
};

use serde::{Deserialize, Serialize};
use serde_with::apply;
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
        #[serde(default)]
        core: bool,
    },
}

/// A list of ends by exit status or signal: `success-status`, `restart-except`, `restart-also`.
/// Sorted, no doubles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct SuccessStatus {
    /// Exit statuses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub codes: Vec<u8>,
    /// Signal numbers.
    #[serde(default, skip_serializing_if = "is_default")]
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
#[serde(default)]
pub struct Live {
    /// One line for people.
    #[serde(default, skip_serializing_if = "is_default")]
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
    #[serde(default, skip_serializing_if = "is_default")]
    pub success_status: SuccessStatus,
    /// Ends of the main process that no restart follows, whatever `restart` says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart_except: SuccessStatus,
    /// Ends of the main process that a restart follows, whatever `restart` says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart_also: SuccessStatus,
    /// Active this long at most; longer is a failure. None: no limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub run_timeout: Option<Duration>,
    /// What a changed definition does to an up run.
    pub on_change: OnChange,
    /// A reload never restarts it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub essential: bool,
    /// Its stop waits for no unit that depends on it, and nothing it says prolongs it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stop_promptly: bool,
}

impl Default for Live {
    fn default() -> Live {
        Live {
            description: String::new(),
            start_timeout: Some(Duration::from_secs(60)),
            stop_timeout: Some(Duration::from_secs(10)),
            stop_signal: 15,
            restart: Restart::OnFailure,
            restart_delay: Duration::from_millis(200),
            restart_delay_max: Duration::from_secs(60),
            restart_reset: Duration::from_secs(60),
            restart_limit: RestartLimit::None,
            failure_verdict: 3,
            success_status: SuccessStatus::default(),
            restart_except: SuccessStatus::default(),
            restart_also: SuccessStatus::default(),
            run_timeout: None,
            on_change: OnChange::Restart,
            essential: false,
            stop_promptly: false,
        }
    }
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotifyAccess {
    /// The main process.
    Main,
    /// The main process and those init started for the unit (exec-reload …).
    Exec,
    /// Every process of the unit.
    All,
    /// None.
    #[default]
    None,
}

/// Where a unit's output goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Log {
    /// The logger: tail in memory, a file per unit.
    #[default]
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
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
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
    #[serde(default, skip_serializing_if = "is_default")]
    pub soft: Option<u64>,
    /// Hard.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hard: Option<u64>,
}

/// One word of an exec line, in pieces.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Piece {
    /// As it stands.
    Literal(String),
    /// `${NAME}`: one word whatever the value; empty when unset.
    Variable(String),
    /// `$NAME` as a whole word: split at white space, gone when unset.
    Split(String),
    /// `$MAINPID` or `${MAINPID}`.
    MainPid,
}

/// The prefixes before the program of an exec line, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Prefixes(pub u8);

impl Prefixes {
    /// `-`: a failure counts as success.
    pub const FORGIVEN: Prefixes = Prefixes(1);
    /// `+`: as init's own user, with everything init may do.
    pub const PRIVILEGED: Prefixes = Prefixes(2);
    /// `!`: as init's own user, but with all else the unit says.
    pub const OWN_USER: Prefixes = Prefixes(4);
    /// `@`: the second word is what the program is told as its own name.
    pub const NAMED: Prefixes = Prefixes(8);

    /// All of these are there.
    pub const fn has(self, other: Prefixes) -> bool {
        self.0 & other.0 == other.0
    }

    /// With these too.
    pub const fn and(self, other: Prefixes) -> Prefixes {
        Prefixes(self.0 | other.0)
    }
}

/// One exec line: the words. The first is the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecLine {
    /// What stood before it. (`:` is dealt with where the line is read.)
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefixes: Prefixes,
    /// Words, each of one or more pieces (an empty word has one empty literal).
    #[serde(default, skip_serializing_if = "is_default")]
    pub words: Vec<Vec<Piece>>,
}

/// A file of `N=V` lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EnvFile {
    /// Absolute.
    pub path: String,
    /// A leading `-`: it may be missing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optional: bool,
}

fn root() -> String {
    "/".to_string()
}

fn is_root(path: &str) -> bool {
    path == "/"
}

fn umask() -> u32 {
    0o22
}

/// Keys of class *run*: what it takes to run the unit's processes.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Run {
    /// The type.
    #[serde_with(skip_apply)]
    pub kind: Kind,
    /// The command; for a oneshot one or more, in order.
    pub exec_start: Vec<ExecLine>,
    /// Before it, in order; one that fails fails the start.
    pub exec_start_pre: Vec<ExecLine>,
    /// Before all others: 1 to 254 skips the unit.
    pub exec_condition: Vec<ExecLine>,
    /// Once it is ready, before it counts as active.
    pub exec_start_post: Vec<ExecLine>,
    /// When nothing of it is left, however it ended.
    pub exec_stop_post: Vec<ExecLine>,
    /// Instead of the stop signal.
    pub exec_stop: Vec<ExecLine>,
    /// What `reload-unit` runs.
    pub exec_reload: Vec<ExecLine>,
    /// A oneshot's `remain`: its exec-stop waits for the stop. Without, the exec-stop and the end
    /// of what is left belong to the run itself, and only then its success is told.
    pub remain: bool,
    /// Where background-pidfile leaves its pid.
    pub pid_file: Option<String>,
    /// Derived: how readiness is learned.
    #[serde_with(skip_apply)]
    pub readiness: Readiness,
    /// The pattern, checked at load to compile.
    pub ready_grep: Option<String>,
    /// Who may notify.
    pub notify_access: NotifyAccess,
    /// Where output goes.
    pub log: Log,
    /// Who it runs as; None: as init.
    pub credentials: Option<Credentials>,
    /// In the order given.
    pub env: Vec<(String, String)>,
    /// Read at start, in a child.
    pub env_file: Vec<EnvFile>,
    /// Absolute, or `~` for the user's home; `/` where nothing is said.
    #[serde_with(skip_apply)]
    #[serde(default = "root", skip_serializing_if = "is_root")]
    pub working_dir: String,
    /// 022 where nothing is said.
    #[serde_with(skip_apply)]
    #[serde(default = "umask")]
    pub umask: u32,
    /// Resource limits.
    pub limits: Vec<ResourceLimit>,
    /// What few units ask for.
    pub particular: Option<Box<Particular>>,
}

impl Run {
    /// One that asks for nothing, not even a command.
    pub fn of(kind: Kind) -> Run {
        Run {
            kind,
            exec_start: Vec::new(),
            exec_start_pre: Vec::new(),
            exec_condition: Vec::new(),
            exec_start_post: Vec::new(),
            exec_stop_post: Vec::new(),
            exec_stop: Vec::new(),
            exec_reload: Vec::new(),
            remain: kind == Kind::Oneshot,
            pid_file: None,
            readiness: Readiness::Exec,
            ready_grep: None,
            notify_access: NotifyAccess::None,
            log: Log::File,
            credentials: None,
            env: Vec::new(),
            env_file: Vec::new(),
            working_dir: root(),
            umask: umask(),
            limits: Vec::new(),
            particular: None,
        }
    }

    /// Something has to be done when it is stopped, though no process is left. A oneshot that does
    /// not remain has done it by then.
    pub fn has_stop_work(&self) -> bool {
        if self.kind == Kind::Oneshot && !self.remain {
            return false;
        }
        let runtime = |particular: &Particular| {
            particular.runtime_dir_keep != Keep::Yes
                && particular.directories.iter().any(|d| d.kind == DirectoryKind::Runtime)
        };
        !self.exec_stop.is_empty()
            || !self.exec_stop_post.is_empty()
            || self.particular.as_deref().is_some_and(|p| runtime(p) || !p.stdio.utmp_id.is_empty())
    }

    /// Its standard input is a terminal.
    pub fn reads_terminal(&self) -> bool {
        let stdio = self.particular.as_deref().map(|particular| &particular.stdio);
        stdio.is_some_and(|stdio| matches!(stdio.input, Input::Terminal { .. }))
    }

    /// It can be told to take in its configuration.
    pub fn has_reload(&self) -> bool {
        let signal = self.particular.as_ref().and_then(|p| p.ending.reload_signal);
        !self.exec_reload.is_empty() || signal.is_some()
    }
}

/// `fd-store-*`: descriptors that a service hands to init and gets back from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct FdStore {
    /// How many at most; 0: none are taken.
    #[serde(default, skip_serializing_if = "is_default")]
    pub most: u16,
    /// Until when: the end of the run, of being needed, or of the unit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep: Keep,
}

/// `runtime-dir-keep`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Keep {
    /// Removed at every stop.
    #[default]
    No,
    /// Kept when the unit is started again.
    Restart,
    /// Kept.
    Yes,
}
