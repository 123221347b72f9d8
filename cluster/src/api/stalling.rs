//! A connection whose other side must go on reading: a write that makes no progress for
//! too long is an error, so that who does not read can not hold a place for ever.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Without a byte taken.
pub const STALLED: Duration = Duration::from_secs(30);

/// See the head of the module.
pub struct Stalling<S> {
    inner: S,
    patience: Duration,
    deadline: Pin<Box<Sleep>>,
    waiting: bool,
}

impl<S> Stalling<S> {
    /// Around a connection.
    pub fn new(inner: S) -> Stalling<S> {
        Stalling::within(inner, STALLED)
    }

    fn within(inner: S, patience: Duration) -> Stalling<S> {
        let deadline = Box::pin(tokio::time::sleep(patience));
        Stalling { inner, patience, deadline, waiting: false }
    }

    fn judge<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.waiting = false;
            return poll;
        }
        if !self.waiting {
            self.waiting = true;
            self.deadline.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other side does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.judge(cx, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(cx);
        self.judge(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.judge(cx, poll)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[test]
    fn who_does_not_read_is_let_go() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let patience = Duration::from_millis(200);
            let (near, far) = tokio::io::duplex(16);
            let mut stream = Stalling::within(near, patience);
            assert!(stream.write_all(&[0; 16]).await.is_ok());
            let began = Instant::now();
            let fault = stream.write_all(&[0; 16]).await.map_err(|error| error.kind());
            assert_eq!(fault, Err(io::ErrorKind::TimedOut));
            assert!(began.elapsed() >= patience);
            drop(far);
        });
    }
}
