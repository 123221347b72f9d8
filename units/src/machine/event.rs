//! Events for the machine: facts about runs, and the operator's wishes. Each step takes one event.
//! Events are plain data that can be written to a file and replayed.

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

/// Identifies one run of one unit; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId(pub u64);

/// A new goal: `set-target T [+x] [-y]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Goal {
    /// The targets.
    pub targets: Vec<Name>,
    /// Targets added with `+x`, each until the given time if there is one.
    pub want: Vec<(Name, Option<Time>)>,
    /// Targets that the goal leaves out (`-y`).
    pub drop: Vec<Name>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    // --- the operator's wishes -------------------------------------------------
    /// The first generation and goal; later, those of a new root. Errors break the units involved
    /// and refuse nothing. Runs that are the same in both continue.
    Boot {
        /// The generation.
        generation: Arc<Generation>,
        /// Goal from the command line; empty for the default target.
        #[serde(default)]
        targets: Vec<Name>,
    },
    /// A new goal; it replaces the overlay.
    SetGoal(Goal),
    /// Adds a wish to the overlay.
    Want {
        /// The target.
        target: Name,
        /// The time at which the wish ends.
        until: Option<Time>,
    },
    /// Removes a wish from the overlay.
    Unwant(Name),
    /// The complete new policy.
    SetPolicy(Policy),
    /// A validated new generation.
    Reload {
        /// The generation.
        generation: Arc<Generation>,
        /// Changed units keep their run and are shown as stale.
        #[serde(default)]
        no_restart: bool,
        /// The generation comes from a source: errors break the units involved and refuse nothing.
        #[serde(default)]
        tolerant: bool,
    },
    /// Replaces the runs of these targets' units.
    Restart(Vec<Name>),
    /// Makes these units reload their own configuration.
    ReloadUnit(Vec<Name>),
    /// Clears failures, verdicts and backoffs of these units.
    Retry(Vec<Name>),
    /// Shutdown, reboot or exit.
    Shutdown(Shutdown),

    // --- facts about runs ------------------------------------------------------
    /// The main command's execve succeeded.
    Executed(RunId),
    /// The run became ready, by the readiness protocol of its unit. Also the end of a reload that
    /// the run has announced by RELOADING=1.
    Ready(RunId),
    /// RELOADING=1.
    Reloading(RunId),
    /// The reload of `ReloadUnit` ended; false if it failed.
    Reloaded(RunId, bool),
    /// STOPPING=1.
    Stopping(RunId),
    /// STATUS=, without control characters; only shown.
    Status(RunId, String),
    /// EXTEND_TIMEOUT_USEC=: the present phase may take this long from now.
    ExtendTimeout(RunId, Duration),
    /// WATCHDOG_USEC=: the run promises a ping at least this often; zero for none.
    WatchdogEvery(RunId, Duration),
    /// WATCHDOG=1.
    WatchdogPing(RunId),
    /// WATCHDOG=trigger.
    WatchdogTrigger(RunId),
    /// The main process exited; of a oneshot, its last command or the first that failed.
    Exited(RunId, Exit),
    /// [`Event::Exited`] and [`Event::Gone`] in one: the main process exited and left nothing. For
    /// background-scripted, only this event tells that the script left no process behind.
    Ended(RunId, Exit),
    /// Nothing of the run is left: the main process and helpers have exited and the cgroup is
    /// empty.
    Gone(RunId),
    /// A condition (condition-*, or an exec-condition that exits with 1 to 254) is not met. The run
    /// is over without having started, and counts as exited.
    Skipped(RunId, String),
    /// The start failed before the main command ran, or a trigger cannot listen any more. Nothing of
    /// the run is left.
    StartFailed(RunId, ExecFailure),
    /// The service violated the protocol of its type, for example with a bad pid file. Counts as a
    /// failure; remaining processes are stopped.
    Protocol(RunId, String),
    /// The kernel killed a process of the unit because memory ran out.
    OutOfMemory(RunId),
    /// A trigger fired. If the unit is no trigger, a connection was accepted for it.
    Fire(Name),

    // --- time ------------------------------------------------------------------
    /// Time has passed. Only this event fires timers: all that are due by now. Init sends it as the
    /// last event of each turn in which `next_deadline` has come, so that a fact of the same turn
    /// precedes its timeout.
    Tick,

    /// A command of the stop failed and the rest were skipped. The run has failed, whatever it was
    /// stopped for.
    StopFailed(RunId, Reason),
}

impl Event {
    /// Returns the run that a fact is about.
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
