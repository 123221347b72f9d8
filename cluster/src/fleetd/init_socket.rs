//! Client of the local init's control socket: one JSON object per line in both directions; a source
//! is sent as a sealed memfd with its line. Each request uses a new connection; events use a
//! permanent one.

use groundstate_units::control::answer::{Event, Failure, Line, Put};
use groundstate_units::control::request::{Request, Verb};
use groundstate_units::control::source_set::SourceSet;
use groundstate_units::text::name::Name;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Timeout of a request.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The path of the control socket.
#[derive(Clone, Debug)]
pub struct InitSocket {
    path: PathBuf,
}

/// Why init gave no result.
#[derive(Clone, Debug, PartialEq)]
pub enum InitFault {
    /// Init does not listen, or did not answer in time.
    Gone(String),
    /// Init refused.
    Refused(Box<Failure>),
}

impl fmt::Display for InitFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InitFault::Gone(why) => f.write_str(why),
            InitFault::Refused(failure) => write!(f, "init: {}", failure.message),
        }
    }
}

impl InitFault {
    /// Returns the refusal if a retry cannot succeed. A busy init and a put with an old revision
    /// can be retried.
    pub fn lasting(&self) -> Option<String> {
        match self {
            InitFault::Gone(_) => None,
            InitFault::Refused(failure) => {
                let passes = [Failure::BUSY, Failure::REVISION].contains(&failure.kind.as_str());
                (!passes).then(|| failure.message.clone())
            }
        }
    }
}

impl InitSocket {
    /// Creates a client for the socket at this path.
    pub fn new(path: PathBuf) -> InitSocket {
        InitSocket { path }
    }

    /// Returns true if no process listens on the socket. An init short of resources still listens.
    pub async fn is_absent(&self) -> bool {
        let met = UnixStream::connect(&self.path).await;
        let kind = met.err().map(|error| error.kind());
        matches!(kind, Some(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused))
    }

    /// Sends a request and returns the answer.
    ///
    /// # Errors
    /// Init did not answer or refused.
    pub async fn ask<T: DeserializeOwned>(&self, verb: Verb) -> Result<T, InitFault> {
        self.in_time(async {
            let mut stream = BufReader::new(UnixStream::connect(&self.path).await?);
            stream.get_mut().write_all(&request(verb)?).await?;
            answer(&mut stream).await
        })
        .await
    }

    /// Puts the contents of a source.
    ///
    /// # Errors
    /// Init did not answer or refused (`revision`: another put came first).
    pub async fn put(&self, source: &Name, set: &SourceSet) -> Result<Put, InitFault> {
        self.in_time(async {
            let memory = sealed(set)?;
            let line = request(Verb::SourcePut { source: source.clone(), plan: false })?;
            let mut stream = BufReader::new(UnixStream::connect(&self.path).await?);
            let socket = stream.get_mut();
            let sent = socket.async_io(Interest::WRITABLE, || {
                let fds = [memory.as_raw_fd()];
                let rights = [ControlMessage::ScmRights(&fds)];
                let parts = [IoSlice::new(&line)];
                let flags = MsgFlags::MSG_NOSIGNAL;
                sendmsg::<()>(socket.as_raw_fd(), &parts, &rights, flags, None)
                    .map_err(io::Error::from)
            });
            let sent = sent.await?;
            stream.get_mut().write_all(line.get(sent..).unwrap_or_default()).await?;
            answer(&mut stream).await
        })
        .await
    }

    /// Follows init's events with a number above `after`.
    ///
    /// # Errors
    /// Init does not listen.
    pub async fn events(&self, after: u64) -> Result<Events, InitFault> {
        self.in_time(async {
            let mut stream = BufReader::new(UnixStream::connect(&self.path).await?);
            stream.get_mut().write_all(&request(Verb::Events { follow: true, after })?).await?;
            Ok(Ok(Events { stream, path: self.path.clone() }))
        })
        .await
    }

    async fn in_time<T>(
        &self,
        call: impl Future<Output = io::Result<Result<T, Box<Failure>>>>,
    ) -> Result<T, InitFault> {
        let gone = |what: String| InitFault::Gone(format!("{}: {what}", self.path.display()));
        match timeout(PATIENCE, call).await {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(failure))) => Err(InitFault::Refused(failure)),
            Ok(Err(error)) => Err(gone(error.to_string())),
            Err(_) => Err(gone(format!("no answer within {PATIENCE:?}"))),
        }
    }
}

/// A stream of events.
pub struct Events {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

impl Events {
    /// Waits for the next event.
    ///
    /// # Errors
    /// The stream is lost.
    pub async fn next(&mut self) -> Result<Event, InitFault> {
        match answer(&mut self.stream).await {
            Ok(Ok(event)) => Ok(event),
            Ok(Err(failure)) => Err(InitFault::Refused(failure)),
            Err(error) => Err(InitFault::Gone(format!("{}: {error}", self.path.display()))),
        }
    }
}

fn request(verb: Verb) -> io::Result<Vec<u8>> {
    Ok(Request { id: 1, verb }.line()?)
}

async fn answer<T: DeserializeOwned>(
    stream: &mut BufReader<UnixStream>,
) -> io::Result<Result<T, Box<Failure>>> {
    let mut line = Vec::new();
    if stream.read_until(b'\n', &mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line: Line<T> = serde_json::from_slice(&line)?;
    match line {
        Line { error: Some(failure), .. } => Ok(Err(Box::new(failure))),
        Line { ok: Some(answer), .. } => Ok(Ok(answer)),
        Line { .. } => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn sealed(set: &SourceSet) -> io::Result<OwnedFd> {
    let memory = memfd_create(c"fleet", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
    let mut to = io::BufWriter::new(std::fs::File::from(memory.try_clone()?));
    serde_json::to_writer(&mut to, set)?;
    to.flush()?;
    let seals = SealFlag::F_SEAL_SEAL
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_WRITE;
    fcntl(&memory, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(memory)
}
