//! The active runs and their processes. It holds facts only, as part of the state.

use crate::base::procfs;
use crate::service::fd_store::Store;
use crate::service::pid_file::Look;
use crate::service::sequence::{Alarm, CommandKind, CommandSequence, Outcome, Plan};
use crate::spawn::{ExecResult, Report, failure};
use crate::state::carried::KeptFd;
use crate::state::table::{Table, Watched};
use crate::sys::{Pid, signal, wait};
use groundstate_units::machine::event::{ExecFailure, RunId};
use groundstate_units::spec::{Exit, Live, NotifyAccess, Run};
use groundstate_units::text::fields::{self, is_default};
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// At most one look for each run.
pub(crate) type Looks = BTreeMap<RunId, Look>;

/// All runs. A unit has one, plus ended ones that are being removed.
#[derive(Default)]
pub(crate) struct Runs {
    /// Descriptors that services stored for their next runs.
    pub(crate) store: Watched<Store>,
    /// Pid files that are being read.
    pub(crate) looks: Watched<Looks>,
    by_id: Table<RunId, Box<Running>>,
    /// The latest run of each unit.
    by_name: BTreeMap<Name, RunId>,
    /// Processes started by init, until they are reaped: their pids cannot be reused before that.
    by_pid: BTreeMap<i32, RunId>,
    /// Main processes not started by init. A foreign child may exit and its pid be reused, even by
    /// init's own child, before init notices.
    by_main: BTreeMap<i32, RunId>,
    /// Watched descriptors of runs: exec reports, pidfds, ready-fds.
    by_token: BTreeMap<usize, RunId>,
    /// Runs that have, or had, a deadline.
    timed: BTreeSet<RunId>,
    /// Reaped processes whose last messages have not been handled yet.
    ended: BTreeMap<i32, (RunId, CommandKind)>,
    /// Tokens of exec reports that may not have been read yet, oldest first.
    pub(crate) reports: VecDeque<usize>,
    /// Tokens of watched main processes that have exited, noted at the start of this turn.
    pub(crate) mains_ended: Vec<usize>,
}

impl Runs {
    /// Restores the runs of an earlier image.
    pub(crate) fn restored<'a>(
        all: BTreeMap<RunId, Running>,
        store: Store,
        looks: Looks,
        reaped: impl Iterator<Item = &'a Reaped>,
    ) -> Runs {
        let mut runs = Runs { store: store.into(), looks: looks.into(), ..Runs::default() };
        reaped.for_each(|one| runs.note_reaped(one.pid, one.run, one.part));
        for (id, running) in all {
            let lines = running.lines.iter().map(|(pid, _)| *pid);
            runs.by_pid.extend(lines.map(|pid| (pid, id)));
            let watched = match &running.main {
                Some(Main::Other { pid, token, .. }) => {
                    runs.by_main.insert(*pid, id);
                    Some(*token)
                }
                Some(Main::Child(pid)) => {
                    runs.by_pid.insert(*pid, id);
                    None
                }
                None => None,
            };
            let ready = running.ready_pipe.as_ref().map(|ready| ready.token);
            let reports = running.reports.iter().map(|started| started.token);
            runs.reports.extend(reports.clone());
            runs.by_token.extend(reports.chain(watched).chain(ready).map(|token| (token, id)));
            runs.timed.insert(id);
            runs.insert(id, running);
        }
        runs.reports.make_contiguous().sort_unstable();
        runs
    }

    /// The runs as a table of records.
    pub(crate) fn table(&mut self) -> &mut Table<RunId, Box<Running>> {
        &mut self.by_id
    }

    /// All runs, ordered by id.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (RunId, &mut Running)> {
        self.by_id.iter_mut().map(|(run, running)| (*run, &mut **running))
    }

    /// Notes that the poll watches this token for the run.
    pub(crate) fn watch(&mut self, token: usize, run: RunId) {
        self.by_token.insert(token, run);
    }

    /// Forgets a token.
    pub(crate) fn unwatch(&mut self, token: usize) {
        self.by_token.remove(&token);
    }

    /// The run that the poll watches this token for.
    pub(crate) fn watched(&self, token: usize) -> Option<RunId> {
        self.by_token.get(&token).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn insert(&mut self, run: RunId, running: Running) {
        self.by_name.insert(running.name.clone(), run);
        self.by_id.insert(run, Box::new(running));
    }

    pub(crate) fn get(&self, run: RunId) -> Option<&Running> {
        self.by_id.get(&run).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, run: RunId) -> Option<&mut Running> {
        self.by_id.get_mut(&run).map(Box::as_mut)
    }

    /// The main process of this run.
    pub(crate) fn main(&self, run: RunId) -> Option<&Main> {
        self.get(run)?.main.as_ref()
    }

    /// All runs, ordered by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RunId, &Running)> {
        self.by_id.iter().map(|(run, running)| (*run, &**running))
    }

    /// Records a process that init started for the run.
    pub(crate) fn own(&mut self, pid: i32, run: RunId, part: CommandKind) {
        self.by_pid.insert(pid, run);
        if let Some(running) = self.by_id.get_mut(&run) {
            running.lines.push((pid, part));
        }
    }

    /// Records a child of init, started or adopted, as the run's main process.
    pub(crate) fn own_main(&mut self, pid: i32, run: RunId) {
        self.by_pid.insert(pid, run);
    }

    /// Forgets `pid` as the run's main process. Commands started by init remain mapped to the run.
    pub(crate) fn forget_own_main(&mut self, pid: i32, run: RunId) {
        if self.get(run).is_none_or(|running| running.line(pid).is_none()) {
            take_of(&mut self.by_pid, pid, run);
        }
    }

    /// Records a process that init did not start as the run's main process.
    pub(crate) fn adopt(&mut self, pid: i32, token: usize, run: RunId) {
        self.by_main.insert(pid, run);
        self.by_token.insert(token, run);
    }

    /// Forgets such a process.
    pub(crate) fn abandon(&mut self, pid: i32, token: usize, run: RunId) {
        take_of(&mut self.by_main, pid, run);
        self.by_token.remove(&token);
    }

    /// The run that init started this process for.
    pub(crate) fn run_of_child(&self, pid: i32) -> Option<RunId> {
        self.by_pid.get(&pid).copied()
    }

    /// The run of this process, as a child of init or as a main process.
    pub(crate) fn run_of_process(&self, pid: i32) -> Option<RunId> {
        self.run_of_child(pid).or_else(|| self.by_main.get(&pid).copied())
    }

    /// Removes a reaped process from all tables.
    pub(crate) fn remove_process(&mut self, pid: i32) -> Option<(RunId, CommandKind)> {
        let Some(run) = self.by_pid.remove(&pid) else {
            let run = self.by_main.remove(&pid)?;
            let main = self.by_id.get_mut(&run)?.main.take_if(|main| main.is_found_as(pid))?;
            if let Main::Other { token, .. } = main {
                self.by_token.remove(&token);
            }
            return Some((run, CommandKind::Main));
        };
        let running = self.by_id.get_mut(&run)?;
        if running.current == Some(pid) {
            running.current = None;
        }
        let part = running.lines.iter().position(|(of, _)| *of == pid);
        let part = part.map(|at| running.lines.swap_remove(at).1);
        // A main process recorded under that pid by a pidfd was another process; its pidfd reports
        // its exit.
        let main = running.main.take_if(|main| main.pid() == pid && !main.is_found_as(pid));
        part.or(main.map(|_| CommandKind::Main)).map(|part| (run, part))
    }

    /// Returns true if the main process has been replaced by another one (MAINPID=): its exit does
    /// not end the run.
    pub(crate) fn has_handed_on(&self, run: RunId, part: CommandKind) -> bool {
        let Some(running) = self.get(run) else { return false };
        let is_line = matches!(part, CommandKind::Start(_)) && running.procedure.is_foreground();
        (is_line || part == CommandKind::Main) && running.main.is_some()
    }

    /// Forgets the main process behind this pidfd, which has exited and is not init's child.
    /// Returns false if the pidfd belongs to no main process any more.
    pub(crate) fn lose_main(&mut self, run: RunId, token: usize) -> bool {
        let is_it = |main: &mut Main| matches!(main, Main::Other { token: at, .. } if *at == token);
        let running = self.by_id.get_mut(&run);
        let main = running.and_then(|running| running.main.take_if(is_it));
        if let Some(main) = &main {
            self.abandon(main.pid(), token, run);
        }
        main.is_some()
    }

    /// Records that the process is reaped. Its messages count until [`Runs::forget_reaped`].
    pub(crate) fn note_reaped(&mut self, pid: i32, run: RunId, part: CommandKind) {
        self.ended.insert(pid, (run, part));
    }

    /// Forgets a reaped process: its last messages have been handled.
    pub(crate) fn forget_reaped(&mut self, pid: i32) {
        self.ended.remove(&pid);
    }

    /// The run that a process may speak for, and the command that it is if init started it. `whose`
    /// gives the run of its cgroup.
    pub(crate) fn speaker(
        &self,
        pid: i32,
        whose: impl FnOnce() -> Option<RunId>,
    ) -> Option<(RunId, Option<CommandKind>)> {
        if let Some(run) = self.run_of_child(pid) {
            return Some((run, self.get(run)?.line(pid)));
        }
        if let Some((run, part)) = self.ended.get(&pid).copied() {
            return Some((run, Some(part)));
        }
        // A main process may have exited and its pid be reused, so the process's cgroup is checked
        // first.
        let found =
            || self.by_main.get(&pid).copied().filter(|run| !self.has_reused_pid(pid, *run));
        let run = whose().or_else(found)?;
        Some((run, None))
    }

    /// Returns true if the main process recorded under that pid has exited and another process has
    /// the pid.
    fn has_reused_pid(&self, pid: i32, run: RunId) -> bool {
        self.main(run).is_none_or(Main::is_gone)
            && procfs::stat(Pid::from_raw(pid)).is_some_and(|stat| !stat.ended)
    }

    /// Removes a run that is over.
    pub(crate) fn remove(&mut self, run: RunId) -> Option<Box<Running>> {
        let running = self.by_id.remove(&run)?;
        self.timed.remove(&run);
        self.looks.remove(&run);
        for (pid, _) in &running.lines {
            take_of(&mut self.by_pid, *pid, run);
        }
        for started in &running.reports {
            self.by_token.remove(&started.token);
        }
        if let Some(ready) = &running.ready_pipe {
            self.by_token.remove(&ready.token);
        }
        match &running.main {
            Some(Main::Other { pid, token, .. }) => self.abandon(*pid, *token, run),
            Some(Main::Child(pid)) => take_of(&mut self.by_pid, *pid, run),
            None => {}
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

    /// Notes that a run has a deadline.
    pub(crate) fn note_deadline(&mut self, run: RunId) {
        self.timed.insert(run);
    }

    /// The runs that have, or had, a deadline.
    pub(crate) fn timed(&self) -> impl Iterator<Item = (RunId, &Running)> {
        self.timed.iter().filter_map(|run| Some((*run, self.get(*run)?)))
    }

    /// The earliest deadline of a run.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let looks = self.looks.values().map(|look| look.until);
        self.timed.iter().filter_map(|run| self.by_id.get(run)?.due()).chain(looks).min()
    }

    /// The runs with a deadline that has passed.
    pub(crate) fn due(&mut self, now: Time) -> Vec<RunId> {
        let Runs { timed, by_id, .. } = self;
        timed.retain(|run| by_id.get(run).is_some_and(|running| running.due().is_some()));
        let is_due = |run: &&RunId| {
            by_id.get(run).and_then(|running| running.due()).is_some_and(|at| at <= now)
        };
        timed.iter().filter(is_due).copied().collect()
    }
}

/// Removes the entry only if it is this run's, because the pid may belong to another run by now.
fn take_of(map: &mut BTreeMap<i32, RunId>, pid: i32, run: RunId) {
    if map.get(&pid) == Some(&run) {
        map.remove(&pid);
    }
}

// One active run
//
// Its definition, its processes, its progress and its deadlines. Facts only, part of the state.

/// The main process of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Main {
    /// A child of init: its pid is not reused before it is reaped.
    Child(i32),
    /// Another process, held by a pidfd, which never refers to another process. Init watches the
    /// pidfd, the only report of the exit of a foreign child.
    Other {
        pid: i32,
        pidfd: KeptFd<OwnedFd>,
        /// Token of the poll.
        token: usize,
    },
}

impl Main {
    pub(crate) fn pid(&self) -> i32 {
        match self {
            Main::Child(pid) | Main::Other { pid, .. } => *pid,
        }
    }

    /// Returns true if it has not exited, whether init knows that or not.
    pub(crate) fn lives(&self) -> bool {
        match self {
            Main::Child(pid) => wait::is_living_child(Pid::from_raw(*pid)),
            Main::Other { pidfd, .. } => !signal::has_ended(pidfd.as_fd()),
        }
    }

    /// Returns true for a child of init that is not reaped, so that its pid is still its own.
    pub(crate) fn is_not_reaped(&self) -> bool {
        matches!(self, Main::Child(pid) if wait::is_child(Pid::from_raw(*pid)))
    }

    /// Returns true if it has exited and was not init's child: its pid may be reused.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Main::Other { pidfd, .. } if signal::has_ended(pidfd.as_fd()))
    }

    /// Returns true if init did not start it and it was recorded with this pid.
    pub(super) fn is_found_as(&self, of: i32) -> bool {
        matches!(self, Main::Other { pid, .. } if *pid == of)
    }
}

/// The search for a pid file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Search {
    /// The time of the next look.
    pub(crate) at: Time,
    /// The pause after it.
    pub(crate) pause: Duration,
    /// The time since which the file has been invalid.
    pub(crate) wrong_since: Option<Time>,
}

/// A cloned child.
#[derive(Serialize, Deserialize)]
pub(crate) struct Started {
    /// Token of the poll.
    pub(crate) token: usize,
    pub(crate) pid: i32,
    /// The command that it runs.
    pub(crate) part: CommandKind,
    /// Its exec report.
    pub(crate) report: Report,
}

/// The pipe of a `ready-fd`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReadyPipe {
    /// Token of the poll.
    pub(crate) token: usize,
    /// The read end.
    pub(crate) pipe: KeptFd<OwnedFd>,
}

/// One run.
#[derive(Serialize, Deserialize)]
pub(crate) struct Running {
    /// The unit.
    pub(crate) name: Name,
    /// The encoded [`Run`] that it was started with, as in its generation.
    #[serde(skip)]
    pub(crate) definition: Arc<[u8]>,
    /// The decoded definition, while commands of the start are left to run.
    #[serde(skip)]
    pub(crate) spec: Option<Rc<Run>>,
    /// Which processes may send notify messages.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) notify_access: NotifyAccess,
    /// The pid file that will name the main process.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) pid_file: Option<Box<str>>,
    /// The unit's targets at the start, for the log.
    #[serde(skip)]
    pub(crate) targets: Arc<[Name]>,
    /// The progress of its commands.
    pub(crate) procedure: CommandSequence,
    /// Processes that init started for it and has not reaped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) lines: Vec<(i32, CommandKind)>,
    /// The process of the current command.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) current: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) main: Option<Main>,
    /// The pid of the present or last main process; 0 if there was none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) last_main: i32,
    /// Children without an exec result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) reports: Vec<Started>,
    /// The write end of its output, while commands of the start are left to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<KeptFd<Rc<OwnedFd>>>,
    /// True once its first process has started, which checked the conditions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) has_started: bool,
    /// Its timers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) alarms: BTreeMap<Alarm, Time>,
    /// The pipe of its `ready-fd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ready_pipe: Option<ReadyPipe>,
    /// The search for its pid file, while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) search: Option<Box<Search>>,
    /// Deadline for the logger to read the last lines.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) drains_until: Option<Time>,
}

/// The data of a run that does not change after its start: a record of its own, so that the record
/// of [`Running`] is small.
#[derive(Serialize, Deserialize)]
pub(crate) struct RunConstants {
    plan: Arc<Plan>,
    #[serde(default)]
    live: Arc<Live>,
    #[serde(default, skip_serializing_if = "<[Name]>::is_empty")]
    targets: Arc<[Name]>,
    /// The encoded [`Run`]; empty if it is that of the generation.
    #[serde(default, skip_serializing_if = "<[u8]>::is_empty", with = "fields::bytes")]
    definition: Arc<[u8]>,
}

impl Running {
    /// Returns the data that does not change. `own` is the definition in the generation.
    pub(crate) fn constants(&self, own: Option<&Arc<[u8]>>) -> RunConstants {
        let is_own = own == Some(&self.definition);
        RunConstants {
            plan: self.procedure.plan.clone(),
            live: self.procedure.live.clone(),
            targets: self.targets.clone(),
            definition: if is_own { Arc::default() } else { self.definition.clone() },
        }
    }

    /// Takes over the data that does not change. Returns `None` if neither the record nor the
    /// generation has a definition.
    pub(crate) fn set_constants(
        &mut self,
        constants: RunConstants,
        own: Option<&Arc<[u8]>>,
    ) -> Option<()> {
        let RunConstants { plan, live, targets, definition } = constants;
        (self.procedure.plan, self.procedure.live, self.targets) = (plan, live, targets);
        self.definition = if definition.is_empty() { own?.clone() } else { definition };
        Some(())
    }

    /// A new run without any process.
    pub(crate) fn new(
        name: Name,
        definition: Arc<[u8]>,
        spec: Run,
        targets: Arc<[Name]>,
        procedure: CommandSequence,
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

    /// The definition that the run was started with. Returns `None` if its bytes are damaged.
    pub(crate) fn spec(&self) -> Option<Rc<Run>> {
        self.spec.clone().or_else(|| Run::decode(&self.definition).map(Rc::new))
    }

    /// Takes the exec report that matches, because its result is known.
    pub(crate) fn take_report(&mut self, is_it: impl Fn(&Started) -> bool) -> Option<Started> {
        let at = self.reports.iter().position(is_it)?;
        let started = self.reports.swap_remove(at);
        if self.reports.is_empty() {
            self.reports = Vec::new();
        }
        Some(started)
    }

    /// The result of a start after the child's exit.
    fn verdict(&self, started: &mut Started) -> Option<ExecResult<ExecFailure>> {
        let Err(broken) = started.report.at_exit() else { return Some(Ok(())) };
        let spec = self.spec()?;
        Some(Err(failure(self.name.as_str(), &spec, started.part.of(&spec), broken)))
    }

    /// The command that init started as this process.
    pub(crate) fn line(&self, pid: i32) -> Option<CommandKind> {
        self.lines.iter().find(|(of, _)| *of == pid).map(|(_, part)| *part)
    }

    /// The earliest of the run's own deadlines. The machine has others, which are not included.
    pub(super) fn due(&self) -> Option<Time> {
        let search = self.search.as_ref().map(|search| search.at);
        let alarm = self.alarms.values().min().copied();
        [search, self.drains_until, alarm].into_iter().flatten().min()
    }
}

impl Runs {
    /// Removes a reaped process from the tables. Returns `None` if it belongs to no run.
    pub(crate) fn reap(&mut self, pid: Pid, exit: Exit) -> Option<Reaped> {
        let run = self.run_of_process(pid.as_raw())?;
        let running = self.get_mut(run)?;
        let mut started = running.take_report(|started| started.pid == pid.as_raw());
        let verdict = started.as_mut().and_then(|started| running.verdict(started));
        if let Some(started) = started {
            self.unwatch(started.token);
        }
        let (run, part) = self.remove_process(pid.as_raw())?;
        let has_handed_on = self.has_handed_on(run, part);
        let name = self.get(run)?.name.clone();
        self.note_reaped(pid.as_raw(), run, part);
        Some(Reaped { name, pid: pid.as_raw(), run, part, exit, verdict, has_handed_on })
    }
}

/// A reaped process of a run. It is part of the state until its exit is reported to the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reaped {
    pub(crate) name: Name,
    pub(crate) pid: i32,
    pub(crate) run: RunId,
    pub(crate) part: CommandKind,
    pub(crate) exit: Exit,
    pub(crate) verdict: Option<ExecResult<ExecFailure>>,
    /// True if another main process had replaced it before it was reaped.
    #[serde(default)]
    pub(crate) has_handed_on: bool,
}

/// The end of the last run of a unit that other units react to.
pub(crate) struct LastEnd {
    pub(crate) run: RunId,
    pub(crate) outcome: Outcome,
}

/// `$EXIT_CODE` and `$EXIT_STATUS` of systemd.exec(5).
pub(crate) fn exit_words(exit: Exit) -> (&'static str, String) {
    match exit {
        Exit::Code(code) => ("exited", code.to_string()),
        Exit::Signal { signal, core } => {
            let name = groundstate_units::text::signal::name(signal);
            (if core { "dumped" } else { "killed" }, name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::sequence::CommandSequence;
    use groundstate_units::machine::event::Stage;
    use groundstate_units::spec::{Kind, Live, Run};
    use groundstate_units::text::fields;
    use groundstate_units::unit::settings::Settings;
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::rc::Rc;
    use std::sync::Arc;

    fn null() -> OwnedFd {
        OwnedFd::from(File::open("/dev/null").unwrap())
    }

    fn running(run: RunId, name: &str) -> Running {
        of_kind(Kind::ForegroundSupervised, run, name)
    }

    fn of_kind(kind: Kind, run: RunId, name: &str) -> Running {
        let (spec, live) = (Run::of(kind), Arc::new(Live::standard(kind, &Settings::default())));
        let procedure = CommandSequence::new(run, &spec, &live);
        let (name, none) = (Name::new(name).unwrap(), Arc::from([]));
        Running::new(name, Arc::from([]), spec, none, procedure, Rc::new(null()))
    }

    /// A run whose main process was found.
    fn found(runs: &mut Runs, run: RunId, pid: i32, token: usize) {
        let mut running = running(run, &format!("of-{}", run.0));
        running.main = Some(Main::Other { pid, pidfd: null().into(), token });
        runs.insert(run, running);
        runs.adopt(pid, token, run);
    }

    #[test]
    fn removed_run_leaves_no_token_or_pid_in_the_tables() {
        let (mut runs, run) = (Runs::default(), RunId(7));
        found(&mut runs, run, 42, 2);
        if let Some(running) = runs.get_mut(run) {
            running.ready_pipe = Some(ReadyPipe { token: 1, pipe: null().into() });
        }
        runs.own(41, run, CommandKind::Start(0));
        runs.watch(1, run);
        runs.remove(run);
        assert!(runs.by_token.is_empty() && runs.by_pid.is_empty() && runs.by_main.is_empty());
    }

    #[test]
    fn exit_of_a_foreign_main_process_keeps_the_child_that_reuses_its_pid() {
        let (mut runs, one, other) = (Runs::default(), RunId(7), RunId(8));
        found(&mut runs, one, 42, 2);
        let mut next = running(other, "next");
        next.main = Some(Main::Child(42));
        runs.insert(other, next);
        runs.own(42, other, CommandKind::Start(0));
        assert_eq!(runs.run_of_process(42), Some(other));
        assert!(runs.lose_main(one, 2) && !runs.lose_main(one, 2));
        assert!(runs.get(one).is_some_and(|running| running.main.is_none()));
        assert_eq!(runs.get(other).and_then(|of| of.line(42)), Some(CommandKind::Start(0)));
        assert_eq!(runs.remove_process(42), Some((other, CommandKind::Start(0))));
        assert!(runs.by_pid.is_empty() && runs.by_main.is_empty() && runs.by_token.is_empty());
    }

    #[test]
    fn exit_of_a_child_does_not_end_a_main_process_that_had_its_pid() {
        let (mut runs, run, other) = (Runs::default(), RunId(7), RunId(8));
        found(&mut runs, run, 42, 2);
        // This run's command reuses the pid, then another run's, before init learns of the exit.
        runs.own(42, run, CommandKind::Reload(0));
        assert_eq!(runs.remove_process(42), Some((run, CommandKind::Reload(0))));
        runs.insert(other, running(other, "next"));
        runs.own(42, other, CommandKind::Start(0));
        runs.remove(other);
        assert_eq!((runs.run_of_child(42), runs.run_of_process(42)), (None, Some(run)));
        // The process became a child of init, which reaps it.
        assert_eq!(runs.remove_process(42), Some((run, CommandKind::Main)));
        assert!(runs.watched(2).is_none() && runs.run_of_process(42).is_none());
    }

    #[test]
    fn only_a_start_command_that_is_the_main_process_can_hand_on() {
        let (one, other, line) = (RunId(7), RunId(8), CommandKind::Start(0));
        let mut runs = Runs::default();
        for (kind, run) in [(Kind::ForegroundNotified, one), (Kind::BackgroundPidfile, other)] {
            let pid = i32::try_from(run.0).unwrap() * 10;
            let mut running = of_kind(kind, run, &format!("of-{}", run.0));
            running.main = Some(Main::Other { pid, pidfd: null().into(), token: 1 });
            runs.insert(run, running);
            runs.own(pid + 1, run, line);
            assert_eq!(runs.remove_process(pid + 1), Some((run, line)));
        }
        assert!(runs.has_handed_on(one, line) && !runs.has_handed_on(other, line));
        assert!(!runs.has_handed_on(one, CommandKind::Post(0)));
        assert!(runs.lose_main(one, 1) && !runs.has_handed_on(one, line));
    }

    #[test]
    fn two_main_processes_with_one_pid_belong_to_their_own_runs() {
        let (mut runs, one, other) = (Runs::default(), RunId(7), RunId(8));
        found(&mut runs, one, 42, 2);
        found(&mut runs, other, 42, 3);
        assert!(runs.lose_main(one, 2));
        assert_eq!((runs.run_of_process(42), runs.watched(3)), (Some(other), Some(other)));
        assert!(runs.lose_main(other, 3));
        assert_eq!(runs.run_of_process(42), None);
    }

    #[test]
    fn last_message_belongs_to_the_reaped_process_and_not_to_an_earlier_main_process() {
        // An unused pid (proc(5), pid_max).
        const UNUSED_PID: i32 = 5_000_000;
        let (mut runs, one, other) = (Runs::default(), RunId(7), RunId(8));
        found(&mut runs, one, UNUSED_PID, 2);
        let speaker = |runs: &Runs, whose: Option<RunId>| runs.speaker(UNUSED_PID, || whose);
        assert_eq!(speaker(&runs, None), Some((one, None)));
        assert_eq!(speaker(&runs, Some(RunId(9))), Some((RunId(9), None)));
        runs.insert(other, running(other, "next"));
        runs.own(UNUSED_PID, other, CommandKind::Start(0));
        assert_eq!(speaker(&runs, Some(one)), Some((other, Some(CommandKind::Start(0)))));
        runs.remove_process(UNUSED_PID);
        runs.note_reaped(UNUSED_PID, other, CommandKind::Start(0));
        assert_eq!(speaker(&runs, Some(one)), Some((other, Some(CommandKind::Start(0)))));
        runs.forget_reaped(UNUSED_PID);
        assert_eq!(speaker(&runs, None), Some((one, None)));
    }

    #[test]
    fn exec_result_of_a_reaped_process_is_the_same_in_the_next_image() {
        let path = "/bin/daemon".to_string();
        let failure = ExecFailure { stage: Stage::Execve, errno: libc::ENOENT, path };
        for verdict in [None, Some(Ok(())), Some(Err(failure))] {
            let name = Name::new("web").unwrap();
            let (part, exit) = (CommandKind::Start(0), Exit::Code(127));
            let (pid, run) = (42, RunId(7));
            let one = Reaped { name, pid, run, part, exit, verdict, has_handed_on: false };
            let bytes = fields::encode(&one).unwrap();
            let again: Reaped = fields::decode(&bytes).unwrap();
            assert_eq!(again.verdict, one.verdict);
        }
    }

    #[test]
    fn size_of_a_run_in_memory_is_bounded() {
        assert!(size_of::<Running>() <= 408, "{}", size_of::<Running>());
    }
}
