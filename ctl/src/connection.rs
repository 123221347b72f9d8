//! A connection to the control socket or the log socket: one JSON object per line.
//! A call fails after [`PING_TIMEOUT`] if the server does not respond, because the client pings the
//! server before each request that may take long.

use crate::exit::{Error, Exit};
use groundstate_units::control::answer::{Failure, Line};
use groundstate_units::control::request::{Request, Role, Verb};
use nix::sys::socket::sockopt::{PeerCredentials, SendTimeout};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, getsockopt,
    sendmsg, setsockopt, socket,
};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::geteuid;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::io::{BufRead, BufReader, ErrorKind, IoSlice, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The hint if there is no init at the socket.
const NO_INIT: &str = "select another init with --socket PATH or GROUNDSTATE_SOCKET; \
    if the socket was deleted, the signal USR1 makes init create it again";
/// Timeout for the answer to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for answers that need no waiting; loading all unit files is the longest.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A connection that is lost before its answer may mean that init crashed and resumed without it,
/// so the request is sent again. It is not sent again if two connections in a row are lost within
/// this time. The request itself may crash init, and init does not resume after a fourth crash in a
/// row.
const MIN_RETRY_AGE: Duration = Duration::from_secs(5);

/// A connection.
pub(crate) struct Connection {
    path: String,
    reader: BufReader<UnixStream>,
    /// Timeout for an answer.
    limit: Option<Duration>,
    id: u64,
    /// The server closed the connection without an answer.
    is_lost: bool,
    /// Time of the last request, until an answer arrives.
    asked: Option<Instant>,
    /// This connection replaced one that was lost at once.
    is_second: bool,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// [`Exit::NoInit`] if no process listens; [`Exit::Denied`] if the caller has no access, or the
    /// socket belongs to another user than root and the caller.
    pub(crate) fn open(path: &str) -> Result<Connection, Error> {
        let stream = connect_to(path).map_err(|error| connect_error(path, &error))?;
        check_owners(path, &stream)?;
        let reader = BufReader::new(stream);
        let path = path.to_string();
        let (limit, asked) = (None, None);
        Ok(Connection { path, reader, limit, id: 0, is_lost: false, asked, is_second: false })
    }

    /// Sends a request and returns the answer. Retries after a lost connection if that is harmless.
    pub(crate) fn ask(&mut self, verb: &Verb) -> Result<Box<RawValue>, Error> {
        self.ask_within(verb, Some(ANSWER_TIMEOUT))
    }

    /// Like [`Self::ask`], with a timeout; `None` for no timeout.
    pub(crate) fn ask_within<T: DeserializeOwned>(
        &mut self,
        verb: &Verb,
        limit: Option<Duration>,
    ) -> Result<T, Error> {
        let ask = |connection: &mut Connection| {
            connection.begin(verb.clone(), limit)?;
            connection.answer()
        };
        if may_be_asked_twice(verb) { self.with_retries(ask) } else { ask(self) }
    }

    /// Reconnects to the same socket. Returns false if the connection was not lost or the request
    /// may not be sent again.
    pub(crate) fn reconnect(&mut self) -> Result<bool, Error> {
        let is_too_soon = self.asked.is_some_and(|asked| asked.elapsed() < MIN_RETRY_AGE);
        if !self.is_lost || (is_too_soon && self.is_second) {
            return Ok(false);
        }
        *self = Connection { is_second: is_too_soon, ..Connection::open(&self.path)? };
        Ok(true)
    }

    /// Returns true if this connection replaced one that was lost within [`MIN_RETRY_AGE`] of its
    /// request. Then init may have executed the request twice.
    pub(crate) fn was_asked_again(&self) -> bool {
        self.is_second
    }

    /// Retries on new connections until there is an answer.
    fn with_retries<T>(
        &mut self,
        ask: impl Fn(&mut Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            let asked = ask(self);
            if asked.is_ok() || !self.reconnect()? {
                return asked;
            }
        }
    }

    /// Returns init's answer to a ping.
    pub(crate) fn ping(&mut self) -> Result<Box<RawValue>, Error> {
        let line = self.line(Verb::Ping {})?;
        self.ping_with(&line)
    }

    /// Like [`Self::ping`], with retries.
    fn ping_with_retries(&mut self) -> Result<Box<RawValue>, Error> {
        self.with_retries(Connection::ping)
    }

    /// Sends a request whose answers [`Connection::next`] returns, each within `limit`. The server
    /// is pinged first, so that no request is executed later for a client that has given up.
    pub(crate) fn begin(&mut self, verb: Verb, limit: Option<Duration>) -> Result<(), Error> {
        self.begin_with(limit, |_| Ok(verb))
    }

    /// Like [`Self::begin`], with a request that depends on the answer to the ping. Both use one
    /// connection, so no other init can receive the request.
    pub(crate) fn begin_with(
        &mut self,
        limit: Option<Duration>,
        verb: impl FnOnce(&RawValue) -> Result<Verb, Error>,
    ) -> Result<(), Error> {
        let pong = self.ping_with_retries()?;
        self.set_timeout(limit);
        let line = self.line(verb(&pong)?)?;
        self.send(&line)
    }

    /// Sends a ping, which is this line, and returns the answer. The timeout of an earlier request
    /// does not apply.
    pub(crate) fn ping_with<T: DeserializeOwned>(&mut self, line: &[u8]) -> Result<T, Error> {
        self.set_timeout(Some(PING_TIMEOUT));
        self.send(line)?;
        self.answer()
    }

    /// Returns the only answer.
    pub(crate) fn answer<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        let answer = self.next()?;
        answer.ok_or_else(|| {
            let message = format!("{} closed the connection without an answer", self.path);
            let hint = "init may have crashed on this request and resumed: \
                        `initctl status` shows what was done";
            Error::Failed(Exit::NoInit, Failure::new(Failure::NO_INIT, message, hint))
        })
    }

    /// Like [`Self::ask`], with a descriptor in the request's message.
    pub(crate) fn ask_with(
        &mut self,
        verb: Verb,
        passed: BorrowedFd<'_>,
    ) -> Result<Box<RawValue>, Error> {
        self.ping_with_retries()?;
        self.set_timeout(Some(ANSWER_TIMEOUT));
        let line = self.line(verb)?;
        let fds = [passed.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&fds)];
        let to = self.reader.get_ref().as_raw_fd();
        let parts = [IoSlice::new(&line)];
        // A request line is far shorter than the socket buffer.
        let sent = sendmsg::<()>(to, &parts, &rights, MsgFlags::MSG_NOSIGNAL, None);
        match sent.map_err(std::io::Error::from) {
            Ok(sent) if sent < line.len() => self.send(line.get(sent..).unwrap_or_default())?,
            // As in `send`.
            Err(error) if !is_loss(&error) => return Err(self.io_error(&error)),
            Ok(_) | Err(_) => {}
        }
        self.answer()
    }

    fn line(&mut self, verb: Verb) -> Result<Vec<u8>, Error> {
        self.id += 1;
        let request = Request { id: self.id, verb };
        request
            .line()
            .map_err(|error| Error::local(format!("cannot encode the request: {error}"), ""))
    }

    /// Sends a complete line.
    pub(crate) fn send(&mut self, line: &[u8]) -> Result<(), Error> {
        self.asked = Some(Instant::now());
        // A server that refuses the client has closed its side, but its reason can still be read.
        match self.reader.get_mut().write_all(line) {
            Err(error) if !is_loss(&error) => Err(self.io_error(&error)),
            _ => Ok(()),
        }
    }

    /// Sets the timeout; `None` for none.
    pub(crate) fn set_timeout(&mut self, limit: Option<Duration>) {
        self.limit = limit;
        // Only a zero duration is refused, and no caller passes one.
        let _ = self.reader.get_ref().set_read_timeout(limit);
    }

    /// Returns the next answer, or `None` if the server has closed the connection.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Error> {
        let mut line = Vec::new();
        match self.reader.read_until(b'\n', &mut line) {
            Err(error) if !is_loss(&error) => return Err(self.io_error(&error)),
            Ok(_) if line.ends_with(b"\n") => {}
            // The connection may end within a line.
            Ok(_) | Err(_) => {
                self.is_lost = true;
                return Ok(None);
            }
        }
        self.asked = None;
        let line: Line<T> = serde_json::from_slice(&line)
            .map_err(|error| self.protocol_error(&format!("sent an invalid answer ({error})")))?;
        match line {
            Line { error: Some(failure), .. } => Err(Error::answered(failure)),
            Line { ok: Some(answer), .. } => Ok(Some(answer)),
            Line { .. } => Err(self.protocol_error("sent an empty answer")),
        }
    }

    /// The error for a connection that ended within an answer.
    pub(crate) fn cut_off(&self) -> Error {
        self.protocol_error("closed the connection within an answer")
    }

    fn protocol_error(&self, what: &str) -> Error {
        let message = format!("{} {what}", self.path);
        let hint = "initctl and init may be of different versions";
        Error::Failed(Exit::NoInit, Failure::new(Failure::NO_INIT, message, hint))
    }

    fn io_error(&self, error: &std::io::Error) -> Error {
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            return no_answer(&self.path, self.limit);
        }
        let message = format!("{}: {error}", self.path);
        Error::Failed(Exit::NoInit, Failure::new(Failure::NO_INIT, message, ""))
    }
}

/// Returns true if the server has closed the connection.
fn is_loss(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// Returns true if repeating the request has no further effect.
fn may_be_asked_twice(verb: &Verb) -> bool {
    verb.role() == Role::Read
        || matches!(
            verb,
            Verb::SetTarget { .. }
                | Verb::Want { .. }
                | Verb::Unwant { .. }
                | Verb::Policy { .. }
                | Verb::Reload { .. }
                | Verb::SourceList {}
        )
}

/// Connects with a timeout, even if the server's backlog is full.
fn connect_to(path: &str) -> std::io::Result<UnixStream> {
    let (family, kind) = (AddressFamily::Unix, SockType::Stream);
    let stream = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    let limit = TimeVal::seconds(i64::try_from(PING_TIMEOUT.as_secs()).unwrap_or(i64::MAX));
    setsockopt(&stream, SendTimeout, &limit)?;
    connect(stream.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(stream.into())
}

/// Checks who owns the socket. The client trusts init's answers: it writes the policy file that
/// init names and prints the logs that init sends. So the socket must belong to root or the caller.
/// PID 1 of this pid namespace is trusted whatever its user is.
fn check_owners(path: &str, stream: &UnixStream) -> Result<(), Error> {
    let fault = |error: std::io::Error| Error::file(path, &error);
    let peer = getsockopt(stream, PeerCredentials).map_err(|error| fault(error.into()))?;
    if peer.pid() == 1 {
        return Ok(());
    }
    let directory = Path::new(path).parent().filter(|dir| !dir.as_os_str().is_empty());
    let directory = std::fs::metadata(directory.unwrap_or(Path::new("."))).map_err(fault)?;
    let own = geteuid().as_raw();
    let owners = [("its directory belongs to", directory.uid()), ("it is served by", peer.uid())];
    match owners.into_iter().find(|(_, uid)| *uid != 0 && *uid != own) {
        None => Ok(()),
        Some((what, uid)) => {
            let message = format!("{path} is not trusted: {what} uid {uid}");
            let hint = "only sockets of root and of the caller are used; run this as that user \
                        to ask an instance of another user";
            Err(Error::Failed(Exit::Denied, Failure::new(Failure::DENIED, message, hint)))
        }
    }
}

/// The error for a missing answer.
fn no_answer(path: &str, limit: Option<Duration>) -> Error {
    let within = limit.map(|limit| format!(" within {limit:?}")).unwrap_or_default();
    let message = format!("no answer from {path}{within}");
    let hint = "the process that listens there is stopped, stuck or very busy; `ps -eo pid,stat,comm` shows its state";
    Error::Failed(Exit::TimedOut, Failure::new(Failure::TIMEOUT, message, hint))
}

/// The error for a socket that cannot be used.
pub(crate) fn connect_error(path: &str, error: &std::io::Error) -> Error {
    if error.kind() == ErrorKind::WouldBlock {
        return no_answer(path, Some(PING_TIMEOUT));
    }
    if error.kind() == ErrorKind::PermissionDenied {
        let failure = Failure::new(Failure::DENIED, format!("{path}: {error}"), "");
        return Error::Failed(Exit::Denied, failure);
    }
    let error = error.to_string();
    let reason = error.split(" (os error").next().unwrap_or_default();
    let message = format!("no init at {path}: {reason}");
    Error::Failed(Exit::NoInit, Failure::new(Failure::NO_INIT, message, NO_INIT))
}
