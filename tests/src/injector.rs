//! System calls of an init that fail because we say so, from its very first one on: ptrace(2) in a
//! thread of its own. As strace(1) would inject them, but many in one life of an init, one after
//! the other, and with the knowledge which was met. Tells nothing about what follows.

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

/// One call that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// As in libc's `SYS_…`.
    pub call: i64,
    /// What it fails with.
    pub error: Errno,
    /// The how manieth of these calls, from 1, since it was armed.
    pub at: usize,
    /// The kernel does it all the same, as close(2) does.
    pub done: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The faults that were met.
    pub fired: Vec<Fault>,
    /// How often each call was made.
    pub calls: BTreeMap<i64, usize>,
}

/// What is done when a call that is to fail comes back.
#[derive(Clone, Copy, Debug)]
enum Fails {
    With(Errno),
    /// The kernel has done something else; this argument was given.
    AsAsked(u64),
}

#[derive(Debug, Default)]
struct Armed {
    /// Calls are counted: the program under test runs.
    counts: bool,
    faults: Vec<Fault>,
    seen: Seen,
}

/// One that is followed. It is killed when this process ends.
#[derive(Clone, Debug)]
pub struct Injector {
    armed: Arc<Mutex<Armed>>,
}

impl Injector {
    /// Follows init from now on. Nothing is counted before it executes `program`; the first faults
    /// are armed by then.
    pub fn follow(init: &Init, program: &str, first: &[Fault]) -> Injector {
        let program = PathBuf::from(program).canonicalize().expect("the program is there");
        Injector::seize(init, program, Armed { faults: first.to_vec(), ..Armed::default() })
    }

    /// Follows an init that is at work: these are armed from now on.
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
            ready.send(()).expect("somebody waits for it");
            // It ends with the process: a call to one that is gone fails.
            let _ = thread.lead(process, &program);
        });
        is_ready.recv().expect("it is followed");
        injector
    }

    /// From now on, and only these.
    pub fn arm(&self, faults: &[Fault]) {
        let mut armed = self.armed();
        armed.faults = faults.to_vec();
        armed.seen = Seen::default();
    }

    /// No more faults; what was seen since it was armed.
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
                            // The kernel keeps the registers of who calls it.
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
                // The kernel lets no fault end the first process of a namespace that is traced.
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

    /// It asks the kernel for something; what that fails with.
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
            // It fails by giving the end there was, as one that asks for it does.
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
