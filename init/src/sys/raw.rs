//! A system call by number, without libc around it. What it is for: the child in
//! [`super::child`], which may share PID 1's memory and its thread-local storage.
//!
//! The result is the kernel's own: negative is `-errno`. `libc` supplies the numbers.

#[cfg(not(miri))]
use std::arch::asm;

/// Six arguments are passed always: the kernel ignores those it does not know.
///
/// # Safety
/// The caller keeps the contract of the system call `number`; pointers in `args` are valid for it.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(super) unsafe fn call(number: libc::c_long, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    let result: isize;
    // SAFETY: the registers are those of the x86-64 system call convention (syscall(2));
    // rcx and r11 are declared lost; what the call itself does is the caller's contract.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// The same where the child never shares memory: `svc 0` of the AArch64 convention.
///
/// # Safety
/// As above.
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
pub(super) unsafe fn call(number: libc::c_long, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    let result: isize;
    // SAFETY: the registers are those of the AArch64 system call convention (syscall(2)).
    unsafe {
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

/// Miri knows no assembly: in the kernel's place is what a test has put there.
#[cfg(miri)]
pub(super) mod pretended {
    use std::cell::RefCell;

    /// A system call, by number.
    pub(in crate::sys) type Call = (libc::c_long, [usize; 6]);

    type Kernel = Box<dyn FnMut(Call) -> isize>;

    thread_local! {
        static KERNEL: RefCell<Option<Kernel>> = const { RefCell::new(None) };
    }

    /// Answers all that is called by this thread from now on.
    pub(in crate::sys) fn answer(by: impl FnMut(Call) -> isize + 'static) {
        KERNEL.with(|kernel| *kernel.borrow_mut() = Some(Box::new(by)));
    }

    /// ENOSYS where nobody answers.
    pub(in crate::sys) unsafe fn call(number: libc::c_long, args: [usize; 6]) -> isize {
        let none = -(libc::ENOSYS as isize);
        KERNEL.with(|kernel| kernel.borrow_mut().as_mut().map_or(none, |by| by((number, args))))
    }
}
