//! An answer of the API in fleet's form: status, content type and body.
//! 201 and most 204 answers have no Content-Type. A refusal is an error entity.

use crate::transaction::Transaction;
use crate::wire::{ErrorEntity, Fault};
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

/// The message when etcd does not answer.
pub const NO_REGISTRY: &str = "fleet server unable to communicate with etcd";

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The content type, or `None` if the answer has no such header.
    pub content_type: Option<&'static str>,
    /// The body.
    pub body: Vec<u8>,
    /// The target of a redirect (301).
    pub location: Option<String>,
    /// Seconds until the client should retry (503).
    pub retry_after: Option<u32>,
}

/// The result of deciding a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An answer without a write.
    Answer(Answer),
    /// A write and the answer once it is committed. If a condition fails, the request is decided
    /// again.
    Write(Transaction, Answer),
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Outcome {
        Outcome::Answer(answer)
    }
}

impl Answer {
    /// An answer with a status and nothing else.
    pub fn empty(status: u16) -> Answer {
        Answer { status, content_type: None, body: Vec::new(), location: None, retry_after: None }
    }

    /// 200 with a body.
    pub fn with(content_type: &'static str, body: Vec<u8>) -> Answer {
        Answer { content_type: Some(content_type), body, ..Answer::empty(200) }
    }

    /// 200 with an entity.
    pub fn json<T: Serialize>(entity: &T) -> Answer {
        // Entities contain only strings, lists and maps with string keys, so they always encode.
        Answer::with("application/json", serde_json::to_vec(entity).unwrap_or_default())
    }

    /// A refusal with an error entity.
    pub fn refusal(status: u16, message: impl Into<String>) -> Answer {
        let entity = ErrorEntity { error: Fault { code: status, message: message.into() } };
        Answer { status, ..Answer::json(&entity) }
    }

    /// 403: the etcd user of this fleetd may not write that.
    pub fn not_ours_to_write() -> Answer {
        let words = "the etcd user of this fleetd has no right to write that: send the request to \
                     a fleetd whose etcd user has the role fleet-engine";
        Answer::refusal(403, words)
    }

    /// 503 with Retry-After: the registry does not answer.
    pub fn no_registry() -> Answer {
        Answer { retry_after: Some(1), ..Answer::refusal(503, NO_REGISTRY) }
    }

    /// 301 to the cleaned path of the request, with its query.
    pub fn moved(location: String) -> Answer {
        let shown = location.replace('&', "&amp;").replace('"', "&#34;").replace('\'', "&#39;");
        let shown = shown.replace('<', "&lt;").replace('>', "&gt;");
        let body = format!("<a href=\"{shown}\">Moved Permanently</a>.\n\n").into_bytes();
        Answer {
            status: 301,
            location: Some(location),
            ..Answer::with("text/html; charset=utf-8", body)
        }
    }
}

/// Converts an answer to an HTTP response.
pub fn into_response(answer: Answer) -> Response<Body> {
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_REQUEST);
    let headers = response.headers_mut();
    if let Some(kind) = answer.content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    if let Some(Ok(value)) = answer.location.map(HeaderValue::try_from) {
        headers.insert(header::LOCATION, value);
    }
    if let Some(seconds) = answer.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
