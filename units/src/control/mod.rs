//! What goes over the control socket: one JSON object a line, both ways.
//!
//! Here are only the words. Who listens and who may is in `init`; who asks and
//! prints is in `ctl`.

pub mod log_line;
pub mod log_query;
pub mod view;

pub mod answer;
pub mod place;
pub mod request;
pub mod shown;
pub mod source_set;
