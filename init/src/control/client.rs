//! One connection to the control socket. Reading and writing lines never blocks.

use crate::base::limit;
use crate::fd;
use crate::fd::Foreign;
use crate::state::carried::KeptFd;
use crate::sys::socket;
use groundstate_units::limit::REQUEST_LINE;
use groundstate_units::text::fields::{bytes, is_default};
use groundstate_units::text::time::Time;
use mio::net::UnixStream;
use mio::{Interest, Registry, Token};
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

/// A client's credentials, as the kernel recorded them at connect(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Caller {
    /// Effective uid.
    pub(crate) uid: u32,
    /// The pid in init's pid namespace, or 0 if the client is in another one.
    #[serde(default)]
    pub(crate) pid: i32,
    /// True if the uid is proven to belong to init's own user namespace
    /// ([`crate::base::credentials`]).
    #[serde(default)]
    pub(crate) is_proven: bool,
    /// True for root or init's own uid, proven.
    #[serde(default)]
    pub(crate) trusted: bool,
}

impl Caller {
    /// Returns true if the caller is proven to be this user.
    pub(crate) fn is_user(self, uid: u32) -> bool {
        self.is_proven && self.uid == uid
    }
}

/// The result of reading.
pub(crate) enum Line {
    /// A whole line without its newline, and the descriptors passed with it.
    Whole(Vec<u8>, Vec<Foreign>),
    /// The line is longer than a request may be. The connection is closed.
    TooLong,
    /// No complete line yet.
    None,
}

/// One connection.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Serialize, Deserialize)]
pub(crate) struct Client {
    #[serde_with(skip_apply)]
    stream: KeptFd<UnixStream>,
    #[serde_with(skip_apply)]
    pub(crate) caller: Caller,
    #[serde(with = "bytes")]
    input: Vec<u8>,
    /// Bytes taken out of `input` since `passed` was empty.
    taken: u64,
    /// Received descriptors, each with the position in the stream of its message's last byte.
    #[serde_with(skip_apply)]
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    passed: VecDeque<(u64, Foreign)>,
    #[serde(with = "bytes")]
    output: Vec<u8>,
    sent: usize,
    /// The time at which the client last sent or read bytes. A new image resets it.
    #[serde(skip)]
    pub(crate) moved: Time,
    /// True if the stream may hold unread bytes. Always true in a new image.
    #[serde(skip)]
    pub(super) readable: bool,
    /// True if the poll reports that the stream can take bytes.
    #[serde(skip)]
    watches_writes: bool,
    /// True if the client has closed its sending side.
    ended: bool,
    /// True if init reads no more requests, sends the queued bytes, and then closes the connection.
    closing: bool,
    /// True if the connection is dropped at the end of the turn.
    pub(crate) dead: bool,
    /// True if init gives up the client: the end of the turn counts it as cut off and drops it.
    #[serde(skip)]
    pub(crate) given_up: bool,
    /// True if the record includes unread and unsent bytes, because init is about to re-exec.
    #[serde(skip)]
    pub(crate) records_unfinished: bool,
    /// For a follower of events: the request id, and the last event number sent.
    pub(crate) follows: Option<(u64, u64)>,
    /// The ids of requests that wait for the loader.
    pub(crate) pending: Vec<u64>,
    /// The ids of requests that init answers once the system has settled.
    pub(crate) waits: Vec<u64>,
}

impl Client {
    /// Wraps a new connection.
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
            watches_writes: false,
            ended: false,
            closing: false,
            dead: false,
            given_up: false,
            records_unfinished: false,
            follows: None,
            pending: Vec::new(),
            waits: Vec::new(),
        }
    }

    /// Returns true if the connection is part of the state. After a crash, a connection with a
    /// partial request or answer is closed.
    pub(super) fn is_recorded(&self) -> bool {
        self.records_unfinished || (self.input.is_empty() && self.sent == self.output.len())
    }

    /// Registers the stream with the poll.
    pub(super) fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        socket::keep_urgent_bytes(self.stream.as_fd())?;
        self.watches_writes = self.unsent() > 0;
        let interest = self.interest();
        registry.register(&mut *self.stream, token, interest)
    }

    /// Makes the poll report that the stream can take bytes, while some are queued. Otherwise each
    /// read of an answer by the client would wake init.
    pub(super) fn watch_writes(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        if self.watches_writes == (self.unsent() > 0) || self.dead {
            return Ok(());
        }
        self.watches_writes = self.unsent() > 0;
        let interest = self.interest();
        registry.reregister(&mut *self.stream, token, interest)
    }

    fn interest(&self) -> Interest {
        let both = Interest::READABLE | Interest::WRITABLE;
        if self.watches_writes { both } else { Interest::READABLE }
    }

    /// Returns true if no request is unanswered and no byte unsent.
    pub(crate) fn is_idle(&self) -> bool {
        let asked = !self.pending.is_empty() || !self.waits.is_empty() || self.follows.is_some();
        !asked && self.unsent() == 0
    }

    /// Returns true if init may take another request; a client with many unread answers must wait.
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

    /// Returns true if the client's deadline applies: a partial line or an unsent answer exists.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.input.is_empty() || self.unsent() > 0
    }

    /// Returns the next line. Reads at most one request's length beyond it. With `takes`, passed
    /// descriptors are kept for the line; otherwise they are closed. They are always received: the
    /// kernel closes excess descriptors during the call, which blocks for the sender's SO_LINGER.
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
                // The last line needs no newline when the client has closed its side.
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

    /// Takes the first bytes of the input, with the descriptors that arrived among them.
    fn take(&mut self, count: usize) -> (Vec<u8>, Vec<Foreign>) {
        let bytes: Vec<u8> = self.input.drain(..count.min(self.input.len())).collect();
        self.taken = self.taken.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let mut passed = Vec::new();
        while let Some((_, fd)) = self.passed.pop_front_if(|(at, _)| *at <= self.taken) {
            passed.push(fd);
        }
        if self.passed.is_empty() {
            self.taken = 0;
        }
        (bytes, passed)
    }

    fn receive(&mut self, bytes: &mut [u8], takes: bool) -> io::Result<usize> {
        // One call never reads beyond the message of a descriptor: unix(7).
        let received = {
            let room = if self.caller.trusted { limit::DESCRIPTORS } else { fd::room() };
            socket::receive_some(self.stream.as_fd(), bytes, room)?
        };
        let end = self.taken.saturating_add(
            u64::try_from(self.input.len().saturating_add(received.length)).unwrap_or(u64::MAX),
        );
        let most = if takes { limit::DESCRIPTORS } else { 0 };
        let room = most.saturating_sub(self.passed.len());
        // A descriptor whose close may block is dropped: children of init would close their copies.
        let passed = Foreign::keepable(received.fds);
        fd::dropped(passed.len().saturating_sub(room));
        self.passed.extend(passed.into_iter().take(room).map(|fd| (end, fd)));
        Ok(received.length)
    }

    /// Returns true if a buffered line exists that no poll event will announce.
    fn has_line(&self) -> bool {
        self.input.contains(&b'\n') || (self.ended && !self.input.is_empty())
    }

    /// Returns true if a request may be available without a poll event.
    pub(crate) fn has_more(&self) -> bool {
        self.may_ask() && ((self.readable && !self.ended) || self.has_line())
    }

    /// Queues a line. A client that leaves too much unread during a stream is disconnected.
    pub(crate) fn queue(&mut self, line: &[u8]) {
        if self.unsent() > limit::UNREAD {
            self.given_up = true;
            return;
        }
        self.output.extend_from_slice(line);
    }

    /// Closes the connection once the queued bytes are sent.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        self.input = Vec::new();
    }

    /// Sends queued bytes until the socket is full.
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
            // An answer can be long; its buffer is not kept for an idle client.
            self.output = Vec::new();
            if self.closing || (self.ended && self.is_idle() && !self.has_line()) {
                self.dead = true;
            }
        } else if self.sent >= self.unsent() {
            // A client that reads on without finishing would make the buffer grow for ever.
            // Compacting moves at most as many bytes as were sent.
            self.output.drain(..self.sent.min(self.output.len()));
            self.sent = 0;
        }
    }

    /// Returns true if a partial line or an unread answer has exceeded the time limit.
    pub(crate) fn is_stuck(&self, now: Time) -> bool {
        self.is_waited_for() && now.since(self.moved) > limit::CLIENT_PATIENCE
    }
}
