//! The handler for faults of init: SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT. It runs on its own
//! stack, keeps every descriptor open, and executes the prepared binary with arguments that locate
//! the state. It allocates nothing and calls only functions that are
//! async-signal-safe. sigaltstack(2), sigaction(2), signal-safety(7).
//!
//! The handler acts only in the process that called [`arm`], and only on a fault. Signals sent by a
//! process are recorded and otherwise ignored (`si_code` tells them apart). Fault signals are never
//! blocked: the kernel would kill PID 1 at once.

use super::child::pointers;
use crate::sys::signal::FAULTS;
use crate::sys::{inherit, raw, signal};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::ffi::{CStr, CString, c_char};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::{io, ptr};

/// Bytes of the handler's stack.
const STACK: usize = 64 * 1024;

/// Attempts to execute the next image, a tenth of a second apart, before the handler reaps
/// children.
const TRIES_ALONE: u32 = 100;

/// The next image and where to record the fault.
struct Next {
    process: u32,
    binary: i32,
    notes: i32,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    /// Owner of the strings that the pointers refer to.
    _words: Vec<CString>,
}

static NEXT: AtomicPtr<Next> = AtomicPtr::new(ptr::null_mut());
/// Number of faults of this image; the second one is a fault of the handler.
static DEPTH: AtomicU32 = AtomicU32::new(0);

/// Arms the handler: a fault of this process executes `binary` with these arguments. Before that it
/// writes the signal (0 for a panic) and the pending signals into `notes`, eight bytes each. A
/// second call replaces the arguments. The old ones are never freed, because a handler may be
/// reading them.
pub(crate) fn arm(
    binary: BorrowedFd<'_>,
    notes: Option<BorrowedFd<'_>>,
    argv: Vec<CString>,
    envp: Vec<CString>,
) -> io::Result<()> {
    let (first, second) = (pointers(&argv), pointers(&envp));
    let words = argv.into_iter().chain(envp).collect();
    let notes = notes.map_or(-1, |notes| notes.as_raw_fd());
    let (process, binary) = (std::process::id(), binary.as_raw_fd());
    let next = Next { process, binary, notes, argv: first, envp: second, _words: words };
    let before = NEXT.swap(Box::into_raw(Box::new(next)), Ordering::SeqCst);
    if before.is_null() { install() } else { Ok(()) }
}

fn install() -> io::Result<()> {
    let base = super::map(STACK, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, None)?;
    let stack = libc::stack_t { ss_sp: base.as_ptr().cast(), ss_flags: 0, ss_size: STACK };
    // SAFETY: the stack was just mapped and is never unmapped.
    super::check(unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) })?;
    let flags = SaFlags::SA_ONSTACK | SaFlags::SA_NODEFER;
    let action = SigAction::new(SigHandler::SigAction(at_fault), flags, SigSet::empty());
    for fault in FAULTS {
        // SAFETY: the handler keeps to signal-safety(7).
        unsafe { sigaction(fault, &action) }?;
    }
    Ok(())
}

/// Disarms the handler in a forked child, whose faults end it.
pub(super) fn disarm() {
    NEXT.store(ptr::null_mut(), Ordering::SeqCst);
}

/// The next image, if this process is armed.
fn own_next() -> Option<&'static Next> {
    // SAFETY: null, or what `arm` made, which is never freed.
    let next = unsafe { NEXT.load(Ordering::SeqCst).as_ref() };
    // SAFETY: getpid(2).
    let own = unsafe { raw::call(libc::SYS_getpid, [0; 6]) };
    next.filter(|next| isize::try_from(next.process) == Ok(own))
}

extern "C" fn at_fault(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let Some(next) = own_next() else {
        // SAFETY: a child, or init before it is armed: it exits, as without a handler.
        unsafe { raw::call(libc::SYS_exit_group, [128 + signal as usize, 0, 0, 0, 0, 0]) };
        return;
    };
    // SAFETY: the kernel gives a valid siginfo_t; si_pid is read where it is one (SI_TKILL).
    let (code, from) = unsafe { ((*info).si_code, (*info).si_pid()) };
    let is_ours = code == libc::SI_TKILL && u32::try_from(from) == Ok(next.process);
    if code <= 0 && !is_ours {
        signal::record_arrived(signal::bit(signal));
        return;
    }
    execute_next(next, u32::try_from(signal).unwrap_or(0));
}

/// Executes the binary; `signal` is written as described at [`arm`]. A failed exec is retried,
/// because memory may become available. Exited children stay unreaped for the next image during the
/// first attempts.
fn execute_next(next: &Next, signal: u32) {
    // Signals from here on are for the next image; earlier ones are recorded.
    block_all();
    let noted = [u64::from(signal), signal::unhandled()];
    let notes = usize::try_from(next.notes).unwrap_or(usize::MAX);
    // SAFETY: the kernel reads the sixteen bytes.
    unsafe { raw::call(libc::SYS_pwrite64, [notes, noted.as_ptr() as usize, 16, 0, 0, 0]) };
    // After a fault in this code, the simpler and slower function runs; after a further one, none.
    match DEPTH.fetch_add(1, Ordering::SeqCst) {
        0 => inherit::keep_all(),
        1 => inherit::keep_each(),
        _ => {}
    }
    let (argv, envp) = (next.argv.as_ptr() as usize, next.envp.as_ptr() as usize);
    let by = |binary: i32, path: &CStr, how: i32| {
        [binary as usize, path.as_ptr() as usize, argv, envp, how as usize, 0]
    };
    let mut call = by(next.binary, c"", libc::AT_EMPTY_PATH);
    let mut tries = 0u32;
    loop {
        // SAFETY: the lists end in null, and they and their strings are never freed.
        let refused = unsafe { raw::call(libc::SYS_execveat, call) };
        if refused == -(libc::EBADF as isize) {
            // The failing code has closed the descriptor: execute the running binary instead.
            call = by(libc::AT_FDCWD, c"/proc/self/exe", 0);
        }
        tries = tries.saturating_add(1);
        let any = [usize::MAX, 0, libc::WNOHANG as usize, 0, 0, 0];
        // SAFETY: wait4(2) may be given no place to write to.
        while tries > TRIES_ALONE && unsafe { raw::call(libc::SYS_wait4, any) } > 0 {}
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        // SAFETY: the kernel reads one timespec.
        unsafe { raw::call(libc::SYS_nanosleep, [&raw const pause as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Executes the next image after a panic, or from an image that cannot continue. Call it while all
/// inherited descriptors are open. It returns if the handler is not armed, and in a child.
pub(crate) fn by_panic() {
    if let Some(next) = own_next() {
        execute_next(next, 0);
    }
}

/// Blocks signals for the next image, except faults and the signal that ends its waits
/// ([`super::no_linger`]).
fn block_all() {
    let left = FAULTS.into_iter().chain([Signal::SIGURG]);
    let set = left.fold(u64::MAX, |set, signal| set & !signal::bit(signal as i32));
    let call = [libc::SIG_SETMASK as usize, &raw const set as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the kernel reads the eight bytes of the set.
    unsafe { raw::call(libc::SYS_rt_sigprocmask, call) };
}

#[cfg(test)]
mod tests {
    use super::super::{memfd, process, signal, wait};
    use super::*;
    use groundstate_units::spec::Exit;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    /// The exit of a child that is armed and then does this, and the recorded bytes.
    fn fate(work: impl FnOnce()) -> (Exit, [u8; 16]) {
        let notes = memfd::create(c"notes").unwrap();
        let child = process::fork_whole(|| {
            let binary = File::open("/bin/sh").unwrap();
            let words = [c"sh", c"-c", c"exit 42"].map(CString::from).to_vec();
            arm(binary.as_fd(), Some(notes.as_fd()), words, Vec::new()).unwrap();
            work();
            7
        });
        let exit = wait::await_end(child.unwrap()).unwrap();
        let mut noted = [0; 16];
        let _ = File::from(notes).read_exact_at(&mut noted, 0);
        (exit, noted)
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn fault_or_panic_executes_the_next_image() {
        let (exit, noted) = fate(|| std::process::abort());
        assert_eq!((exit, noted[0]), (Exit::Code(42), libc::SIGABRT as u8));
        let (exit, noted) = fate(by_panic);
        assert_eq!((exit, noted[0]), (Exit::Code(42), 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn image_that_cannot_be_executed_at_once_is_executed_later() {
        let path = std::env::temp_dir().join(format!("gs-fault-{}", std::process::id()));
        std::fs::copy("/bin/sh", &path).unwrap();
        // ETXTBSY while the file is open for writing.
        let busy = File::options().append(true).open(&path).unwrap();
        let notes = memfd::create(c"notes").unwrap();
        let child = process::fork(&[notes.as_fd()], || {
            let binary = File::open(&path).unwrap();
            let words = [c"sh", c"-c", c"exit 42"].map(CString::from).to_vec();
            arm(binary.as_fd(), Some(notes.as_fd()), words, Vec::new()).unwrap();
            std::process::abort();
        });
        let child = child.unwrap();
        let notes = File::from(notes);
        let has_tried = || {
            let mut noted = [0; 16];
            let _ = notes.read_exact_at(&mut noted, 0);
            let waits = crate::base::procfs::shown(child).is_some_and(|(_, how)| how == "waiting");
            noted[0] == libc::SIGABRT as u8 && waits
        };
        while !has_tried() {
            std::thread::yield_now();
        }
        drop(busy);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(wait::await_end(child).unwrap(), Exit::Code(42));
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn fault_signal_of_another_process_is_no_fault() {
        let send = || {
            // As in init: the signal pipe of an earlier test may have no reader.
            signal::ignore(Signal::SIGPIPE).unwrap();
            for fault in FAULTS {
                signal::kill(nix::unistd::getpid(), fault as u8).unwrap();
            }
        };
        assert_eq!(fate(send).0, Exit::Code(7));
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn fault_in_a_child_of_the_armed_process_ends_only_the_child() {
        let (exit, _) = fate(|| {
            let child = process::fork(&[], || std::process::abort()).unwrap();
            let ended = wait::await_end(child).unwrap();
            assert_eq!(ended, Exit::Signal { signal: 6, core: false });
        });
        assert!(matches!(exit, Exit::Code(7 | 70)), "{exit:?}");
        // A child that is not disarmed, like one that prepares its own exec.
        let (exit, _) = fate(|| {
            let child = process::fork(&[], || 0).unwrap();
            wait::await_end(child).unwrap();
            let next = NEXT.load(Ordering::SeqCst);
            let child = process::fork(&[], || {
                NEXT.store(next, Ordering::SeqCst);
                by_panic();
                5
            });
            assert_eq!(wait::await_end(child.unwrap()).unwrap(), Exit::Code(5));
        });
        assert_eq!(exit, Exit::Code(7));
    }
}
