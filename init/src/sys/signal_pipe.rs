//! Records the signals that PID 1 handles: a bit for each signal, and one pipe to wake the poll.
//! There is one pipe for all signals, because each child is cloned with a copy of the descriptor
//! table. [`crate::base::signals`] defines the meaning of the signals.

use super::raw;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::{pipe2, read};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Signals that have arrived since they were last taken: bit n-1 for signal n.
static RUNG: AtomicU64 = AtomicU64::new(0);
/// Signals that were taken and may not be handled yet.
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// The write end of the pipe, or -1.
static ROPE: AtomicI32 = AtomicI32::new(-1);

/// The read end of the pipe. A process has one.
#[derive(Debug)]
pub(crate) struct SignalPipe {
    pipe: OwnedFd,
}

impl SignalPipe {
    /// Creates the pipe. Fails with EMFILE or ENFILE.
    pub(crate) fn hang() -> io::Result<SignalPipe> {
        let (pipe, rope) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        // Never closed: a handler may run as long as the process exists.
        ROPE.store(rope.into_raw_fd(), Ordering::SeqCst);
        Ok(SignalPipe { pipe })
    }

    /// Installs the handler for `signal`.
    pub(crate) fn listen(&self, signal: i32) -> io::Result<()> {
        // SAFETY: the action uses atomics and one raw write(2) that does not touch errno, which
        // signal-safety(7) allows in a handler, and it cannot panic.
        unsafe { signal_hook::low_level::register(signal, move || ring(bit(signal))) }.map(drop)
    }

    /// The descriptor for the poll: readable after a signal.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Takes the signals since the last call: bit n-1 for signal n. Never blocks.
    pub(crate) fn take(&self) -> u64 {
        // The pipe first: a handler that runs after the swap writes to it again.
        let mut bytes = [0u8; 64];
        while let Ok(64) | Err(Errno::EINTR) = read(&self.pipe, &mut bytes) {}
        let rung = RUNG.swap(0, Ordering::SeqCst);
        TAKEN.fetch_or(rung, Ordering::SeqCst);
        rung
    }

    /// Records that the signals taken so far are part of the committed state.
    pub(crate) fn committed() {
        TAKEN.store(0, Ordering::SeqCst);
    }

    /// Marks signals that an earlier image, or this one, did not handle as arrived.
    pub(crate) fn ring_again(signals: u64) {
        ring(signals);
    }

    /// Returns true if a signal has arrived, whether or not the poll has reported it.
    pub(crate) fn has_rung() -> bool {
        RUNG.load(Ordering::SeqCst) != 0
    }
}

/// The bit of a signal in the word of [`SignalPipe::take`].
pub(crate) fn bit(signal: i32) -> u64 {
    let number = u32::try_from(signal).unwrap_or(0);
    if (1..=64).contains(&number) { 1 << (number - 1) } else { 0 }
}

/// Signals that have arrived and were not handled.
pub(super) fn not_dealt_with() -> u64 {
    RUNG.load(Ordering::SeqCst) | TAKEN.load(Ordering::SeqCst)
}

/// The work of the handler. The pipe holds one byte for all signals since they were last taken.
pub(super) fn ring(signals: u64) {
    if RUNG.fetch_or(signals, Ordering::SeqCst) != 0 || signals == 0 {
        return;
    }
    if let Ok(rope) = usize::try_from(ROPE.load(Ordering::SeqCst)) {
        let byte = b"!";
        // SAFETY: write(2) reads one byte; on a full or missing pipe it fails, and the bit stays.
        unsafe { raw::call(libc::SYS_write, [rope, byte.as_ptr() as usize, 1, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::signal;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    #[test]
    #[cfg_attr(miri, ignore = "sigaction")]
    fn what_came_is_told_once_and_the_pipe_is_empty_afterwards() {
        let bell = SignalPipe::hang().unwrap();
        let (one, other) = (libc::SIGRTMAX() - 1, libc::SIGRTMAX() - 2);
        bell.listen(one).unwrap();
        bell.listen(other).unwrap();
        assert_eq!((SignalPipe::has_rung(), bell.take()), (false, 0));
        let raise = |number: i32| {
            // Sent to the process: the handler has run in some thread before the check.
            signal::kill(nix::unistd::getpid(), u8::try_from(number).unwrap()).unwrap();
            while RUNG.load(Ordering::SeqCst) & bit(number) == 0 {
                std::thread::yield_now();
            }
        };
        [one, other, one].into_iter().for_each(raise);
        let mut asked = [PollFd::new(bell.descriptor(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut asked, PollTimeout::from(10_000u16)), Ok(1));
        assert_eq!(bell.take(), bit(one) | bit(other));
        let mut asked = [PollFd::new(bell.descriptor(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut asked, PollTimeout::ZERO), Ok(0));
        assert_eq!(bell.take(), 0);
        // Signals that were taken and not handled wake the poll again.
        SignalPipe::ring_again(bit(other));
        let mut asked = [PollFd::new(bell.descriptor(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut asked, PollTimeout::ZERO), Ok(1));
        assert_eq!(bell.take(), bit(other));
    }

    #[test]
    fn each_signal_has_a_bit_of_its_own() {
        assert_eq!((bit(1), bit(64), bit(0), bit(65), bit(-1)), (1, 1 << 63, 0, 0, 0));
    }
}
