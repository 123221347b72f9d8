//! Requests of the control socket.

mod event_stream;
mod handlers;
mod queries;
mod source;
