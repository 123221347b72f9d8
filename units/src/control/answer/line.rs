//! One line of the socket, and the form of a failure. See [`super`].

use super::{PROTOCOL, Report};
use serde::{Deserialize, Serialize};

/// One line from init to a client, with exactly one of `ok` and `error`. A stream that is not
/// followed ends with an `ok` of [`End`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line<T> {
    /// [`PROTOCOL`].
    pub v: u32,
    /// The `id` of the request; 0 or null if it could not be read.
    #[serde(default, deserialize_with = "number_or_null")]
    pub id: u64,
    /// The answer, or one object of a stream.
    #[serde(skip_serializing_if = "Option::is_none", default = "Option::default")]
    pub ok: Option<T>,
    /// The failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<Failure>,
}

fn number_or_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Option::<u64>::deserialize(from).map(Option::unwrap_or_default)
}

impl<T> Line<T> {
    /// Creates a line with an answer.
    pub fn ok(id: u64, answer: T) -> Line<T> {
        Line { v: PROTOCOL, id, ok: Some(answer), error: None }
    }

    /// Creates a line with a failure.
    pub fn error(id: u64, failure: Failure) -> Line<T> {
        Line { v: PROTOCOL, id, ok: None, error: Some(failure) }
    }
}

/// The last object of a stream that is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The mark of the last line; always true.
    pub end: bool,
}

/// The failure of a request. `kind` is a short stable word: one of
/// [`crate::machine::reason::Refusal`] or of the constants here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind.
    pub kind: String,
    /// The message.
    pub message: String,
    /// The hint: what to do; may be empty.
    pub hint: String,
    /// The diagnostics of a refused reload; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub report: Option<Report>,
}

impl Failure {
    /// Init does not understand the request. Exit 64.
    pub const USAGE: &'static str = "usage";
    /// The name belongs to no target and no unit.
    pub const UNKNOWN_TARGET: &'static str = "unknown-target";
    /// The caller may not make this request. Exit 77.
    pub const DENIED: &'static str = "denied";
    /// The unit files were refused; `report` says why. Exit 65.
    pub const REFUSED: &'static str = "refused";
    /// The request timed out. Exit 2.
    pub const TIMEOUT: &'static str = "timeout";
    /// No init answers at the socket. Exit 69.
    pub const NO_INIT: &'static str = "no-init";
    /// The request is known but not supported in this release. Exit 1.
    pub const UNSUPPORTED: &'static str = "unsupported";
    /// init is busy or out of some resource. Exit 1.
    pub const BUSY: &'static str = "busy";

    /// Another put of the source came first. Exit 1.
    pub const REVISION: &'static str = "revision";

    /// Creates a failure without a report.
    pub fn new(kind: &str, message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { kind: kind.to_string(), message: message.into(), hint: hint.into(), report: None }
    }
}
