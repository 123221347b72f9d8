//! What PID 1 and the logger say to each other: one postcard value a SOCK_SEQPACKET
//! message, descriptors beside it. Neither side waits for the other.

use super::limit;
use crate::sys;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::{Log, LogPriority};
use groundstate_units::text::name::Name;
use groundstate_units::unit::settings::Echo;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// What the logger has to know about one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunLog {
    /// The run.
    pub(crate) run: RunId,
    /// Its unit.
    pub(crate) unit: Name,
    /// Its targets, the one shown by echo first.
    pub(crate) targets: Arc<[Name]>,
    /// Where its output goes: file, kmsg, syslog or console.
    pub(crate) log: Log,
    /// The name its lines bear in the system's log and the kernel's; empty: its unit's.
    pub(crate) tag: String,
    /// The level and facility of its lines.
    pub(crate) priority: LogPriority,
    /// Waits for as long as its place of output stands still; else lines are dropped.
    pub(crate) blocks: bool,
    /// Ready at a line that matches this. None: nobody asks, or it was found already.
    pub(crate) ready_grep: Option<String>,
}

/// Where and how lines are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// Absolute.
    pub(crate) log_dir: String,
    /// Bytes of a file before it is rotated.
    pub(crate) log_size: u64,
    /// Rotated files kept.
    pub(crate) log_keep: u32,
    /// Group that may read logs.
    pub(crate) log_readers: String,
    /// What is copied to init's stdout.
    pub(crate) echo: Echo,
}

/// From PID 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Read these; one descriptor for each, in this order.
    Read(Vec<RunLog>),
    /// New settings.
    Settings(Settings),
    /// The log directory is there: files may be opened.
    OpenFiles,
    /// The new `log.sock`; one descriptor.
    Listen,
    /// Read what this run's pipe holds now, then say so.
    Drain(RunId),
    /// Say that you live.
    Ping(u64),
    /// Write what you have, say so, end.
    Finish,
    /// Read what this run's pipe holds now, then close it.
    Close(RunId),
}

/// From the logger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// A line of the run matched its `ready-grep`.
    Ready(RunId),
    /// Every process that had the run's pipe is gone, all of it is read.
    Ended(RunId),
    /// What the pipe held when [`Order::Drain`] came is read, and what follows from it has
    /// been reported before this.
    Drained(RunId),
    /// To [`Order::Ping`].
    Pong(u64),
    /// To [`Order::Finish`].
    Finished,
    /// Log files can not be written: whose was the first, and why.
    Trouble(Name, String),
    /// Of PID 1 itself: pipes of this unit's oldest runs are closed, for it has too many.
    Crowded(Name),
    /// So many lines more did not get where they were to go, because that stood still.
    Lost(u64),
}

/// The bytes of a message.
pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let bytes = postcard::to_allocvec(message).map_err(io::Error::other)?;
    if bytes.len() > limit::MESSAGE {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    Ok(bytes)
}

/// The message in these bytes: all of them, nothing over.
pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> io::Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) => Err(io::Error::from(io::ErrorKind::InvalidData)),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

/// What is not taken now stays.
pub(super) fn send_reports(orders: &OwnedFd, reports: &mut VecDeque<Report>) {
    while let Some(report) = reports.front() {
        let Ok(bytes) = encode(report) else { return };
        if sys::socket::send(orders.as_fd(), &bytes, &[]).is_err() {
            return;
        }
        reports.pop_front();
    }
}
