//! The runs that are up, and whose each process is. Facts only: everything here can be
//! found again from the machine's runs and the cgroups.

use super::procedure::{Part, Procedure};
use crate::spawn::Report;
use groundstate_units::machine::event::RunId;
use groundstate_units::name::Name;
use groundstate_units::spec::Run;
use groundstate_units::time::Time;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// The main process of a run.
#[derive(Debug)]
pub(crate) enum Main {
    /// Init's own child: its pid is its own until it is reaped.
    Child(i32),
    /// Another process; the descriptor is that process and never another one. It
    /// is watched too: the end of one that is not init's child is seen by it alone.
    Other {
        /// Its pid.
        pid: i32,
        /// The process itself.
        pidfd: OwnedFd,
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
}

/// The search for a pid file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// The next look.
    pub(crate) at: Time,
    /// The pause after it.
    pub(crate) pause: Duration,
    /// Since when there has been something wrong with the file.
    pub(crate) wrong_since: Option<Time>,
}

/// One run.
pub(crate) struct Running {
    /// Its unit.
    pub(crate) name: Name,
    /// What it was started with.
    pub(crate) spec: Rc<Run>,
    /// Its unit's targets when it was started, for the log.
    pub(crate) targets: Vec<Name>,
    /// How far it is.
    pub(crate) procedure: Procedure,
    /// Processes init started for it that are not reaped yet.
    pub(crate) lines: BTreeMap<i32, Part>,
    /// The process of the line under way.
    pub(crate) current: Option<i32>,
    /// Its main process.
    pub(crate) main: Option<Main>,
    /// Children not known to have become their program, by token of the poll.
    pub(crate) reports: BTreeMap<usize, (i32, Part, Report)>,
    /// The write end of its output, while lines of its start are still to be run.
    pub(crate) output: Option<Rc<OwnedFd>>,
    /// Under way while its pid file is looked for.
    pub(crate) search: Option<Search>,
    /// Until when the logger may take to read the last lines.
    pub(crate) drains_until: Option<Time>,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Runs {
    by_id: BTreeMap<RunId, Running>,
    by_pid: BTreeMap<i32, RunId>,
    /// Descriptors the poll watches for a run: reports, processes.
    by_token: BTreeMap<usize, RunId>,
}

impl Runs {
    /// The poll watches this for the run.
    pub(crate) fn watch(&mut self, token: usize, run: RunId) {
        self.by_token.insert(token, run);
    }

    /// It does no longer.
    pub(crate) fn unwatch(&mut self, token: usize) {
        self.by_token.remove(&token);
    }

    /// For which run the poll watches this.
    pub(crate) fn watched(&self, token: usize) -> Option<RunId> {
        self.by_token.get(&token).copied()
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// A new one.
    pub(crate) fn insert(&mut self, run: RunId, running: Running) {
        self.by_id.insert(run, running);
    }

    /// One.
    pub(crate) fn get(&self, run: RunId) -> Option<&Running> {
        self.by_id.get(&run)
    }

    /// One.
    pub(crate) fn get_mut(&mut self, run: RunId) -> Option<&mut Running> {
        self.by_id.get_mut(&run)
    }

    /// In order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RunId, &Running)> {
        self.by_id.iter().map(|(run, running)| (*run, running))
    }

    /// A process init started for the run.
    pub(crate) fn own(&mut self, pid: i32, run: RunId, part: Part) {
        self.by_pid.insert(pid, run);
        if let Some(running) = self.by_id.get_mut(&run) {
            running.lines.insert(pid, part);
        }
    }

    /// A process that init did not start is the run's main process.
    pub(crate) fn adopt(&mut self, pid: i32, run: RunId) {
        self.by_pid.insert(pid, run);
    }

    /// Whose process this is, by what init started.
    pub(crate) fn of(&self, pid: i32) -> Option<RunId> {
        self.by_pid.get(&pid).copied()
    }

    /// The process is reaped or no longer the run's: its pid means nothing any more.
    pub(crate) fn disown(&mut self, pid: i32) -> Option<(RunId, Part)> {
        let run = self.by_pid.remove(&pid)?;
        let running = self.by_id.get_mut(&run)?;
        if running.current == Some(pid) {
            running.current = None;
        }
        let part = running.lines.remove(&pid);
        let main = running.main.take_if(|main| main.pid() == pid);
        if let Some(Main::Other { token, .. }) = &main {
            self.by_token.remove(token);
        }
        match part {
            // It has handed its part on to another process (MAINPID=): its end is no end.
            Some(Part::Start(_)) if main.is_none() && running.main.is_some() => None,
            Some(part) => Some((run, part)),
            None => main.map(|_| (run, Part::Main)),
        }
    }

    /// It is over.
    pub(crate) fn remove(&mut self, run: RunId) -> Option<Running> {
        let running = self.by_id.remove(&run)?;
        self.by_pid.retain(|_, of| *of != run);
        self.by_token.retain(|_, of| *of != run);
        Some(running)
    }

    /// The latest run of a unit.
    pub(crate) fn latest(&self, name: &Name) -> Option<RunId> {
        self.by_id.iter().rev().find(|(_, running)| running.name == *name).map(|(run, _)| *run)
    }
}
