//! How many lookouts there are that have not ended, whoever knows of them: one that waits for a file system that
//! does not answer can not be killed, and nobody it belonged to may be there any more.
//!
//! Each has a place, a lock (fcntl(2)) on a byte of a file in memory that it alone has and the kernel takes back at
//! its very end. Nobody waits for one.

use crate::base::limit;
use crate::sys::{Pid, inherit, memfd};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// What one ends with that has found none.
pub(super) const NO_PLACE: u8 = 75;

/// For whom a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// Those that PID 1 begins.
    Lookouts,
    /// Theirs, for what may wait.
    Apart,
}

impl Row {
    /// So many of them there may be.
    pub(super) const fn most(self) -> usize {
        match self {
            Row::Lookouts => limit::LOOKOUTS,
            Row::Apart => limit::LOOKOUTS_APART,
        }
    }

    /// Their places.
    fn bytes(self) -> std::ops::Range<usize> {
        match self {
            Row::Lookouts => 0..limit::LOOKOUTS,
            Row::Apart => limit::LOOKOUTS..limit::LOOKOUTS + limit::LOOKOUTS_APART,
        }
    }
}

/// See the module.
pub(super) struct Places(OwnedFd);

impl Places {
    /// ENOSYS, EPERM: there is no such file here. ENFILE, EMFILE.
    pub(super) fn new() -> io::Result<Places> {
        memfd::create(c"groundstate-eyes").map(Places)
    }

    /// The same that an image of init before had, by its number.
    pub(super) fn again(number: RawFd) -> io::Result<Places> {
        inherit::take(number).map(Places)
    }

    /// For the state.
    pub(super) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// A place for this process, until its end. False: all are taken.
    pub(super) fn take(&self, row: Row) -> bool {
        let taken = |byte: usize| match fcntl(&self.0, FcntlArg::F_SETLK(&lock(byte))) {
            Err(Errno::EAGAIN | Errno::EACCES) => false,
            // Without locks nobody counts.
            Ok(_) | Err(_) => true,
        };
        row.bytes().any(taken)
    }

    /// Those that have one, but for these.
    pub(super) fn others(&self, row: Row, these: &[Pid]) -> usize {
        let has_another = |byte: &usize| {
            let mut found = lock(*byte);
            let asked = fcntl(&self.0, FcntlArg::F_GETLK(&mut found));
            asked.is_ok()
                && i32::from(found.l_type) != libc::F_UNLCK
                && !these.contains(&Pid::from_raw(found.l_pid))
        };
        row.bytes().filter(has_another).count()
    }
}

impl AsFd for Places {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn lock(byte: usize) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte as libc::off_t,
        l_len: 1,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{process, signal, wait};

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn each_has_one_until_its_end_and_no_more_than_there_are() {
        let places = Places::new().unwrap();
        let mut begun = Vec::new();
        for _ in 0..Row::Apart.most() + 1 {
            let (read, said) = io::pipe().unwrap();
            let child = process::fork(&[places.as_fd(), said.as_fd()], || {
                process::die_with_parent(9).unwrap();
                if !places.take(Row::Apart) {
                    return 75;
                }
                nix::unistd::write(&said, b"x").unwrap();
                nix::unistd::pause();
                0
            });
            drop(said);
            let has_one = nix::unistd::read(&read, &mut [0]).unwrap() == 1;
            begun.push((child.unwrap(), has_one));
        }
        let (last, has_one) = begun.pop().unwrap();
        assert!(!has_one && begun.iter().all(|(_, has_one)| *has_one));
        let all: Vec<Pid> = begun.iter().map(|(pid, _)| *pid).collect();
        assert_eq!(places.others(Row::Apart, &[]), all.len());
        assert_eq!(places.others(Row::Apart, &all[..3]), all.len() - 3);
        assert_eq!(places.others(Row::Lookouts, &[]), 0);
        wait::await_end(last).unwrap();
        for pid in all {
            signal::kill(pid, 9).unwrap();
            wait::await_end(pid).unwrap();
        }
        assert_eq!(places.others(Row::Apart, &[]), 0);
        assert!(places.take(Row::Apart));
    }
}
