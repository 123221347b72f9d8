//! Retries essential system calls during startup, so that a transient error does not leave the
//! machine without a control socket or end its boot. These retries may sleep, because no service is
//! running yet. The loop retries later failures in its turns.

use crate::base::clock;
use crate::base::limit;
use nix::errno::Errno;
use std::io;

/// Transient errors.
const TRANSIENT: [Errno; 8] = [
    Errno::EINTR,
    Errno::EAGAIN,
    Errno::ENOMEM,
    Errno::EBUSY,
    Errno::ENFILE,
    Errno::EMFILE,
    Errno::ENOSPC,
    Errno::ENOBUFS,
];

/// Tries a few times without a pause; usable at any time.
pub(crate) fn retry_now<T, E>(mut ask: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..limit::ASKED_AT_ONCE {
        if let Ok(got) = ask() {
            return Ok(got);
        }
    }
    ask()
}

/// Tries like [`retry_now`], then retries transient errors with growing pauses. Only for startup.
pub(crate) fn retry_with_backoff<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut pause = limit::RETRY_PAUSE;
    loop {
        let error = match retry_now(&mut ask) {
            Ok(got) => return Ok(got),
            Err(error) => error,
        };
        let is_transient =
            error.raw_os_error().is_some_and(|n| TRANSIENT.contains(&Errno::from_raw(n)));
        if !is_transient || pause > limit::RETRY_PAUSE_LONGEST {
            return Err(error);
        }
        clock::pause(pause);
        pause = pause.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(fails: usize, error: Errno) -> (usize, bool) {
        let mut count = 0;
        let got = retry_with_backoff(|| {
            count += 1;
            if count > fails { Ok(()) } else { Err(io::Error::from(error)) }
        });
        (count, got.is_ok())
    }

    #[test]
    fn transient_error_is_retried_longer_than_a_permanent_one() {
        assert_eq!(asked(0, Errno::EROFS), (1, true));
        assert_eq!(asked(2, Errno::EROFS), (3, true));
        assert_eq!(asked(usize::MAX, Errno::EROFS), (3, false));
        assert_eq!(asked(5, Errno::ENOMEM), (6, true));
        let (count, got) = asked(usize::MAX, Errno::ENOMEM);
        assert!(!got && (20..60).contains(&count), "{count}");
    }
}
