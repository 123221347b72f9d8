//! What PID 1 prepares for a child, in owned values, and the numbers of the child's steps. [`Frame`] is
//! settled first; the child itself may make [`Orders`] (env-files).

use std::ffi::CString;
use std::os::fd::RawFd;

/// A resource limit as prlimit64(2) takes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// RLIMIT_*.
    pub resource: u32,
    /// u64::MAX is infinity.
    pub soft: u64,
    /// u64::MAX is infinity.
    pub hard: u64,
}

/// What can be settled before the program and its words are known.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The directory of a cgroup v2; None: where PID 1 is.
    pub cgroup: Option<RawFd>,
    /// It goes in by itself, not by the clone.
    pub goes_in: bool,
    /// Its oom_score_adj, in digits. None: PID 1's.
    pub score: Option<Vec<u8>>,
    /// What becomes 0, 1 and 2. None below 3.
    pub stdio: [RawFd; 3],
    /// What becomes 3, 4 … None below [`Frame::floor`].
    pub passed: Vec<RawFd>,
    /// Kept until exec, which closes it: PID 1 sees the end of a pipe. None below the floor.
    /// None at all: PID 1 looks at its memory instead.
    pub report: Option<RawFd>,
    /// This descriptor becomes that one, above those passed. Not below the floor.
    pub placed: Option<(RawFd, RawFd)>,
    /// fd 0 becomes the controlling terminal.
    pub take_terminal: bool,
}

impl Frame {
    /// The first number that is no descriptor of the program.
    pub(crate) fn floor(passed: usize, placed: Option<RawFd>) -> RawFd {
        let passed = RawFd::try_from(passed).unwrap_or(0).saturating_add(3);
        passed.max(placed.map_or(0, |placed| placed.saturating_add(1)))
    }
}

/// What the program may do besides what its user may. capabilities(7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// The bounding set is cut down to these.
    pub bound: Option<u64>,
    /// The ambient set.
    pub ambient: u64,
    /// PR_SET_SECUREBITS; 0: as they are.
    pub secure_bits: u8,
    /// PR_SET_NO_NEW_PRIVS.
    pub no_new: bool,
}

/// The rest: what to run, and as whom.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    /// Tried in turn, as execvp(3) does: more than one for a bare name.
    pub programs: Vec<CString>,
    /// Words.
    pub argv: Vec<CString>,
    /// `N=V`.
    pub envp: Vec<CString>,
    /// Appends `LISTEN_PID=` with the child's own pid.
    pub listen_pid: bool,
    /// Set in this order.
    pub limits: Vec<Limit>,
    /// Supplementary groups.
    pub groups: Option<Vec<u32>>,
    /// All three gids.
    pub gid: Option<u32>,
    /// All three uids.
    pub uid: Option<u32>,
    /// Set around the change of the user; None: nothing was asked for.
    pub rights: Option<Rights>,
    /// chroot(2).
    pub root: Option<CString>,
    /// Entered as that user.
    pub dir: CString,
    /// `/` stands in where it is missing.
    pub dir_optional: bool,
    /// Mode bits.
    pub umask: u32,
}

/// Where a child is. Numbers are those in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Step {
    /// Nothing done yet.
    Begin = 0,
    /// Entering the cgroup (where the clone did not).
    Cgroup,
    /// setsid, and the terminal where one is asked for.
    Session,
    /// Descriptors 0–2 and those passed on.
    Stdio,
    /// A condition (a forked child only, as all up to the words).
    Condition,
    /// An assertion.
    Assert,
    /// A directory is made.
    Directory,
    /// Scheduling.
    Schedule,
    /// Reading env-files.
    EnvFile,
    /// Putting the words of the line together (a forked child only).
    ExecLine,
    /// Resource limits.
    Limits,
    /// chroot.
    Root,
    /// Capabilities, before the user is changed and after it.
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

impl Step {
    pub(super) fn from_number(number: u32) -> Step {
        const ALL: [Step; 17] = [
            Step::Begin,
            Step::Cgroup,
            Step::Session,
            Step::Stdio,
            Step::Condition,
            Step::Assert,
            Step::Directory,
            Step::Schedule,
            Step::EnvFile,
            Step::ExecLine,
            Step::Limits,
            Step::Root,
            Step::Rights,
            Step::Group,
            Step::User,
            Step::WorkingDir,
            Step::Execve,
        ];
        ALL.into_iter().find(|step| *step as u32 == number).unwrap_or(Step::Begin)
    }
}
