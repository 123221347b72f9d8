//! Scheduling of the calling process: setpriority, ioprio_set, sched_setscheduler,
//! sched_setaffinity. For a child that is about to execute a unit's program.

use super::{check, check_long};
use std::io;

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
    check_long(result).map(drop)
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
    check_long(result).map(drop)
}

/// sched_setaffinity(2), for processors of any number.
pub(crate) fn set_affinity(processors: &[u16]) -> io::Result<()> {
    let mask = mask(processors);
    let bytes = size_of_val(mask.as_slice());
    // SAFETY: the kernel reads that many bytes of the mask.
    let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, mask.as_ptr()) };
    check_long(result).map(drop)
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

/// Ignores SIGPIPE, also in the program.
pub(crate) fn ignore_sigpipe() {
    // SAFETY: SIG_IGN runs no code.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_processor_has_its_bit() {
        assert_eq!(mask(&[]), [0]);
        assert_eq!(mask(&[63, 0, 64, 63]), [1 << 63 | 1, 1]);
        let far = mask(&[u16::MAX]);
        assert_eq!((far.len(), far.last()), (1024, Some(&(1 << 63))));
    }
}
