//! One run that is up: what it was started with, its processes, how far it is, what it waits for.
//! Facts only, kept over an end of this image; which run a pid is of is in [`super::run_table`].

use super::sequence::{Alarm, Part, Procedure};
use crate::spawn::Report;
use crate::state::carried::KeptFd;
use crate::sys::{Pid, signal, wait};
use groundstate_units::spec::{NotifyAccess, Run};
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The main process of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Main {
    /// Init's own child: its pid is its own until it is reaped.
    Child(i32),
    /// Another process; the descriptor is that process and never another one. It
    /// is watched too: the end of one that is not init's child is seen by it alone.
    Other {
        /// Its pid.
        pid: i32,
        /// The process itself.
        pidfd: KeptFd<OwnedFd>,
        /// Of the poll.
        token: usize,
    },
}

impl Main {
    /// Its pid.
    pub(crate) fn pid(&self) -> i32 {
        match self {
            Main::Child(pid) | Main::Other { pid, .. } => *pid,
        }
    }

    /// It has not ended, whether init has heard of that or not.
    pub(crate) fn lives(&self) -> bool {
        match self {
            Main::Child(pid) => wait::is_living_child(Pid::from_raw(*pid)),
            Main::Other { pidfd, .. } => !signal::has_ended(pidfd.as_fd()),
        }
    }

    /// Init's child, which may have ended: as yet the pid is its own.
    pub(super) fn is_not_reaped(&self) -> bool {
        matches!(self, Main::Child(pid) if wait::is_child(Pid::from_raw(*pid)))
    }

    /// It has ended and was not init's: its pid may be anybody's.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Main::Other { pidfd, .. } if signal::has_ended(pidfd.as_fd()))
    }

    /// Init did not start it, and it had this pid when it was found.
    pub(super) fn is_found_as(&self, of: i32) -> bool {
        matches!(self, Main::Other { pid, .. } if *pid == of)
    }
}

/// The search for a pid file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Search {
    /// The next look.
    pub(crate) at: Time,
    /// The pause after it.
    pub(crate) pause: Duration,
    /// Since when there has been something wrong with the file.
    pub(crate) wrong_since: Option<Time>,
}

/// A child that was cloned.
#[derive(Serialize, Deserialize)]
pub(crate) struct Started {
    /// Its number, by which the poll knows it too.
    pub(crate) token: usize,
    /// Its pid.
    pub(crate) pid: i32,
    /// Its line.
    pub(crate) part: Part,
    /// What it tells.
    pub(crate) report: Report,
}

/// Where a program writes that it is ready.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReadyPipe {
    /// Of the poll.
    pub(crate) token: usize,
    /// The end that is read.
    pub(crate) pipe: KeptFd<OwnedFd>,
}

/// One run.
#[derive(Serialize, Deserialize)]
pub(crate) struct Running {
    /// Its unit.
    pub(crate) name: Name,
    /// What it was started with: [`Run`], encoded, as in its generation. A record of its own.
    #[serde(skip)]
    pub(crate) definition: Arc<[u8]>,
    /// The same decoded, while lines of its start are still to be run.
    #[serde(skip)]
    pub(crate) spec: Option<Rc<Run>>,
    /// Who may speak for it.
    pub(crate) notify_access: NotifyAccess,
    /// Where its main process will be named.
    pub(crate) pid_file: Option<Box<str>>,
    /// Its unit's targets when it was started, for the log.
    pub(crate) targets: Arc<[Name]>,
    /// How far it is.
    pub(crate) procedure: Procedure,
    /// Processes init started for it that are not reaped yet.
    pub(crate) lines: Vec<(i32, Part)>,
    /// The process of the line under way.
    pub(crate) current: Option<i32>,
    /// Its main process.
    pub(crate) main: Option<Main>,
    /// The pid its main process has or had; 0: none so far.
    pub(crate) last_main: i32,
    /// Children not known to have become their program.
    pub(crate) reports: Vec<Started>,
    /// The write end of its output, while lines of its start are still to be run.
    pub(crate) output: Option<KeptFd<Rc<OwnedFd>>>,
    /// Its first process was started, which checked the conditions.
    pub(crate) has_started: bool,
    /// What it waits for in time.
    pub(crate) alarms: BTreeMap<Alarm, Time>,
    /// The pipe of its `ready-fd`, and its token of the poll.
    pub(crate) ready_pipe: Option<ReadyPipe>,
    /// Under way while its pid file is looked for.
    pub(crate) search: Option<Box<Search>>,
    /// Until when the logger may take to read the last lines.
    pub(crate) drains_until: Option<Time>,
}

impl Running {
    /// One of which nothing has happened yet.
    pub(crate) fn new(
        name: Name,
        definition: Arc<[u8]>,
        spec: Run,
        targets: Arc<[Name]>,
        procedure: Procedure,
        output: Rc<OwnedFd>,
    ) -> Running {
        Running {
            name,
            definition,
            notify_access: spec.notify_access,
            pid_file: spec.pid_file.as_deref().map(Box::from),
            spec: Some(Rc::new(spec)),
            targets,
            procedure,
            lines: Vec::with_capacity(1),
            current: None,
            main: None,
            last_main: 0,
            reports: Vec::new(),
            output: Some(output.into()),
            has_started: false,
            alarms: BTreeMap::new(),
            ready_pipe: None,
            search: None,
            drains_until: None,
        }
    }

    /// What it was started with. None: the bytes are damaged, which they were not at the start.
    pub(crate) fn spec(&self) -> Option<Rc<Run>> {
        self.spec.clone().or_else(|| Run::decode(&self.definition).map(Rc::new))
    }

    /// A child is cloned for it. There is one at a time of most runs, and none most of the time.
    pub(crate) fn report(&mut self, started: Started) {
        self.reports.reserve_exact(1);
        self.reports.push(started);
    }

    /// What was reported by the child of which this is so is known.
    pub(crate) fn reported(&mut self, is_it: impl Fn(&Started) -> bool) -> Option<Started> {
        let at = self.reports.iter().position(is_it)?;
        let started = self.reports.swap_remove(at);
        if self.reports.is_empty() {
            self.reports = Vec::new();
        }
        Some(started)
    }

    /// It is its unit's, and was started for it by init.
    pub(crate) fn line(&self, pid: i32) -> Option<Part> {
        self.lines.iter().find(|(of, _)| *of == pid).map(|(_, part)| *part)
    }

    /// When it has something due that the machine does not know of.
    pub(super) fn due(&self) -> Option<Time> {
        let search = self.search.as_ref().map(|search| search.at);
        let alarm = self.alarms.values().min().copied();
        [search, self.drains_until, alarm].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_each_run_stays_small() {
        assert!(size_of::<Running>() <= 408, "{}", size_of::<Running>());
    }
}
