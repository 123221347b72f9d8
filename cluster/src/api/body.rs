//! Reads the body of a request, within its limits; but only where it counts. What the head alone
//! decides (who may, which resource, which method) is decided before a byte of it is read, and the
//! body of a GET is passed over, as fleet's server did. The connection ends where much was left.

use super::answer::Answer;
use super::request::Request;
use super::route::{self, Resource};
use axum::body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::time::Duration;
use tokio::time::timeout;

/// Bytes a body may have: the largest unit, by a client that writes six bytes for one (fleet's own has
/// `\u0026` for `&`), is one and a half MiB, and what names its options comes on top.
pub const LARGEST_BODY: usize = 2 * 1024 * 1024;
/// Until a body has come.
pub const BODY_TIME: Duration = Duration::from_secs(10);

/// The answer may depend on the body of that request, whose own is not read yet.
pub fn counts(request: &Request, resource: &Resource) -> bool {
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

/// All of it.
///
/// # Errors
/// What its sender is told: it is too large, or did not come.
pub async fn read(body: Body) -> Result<Vec<u8>, Answer> {
    let told = hyper::body::Body::size_hint(&body).lower();
    let too_large = || Answer::refusal(413, format!("a body has {LARGEST_BODY} bytes at most"));
    if usize::try_from(told).is_ok_and(|told| told > LARGEST_BODY) {
        return Err(too_large());
    }
    match timeout(BODY_TIME, Limited::new(body, LARGEST_BODY).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes().to_vec()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Answer::refusal(400, "the body was cut short")),
        Err(_) => Err(Answer::refusal(408, "the body did not come in time")),
    }
}
