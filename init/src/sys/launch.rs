//! Clones the child of [`super::child`], in one of three ways:
//!
//! - [`shared`]: the child shares PID 1's memory (CLONE_VM) and runs on a stack of its own. It is
//!   the fastest: nothing is copied, and PID 1 continues while another core executes.
//! - [`copied`]: a fork, also for a child with its own OOM score.
//! - [`preparing`]: a fork, for a child that runs Rust code before its exec (env-files).
//!
//! No clone uses CLONE_VFORK. It would suspend PID 1 until the exec has read the binary. That may be
//! for ever on a hung file system, in a frozen cgroup, or after a SIGSTOP by the unit's own user.
//! [`crate::spawn`] chooses the way.

use super::child::Plan;
use super::child_setup::{Frame, Orders, Step};
use super::spawn_slots::{Slot, SlotId, SpawnSlots, Stack};
use super::{Pid, child, inbox, raw, signal};
use groundstate_units::spec::Exit;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

/// struct clone_args of linux/sched.h, all 88 bytes of version 2.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// True if clone3 is not available: a container's seccomp filter may refuse it.
static NO_CLONE3: AtomicBool = AtomicBool::new(false);

/// True if children cloned into a cgroup are killed at once.
static NO_JOINING: AtomicBool = AtomicBool::new(false);

/// Records that a child was killed before its first step, when it was cloned into a cgroup. This
/// happens to every such child once the kernel has killed PID 1's own cgroup and PID 1 has survived
/// (seen with Linux 6.18, which compares kill counters). From now on children join their cgroup
/// themselves.
pub(crate) fn stop_cloning_into_cgroups() {
    NO_JOINING.store(true, Ordering::Relaxed);
}

/// Returns true if [`stop_cloning_into_cgroups`] was called, for the next image.
pub(crate) fn clones_into_no_cgroup() -> bool {
    NO_JOINING.load(Ordering::Relaxed)
}

/// Returns true unless clone3 is known to be missing.
pub(crate) fn has_clone3() -> bool {
    !NO_CLONE3.load(Ordering::Relaxed)
}

/// Tests for clone3 with an empty call: EINVAL if it exists, another error if it is forbidden.
pub(crate) fn look_for_clone3() {
    // SAFETY: with a size of 0 clone3(2) reads nothing and makes nothing.
    let result = unsafe { raw::call(libc::SYS_clone3, [0; 6]) };
    if result != -(libc::EINVAL as isize) {
        NO_CLONE3.store(true, Ordering::Relaxed);
    }
}

/// Returns false if the child has to join the cgroup itself.
fn into_cgroup(args: &mut CloneArgs, cgroup: Option<RawFd>, joins_by_itself: bool) -> bool {
    if joins_by_itself || NO_JOINING.load(Ordering::Relaxed) {
        return false;
    }
    if let Some(fd) = cgroup.and_then(|fd| u64::try_from(fd).ok()) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = fd;
    }
    true
}

/// The memory that a sharing child reads. It is freed only after the kernel has cleared `alive` in
/// its slot, at the child's exec or exit. Dropped earlier, it is leaked.
#[derive(Debug)]
pub(crate) struct Shared {
    slot: NonNull<Slot>,
    bundle: NonNull<Bundle>,
    stack: Option<Stack>,
}

#[derive(Debug)]
struct Bundle {
    frame: Frame,
    orders: Orders,
    plan: Option<Plan>,
}

impl Shared {
    /// Returns true if the child no longer uses the memory.
    pub(crate) fn is_over(&self) -> bool {
        // SAFETY: slots are never unmapped, and made of atomics.
        unsafe { self.slot.as_ref() }.alive.load(Ordering::SeqCst) == 0
    }

    /// The stack, for reuse.
    pub(crate) fn into_stack(mut self) -> Option<Stack> {
        if self.is_over() { self.stack.take() } else { None }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_over() {
            // SAFETY: made by Box in `shared`, and no longer read by the child.
            drop(unsafe { Box::from_raw(self.bundle.as_ptr()) });
        } else {
            std::mem::forget(self.stack.take());
        }
    }
}

/// Moves the data to the heap; from here on it is accessed by pointers until it is freed.
fn laid_out(slot: &Slot, frame: Frame, orders: Orders) -> (NonNull<Bundle>, *mut Plan) {
    let bundle = NonNull::from(Box::leak(Box::new(Bundle { frame, orders, plan: None })));
    // SAFETY: the bundle was just made; slots are never unmapped.
    unsafe {
        let of = bundle.as_ptr();
        let plan = Plan::new(slot, &raw const (*of).frame, &raw const (*of).orders);
        (bundle, (*of).plan.insert(plan))
    }
}

/// Clones a child that shares our memory until it executes. Its slot must be fresh. An error
/// returns the stack.
pub(crate) fn shared(
    slots: &SpawnSlots,
    slot: SlotId,
    stack: Stack,
    frame: Frame,
    orders: Orders,
) -> Result<(Pid, Shared), (io::Error, Stack)> {
    let slot = slots.slot(slot);
    let shared_and_told = libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID | libc::CLONE_PARENT_SETTID;
    let mut args = CloneArgs {
        flags: CLONE_CLEAR_SIGHAND | shared_and_told as u64,
        child_tid: slot.alive.as_ptr() as u64,
        parent_tid: slot.pid.as_ptr() as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    let in_cgroup = into_cgroup(&mut args, frame.cgroup, frame.joins_by_itself);
    let (base, size) = stack.span();
    (args.stack, args.stack_size) = (base as u64, size as u64);
    let (bundle, plan) = laid_out(slot, frame, orders);
    // SAFETY: the plan was just made, and its child is the next to use it.
    let result = unsafe {
        (*plan).reset = signal::ignored();
        (*plan).in_cgroup = in_cgroup;
        clone_onto(&raw const args, child::run, plan)
    };
    match pid(result) {
        Ok(pid) => Ok((pid, Shared { slot: slot.into(), bundle, stack: Some(stack) })),
        Err(error) => {
            // SAFETY: there is no child, so nothing else uses the bundle.
            drop(unsafe { Box::from_raw(bundle.as_ptr()) });
            Err((error, stack))
        }
    }
}

/// clone3 with a stack for the child, which enters `entry` and never returns.
///
/// # Safety
/// `args` names an unused stack; `entry` and `plan` keep to the rules of [`child::run`].
unsafe fn clone_onto(
    args: *const CloneArgs,
    entry: unsafe extern "C" fn(*mut Plan) -> !,
    plan: *mut Plan,
) -> isize {
    let result: isize;
    // SAFETY: the parent sees an ordinary system call. The child begins with the same registers
    // but the result (0) and the stack pointer (the top of its stack, 16-byte aligned, as a call
    // wants it); it touches nothing of the parent's frame.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r8",
            "call r9",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 as isize => result,
            in("rdi") args, in("rsi") size_of::<CloneArgs>(), in("r8") plan, in("r9") entry,
            lateout("rcx") _, lateout("r11") _,
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x2",
            "blr x3",
            "brk 1",
            "2:",
            inlateout("x0") args => result, in("x8") libc::SYS_clone3,
            in("x1") size_of::<CloneArgs>(), in("x2") plan, in("x3") entry,
        );
    }
    result
}

/// Clones a child with a copy of our memory. Errors are those of clone3(2); EBUSY, ENODEV,
/// EOPNOTSUPP and EACCES are about the cgroup.
pub(crate) fn copied(
    slots: &SpawnSlots,
    slot: SlotId,
    frame: &Frame,
    orders: &Orders,
) -> io::Result<Pid> {
    let slot = slots.slot(slot);
    // SAFETY: all three are borrowed for longer than the plan lives.
    let mut plan = unsafe { Plan::new(slot, frame, orders) };
    // Until its dispositions are reset, the child must not run PID 1's handlers.
    let held = signal::hold();
    let (result, in_cgroup) = fork(Some(slot), frame.cgroup, frame.joins_by_itself);
    if result == 0 {
        plan.in_cgroup = in_cgroup;
        // SAFETY: we are the fresh child, which has its own copy of everything.
        unsafe { child::run(&raw mut plan) }
    }
    drop(held);
    pid(result)
}

/// Forks with clone3, or with clone where clone3 is forbidden. A process with one thread does not
/// need what libc's fork(2) does in addition. The kernel writes the child's pid into its slot.
/// Returns the result of the call, and true unless the child has to join the cgroup itself.
fn fork(slot: Option<&Slot>, cgroup: Option<RawFd>, joins_by_itself: bool) -> (isize, bool) {
    let exit_signal = libc::SIGCHLD as u64;
    let mut args = CloneArgs { exit_signal, ..CloneArgs::default() };
    let in_cgroup = into_cgroup(&mut args, cgroup, joins_by_itself);
    if let Some(slot) = slot {
        args.flags |= libc::CLONE_PARENT_SETTID as u64;
        args.parent_tid = slot.pid.as_ptr() as u64;
    }
    if has_clone3() {
        let call = [&raw const args as usize, size_of::<CloneArgs>(), 0, 0, 0, 0];
        // SAFETY: `args` is a valid clone_args. Without CLONE_VM the child has its own copy of
        // everything.
        let result = unsafe { raw::call(libc::SYS_clone3, call) };
        if ![libc::ENOSYS, libc::EPERM].iter().any(|errno| result == -(*errno as isize)) {
            return (result, in_cgroup);
        }
        NO_CLONE3.store(true, Ordering::Relaxed);
    }
    let flags = (args.flags & libc::CLONE_PARENT_SETTID as u64 | exit_signal) as usize;
    let call = [flags, 0, args.parent_tid as usize, 0, 0, 0];
    // SAFETY: as above, without a stack. The address is that of the slot's pid, which stays mapped.
    (unsafe { raw::call(libc::SYS_clone, call) }, false)
}

/// Forks a child that first runs `prepare`, with its own descriptors, session and cgroup, and then
/// executes the result. The error of `prepare` is the step, the errno and the index.
pub(crate) fn preparing(
    slots: &SpawnSlots,
    slot: SlotId,
    frame: &Frame,
    prepare: impl FnOnce() -> Result<Orders, (Step, i32, u32)>,
) -> io::Result<Pid> {
    let slot = slots.slot(slot);
    let held = signal::hold();
    let result = match cfg!(test) {
        // Other test threads may hold libc's locks.
        // SAFETY: fork(2).
        true => unsafe { libc::fork() as isize },
        false => fork(Some(slot), None, false).0,
    };
    if result != 0 {
        drop(held);
        return pid(result);
    }
    inbox::forget();
    // SAFETY: this is the fresh child, `slot` is in shared memory, `frame` in its own copy.
    unsafe { child::apply_frame(slot, frame, u64::MAX, false) };
    slot.step.store(Step::EnvFile as u32, Ordering::SeqCst);
    let prepared = catch_unwind(AssertUnwindSafe(prepare));
    match prepared.unwrap_or(Err((Step::ExecLine, libc::ENOTRECOVERABLE, 0))) {
        Ok(orders) => {
            // SAFETY: as above; `plan` and `orders` live on this stack, which is never left.
            unsafe {
                let mut plan = Plan::new(slot, frame, &raw const orders);
                child::become_program(&raw mut plan)
            }
        }
        Err((step, errno, detail)) => {
            slot.detail.store(detail, Ordering::SeqCst);
            slot.step.store(step as u32, Ordering::SeqCst);
            let result = isize::try_from(errno).unwrap_or(0).wrapping_neg();
            // SAFETY: as above.
            unsafe { child::fail(slot, result) }
        }
    }
}

/// Clones a child that exits at once into a cgroup, to test whether that works, and waits for it.
/// Only before the loop.
pub(crate) fn probe(cgroup: BorrowedFd<'_>) -> io::Result<()> {
    let (result, joined) = fork(None, Some(cgroup.as_raw_fd()), false);
    if result == 0 {
        // SAFETY: this is the fresh child; it joins the cgroup unless the clone did, and exits.
        unsafe {
            let entered = if joined { 0 } else { child::enter_cgroup(cgroup.as_raw_fd()) };
            raw::call(libc::SYS_exit_group, [entered.wrapping_neg() as usize, 0, 0, 0, 0, 0]);
        }
    }
    match super::wait::await_end(pid(result)?)? {
        Exit::Code(0) => Ok(()),
        Exit::Code(errno) => Err(io::Error::from_raw_os_error(errno.into())),
        Exit::Signal { .. } if joined => {
            stop_cloning_into_cgroups();
            probe(cgroup)
        }
        Exit::Signal { .. } => Err(io::Error::from_raw_os_error(libc::EINTR)),
    }
}

fn pid(result: isize) -> io::Result<Pid> {
    match i32::try_from(result) {
        Ok(pid) if pid > 0 => {
            let pid = Pid::from_raw(pid);
            super::wait::note_made(pid);
            Ok(pid)
        }
        Ok(error) => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
        Err(_) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::child::tests::{frame, orders, words};
    use super::*;

    /// A child played by a thread that runs `work`; it has left when the thread ends.
    fn child(work: impl FnOnce(*mut Plan) + Send + 'static) -> (SpawnSlots, SlotId, Shared) {
        /// Passes the plan to the one thread that uses it.
        struct Handed(*mut Plan);
        // SAFETY: as with a clone, only the child uses the plan until it has left.
        unsafe impl Send for Handed {}
        impl Handed {
            fn plan(self) -> *mut Plan {
                self.0
            }
        }

        let mut slots = SpawnSlots::plain();
        let id = slots.take(0).unwrap();
        let slot = slots.slot(id);
        let (bundle, plan) = laid_out(slot, frame(), orders());
        let plan = Handed(plan);
        // SAFETY: plain slots are never freed.
        let alive: &'static Slot = unsafe { NonNull::from(slot).as_ref() };
        let shared = Shared { slot: slot.into(), bundle, stack: None };
        std::thread::spawn(move || {
            work(plan.plan());
            // As the kernel does it: CLONE_CHILD_CLEARTID.
            alive.alive.store(0, Ordering::SeqCst);
        });
        (slots, id, shared)
    }

    fn freed(shared: Shared) {
        while !shared.is_over() {
            std::thread::yield_now();
        }
        drop(shared);
    }

    #[test]
    fn plan_of_a_sharing_child_is_freed_after_the_child_has_left() {
        // SAFETY: the plan is this thread's.
        let (_, _, shared) = child(|plan| unsafe {
            assert_eq!(
                words(plan),
                [vec!["/a/b", "/c/b"], vec!["b", "-x"], vec!["N=V", "LISTEN_PID="]]
            );
        });
        freed(shared);
    }

    #[cfg(miri)]
    #[test]
    fn child_reads_only_its_plan_until_its_exec() {
        use super::super::child::tests::pretended;

        let (slots, id, shared) = child(|plan| {
            // SAFETY: as above.
            let calls = unsafe { pretended(plan) };
            let at = |number| calls.iter().position(|call| call.0 == number).unwrap();
            let order = [
                libc::SYS_setsid,
                libc::SYS_dup3,
                libc::SYS_prlimit64,
                libc::SYS_setgroups,
                libc::SYS_setresgid,
                libc::SYS_setresuid,
                libc::SYS_umask,
                libc::SYS_execve,
                libc::SYS_exit_group,
            ];
            assert!(order.map(at).is_sorted(), "{calls:?}");
            // SAFETY: as above.
            assert_eq!(unsafe { words(plan) }[2], ["N=V", "LISTEN_PID=4194304"]);
        });
        freed(shared);
        let told = slots.progress(id);
        assert_eq!((told.step, told.errno), (Step::Execve, Some(libc::EACCES)));
    }
}
