//! Requests of the control socket.

mod handlers;
mod queries;
mod scheduler;
mod source;
mod stream;
