//! Crashes a running init from outside, with the shipped binary: ptrace(2). A signal is delivered
//! as by the processor (`si_code` shows that no process sent it), or the next code is replaced by
//! faulty code. The effects are checked elsewhere.

use crate::boot::Init;
use crate::deadline::until;
use crate::process::Process;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Waits until init is a caretaker: it crashed and could not restore its state.
pub fn wait_for_caretaker(init: &Init) {
    let said = || init.output().contains("cannot restore its state");
    until("init says that it cannot restore its state", || said().then_some(()));
}

/// The memory of init's state, with the word of its last commit (0: nothing is committed).
pub fn state_memory(init: &Init) -> Option<(u64, File)> {
    let process = init.process();
    let mut numbers = process.files().into_iter();
    let (number, _) = numbers.find(|(_, file)| file.contains("memfd:state"))?;
    let path = format!("/proc/{}/fd/{number}", process.0);
    let file = File::options().read(true).write(true).open(path).ok()?;
    let mut word = [0; 8];
    file.read_exact_at(&mut word, 8).ok()?;
    Some((u64::from_le_bytes(word), file))
}

/// The word of the last commit.
pub fn commit_word(init: &Init) -> u64 {
    state_memory(init).map_or(0, |(word, _)| word)
}

/// Waits until all events so far are committed: each request makes a commit, too.
pub fn wait_for_commit(init: &Init) {
    let before = commit_word(init);
    until("a later turn is committed", || {
        init.status();
        let word = commit_word(init);
        (word != 0 && word != before).then_some(())
    });
}

/// The signals that count as crashes.
pub const FAULTS: [Signal; 5] =
    [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGILL, Signal::SIGFPE, Signal::SIGABRT];

/// Delivers one of [`FAULTS`], wherever init is.
pub fn crash(init: &Init, fault: Signal) {
    let pid = Pid::from_raw(init.process().0);
    ptrace::seize(pid, ptrace::Options::empty()).expect("init can be traced");
    kill(pid, fault).expect("init is running");
    delivered(pid, fault);
    ptrace::detach(pid, fault).expect("the process continues");
}

/// Stops the process that `begin` makes init start for this unit. It stops before its first
/// instruction, until SIGCONT.
pub fn hold_next(init: &Init, unit: &str, begin: impl FnOnce()) -> Process {
    let pid = Pid::from_raw(init.process().0);
    ptrace::seize(pid, ptrace::Options::PTRACE_O_TRACEFORK).expect("init can be traced");
    begin();
    let held = loop {
        match waitpid(pid, None).expect("init is running") {
            WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_FORK) => {
                let child = ptrace::getevent(pid).expect("a child");
                let child = Pid::from_raw(i32::try_from(child).expect("its pid"));
                waitpid(child, None).expect("init is stopped");
                let process = Process(child.as_raw());
                let is_it =
                    process.read("cgroup").is_some_and(|it| it.contains(&format!("/{unit}.")));
                if is_it {
                    kill(child, Signal::SIGSTOP).expect("the process exists");
                }
                ptrace::detach(child, None).expect("the process continues");
                if is_it {
                    break process;
                }
                ptrace::cont(pid, None).expect("the process continues");
            }
            WaitStatus::Stopped(_, signal) => {
                ptrace::cont(pid, signal).expect("the process continues")
            }
            WaitStatus::PtraceEvent(..) | WaitStatus::PtraceSyscall(_) => {
                ptrace::cont(pid, None).expect("the process continues");
            }
            ended @ (WaitStatus::Exited(..)
            | WaitStatus::Signaled(..)
            | WaitStatus::Continued(_)
            | WaitStatus::StillAlive) => panic!("{ended:?}"),
        }
    };
    ptrace::detach(pid, None).expect("the process continues");
    held
}

/// Waits for the delivery of the signal, and changes it into that of a fault.
fn delivered(pid: Pid, fault: Signal) {
    loop {
        match waitpid(pid, None).expect("it stops") {
            WaitStatus::Stopped(_, signal) if signal == fault => break,
            WaitStatus::Stopped(_, Signal::SIGTRAP)
            | WaitStatus::PtraceEvent(..)
            | WaitStatus::PtraceSyscall(_) => {
                ptrace::cont(pid, None).expect("the process continues")
            }
            WaitStatus::Stopped(_, other) => {
                ptrace::cont(pid, other).expect("the process continues")
            }
            ended @ (WaitStatus::Exited(..)
            | WaitStatus::Signaled(..)
            | WaitStatus::Continued(_)
            | WaitStatus::StillAlive) => panic!("{ended:?}"),
        }
    }
    let mut info = ptrace::getsiginfo(pid).expect("it is stopped by a signal");
    info.si_code = 1;
    ptrace::setsiginfo(pid, &info).expect("the signal is a fault's");
}

/// A system call from which init has just returned.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The number, as in libc's `SYS_…`.
    pub number: i64,
    /// The first argument.
    pub first: i64,
    /// The result.
    pub result: i64,
}

/// A process stepped from one system call to the next, across each exec. It continues when this is
/// dropped.
#[cfg(target_arch = "x86_64")]
#[derive(Debug)]
pub struct Steps {
    pid: Pid,
    pass: Option<Signal>,
}

#[cfg(target_arch = "x86_64")]
impl Steps {
    /// Stops init.
    pub fn of(init: &Init) -> Steps {
        let pid = Pid::from_raw(init.process().0);
        let options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_TRACEEXEC;
        ptrace::seize(pid, options).expect("init can be traced");
        ptrace::interrupt(pid).expect("it can be stopped");
        waitpid(pid, None).expect("it stops");
        Steps { pid, pass: None }
    }

    /// Runs to the end of its next system call. Returns `None` if it has ended.
    pub fn step(&mut self) -> Option<Call> {
        loop {
            ptrace::syscall(self.pid, self.pass.take()).ok()?;
            match waitpid(self.pid, None).ok()? {
                WaitStatus::PtraceSyscall(_) => {
                    let registers = ptrace::getregs(self.pid).ok()?;
                    let number = i64::try_from(registers.orig_rax).unwrap_or(-1);
                    let result = registers.rax.cast_signed();
                    if result != -i64::from(libc::ENOSYS) {
                        return Some(Call { number, first: registers.rdi.cast_signed(), result });
                    }
                }
                WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXEC) => {
                    return Some(Call { number: libc::SYS_execveat, first: 0, result: 0 });
                }
                WaitStatus::Stopped(_, Signal::SIGTRAP) | WaitStatus::PtraceEvent(..) => {}
                WaitStatus::Stopped(_, signal) => self.pass = Some(signal),
                WaitStatus::Exited(..)
                | WaitStatus::Signaled(..)
                | WaitStatus::Continued(_)
                | WaitStatus::StillAlive => return None,
            }
        }
    }

    /// Runs until it has returned from a call for which `come` is true. Init has not seen the
    /// result yet.
    pub fn until(&mut self, come: impl Fn(&Call) -> bool) {
        while !come(&self.step().expect("the process continues")) {}
    }

    /// Runs until init has executed its next image.
    pub fn until_executed(&mut self) {
        self.until(|call| call.number == libc::SYS_execveat && call.result == 0);
    }

    /// Runs until it has forked a child for which this is true. The child stops before its first
    /// instruction until SIGCONT.
    pub fn until_forked(&mut self, is_it: impl Fn(Process) -> bool) -> Process {
        let forks = ptrace::Options::PTRACE_O_TRACEFORK;
        let options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_TRACEEXEC;
        ptrace::setoptions(self.pid, options | forks).expect("it is stopped");
        loop {
            ptrace::cont(self.pid, self.pass.take()).expect("the process continues");
            match waitpid(self.pid, None).expect("it stops") {
                WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_FORK) => {
                    let child = ptrace::getevent(self.pid).expect("it has forked");
                    let child = i32::try_from(child).expect("a pid");
                    let of = Pid::from_raw(child);
                    waitpid(of, Some(WaitPidFlag::__WALL)).expect("it stops at once");
                    let is_it = is_it(Process(child));
                    if is_it {
                        kill(of, Signal::SIGSTOP).expect("the process exists");
                    }
                    ptrace::detach(of, None).expect("it is stopped");
                    if is_it {
                        ptrace::setoptions(self.pid, options).expect("it is stopped");
                        return Process(child);
                    }
                }
                WaitStatus::Stopped(_, Signal::SIGTRAP) | WaitStatus::PtraceEvent(..) => {}
                WaitStatus::Stopped(_, signal) => self.pass = Some(signal),
                ended @ (WaitStatus::Exited(..)
                | WaitStatus::Signaled(..)
                | WaitStatus::PtraceSyscall(_)
                | WaitStatus::Continued(_)
                | WaitStatus::StillAlive) => panic!("{ended:?}"),
            }
        }
    }

    /// Crashes init at this point.
    pub fn crash(&mut self) {
        kill(self.pid, Signal::SIGSEGV).expect("init is running");
        ptrace::cont(self.pid, self.pass.take()).expect("the process continues");
        delivered(self.pid, Signal::SIGSEGV);
        self.pass = Some(Signal::SIGSEGV);
    }

    /// Makes init run this code next.
    fn run(&self, code: &[u8]) {
        let mut registers = ptrace::getregs(self.pid).expect("it is stopped");
        for (at, bytes) in (registers.rip..).step_by(8).zip(code.chunks(8)) {
            let mut word = [0x90; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            let at = std::ptr::without_provenance_mut(usize::try_from(at).expect("an address"));
            ptrace::write(self.pid, at, i64::from_ne_bytes(word)).expect("its code can be changed");
        }
        self.go_to(registers.rip, &mut registers);
    }

    fn go_to(&self, rip: u64, registers: &mut libc::user_regs_struct) {
        registers.rip = rip;
        // Otherwise the kernel would restart the interrupted call.
        registers.orig_rax = u64::MAX;
        ptrace::setregs(self.pid, *registers).expect("it is stopped");
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for Steps {
    fn drop(&mut self) {
        let _ = ptrace::detach(self.pid, self.pass.take());
    }
}

/// Runs init until it has returned from a call for which `come` is true, and crashes it there.
#[cfg(target_arch = "x86_64")]
pub fn crash_when(init: &Init, begin: impl FnOnce(), come: impl Fn(&Call) -> bool) {
    let mut steps = Steps::of(init);
    begin();
    steps.until(come);
    steps.crash();
}

/// Kinds of faulty code.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Writes to address 0.
    Null,
    /// Overflows its stack.
    Stack,
    /// Sets the stack pointer to an invalid address: SIGBUS.
    Nowhere,
    /// Executes an invalid instruction.
    Illegal,
    /// Divides by 0.
    Division,
    /// Raises SIGABRT, as abort(3) does.
    Abort,
    /// Causes a second fault in the handler of the first.
    Twice,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Fault; 7] = [
        Fault::Null,
        Fault::Stack,
        Fault::Nowhere,
        Fault::Illegal,
        Fault::Division,
        Fault::Abort,
        Fault::Twice,
    ];

    /// The machine code.
    #[cfg(target_arch = "x86_64")]
    fn code(self) -> &'static [u8] {
        match self {
            // xor eax,eax; mov [rax],eax
            Fault::Null => &[0x31, 0xc0, 0x89, 0x00],
            // push rax; jmp to it
            Fault::Stack => &[0x50, 0xeb, 0xfd],
            // mov rax,1<<63; mov rsp,rax; push rax
            Fault::Nowhere => {
                &[0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x48, 0x89, 0xc4, 0x50, 0x0f, 0x0b]
            }
            // ud2
            Fault::Illegal | Fault::Twice => &[0x0f, 0x0b],
            // xor ecx,ecx; div ecx
            Fault::Division => &[0x31, 0xc9, 0xf7, 0xf1],
            // tgkill(getpid(), gettid(), SIGABRT)
            Fault::Abort => &[
                0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0x89, 0xc7, 0xb8, 186, 0, 0, 0, 0x0f, 0x05, 0x89,
                0xc6, 0xba, 6, 0, 0, 0, 0xb8, 234, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b,
            ],
        }
    }

    /// Makes init run it.
    #[cfg(target_arch = "x86_64")]
    pub fn strike(self, init: &Init) {
        let mut steps = Steps::of(init);
        steps.run(self.code());
        if !matches!(self, Fault::Twice) {
            return;
        }
        let at = ptrace::getregs(steps.pid).expect("it is stopped").rip;
        // The handler runs: it has just opened the list of descriptors.
        steps.until(|call| call.number == libc::SYS_openat);
        let mut registers = ptrace::getregs(steps.pid).expect("it is stopped");
        steps.go_to(at, &mut registers);
    }
}
