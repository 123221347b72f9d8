//! Rare settings of a process: everything besides its command, its user and its environment. They
//! are separate from [`super::Run`], so that a unit without them pays one pointer. The fast path of
//! `init/src/spawn` needs one check to see that a unit has none.

use super::{ExecLine, FdStore, Keep, Log};
use crate::text::fields::is_default;
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::time::Duration;

/// All rare settings. The default sets nothing.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Particular {
    /// Conditions that init checks before it runs any command of the unit.
    pub conditions: Vec<Condition>,
    /// Variables of init's own environment that the process inherits.
    pub env_pass: Vec<String>,
    /// Variables that init removes, whatever set them.
    pub env_unset: Vec<String>,
    /// `-` before working-dir: the process runs in `/` if the directory is missing.
    pub working_dir_optional: bool,
    /// The argument of chroot(2).
    pub root_dir: Option<String>,
    /// Privileges in addition to those of the user, or fewer.
    pub privileges: Privileges,
    /// The files behind descriptors 0, 1 and 2.
    pub stdio: Stdio,
    /// Directories that init creates for the unit.
    pub directories: Vec<Directories>,
    /// How long init keeps `runtime-dir`.
    pub runtime_dir_keep: Keep,
    /// CPU and disk scheduling.
    pub schedule: Schedule,
    /// How init stops the processes.
    pub ending: Ending,
    /// Settings of the unit's cgroup.
    pub cgroup: Cgroup,
    /// The descriptor on which a line reports readiness.
    pub ready_fd: Option<u16>,
    /// The time from exec(2) to readiness; exec-start-post runs after it.
    pub ready_wait: Option<Duration>,
    /// A command that init repeats until it succeeds; then the unit is ready.
    pub ready_exec: Option<ExecLine>,
    /// The unit starts when no other unit is starting, or after five seconds.
    pub start_idle: bool,
    /// How init finds the main process of a background-pidfile unit without a pid file.
    pub main_pid: MainPid,
    /// The longest interval between two watchdog pings.
    pub watchdog: Option<Duration>,
    /// Paths that must exist before the first command. Init checks them until the start times out.
    pub wait_file: Vec<String>,
    /// Descriptors that init keeps for the unit.
    pub fd_store: FdStore,
    /// The process ignores SIGPIPE.
    pub ignore_sigpipe: bool,
    /// The unit comes from an imported file. A cgroup limit that cannot be set is then only a
    /// warning, and the stop signal follows exec-stop.
    pub lenient: bool,
}

impl Particular {
    /// Returns true if any setting differs from its default.
    pub fn is_any(&self) -> bool {
        *self != Particular::default()
    }
}

/// One `condition-*` or `assert-*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Condition {
    /// The kind of question.
    pub kind: ConditionKind,
    /// The argument of the question.
    pub argument: String,
    /// `!`: the condition must not hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub negated: bool,
    /// `|`: one of the conditions with this mark must hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub any: bool,
    /// An unmet condition fails the unit instead of skipping it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub assert: bool,
}

impl Condition {
    /// The line of a unit file: `condition-path-exists: !/etc/x`.
    pub fn words(&self) -> String {
        let class = if self.assert { "assert" } else { "condition" };
        let (any, not) = (if self.any { "|" } else { "" }, if self.negated { "!" } else { "" });
        format!("{class}-{}: {any}{not}{}", self.kind.as_str(), self.argument)
    }
}

macro_rules! condition_kinds {
    ($($name:ident $word:literal $doc:literal;)*) => {
        /// The kinds of conditions: systemd.unit(5), "Conditions and Asserts".
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum ConditionKind { $(#[doc = $doc] $name,)* }

        impl ConditionKind {
            /// All of them.
            pub const ALL: &[ConditionKind] = &[$(ConditionKind::$name,)*];

            /// The part of the key after `condition-`.
            pub const fn as_str(self) -> &'static str {
                match self { $(ConditionKind::$name => $word,)* }
            }
        }
    };
}

condition_kinds! {
    PathExists "path-exists" "There is something at this path.";
    PathExistsGlob "path-exists-glob" "Something matches this pattern.";
    PathIsDirectory "path-is-directory" "There is a directory at this path.";
    PathIsSymlink "path-is-symlink" "There is a symbolic link at this path.";
    PathIsMountPoint "path-is-mount-point" "Something is mounted at this path.";
    PathWritable "path-writable" "The path is on a file system that is not read-only.";
    DirectoryNotEmpty "directory-not-empty" "There is a directory with something in it.";
    FileNotEmpty "file-not-empty" "There is a file with something in it.";
    FileExecutable "file-executable" "There is a file that may be executed.";
    KernelCmdline "kernel-cmdline" "The kernel's command line has this word or assignment.";
    Virtualization "virtualization" "This is a virtual machine, a container, or that one.";
    Capability "capability" "The capability can be had.";
    Security "security" "The kernel has this security technology switched on.";
    AcPower "ac-power" "The machine is on mains power.";
    FirstBoot "first-boot" "The machine has no identity yet.";
    Host "host" "The machine has this name or id.";
    Architecture "architecture" "The machine is of this kind.";
    User "user" "init runs as this user.";
    Group "group" "init runs in this group.";
    Cpus "cpus" "So many processors can be used.";
    Memory "memory" "The machine has so much memory.";
    KernelVersion "kernel-version" "The kernel's version compares so.";
    Environment "environment" "init's own environment has this variable or assignment.";
}

/// capabilities(7), prctl(2).
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Privileges {
    /// Sets PR_SET_NO_NEW_PRIVS.
    pub no_new: bool,
    /// The bounding set, bit n for capability n. `None` leaves it unchanged.
    pub bound: Option<u64>,
    /// The ambient set.
    pub ambient: u64,
    /// The securebits (SECBIT_*).
    pub secure_bits: u8,
}

/// The files behind the three standard descriptors.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Stdio {
    /// Descriptor 0.
    pub input: Input,
    /// Descriptor 1.
    pub output: Output,
    /// Descriptor 2.
    pub error: Output,
    /// The terminal, if one is used.
    pub tty: Terminal,
    /// The identifier of the unit's lines in the kernel log and syslog; empty means the unit's
    /// name.
    pub log_tag: String,
    /// The level and facility of the unit's lines.
    pub log_priority: LogPriority,
    /// Init waits for a blocked output destination without limit, so that no line is dropped.
    pub log_blocks: bool,
    /// The id of the unit's record in utmp(5); empty means no record.
    pub utmp_id: String,
}

/// `log-level-prefix`, `log-level` and `log-facility`: numbers of syslog(3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct LogPriority {
    /// A line may start with its level.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix: bool,
    /// The level of a line without one; `None` means info.
    #[serde(default, skip_serializing_if = "is_default")]
    pub level: Option<u8>,
    /// The facility; `None` means daemon.
    #[serde(default, skip_serializing_if = "is_default")]
    pub facility: Option<u8>,
}

impl Stdio {
    /// Returns true if one of the three is a terminal.
    pub fn has_terminal(&self) -> bool {
        matches!(self.input, Input::Terminal { .. })
            || [&self.output, &self.error].contains(&&Output::Terminal)
    }
}

/// `stdin`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Input {
    /// /dev/null.
    #[default]
    Null,
    /// The terminal, which becomes the controlling one.
    Terminal {
        /// Init takes the terminal from its current session.
        #[serde(default)]
        force: bool,
    },
    /// A file.
    File(String),
    /// The first socket that init passes.
    Socket,
    /// Init's own input, and its output and error with it. A terminal becomes the controlling one
    /// unless it belongs to another session. No unit file can ask for it.
    Inherit,
}

/// `stdout`, `stderr`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Output {
    /// The destination that `log` names.
    #[default]
    Log,
    /// Another destination of those that `log` allows.
    As(Log),
    /// The terminal.
    Terminal,
    /// A file.
    File {
        /// An absolute path.
        path: String,
        /// How init opens the file.
        opening: Opening,
    },
    /// The first socket that init passes.
    Socket,
}

/// How init opens an output file. It creates a missing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Opening {
    /// Overwrites the file from its start.
    Over,
    /// Appends.
    Append,
    /// Truncates the file first.
    Truncate,
}

/// A terminal and how init prepares it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Terminal {
    /// The device; empty means /dev/console.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path: String,
    /// Init resets the terminal before and after a run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reset: bool,
    /// Init disconnects all other processes from the terminal.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hangup: bool,
}

/// The directories of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Directories {
    /// The parent directory.
    pub kind: DirectoryKind,
    /// Relative paths without `.` and `..`.
    #[serde(default)]
    pub names: Vec<String>,
    /// The permission bits.
    #[serde(default)]
    pub mode: u16,
}

/// The five parent directories for directories of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DirectoryKind {
    /// /run.
    Runtime,
    /// /var/lib.
    State,
    /// /var/cache.
    Cache,
    /// /var/log.
    Log,
    /// /etc.
    Config,
}

impl DirectoryKind {
    /// All five.
    pub const ALL: [DirectoryKind; 5] = [
        DirectoryKind::Runtime,
        DirectoryKind::State,
        DirectoryKind::Cache,
        DirectoryKind::Log,
        DirectoryKind::Config,
    ];

    /// The key of a unit file.
    pub const fn key(self) -> &'static str {
        match self {
            DirectoryKind::Runtime => "runtime-dir",
            DirectoryKind::State => "state-dir",
            DirectoryKind::Cache => "cache-dir",
            DirectoryKind::Log => "log-dir",
            DirectoryKind::Config => "config-dir",
        }
    }

    /// The environment variable with the directories.
    pub const fn variable(self) -> &'static str {
        match self {
            DirectoryKind::Runtime => "RUNTIME_DIRECTORY",
            DirectoryKind::State => "STATE_DIRECTORY",
            DirectoryKind::Cache => "CACHE_DIRECTORY",
            DirectoryKind::Log => "LOGS_DIRECTORY",
            DirectoryKind::Config => "CONFIGURATION_DIRECTORY",
        }
    }
}

/// Scheduling. `None` means that init's own value is inherited.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Schedule {
    /// The argument of setpriority(2).
    pub nice: Option<i8>,
    /// `oom_score_adj`, see proc(5).
    pub oom_score_adjust: Option<i16>,
    /// ioprio_set(2): the class and the priority, as one number.
    pub io_priority: Option<u16>,
    /// sched_setscheduler(2): the policy and the priority.
    pub cpu_policy: Option<(u8, u8)>,
    /// sched_setaffinity(2): the processor numbers; empty means all.
    pub cpu_affinity: Vec<u16>,
}

/// How init stops a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Ending {
    /// The processes that get the signals.
    pub mode: KillMode,
    /// The last signal, which init sends at the stop timeout.
    pub final_signal: u8,
    /// Init sends the last signal.
    pub kill: bool,
    /// Init sends SIGHUP after the stop signal.
    pub hup: bool,
    /// The signal that reloads the unit if it has no exec-reload.
    pub reload_signal: Option<u8>,
    /// The time from the watchdog's ABRT to the last signal. `None` means the stop timeout.
    pub abort_timeout: Option<Duration>,
    /// The effect of the kernel's OOM killer on the run.
    pub oom_policy: OomPolicy,
}

impl Ending {
    /// The time from a last signal other than KILL to the KILL.
    pub const FINAL_PATIENCE: Duration = Duration::from_secs(2);
}

impl Default for Ending {
    fn default() -> Ending {
        Ending {
            mode: KillMode::Group,
            final_signal: 9,
            kill: true,
            hup: false,
            reload_signal: None,
            abort_timeout: None,
            oom_policy: OomPolicy::Stop,
        }
    }
}

/// `kill-mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KillMode {
    /// The main process first, then the others.
    #[default]
    Group,
    /// The main process gets the stop signal, the others get KILL.
    Mixed,
    /// The main process only; the others keep running.
    Process,
    /// No process: only exec-stop runs.
    None,
}

/// `oom-policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OomPolicy {
    /// The run continues without the killed process.
    Continue,
    /// The run fails, and init stops it.
    #[default]
    Stop,
    /// The kernel kills all processes of the run at once.
    Kill,
}

/// `main-pid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MainPid {
    /// The pid file names it.
    #[default]
    File,
    /// The only process left after the launcher has exited.
    Guess,
    /// The unit has none: it is up while any of its processes runs.
    None,
}

/// Settings of the cgroup (v2). See Documentation/admin-guide/cgroup-v2.rst.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroup {
    /// Files and the text to write, in this order: `memory.max` `33554432`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub settings: Vec<(String, String)>,
    /// The path `a/b` of the parent below init's cgroup; empty means directly below.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slice: String,
    /// The unit's user may create cgroups below the unit's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delegate: bool,
}
