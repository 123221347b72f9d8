//! The data that PID 1 prepares for a child, as owned values, and the child's steps. PID 1 always
//! prepares the [`Frame`]; a forked child may build [`Orders`] itself (env-files).

use std::ffi::CString;
use std::os::fd::RawFd;

/// A resource limit as prlimit64(2) takes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// RLIMIT_*.
    pub resource: u32,
    /// The soft limit; u64::MAX is infinity.
    pub soft: u64,
    /// The hard limit; u64::MAX is infinity.
    pub hard: u64,
}

/// The settings that do not depend on the program.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The directory of a cgroup v2; `None` means PID 1's own.
    pub cgroup: Option<RawFd>,
    /// True if the child joins the cgroup itself instead of by the clone.
    pub joins_by_itself: bool,
    /// The oom_score_adj in digits; `None` means PID 1's.
    pub score: Option<Vec<u8>>,
    /// The sources of descriptors 0, 1 and 2; all are 3 or higher.
    pub stdio: [RawFd; 3],
    /// The sources of descriptors 3, 4 and up; all are at least [`Frame::floor`].
    pub passed: Vec<RawFd>,
    /// The write end of the report pipe, closed by the exec; at least the floor. `None` if PID 1
    /// checks the shared memory instead.
    pub report: Option<RawFd>,
    /// A source and its target above the passed descriptors; the source is at least the floor.
    pub placed: Option<(RawFd, RawFd)>,
}

impl Frame {
    /// The first number above the program's descriptors.
    pub(crate) fn floor(passed: usize, placed: Option<RawFd>) -> RawFd {
        let passed = RawFd::try_from(passed).unwrap_or(0).saturating_add(3);
        passed.max(placed.map_or(0, |placed| placed.saturating_add(1)))
    }
}

/// Capability settings of the program. capabilities(7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// The capabilities that stay in the bounding set.
    pub bound: Option<u64>,
    /// The ambient set.
    pub ambient: u64,
    /// PR_SET_SECUREBITS; 0 leaves them unchanged.
    pub secure_bits: u8,
    /// PR_SET_NO_NEW_PRIVS.
    pub no_new: bool,
}

/// The program to run and its credentials.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    /// The programs to try in order, as execvp(3) does: more than one for a bare name.
    pub programs: Vec<CString>,
    pub argv: Vec<CString>,
    /// The environment as `N=V`.
    pub envp: Vec<CString>,
    /// True to append `LISTEN_PID=` with the child's own pid.
    pub listen_pid: bool,
    /// The limits, set in this order.
    pub limits: Vec<Limit>,
    /// Supplementary groups.
    pub groups: Option<Vec<u32>>,
    /// The value of all three gids.
    pub gid: Option<u32>,
    /// The value of all three uids.
    pub uid: Option<u32>,
    /// The capability settings, applied around the change of user; `None` if not requested.
    pub rights: Option<Rights>,
    /// chroot(2).
    pub root: Option<CString>,
    /// The working directory, entered as the user.
    pub dir: CString,
    /// True if `/` replaces a missing directory.
    pub dir_optional: bool,
    /// The umask.
    pub umask: u32,
}

/// The current step of a child. The numbers are those in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Step {
    /// No step is done yet.
    Begin = 0,
    /// Joining the cgroup, if the clone did not.
    Cgroup,
    /// setsid.
    Session,
    /// Descriptors 0–2 and the passed ones.
    Stdio,
    /// A condition. The steps up to `ExecLine` run only in a forked child, except the OOM score.
    Condition,
    /// An assertion.
    Assert,
    /// Creating a directory.
    Directory,
    /// The OOM score and the scheduling.
    Schedule,
    /// Reading env-files.
    EnvFile,
    /// Building the words of the command (in a forked child only).
    ExecLine,
    /// Resource limits.
    Limits,
    /// chroot.
    Root,
    /// Capabilities, before and after the change of user.
    Rights,
    /// Supplementary groups and group.
    Group,
    /// User.
    User,
    /// The working directory.
    WorkingDir,
    /// execve.
    Execve,
}

// Without a gap, the last of 17 steps has this number; `from_number` relies on it.
const _: () = assert!(Step::Execve as u32 == 16);

impl Step {
    pub(super) fn from_number(number: u32) -> Step {
        let known = (0..=Step::Execve as u32).contains(&number);
        // SAFETY: the numbers of the steps have no gaps.
        if known { unsafe { std::mem::transmute::<u32, Step>(number) } } else { Step::Begin }
    }
}
