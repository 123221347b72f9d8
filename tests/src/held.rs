//! Holds a load in its middle: the loader is traced (ptrace(2)) from its first instruction until it
//! has read a certain file. The test checks the result of the load.

use crate::boot::Init;
use crate::process::Process;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// The loader continues when this is dropped.
#[derive(Debug)]
pub struct Held(Pid);

impl Held {
    /// Holds the load that `begin` requests once it has read the file whose path ends like this.
    pub fn behind(file: &str, init: &Init, begin: impl FnOnce()) -> Held {
        let first = Pid::from_raw(init.process().0);
        let forks = Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_TRACECLONE;
        ptrace::seize(first, forks).expect("init can be traced");
        begin();
        let held = loop {
            let child = forked(first);
            if has_read(child, file) {
                break Held(child);
            }
            ptrace::cont(first, None).expect("the process continues");
        };
        ptrace::detach(first, None).expect("it is stopped");
        held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = ptrace::detach(self.0, None);
    }
}

/// Waits for the next child; both are stopped.
fn forked(first: Pid) -> Pid {
    loop {
        match waitpid(first, None).expect("it stops") {
            WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_STOP) => {
                ptrace::cont(first, None).expect("the process continues");
            }
            WaitStatus::PtraceEvent(..) => break,
            WaitStatus::Stopped(_, signal) => {
                ptrace::cont(first, signal).expect("the process continues");
            }
            ended @ (WaitStatus::Exited(..)
            | WaitStatus::Signaled(..)
            | WaitStatus::PtraceSyscall(_)
            | WaitStatus::Continued(_)
            | WaitStatus::StillAlive) => panic!("{ended:?}"),
        }
    }
    let child = ptrace::getevent(first).expect("it reports its child");
    let child = Pid::from_raw(i32::try_from(child).expect("a pid"));
    waitpid(child, None).expect("it is traced from the first on");
    ptrace::setoptions(child, Options::PTRACE_O_TRACESYSGOOD).expect("it is stopped");
    child
}

/// Steps the loader from one system call to the next. Returns false if it has exited before.
fn has_read(child: Pid, file: &str) -> bool {
    let mut was_open = false;
    let mut pass = None;
    loop {
        if ptrace::syscall(child, pass.take()).is_err() {
            return false;
        }
        match waitpid(child, None) {
            Ok(WaitStatus::PtraceSyscall(_)) => {
                let files = Process(child.as_raw()).files();
                let is_open = files.values().any(|path| path.ends_with(file));
                if was_open && !is_open {
                    return true;
                }
                was_open = is_open;
            }
            Ok(WaitStatus::Stopped(_, signal)) => pass = Some(signal),
            Ok(WaitStatus::PtraceEvent(..)) => {}
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_) => return false,
            Ok(other @ (WaitStatus::Continued(_) | WaitStatus::StillAlive)) => panic!("{other:?}"),
        }
    }
}
