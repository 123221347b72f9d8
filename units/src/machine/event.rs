//! What the machine is told: facts about runs, and the operator's wishes.
//! One event a step; all of it is data that can be written to a file and replayed.

use crate::machine::reason::Reason;
pub use crate::machine::reason::{ExecFailure, Stage};
use crate::spec::Exit;
use crate::text::name::Name;
use crate::text::time::Time;
use crate::unit::generation::Generation;
use crate::unit::policy::Policy;
pub use crate::unit::reaction::Shutdown;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// One life of one unit's process. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId(pub u64);

/// What the goal is to be: `set-target T [+x] [-y]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    /// Targets given.
    pub targets: Vec<Name>,
    /// `+x`, each until the given time if there is one.
    pub want: Vec<(Name, Option<Time>)>,
    /// `-y`.
    pub drop: Vec<Name>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    // --- the operator's wishes -------------------------------------------------
    /// The first generation and the first goal; a further time, those of another root. What is wrong
    /// breaks the units involved and refuses nothing. What runs and is the same in both runs on.
    Boot {
        /// The set.
        generation: Arc<Generation>,
        /// Goal asked for on the command line; empty: the default target.
        targets: Vec<Name>,
    },
    /// A new goal; the overlay is replaced.
    SetGoal(Goal),
    /// One more wish in the overlay.
    Want {
        /// The target.
        target: Name,
        /// When the wish ends.
        until: Option<Time>,
    },
    /// One wish less.
    Unwant(Name),
    /// The policy as a whole.
    SetPolicy(Policy),
    /// A validated new generation.
    Reload {
        /// The set.
        generation: Arc<Generation>,
        /// Changed units keep their run and are shown as stale.
        no_restart: bool,
        /// A source's set: what is wrong in it breaks the units involved and refuses nothing.
        #[serde(default)]
        tolerant: bool,
    },
    /// Replace the runs of these targets' units.
    Restart(Vec<Name>),
    /// Let these units reload their own configuration.
    ReloadUnit(Vec<Name>),
    /// Clear failures, verdicts and backoffs of these.
    Retry(Vec<Name>),
    /// The end of everything.
    Shutdown(Shutdown),

    // --- facts about runs ------------------------------------------------------
    /// The main command's execve succeeded.
    Executed(RunId),
    /// It became ready (READY=1, the line, the pid file; the end of a reload by notify).
    Ready(RunId),
    /// RELOADING=1.
    Reloading(RunId),
    /// The reload asked for by `ReloadUnit` is done; false: it failed.
    Reloaded(RunId, bool),
    /// STOPPING=1.
    Stopping(RunId),
    /// STATUS=: kept for show, already cleaned of control characters.
    Status(RunId, String),
    /// EXTEND_TIMEOUT_USEC=: the present phase may take this long from now.
    ExtendTimeout(RunId, Duration),
    /// WATCHDOG_USEC=: expect a ping at least this often; zero: no more.
    WatchdogEvery(RunId, Duration),
    /// WATCHDOG=1.
    WatchdogPing(RunId),
    /// WATCHDOG=trigger.
    WatchdogTrigger(RunId),
    /// The main process ended (for a oneshot: the last command, or the first that failed).
    Exited(RunId, Exit),
    /// [`Event::Exited`] and [`Event::Gone`] in one: the main process ended and left nothing. For
    /// background-scripted only this tells that the script left no process behind.
    Ended(RunId, Exit),
    /// Nothing of the run is left: main process gone, cgroup empty, helpers gone.
    Gone(RunId),
    /// A condition (condition-*, an exec-condition that exits 1 to 254) is not met: the run is over
    /// without having begun, and counts as exited.
    Skipped(RunId, String),
    /// The start broke off before the main command ran. Nothing of the run is left.
    StartFailed(RunId, ExecFailure),
    /// The service did not keep to its type's protocol (bad pid file …). Counts as a failure; what is left is stopped.
    Protocol(RunId, String),
    /// The kernel killed a process of the unit for want of memory.
    OutOfMemory(RunId),
    /// A trigger fired; of a unit that is none: a connection was accepted for it.
    Fire(Name),

    // --- time ------------------------------------------------------------------
    /// Time passed. Only this event lets timers fire: all that are due by now. The shell sends it
    /// as the last event of each turn in which `next_deadline` has come, so that a fact of the
    /// same turn wins over its time-out.
    Tick,

    // --- of later versions, behind what older images write ---------------------
    /// A command of the stop failed, and those after it were skipped. The run has failed, whatever it
    /// was stopped for.
    StopFailed(RunId, Reason),
}

impl Event {
    /// The run that a fact is about.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Event::Executed(run)
            | Event::Ready(run)
            | Event::Reloading(run)
            | Event::Reloaded(run, _)
            | Event::Stopping(run)
            | Event::Status(run, _)
            | Event::ExtendTimeout(run, _)
            | Event::WatchdogEvery(run, _)
            | Event::WatchdogPing(run)
            | Event::WatchdogTrigger(run)
            | Event::Exited(run, _)
            | Event::Ended(run, _)
            | Event::Gone(run)
            | Event::Skipped(run, _)
            | Event::StartFailed(run, _)
            | Event::Protocol(run, _)
            | Event::StopFailed(run, _)
            | Event::OutOfMemory(run) => Some(*run),
            Event::Boot { .. }
            | Event::SetGoal(_)
            | Event::Want { .. }
            | Event::Unwant(_)
            | Event::SetPolicy(_)
            | Event::Reload { .. }
            | Event::Restart(_)
            | Event::ReloadUnit(_)
            | Event::Retry(_)
            | Event::Shutdown(_)
            | Event::Fire(_)
            | Event::Tick => None,
        }
    }
}
