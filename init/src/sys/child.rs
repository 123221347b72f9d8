//! The child between clone and exec.
//!
//! It may share PID 1's memory (see [`super::launch`]). So it makes system calls through
//! [`super::raw`] only (libc would write errno into PID 1's thread-local storage), allocates
//! nothing and cannot panic. PID 1 prepares its data in [`Orders`] and does not touch it while the
//! child may read it.
//!
//! The order of the steps is that of [`Step`], except that the OOM score is set first. Groups come
//! before the user, limits before both (raising one needs the privilege), and the directory last,
//! entered as the user. On the first error the child writes step and errno to its slot and exits.

#[cfg(test)]
pub(super) mod tests;

use super::capabilities::{after_user, before_user};
use super::child_setup::{Frame, Limit, Orders, Step};
use super::raw;
use super::spawn_slots::Slot;
use std::ffi::{CStr, CString, c_char};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::Ordering;

/// [`Frame`] and [`Orders`] as the child reads them: pointers into memory that outlives it.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) slot: *const Slot,
    frame: *const Frame,
    orders: *const Orders,
    programs: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    listen_pid: Vec<u8>,
    /// Signal dispositions to reset: bit n-1 for signal n.
    pub(super) reset: u64,
    /// True if the clone has put the child into its cgroup.
    pub(super) in_cgroup: bool,
}

const LISTEN_PID: &[u8] = b"LISTEN_PID=";

impl Plan {
    /// Builds the lists of pointers.
    ///
    /// # Safety
    /// `frame` and `orders` are valid, and are neither moved nor changed while the plan is used.
    pub(super) unsafe fn new(
        slot: *const Slot,
        frame: *const Frame,
        orders: *const Orders,
    ) -> Plan {
        // SAFETY: by the contract of this function.
        let lists = unsafe { &*orders };
        let mut plan = Plan {
            slot,
            frame,
            orders,
            programs: pointers(&lists.programs),
            argv: pointers(&lists.argv),
            envp: lists.envp.iter().map(|s| s.as_ptr()).collect(),
            listen_pid: Vec::new(),
            reset: u64::MAX,
            in_cgroup: false,
        };
        if lists.listen_pid {
            plan.listen_pid.extend_from_slice(LISTEN_PID);
            plan.listen_pid.resize(LISTEN_PID.len() + 12, 0);
            plan.envp.push(plan.listen_pid.as_ptr().cast());
        }
        plan.envp.push(ptr::null());
        plan
    }
}

pub(super) fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
}

/// Runs a child whose [`Orders`] are complete.
///
/// # Safety
/// It is called once, in a fresh child. `plan` and everything it points at is valid, and no other
/// code touches it until the child has executed or exited.
pub(super) unsafe extern "C" fn run(plan: *mut Plan) -> ! {
    // SAFETY: by the contract of this function.
    unsafe {
        apply_frame((*plan).slot, (*plan).frame, (*plan).reset, (*plan).in_cgroup);
        become_program(plan);
    }
}

/// Runs the steps that need only the [`Frame`].
///
/// # Safety
/// As [`run`], for `slot` and `frame`.
pub(super) unsafe fn apply_frame(
    slot: *const Slot,
    frame: *const Frame,
    reset: u64,
    in_cgroup: bool,
) {
    // SAFETY: by the contract of this function; every call below passes numbers, or pointers
    // into `frame`, which is valid.
    unsafe {
        reset_signals(reset);
        if let Some(score) = &(*frame).score {
            enter(slot, Step::Schedule, 0);
            must(slot, set_score(score));
        }
        if !in_cgroup && let Some(cgroup) = (*frame).cgroup {
            enter(slot, Step::Cgroup, 0);
            must(slot, enter_cgroup(cgroup));
        }
        enter(slot, Step::Session, 0);
        must(slot, raw::call(libc::SYS_setsid, [0; 6]));
        enter(slot, Step::Stdio, 0);
        let mut target = 0;
        for source in (*frame).stdio.iter().chain(&(*frame).passed) {
            must(slot, duplicate(*source, target, 0));
            target = target.wrapping_add(1);
        }
        if let Some((source, place)) = (*frame).placed {
            must(slot, duplicate(source, place, 0));
            if target < place {
                must(slot, close_range(target as u32, (place as u32).wrapping_sub(1)));
            }
            target = place.wrapping_add(1);
        }
        if let Some(report) = (*frame).report {
            if report != target {
                must(slot, duplicate(report, target, libc::O_CLOEXEC));
            }
            target = target.wrapping_add(1);
        }
        must(slot, close_range(target as u32, u32::MAX));
    }
}

/// Runs the rest: limits, identity, directory, exec.
///
/// # Safety
/// As [`run`].
pub(super) unsafe fn become_program(plan: *mut Plan) -> ! {
    // SAFETY: by the contract of this function: `plan`, its orders and all strings are valid,
    // terminated and left alone.
    unsafe {
        let slot = (*plan).slot;
        let orders = (*plan).orders;
        for limit in &(*orders).limits {
            enter(slot, Step::Limits, limit.resource);
            must(slot, set_limit(limit));
        }
        if let Some(root) = &(*orders).root {
            enter(slot, Step::Root, 0);
            must(slot, raw::call(libc::SYS_chroot, [root.as_ptr() as usize, 0, 0, 0, 0, 0]));
            must(slot, raw::call(libc::SYS_chdir, [c"/".as_ptr() as usize, 0, 0, 0, 0, 0]));
        }
        if let Some(rights) = &(*orders).rights {
            enter(slot, Step::Rights, 0);
            let reduced = before_user(rights, (*orders).uid.is_some());
            must(slot, reduced.err().unwrap_or(0));
        }
        enter(slot, Step::Group, 0);
        if let Some(groups) = &(*orders).groups {
            let args = [groups.len(), groups.as_ptr() as usize, 0, 0, 0, 0];
            must(slot, raw::call(libc::SYS_setgroups, args));
        }
        if let Some(gid) = (*orders).gid {
            let gid = gid as usize;
            must(slot, raw::call(libc::SYS_setresgid, [gid, gid, gid, 0, 0, 0]));
        }
        enter(slot, Step::User, 0);
        if let Some(uid) = (*orders).uid {
            let uid = uid as usize;
            must(slot, raw::call(libc::SYS_setresuid, [uid, uid, uid, 0, 0, 0]));
        }
        if let Some(rights) = &(*orders).rights {
            enter(slot, Step::Rights, 1);
            let set = after_user(rights, (*orders).uid.is_some());
            must(slot, set.err().unwrap_or(0));
        }
        enter(slot, Step::WorkingDir, 0);
        let dir = [(*orders).dir.as_ptr() as usize, 0, 0, 0, 0, 0];
        let entered = raw::call(libc::SYS_chdir, dir);
        let missing = entered == -(libc::ENOENT as isize) || entered == -(libc::ENOTDIR as isize);
        if missing && (*orders).dir_optional {
            must(slot, raw::call(libc::SYS_chdir, [c"/".as_ptr() as usize, 0, 0, 0, 0, 0]));
        } else {
            must(slot, entered);
        }
        raw::call(libc::SYS_umask, [(*orders).umask as usize, 0, 0, 0, 0, 0]);
        // Joins a new session keyring of the child's user (keyctl_join_session_keyring(3)). If that
        // fails, as in most containers, the child keeps the keyring of init's parent.
        raw::call(libc::SYS_keyctl, [JOIN_SESSION_KEYRING, 0, 0, 0, 0, 0]);
        if (*orders).listen_pid {
            let pid = raw::call(libc::SYS_getpid, [0; 6]) as u32;
            write_number((*plan).listen_pid.as_mut_ptr().wrapping_add(LISTEN_PID.len()), pid);
        }
        enter(slot, Step::Execve, 0);
        let error = execute(plan, slot);
        fail(slot, error)
    }
}

/// KEYCTL_JOIN_SESSION_KEYRING of linux/keyctl.h.
const JOIN_SESSION_KEYRING: usize = 1;

/// Detail of [`Step::Execve`]: the program exists, but its interpreter does not.
pub(crate) const WITHOUT_INTERPRETER: u32 = 1;

/// Tries each program as execvp(3) does: a missing or forbidden one does not end the search.
/// Returns the most informative errno.
///
/// # Safety
/// As [`run`].
unsafe fn execute(plan: *const Plan, slot: *const Slot) -> isize {
    let absent = -(libc::ENOENT as isize);
    let no_dir = -(libc::ENOTDIR as isize);
    let denied = -(libc::EACCES as isize);
    let mut told = 0;
    // SAFETY: by the contract of this function: the lists end in null, the strings are terminated.
    unsafe {
        let (argv, envp) = ((*plan).argv.as_ptr() as usize, (*plan).envp.as_ptr() as usize);
        let mut program = (*plan).programs.as_ptr();
        while !(*program).is_null() {
            let result = raw::call(libc::SYS_execve, [*program as usize, argv, envp, 0, 0, 0]);
            let here = [libc::AT_FDCWD as usize, *program as usize, libc::F_OK as usize, 0, 0, 0];
            if result == absent && raw::call(libc::SYS_faccessat, here) == 0 {
                enter(slot, Step::Execve, WITHOUT_INTERPRETER);
            }
            if result == denied || (told == 0 && (result == absent || result == no_dir)) {
                told = result;
            } else if result != absent && result != no_dir {
                return result;
            }
            program = program.wrapping_add(1);
        }
    }
    if told == 0 { absent } else { told }
}

/// Resets the signals in `reset` to their default dispositions and empties the mask.
pub(super) fn reset_signals(reset: u64) {
    let default = [0usize; 4]; // struct kernel_sigaction: SIG_DFL, no flags, no restorer, no mask
    let mut number: usize = 1;
    while number <= 64 {
        if reset & (1u64 << (number.wrapping_sub(1) & 63)) != 0 {
            let args = [number, default.as_ptr() as usize, 0, 8, 0, 0];
            // SAFETY: rt_sigaction(2) reads the 32 bytes of the action; KILL and STOP are refused.
            unsafe { raw::call(libc::SYS_rt_sigaction, args) };
        }
        number = number.wrapping_add(1);
    }
    let none = 0u64;
    let args = [libc::SIG_SETMASK as usize, &raw const none as usize, 0, 8, 0, 0];
    // SAFETY: rt_sigprocmask(2) reads the 8 bytes of the set.
    unsafe { raw::call(libc::SYS_rt_sigprocmask, args) };
}

/// Closes the descriptors `from..=to` of this process.
pub(super) fn close_range(from: u32, to: u32) -> isize {
    // SAFETY: close_range(2) takes numbers; the process is a child that uses none of these.
    unsafe { raw::call(libc::SYS_close_range, [from as usize, to as usize, 0, 0, 0, 0]) }
}

/// Writes the next step to the slot.
///
/// # Safety
/// `slot` is valid.
unsafe fn enter(slot: *const Slot, step: Step, detail: u32) {
    // SAFETY: by the contract of this function.
    unsafe {
        (*slot).detail.store(detail, Ordering::SeqCst);
        (*slot).step.store(step as u32, Ordering::SeqCst);
    }
}

/// Ends the child if the step failed.
///
/// # Safety
/// `slot` is valid, and this process is a child.
unsafe fn must(slot: *const Slot, result: isize) {
    if result < 0 {
        // SAFETY: by the contract of this function.
        unsafe { fail(slot, result) }
    }
}

/// Writes the errno to the slot and exits.
///
/// # Safety
/// As [`must`].
pub(super) unsafe fn fail(slot: *const Slot, result: isize) -> ! {
    // SAFETY: by the contract of this function; exit_group(2) does not return.
    unsafe {
        (*slot).errno.store(result.wrapping_neg() as u32, Ordering::SeqCst);
        loop {
            raw::call(libc::SYS_exit_group, [FAILED, 0, 0, 0, 0, 0]);
        }
    }
}

/// Exit status of a child that could not execute its program.
const FAILED: usize = 127;

/// Duplicates a descriptor. Without O_CLOEXEC the copy stays open over the exec. No source is a
/// target (see [`Frame`]).
unsafe fn duplicate(source: RawFd, target: RawFd, flags: i32) -> isize {
    // SAFETY: dup3(2) takes numbers.
    unsafe {
        raw::call(libc::SYS_dup3, [source as usize, target as usize, flags as usize, 0, 0, 0])
    }
}

/// Sets a limit of this process with prlimit64. If the limit may not be raised (a container without
/// CAP_SYS_RESOURCE), the present hard limit is used instead, as systemd does.
unsafe fn set_limit(limit: &Limit) -> isize {
    let set = |values: [u64; 2]| {
        let args = [0, limit.resource as usize, values.as_ptr() as usize, 0, 0, 0];
        // SAFETY: prlimit64(2) reads 16 bytes.
        unsafe { raw::call(libc::SYS_prlimit64, args) }
    };
    let result = set([limit.soft, limit.hard]);
    if result != -(libc::EPERM as isize) || limit.soft > limit.hard {
        return result;
    }
    let mut present = [0u64; 2];
    let args = [0, limit.resource as usize, 0, present.as_mut_ptr() as usize, 0, 0];
    // SAFETY: prlimit64(2) writes the 16 bytes of the limit.
    unsafe { raw::call(libc::SYS_prlimit64, args) };
    let [_, most] = present;
    set([limit.soft.min(most), limit.hard.min(most)])
}

/// Writes decimal digits and a terminator to `to`, which holds at least 12 bytes.
unsafe fn write_number(to: *mut u8, mut number: u32) {
    let mut length: usize = 1;
    let mut rest = number / 10;
    while rest > 0 {
        length = length.wrapping_add(1);
        rest /= 10;
    }
    // SAFETY: a u32 has at most 10 digits; the terminator makes 11.
    unsafe {
        to.add(length).write(0);
        while length > 0 {
            length = length.wrapping_sub(1);
            to.add(length).write((number % 10) as u8 | b'0');
            number /= 10;
        }
    }
}

/// Writes "0" (this process) to the cgroup.procs of `cgroup`.
pub(super) fn enter_cgroup(cgroup: RawFd) -> isize {
    write_to(cgroup, c"cgroup.procs", b"0")
}

/// Writes these digits to oom_score_adj. It must be done with PID 1's privileges. A privileged
/// write also sets the lowest value that an unprivileged process may choose later; until then that
/// is PID 1's own value.
pub(super) fn set_score(digits: &[u8]) -> isize {
    write_to(libc::AT_FDCWD, c"/proc/self/oom_score_adj", digits)
}

/// Writes the bytes at once to a file in this directory.
fn write_to(directory: RawFd, path: &CStr, bytes: &[u8]) -> isize {
    let flags = (libc::O_WRONLY | libc::O_CLOEXEC) as usize;
    let open = [directory as usize, path.as_ptr() as usize, flags, 0, 0, 0];
    // SAFETY: openat(2) reads a terminated string, write(2) the bytes; the number closed is the one
    // just opened.
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
