//! Attributes of this process, exec, and forks that continue in Rust code (the loader).
//! [`super::launch`] starts the programs of units.

use crate::sys::{Pid, check, signal};
use nix::fcntl::AtFlags;
use nix::sys::prctl::set_pdeathsig;
pub(crate) use nix::sys::prctl::{set_child_subreaper, set_name};
use nix::sys::signal::Signal;
use nix::unistd::execveat;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Lets the kernel kill this process when its parent exits: for helpers of PID 1.
pub(crate) fn die_with_parent() -> nix::Result<()> {
    set_pdeathsig(Signal::SIGKILL)
}

/// Runs `work` in a forked child, which then exits with the returned status (70 after a panic). The
/// child has default signal dispositions, an empty mask and, above 2, only the descriptors in
/// `kept`. Only for a single-threaded process: copies of locks held by other threads would stay
/// locked.
pub(crate) fn fork(kept: &[BorrowedFd<'_>], work: impl FnOnce() -> u8) -> io::Result<Pid> {
    fork_whole(|| {
        for (from, to) in between(kept) {
            super::child::close_range(from, to);
        }
        work()
    })
}

/// Like [`fork`], with every descriptor.
pub(crate) fn fork_whole(work: impl FnOnce() -> u8) -> io::Result<Pid> {
    // SAFETY: fork(2). This process has one thread (libc's fork handles malloc's locks).
    fork_by(|| unsafe { libc::fork() }, work)
}

fn fork_by(clone: impl FnOnce() -> i32, work: impl FnOnce() -> u8) -> io::Result<Pid> {
    let held = signal::hold();
    match check(clone())? {
        0 => {
            super::fault::disarm();
            super::inbox::forget();
            super::child::reset_signals(u64::MAX);
            let status = catch_unwind(AssertUnwindSafe(work)).unwrap_or(70);
            // SAFETY: _exit(2) ends the process without running PID 1's destructors: the
            // descriptors closed above are never dropped.
            unsafe { libc::_exit(i32::from(status)) }
        }
        pid => {
            drop(held);
            super::wait::note_made(Pid::from_raw(pid));
            Ok(Pid::from_raw(pid))
        }
    }
}

/// Closes descriptors in a child that does nothing else, because close(2) may block for ever. The
/// child shares the descriptor table (CLONE_FILES), so a number is free here as soon as the child
/// starts to close it.
///
/// # Errors
/// There is no child, and the descriptors are still open.
pub(crate) fn close_elsewhere(fds: Vec<OwnedFd>) -> Result<Pid, Vec<OwnedFd>> {
    let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let flags = libc::c_long::from(libc::CLONE_FILES | libc::SIGCHLD);
    // SAFETY: clone(2) without CLONE_VM is fork(2) with a shared descriptor table. The child makes
    // system calls only and touches no lock.
    let clone = || unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) as i32 };
    let child = fork_by(clone, || {
        // Signals are blocked, so that none ends the child before it has closed them all.
        let _held = super::signal::hold();
        for number in &numbers {
            // SAFETY: close(2); the parent gives up the number below and never uses it again.
            unsafe { libc::close(*number) };
        }
        0
    });
    let Ok(pid) = child else { return Err(fds) };
    for fd in fds {
        // The child owns it from here on.
        let _ = fd.into_raw_fd();
    }
    Ok(pid)
}

/// The numbers from 3 on except these, as ranges.
fn between(kept: &[BorrowedFd<'_>]) -> Vec<(u32, u32)> {
    let mut numbers: Vec<u32> =
        kept.iter().filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok()).collect();
    numbers.sort_unstable();
    let (mut from, mut ranges) = (3, Vec::new());
    for number in numbers {
        if number > from {
            ranges.push((from, number - 1));
        }
        from = from.max(number.saturating_add(1));
    }
    ranges.push((from, u32::MAX));
    ranges
}

/// Executes `binary`, an open descriptor, so that it works with a replaced file and without /proc.
/// Returns only on failure. execveat(2).
pub(crate) fn execute(binary: BorrowedFd<'_>, argv: &[CString], envp: &[CString]) -> io::Error {
    let Err(error) = execveat(binary, c"", argv, envp, AtFlags::AT_EMPTY_PATH);
    error.into()
}

// Scheduling of the calling process: setpriority, ioprio_set, sched_setscheduler,
// sched_setaffinity. For a child that is about to execute a unit's program.

/// setpriority(2).
pub(crate) fn set_nice(nice: i8) -> io::Result<()> {
    // SAFETY: setpriority(2) takes numbers.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, i32::from(nice)) }).map(drop)
}

/// ioprio_set(2) for this process; `priority` combines class and level.
pub(crate) fn set_io_priority(priority: u16) -> io::Result<()> {
    const IOPRIO_WHO_PROCESS: libc::c_int = 1;
    // SAFETY: ioprio_set(2) takes numbers.
    let result = unsafe {
        libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, libc::c_int::from(priority))
    };
    check(result).map(drop)
}

/// sched_setscheduler(2) as a raw system call, because some C libraries refuse it.
pub(crate) fn set_policy(policy: u8, priority: u8) -> io::Result<()> {
    let priority = libc::c_int::from(priority);
    // SAFETY: struct sched_param of the kernel is one int, which is read.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::c_int::from(policy),
            &raw const priority,
        )
    };
    check(result).map(drop)
}

/// sched_setaffinity(2), for processors of any number.
pub(crate) fn set_affinity(processors: &[u16]) -> io::Result<()> {
    let mask = mask(processors);
    let bytes = size_of_val(mask.as_slice());
    // SAFETY: the kernel reads that many bytes of the mask.
    let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, mask.as_ptr()) };
    check(result).map(drop)
}

fn mask(processors: &[u16]) -> Vec<u64> {
    let highest = processors.iter().copied().max().unwrap_or_default();
    let mut mask = vec![0u64; usize::from(highest) / 64 + 1];
    for processor in processors {
        if let Some(word) = mask.get_mut(usize::from(processor / 64)) {
            *word |= 1 << (processor % 64);
        }
    }
    mask
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::wait;
    use super::*;
    use groundstate_units::spec::Exit;
    use std::fs::File;
    use std::os::fd::AsFd;

    /// A process that continues in a second thread after its first one has exited.
    pub(crate) fn without_first_thread() -> Pid {
        let child = fork_whole(|| {
            std::thread::spawn(|| {
                loop {
                    std::thread::park();
                }
            });
            // SAFETY: exit(2) ends this thread only; the other thread uses nothing of it.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
            1
        });
        let child = child.unwrap();
        let is_zombie =
            || crate::base::procfs::shown(child).is_some_and(|(_, how)| how == "exited");
        while !is_zombie() {
            std::thread::yield_now();
        }
        child
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn a_kept_descriptor_of_a_binary_is_executed() {
        let binary = File::open("/bin/sh").unwrap();
        let argv = [c"sh", c"-c", c"exit $STATUS"].map(CString::from);
        let envp = [CString::from(c"STATUS=42")];
        let child = fork(&[binary.as_fd()], || {
            let _ = execute(binary.as_fd(), &argv, &envp);
            1
        });
        assert_eq!(wait::await_end(child.unwrap()).unwrap(), Exit::Code(42));
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn forked_child_has_only_kept_descriptors_and_its_panic_ends_only_the_child() {
        let kept = File::open("/dev/null").unwrap();
        let dropped = File::open("/dev/null").unwrap();
        let (kept_number, dropped_number) = (kept.as_raw_fd(), dropped.as_raw_fd());
        let child = fork(&[kept.as_fd()], || {
            let is_open = |fd: i32| std::path::Path::new(&format!("/proc/self/fd/{fd}")).exists();
            u8::from(is_open(kept_number)) + 2 * u8::from(is_open(dropped_number))
        });
        assert_eq!(wait::await_end(child.unwrap()).unwrap(), Exit::Code(1));
        let child = fork(&[], || panic!("on purpose"));
        assert_eq!(wait::await_end(child.unwrap()).unwrap(), Exit::Code(70));
    }
}

#[cfg(test)]
mod schedule_tests {
    use super::*;

    #[test]
    fn each_processor_has_its_own_affinity_bit() {
        assert_eq!(mask(&[]), [0]);
        assert_eq!(mask(&[63, 0, 64, 63]), [1 << 63 | 1, 1]);
        let far = mask(&[u16::MAX]);
        assert_eq!((far.len(), far.last()), (1024, Some(&(1 << 63))));
    }
}
