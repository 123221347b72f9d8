//! Classifies errors of the etcd client: whether the operation was done, and why it failed.

use super::Fault;
use etcd_client::Error;
use std::error::Error as _;

/// Maximum number of nested causes in a message.
const DEEPEST: usize = 8;

/// The meaning of an error.
pub(super) enum Why {
    /// The lease has expired.
    NoSuchLease,
    /// etcd answered that it did nothing.
    Refused,
    /// The result is unknown.
    Lost,
}

pub(super) fn why(error: &Error) -> Why {
    let Error::GRpcStatus(status) = error else { return Why::Lost };
    // gRPC codes: 3 invalid, 5 not found, 7 no permission, 8 exhausted, 9 failed precondition, 11
    // out of range, 12 unimplemented, 16 unauthenticated.
    match i32::from(status.code()) {
        5 if status.message().contains("lease") => Why::NoSuchLease,
        3 | 5 | 7 | 8 | 9 | 11 | 12 | 16 => Why::Refused,
        _ => Why::Lost,
    }
}

/// Returns true if etcd rejects the transaction itself: it is too large, or has two operations on
/// one key.
pub(super) fn is_about_the_write(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if i32::from(status.code()) == 3)
}

/// Returns a fault for an operation that was not done, with all causes, such as a faulty
/// certificate.
pub(super) fn refused(error: &Error) -> Fault {
    let (message, mut deeper) = if let Error::GRpcStatus(status) = error {
        (status.message().to_string(), status.source())
    } else if let Error::TransportError(error) = error {
        (error.to_string(), error.source())
    } else {
        (error.to_string(), None)
    };
    let mut message = format!("etcd: {message}");
    for _ in 0..DEEPEST {
        let Some(cause) = deeper else { break };
        let words = cause.to_string();
        if !message.ends_with(&words) {
            message = format!("{message}: {words}");
        }
        deeper = cause.source();
    }
    Fault::Unavailable(message)
}
