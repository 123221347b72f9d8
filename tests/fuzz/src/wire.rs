//! A connection in memory between a fuzz target and the API: the server reads the input in pieces,
//! and perhaps a last piece repeatedly; its output is kept. There is no waiting: when the server
//! has nothing to do, the other side closes.

use cluster::api::listener::{Origin, serve_connection};
use cluster::api::server::ApiState;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

/// The maximum number of bytes answered to one connection.
const MOST_ANSWERED: usize = 64 * 1024 * 1024;
/// The maximum number of polls of one connection.
const MOST_POLLS: u32 = 1_000_000;

/// The input of the other side.
#[derive(Default)]
pub struct Sent {
    pub bytes: Vec<u8>,
    /// Bytes per piece; 0: all.
    pub piece: usize,
    /// Repeated after the input.
    pub flood: Vec<u8>,
    /// The number of repetitions.
    pub times: usize,
}

/// The result.
#[derive(Default)]
pub struct Seen {
    pub answered: Vec<u8>,
    /// Bytes that the server read.
    pub taken: usize,
}

#[derive(Default)]
struct Line {
    sent: Sent,
    seen: Seen,
    is_gone: bool,
    /// True if writes to it fail.
    is_deaf: bool,
    reader: Option<Waker>,
}

#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Line>>);

impl Wire {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut line = self.lock();
        let line = &mut *line;
        if line.seen.taken >= line.sent.bytes.len() && line.sent.times > 0 {
            line.sent.times -= 1;
            line.sent.bytes.extend_from_slice(&line.sent.flood);
        }
        let rest = line.sent.bytes.get(line.seen.taken..).unwrap_or_default();
        let most = if line.sent.piece == 0 { rest.len() } else { line.sent.piece };
        let now = rest.get(..most.min(rest.len()).min(buffer.remaining())).unwrap_or_default();
        buffer.put_slice(now);
        line.seen.taken += now.len();
        if now.is_empty() && !line.is_gone {
            line.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut line = self.lock();
        if line.is_deaf {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let answered = &mut line.seen.answered;
        answered.extend_from_slice(bytes);
        assert!(answered.len() <= MOST_ANSWERED, "the answer is endless");
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Records whether anything woke the task.
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Polls both until the first ends or nothing wakes them: then `idle` decides whether to continue.
pub fn turn<A>(
    first: Pin<&mut dyn Future<Output = A>>,
    mut second: Pin<&mut dyn Future<Output = ()>>,
    mut idle: impl FnMut() -> bool,
) -> Option<A> {
    let mut first = first;
    let bell = Arc::new(Bell(AtomicBool::new(false)));
    let waker = Waker::from(bell.clone());
    let mut context = Context::from_waker(&waker);
    for _ in 0..MOST_POLLS {
        bell.0.store(false, Ordering::Relaxed);
        if let Poll::Ready(done) = first.as_mut().poll(&mut context) {
            return Some(done);
        }
        let _ = second.as_mut().poll(&mut context);
        if !bell.0.load(Ordering::Relaxed) && !idle() {
            return None;
        }
    }
    panic!("the connection wakes itself endlessly")
}

/// Runs a whole connection. `follow` updates the API's snapshot. If requests follow a stream of
/// changes, the server notices the closed connection only at a change, which `news` makes.
pub fn converse(
    state: &ApiState,
    from: Origin,
    names: Option<Arc<Vec<String>>>,
    sent: Sent,
    follow: Pin<&mut dyn Future<Output = ()>>,
    mut news: impl FnMut(),
) -> Seen {
    let wire = Wire::default();
    wire.lock().sent = sent;
    let (_stay, stop) = watch::channel(false);
    let connection = pin!(serve_connection(wire.clone(), state.clone(), from, names, stop));
    let ended = turn(connection, follow, || {
        let mut line = wire.lock();
        let (was_gone, was_deaf) = (line.is_gone, line.is_deaf);
        (line.is_gone, line.is_deaf) = (true, was_gone);
        line.reader.take().into_iter().for_each(Waker::wake);
        drop(line);
        if was_gone && !was_deaf {
            news();
        }
        !was_deaf
    });
    assert!(ended.is_some(), "the server keeps a connection that the client has closed");
    std::mem::take(&mut wire.lock().seen)
}
