//! What a child between clone and exec writes to files of the kernel's. It may share PID 1's memory: the rules of
//! [`super::child`] hold.

use super::raw;
use std::ffi::CStr;
use std::os::fd::RawFd;

/// Writes "0" (this process) to the cgroup.procs of `cgroup`.
pub(super) fn enter_cgroup(cgroup: RawFd) -> isize {
    write_to(cgroup, c"cgroup.procs", b"0")
}

/// Writes these digits to oom_score_adj. To be done while the child has all of PID 1's rights: who has them sets by
/// it the lowest that may be set without them, too, which is PID 1's own until then.
pub(super) fn set_score(digits: &[u8]) -> isize {
    write_to(libc::AT_FDCWD, c"/proc/self/oom_score_adj", digits)
}

/// Writes all of it at once to a file in this directory.
fn write_to(directory: RawFd, path: &CStr, bytes: &[u8]) -> isize {
    let flags = (libc::O_WRONLY | libc::O_CLOEXEC) as usize;
    let open = [directory as usize, path.as_ptr() as usize, flags, 0, 0, 0];
    // SAFETY: openat(2) reads a terminated string, write(2) the bytes; the number closed is the one just opened.
    unsafe {
        let fd = raw::call(libc::SYS_openat, open);
        if fd < 0 {
            return fd;
        }
        let (fd, from, length) = (fd as usize, bytes.as_ptr() as usize, bytes.len());
        let written = raw::call(libc::SYS_write, [fd, from, length, 0, 0, 0]);
        raw::call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
        written
    }
}
