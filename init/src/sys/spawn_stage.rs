//! The steps of a child between clone and exec, in their order. Which one it is at stands
//! in its slot of [`super::spawn_slots`].

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
