//! The definition of a unit after defaults and checks. No `Option` here means "default", and no
//! string is really an enum.
//!
//! The definition has two parts. [`Live`] has the keys by which the machine decides; a reload
//! changes it in place. [`Run`] has the keys that a process needs; init reads it only at a start.
//! The input comes from [`crate::unit::manifest`]; the result goes into
//! [`crate::unit::generation`].

pub mod value;

mod particular;

use crate::text::fields::is_default;
use crate::text::words::words;
pub use particular::{
    Cgroup, Condition, ConditionKind, Directories, DirectoryKind, Ending, Input, KillMode,
    LogPriority, MainPid, OomPolicy, Opening, Output, Particular, Privileges, Schedule, Stdio,
    Terminal,
};

use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::time::Duration;

words! {
    /// The six types of a unit with or without a process, and the three triggers.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Kind {
        /// Supervised; the process reports READY=1 itself.
        ForegroundNotified = "foreground-notified",
        /// Supervised; ready when it runs, after `ready-wait`, or when a line matches.
        #[default]
        ForegroundSupervised = "foreground-supervised",
        /// Forks into the background and leaves a pid file.
        BackgroundPidfile = "background-pidfile",
        /// Start, stop and reload are scripts.
        BackgroundScripted = "background-scripted",
        /// A command run once.
        Oneshot = "oneshot",
        /// No process; exists for its dependencies.
        Virtual = "virtual",
        /// Trigger: listens on sockets.
        Socket = "socket",
        /// Trigger: fires at times.
        Timer = "timer",
        /// Trigger: watches files.
        Path = "path",
    }
}

impl Kind {
    /// Returns the type for a `Type=` of systemd.
    pub fn of_systemd(word: &str) -> Option<Kind> {
        Some(match word {
            "simple" | "exec" | "idle" | "dbus" => Kind::ForegroundSupervised,
            "notify" | "notify-reload" => Kind::ForegroundNotified,
            // Without a pid file the main process is guessed, or only the cgroup shows the state.
            "forking" => Kind::BackgroundPidfile,
            "oneshot" => Kind::Oneshot,
            _ => return None,
        })
    }

    /// Returns true if a unit of this type runs a process.
    pub fn has_process(self) -> bool {
        !self.is_instant()
    }

    /// Returns true if a unit of this type runs no process. Its start needs no slot.
    pub fn is_instant(self) -> bool {
        matches!(self, Kind::Virtual) || self.is_trigger()
    }

    /// Returns true if the unit fires the target that it `activates`.
    pub fn is_trigger(self) -> bool {
        matches!(self, Kind::Socket | Kind::Timer | Kind::Path)
    }
}

words! {
    /// The kinds of dependency, as the unit files name them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum DependencyKind {
        /// Pulls the provider in and waits until it is active. Losing the provider stops the
        /// dependent.
        DependsOn = "depends-on",
        /// Pulls the provider in and waits until it is active. A run that has started keeps going
        /// when the provider is lost.
        DependsMs = "depends-ms",
        /// Pulls the provider in and waits until it is active or failed.
        WaitsFor = "waits-for",
        /// Pulls the provider in.
        Wants = "wants",
        /// Order only: this unit after the provider.
        After = "after",
        /// Order only: the provider after this unit.
        Before = "before",
        /// Restarted when the provider is told to stop.
        RestartWith = "restart-with",
        /// The two units are never up together.
        Conflicts = "conflicts",
        /// Orders like `after`. The provider must be active, but this unit does not pull it in.
        RequiresActive = "requires-active",
        /// Reloads its configuration when the operator reloads that of the provider.
        ReloadWith = "reload-with",
        /// Pulls the provider in while this unit has the verdict failed.
        OnFailure = "on-failure",
        /// Pulls the provider in while this unit has exited with success.
        OnSuccess = "on-success",
        /// Pulls the provider in while it has a connection from this socket. The loader adds this
        /// kind; it has no key.
        Accepts = "accepts",
    }
}

impl DependencyKind {
    /// Returns true if the provider is needed regardless of the dependent's state.
    pub fn pulls_in(self) -> bool {
        matches!(
            self,
            DependencyKind::DependsOn
                | DependencyKind::DependsMs
                | DependencyKind::WaitsFor
                | DependencyKind::Wants
        )
    }

    /// Returns true if the kind orders starts and stops. Rings of such dependencies are illegal.
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

    /// Returns true if the provider is needed only while the dependent has failed or succeeded.
    pub fn pulls_in_at_end(self) -> bool {
        matches!(self, DependencyKind::OnFailure | DependencyKind::OnSuccess)
    }
}

words! {
    /// The condition for restarting a unit that has exited. The classes are those of
    /// systemd.service(5), `Restart=`. [`Live::success_status`] defines success.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Restart {
        /// After a failure.
        OnFailure = "on-failure",
        /// After every exit.
        Always = "always",
        /// No restart.
        Never = "never",
        /// After a success.
        OnSuccess = "on-success",
        /// After a failure other than an exit status: a signal, a timeout, the watchdog.
        OnAbnormal = "on-abnormal",
        /// After a signal that does not count as success.
        OnAbort = "on-abort",
        /// After a watchdog timeout.
        OnWatchdog = "on-watchdog",
    }
}

/// `restart-limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RestartLimit {
    /// Retry for ever.
    None,
    /// That many failures in a row are final.
    InARow(u32),
    /// That many failures within the span are final.
    Within(u32, Duration),
}

words! {
    /// The effect of a reload with changed keys of class *run* on a unit that is up.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum OnChange {
        /// Stop it, start the new definition.
        Restart = "restart",
        /// Reload it by its exec-reload or reload-signal.
        Reload = "reload",
        /// Keep the run; shown as `stale`.
        Keep = "keep",
    }
}

/// How a process exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Exit {
    /// By exit(2), with this status.
    Code(u8),
    /// By this signal.
    Signal {
        /// The signal number.
        signal: u8,
        /// It dumped core.
        #[serde(default)]
        core: bool,
    },
}

/// A list of exit statuses and signals: `success-status`, `restart-except`, `restart-also`. Sorted,
/// without duplicates.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct SuccessStatus {
    /// Exit statuses.
    pub codes: Vec<u8>,
    /// Signal numbers.
    pub signals: Vec<u8>,
}

impl SuccessStatus {
    /// Returns true if the list contains this exit.
    pub fn lists(&self, exit: Exit) -> bool {
        match exit {
            Exit::Code(code) => self.codes.contains(&code),
            Exit::Signal { signal, .. } => self.signals.contains(&signal),
        }
    }
}

/// Keys of class *live*: the machine decides by them, and a reload changes them in place. A key
/// with its default is not written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Live {
    /// A description in one line.
    #[serde(default, skip_serializing_if = "is_default")]
    pub description: String,
    /// The start timeout; `None` means no limit.
    #[serde(skip_serializing_if = "is_unset::start_timeout")]
    pub start_timeout: Option<Duration>,
    /// The stop timeout; `None` means no limit.
    #[serde(skip_serializing_if = "is_unset::stop_timeout")]
    pub stop_timeout: Option<Duration>,
    /// The first signal of a stop.
    #[serde(skip_serializing_if = "is_unset::stop_signal")]
    pub stop_signal: u8,
    /// The condition for a restart.
    #[serde(skip_serializing_if = "is_unset::restart")]
    pub restart: Restart,
    /// The first delay before a restart.
    #[serde(skip_serializing_if = "is_unset::restart_delay")]
    pub restart_delay: Duration,
    /// The longest delay before a restart.
    #[serde(skip_serializing_if = "is_unset::restart_delay_max")]
    pub restart_delay_max: Duration,
    /// After this time in active, earlier failures no longer count.
    #[serde(skip_serializing_if = "is_unset::restart_reset")]
    pub restart_reset: Duration,
    /// The limit of retries.
    #[serde(skip_serializing_if = "is_unset::restart_limit")]
    pub restart_limit: RestartLimit,
    /// The number of failures in a row that give the verdict failed; at least 1.
    #[serde(skip_serializing_if = "is_unset::failure_verdict")]
    pub failure_verdict: u32,
    /// Exits that count as success.
    #[serde(default, skip_serializing_if = "is_default")]
    pub success_status: SuccessStatus,
    /// Exits of the main process that never lead to a restart, whatever `restart` says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart_except: SuccessStatus,
    /// Exits of the main process that always lead to a restart, whatever `restart` says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart_also: SuccessStatus,
    /// The longest time in active; a longer run fails. `None` means no limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub run_timeout: Option<Duration>,
    /// The effect of a changed definition on a run that is up.
    #[serde(skip_serializing_if = "is_unset::on_change")]
    pub on_change: OnChange,
    /// A reload never restarts the unit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub essential: bool,
    /// The stop does not wait for dependents, and the process cannot extend its timeout.
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

/// Declares a function for each key of [`Live`] whose default differs from the default of its Rust
/// type. The function returns true for the default of the key.
macro_rules! live_defaults {
    ($($key:ident: $of:ty),+ $(,)?) => {
        mod is_unset {
            use super::{Duration, Live, OnChange, Restart, RestartLimit};
            $(pub(super) fn $key(value: &$of) -> bool {
                *value == Live::default().$key
            })+
        }
    };
}

live_defaults! {
    start_timeout: Option<Duration>,
    stop_timeout: Option<Duration>,
    stop_signal: u8,
    restart: Restart,
    restart_delay: Duration,
    restart_delay_max: Duration,
    restart_reset: Duration,
    restart_limit: RestartLimit,
    failure_verdict: u32,
    on_change: OnChange,
}

/// The event that makes a run ready. Derived from the type and the `ready-*` keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Readiness {
    /// Ready at once (virtual, timer, path).
    Instant,
    /// Ready when exec(2) has succeeded.
    #[default]
    Exec,
    /// Ready this long after exec(2), if the process still runs.
    Wait(Duration),
    /// Ready when init reports it, as the unit says: READY=1, a matching line, a pid file, sockets
    /// that listen …
    Reported,
    /// Ready when the (last) process has exited with success: oneshot, background-scripted.
    Exit,
}

words! {
    /// The processes of a unit that may send notifications.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum NotifyAccess {
        /// The main process.
        Main = "main",
        /// The main process and the commands that init starts for the unit (exec-reload …).
        Exec = "exec",
        /// Every process of the unit.
        All = "all",
        /// No process.
        #[default]
        None = "none",
    }
}

words! {
    /// The destination of a unit's output.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Log {
        /// The logger: recent lines in memory, and a file per unit.
        #[default]
        File = "file",
        /// /dev/kmsg.
        Kmsg = "kmsg",
        /// /dev/log.
        Syslog = "syslog",
        /// /dev/console.
        Console = "console",
        /// init's own stdout and stderr.
        Inherit = "inherit",
        /// /dev/null.
        Null = "null",
    }
}

/// `user:` and `group:` as resolved by the loader in /etc/passwd and /etc/group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Credentials {
    /// The ids to set, or the reason why they are unknown. The start then fails in stage `user`
    /// with that error.
    pub ids: Result<Ids, Unresolved>,
}

/// The ids to set. Init sets the groups first, then the gid, then the uid.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Ids {
    /// The user, if the unit names one.
    pub uid: Option<u32>,
    /// The group, if the unit names one or its user has one.
    pub gid: Option<u32>,
    /// The supplementary groups. `None` leaves them unchanged, because the unit names neither a
    /// user nor supplementary groups.
    pub groups: Option<Vec<u32>>,
    /// The value of USER and LOGNAME.
    pub user: Option<String>,
    /// The value of HOME.
    pub home: Option<String>,
    /// The value of SHELL.
    pub shell: Option<String>,
}

/// A user or group that does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Unresolved {
    /// `user` or `group`.
    pub what: String,
    /// The name in the unit file.
    pub name: String,
}

/// A resource limit. `None` means infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResourceLimit {
    /// The number of the limit on Linux (RLIMIT_*).
    pub resource: u8,
    /// The soft limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub soft: Option<u64>,
    /// The hard limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hard: Option<u64>,
}

/// A part of a word of an exec line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Piece {
    /// Literal text.
    Literal(String),
    /// `${NAME}`: always one word; empty if the variable is unset.
    Variable(String),
    /// `$NAME` as a whole word: split at white space; no word if the variable is unset.
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
    /// `+`: as init's own user, with all of init's privileges.
    pub const PRIVILEGED: Prefixes = Prefixes(2);
    /// `!`: as init's own user; all other keys of the unit apply.
    pub const OWN_USER: Prefixes = Prefixes(4);
    /// `@`: the second word is the program's argument 0.
    pub const NAMED: Prefixes = Prefixes(8);

    /// Returns true if the set contains all of `other`.
    pub const fn has(self, other: Prefixes) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both sets.
    pub const fn and(self, other: Prefixes) -> Prefixes {
        Prefixes(self.0 | other.0)
    }
}

/// One exec line. The first word is the program.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecLine {
    /// The prefixes before the program, except `:`, which the parser handles.
    pub prefixes: Prefixes,
    /// The words, each of at least one piece. An empty word has one empty literal.
    pub words: Vec<Vec<Piece>>,
}

/// A file of `N=V` lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EnvFile {
    /// An absolute path.
    pub path: String,
    /// The file may be missing (a leading `-`).
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

/// Keys of class *run*: everything that the processes of a unit need.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Run {
    /// The type.
    #[serde_with(skip_apply)]
    pub kind: Kind,
    /// The command. A oneshot has one or more, which run in order.
    pub exec_start: Vec<ExecLine>,
    /// Commands before `exec-start`, in order. If one fails, the start fails.
    pub exec_start_pre: Vec<ExecLine>,
    /// Commands before all others. An exit status from 1 to 254 skips the unit.
    pub exec_condition: Vec<ExecLine>,
    /// Commands that run after the unit is ready and before it counts as active.
    pub exec_start_post: Vec<ExecLine>,
    /// Commands that run after the end of a run, however it ended. No process is left then, except
    /// those that `kill-mode` lets run on.
    pub exec_stop_post: Vec<ExecLine>,
    /// Commands that replace the stop signal.
    pub exec_stop: Vec<ExecLine>,
    /// Commands of `initctl reload-unit`.
    pub exec_reload: Vec<ExecLine>,
    /// A oneshot with `remain` runs exec-stop only when it is stopped. Without `remain`, each run
    /// itself includes exec-stop and the end of the remaining processes, and init reports success
    /// only after them.
    pub remain: bool,
    /// The pid file of a background-pidfile unit.
    pub pid_file: Option<String>,
    /// The event that makes the run ready; derived.
    #[serde_with(skip_apply)]
    pub readiness: Readiness,
    /// The pattern of `ready-grep`. The loader has checked that it compiles.
    pub ready_grep: Option<String>,
    /// The processes that may send notifications.
    pub notify_access: NotifyAccess,
    /// The destination of the output.
    pub log: Log,
    /// The user and groups of the processes. `None` means init's own.
    pub credentials: Option<Credentials>,
    /// Environment variables, in the order of the unit file.
    pub env: Vec<(String, String)>,
    /// Files with environment variables. The child reads them at the start.
    pub env_file: Vec<EnvFile>,
    /// The working directory: absolute, or `~` for the user's home. The default is `/`.
    #[serde_with(skip_apply)]
    #[serde(default = "root", skip_serializing_if = "is_root")]
    pub working_dir: String,
    /// The umask. The default is 022.
    #[serde_with(skip_apply)]
    #[serde(default = "umask")]
    pub umask: u32,
    /// Resource limits.
    pub limits: Vec<ResourceLimit>,
    /// Rare settings; `None` for most units.
    pub particular: Option<Box<Particular>>,
}

impl Run {
    /// Returns a run with default settings and without a command.
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

    /// Returns true if a stop has work to do even when no process is left. A oneshot without
    /// `remain` has done that work before it exits.
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

    /// Returns true if standard input is a terminal.
    pub fn reads_terminal(&self) -> bool {
        let stdio = self.particular.as_deref().map(|particular| &particular.stdio);
        stdio.is_some_and(|stdio| matches!(stdio.input, Input::Terminal { .. }))
    }

    /// Returns true if the unit can reload its configuration.
    pub fn has_reload(&self) -> bool {
        let signal = self.particular.as_ref().and_then(|p| p.ending.reload_signal);
        !self.exec_reload.is_empty() || signal.is_some()
    }
}

/// `fd-store-*`: descriptors that init keeps for a service across its runs.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct FdStore {
    /// The number of descriptors allowed; 0 refuses all.
    pub most: u16,
    /// How long init keeps them: until the run ends, until the unit is not needed, or until it is
    /// removed.
    pub keep: Keep,
}

words! {
    /// `runtime-dir-keep`. The words of `fd-store-preserve` are the same; see [`FdStore::keep`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum Keep {
        /// The directory is removed at every stop.
        #[default]
        No = "no",
        /// The directory is kept during a restart.
        Restart = "restart",
        /// The directory is always kept.
        Yes = "yes",
    }
}
