//! The exit codes of `initctl`, and errors with their codes.

use groundstate_units::control::answer::Failure;
use std::io;

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// The command succeeded.
    Done = 0,
    /// Done, but the result is a failure.
    Bad = 1,
    /// The timeout expired.
    TimedOut = 2,
    /// The command line is invalid.
    Usage = 64,
    /// Unit files or plan refused.
    Refused = 65,
    /// No init at the socket.
    NoInit = 69,
    /// The caller has no permission.
    Denied = 77,
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Error {
    /// A failure that is still to be printed.
    Failed(Exit, Failure),
    /// The error was already printed.
    Printed(Exit),
    /// stdout is closed: exit silently.
    OutputClosed,
}

impl Error {
    /// An error in the command line.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Failed(Exit::Usage, Failure::new(Failure::USAGE, message, hint))
    }

    /// A local error.
    pub(crate) fn local(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Failed(Exit::Bad, Failure::new("local", message, hint))
    }

    /// A file cannot be read or written.
    pub(crate) fn file(path: &str, error: &io::Error) -> Error {
        let denied = error.kind() == io::ErrorKind::PermissionDenied;
        let (exit, kind) =
            if denied { (Exit::Denied, Failure::DENIED) } else { (Exit::Bad, "file") };
        Error::Failed(exit, Failure::new(kind, format!("{path}: {error}"), ""))
    }

    /// A failure in init's answer.
    pub(crate) fn answered(failure: Failure) -> Error {
        Error::Failed(code_of(&failure.kind), failure)
    }
}

impl From<io::Error> for Error {
    /// Converts an error of stdout or stderr; for files use [`Error::file`].
    fn from(error: io::Error) -> Error {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Error::OutputClosed;
        }
        Error::local(format!("cannot write: {error}"), "")
    }
}

/// Returns the exit code of an error kind. All kinds that are not named here (`unknown-target`,
/// `masked`, `conflict` …) are requests that init refused.
fn code_of(kind: &str) -> Exit {
    match kind {
        Failure::USAGE | "protocol" | "version" | "unknown-verb" | "invalid" | "unknown-source" => {
            Exit::Usage
        }
        Failure::DENIED => Exit::Denied,
        Failure::TIMEOUT => Exit::TimedOut,
        Failure::NO_INIT => Exit::NoInit,
        Failure::UNSUPPORTED | Failure::BUSY | "slow" | "internal" | "not-running" => Exit::Bad,
        _ => Exit::Refused,
    }
}
