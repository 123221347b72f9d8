//! The logger: a child of PID 1 that reads what services write, and PID 1's side of it.
//!
//! PID 1 makes a pipe for each run ([`supervisor`], [`channel`]), passes the read ends on in batches
//! ([`message`]) and keeps them safe from the logger's death ([`pipe_keeper`], [`pending_buffer`]); it reads no
//! byte of them. The logger ([`process`]) cuts the bytes into lines and looks for `ready-grep`
//! ([`stream`]), remembers the last of each unit ([`recent_lines`]), passes them to whatever may
//! stand still ([`sink_thread`]): the files ([`files`], [`file`]), init's stdout, the console, the
//! kernel's ring and syslog ([`sink`]); and answers on `log.sock` ([`clients`], [`query`], [`answers`], [`history`]).
//!
//! The stored form of a line is `groundstate_units::control::log_line`.

mod answers;
mod channel;
mod clients;
mod file;
mod files;
mod history;
mod limit;
mod message;
mod pending_buffer;
mod pending_reader;
mod pipe_keeper;
mod pipe_limit;
mod process;
mod query;
mod recent_lines;
mod sink;
mod sink_thread;
mod sinks;
mod stream;
mod supervisor;
#[cfg(test)]
mod tests;
mod units;

pub(crate) use channel::Ticked;
pub(crate) use message::{Report, RunLog, Settings};
pub(crate) use pipe_keeper::look_into;
pub(crate) use pipe_limit::aside;
pub(crate) use supervisor::Handle;
