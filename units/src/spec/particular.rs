//! Rare settings of a process: everything besides its command, its user and its environment. They
//! are separate from [`super::Run`], so that a unit without them pays one pointer. The fast path of
//! `init/src/spawn` needs one check to see that a unit has none.

use super::{ExecLine, FdStore, Keep, Log};
use crate::text::fields::is_default;
use crate::text::words::words;
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

words! {
    /// The kinds of conditions: systemd.unit(5), "Conditions and Asserts". The word is the part of the
    /// key after `condition-`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum ConditionKind {
        /// There is something at this path.
        PathExists = "path-exists",
        /// Something matches this pattern.
        PathExistsGlob = "path-exists-glob",
        /// There is a directory at this path.
        PathIsDirectory = "path-is-directory",
        /// There is a symbolic link at this path.
        PathIsSymlink = "path-is-symlink",
        /// Something is mounted at this path.
        PathIsMountPoint = "path-is-mount-point",
        /// The path is on a file system that is not read-only.
        PathWritable = "path-writable",
        /// There is a directory with something in it.
        DirectoryNotEmpty = "directory-not-empty",
        /// There is a file with something in it.
        FileNotEmpty = "file-not-empty",
        /// There is a file that may be executed.
        FileExecutable = "file-executable",
        /// The kernel's command line has this word or assignment.
        KernelCmdline = "kernel-cmdline",
        /// Init runs in a virtual machine, in a container, or in the named kind of either.
        Virtualization = "virtualization",
        /// The capability is in init's bounding set.
        Capability = "capability",
        /// The kernel has this security technology switched on.
        Security = "security",
        /// The machine is on mains power.
        AcPower = "ac-power",
        /// The machine has no identity yet.
        FirstBoot = "first-boot",
        /// The machine has this name or id.
        Host = "host",
        /// The machine is of this kind.
        Architecture = "architecture",
        /// init runs as this user.
        User = "user",
        /// init runs in this group.
        Group = "group",
        /// The number of usable processors satisfies the comparison.
        Cpus = "cpus",
        /// The size of the memory satisfies the comparison.
        Memory = "memory",
        /// The kernel's version satisfies the comparison.
        KernelVersion = "kernel-version",
        /// init's own environment has this variable or assignment.
        Environment = "environment",
    }
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
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct LogPriority {
    /// A line may start with its level.
    pub prefix: bool,
    /// The level of a line without one; `None` means info.
    pub level: Option<u8>,
    /// The facility; `None` means daemon.
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
    /// Appends to the file.
    Append,
    /// Truncates the file first.
    Truncate,
}

/// A terminal and how init prepares it.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Terminal {
    /// The device; empty means /dev/console.
    pub path: String,
    /// Init resets the terminal before and after a run.
    pub reset: bool,
    /// Init disconnects all other processes from the terminal.
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

words! {
    /// The five parent directories for directories of a unit.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum DirectoryKind {
        /// /run.
        Runtime = "runtime-dir",
        /// /var/lib.
        State = "state-dir",
        /// /var/cache.
        Cache = "cache-dir",
        /// /var/log.
        Log = "log-dir",
        /// /etc.
        Config = "config-dir",
    }
}

impl DirectoryKind {
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

words! {
    /// `kill-mode`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum KillMode {
        /// The main process gets the stop signal; after its exit the others get TERM.
        #[default]
        Group = "group",
        /// The main process gets the stop signal; after its exit the others get KILL.
        Mixed = "mixed",
        /// The main process only; the others keep running.
        Process = "process",
        /// No process: only exec-stop runs.
        None = "none",
    }
}

words! {
    /// `oom-policy`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum OomPolicy {
        /// The run continues without the killed process.
        Continue = "continue",
        /// The run fails, and init stops it.
        #[default]
        Stop = "stop",
        /// The kernel kills all processes of the run at once.
        Kill = "kill",
    }
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
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroup {
    /// Files and the text to write, in this order: `memory.max` `33554432`.
    pub settings: Vec<(String, String)>,
    /// The path `a/b` of the parent below init's cgroup; empty means directly below.
    pub slice: String,
    /// The unit's user may create cgroups below the unit's.
    pub delegate: bool,
}
