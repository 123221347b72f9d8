//! What the machine orders. The shell carries each out in turn and reports back by
//! events; it never decides.

use crate::machine::event::{RunId, Shutdown};
use crate::machine::reason::{Reason, Refusal, State};
use crate::text::name::Name;
use crate::unit::generation::UnitId;
use serde::{Deserialize, Serialize};

/// One order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Start a run. Instant kinds too: a trigger begins to listen, a virtual unit has nothing to do.
    Start {
        /// In the present generation.
        unit: UnitId,
        /// Its name.
        name: Name,
        /// Newly minted.
        run: RunId,
    },
    /// Stop a run: exec-stop or the stop signal, then the rest of the cgroup; `Gone` follows.
    /// An exited or instant run with nothing to do is gone with this action: no `Gone` follows (`nothing_left`).
    Stop {
        /// Its name (the unit may have left the generation).
        name: Name,
        /// Which run.
        run: RunId,
        /// Why.
        reason: StopReason,
        /// There is no process and no exec-stop: only forget the run (triggers: stop listening).
        nothing_left: bool,
    },
    /// SIGKILL to everything of the run.
    Kill {
        /// Its name.
        name: Name,
        /// Which run.
        run: RunId,
    },
    /// Run exec-reload; `Reloaded` follows.
    ReloadUnit {
        /// Its name.
        name: Name,
        /// Which run.
        run: RunId,
    },
    /// Something changed that an operator may want to read: one line of `initctl events`.
    Note(Note),
    /// At boot neither the goal nor the emergency target can be had: a shell on the console, or
    /// in a container the end.
    Emergency,
    /// Everything is down (or the deadline killed it): the shell ends.
    Finish(Shutdown),
}

/// Why a run is told to stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// Nothing needs it.
    NotNeeded,
    /// Its definition changed.
    Changed,
    /// The operator asked for a restart, or a unit it restarts with stopped.
    RestartAsked,
    /// The provider of this depends-on target left active.
    Lost(Name),
    /// The provider of this depends-on target is itself to be stopped.
    ProviderStops(Name),
    /// Not ready in time.
    StartTimeout,
    /// No ping in time.
    Watchdog,
    /// Active for too long, at all or after it has said that it ends.
    RunTimeout,
    /// The rest of a run whose main process ended or broke its protocol.
    Leftovers,
    /// Everything is stopped.
    Shutdown,
    /// The main process ended well and the unit does not remain: the run ends as by any stop.
    Done,
}

/// One line of the event log. The shell adds sequence number and wall clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Whose.
    pub unit: Name,
    /// Which run, if one is meant.
    pub run: Option<RunId>,
    /// Before.
    pub from: State,
    /// After.
    pub to: State,
    /// Why.
    pub reason: Option<Reason>,
}

/// What one step answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Orders, in the order to carry them out.
    pub actions: Vec<Action>,
    /// The wish was refused and nothing changed; `actions` may still hold what was due.
    pub refused: Option<Refusal>,
}
