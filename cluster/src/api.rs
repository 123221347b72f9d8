//! API v1: what a client asks, as plain data, and what it is answered. [`route::decide`]
//! is pure: a request and a snapshot of the cluster in, an answer or a transaction out.
//! [`server`] is the shell around it: limits, the registry; [`listener`] makes the
//! sockets. The entities stand in [`crate::wire`]; what is promised, and where it differs
//! from fleet 1.0, in this crate's README.

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

/// The page at `/ui`: one file, which loads nothing but what this API answers.
const PAGE: &str = include_str!("api/page.html");
/// What a browser lets the page do.
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
