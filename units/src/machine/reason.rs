//! Why a unit is in the state it is in, and why a wish was refused. `reason.kind`
//! of the public JSON; the sentence is made here too, so that log, `why` and tests
//! say the same.

use crate::diagnostic::Place;
use crate::machine::event::ExecFailure;
use crate::name::Name;
use crate::spec::Exit;
use crate::time::Time;
use serde::{Deserialize, Serialize};

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
    /// It could not be run.
    Exec(ExecFailure),
    /// A provider is failed or past its verdict.
    Dependency {
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
