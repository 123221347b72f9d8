//! Requests of the control socket.

mod handlers;
mod queries;
