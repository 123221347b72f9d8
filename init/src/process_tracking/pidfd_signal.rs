//! A process that was found by its pid and is to be signalled. Between the look and the signal it may
//! end, and its pid be another's: so it is held by a descriptor, looked for once more, and signalled by
//! the descriptor. Whoever was found both times, and can be signalled then, was there all the time.

use crate::sys::{Pid, signal};
use std::os::fd::{AsFd, OwnedFd};

/// Processes that are held at a time, where they have to be looked for in a list.
pub(super) const AT_A_TIME: usize = 64;

/// One of them.
pub(super) struct Held {
    pub(super) pid: Pid,
    /// None: there is no descriptor to be had, or it has ended. If it is found again all the same, it is
    /// signalled by its pid.
    pidfd: Option<OwnedFd>,
}

impl Held {
    pub(super) fn of(pid: i32) -> Held {
        let pid = Pid::from_raw(pid);
        Held { pid, pidfd: signal::pidfd(pid).ok() }
    }

    /// Something else needs the descriptor.
    pub(super) fn let_go(&mut self) {
        self.pidfd = None;
    }

    /// To be asked only once it was found again.
    pub(super) fn signal(&self, number: u8) {
        let sent = self.pidfd.as_ref().map(|pidfd| signal::pidfd_kill(pidfd.as_fd(), number));
        let refused = |error: std::io::Error| error.raw_os_error() != Some(libc::ESRCH);
        // A sandbox that lets a process be held need not let it be signalled so.
        if sent.is_none_or(|sent| sent.is_err_and(refused)) {
            let _ = signal::kill(self.pid, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{process, wait};
    use groundstate_units::spec::Exit;

    #[test]
    fn who_ends_while_it_is_held_is_not_signalled_by_its_pid() {
        let pause = || {
            loop {
                nix::unistd::pause();
            }
        };
        let child = process::fork(&[], pause).unwrap();
        let held = Held::of(child.as_raw());
        held.signal(9);
        assert_eq!(wait::await_end(child).unwrap(), Exit::Signal { signal: 9, core: false });
        assert!(held.pidfd.is_some() && Held::of(child.as_raw()).pidfd.is_none());
        // Whoever has that pid now: it is nobody's business.
        let own = Held { pid: nix::unistd::getpid(), pidfd: held.pidfd };
        own.signal(9);
    }
}
