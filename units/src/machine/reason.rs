//! Why a unit is in the state it is in, and why a wish was refused. `reason.kind`
//! of the public JSON; the sentence is made here too, so that log, `why` and tests
//! say the same.

use crate::spec::Exit;
use crate::text::diagnostic::Place;
use crate::text::errno;
use crate::text::name::Name;
use crate::text::signal;
use crate::text::time::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The states an operator sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not needed.
    Disabled,
    /// For a dependency, a slot or its next try.
    Waiting,
    /// Not ready yet.
    Starting,
    /// Active.
    Running,
    /// Active, taking in a new configuration.
    Reloading,
    /// Active without a process.
    Exited,
    /// See the reason.
    Failed,
    /// On its way down.
    Stopping,
}

impl State {
    /// The word on the screen and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Disabled => "disabled",
            State::Waiting => "waiting",
            State::Starting => "starting",
            State::Running => "running",
            State::Reloading => "reloading",
            State::Exited => "exited",
            State::Failed => "failed",
            State::Stopping => "stopping",
        }
    }

    /// Running, reloading or exited.
    pub fn is_active(self) -> bool {
        matches!(self, State::Running | State::Reloading | State::Exited)
    }
}

/// Why a unit is not simply running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// Its process ended.
    Exit(Exit),
    /// Not ready in time.
    StartTimeout,
    /// Not gone in time.
    StopTimeout,
    /// No ping in time.
    Watchdog,
    /// Active for longer than its run-timeout.
    RunTimeout,
    /// It could not be run.
    Exec(ExecFailure),
    /// A provider is failed or past its verdict.
    Dependency {
        /// By which target.
        target: Name,
        /// Which unit.
        unit: Name,
    },
    /// A provider that has to be active is not, and nothing brings it in.
    Inactive {
        /// By which target.
        target: Name,
        /// Which unit.
        unit: Name,
    },
    /// A provider is masked, or it is masked itself.
    Masked {
        /// Which target.
        target: Name,
    },
    /// Nobody provides it.
    Missing {
        /// Which target.
        target: Name,
    },
    /// Its file.
    Config {
        /// Where.
        at: Place,
        /// What.
        message: String,
    },
    /// Another unit that may not be up with it came first.
    Conflict {
        /// Which target.
        target: Name,
    },
    /// A condition was not met.
    Skipped {
        /// Which.
        condition: String,
    },
    /// The kernel killed it for want of memory.
    OutOfMemory,
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
        at: Time,
    },
    /// Waits for these targets.
    On {
        /// Which.
        targets: Vec<Name>,
    },
    /// A process that can not be killed is left.
    Unkillable,
    /// A bug of ours, contained.
    Internal,
}

impl fmt::Display for Reason {
    /// The sentence, in lower case, without a full stop. Points in time are left to whoever
    /// knows the wall clock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Exit(Exit::Code(code)) => write!(f, "its process exited with status {code}"),
            Reason::Exit(Exit::Signal { signal: number, core }) => {
                let dumped = if *core { " (core dumped)" } else { "" };
                write!(f, "its process was killed by signal {}{dumped}", signal::name(*number))
            }
            Reason::StartTimeout => write!(f, "it was not ready within its start-timeout"),
            Reason::StopTimeout => write!(f, "it was not gone within its stop-timeout"),
            Reason::Watchdog => write!(f, "its watchdog was not pinged in time"),
            Reason::RunTimeout => write!(f, "it ran for longer than its run-timeout"),
            Reason::Exec(failure) => failure.fmt(f),
            Reason::Dependency { target, unit } if target == unit => write!(f, "{unit} is failed"),
            Reason::Dependency { target, unit } => write!(f, "{target} (unit {unit}) is failed"),
            Reason::Inactive { target, unit } if target == unit => {
                write!(f, "{unit} is not active, and nothing brings it in")
            }
            Reason::Inactive { target, unit } => {
                write!(f, "{target} (unit {unit}) is not active, and nothing brings it in")
            }
            Reason::Masked { target } => write!(f, "{target} is masked"),
            Reason::Missing { target } => write!(f, "nobody provides {target}"),
            Reason::Config { at, message } => write!(f, "{at}: {message}"),
            Reason::Conflict { target } => write!(f, "it conflicts with {target}, which was first"),
            Reason::Skipped { condition } => write!(f, "skipped: {condition} is not met"),
            Reason::OutOfMemory => write!(f, "the kernel killed it for want of memory"),
            Reason::Protocol { message } => message.fmt(f),
            Reason::Slot => write!(f, "waits for a free start slot (max-starting)"),
            Reason::Backoff { attempt, .. } => {
                let failures = if *attempt == 1 { "failure" } else { "failures in a row" };
                write!(f, "waits for its next try after {attempt} {failures}")
            }
            Reason::On { targets } => {
                write!(f, "waits for ")?;
                for (i, target) in targets.iter().enumerate() {
                    write!(f, "{}{target}", if i == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Reason::Unkillable => write!(f, "a process of it can not be killed"),
            Reason::Internal => write!(f, "a bug in init, contained"),
        }
    }
}

/// "cannot run /usr/local/bin/irc-bot (execve): No such file or directory".
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

/// Where a start broke off. Words for people are in [`Stage::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The clone of PID 1.
    Fork,
    /// Making or entering the cgroup.
    Cgroup,
    /// A setting of the cgroup, such as a limit.
    Controller,
    /// A new session.
    Session,
    /// stdin, stdout, stderr.
    Stdio,
    /// An assert-*: what has to be so is not. Final until `retry` or a new definition; errno is 0
    /// and the path holds the assert as written.
    Assert,
    /// Resource limits.
    Limits,
    /// Supplementary groups, group, user (or its look-up).
    Group,
    /// See [`Stage::Group`].
    User,
    /// The working directory.
    WorkingDir,
    /// A condition does not hold; init makes [`super::event::Event::Skipped`] of it.
    Condition,
    /// Making a directory.
    Directory,
    /// Priorities and processors.
    Schedule,
    /// chroot(2).
    Root,
    /// Capabilities.
    Rights,
    /// Reading an env-file.
    EnvFile,
    /// The words of the exec line.
    ExecLine,
    /// execve(2) itself.
    Execve,
    /// The program is there, and the interpreter it names (`#!`, or an ELF loader) is not.
    Interpreter,
    /// A trigger's listening socket.
    Listen,
    /// The notify socket can not be had.
    Notify,
}

impl Stage {
    /// As shown: "cannot run X (execve): …".
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Fork => "fork",
            Stage::Cgroup => "cgroup",
            Stage::Controller => "cgroup setting",
            Stage::Session => "setsid",
            Stage::Stdio => "stdio",
            Stage::Assert => "assert",
            Stage::Limits => "setrlimit",
            Stage::Group => "group",
            Stage::User => "user",
            Stage::WorkingDir => "chdir",
            Stage::Condition => "condition",
            Stage::Directory => "mkdir",
            Stage::Schedule => "scheduling",
            Stage::Root => "chroot",
            Stage::Rights => "capabilities",
            Stage::EnvFile => "env-file",
            Stage::ExecLine => "exec line",
            Stage::Execve => "execve",
            Stage::Interpreter => "interpreter",
            Stage::Listen => "listen",
            Stage::Notify => "notify",
        }
    }
}

/// A start that could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecFailure {
    /// Where.
    pub stage: Stage,
    /// errno(3).
    pub errno: i32,
    /// What was to be run, opened or entered.
    pub path: String,
}

impl ExecFailure {
    /// A want of resources (EAGAIN, ENOMEM, EMFILE, ENFILE, ENOSPC …), not of a file or a user:
    /// an ordinary failure that is retried, no exec error.
    pub fn is_transient(&self) -> bool {
        const TRANSIENT: [i32; 7] = [4, 11, 12, 16, 23, 24, 28]; // EINTR EAGAIN ENOMEM EBUSY ENFILE EMFILE ENOSPC
        TRANSIENT.contains(&self.errno)
    }
}

impl fmt::Display for ExecFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stage, path) = (self.stage.as_str(), &self.path);
        match self.stage {
            Stage::Assert => return write!(f, "{path} is not so (assert)"),
            Stage::WorkingDir => write!(f, "cannot enter {path} ({stage}): ")?,
            Stage::EnvFile => write!(f, "cannot read {path} ({stage}): ")?,
            Stage::Condition => return write!(f, "{path} is not so ({stage})"),
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
                f.write_str("$MAINPID is asked for and there is no main process")
            }
            (Stage::ExecLine, ENOENT) => f.write_str("the line has no program"),
            (Stage::Interpreter, ENOENT) => {
                f.write_str("the interpreter it names (after #!, or its ELF loader) is not there")
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

/// Why a wish was refused. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// A short stable word: `unknown-target`, `masked`, `broken`, `conflict`, `ring`, `double-claim`, `stopping` …
    pub kind: String,
    /// The fact.
    pub message: String,
    /// What to do.
    pub hint: String,
}
