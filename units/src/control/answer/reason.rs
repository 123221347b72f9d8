//! `reason`: the reason for a unit's state, with its kind and values. See [`super`].

use serde::{Deserialize, Serialize};

/// The `reason` of a unit, of a link of a chain, or of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// The sentence, the same as in log and `why`.
    pub text: String,
    /// The fields for programs.
    #[serde(flatten)]
    pub cause: Cause,
}

/// A reason's kind, with its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Cause {
    /// The main process exited.
    Exit {
        /// The exit status.
        code: u8,
    },
    /// A signal killed the main process.
    Signal {
        /// The signal number.
        signal: u8,
        /// The process dumped core.
        core: bool,
    },
    /// The run was not ready in time.
    StartTimeout,
    /// The run did not stop in time.
    StopTimeout,
    /// No watchdog ping came in time.
    Watchdog,
    /// The run was active for longer than its run-timeout.
    RunTimeout,
    /// The command could not be run.
    Exec {
        /// The stage that failed.
        stage: String,
        /// errno(3).
        errno: i32,
        /// The path that was to be run, opened or entered.
        path: String,
    },
    /// A provider is failed, has a verdict, left active while this unit was up, or must be active
    /// and is not.
    Dependency {
        /// The target.
        target: String,
        /// The provider.
        unit: String,
    },
    /// A provider or the unit itself is masked.
    Masked {
        /// The target.
        target: String,
        /// The name that the goal leaves out (`-TARGET`), if no policy masks it.
        #[serde(default)]
        dropped: Option<String>,
    },
    /// No unit provides the target.
    Missing {
        /// The target.
        target: String,
    },
    /// The unit's file has an error.
    Config {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u32,
        /// The column, from 1; 0 for the whole line.
        column: u32,
        /// The error.
        message: String,
    },
    /// A conflicting unit has precedence, or another unit provides a target that this unit of
    /// a source claims.
    Conflict {
        /// The target.
        target: String,
    },
    /// A condition was not met.
    Skipped {
        /// The condition.
        condition: String,
    },
    /// The kernel killed the run because memory ran out.
    Oom,
    /// The service violated the protocol of its type.
    Protocol {
        /// The violation.
        message: String,
    },
    /// The unit waits for a free slot.
    Slot,
    /// The unit waits for its next try.
    Backoff {
        /// Consecutive failures.
        attempt: u32,
        /// The time of the next try.
        at: String,
    },
    /// The unit waits for targets.
    On {
        /// The targets.
        targets: Vec<String>,
    },
    /// A process of the run is unkillable.
    Unkillable {
        /// The pid, if known.
        pid: Option<u32>,
    },
    /// An internal error that was contained.
    Internal,
    /// A kind that this `initctl` does not know.
    #[serde(other)]
    Other,
}
