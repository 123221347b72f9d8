//! PID 1's connection to the running logger: its process and the socket to it.
//! [`super::supervisor`] decides what to send and when to replace the logger.

use super::limit;
use crate::state::carried;
use crate::state::carried::KeptFd;
use crate::sys;
use crate::sys::{Pid, inbox, socket, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::{Log, LogPriority, Run};
use groundstate_units::text::fields;
use groundstate_units::text::fields::is_default;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::unit::settings::Echo;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A process and a socket.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Link {
    #[serde(with = "carried::pid")]
    pub(crate) pid: Pid,
    #[serde(default)]
    pub(crate) started: Time,
    socket: KeptFd<OwnedFd>,
    /// The time of the unanswered ping.
    pub(super) asked: Option<Time>,
    #[serde(default)]
    pings: u64,
    /// True if a message was sent since the last ping.
    #[serde(default)]
    said: bool,
    /// True if the logger has closed its end of the socket: it has exited or is about to.
    #[serde(skip)]
    over: bool,
    /// The number of kills that it has survived so far.
    #[serde(skip)]
    pub(super) killed: u32,
    /// Encoded orders that it has not accepted yet.
    #[serde(default)]
    unsent: VecDeque<Vec<u8>>,
}

/// The result of [`super::Handle::tick`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ticked {
    /// Nothing to report.
    Nothing,
    /// A logger was started, with a new [`super::Handle::socket`].
    Started,
    /// This logger was killed twice and has not exited; reported once.
    DoesNotEnd(Pid),
}

impl Link {
    /// Connects to a process just forked.
    pub(crate) fn new(pid: Pid, socket: OwnedFd, started: Time) -> Link {
        let unsent = VecDeque::new();
        let (asked, over) = (None, false);
        let socket = socket.into();
        Link { pid, started, socket, asked, pings: 0, said: false, over, killed: 0, unsent }
    }

    /// The socket for the poll.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends an order without a descriptor, or queues it for [`Link::flush`].
    pub(crate) fn order(&mut self, order: &Order) {
        if let Ok(bytes) = encode(order)
            && self.unsent.len() < limit::UNSENT
        {
            self.unsent.push_back(bytes);
            self.said = true;
        }
        self.flush();
    }

    /// Returns true if orders are queued, so that later messages must wait.
    pub(crate) fn is_behind(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends queued orders until the socket is full.
    pub(crate) fn flush(&mut self) {
        while let Some(bytes) = self.unsent.front() {
            if socket::send(self.socket.as_fd(), bytes, &[]).is_err() {
                return;
            }
            self.unsent.pop_front();
        }
    }

    /// Sends an order with descriptors, now or not at all.
    pub(crate) fn hand(&mut self, order: &Order, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = encode(order)?;
        socket::send(self.socket.as_fd(), &bytes, fds)?;
        self.said = true;
        Ok(())
    }

    /// Sends a ping after the messages since the last answer, so that an idle logger is not woken.
    /// `waiting` means that further messages could not be sent.
    pub(crate) fn ping(&mut self, now: Time, waiting: bool) {
        if self.asked.is_some() || !(self.said || waiting) {
            return;
        }
        self.pings += 1;
        self.order(&Order::Ping(self.pings));
        self.said = false;
        self.asked = Some(now);
    }

    /// The time at which it counts as silent, if a ping is unanswered.
    pub(crate) fn silent_at(&self) -> Option<Time> {
        self.asked.map(|asked| asked.after(limit::SILENCE))
    }

    /// Returns true if [`Link::ping`] has something to send.
    pub(crate) fn has_to_ping(&self) -> bool {
        self.asked.is_none() && self.said
    }

    /// Returns true if [`Link::hear`] has something to read, or the socket has failed.
    pub(crate) fn may_say(&self) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        recv(self.socket.as_raw_fd(), &mut [0], flags) != Err(Errno::EAGAIN)
    }

    /// The next report, or `None` for now. Pongs are handled here.
    pub(crate) fn hear(&mut self) -> Option<Report> {
        let (mut buffer, mut was_reset) = ([0; limit::REPORT], false);
        loop {
            // Recorded in the inbox before it leaves the socket, because the logger reports it only
            // once.
            let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
            let length = match recv(self.socket.as_raw_fd(), &mut buffer, flags) {
                Ok(length) if length > 0 => length,
                // The logger exited before it had read every order. Its last reports follow this
                // error.
                Err(Errno::ECONNRESET) if !was_reset => {
                    was_reset = true;
                    continue;
                }
                Ok(_) => {
                    self.over = true;
                    return None;
                }
                Err(_) => return None,
            };
            if let Some(Ok(Report::Ready(run))) = buffer.get(..length).map(decode) {
                inbox::record_ready(run);
            }
            let got = socket::receive(self.socket.as_fd(), &mut buffer).ok()?;
            match buffer.get(..got.length).and_then(|bytes| decode::<Report>(bytes).ok()) {
                Some(Report::Pong(number)) if number == self.pings => self.asked = None,
                // A late pong, or an invalid report: only our own child writes here.
                Some(Report::Pong(_)) | None => {}
                Some(report) => return Some(report),
            }
        }
    }

    /// Its pid, if its socket is closed and its process was reaped, perhaps by an image that
    /// crashed before it noted the exit.
    pub(crate) fn gone_pid(&self) -> Option<Pid> {
        (self.over && !wait::is_made(self.pid)).then_some(self.pid)
    }

    /// Kills the logger; its exit is reaped later. If a hung disk keeps it from exiting, init tries
    /// again and does not wait.
    pub(crate) fn kill(&mut self, now: Time) {
        // A failed kill means that it is about to be reaped.
        let _ = wait::kill_made(self.pid, 9);
        self.killed = self.killed.saturating_add(1);
        self.asked = self.asked.map(|_| now);
    }
}

// Messages between PID 1 and the logger: one CBOR value for each SOCK_SEQPACKET message, with
// descriptors. Neither side waits for the other.

/// The properties of a run that the logger needs.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunLog {
    #[serde_with(skip_apply)]
    pub(crate) run: RunId,
    #[serde_with(skip_apply)]
    pub(crate) unit: Name,
    /// Its targets, the one shown by echo first.
    pub(crate) targets: Arc<[Name]>,
    /// The destination: file, kmsg, syslog or console.
    pub(crate) log: Log,
    /// The name in syslog and the kernel's log; empty means the unit's name.
    pub(crate) tag: String,
    /// The level and facility of its lines.
    pub(crate) priority: LogPriority,
    /// True if the run blocks while its destination is stuck; otherwise lines are dropped.
    pub(crate) blocks: bool,
    /// The pattern of the readiness line. `None` if there is no pattern or it was found already.
    pub(crate) ready_grep: Option<String>,
}

impl RunLog {
    /// The properties for the output of a run that goes to `log`.
    pub(crate) fn of(
        run: RunId,
        unit: &Name,
        targets: &Arc<[Name]>,
        spec: &Run,
        log: Log,
    ) -> RunLog {
        let stdio = spec.particular.as_ref().map(|p| &p.stdio);
        RunLog {
            run,
            unit: unit.clone(),
            targets: targets.clone(),
            log,
            tag: stdio.map(|stdio| stdio.log_tag.clone()).unwrap_or_default(),
            priority: stdio.map(|stdio| stdio.log_priority).unwrap_or_default(),
            blocks: stdio.is_some_and(|stdio| stdio.log_blocks),
            ready_grep: spec.ready_grep.clone(),
        }
    }
}

/// The settings for log files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// Absolute path.
    pub(crate) log_dir: String,
    /// Size at which a file is rotated.
    pub(crate) log_size: u64,
    /// Number of rotated files kept.
    pub(crate) log_keep: u32,
    /// Group that may read logs.
    pub(crate) log_readers: String,
    /// The form in which the logger copies lines to init's stdout.
    pub(crate) echo: Echo,
}

/// A message from PID 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Read these pipes; one descriptor for each, in this order.
    Read(Vec<RunLog>),
    /// New settings.
    Settings(Settings),
    /// The log directory is mounted: files may be opened.
    OpenFiles,
    /// The new `log.sock`; one descriptor.
    Listen,
    /// Read the present content of this run's pipe, then report it.
    Drain(RunId),
    /// Answer with a pong.
    Ping(u64),
    /// Write all pending lines, report it, and exit.
    Finish,
    /// Read the present content of this run's pipe, then close it.
    Close(RunId),
}

/// A message from the logger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// A line of the run matched its `ready-grep`.
    Ready(RunId),
    /// All writers of the run's pipe are gone, and all of it is read.
    Ended(RunId),
    /// The content that the pipe had at [`Order::Drain`] is read. All reports that follow from it
    /// were sent before this one.
    Drained(RunId),
    /// The answer to [`Order::Ping`].
    Pong(u64),
    /// The answer to [`Order::Finish`].
    Finished,
    /// Log files cannot be written: the first unit affected, and why.
    Trouble(Name, String),
    /// From PID 1 itself: pipes of this unit's oldest runs were closed, because it has too many.
    Crowded(Name),
    /// Number of further lines dropped because their destination was stuck.
    Lost(u64),
}

/// Encodes a message.
pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let bytes = fields::encode(message).map_err(io::Error::other)?;
    if bytes.len() > limit::MESSAGE {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    Ok(bytes)
}

/// Decodes a message without trailing bytes.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    fields::decode(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Sends reports; those not accepted stay queued.
pub(super) fn send_reports(orders: &OwnedFd, reports: &mut VecDeque<Report>) {
    while let Some(report) = reports.front() {
        let Ok(bytes) = encode(report) else { return };
        if sys::socket::send(orders.as_fd(), &bytes, &[]).is_err() {
            return;
        }
        reports.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_trouble_report_is_received_unchanged() {
        let (ours, theirs) = socket::pair().unwrap();
        let mut link = Link::new(Pid::from_raw(1), ours, Time::ZERO);
        let unit = "web".parse().unwrap();
        let trouble = Report::Trouble(unit, "no space ".repeat(100));
        socket::send(theirs.as_fd(), &encode(&trouble).unwrap(), &[]).unwrap();
        assert_eq!(link.hear(), Some(trouble));
        assert_eq!(link.hear(), None);
    }
}
