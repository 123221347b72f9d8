//! The two ways of finding the processes of a run; which one it is stands in `status`.

/// How processes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracking {
    /// By the cgroup they are in: nothing escapes.
    Cgroup2,
    /// By session, process group and parent.
    ProcessGroup,
}

impl Tracking {
    /// As `status` and `stats` say it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Tracking::Cgroup2 => "cgroup2",
            Tracking::ProcessGroup => "process-group",
        }
    }
}
