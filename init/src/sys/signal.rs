//! Sends signals by number (also real-time ones, which `nix` cannot name), and manages PID 1's
//! dispositions and mask. signal-hook installs the handlers.
//!
//! One word records the ignored signals: a child resets exactly these, because CLONE_CLEAR_SIGHAND
//! leaves `SIG_IGN` unchanged (clone(2)) and it survives an exec.

use crate::sys::{Pid, check, raw};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal};
use nix::unistd::{pipe2, read};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

/// The highest signal number of Linux.
pub(crate) const LAST: u8 = 64;

/// The signals of a fault.
pub(crate) const FAULTS: [Signal; 5] =
    [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGILL, Signal::SIGFPE, Signal::SIGABRT];

/// Signals that this process ignores: bit n-1 for signal n.
static IGNORED: AtomicU64 = AtomicU64::new(UNREAD);
/// Not read yet. The value is otherwise impossible, because KILL and STOP are never ignored.
const UNREAD: u64 = u64::MAX;

/// Sends `signal` to one process; 0 only tests for it. Process groups are refused.
pub(crate) fn kill(pid: Pid, signal: u8) -> io::Result<()> {
    if pid.as_raw() <= 0 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: kill(2) takes numbers only.
    check(unsafe { libc::kill(pid.as_raw(), i32::from(signal)) }).map(drop)
}

/// Sends `signal` to every process of the pid namespace except PID 1. Only PID 1 may call it.
pub(crate) fn kill_everybody(signal: u8) -> io::Result<()> {
    if std::process::id() != 1 {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    // SAFETY: kill(2) takes numbers only.
    check(unsafe { libc::kill(-1, i32::from(signal)) }).map(drop)
}

/// Opens a pidfd: readable when the process exits, and never another process.
pub(crate) fn pidfd(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open(2) takes numbers only.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) })?;
    let fd = i32::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: a fresh descriptor without another owner; pidfd_open sets CLOEXEC.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns true if the process behind `pidfd` has exited, reaped or not. pidfd_open(2).
pub(crate) fn has_ended(pidfd: BorrowedFd<'_>) -> bool {
    let mut asked = [PollFd::new(pidfd, PollFlags::POLLIN)];
    let _ = poll(&mut asked, PollTimeout::ZERO);
    asked.iter().any(|asked| asked.revents().is_some_and(|told| told.contains(PollFlags::POLLIN)))
}

/// Sends `signal` to the process behind `pidfd`.
pub(crate) fn pidfd_kill(pidfd: BorrowedFd<'_>, signal: u8) -> io::Result<()> {
    // SAFETY: pidfd_send_signal(2) with a null siginfo takes numbers only.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            i32::from(signal),
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    check(result).map(drop)
}

/// Ignores `signal` in this process; its children get the default disposition.
pub(crate) fn ignore(signal: Signal) -> io::Result<()> {
    let noted = ignored();
    // SAFETY: SIG_IGN runs no code.
    unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) }?;
    IGNORED.store(noted | bit(signal as i32), Ordering::Relaxed);
    Ok(())
}

/// A set of blocked signals that are received one by one.
pub(crate) struct Awaited(libc::sigset_t);

impl Awaited {
    /// Blocks these signals.
    pub(crate) fn block(signals: impl IntoIterator<Item = i32>) -> Awaited {
        // SAFETY: sigset_t is plain data; all zeroes is the empty set on Linux.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is valid for writing, then for reading. Invalid numbers are refused.
        unsafe {
            for signal in signals {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        }
        Awaited(set)
    }

    /// Receives the next signal. Fails with `WouldBlock` if none came in that time.
    pub(crate) fn next(&self, most: Duration) -> io::Result<i32> {
        let seconds = libc::time_t::try_from(most.as_secs()).unwrap_or(libc::time_t::MAX);
        let most = libc::timespec { tv_sec: seconds, tv_nsec: i64::from(most.subsec_nanos()) };
        let set = &raw const self.0;
        // SAFETY: the call reads the set and the time, and returns the number only.
        check(unsafe { libc::sigtimedwait(set, std::ptr::null_mut(), &raw const most) })
    }
}

/// Gives `signal` its default disposition in this process.
#[cfg(test)]
fn default(signal: Signal) -> io::Result<()> {
    let noted = ignored();
    // SAFETY: SIG_DFL runs no code.
    unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) }?;
    IGNORED.store(noted & !bit(signal as i32), Ordering::Relaxed);
    Ok(())
}

/// The signals that this process ignores: bit n-1 for signal n. Read from the kernel once;
/// [`ignore`] keeps it current.
pub(crate) fn ignored() -> u64 {
    let noted = IGNORED.load(Ordering::Relaxed);
    if noted != UNREAD {
        return noted;
    }
    let all = (1..=i32::from(LAST)).filter(|signal| is_ignored(*signal));
    let read = all.fold(0, |set, signal| set | bit(signal));
    IGNORED.store(read, Ordering::Relaxed);
    read
}

/// Blocks signals of this process while it exists.
#[derive(Debug)]
pub(crate) struct Held(SigSet);

/// Blocks every signal except faults: the kernel kills PID 1 for a blocked fault.
pub(crate) fn hold() -> Held {
    let mut set = SigSet::all();
    FAULTS.into_iter().for_each(|fault| set.remove(fault));
    // The call cannot fail with these arguments.
    Held(set.thread_swap_mask(SigmaskHow::SIG_SETMASK).unwrap_or_else(|_| SigSet::empty()))
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.thread_set_mask();
    }
}

/// Empties the signal mask: the parent may have started init with signals blocked.
pub(crate) fn unblock_all() {
    let _ = SigSet::empty().thread_set_mask();
}

/// Unblocks SIGCHLD while the loop waits, and blocks it while the loop works. Otherwise each exit in
/// a burst of hundreds would run the handler without new information.
pub(crate) fn deliver_sigchld(delivers: bool) {
    let set = SigSet::from(Signal::SIGCHLD);
    let _ = if delivers { set.thread_unblock() } else { set.thread_block() };
}

/// Asks the kernel directly: libc hides the first two real-time signals, but the parent may have
/// set them to be ignored.
fn is_ignored(signal: i32) -> bool {
    let mut action = [0usize; 4]; // struct kernel_sigaction: the handler comes first
    let args = [signal as usize, 0, action.as_mut_ptr() as usize, 8, 0, 0];
    // SAFETY: a null new action only queries; the kernel writes the 32 bytes of the old one.
    let result = unsafe { super::raw::call(libc::SYS_rt_sigaction, args) };
    let [handler, ..] = action;
    result == 0 && handler == libc::SIG_IGN
}

// Records the signals that PID 1 handles: a bit for each signal, and one pipe to wake the poll.
// There is one pipe for all signals, because each child is cloned with a copy of the descriptor
// table. [`crate::base::signals`] defines the meaning of the signals.

/// Signals that have arrived since they were last taken: bit n-1 for signal n.
static ARRIVED: AtomicU64 = AtomicU64::new(0);
/// Signals that were taken and may not be handled yet.
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// The write end of the pipe, or -1.
static WRITE_END: AtomicI32 = AtomicI32::new(-1);

/// The read end of the pipe. A process has one.
#[derive(Debug)]
pub(crate) struct SignalPipe {
    pipe: OwnedFd,
}

impl SignalPipe {
    /// Creates the pipe. Fails with EMFILE or ENFILE.
    pub(crate) fn create() -> io::Result<SignalPipe> {
        let (pipe, write_end) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        // Never closed: a handler may run as long as the process exists.
        WRITE_END.store(write_end.into_raw_fd(), Ordering::SeqCst);
        Ok(SignalPipe { pipe })
    }

    /// Installs the handler for `signal`.
    pub(crate) fn listen(&self, signal: i32) -> io::Result<()> {
        // SAFETY: the action uses atomics and one raw write(2) that does not touch errno, which
        // signal-safety(7) allows in a handler, and it cannot panic.
        unsafe { signal_hook::low_level::register(signal, move || record_arrived(bit(signal))) }
            .map(drop)
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
        let arrived = ARRIVED.swap(0, Ordering::SeqCst);
        TAKEN.fetch_or(arrived, Ordering::SeqCst);
        arrived
    }

    /// Records that the signals taken so far are part of the committed state.
    pub(crate) fn note_commit() {
        TAKEN.store(0, Ordering::SeqCst);
    }

    /// Returns true if a signal has arrived, whether or not the poll has reported it.
    pub(crate) fn has_arrived() -> bool {
        ARRIVED.load(Ordering::SeqCst) != 0
    }
}

/// The bit of a signal in the word of [`SignalPipe::take`].
pub(crate) fn bit(signal: i32) -> u64 {
    let number = u32::try_from(signal).unwrap_or(0);
    if (1..=64).contains(&number) { 1 << (number - 1) } else { 0 }
}

/// Signals that have arrived and were not handled.
pub(super) fn unhandled() -> u64 {
    ARRIVED.load(Ordering::SeqCst) | TAKEN.load(Ordering::SeqCst)
}

/// The work of the handler, also for signals that an earlier image did not handle. The pipe holds
/// one byte for all signals since they were last taken.
pub(crate) fn record_arrived(signals: u64) {
    if ARRIVED.fetch_or(signals, Ordering::SeqCst) != 0 || signals == 0 {
        return;
    }
    if let Ok(write_end) = usize::try_from(WRITE_END.load(Ordering::SeqCst)) {
        let byte = b"!";
        // SAFETY: write(2) reads one byte; on a full or missing pipe it fails, and the bit stays.
        unsafe { raw::call(libc::SYS_write, [write_end, byte.as_ptr() as usize, 1, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "sigaction")]
    fn ignored_signal_is_recorded_until_its_default_is_restored() {
        let signal = Signal::SIGSTKFLT;
        ignore(signal).unwrap();
        assert_ne!(ignored() & bit(libc::SIGSTKFLT), 0);
        default(signal).unwrap();
        assert_eq!(ignored() & bit(libc::SIGSTKFLT), 0);
        // Rust's runtime ignores SIGPIPE: known by reading from the kernel.
        assert_ne!(ignored() & bit(libc::SIGPIPE), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "sigtimedwait")]
    fn wait_for_a_signal_returns_the_signal_or_times_out() {
        let awaited = Awaited::block([libc::SIGWINCH, libc::SIGRTMIN() + 3]);
        let none = awaited.next(Duration::from_millis(1)).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        for signal in [libc::SIGWINCH, libc::SIGRTMIN() + 3] {
            // SAFETY: raise(3) takes a number; it is blocked in this thread.
            unsafe { libc::raise(signal) };
            assert_eq!(awaited.next(Duration::MAX).unwrap(), signal);
        }
        unblock_all();
    }

    #[test]
    #[cfg_attr(miri, ignore = "kill")]
    fn only_one_process_is_signalled() {
        assert!(kill(Pid::from_raw(0), 0).is_err());
        assert!(kill(Pid::from_raw(-1), 0).is_err());
        assert!(kill_everybody(0).is_err());
        assert!(kill(nix::unistd::getpid(), 0).is_ok());
    }
}

#[cfg(test)]
mod signal_pipe_tests {
    use super::*;
    use crate::sys::signal;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    #[test]
    #[cfg_attr(miri, ignore = "sigaction")]
    fn arrived_signals_are_taken_once_and_the_pipe_is_empty_afterwards() {
        let pipe = SignalPipe::create().unwrap();
        let (one, other) = (libc::SIGRTMAX() - 1, libc::SIGRTMAX() - 2);
        pipe.listen(one).unwrap();
        pipe.listen(other).unwrap();
        assert_eq!((SignalPipe::has_arrived(), pipe.take()), (false, 0));
        let raise = |number: i32| {
            // Sent to the process: the handler has run in some thread before the check.
            signal::kill(nix::unistd::getpid(), u8::try_from(number).unwrap()).unwrap();
            while ARRIVED.load(Ordering::SeqCst) & bit(number) == 0 {
                std::thread::yield_now();
            }
        };
        [one, other, one].into_iter().for_each(raise);
        let mut asked = [PollFd::new(pipe.descriptor(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut asked, PollTimeout::from(10_000u16)), Ok(1));
        assert_eq!(pipe.take(), bit(one) | bit(other));
        let mut asked = [PollFd::new(pipe.descriptor(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut asked, PollTimeout::ZERO), Ok(0));
        assert_eq!(pipe.take(), 0);
        // Signals that were taken and not handled wake the poll again.
        record_arrived(bit(other));
        let mut asked = [PollFd::new(pipe.descriptor(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut asked, PollTimeout::ZERO), Ok(1));
        assert_eq!(pipe.take(), bit(other));
    }

    #[test]
    fn each_signal_has_its_own_bit() {
        assert_eq!((bit(1), bit(64), bit(0), bit(65), bit(-1)), (1, 1 << 63, 0, 0, 0));
    }
}
