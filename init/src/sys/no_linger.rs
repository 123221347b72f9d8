//! Closes sockets without blocking on SO_LINGER. Closing the last descriptor of a socket blocks for
//! the SO_LINGER time that any holder has set (socket(7)). Closing also drops unreceived messages,
//! and with them other sockets. A caught signal ends such a wait, so a timer sends one repeatedly.

use super::check;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::io;
use std::ptr;
use std::time::Duration;

/// The longest wait.
const LONGEST: Duration = Duration::from_millis(1);
/// Ignored by default, so a late signal kills no process.
const SIGNAL: Signal = Signal::SIGURG;

/// The timer, until it is dropped.
#[derive(Debug)]
pub(crate) struct InterruptTimer(Option<i32>);

/// Runs `work` with a timer that interrupts blocking calls (EINTR). Do not use it around a clone:
/// the frequent signals would keep the kernel from completing it.
pub(crate) fn close_without_linger<T>(work: impl FnOnce() -> T) -> T {
    let _timer = InterruptTimer::begin();
    work()
}

impl InterruptTimer {
    /// Starts the timer for this thread.
    pub(crate) fn begin() -> InterruptTimer {
        // Without a timer the work is done all the same.
        InterruptTimer(begin().ok())
    }
}

impl Drop for InterruptTimer {
    fn drop(&mut self) {
        if let Some(timer) = self.0 {
            // SAFETY: timer_delete(2) takes the number of a timer of ours.
            unsafe { libc::syscall(libc::SYS_timer_delete, timer) };
        }
    }
}

extern "C" fn nothing(_: i32) {}

fn begin() -> io::Result<i32> {
    // Without SA_RESTART, so that the blocking call returns.
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing.
    unsafe { sigaction(SIGNAL, &action) }?;
    // SAFETY: sigevent is plain data; all zeroes is a value of it.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = SIGNAL as i32;
    event.sigev_notify_thread_id = nix::unistd::gettid().as_raw();
    let (clock, mut timer) = (libc::CLOCK_MONOTONIC, 0i32);
    // SAFETY: the kernel reads the event and writes the number of the timer.
    check(unsafe {
        libc::syscall(libc::SYS_timer_create, clock, &raw const event, &raw mut timer)
    })?;
    let timer_to_keep = InterruptTimer(Some(timer));
    let every = libc::timespec { tv_sec: 0, tv_nsec: i64::from(LONGEST.subsec_nanos()) };
    let when = libc::itimerspec { it_interval: every, it_value: every };
    let none = ptr::null_mut::<libc::itimerspec>();
    // SAFETY: the kernel reads the times and returns none.
    check(unsafe { libc::syscall(libc::SYS_timer_settime, timer, 0, &raw const when, none) })?;
    std::mem::forget(timer_to_keep);
    Ok(timer)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::{process, socket, wait};
    use super::*;
    use groundstate_units::spec::Exit;
    use nix::errno::Errno;
    use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg, setsockopt, sockopt};
    use std::io::{IoSlice, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    /// A connection whose close blocks for an hour, because the peer reads nothing.
    pub(crate) fn stuck() -> (OwnedFd, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        sent.set_nonblocking(true).unwrap();
        while sent.write(&[0; 65_536]).is_ok() {}
        setsockopt(&sent, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 3600 }).unwrap();
        sent.set_nonblocking(false).unwrap();
        (sent.into(), listener)
    }

    /// Runs the work in a process of its own and asserts that it ends.
    #[track_caller]
    pub(crate) fn assert_ends(work: impl FnOnce()) {
        let child = process::fork_whole(|| {
            work();
            0
        });
        assert_eq!(wait::await_end(child.unwrap()).unwrap(), Exit::Code(0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn close_does_not_linger_with_unread_sent_data() {
        assert_ends(|| {
            let (connection, _listener) = stuck();
            close_without_linger(|| drop(connection));
        });
        assert_ends(|| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (connection, _listener) = stuck();
            socket::send(theirs.as_fd(), b"x", &[connection.as_fd()]).unwrap();
            drop(connection);
            close_without_linger(|| drop(ours));
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn descriptors_of_urgent_bytes_block_no_process() {
        assert_ends(|| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (connection, _listener) = stuck();
            let (numbers, bytes) = ([connection.as_raw_fd()], [IoSlice::new(b"!")]);
            let rights = [ControlMessage::ScmRights(&numbers)];
            let sent = sendmsg::<()>(theirs.as_raw_fd(), &bytes, &rights, MsgFlags::MSG_OOB, None);
            // Without MSG_OOB for this family the kernel has no urgent bytes.
            if sent == Err(Errno::EOPNOTSUPP) {
                return;
            }
            sent.unwrap();
            drop(connection);
            socket::send(theirs.as_fd(), b"x", &[]).unwrap();
            socket::keep_urgent_bytes(ours.as_fd()).unwrap();
            let mut received = 0;
            while received < 2 {
                let got = socket::receive_some(ours.as_fd(), &mut [0; 4], 0).unwrap();
                received += got.length;
            }
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn truncated_descriptors_block_no_process() {
        assert_ends(|| {
            let (ours, theirs) = socket::pair().unwrap();
            let (connection, _listener) = stuck();
            socket::send(theirs.as_fd(), b"x", &[connection.as_fd()]).unwrap();
            drop(connection);
            let got = socket::receive_some(ours.as_fd(), &mut [0; 4], 0).unwrap();
            assert_eq!((got.length, got.truncated, got.fds.len()), (1, true, 0));
        });
    }
}
