//! The logger: a child of PID 1 that reads what services write, and PID 1's side of it.
//!
//! PID 1 makes a pipe for each run ([`handle`], [`link`]), passes the read ends on in batches
//! ([`message`]) and keeps them safe from the logger's death ([`stash`], [`stage`]); it reads no
//! byte of them. The logger ([`process`]) cuts the bytes into lines and looks for `ready-grep`
//! ([`stream`]), remembers the last of each unit ([`tail`]), passes them to whatever may
//! stand still ([`lane`]): the files ([`files`], [`file`]), init's stdout, the console, the
//! kernel's ring and syslog ([`outlet`]); and answers on `log.sock` ([`clients`], [`query`], [`answers`], [`history`]).
//!
//! The stored form of a line is `groundstate_units::control::log_line`.

mod answers;
mod clients;
mod crowd;
mod file;
mod files;
mod handle;
mod history;
mod lane;
mod limit;
mod link;
mod message;
mod out;
mod outlet;
mod process;
mod query;
mod stage;
mod staged;
mod stash;
mod stream;
mod tail;
#[cfg(test)]
mod tests;
mod units;

pub(crate) use crowd::aside;
pub(crate) use handle::Handle;
pub(crate) use link::Ticked;
pub(crate) use message::{Report, RunLog, Settings};
pub(crate) use stash::look_into;
