//! The logger: a child of PID 1 that reads the output of services, and PID 1's side of it.
//!
//! PID 1 creates a pipe for each run ([`supervisor`], [`channel`]), passes the read ends on in
//! batches, and keeps them open if the logger dies ([`pipe_keeper`], [`pending_buffer`]). It reads
//! no output itself. The logger ([`process`]) splits the bytes into lines and matches `ready-grep`
//! ([`stream`]), keeps the last lines of each unit ([`units`]), and passes lines to destinations
//! that may block ([`sinks`]). These are files ([`files`]), init's stdout, the console, the
//! kernel's log and syslog. It serves `log.sock` ([`clients`], [`query`], [`history`]).
//!
//! The stored form of a line is `groundstate_units::control::log_line`.

mod channel;
mod clients;
mod files;
mod history;
mod limit;
mod pending_buffer;
mod pipe_keeper;
mod process;
mod query;
mod sinks;
mod stream;
mod supervisor;
#[cfg(test)]
mod tests;
mod units;

pub(crate) use channel::Ticked;
pub(crate) use channel::{Report, RunLog, Settings};
pub(crate) use pipe_keeper::look_into;
pub(crate) use supervisor::Handle;
pub(crate) use supervisor::helper_log_id;
