//! The protocol of the control socket: one JSON object a line in both directions.
//!
//! Only the messages are defined here. `init` implements the server and its access checks, `ctl`
//! the client.

pub mod log_line;
pub mod log_query;
pub mod view;

pub mod answer;
pub mod place;
pub mod request;
pub mod shown;
pub mod source_set;
