//! How `initctl` ends: the exit codes, and an error on its way to becoming one.
//! Which answer leads to which code stands here and nowhere else.

use groundstate_units::control::answer::Failure;
use std::io;

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Done, but the result is bad.
    Bad = 1,
    /// It took too long.
    TimedOut = 2,
    /// The command line makes no sense.
    Usage = 64,
    /// Unit files or plan refused.
    Refused = 65,
    /// No init at the socket.
    NoInit = 69,
    /// Not allowed.
    Denied = 77,
}

/// Why a command could not be carried out.
#[derive(Debug)]
pub(crate) enum Error {
    /// Said by init or by us; still to be printed.
    Failed(Exit, Failure),
    /// Already printed.
    Said(Exit),
    /// Nobody reads what we print (a closed pipe): end without a word.
    Unread,
}

impl Error {
    /// A mistake in the command line.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Failed(Exit::Usage, Failure::new(Failure::USAGE, message, hint))
    }

    /// Something on this side went wrong.
    pub(crate) fn local(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Failed(Exit::Bad, Failure::new("local", message, hint))
    }

    /// A file could not be read or written.
    pub(crate) fn file(path: &str, error: &io::Error) -> Error {
        let denied = error.kind() == io::ErrorKind::PermissionDenied;
        let (exit, kind) =
            if denied { (Exit::Denied, Failure::DENIED) } else { (Exit::Bad, "file") };
        Error::Failed(exit, Failure::new(kind, format!("{path}: {error}"), ""))
    }

    /// What init answered.
    pub(crate) fn answered(failure: Failure) -> Error {
        Error::Failed(code_of(&failure.kind), failure)
    }
}

impl From<io::Error> for Error {
    /// Of writing to stdout or stderr; files have [`Error::file`].
    fn from(error: io::Error) -> Error {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Error::Unread;
        }
        Error::local(format!("cannot write: {error}"), "")
    }
}

/// The exit code of an error's kind. A kind that is not named here is a wish the machine
/// refused (`unknown-target`, `masked`, `conflict` …).
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
