//! The transport below HTTP, with two limits on a slow peer.
//!
//! A write that makes no progress for [`STALLED`] is an error: a peer that does not read cannot
//! hold a connection slot for ever. A close lingers: the server ends its own side, then discards
//! bytes that the peer still sends, for at most [`LINGER`] and [`LINGER_BYTES`]. A close with
//! unread bytes would reset the connection, and the peer would lose the answer it has not read yet.

use super::body::LARGEST_BODY;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Maximum time without progress.
pub const STALLED: Duration = Duration::from_secs(30);
/// Time for the peer to close its side after the server has closed its own.
pub const LINGER: Duration = Duration::from_secs(2);
/// Bytes discarded in that time: the rest of a body that is refused for its size.
pub const LINGER_BYTES: usize = 2 * LARGEST_BODY;
/// Bytes discarded per read.
const DISCARDED: usize = 16 * 1024;

/// A connection with limits on slow peers.
pub struct WriteTimeout<S> {
    inner: S,
    patience: Duration,
    deadline: Pin<Box<Sleep>>,
    waiting: bool,
    /// Bytes that may still be discarded; `None` while the server's side is open.
    lingers: Option<usize>,
}

impl<S> WriteTimeout<S> {
    /// Wraps a connection.
    pub fn new(inner: S) -> WriteTimeout<S> {
        WriteTimeout::within(inner, STALLED)
    }

    fn within(inner: S, patience: Duration) -> WriteTimeout<S> {
        let deadline = Box::pin(tokio::time::sleep(patience));
        WriteTimeout { inner, patience, deadline, waiting: false, lingers: None }
    }

    /// Turns a pending result into an error once it has been pending for the time limit.
    fn or_timed_out<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.waiting = false;
            return poll;
        }
        if !self.waiting {
            self.waiting = true;
            self.deadline.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<S: AsyncRead + Unpin> WriteTimeout<S> {
    /// Ready once the peer has closed its side, or a limit is reached.
    fn poll_linger(&mut self, cx: &mut Context<'_>, mut left: usize) -> Poll<()> {
        let mut bytes = [0; DISCARDED];
        while left > 0 && self.deadline.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.inner).poll_read(cx, &mut buffer) {
                Poll::Pending => {
                    self.lingers = Some(left);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    left = left.saturating_sub(buffer.filled().len());
                }
                Poll::Ready(_) => break,
            }
        }
        self.lingers = Some(0);
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.or_timed_out(cx, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(cx);
        self.or_timed_out(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let left = match self.lingers {
            Some(left) => left,
            None => {
                let poll = Pin::new(&mut self.inner).poll_shutdown(cx);
                ready!(self.or_timed_out(cx, poll))?;
                let until = Instant::now() + LINGER.min(self.patience);
                self.deadline.as_mut().reset(until);
                LINGER_BYTES
            }
        };
        self.poll_linger(cx, left).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn close_discards_bytes_of_the_peer_within_its_limits() {
        let patience = Duration::from_millis(200);
        for sent in [100, LINGER_BYTES + 100] {
            let (near, mut far) = tokio::io::duplex(64);
            let peer = tokio::spawn(async move {
                let bytes = vec![0; sent];
                far.write_all(&bytes).await.map(|()| far)
            });
            let began = Instant::now();
            WriteTimeout::within(near, patience).shutdown().await.unwrap();
            // The peer keeps its side open: the time limit or the byte limit ends the wait.
            match peer.await.unwrap() {
                Ok(_open) => assert!(sent == 100 && began.elapsed() >= patience),
                Err(_) => assert!(sent > LINGER_BYTES),
            }
        }
    }

    #[test]
    fn write_to_a_peer_that_does_not_read_times_out() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let patience = Duration::from_millis(200);
            let (near, far) = tokio::io::duplex(16);
            let mut stream = WriteTimeout::within(near, patience);
            assert!(stream.write_all(&[0; 16]).await.is_ok());
            let began = Instant::now();
            let fault = stream.write_all(&[0; 16]).await.map_err(|error| error.kind());
            assert_eq!(fault, Err(io::ErrorKind::TimedOut));
            assert!(began.elapsed() >= patience);
            drop(far);
        });
    }
}
