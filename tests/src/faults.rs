//! The system calls that the sweep makes fail, their errors, and the allowed outcomes: reads
//! `tests/sweep.tsv`. [`crate::injector`] makes them fail, and the program `sweep` runs the lives.

use crate::injector::Fault;
use nix::errno::Errno;
use std::collections::BTreeMap;

/// The table.
const TABLE: &str = include_str!("../sweep.tsv");

/// Calls of each kind that are made to fail, in each part of a life.
pub const OCCURRENCES: usize = 20;

/// A part of the life of an init.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// From its first call until all units run.
    Boot,
    /// While the script runs.
    Work,
    /// From the shutdown request until init has ended.
    End,
}

impl Part {
    /// All parts, in order.
    pub const ALL: [Part; 3] = [Part::Boot, Part::Work, Part::End];

    /// The word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Part::Boot => "boot",
            Part::Work => "work",
            Part::End => "end",
        }
    }
}

/// The allowed outcome of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Init works as without the fault.
    Well,
    /// Init may crash once and recover; then it works as without the fault.
    Crash,
    /// Init may end at once, with an exit status that reports it.
    Ends,
    /// The fault is not tested.
    Never,
}

/// A fault to be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The part of the life.
    pub part: Part,
    /// The name of the call.
    pub name: &'static str,
    /// The fault and its position.
    pub fault: Fault,
    /// The allowed outcome.
    pub outcome: Outcome,
}

impl Case {
    /// `openat EMFILE`.
    pub fn pair(&self) -> String {
        format!("{} {:?}", self.name, self.fault.error)
    }

    /// `boot openat EMFILE 3`.
    pub fn label(&self) -> String {
        let Fault { error, at, .. } = self.fault;
        format!("{} {} {error:?} {at}", self.part.word(), self.name)
    }
}

/// Each call with each of its errors, in the order of the table.
///
/// # Panics
/// If a line of the table is invalid.
pub fn pairs() -> Vec<(&'static str, Errno)> {
    let mut found = Vec::new();
    for row in rows().filter(|row| row.outcome == Outcome::Well && !row.is_found) {
        let errors = row.errors.split(',').map(error);
        found.extend(errors.map(|error| (row.name, error)));
    }
    found
}

/// Returns true if such a fault did harm once: each sample includes all of them.
pub fn is_found(case: &Case) -> bool {
    let error = format!("{:?}", case.fault.error);
    rows().any(|row| {
        let is_so = row.is_found && row.name == case.name && row.part == case.part.word();
        is_so && row.errors.split(',').any(|word| word == error)
    })
}

/// The faults of this call with this error, if it is made `counts` times in a part.
pub fn cases(name: &'static str, error: Errno, counts: &BTreeMap<(Part, i64), usize>) -> Vec<Case> {
    let call = number(name);
    let mut found = Vec::new();
    for part in Part::ALL {
        let count = counts.get(&(part, call)).copied().unwrap_or(0);
        let outcome = outcome(part, name, error);
        if outcome != Outcome::Never {
            let done = name == "close";
            found.extend((1..=count.min(OCCURRENCES)).map(|at| {
                let fault = Fault { call, error, at, done };
                Case { part, name, fault, outcome }
            }));
        }
    }
    found
}

fn outcome(part: Part, name: &str, error: Errno) -> Outcome {
    let named = format!("{error:?}");
    let applies = |row: &Row| {
        let errors = row.errors == "*" || row.errors.split(',').any(|word| word == named);
        row.name == name && errors && (row.part == "*" || row.part == part.word())
    };
    rows().filter(applies).last().map_or(Outcome::Well, |row| row.outcome)
}

/// A line of the table. Lines with another outcome than `well` are exceptions and have a reason.
struct Row {
    name: &'static str,
    errors: &'static str,
    part: &'static str,
    outcome: Outcome,
    is_found: bool,
}

fn rows() -> impl Iterator<Item = Row> {
    TABLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(|line| {
        let mut cells = line.split('\t');
        let mut cell = || cells.next().unwrap_or_else(|| panic!("a cell is missing: {line}"));
        let (name, errors, part, outcome, reason) = (cell(), cell(), cell(), cell(), cell());
        let is_found = outcome == "found";
        let outcome = match outcome {
            "well" | "found" => Outcome::Well,
            "crash" => Outcome::Crash,
            "ends" => Outcome::Ends,
            "never" => Outcome::Never,
            other => panic!("`{other}` is no outcome: {line}"),
        };
        assert_eq!(
            outcome == Outcome::Well && !is_found,
            reason.is_empty(),
            "a reason is for exceptions: {line}"
        );
        Row { name, errors, part, outcome, is_found }
    })
}

fn error(name: &str) -> Errno {
    let found = (1..134).map(Errno::from_raw).find(|error| format!("{error:?}") == name);
    // Two names for one number.
    let found = found.or((name == "ENOTSUP").then_some(Errno::EOPNOTSUPP));
    found.unwrap_or_else(|| panic!("{name} is no error"))
}

macro_rules! numbers {
    ($($name:ident $number:ident),* $(,)?) => {
        /// The calls of the table, by number.
        const NUMBERS: &[(&str, i64)] = &[$((stringify!($name), libc::$number)),*];
    };
}

numbers! {
    accept4 SYS_accept4, access SYS_access, bind SYS_bind, brk SYS_brk, chdir SYS_chdir,
    chmod SYS_chmod, clock_nanosleep SYS_clock_nanosleep, clone SYS_clone, clone3 SYS_clone3,
    close SYS_close,
    close_range SYS_close_range, connect SYS_connect, dup SYS_dup, dup3 SYS_dup3,
    epoll_create1 SYS_epoll_create1, epoll_ctl SYS_epoll_ctl, epoll_wait SYS_epoll_wait,
    eventfd2 SYS_eventfd2, fallocate SYS_fallocate, fchmod SYS_fchmod, fchmodat SYS_fchmodat,
    fchown SYS_fchown, fcntl SYS_fcntl, flock SYS_flock, fstat SYS_fstat, ftruncate SYS_ftruncate,
    getdents64 SYS_getdents64, getrandom SYS_getrandom, getsockname SYS_getsockname,
    getsockopt SYS_getsockopt, inotify_add_watch SYS_inotify_add_watch,
    inotify_init1 SYS_inotify_init1, inotify_rm_watch SYS_inotify_rm_watch, ioctl SYS_ioctl,
    kill SYS_kill, lgetxattr SYS_lgetxattr, linkat SYS_linkat, listen SYS_listen, lseek SYS_lseek,
    madvise SYS_madvise, memfd_create SYS_memfd_create, mkdir SYS_mkdir, mkdirat SYS_mkdirat,
    mmap SYS_mmap, mount SYS_mount, mprotect SYS_mprotect, mremap SYS_mremap, munmap SYS_munmap,
    newfstatat SYS_newfstatat, openat SYS_openat, openat2 SYS_openat2, pidfd_open SYS_pidfd_open,
    pidfd_send_signal SYS_pidfd_send_signal, pipe2 SYS_pipe2, poll SYS_poll, prctl SYS_prctl, pread64 SYS_pread64, pwrite64 SYS_pwrite64, prlimit64 SYS_prlimit64,
    process_vm_readv SYS_process_vm_readv, read SYS_read, readlink SYS_readlink,
    readlinkat SYS_readlinkat, recvfrom SYS_recvfrom, recvmmsg SYS_recvmmsg, recvmsg SYS_recvmsg,
    rename SYS_rename, renameat SYS_renameat, renameat2 SYS_renameat2, rmdir SYS_rmdir,
    rseq SYS_rseq, rt_sigaction SYS_rt_sigaction, rt_sigprocmask SYS_rt_sigprocmask,
    sched_getaffinity SYS_sched_getaffinity, sched_setscheduler SYS_sched_setscheduler,
    sendmsg SYS_sendmsg, sendto SYS_sendto, sethostname SYS_sethostname,
    setpriority SYS_setpriority, setsid SYS_setsid, setsockopt SYS_setsockopt, shutdown SYS_shutdown,
    sigaltstack SYS_sigaltstack, signalfd4 SYS_signalfd4, socket SYS_socket,
    socketpair SYS_socketpair, statfs SYS_statfs, statx SYS_statx, symlink SYS_symlink,
    symlinkat SYS_symlinkat, timer_create SYS_timer_create, timer_delete SYS_timer_delete,
    timer_settime SYS_timer_settime, timerfd_create SYS_timerfd_create,
    timerfd_settime SYS_timerfd_settime, umount2 SYS_umount2, unlink SYS_unlink,
    unlinkat SYS_unlinkat, waitid SYS_waitid, write SYS_write,
}

/// Calls that cannot fail, do not return, or are made by libc before it can report an error.
const NEVER_FAIL: [i64; 13] = [
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_exit_group,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_arch_prctl,
];

/// Returns true if the call is in the table or never fails.
pub fn is_known(number: i64) -> bool {
    NEVER_FAIL.contains(&number) || NUMBERS.iter().any(|(_, known)| *known == number)
}

/// The number, as in libc's `SYS_…`.
///
/// # Panics
/// If it is not listed above.
pub fn number(name: &str) -> i64 {
    let found = NUMBERS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("{name} has no number here")).1
}
