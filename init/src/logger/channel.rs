//! One living logger as PID 1 sees it: its process and the socket to it. What it has to be
//! told, and when there is to be another one, is decided in [`super::supervisor`].

use super::limit;
use crate::state::carried;
use crate::state::carried::KeptFd;
use crate::sys;
use crate::sys::{Pid, inbox, socket, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Run;
use groundstate_units::spec::{Log, LogPriority};
use groundstate_units::text::fields;
use groundstate_units::text::fields::is_default;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::unit::settings::Echo;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A process and a socket.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Link {
    /// The process.
    #[serde(with = "carried::pid")]
    pub(crate) pid: Pid,
    /// When it was started.
    #[serde(default)]
    pub(crate) started: Time,
    socket: KeptFd<OwnedFd>,
    /// When the ping was sent that has no answer yet.
    asked: Option<Time>,
    #[serde(default)]
    pings: u64,
    /// Something was said since the last ping.
    #[serde(default)]
    said: bool,
    /// Its end of the socket is closed: it has ended, or is about to.
    #[serde(skip)]
    over: bool,
    /// So often it was killed and is there still.
    #[serde(skip)]
    killed: u32,
    /// Orders it did not take yet, encoded.
    #[serde(default)]
    unsent: VecDeque<Vec<u8>>,
}

/// What came of a [`super::Handle::tick`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ticked {
    /// Nothing to be told.
    Nothing,
    /// There is a new [`super::Handle::socket`].
    Started,
    /// This one was killed, and killed again; told once.
    DoesNotEnd(Pid),
}

impl Link {
    /// To a process just forked.
    pub(crate) fn new(pid: Pid, socket: OwnedFd, started: Time) -> Link {
        let unsent = VecDeque::new();
        let (asked, over) = (None, false);
        let socket = socket.into();
        Link { pid, started, socket, asked, pings: 0, said: false, over, killed: 0, unsent }
    }

    /// For the loop.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// An order without a descriptor: sent now, or kept for [`Link::flush`].
    pub(crate) fn order(&mut self, order: &Order) {
        if let Ok(bytes) = encode(order)
            && self.unsent.len() < limit::UNSENT
        {
            self.unsent.push_back(bytes);
            self.said = true;
        }
        self.flush();
    }

    /// Orders wait: what has to come after them waits too.
    pub(crate) fn is_behind(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends what waits, as far as it is taken.
    pub(crate) fn flush(&mut self) {
        while let Some(bytes) = self.unsent.front() {
            if socket::send(self.socket.as_fd(), bytes, &[]).is_err() {
                return;
            }
            self.unsent.pop_front();
        }
    }

    /// An order with descriptors: sent now, or not at all.
    pub(crate) fn hand(&mut self, order: &Order, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = encode(order)?;
        socket::send(self.socket.as_fd(), &bytes, fds)?;
        self.said = true;
        Ok(())
    }

    /// One ping behind whatever was said since the last answer, so that a quiet logger is not
    /// woken. `waiting`: there is more it does not take.
    pub(crate) fn ask(&mut self, now: Time, waiting: bool) {
        if self.asked.is_some() || !(self.said || waiting) {
            return;
        }
        self.pings += 1;
        self.order(&Order::Ping(self.pings));
        self.said = false;
        self.asked = Some(now);
    }

    /// Its answer may have come to an image that has crashed.
    pub(crate) fn owes_nothing(&mut self) {
        self.asked = None;
    }

    /// When it counts as silent, if it owes an answer.
    pub(crate) fn silent_at(&self) -> Option<Time> {
        self.asked.map(|asked| asked.after(limit::SILENCE))
    }

    /// [`Link::ask`] has something to send.
    pub(crate) fn has_to_ask(&self) -> bool {
        self.asked.is_none() && self.said
    }

    /// [`Link::hear`] has something to read, or the socket has failed.
    pub(crate) fn may_say(&self) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        recv(self.socket.as_raw_fd(), &mut [0], flags) != Err(Errno::EAGAIN)
    }

    /// What it says next; None: nothing now. Pongs are not passed on.
    pub(crate) fn hear(&mut self) -> Option<Report> {
        let (mut buffer, mut was_reset) = ([0; limit::REPORT], false);
        loop {
            // In the inbox before it is gone from the socket: the logger says it once.
            let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
            let length = match recv(self.socket.as_raw_fd(), &mut buffer, flags) {
                Ok(length) if length > 0 => length,
                // It closed its end before it had read every order. Its last reports come after this error.
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
                inbox::ready(run);
            }
            let got = socket::receive(self.socket.as_fd(), &mut buffer).ok()?;
            match buffer.get(..got.length).and_then(|bytes| decode::<Report>(bytes).ok()) {
                Some(Report::Pong(number)) if number == self.pings => self.asked = None,
                // Late, or no report: only our own child writes here.
                Some(Report::Pong(_)) | None => {}
                Some(report) => return Some(report),
            }
        }
    }

    /// It was killed twice by now, and has not ended. True once.
    pub(crate) fn was_killed_twice(&self) -> bool {
        self.killed == 2
    }

    /// Its socket is closed and its process was reaped, perhaps by an image that crashed before it noted the end.
    pub(crate) fn is_gone(&self) -> Option<Pid> {
        (self.over && !wait::is_made(self.pid)).then_some(self.pid)
    }

    /// Kills it; its end is then reaped. One that can not be killed (a hung disk) is asked
    /// again, not waited for.
    pub(crate) fn kill(&mut self, now: Time) {
        // Gone already: its end is about to be reaped.
        let _ = wait::kill_made(self.pid, 9);
        self.killed = self.killed.saturating_add(1);
        self.asked = self.asked.map(|_| now);
    }
}

// What PID 1 and the logger say to each other: one value a SOCK_SEQPACKET
// message, descriptors beside it. Neither side waits for the other.

/// What the logger has to know about one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunLog {
    /// The run.
    pub(crate) run: RunId,
    /// Its unit.
    pub(crate) unit: Name,
    /// Its targets, the one shown by echo first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) targets: Arc<[Name]>,
    /// Where its output goes: file, kmsg, syslog or console.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) log: Log,
    /// The name its lines bear in the system's log and the kernel's; empty: its unit's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) tag: String,
    /// The level and facility of its lines.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) priority: LogPriority,
    /// Waits for as long as its place of output stands still; else lines are dropped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) blocks: bool,
    /// Ready at a line that matches this. None: nobody asks, or it was found already.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) ready_grep: Option<String>,
}

impl RunLog {
    /// Of the output of a run that goes to `log`.
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
    let bytes = fields::encode(message).map_err(io::Error::other)?;
    if bytes.len() > limit::MESSAGE {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    Ok(bytes)
}

/// The message in these bytes: all of them, nothing over.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    fields::decode(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_trouble_is_heard_as_it_was_said() {
        let (ours, theirs) = socket::pair().unwrap();
        let mut link = Link::new(Pid::from_raw(1), ours, Time::ZERO);
        let unit = "web".parse().unwrap();
        let trouble = Report::Trouble(unit, "no space ".repeat(100));
        socket::send(theirs.as_fd(), &encode(&trouble).unwrap(), &[]).unwrap();
        assert_eq!(link.hear(), Some(trouble));
        assert_eq!(link.hear(), None);
    }
}
