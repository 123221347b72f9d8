//! Makes system calls by number, without libc. The child in [`super::child`] needs this, because it
//! may share PID 1's memory and thread-local storage.
//!
//! The result is the kernel's own: negative values are `-errno`. `libc` supplies the numbers.

#[cfg(not(miri))]
use std::arch::asm;

/// Always passes six arguments: the kernel ignores surplus ones.
///
/// # Safety
/// The caller keeps the contract of the system call `number`; pointers in `args` are valid for it.
#[cfg(not(miri))]
#[inline(always)]
pub(super) unsafe fn call(number: libc::c_long, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    let result: isize;
    // SAFETY: the registers are those of the architecture's system call convention (syscall(2));
    // rcx and r11 are declared as clobbered; the caller keeps the contract of the call itself.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    result
}

#[cfg(miri)]
pub(super) use pretended::call;

/// Miri runs no assembly: a test supplies the answers of the kernel.
#[cfg(miri)]
pub(super) mod pretended {
    use std::cell::RefCell;

    /// A system call: number and arguments.
    pub(in crate::sys) type Call = (libc::c_long, [usize; 6]);

    type Kernel = Box<dyn FnMut(Call) -> isize>;

    thread_local! {
        static KERNEL: RefCell<Option<Kernel>> = const { RefCell::new(None) };
    }

    /// Sets the function that answers the calls of this thread.
    pub(in crate::sys) fn answer(by: impl FnMut(Call) -> isize + 'static) {
        KERNEL.with(|kernel| *kernel.borrow_mut() = Some(Box::new(by)));
    }

    /// Passes the call to that function. Returns ENOSYS without one.
    pub(in crate::sys) unsafe fn call(number: libc::c_long, args: [usize; 6]) -> isize {
        let none = -(libc::ENOSYS as isize);
        KERNEL.with(|kernel| kernel.borrow_mut().as_mut().map_or(none, |by| by((number, args))))
    }
}
