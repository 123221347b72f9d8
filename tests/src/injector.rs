//! Makes system calls of an init fail, from its very first one on: ptrace(2) on a thread of its
//! own. Like strace(1), but with many faults in one life of an init, and it reports which were met.
//! The effects are checked elsewhere.

use crate::boot::Init;
use crate::crash::FAULTS;
use crate::process::Process;
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A call that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The number, as in libc's `SYS_…`.
    pub call: i64,
    /// The error.
    pub error: Errno,
    /// The occurrence of the call since the fault was armed, from 1.
    pub at: usize,
    /// True if the kernel still executes the call, as for close(2).
    pub done: bool,
}

/// The faults and calls of a run.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The faults that were met.
    pub fired: Vec<Fault>,
    /// The number of times each call was made.
    pub calls: BTreeMap<i64, usize>,
}

/// How a call fails: with an error, or because its argument was replaced.
#[derive(Clone, Copy, Debug)]
enum Fails {
    With(Errno),
    /// The kernel executes the call with another argument, which makes it a query. This is the
    /// original argument, which is restored afterwards.
    AsAsked(u64),
}

#[derive(Debug, Default)]
struct Armed {
    /// True once the program under test runs, so that calls are counted.
    counts: bool,
    faults: Vec<Fault>,
    seen: Seen,
}

/// A traced init, killed when this process ends.
#[derive(Clone, Debug)]
pub struct Injector {
    armed: Arc<Mutex<Armed>>,
}

impl Injector {
    /// Traces init. Nothing is counted before it executes `program`, at which the first faults are
    /// armed.
    pub fn follow(init: &Init, program: &str, first: &[Fault]) -> Injector {
        let program = PathBuf::from(program).canonicalize().expect("the program exists");
        Injector::seize(init, program, Armed { faults: first.to_vec(), ..Armed::default() })
    }

    /// Traces a running init; these faults are armed at once.
    pub fn attach(init: &Init, faults: &[Fault]) -> Injector {
        let armed = Armed { faults: faults.to_vec(), counts: true, seen: Seen::default() };
        Injector::seize(init, PathBuf::new(), armed)
    }

    fn seize(init: &Init, program: PathBuf, armed: Armed) -> Injector {
        let injector = Injector { armed: Arc::new(Mutex::new(armed)) };
        let process = init.process();
        let (ready, is_ready) = channel();
        let thread = injector.clone();
        std::thread::spawn(move || {
            let pid = Pid::from_raw(process.0);
            let options = Options::PTRACE_O_TRACESYSGOOD
                | Options::PTRACE_O_TRACEEXEC
                | Options::PTRACE_O_EXITKILL;
            ptrace::seize(pid, options).expect("init can be traced");
            ptrace::interrupt(pid).expect("it can be stopped");
            waitpid(pid, None).expect("it stops");
            ready.send(()).expect("the receiver exists");
            // The thread ends with the process: a call on an exited one fails.
            let _ = thread.lead(process, &program);
        });
        is_ready.recv().expect("it is followed");
        injector
    }

    /// Arms only these faults.
    pub fn arm(&self, faults: &[Fault]) {
        let mut armed = self.armed();
        armed.faults = faults.to_vec();
        armed.seen = Seen::default();
    }

    /// Disarms all faults. Returns the observations since they were armed.
    pub fn disarm(&self) -> Seen {
        let mut armed = self.armed();
        armed.faults.clear();
        std::mem::take(&mut armed.seen)
    }

    fn armed(&self) -> MutexGuard<'_, Armed> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lead(&self, process: Process, program: &PathBuf) -> Result<(), Errno> {
        let pid = Pid::from_raw(process.0);
        let (mut pass, mut failing): (Option<Signal>, Option<Fails>) = (None, None);
        loop {
            ptrace::syscall(pid, pass.take())?;
            match waitpid(pid, None)? {
                WaitStatus::PtraceSyscall(_) => {
                    let info = ptrace::syscall_info(pid)?;
                    if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
                        failing = self.enters(pid)?;
                    } else if let Some(fails) = failing.take() {
                        let mut registers = ptrace::getregs(pid)?;
                        match fails {
                            Fails::With(error) => {
                                registers.rax = i64::from(-(error as i32)).cast_unsigned();
                            }
                            // The kernel preserves the registers of its caller.
                            Fails::AsAsked(argument) => registers.rdi = argument,
                        }
                        ptrace::setregs(pid, registers)?;
                    }
                }
                WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXEC) => {
                    if process.link("exe").as_ref() == Some(program) {
                        self.armed().counts = true;
                    }
                }
                WaitStatus::Stopped(_, Signal::SIGTRAP) | WaitStatus::PtraceEvent(..) => {}
                // The kernel ignores a fault signal for the first process of a namespace while it
                // is traced.
                WaitStatus::Stopped(_, signal) if FAULTS.contains(&signal) => {
                    return ptrace::detach(pid, signal);
                }
                WaitStatus::Stopped(_, signal) => pass = Some(signal),
                WaitStatus::Exited(..)
                | WaitStatus::Signaled(..)
                | WaitStatus::Continued(_)
                | WaitStatus::StillAlive => return Ok(()),
            }
        }
    }

    /// Handles the entry of a call and returns how it fails.
    fn enters(&self, pid: Pid) -> Result<Option<Fails>, Errno> {
        let mut registers = ptrace::getregs(pid)?;
        let number = registers.orig_rax.cast_signed();
        let mut armed = self.armed();
        if !armed.counts {
            return Ok(None);
        }
        let count = armed.seen.calls.entry(number).or_default();
        *count += 1;
        let count = *count;
        let met = armed.faults.iter().find(|fault| (fault.call, fault.at) == (number, count));
        let Some(fault) = met.copied() else { return Ok(None) };
        armed.seen.fired.push(fault);
        if number == libc::SYS_brk {
            // brk(2) fails by returning the old end, as a query does.
            let asked = std::mem::replace(&mut registers.rdi, 0);
            ptrace::setregs(pid, registers)?;
            return Ok(Some(Fails::AsAsked(asked)));
        }
        if !fault.done {
            registers.orig_rax = u64::MAX;
            ptrace::setregs(pid, registers)?;
        }
        Ok(Some(Fails::With(fault.error)))
    }
}
