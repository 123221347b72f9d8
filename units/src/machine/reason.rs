//! Reasons for the state of a unit, and refusals of wishes. They are `reason.kind` of the public
//! JSON. The sentences are made here too, so that log, `why` and tests agree.

use crate::spec::Exit;
use crate::text::diagnostic::Place;
use crate::text::errno;
use crate::text::name::Name;
use crate::text::signal;
use crate::text::time::Time;
use crate::text::words::words;
use serde::{Deserialize, Serialize};
use std::fmt;

words! {
    /// The shown state of a unit.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
    )]
    #[serde(rename_all = "lowercase")]
    pub enum State {
        /// The unit is not needed. The alias is the name in JSON from 1.0.
        #[default]
        #[serde(alias = "idle")]
        Disabled = "disabled",
        /// The unit waits for a dependency, a slot or its next try.
        Waiting = "waiting",
        /// The run is not ready yet.
        Starting = "starting",
        /// The run is active.
        Running = "running",
        /// The run is active and reloads its configuration.
        Reloading = "reloading",
        /// The unit is active, and its main process has exited or it was skipped.
        Exited = "exited",
        /// The unit is failed; the reason says why.
        Failed = "failed",
        /// The run is stopping.
        Stopping = "stopping",
    }
}

impl State {
    /// The word on the screen. JSON has another one for an idle unit until 1.0.
    pub fn word(self) -> &'static str {
        if self == State::Disabled { "idle" } else { self.as_str() }
    }

    /// Returns true for running, reloading and exited.
    pub fn is_active(self) -> bool {
        matches!(self, State::Running | State::Reloading | State::Exited)
    }
}

/// The reason for the shown state of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The main process exited.
    Exit(Exit),
    /// The run was not ready in time.
    StartTimeout,
    /// The run did not stop in time.
    StopTimeout,
    /// No watchdog ping came in time.
    Watchdog,
    /// The run was active for longer than its run-timeout.
    RunTimeout,
    /// The command could not be run.
    Exec(ExecFailure),
    /// A provider is failed, has a verdict, or left active while this unit was up.
    Dependency {
        /// The target that the unit depends on.
        target: Name,
        /// The provider.
        unit: Name,
    },
    /// A provider that must be active is not, and init does not start it.
    Inactive {
        /// The target that the unit depends on.
        target: Name,
        /// The provider.
        unit: Name,
        /// The provider has succeeded and does not remain active.
        #[serde(default)]
        finished: bool,
    },
    /// A provider or the unit itself is masked.
    Masked {
        /// The target.
        target: Name,
    },
    /// No unit provides the target.
    Missing {
        /// The target.
        target: Name,
    },
    /// The unit's file has an error.
    Config {
        /// The place in the file.
        at: Place,
        /// The error.
        #[serde(default)]
        message: String,
    },
    /// A conflicting unit has precedence, or another unit provides a target that this unit of
    /// a source claims.
    Conflict {
        /// The target.
        target: Name,
    },
    /// A condition was not met.
    Skipped {
        /// The condition.
        #[serde(default)]
        condition: String,
    },
    /// The kernel killed the run because memory ran out.
    OutOfMemory,
    /// The service violated the protocol of its type.
    Protocol {
        /// The violation.
        #[serde(default)]
        message: String,
    },
    /// The unit waits for a free slot.
    Slot,
    /// The unit waits for its next try.
    Backoff {
        /// Consecutive failures.
        #[serde(default)]
        attempt: u32,
        /// The time of the next try.
        #[serde(default)]
        at: Time,
    },
    /// The unit waits for targets.
    On {
        /// The targets.
        #[serde(default)]
        targets: Vec<Name>,
    },
    /// A process of the run is unkillable.
    Unkillable,
    /// An internal error that was contained.
    Internal,
}

impl fmt::Display for Reason {
    /// Writes the sentence in lower case without a full stop. Points in time are left to callers
    /// that know the wall clock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Exit(Exit::Code(code)) => write!(f, "its process exited with status {code}"),
            Reason::Exit(Exit::Signal { signal: number, core }) => {
                let dumped = if *core { " (core dumped)" } else { "" };
                write!(f, "its process was killed by signal {}{dumped}", signal::name(*number))
            }
            Reason::StartTimeout => write!(f, "it was not ready within its start-timeout"),
            Reason::StopTimeout => write!(f, "it did not stop within its stop-timeout"),
            Reason::Watchdog => write!(f, "its watchdog was not pinged in time"),
            Reason::RunTimeout => write!(f, "it ran for longer than its run-timeout"),
            Reason::Exec(failure) => failure.fmt(f),
            Reason::Dependency { target, unit } if target == unit => write!(f, "{unit} is failed"),
            Reason::Dependency { target, unit } => write!(f, "{target} (unit {unit}) is failed"),
            Reason::Inactive { target, unit, finished } => {
                if target == unit {
                    write!(f, "{unit} ")?;
                } else {
                    write!(f, "{target} (unit {unit}) ")?;
                }
                f.write_str(match finished {
                    true => "has finished; it stays active only with `remain: yes`",
                    false => "is not active, and no dependency starts it",
                })
            }
            Reason::Masked { target } => write!(f, "{target} is masked"),
            Reason::Missing { target } => write!(f, "no unit provides {target}"),
            Reason::Config { at, message } => write!(f, "{at}: {message}"),
            Reason::Conflict { target } => {
                write!(f, "it conflicts with {target}, which has precedence")
            }
            Reason::Skipped { condition } => write!(f, "skipped: {condition} is not met"),
            Reason::OutOfMemory => write!(f, "the kernel killed it because memory ran out"),
            Reason::Protocol { message } => message.fmt(f),
            Reason::Slot => write!(f, "waits for a free start slot (max-starting)"),
            Reason::Backoff { attempt, .. } => {
                let failures = if *attempt == 1 { "failure" } else { "failures in a row" };
                write!(f, "retry pending after {attempt} {failures}")
            }
            Reason::On { targets } => {
                write!(f, "waits for ")?;
                for (i, target) in targets.iter().enumerate() {
                    write!(f, "{}{target}", if i == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Reason::Unkillable => write!(f, "one of its processes does not exit after SIGKILL"),
            Reason::Internal => write!(f, "a bug in init, contained"),
        }
    }
}

words! {
    /// The state of the whole system.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum System {
        /// Shutdown, reboot or exit is in progress.
        Stopping = "stopping",
        /// A goal is masked or missing, or its provider is failed.
        Failed = "failed",
        /// A needed unit is in its first start.
        Starting = "starting",
        /// A needed unit is not active, or degraded.
        Degraded = "degraded",
        /// Every needed unit is active.
        Running = "running",
    }
}

words! {
    /// The stage at which a start failed. [`Stage::as_str`] has the words for it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Stage {
        /// Cloning PID 1.
        Fork = "fork",
        /// Making or entering the cgroup.
        Cgroup = "cgroup",
        /// A cgroup setting, such as a limit.
        Controller = "cgroup setting",
        /// A new session.
        Session = "setsid",
        /// stdin, stdout, stderr.
        Stdio = "stdio",
        /// An assert-* is not met. Final until `retry` or a new definition; errno is 0 and the path
        /// holds the assert as written.
        Assert = "assert",
        /// Resource limits.
        Limits = "setrlimit",
        /// Supplementary groups, group, user (or its look-up).
        Group = "group",
        /// See [`Stage::Group`].
        User = "user",
        /// The working directory.
        WorkingDir = "chdir",
        /// A condition is not met; init turns it into [`super::event::Event::Skipped`].
        Condition = "condition",
        /// Making a directory.
        Directory = "mkdir",
        /// Priorities and processors.
        Schedule = "scheduling",
        /// chroot(2).
        Root = "chroot",
        /// Capabilities.
        Rights = "capabilities",
        /// Reading an env-file.
        EnvFile = "env-file",
        /// Expanding the exec line.
        ExecLine = "exec line",
        /// execve(2) itself.
        Execve = "execve",
        /// The program exists, but the interpreter it names (`#!` or an ELF loader) does not.
        Interpreter = "interpreter",
        /// A trigger's listening socket.
        Listen = "listen",
        /// Creating the notify socket.
        Notify = "notify",
    }
}

/// A failed start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecFailure {
    /// The stage.
    pub stage: Stage,
    /// errno(3).
    #[serde(default)]
    pub errno: i32,
    /// The path that was to be run, opened or entered.
    #[serde(default)]
    pub path: String,
}

impl ExecFailure {
    /// Returns true for a shortage of resources (EAGAIN, ENOMEM, EMFILE, ENFILE, ENOSPC …). Such a
    /// failure is retried like an ordinary one. A missing file or user is an exec error instead.
    pub fn is_transient(&self) -> bool {
        const TRANSIENT: [i32; 7] = [4, 11, 12, 16, 23, 24, 28]; // EINTR EAGAIN ENOMEM EBUSY ENFILE EMFILE ENOSPC
        TRANSIENT.contains(&self.errno)
    }
}

impl fmt::Display for ExecFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stage, path) = (self.stage.as_str(), &self.path);
        match self.stage {
            Stage::Assert => return write!(f, "{path} is not met (assert)"),
            Stage::WorkingDir => write!(f, "cannot enter {path} ({stage}): ")?,
            Stage::EnvFile => write!(f, "cannot read {path} ({stage}): ")?,
            Stage::Condition => return write!(f, "{path} is not met ({stage})"),
            Stage::Directory => write!(f, "cannot make {path} ({stage}): ")?,
            Stage::Root => write!(f, "cannot enter {path} ({stage}): ")?,
            Stage::Stdio => write!(f, "cannot use {path} ({stage}): ")?,
            Stage::User | Stage::Group => write!(f, "cannot become {path} ({stage}): ")?,
            Stage::Limits | Stage::Controller | Stage::Schedule | Stage::Rights => {
                write!(f, "cannot set {path} ({stage}): ")?;
            }
            Stage::Listen => write!(f, "cannot listen on {path} ({stage}): ")?,
            Stage::Fork
            | Stage::Cgroup
            | Stage::Session
            | Stage::ExecLine
            | Stage::Execve
            | Stage::Interpreter
            | Stage::Notify => write!(f, "cannot run {path} ({stage}): ")?,
        }
        match (self.stage, self.errno) {
            (Stage::User, ENOENT) => f.write_str("there is no such user"),
            (Stage::Group, ENOENT) => f.write_str("there is no such group"),
            (Stage::ExecLine, ESRCH) => {
                f.write_str("$MAINPID is used, but the unit has no main process")
            }
            (Stage::ExecLine, ENOENT) => f.write_str("the line has no program"),
            (Stage::Interpreter, ENOENT) => {
                f.write_str("its interpreter (after #!, or its ELF loader) does not exist")
            }
            (_, EINTR) => f.write_str("killed before it was run"),
            (_, errno) => match errno::sentence(errno) {
                Some(text) => f.write_str(text),
                None => write!(f, "error {errno}"),
            },
        }
    }
}

const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
const EINTR: i32 = 4;

/// The reason why a wish was refused and changed nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refusal {
    /// A short stable word: `unknown-target`, `masked`, `broken`, `conflict`, `ring`, `double-claim`, `stopping` …
    pub kind: String,
    /// The fact.
    pub message: String,
    /// The hint: what to do.
    pub hint: String,
}
