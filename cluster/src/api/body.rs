//! Reads the body of a request within its limits, and only if the answer depends on it.
//! The server decides by the head first: caller, resource and method. It ignores the body of a GET,
//! as fleet did. It closes the connection if much of a body is left unread.

use super::answer::Answer;
use super::request::Request;
use super::route::{self, Resource};
use axum::body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::time::Duration;
use tokio::time::timeout;

/// Maximum size of a body. A client may escape each byte of a unit with six bytes: fleet's client
/// sends `\u0026` for `&`. The largest unit then takes 1.5 MiB, without the names of its options.
pub const LARGEST_BODY: usize = 2 * 1024 * 1024;
/// Maximum time until the body has arrived.
pub const BODY_TIME: Duration = Duration::from_secs(10);

/// Returns true if the answer may depend on the body, which is not read yet.
pub fn is_needed(request: &Request, resource: &Resource) -> bool {
    let has_one = match resource {
        Resource::Unit(_) => {
            request.method == "PUT" && super::units::check_content_type(request).is_ok()
        }
        Resource::Machines => request.method == "PATCH",
        Resource::Root
        | Resource::Units
        | Resource::States
        | Resource::State(_)
        | Resource::Discovery
        | Resource::Why(_)
        | Resource::Drain(_)
        | Resource::Events
        | Resource::Logs(_)
        | Resource::Metrics
        | Resource::Health
        | Resource::Page
        | Resource::Unknown => false,
    };
    has_one
        && super::request::cleaned(&request.path).is_none()
        && route::forbidden(request, resource).is_none()
}

/// Reads the whole body.
///
/// # Errors
/// The refusal for the client: the body is too large or did not arrive.
pub async fn read(body: Body) -> Result<Vec<u8>, Answer> {
    let announced = hyper::body::Body::size_hint(&body).lower();
    let too_large = || Answer::refusal(413, format!("the body exceeds {LARGEST_BODY} bytes"));
    if usize::try_from(announced).is_ok_and(|announced| announced > LARGEST_BODY) {
        return Err(too_large());
    }
    match timeout(BODY_TIME, Limited::new(body, LARGEST_BODY).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes().to_vec()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Answer::refusal(400, "the body is incomplete")),
        Err(_) => Err(Answer::refusal(408, "timed out waiting for the body")),
    }
}
