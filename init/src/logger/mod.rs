//! The logger: a child of PID 1 that reads what services write, and PID 1's side of it.
//!
//! PID 1 makes a pipe for each run ([`supervisor`], [`channel`]), passes the read ends on in batches
//! ([`channel`]) and keeps them safe from the logger's death ([`pipe_keeper`], [`pending_buffer`]); it reads no
//! byte of them. The logger ([`process`]) cuts the bytes into lines and looks for `ready-grep`
//! ([`stream`]), remembers the last of each unit ([`units`]), passes them to whatever may
//! stand still ([`sinks`]): the files ([`files`]), init's stdout, the console, the
//! kernel's ring and syslog; and answers on `log.sock` ([`clients`], [`query`], [`history`]).
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
pub(crate) use supervisor::aside;
