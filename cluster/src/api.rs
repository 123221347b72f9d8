//! API v1: requests as plain data, and their answers.
//! [`route::decide`] is pure: it maps a request and a snapshot to an answer or a transaction.
//! [`server`] applies limits and writes; [`listener`] opens the sockets. The entities are in
//! [`crate::wire`]. The README of this crate lists guarantees and differences from fleet 1.0.

pub mod answer;
pub mod body;
pub mod caller;
pub mod change_stream;
pub mod connection_limits;
pub mod discovery;
pub mod first_look;
pub mod first_machines;
pub mod handshakes;
pub mod listener;
pub mod logs;
pub mod machines;
pub mod metrics;
pub mod page;
pub mod peer_session;
pub mod reloaded_files;
pub mod request;
pub mod route;
pub mod seen;
pub mod server;
pub mod settings;
pub mod states;
pub mod tls;
mod uncertain_write;
pub mod units;
pub mod view;
pub mod why;
pub mod write_timeout;

/// The page at `/ui`: one file that loads nothing but answers of this API.
const PAGE: &str = include_str!("api/page.html");
/// Content-Security-Policy of the page.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; \
    style-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'";

fn page_response() -> axum::http::Response<axum::body::Body> {
    let page = PAGE.as_bytes().to_vec();
    let answer = answer::Answer::with("text/html; charset=utf-8", page);
    let mut response = answer::into_response(answer);
    let policy = axum::http::HeaderValue::from_static(PAGE_POLICY);
    response.headers_mut().insert(axum::http::header::CONTENT_SECURITY_POLICY, policy);
    response
}
