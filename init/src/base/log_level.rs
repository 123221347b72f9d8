//! How much a line of init's own matters.

/// How much it matters. `groundstate.log=LEVEL` names the least that is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// For who looks for a bug.
    Debug,
    /// The course of things.
    Info,
    /// Not as wanted; init goes on.
    Warning,
    /// Something is lost.
    Error,
}

impl Level {
    /// From the kernel command line.
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
