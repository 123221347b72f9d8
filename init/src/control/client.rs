//! One connection to the control socket: lines in, lines out, never waiting for either.

use crate::base::limit;
use crate::fd;
use crate::fd::Foreign;
use crate::state::carried::KeptFd;
use crate::sys::socket;
use groundstate_units::limit::REQUEST_LINE;
use groundstate_units::text::fields::bytes;
use groundstate_units::text::time::Time;
use mio::net::UnixStream;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

/// A client's credentials, as the kernel recorded them at connect(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Caller {
    /// Effective uid.
    pub(crate) uid: u32,
    /// In init's pid namespace; 0 when it is of another.
    #[serde(default)]
    pub(crate) pid: i32,
    /// The uid is that user's in init's own user namespace ([`crate::base::credentials`]).
    #[serde(default)]
    pub(crate) is_proven: bool,
    /// Root or init's own uid, proven.
    #[serde(default)]
    pub(crate) trusted: bool,
}

impl Caller {
    /// The caller is this user, proven.
    pub(crate) fn is_user(self, uid: u32) -> bool {
        self.is_proven && self.uid == uid
    }
}

/// What reading gave.
pub(crate) enum Line {
    /// A whole line, without its newline, and what was passed along with it.
    Whole(Vec<u8>, Vec<Foreign>),
    /// Longer than a request may be. The connection is of no more use.
    TooLong,
    /// None for now.
    None,
}

fn yes() -> bool {
    true
}

/// One connection.
#[derive(Serialize, Deserialize)]
pub(crate) struct Client {
    stream: KeptFd<UnixStream>,
    /// Who.
    pub(crate) caller: Caller,
    #[serde(default, with = "bytes")]
    input: Vec<u8>,
    /// Bytes taken out of `input` so far.
    #[serde(default)]
    taken: u64,
    /// Descriptors that came, each with the place in the stream of its message's last byte.
    #[serde(default)]
    passed: VecDeque<(u64, Foreign)>,
    #[serde(default, with = "bytes")]
    output: Vec<u8>,
    #[serde(default)]
    sent: usize,
    /// When the client last did something: sent bytes or read some.
    #[serde(default)]
    pub(crate) moved: Time,
    /// The stream may hold bytes not read yet.
    #[serde(default = "yes")]
    pub(super) readable: bool,
    /// The client will send no more.
    #[serde(default)]
    ended: bool,
    /// No more is read; what is queued is sent, then the connection is closed.
    #[serde(default)]
    closing: bool,
    /// To be dropped at the end of the turn.
    #[serde(default)]
    pub(crate) dead: bool,
    /// To be cut off then.
    #[serde(skip)]
    pub(crate) given_up: bool,
    /// Its record has what is not read or sent yet, too: init goes on as another image.
    #[serde(skip)]
    pub(crate) goes_along: bool,
    /// Stream of events: the id asked with, and the last number sent.
    pub(crate) follows: Option<(u64, u64)>,
    /// Requests the loader works on.
    #[serde(default)]
    pub(crate) pending: Vec<u64>,
    /// Requests answered once nothing is under way.
    #[serde(default)]
    pub(crate) waits: Vec<u64>,
}

impl Client {
    /// A new connection.
    pub(crate) fn new(stream: UnixStream, caller: Caller, now: Time) -> Client {
        Client {
            stream: stream.into(),
            caller,
            input: Vec::new(),
            taken: 0,
            passed: VecDeque::new(),
            output: Vec::new(),
            sent: 0,
            moved: now,
            readable: true,
            ended: false,
            closing: false,
            dead: false,
            given_up: false,
            goes_along: false,
            follows: None,
            pending: Vec::new(),
            waits: Vec::new(),
        }
    }

    /// It is part of the state: after a crash one with half a request or answer is closed.
    pub(super) fn is_recorded(&self) -> bool {
        self.goes_along || (self.input.is_empty() && self.sent == self.output.len())
    }

    /// The connection, to register.
    pub(crate) fn stream(&mut self) -> &mut UnixStream {
        &mut self.stream
    }

    /// Nothing asked is unanswered and nothing unsent.
    pub(crate) fn is_idle(&self) -> bool {
        let asked = !self.pending.is_empty() || !self.waits.is_empty() || self.follows.is_some();
        !asked && self.unsent() == 0
    }

    /// A request may be taken: it does not wait for answers to be read.
    pub(crate) fn may_ask(&self) -> bool {
        let waiting = self.pending.len().saturating_add(self.waits.len());
        !self.dead
            && !self.closing
            && self.unsent() < limit::UNREAD
            && waiting < limit::REQUESTS_PENDING
    }

    /// Bytes queued and not sent.
    pub(crate) fn unsent(&self) -> usize {
        self.output.len().saturating_sub(self.sent)
    }

    /// Somebody has to wake up for it without any event: a line or an answer is under way.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.input.is_empty() || self.unsent() > 0
    }

    /// The next line. Reads at most one request's length beyond it. With `takes` descriptors
    /// that are passed along are kept for it, else they are closed at once. They are taken
    /// in any case: the kernel closes what finds no room within the same call, and waits as
    /// long as the sender's SO_LINGER says.
    pub(crate) fn line(&mut self, now: Time, takes: bool) -> Line {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                if end > REQUEST_LINE {
                    return Line::TooLong;
                }
                let mut line = self.take(end.saturating_add(1));
                line.0.pop();
                return Line::Whole(line.0, line.1);
            }
            if self.input.len() > REQUEST_LINE {
                return Line::TooLong;
            }
            if self.ended && !self.input.is_empty() {
                // Who has no more to say need not end the line.
                let line = self.take(self.input.len());
                return Line::Whole(line.0, line.1);
            }
            if self.ended || !self.readable {
                return Line::None;
            }
            let mut bytes = [0u8; 8192];
            match self.receive(&mut bytes, takes) {
                Ok(0) => self.ended = true,
                Ok(n) => {
                    self.moved = now;
                    self.input.extend_from_slice(bytes.get(..n).unwrap_or_default());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(_) => self.dead = true,
            }
            if self.dead {
                return Line::None;
            }
        }
    }

    /// The first bytes of what came, with the descriptors that came among them.
    fn take(&mut self, count: usize) -> (Vec<u8>, Vec<Foreign>) {
        let bytes: Vec<u8> = self.input.drain(..count.min(self.input.len())).collect();
        self.taken = self.taken.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let mut passed = Vec::new();
        while let Some((_, fd)) = self.passed.pop_front_if(|(at, _)| *at <= self.taken) {
            passed.push(fd);
        }
        (bytes, passed)
    }

    fn receive(&mut self, bytes: &mut [u8], takes: bool) -> io::Result<usize> {
        // One call never goes on behind the message that a descriptor came with: unix(7).
        let received = {
            let room = if self.caller.trusted { limit::DESCRIPTORS } else { fd::room() };
            socket::receive_some(self.stream.as_fd(), bytes, room)?
        };
        let end = self.taken.saturating_add(
            u64::try_from(self.input.len().saturating_add(received.length)).unwrap_or(u64::MAX),
        );
        let most = if takes { limit::DESCRIPTORS } else { 0 };
        let room = most.saturating_sub(self.passed.len());
        // Of use is memory alone; whatever else is kept here other children have copies of.
        let passed = Foreign::keepable(received.fds);
        fd::dropped(passed.len().saturating_sub(room));
        self.passed.extend(passed.into_iter().take(room).map(|fd| (end, fd)));
        Ok(received.length)
    }

    /// A line is there that no poll will tell of.
    fn has_line(&self) -> bool {
        self.input.contains(&b'\n') || (self.ended && !self.input.is_empty())
    }

    /// A whole line may be waiting although the poll has nothing to say about it.
    pub(crate) fn has_more(&self) -> bool {
        self.may_ask() && ((self.readable && !self.ended) || self.has_line())
    }

    /// Queues a line. A client that leaves too much unread while a stream goes on is cut off.
    pub(crate) fn queue(&mut self, line: &[u8]) {
        if self.unsent() > limit::UNREAD {
            self.given_up = true;
            return;
        }
        self.output.extend_from_slice(line);
    }

    /// After what is queued the connection is closed.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        self.input = Vec::new();
    }

    /// Sends what can be sent.
    pub(crate) fn flush(&mut self, now: Time) {
        while !self.dead && self.unsent() > 0 {
            match (&*self.stream).write(self.output.get(self.sent..).unwrap_or_default()) {
                Ok(0) => self.dead = true,
                Ok(n) => {
                    self.moved = now;
                    self.sent = self.sent.saturating_add(n);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.dead = true,
            }
        }
        if self.unsent() == 0 {
            self.sent = 0;
            // An answer can be long; its room is not kept for a client that asks no more.
            self.output = Vec::new();
            if self.closing || (self.ended && self.is_idle() && !self.has_line()) {
                self.dead = true;
            }
        } else if self.sent >= self.unsent() {
            // Who reads on, but never all, would have everything kept it was ever sent. No byte is
            // moved for fewer than one that is gone.
            self.output.drain(..self.sent.min(self.output.len()));
            self.sent = 0;
        }
    }

    /// A begun line that does not end, or an answer nobody reads.
    pub(crate) fn is_stuck(&self, now: Time) -> bool {
        self.is_waited_for() && now.since(self.moved) > limit::CLIENT_PATIENCE
    }
}
