//! `reason`: why a unit is as it is, with its kind and values.
//! See [`super`].

use serde::{Deserialize, Serialize};

/// `reason` of a unit, a link of a chain, an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// The sentence for people; the same in log, `why` and here.
    pub text: String,
    /// The fields for programs.
    #[serde(flatten)]
    pub cause: Cause,
}

/// A reason's kind, with its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Cause {
    /// Its process ended.
    Exit {
        /// exit(3)'s.
        code: u8,
    },
    /// A signal ended it.
    Signal {
        /// Its number.
        signal: u8,
        /// It dumped core.
        core: bool,
    },
    /// Not ready in time.
    StartTimeout,
    /// Not gone in time.
    StopTimeout,
    /// No ping in time.
    Watchdog,
    /// Active for longer than its run-timeout.
    RunTimeout,
    /// It could not be run.
    Exec {
        /// Where it broke off.
        stage: String,
        /// errno(3).
        errno: i32,
        /// What was to be run, opened or entered.
        path: String,
    },
    /// A provider is failed or past its verdict.
    Dependency {
        /// By which target.
        target: String,
        /// Which unit.
        unit: String,
    },
    /// A provider is masked, or it is masked itself.
    Masked {
        /// Which target.
        target: String,
        /// What the goal leaves out (`-TARGET`), where no policy masks it.
        #[serde(default)]
        dropped: Option<String>,
    },
    /// Nobody provides it.
    Missing {
        /// Which target.
        target: String,
    },
    /// Its file is wrong.
    Config {
        /// Which file.
        file: String,
        /// From 1.
        line: u32,
        /// From 1; 0 where the whole line is meant.
        column: u32,
        /// What is wrong with it.
        message: String,
    },
    /// Another unit that may not be up with it came first.
    Conflict {
        /// By which target.
        target: String,
    },
    /// A condition was not met.
    Skipped {
        /// Which.
        condition: String,
    },
    /// The kernel killed it for want of memory.
    Oom,
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
        at: String,
    },
    /// Waits for these targets.
    On {
        /// Which.
        targets: Vec<String>,
    },
    /// A process that can not be killed is left.
    Unkillable {
        /// Which, where it is known.
        pid: Option<u32>,
    },
    /// A bug of ours, contained.
    Internal,
    /// A kind this `initctl` does not know yet.
    #[serde(other)]
    Other,
}
