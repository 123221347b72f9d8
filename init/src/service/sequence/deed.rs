//! The words of a run's course: its lines, what it waits for in time, what is to be done.

use groundstate_units::machine::event::Event;
use groundstate_units::spec::{ExecLine, Run};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Which line of the unit a process runs. Counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Part {
    /// exec-condition.
    Condition(usize),
    /// exec-start-pre.
    Pre(usize),
    /// exec-start.
    Start(usize),
    /// ready-exec.
    Ready,
    /// exec-start-post.
    Post(usize),
    /// exec-stop.
    Stop(usize),
    /// exec-stop-post.
    StopPost(usize),
    /// exec-reload.
    Reload(usize),
    /// No line: init's own child removes what the unit leaves.
    Clean,
    /// No line: a main process that init did not start itself.
    Main,
    /// No line: init's own child removes the pid file of an earlier run.
    Unlink,
    /// No line: init's own child looks at the pid file.
    Look,
}

impl Part {
    /// Its line of the unit.
    pub(crate) fn of(self, spec: &Run) -> Option<&ExecLine> {
        match self {
            Part::Condition(n) => spec.exec_condition.get(n),
            Part::Pre(n) => spec.exec_start_pre.get(n),
            Part::Start(n) => spec.exec_start.get(n),
            Part::Ready => spec.particular.as_ref().and_then(|p| p.ready_exec.as_ref()),
            Part::Post(n) => spec.exec_start_post.get(n),
            Part::Stop(n) => spec.exec_stop.get(n),
            Part::StopPost(n) => spec.exec_stop_post.get(n),
            Part::Reload(n) => spec.exec_reload.get(n),
            Part::Clean | Part::Main | Part::Unlink | Part::Look => None,
        }
    }

    /// A command beside the main process, whose cgroup may have become one for other cgroups only.
    pub(crate) fn is_helper(self) -> bool {
        matches!(
            self,
            Part::Ready | Part::Post(_) | Part::Stop(_) | Part::StopPost(_) | Part::Reload(_)
        )
    }

    /// The word of its key.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Part::Condition(_) => "exec-condition",
            Part::Pre(_) => "exec-start-pre",
            Part::Start(_) | Part::Main => "exec-start",
            Part::Ready => "ready-exec",
            Part::Post(_) => "exec-start-post",
            Part::Stop(_) => "exec-stop",
            Part::StopPost(_) => "exec-stop-post",
            Part::Reload(_) => "exec-reload",
            Part::Clean => "runtime-dir",
            Part::Unlink | Part::Look => "pid-file",
        }
    }
}

/// Whom a signal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Whom {
    /// The main process; while starting, the process of the line under way.
    Main,
    /// Every process of the run.
    All,
}

/// What a run waits for in time, besides what the machine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Alarm {
    /// Others start first.
    Idle,
    /// `ready-wait` before an exec-start-post.
    ReadyWait,
    /// The next ready-exec.
    ReadyAgain,
    /// `abort-timeout`, or the end of what survived another last signal than KILL.
    Kill,
    /// The main process has ended during a reload that does not end.
    Reload,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Deed {
    /// Start this line.
    Spawn(Part),
    /// Send this signal, and CONT after it: a stopped process can not end.
    Signal(Whom, u8),
    /// SIGKILL to everything, however often.
    Kill,
    /// SIGKILL to the main process and the lines under way alone.
    KillMain,
    /// Report to the machine.
    Tell(Event),
    /// Remove the pid file of an earlier run, then go on as after a line.
    RemovePidFile,
    /// Look for the pid file, now and again until told a verdict.
    SeekPidFile,
    /// A reload has ended, well or not: read the pid file once more, then call
    /// [`Procedure::reload_settled`].
    RereadPidFile(bool),
    /// Look which process the launcher has left, then say so.
    GuessMain,
    /// Let the logger read the last lines, then call [`Procedure::drained`].
    Drain,
    /// Look whether anything is left, then call [`Procedure::looked`].
    Look,
    /// Call [`Procedure::alarm`] after that long.
    Wake(Alarm, Duration),
    /// The run is over; forget it.
    Forget,
}
