//! What etcd's client says went wrong, as the store takes it: whether anything was done, and why not.

use super::Fault;
use etcd_client::Error;
use std::error::Error as _;

/// Causes behind a cause that are told.
const DEEPEST: usize = 8;

/// What an error means.
pub(super) enum Why {
    /// It has ended.
    NoSuchLease,
    /// etcd said itself that it did nothing.
    Refused,
    /// Whether it was done is not known.
    Lost,
}

pub(super) fn why(error: &Error) -> Why {
    let Error::GRpcStatus(status) = error else { return Why::Lost };
    // The numbers are gRPC's: 3 invalid, 5 not found, 7 no permission, 8 exhausted, 9 failed
    // precondition, 11 out of range, 12 unimplemented, 16 unauthenticated.
    match i32::from(status.code()) {
        5 if status.message().contains("lease") => Why::NoSuchLease,
        3 | 5 | 7 | 8 | 9 | 11 | 12 | 16 => Why::Refused,
        _ => Why::Lost,
    }
}

/// The write is none etcd takes: too large, or two operations on one key.
pub(super) fn is_about_the_write(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if i32::from(status.code()) == 3)
}

/// Nothing was done, and why, down to what is wrong with a certificate.
pub(super) fn refused(error: &Error) -> Fault {
    let (said, mut deeper) = if let Error::GRpcStatus(status) = error {
        (status.message().to_string(), status.source())
    } else if let Error::TransportError(error) = error {
        (error.to_string(), error.source())
    } else {
        (error.to_string(), None)
    };
    let mut said = format!("etcd: {said}");
    for _ in 0..DEEPEST {
        let Some(cause) = deeper else { break };
        let words = cause.to_string();
        if !said.ends_with(&words) {
            said = format!("{said}: {words}");
        }
        deeper = cause.source();
    }
    Fault::Unavailable(said)
}
