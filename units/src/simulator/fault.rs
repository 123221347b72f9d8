//! Faults of runs: how often they strike, and the states in which they must have struck.
//! [`crate::simulator::process`] simulates their effects.

use crate::machine::reason::State;

/// A fault of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The run is ready late.
    Late,
    /// The run is never ready.
    Hang,
    /// The run exits before it is ready.
    EarlyExit,
    /// The run exits by itself with a failure.
    Crash,
    /// The run exits by itself with 0.
    ExitZero,
    /// The start fails because of a shortage of resources.
    ForkError,
    /// The start fails permanently.
    ExecError,
    /// The main process exits but leaves other processes.
    Leftovers,
    /// The run ignores SIGTERM.
    IgnoresTerm,
    /// The run survives SIGKILL for a while.
    Unkillable,
    /// The run violates the protocol of its type.
    Protocol,
    /// Facts about old runs arrive, and facts arrive twice.
    Stale,
    /// The run stops sending watchdog pings.
    Watchdog,
    /// The reload fails or never ends.
    BadReload,
    /// A condition is not met.
    Skipped,
    /// The kernel kills the run.
    OutOfMemory,
}

/// Number of kinds of [`Fault`].
pub const FAULTS: usize = 16;

impl Fault {
    /// All kinds.
    pub const ALL: [Fault; FAULTS] = [
        Fault::Late,
        Fault::Hang,
        Fault::EarlyExit,
        Fault::Crash,
        Fault::ExitZero,
        Fault::ForkError,
        Fault::ExecError,
        Fault::Leftovers,
        Fault::IgnoresTerm,
        Fault::Unkillable,
        Fault::Protocol,
        Fault::Stale,
        Fault::Watchdog,
        Fault::BadReload,
        Fault::Skipped,
        Fault::OutOfMemory,
    ];
}

/// The rate of each fault, in percent of runs.
pub type Rates = [u32; FAULTS];

impl Fault {
    /// Returns the states in which the fault can meet its unit. Empty for faults that show only as
    /// a missing fact (a hang, an ignored signal, an unkillable run): for these the resulting
    /// actions are counted.
    pub fn strikes_in(self) -> &'static [State] {
        use State::{Disabled, Exited, Failed, Reloading, Running, Starting, Stopping, Waiting};
        match self {
            Fault::Hang | Fault::IgnoresTerm | Fault::Unkillable => &[],
            Fault::Late => &[Starting, Stopping],
            Fault::EarlyExit => &[Starting, Running, Stopping],
            Fault::Crash | Fault::ExitZero => &[Starting, Running, Reloading, Stopping],
            Fault::ForkError | Fault::Skipped => &[Starting, Stopping],
            Fault::ExecError => &[Starting, Running, Stopping],
            Fault::Leftovers => &[Running, Exited, Stopping],
            Fault::Protocol => &[Starting, Running, Stopping],
            Fault::Watchdog | Fault::OutOfMemory => &[Starting, Running, Reloading, Stopping],
            Fault::BadReload => &[Starting, Running, Reloading, Stopping],
            Fault::Stale => {
                &[Disabled, Waiting, Starting, Running, Reloading, Exited, Failed, Stopping]
            }
        }
    }
}
