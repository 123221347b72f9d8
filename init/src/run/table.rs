//! The runs that are up, and whose each process is. Facts only: everything here can be
//! found again from the machine's runs and the cgroups.

use super::procedure::{Alarm, Part, Procedure};
use crate::spawn::Report;
use groundstate_units::machine::event::RunId;
use groundstate_units::name::Name;
use groundstate_units::spec::{NotifyAccess, Run};
use groundstate_units::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
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

/// A child that was cloned.
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

/// One run.
pub(crate) struct Running {
    /// Its unit.
    pub(crate) name: Name,
    /// What it was started with: [`Run`], encoded, as in its generation.
    pub(crate) definition: Arc<[u8]>,
    /// The same decoded, while lines of its start are still to be run.
    pub(crate) spec: Option<Rc<Run>>,
    /// Who may speak for it.
    pub(crate) notify_access: NotifyAccess,
    /// Where its main process will be named.
    pub(crate) pid_file: Option<Box<str>>,
    /// Its unit's targets when it was started, for the log.
    pub(crate) targets: Vec<Name>,
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
    pub(crate) output: Option<Rc<OwnedFd>>,
    /// Its first process was started, and asked for its conditions.
    pub(crate) begun: bool,
    /// What it waits for in time.
    pub(crate) alarms: BTreeMap<Alarm, Time>,
    /// The pipe of its `ready-fd`, and its token of the poll.
    pub(crate) ready_pipe: Option<(usize, OwnedFd)>,
    /// Under way while its pid file is looked for.
    pub(crate) search: Option<Search>,
    /// Until when the logger may take to read the last lines.
    pub(crate) drains_until: Option<Time>,
}

impl Running {
    /// What it was started with. None: the bytes are damaged, which they were not at the start.
    pub(crate) fn spec(&self) -> Option<Rc<Run>> {
        self.spec.clone().or_else(|| Run::decode(&self.definition).map(Rc::new))
    }

    /// It is its unit's, and was started for it by init.
    pub(crate) fn line(&self, pid: i32) -> Option<Part> {
        self.lines.iter().find(|(of, _)| *of == pid).map(|(_, part)| *part)
    }

    /// When it has something due that the machine does not know of.
    fn due(&self) -> Option<Time> {
        let search = self.search.map(|search| search.at);
        let alarm = self.alarms.values().min().copied();
        [search, self.drains_until, alarm].into_iter().flatten().min()
    }
}

/// All of them. One of a unit at a time, but for what is being removed.
#[derive(Default)]
pub(crate) struct Runs {
    by_id: BTreeMap<RunId, Box<Running>>,
    /// The latest of each unit.
    by_name: BTreeMap<Name, RunId>,
    by_pid: BTreeMap<i32, RunId>,
    /// Descriptors the poll watches for a run: reports, processes.
    by_token: BTreeMap<usize, RunId>,
    /// Those that have, or had, something due in time.
    timed: BTreeSet<RunId>,
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
        self.by_name.insert(running.name.clone(), run);
        self.by_id.insert(run, Box::new(running));
    }

    /// One.
    pub(crate) fn get(&self, run: RunId) -> Option<&Running> {
        self.by_id.get(&run).map(Box::as_ref)
    }

    /// One.
    pub(crate) fn get_mut(&mut self, run: RunId) -> Option<&mut Running> {
        self.by_id.get_mut(&run).map(Box::as_mut)
    }

    /// In order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RunId, &Running)> {
        self.by_id.iter().map(|(run, running)| (*run, &**running))
    }

    /// A process init started for the run.
    pub(crate) fn own(&mut self, pid: i32, run: RunId, part: Part) {
        self.by_pid.insert(pid, run);
        if let Some(running) = self.by_id.get_mut(&run) {
            running.lines.push((pid, part));
        }
    }

    /// A process that init did not start is the run's main process.
    pub(crate) fn adopt(&mut self, pid: i32, run: RunId) {
        self.by_pid.insert(pid, run);
    }

    /// It is so no longer.
    pub(crate) fn abandon(&mut self, pid: i32, token: usize) {
        self.by_pid.remove(&pid);
        self.by_token.remove(&token);
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
        let part = running.lines.iter().position(|(of, _)| *of == pid);
        let part = part.map(|at| running.lines.swap_remove(at).1);
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
    pub(crate) fn remove(&mut self, run: RunId) -> Option<Box<Running>> {
        let running = self.by_id.remove(&run)?;
        self.timed.remove(&run);
        for (pid, _) in &running.lines {
            self.by_pid.remove(pid);
        }
        for started in &running.reports {
            self.by_token.remove(&started.token);
        }
        if let Some(main) = &running.main {
            self.by_pid.remove(&main.pid());
            if let Main::Other { token, .. } = main {
                self.by_token.remove(token);
            }
        }
        if self.by_name.get(&running.name) == Some(&run) {
            self.by_name.remove(&running.name);
        }
        Some(running)
    }

    /// The latest run of a unit.
    pub(crate) fn latest(&self, name: &Name) -> Option<RunId> {
        self.by_name.get(name).copied()
    }

    /// It has something due in time from now on.
    pub(crate) fn time(&mut self, run: RunId) {
        self.timed.insert(run);
    }

    /// When the first thing of any run is due.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.timed.iter().filter_map(|run| self.by_id.get(run)?.due()).min()
    }

    /// Those of which something is due.
    pub(crate) fn due(&mut self, now: Time) -> Vec<RunId> {
        let Runs { timed, by_id, .. } = self;
        timed.retain(|run| by_id.get(run).is_some_and(|running| running.due().is_some()));
        let is_due = |run: &&RunId| {
            by_id.get(run).and_then(|running| running.due()).is_some_and(|at| at <= now)
        };
        timed.iter().filter(is_due).copied().collect()
    }
}
