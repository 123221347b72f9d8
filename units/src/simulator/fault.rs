//! What can go wrong with a run, how often, and in which states it must have struck. How each
//! looks from outside is in [`crate::simulator::process`].

use crate::machine::reason::State;

/// What can go wrong with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// Ready late.
    Late,
    /// Never ready.
    Hang,
    /// Ends before it is ready.
    EarlyExit,
    /// Ends by itself with a failure.
    Crash,
    /// Ends by itself with exit 0.
    ExitZero,
    /// Its start breaks off for want of resources.
    ForkError,
    /// Its start breaks off for good.
    ExecError,
    /// Ends, but leaves processes behind.
    Leftovers,
    /// Ignores TERM.
    IgnoresTerm,
    /// Survives KILL for a while.
    Unkillable,
    /// Breaks its type's protocol.
    Protocol,
    /// Facts of runs long over, and facts twice.
    Stale,
    /// Its watchdog falls silent.
    Watchdog,
    /// Its reload fails or never ends.
    BadReload,
    /// A condition is not met.
    Skipped,
    /// The kernel kills it.
    OutOfMemory,
}

/// How many kinds of [`Fault`].
pub const FAULTS: usize = 16;

impl Fault {
    /// All of them.
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

/// How often each fault strikes, in percent of runs.
pub type Rates = [u32; FAULTS];

impl Fault {
    /// The states in which it meets its unit. Of those that show only as the want of a fact
    /// (a hang, a deaf ear, immortality) none: the orders that answer them are counted.
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
