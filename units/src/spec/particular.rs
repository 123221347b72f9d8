//! What few units ask for: everything a process can be given besides its command, its
//! user and its environment. Kept apart from [`super::Run`], so that a unit that asks for
//! none of it pays one byte, and so that the quick way of starting a process
//! (see `init/src/spawn`) knows by one look that it will do.

use super::{ExecLine, FdStore, Keep, Log};
use crate::text::fields::is_default;
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::time::Duration;

/// All of it. Its default asks for nothing.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Particular {
    /// Looked at before anything of the unit runs.
    pub conditions: Vec<Condition>,
    /// Variables of init's own environment that are handed on.
    pub env_pass: Vec<String>,
    /// Variables that are taken away again, whoever set them.
    pub env_unset: Vec<String>,
    /// `-` before working-dir: `/` where it is missing.
    pub working_dir_optional: bool,
    /// chroot(2).
    pub root_dir: Option<String>,
    /// What it may do besides what its user may.
    pub privileges: Privileges,
    /// Where its descriptors 0, 1 and 2 lead.
    pub stdio: Stdio,
    /// Made for it.
    pub directories: Vec<Directories>,
    /// Whether `runtime-dir` outlives a stop.
    pub runtime_dir_keep: Keep,
    /// Its share of the processor and the disks.
    pub schedule: Schedule,
    /// How it is ended.
    pub ending: Ending,
    /// Its cgroup's settings.
    pub cgroup: Cgroup,
    /// A line to this descriptor makes it ready.
    pub ready_fd: Option<u16>,
    /// That long after its exec, before its exec-start-post.
    pub ready_wait: Option<Duration>,
    /// Run again and again; its success makes the unit ready.
    pub ready_exec: Option<ExecLine>,
    /// Started when nothing else is starting any more, or five seconds later.
    pub start_idle: bool,
    /// How the main process of a background-pidfile unit without a pid file is told.
    pub main_pid: MainPid,
    /// A ping is expected at least this often.
    pub watchdog: Option<Duration>,
    /// Paths that have to exist before the first command; looked for until the start times out.
    pub wait_file: Vec<String>,
    /// Descriptors that init keeps for it.
    pub fd_store: FdStore,
    /// SIGPIPE is ignored, not deadly.
    pub ignore_sigpipe: bool,
    /// From an imported file: a limit of its cgroup that can not be set is a warning, and its
    /// exec-stop is followed by the stop signal.
    pub lenient: bool,
}

impl Particular {
    /// It asks for something.
    pub fn is_any(&self) -> bool {
        *self != Particular::default()
    }
}

/// One `condition-*` or `assert-*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Condition {
    /// What is asked.
    pub kind: ConditionKind,
    /// About what.
    pub argument: String,
    /// `!`: it must not hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub negated: bool,
    /// `|`: one of those so marked is enough.
    #[serde(default, skip_serializing_if = "is_default")]
    pub any: bool,
    /// Unmet it is a failure, not a reason to skip.
    #[serde(default, skip_serializing_if = "is_default")]
    pub assert: bool,
}

impl Condition {
    /// As it stands in a unit file: `condition-path-exists: !/etc/x`.
    pub fn words(&self) -> String {
        let class = if self.assert { "assert" } else { "condition" };
        let (any, not) = (if self.any { "|" } else { "" }, if self.negated { "!" } else { "" });
        format!("{class}-{}: {any}{not}{}", self.kind.as_str(), self.argument)
    }
}

macro_rules! condition_kinds {
    ($($name:ident $word:literal $doc:literal;)*) => {
        /// What a condition asks. systemd.unit(5), "Conditions and Asserts".
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum ConditionKind { $(#[doc = $doc] $name,)* }

        impl ConditionKind {
            /// All of them.
            pub const ALL: &[ConditionKind] = &[$(ConditionKind::$name,)*];

            /// What stands behind `condition-`.
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
    /// PR_SET_NO_NEW_PRIVS.
    pub no_new: bool,
    /// The bounding set, bit n for capability n; None: as it is.
    pub bound: Option<u64>,
    /// The ambient set.
    pub ambient: u64,
    /// SECBIT_*.
    pub secure_bits: u8,
}

/// Where the three descriptors lead.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Stdio {
    /// 0.
    pub input: Input,
    /// 1.
    pub output: Output,
    /// 2.
    pub error: Output,
    /// The terminal, where one is asked for.
    pub tty: Terminal,
    /// The name its lines bear in the kernel's and the system's log; empty: its own.
    pub log_tag: String,
    /// The level and facility of its lines.
    pub log_priority: LogPriority,
    /// A place of output that stands still is waited for, however long; nothing is dropped.
    pub log_blocks: bool,
    /// The id of its record in utmp(5); empty: none.
    pub utmp_id: String,
}

/// `log-level-prefix`, `log-level` and `log-facility`: numbers of syslog(3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct LogPriority {
    /// A line may begin with its level.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix: bool,
    /// The level of a line that does not; None: info.
    #[serde(default, skip_serializing_if = "is_default")]
    pub level: Option<u8>,
    /// `None` means daemon.
    #[serde(default, skip_serializing_if = "is_default")]
    pub facility: Option<u8>,
}

impl Stdio {
    /// One of the three is a terminal.
    pub fn has_terminal(&self) -> bool {
        matches!(self.input, Input::Terminal { .. })
            || [&self.output, &self.error].contains(&&Output::Terminal)
    }
}

/// `stdin`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Input {
    /// Nothing to read.
    #[default]
    Null,
    /// The terminal, which becomes the controlling one.
    Terminal {
        /// Taken from whoever has it.
        #[serde(default)]
        force: bool,
    },
    /// A file.
    File(String),
    /// The first socket that is passed.
    Socket,
}

/// `stdout`, `stderr`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Output {
    /// Where `log` says.
    #[default]
    Log,
    /// Another place `log` could name.
    As(Log),
    /// The terminal.
    Terminal,
    /// A file, opened so.
    File {
        /// Absolute.
        path: String,
        /// How.
        opening: Opening,
    },
    /// The first socket that is passed.
    Socket,
}

/// How an output file is opened. It is made where it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Opening {
    /// Written over from its beginning.
    Over,
    /// Written at its end.
    Append,
    /// Emptied first.
    Truncate,
}

/// A terminal and what is done to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Terminal {
    /// Its device; empty: /dev/console.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path: String,
    /// Its settings are made sane before and after a run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reset: bool,
    /// Everybody else is disconnected from it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hangup: bool,
}

/// Directories of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Directories {
    /// Below what.
    pub kind: DirectoryKind,
    /// Relative, without `.` and `..`.
    #[serde(default)]
    pub names: Vec<String>,
    /// Permission bits.
    #[serde(default)]
    pub mode: u16,
}

/// The five places for directories of a unit.
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
    /// All of them.
    pub const ALL: [DirectoryKind; 5] = [
        DirectoryKind::Runtime,
        DirectoryKind::State,
        DirectoryKind::Cache,
        DirectoryKind::Log,
        DirectoryKind::Config,
    ];

    /// The key that asks for one.
    pub const fn key(self) -> &'static str {
        match self {
            DirectoryKind::Runtime => "runtime-dir",
            DirectoryKind::State => "state-dir",
            DirectoryKind::Cache => "cache-dir",
            DirectoryKind::Log => "log-dir",
            DirectoryKind::Config => "config-dir",
        }
    }

    /// The variable that names it to the process.
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

/// Scheduling. None: as init's own.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Schedule {
    /// setpriority(2).
    pub nice: Option<i8>,
    /// proc(5), oom_score_adj.
    pub oom_score_adjust: Option<i16>,
    /// ioprio_set(2): the class and the priority, as one number.
    pub io_priority: Option<u16>,
    /// sched_setscheduler(2): the policy and the priority.
    pub cpu_policy: Option<(u8, u8)>,
    /// sched_setaffinity(2): numbers of processors; empty: all.
    pub cpu_affinity: Vec<u16>,
}

/// How a run is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Ending {
    /// Who is signalled.
    pub mode: KillMode,
    /// What ends what is left at the stop timeout.
    pub final_signal: u8,
    /// That signal is sent.
    pub kill: bool,
    /// SIGHUP follows the stop signal.
    pub hup: bool,
    /// Reloads it, where there is no exec-reload.
    pub reload_signal: Option<u8>,
    /// From the watchdog's ABRT to the end of patience; None: the stop timeout.
    pub abort_timeout: Option<Duration>,
    /// What the kernel's killing for want of memory means.
    pub oom_policy: OomPolicy,
}

impl Ending {
    /// What survives another last signal than KILL is killed that much later.
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
    /// The main process, then the rest.
    #[default]
    Group,
    /// The stop signal to the main process, KILL to the rest.
    Mixed,
    /// The main process alone; the rest lives on.
    Process,
    /// Nobody: exec-stop alone.
    None,
}

/// `oom-policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OomPolicy {
    /// The run goes on without the killed process.
    Continue,
    /// The run has failed, and is stopped.
    #[default]
    Stop,
    /// The kernel kills all of it at once.
    Kill,
}

/// `main-pid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MainPid {
    /// The pid file says it.
    #[default]
    File,
    /// The one process that is left when the launcher has ended.
    Guess,
    /// There is none: the unit is up as long as any process of it is.
    None,
}

/// Settings of the cgroup, v2. Documentation/admin-guide/cgroup-v2.rst.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroup {
    /// File and text to write, in this order: `memory.max` `33554432`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub settings: Vec<(String, String)>,
    /// Below ours, `a/b`; empty: right below.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slice: String,
    /// The unit's user may make cgroups of its own below.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delegate: bool,
}
