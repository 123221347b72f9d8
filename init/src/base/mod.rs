//! Plain values and readers that every component uses: limits, clocks, paths, /proc, retries.

pub(crate) mod clock;
#[cfg(debug_assertions)]
pub(crate) mod crash_test;
pub(crate) mod credentials;
pub(crate) mod kernel_cmdline;
pub(crate) mod limit;
pub(crate) mod mount_table;
pub(crate) mod own_limits;
pub(crate) mod paths;
pub(crate) mod procfs;
pub(crate) mod reexec;
pub(crate) mod retry;
pub(crate) mod signals;
pub(crate) mod token;

/// The mode of init.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// PID 1 of a machine's initial pid namespace.
    Machine,
    /// PID 1 of a nested pid namespace.
    Container,
    /// An init that is not PID 1.
    Supervisor,
}

impl Mode {
    /// The word for it in the control protocol.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Mode::Machine => "machine",
            Mode::Container => "container",
            Mode::Supervisor => "supervisor",
        }
    }
}

/// The severity of a log line of init itself. `groundstate.log=LEVEL` sets the lowest one that is
/// logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Details for debugging.
    Debug,
    /// Normal progress.
    Info,
    /// A problem that init can continue with.
    Warning,
    /// A failure that loses something.
    Error,
}

impl Level {
    /// The level with this name on the kernel command line.
    pub(crate) fn named(word: &str) -> Option<Level> {
        match word {
            "debug" => Some(Level::Debug),
            "info" => Some(Level::Info),
            "warning" | "warn" => Some(Level::Warning),
            "error" | "err" => Some(Level::Error),
            _ => None,
        }
    }

    /// The kernel log's number, see syslog(2).
    pub(crate) fn priority(self) -> u8 {
        match self {
            Level::Debug => 7,
            Level::Info => 6,
            Level::Warning => 4,
            Level::Error => 3,
        }
    }
}
