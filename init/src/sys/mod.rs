//! The only unsafe code of the workspace: what neither std nor `nix` gives safely.
//!
//! The contract: every function here takes and gives owned or borrowed descriptors
//! ([`OwnedFd`](std::os::fd::OwnedFd), [`BorrowedFd`](std::os::fd::BorrowedFd)), [`Pid`]s and
//! `io::Result`; none blocks (all are `WNOHANG`, `MSG_DONTWAIT` or never wait by nature), none
//! panics, and no pointer leaves this folder. What `nix` wraps safely (mount, reboot, sync,
//! hostname, setrlimit, SO_PEERCRED, pipes, epoll) is called from where it is needed.
//!
//! | file | system calls | why here |
//! |---|---|---|
//! | [`raw`] | any, by number | a child that shares PID 1's memory may touch no libc: wrappers write errno into PID 1's thread-local storage |
//! | [`child`] | setsid dup3 close_range prlimit64 setgroups setresgid setresuid chdir umask keyctl execve … | the child between clone and exec |
//! | [`launch`] | clone3 clone fork | no wrapper has CLONE_INTO_CGROUP or CLONE_CLEAR_SIGHAND |
//! | [`spawn_slots`] | mmap munmap | memory shared with children: reports, stacks |
//! | [`wait`] | waitid | `nix` refuses ends by real-time signals |
//! | [`signal`] | kill pidfd_open pidfd_send_signal rt_sigaction rt_sigprocmask | the same; and PID 1's dispositions are noted for its children |
//! | [`signal_pipe`] | rt_sigaction (by signal-hook) write | a handler may do next to nothing, and signal-hook's registration is unsafe for that reason |
//! | [`socket`] | socketpair sendmsg recvmsg | received descriptors must become owned at once |
//! | [`peer`] | getsockopt | SO_PEERGROUPS, SO_PEERPIDFD |
//! | [`memfd`] | memfd_create fcntl(F_ADD_SEALS) | MFD_NOEXEC_SEAL and its fallback |
//! | [`fault`] | sigaltstack rt_sigaction execveat | a handler that goes on as another image |
//! | [`no_linger`] | rt_sigaction timer_create timer_settime timer_delete | a signal to one thread, by a timer that an exec ends |
//! | [`inherit`] | fcntl getdents64 close_range | a descriptor that came over an exec is a number that becomes owned |
//! | [`listing`] | getdents64 | the kernel writes into bytes that are read in order |
//! | [`inbox`] | fallocate mmap madvise | the kernel writes inputs into memory that survives a crash |
//! | [`memory`] | – | malloc_trim(3), so that a load leaves nothing behind |
//! | [`process`] | prctl execveat fork close_range fcntl | a fork that runs on in our own code (the loader) |
//! | [`device`] | swapoff ioctl | the last things a machine lets go of, and its watchdog |
//! | [`terminal`] | ioctl | TIOCSCTTY, TIOCVHANGUP, KDSIGACCEPT, SIOCSIFFLAGS |
//! | [`schedule`] | setpriority ioprio_set sched_setscheduler sched_setaffinity | none of them is in `nix` as the kernel has it |
//! | [`login`] | pututxline | utmp(5) is the C library's own format |
//!
//! What is memory work here is tested on plain memory, and Miri runs that (`tests/soak miri`). A test that asks
//! the kernel for what Miri does not know says which call that is: `cfg_attr(miri, ignore = "fork")`.
//!
//! Read on at [`child`]; who builds its orders is [`crate::spawn`].

#![allow(unsafe_code)]

mod capabilities;
pub(crate) mod child;
pub(crate) mod child_setup;
pub(crate) mod device;
pub(crate) mod fault;
pub(crate) mod inbox;
pub(crate) mod inbox_layout;
pub(crate) mod inherit;
pub(crate) mod launch;
pub(crate) mod listing;
pub(crate) mod login;
pub(crate) mod memfd;
pub(crate) mod memory;
pub(crate) mod no_linger;
pub(crate) mod peer;
pub(crate) mod process;
mod raw;
pub(crate) mod schedule;
pub(crate) mod shared_memory;
pub(crate) mod signal;
pub(crate) mod signal_pipe;
pub(crate) mod socket;
pub(crate) mod spawn_slots;
pub(crate) mod terminal;
pub(crate) mod wait;

pub(crate) use nix::unistd::Pid;

use std::io;

/// `-1` with errno, as an error.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same for `syscall(2)`.
fn check_long(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
