//! What closes no file: a descriptor that lies in a socket as a message, and how it is put in its own place
//! there and taken out again. See [`crate::streams`] for what it is good for.
//!
//! [`receive_at`] is done by a child between clone and exec, which may share PID 1's memory: the rules of
//! [`super::child`] hold.

use super::{Pid, check, raw, signal, wait};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// The one descriptor of a message, as cmsghdr(3) has it on the machines init is built for.
#[repr(C, align(8))]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
    number: RawFd,
}

/// Of a head, and the number behind it.
const WRITTEN: usize = 16 + size_of::<RawFd>();

/// It is a regular file, or a folder, as far as the kernel knows by itself: nobody is asked (AT_STATX_DONT_SYNC).
/// What can not be told is one.
pub(crate) fn is_file(number: RawFd) -> bool {
    // SAFETY: statx is plain data; all zeroes is a value of it.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let how = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    let (none, to) = (c"".as_ptr(), &raw mut found);
    // SAFETY: the path is terminated, and the kernel writes into `found`.
    let asked = check(unsafe { libc::statx(number, none, how, libc::STATX_TYPE, to) });
    let kind = u32::from(found.stx_mode) & libc::S_IFMT;
    asked.is_err() || kind == libc::S_IFREG || kind == libc::S_IFDIR
}

/// A child that shares our table of descriptors puts a copy of `with` in the place of `number`. That is done
/// at once; what stood there is closed by the child alone, for as long as that takes. CLOEXEC is cleared by it.
pub(crate) fn replace_elsewhere(number: RawFd, with: BorrowedFd<'_>) -> io::Result<Pid> {
    let flags = libc::c_long::from(libc::CLONE_FILES | libc::SIGCHLD);
    let with = with.as_raw_fd();
    // Inherited by the child, whose handlers would ring our bell.
    let held = signal::hold();
    // SAFETY: clone(2) without CLONE_VM is fork(2) but for the table of descriptors. The child makes system
    // calls only, touches no lock and never returns.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid == 0 {
        // SAFETY: dup2(2) takes numbers; nobody in this process owns `number`. _exit(2) ends the child without
        // PID 1's destructors.
        unsafe {
            libc::dup2(with, number);
            libc::_exit(0)
        }
    }
    drop(held);
    let pid =
        i32::try_from(super::check_long(pid)?).map(Pid::from_raw).map_err(io::Error::other)?;
    wait::made(pid);
    Ok(pid)
}

/// Closed by an exec of this process.
pub(crate) fn close_on_exec(number: RawFd) -> io::Result<()> {
    // SAFETY: F_SETFD takes numbers.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) }).map(drop)
}

/// A copy of what lies in the socket `source` becomes `target`. Nothing but the copy of PID 1's own
/// descriptor is closed for it where all numbers below are taken.
///
/// # Safety
/// This process is a child that uses neither `target` nor what it was.
pub(super) unsafe fn receive_at(source: RawFd, target: RawFd) -> isize {
    let mut byte = [0u8; 1];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
    let mut control = Control { length: 0, level: 0, kind: 0, number: -1 };
    // SAFETY: msghdr is plain data; all zeroes is a value of it. The kernel writes into what lives past the
    // call, at most as much as it is told there is; close(2) and dup3(2) take numbers.
    unsafe {
        raw::call(libc::SYS_close, [target as usize, 0, 0, 0, 0, 0]);
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = WRITTEN as _;
        let how = (libc::MSG_PEEK | libc::MSG_DONTWAIT) as usize;
        let args = [source as usize, &raw mut message as usize, how, 0, 0, 0];
        let got = raw::call(libc::SYS_recvmsg, args);
        if got < 0 || control.number == target {
            return got;
        }
        if control.number < 0 {
            return -(libc::EBADF as isize);
        }
        raw::call(libc::SYS_dup3, [control.number as usize, target as usize, 0, 0, 0, 0])
    }
}

#[cfg(test)]
mod tests {
    use super::super::{process, socket};
    use super::*;
    use groundstate_units::spec::Exit;
    use nix::fcntl::{FcntlArg, fcntl};
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn what_lies_in_a_socket_is_had_at_its_number_and_stays_there() {
        let (mut read, write) = std::io::pipe().unwrap();
        let (ours, theirs) = socket::pair_of_datagrams().unwrap();
        socket::send(theirs.as_fd(), b"x", &[write.as_fd()]).unwrap();
        drop((theirs, write));
        for _ in 0..2 {
            let child = process::fork(&[ours.as_fd()], || {
                // SAFETY: this child uses neither.
                let got = unsafe { receive_at(ours.as_raw_fd(), 1) };
                u8::from(got < 0 || nix::unistd::write(std::io::stdout().as_fd(), b"it").is_err())
            });
            assert_eq!(wait::await_end(child.unwrap()).unwrap(), Exit::Code(0));
        }
        drop(ours);
        let mut said = String::new();
        read.read_to_string(&mut said).unwrap();
        assert_eq!(said, "itit");
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn a_child_puts_one_in_the_place_of_another_here() {
        let (first, second) = (File::open("/dev/null").unwrap(), File::open("/dev/zero").unwrap());
        let is_kept = || fcntl(&first, FcntlArg::F_GETFD) == Ok(0);
        assert!(!is_kept(), "closed on exec");
        let child = replace_elsewhere(first.as_raw_fd(), second.as_fd()).unwrap();
        assert_eq!(wait::await_end(child).unwrap(), Exit::Code(0));
        assert!(is_kept());
        let mut byte = [1];
        assert_eq!((&first).read(&mut byte).unwrap(), 1);
        close_on_exec(first.as_raw_fd()).unwrap();
        assert!(!is_kept());
    }

    #[test]
    #[cfg_attr(miri, ignore = "statx")]
    fn a_device_is_no_file() {
        let number = |path: &str| File::open(path).unwrap();
        assert!(!is_file(number("/dev/null").as_raw_fd()));
        assert!(is_file(number("/proc/self/stat").as_raw_fd()) && is_file(number("/").as_raw_fd()));
    }
}
