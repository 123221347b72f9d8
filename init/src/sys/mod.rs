//! The only unsafe code of the workspace: system calls that neither std nor `nix` offers safely.
//!
//! The contract: every function takes and returns owned or borrowed descriptors
//! ([`OwnedFd`](std::os::fd::OwnedFd), [`BorrowedFd`](std::os::fd::BorrowedFd)), [`Pid`]s and
//! `io::Result`. None panics, none blocks unless its comment says so, and no pointer leaves this
//! folder. Calls that `nix` wraps safely (mount, reboot, sync, hostname, setrlimit, SO_PEERCRED,
//! pipes, epoll) are made where they are needed.
//!
//! | file | system calls | why here |
//! |---|---|---|
//! | [`raw`] | any, by number | a child that shares PID 1's memory must not use libc: wrappers write errno into PID 1's thread-local storage |
//! | [`child`] | setsid dup3 close_range prlimit64 setgroups setresgid setresuid chdir umask keyctl execve … | the child between clone and exec |
//! | [`launch`] | clone3 clone fork | no wrapper has CLONE_INTO_CGROUP or CLONE_CLEAR_SIGHAND |
//! | [`spawn_slots`] | mmap munmap | memory shared with children: slots, stacks |
//! | [`wait`] | waitid | `nix` refuses exits by real-time signals |
//! | [`signal`] | kill pidfd_open pidfd_send_signal rt_sigaction rt_sigprocmask sigtimedwait write | `nix` cannot name real-time signals; PID 1's dispositions are recorded for its children; a handler must be async-signal-safe, so signal-hook's registration is unsafe |
//! | [`socket`] | socket accept4 recvmsg recvmmsg getsockopt setsockopt ioctl | received descriptors must become owned at once; SO_PEERGROUPS; options by number |
//! | [`memfd`] | memfd_create fcntl(F_ADD_SEALS) | MFD_NOEXEC_SEAL and its fallback |
//! | [`fault`] | sigaltstack rt_sigaction execveat | a handler that executes the next image |
//! | [`no_linger`] | rt_sigaction timer_create timer_settime timer_delete | a timer that signals one thread |
//! | [`inherit`] | fcntl getdents64 close_range | a descriptor inherited over an exec is a number that becomes owned |
//! | [`listing`] | getdents64 | std's reader may panic |
//! | [`inbox`] | fallocate mmap madvise | the kernel writes inputs into memory that survives a crash |
//! | [`shared_memory`] | mmap madvise munmap | a mapping that survives an exec, as safe bytes; malloc_trim(3) |
//! | [`process`] | fork clone close setpriority ioprio_set sched_setscheduler sched_setaffinity | a fork that continues in Rust code (the loader); `nix` lacks them or wraps them differently |
//! | [`device`] | swapoff ioctl pututxline | devices that the final unmount releases, and the watchdog; TIOCSCTTY, TIOCVHANGUP, KDSIGACCEPT, SIOCSIFFLAGS; utmp(5) is the C library's own format |
//!
//! Code that only works on memory is tested on plain memory, which Miri runs too (`tests/soak miri`).
//! A test with a system call that Miri does not know names it: `cfg_attr(miri, ignore = "fork")`.
//!
//! Read on at [`child`]; [`crate::spawn`] builds its orders.

#![allow(unsafe_code)]

mod capabilities;
pub(crate) mod child;
pub(crate) mod child_setup;
pub(crate) mod device;
pub(crate) mod fault;
pub(crate) mod inbox;
pub(crate) mod inherit;
pub(crate) mod launch;
pub(crate) mod listing;
pub(crate) mod memfd;
pub(crate) mod no_linger;
pub(crate) mod process;
mod raw;
pub(crate) mod shared_memory;
pub(crate) mod signal;
pub(crate) mod socket;
pub(crate) mod spawn_slots;
pub(crate) mod wait;

pub(crate) use nix::unistd::Pid;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};

/// Maps memory for reading and writing at an address chosen by the kernel: of a file, or anonymous.
/// mmap(2).
fn map(bytes: usize, flags: libc::c_int, file: Option<BorrowedFd<'_>>) -> io::Result<NonNull<u8>> {
    let (protection, fd) =
        (libc::PROT_READ | libc::PROT_WRITE, file.map_or(-1, |file| file.as_raw_fd()));
    // SAFETY: a new mapping at an address chosen by the kernel; a file mapped here belongs to init
    // and never shrinks.
    let base = unsafe { libc::mmap(null_mut(), bytes, protection, flags, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Turns the `-1` of a system call with errno into an error.
fn check<T: Default + PartialOrd>(result: T) -> io::Result<T> {
    if result < T::default() { Err(io::Error::last_os_error()) } else { Ok(result) }
}
