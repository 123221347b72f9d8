//! Actions that the machine orders. Init carries them out in turn and reports back by events; it
//! decides nothing itself.

use crate::machine::event::{RunId, Shutdown};
use crate::machine::reason::{Reason, Refusal, State};
use crate::text::name::Name;
use crate::unit::generation::UnitId;
use serde::{Deserialize, Serialize};

/// One action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Start a run. Instant kinds have runs too: a trigger starts to listen, and a virtual unit has
    /// nothing to do.
    Start {
        /// The unit in the present generation.
        unit: UnitId,
        /// The unit's name.
        name: Name,
        /// The new run.
        run: RunId,
    },
    /// Stop a run: exec-stop or the stop signal, then the rest of the cgroup. `Gone` follows,
    /// unless `nothing_left` is set.
    Stop {
        /// The unit's name; the unit may have left the generation.
        name: Name,
        /// The run.
        run: RunId,
        /// The reason of the stop.
        reason: StopReason,
        /// The run has no process and no exec-stop: init only forgets it (a trigger stops
        /// listening).
        #[serde(default)]
        nothing_left: bool,
    },
    /// Send SIGKILL to all processes of the run.
    Kill {
        /// The unit's name.
        name: Name,
        /// The run.
        run: RunId,
    },
    /// Reload the unit by its exec-reload or reload-signal; `Reloaded` follows.
    ReloadUnit {
        /// The unit's name.
        name: Name,
        /// The run.
        run: RunId,
    },
    /// A change for the operator: one line of `initctl events`.
    Note(Note),
    /// Neither the goal nor the emergency target can be started at boot: init opens a shell on the
    /// console, or ends in a container.
    Emergency,
    /// Everything is down, or killed by the deadline: init shuts down.
    Finish(Shutdown),
}

/// Why a run is told to stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// No unit needs it, or it lost a conflict.
    NotNeeded,
    /// The unit's definition changed, or is broken now.
    Changed,
    /// The operator asked for a restart, or a unit with which it restarts was told to stop.
    RestartAsked,
    /// The provider of this depends-on target left active.
    Lost(Name),
    /// The provider of this depends-on target has to stop.
    ProviderStops(Name),
    /// The run was not ready in time.
    StartTimeout,
    /// No watchdog ping came in time.
    Watchdog,
    /// The run was active for too long, in total or after STOPPING=1.
    RunTimeout,
    /// Processes are left of a run whose main process exited or violated its protocol.
    Leftovers,
    /// The system shuts down.
    Shutdown,
    /// The main process succeeded and the unit does not remain: the run ends as by any stop.
    Done,
}

/// One line of the event log. Init adds sequence number and wall-clock time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The unit.
    pub unit: Name,
    /// The run, if the change concerns one.
    pub run: Option<RunId>,
    /// The previous state.
    #[serde(default)]
    pub from: State,
    /// The new state.
    #[serde(default)]
    pub to: State,
    /// The reason.
    pub reason: Option<Reason>,
}

/// The result of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Actions, in the order in which init carries them out.
    pub actions: Vec<Action>,
    /// The reason if the wish was refused and changed nothing.
    pub refused: Option<Refusal>,
}
