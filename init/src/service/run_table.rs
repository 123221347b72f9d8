//! The runs that are up, and whose each process is. Facts only: everything here can be
//! found again from the machine's runs and the cgroups.

use super::pid_file::Look;
use super::sequence::Outcome;
use super::sequence::{Alarm, CommandKind, CommandSequence};
use crate::base::procfs;
use crate::service::fd_store::Store;
use crate::spawn::ExecResult;
use crate::spawn::Report;
use crate::state::carried::KeptFd;
use crate::state::table::{Table, Watched};
use crate::sys::{Pid, signal, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::{Exit, NotifyAccess, Run};
use groundstate_units::text::fields::is_default;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// One of each run at most.
pub(crate) type Looks = BTreeMap<RunId, Look>;

/// All of them. One of a unit at a time, but for what is being removed.
#[derive(Default)]
pub(crate) struct Runs {
    /// What services left for their next runs.
    pub(crate) store: Watched<Store>,
    /// Pid files that are being looked at.
    pub(crate) looks: Watched<Looks>,
    by_id: Table<RunId, Box<Running>>,
    /// The latest of each unit.
    by_name: BTreeMap<Name, RunId>,
    /// Of processes that init started, until they are reaped: so long nobody else has that pid.
    by_pid: BTreeMap<i32, RunId>,
    /// Of main processes that it did not start. One that is another's child may have ended, and its
    /// pid be anybody's, also init's next child's, before init hears of it.
    by_main: BTreeMap<i32, RunId>,
    /// Descriptors the poll watches for a run: reports, processes.
    by_token: BTreeMap<usize, RunId>,
    /// Those that have, or had, something due in time.
    timed: BTreeSet<RunId>,
    /// Whose processes were reaped just now: what they said before is still to be heard.
    ended: BTreeMap<i32, (RunId, CommandKind)>,
    /// Tokens of main processes that were found and have ended, as this turn began.
    pub(crate) mains_ended: Vec<usize>,
}

impl Runs {
    /// Those of an earlier image of this init.
    pub(crate) fn again<'a>(
        all: BTreeMap<RunId, Running>,
        store: Store,
        looks: Looks,
        reaped: impl Iterator<Item = &'a Reaped>,
    ) -> Runs {
        let mut runs = Runs { store: store.into(), looks: looks.into(), ..Runs::default() };
        reaped.for_each(|one| runs.has_ended(one.pid, one.run, one.part));
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
            runs.by_token.extend(reports.chain(watched).chain(ready).map(|token| (token, id)));
            runs.timed.insert(id);
            runs.insert(id, running);
        }
        runs
    }

    /// The runs as a table of records.
    pub(crate) fn table(&mut self) -> &mut Table<RunId, Box<Running>> {
        &mut self.by_id
    }

    /// In order of their ids.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (RunId, &mut Running)> {
        self.by_id.iter_mut().map(|(run, running)| (*run, &mut **running))
    }

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
    pub(crate) fn own(&mut self, pid: i32, run: RunId, part: CommandKind) {
        self.by_pid.insert(pid, run);
        if let Some(running) = self.by_id.get_mut(&run) {
            running.lines.push((pid, part));
        }
    }

    /// A child of init's, started or left to it, is the run's main process.
    pub(crate) fn own_main(&mut self, pid: i32, run: RunId) {
        self.by_pid.insert(pid, run);
    }

    /// It is so no longer. What init started for the run stays its.
    pub(crate) fn own_main_no_more(&mut self, pid: i32, run: RunId) {
        if self.get(run).is_none_or(|running| running.line(pid).is_none()) {
            take_of(&mut self.by_pid, pid, run);
        }
    }

    /// A process that init did not start is the run's main process.
    pub(crate) fn adopt(&mut self, pid: i32, token: usize, run: RunId) {
        self.by_main.insert(pid, run);
        self.by_token.insert(token, run);
    }

    /// It is so no longer.
    pub(crate) fn abandon(&mut self, pid: i32, token: usize, run: RunId) {
        take_of(&mut self.by_main, pid, run);
        self.by_token.remove(&token);
    }

    /// Whose process this is: init started it.
    pub(crate) fn made(&self, pid: i32) -> Option<RunId> {
        self.by_pid.get(&pid).copied()
    }

    /// Whose process this is, as a child of init's or as a main process.
    pub(crate) fn of(&self, pid: i32) -> Option<RunId> {
        self.made(pid).or_else(|| self.by_main.get(&pid).copied())
    }

    /// The process is reaped: its pid means nothing any more.
    pub(crate) fn disown(&mut self, pid: i32) -> Option<(RunId, CommandKind)> {
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
        // A main process that was found under that pid was another, and is heard of by its descriptor.
        let main = running.main.take_if(|main| main.pid() == pid && !main.is_found_as(pid));
        part.or(main.map(|_| CommandKind::Main)).map(|part| (run, part))
    }

    /// What was the main process as this part has handed that on to another (MAINPID=): its end is no end.
    pub(crate) fn has_handed_on(&self, run: RunId, part: CommandKind) -> bool {
        let Some(running) = self.get(run) else { return false };
        let is_line = matches!(part, CommandKind::Start(_)) && running.procedure.is_foreground();
        (is_line || part == CommandKind::Main) && running.main.is_some()
    }

    /// The main process behind this descriptor, which is not init's child, has ended. False: it is
    /// nobody's any more.
    pub(crate) fn lose_main(&mut self, run: RunId, token: usize) -> bool {
        let is_it = |main: &mut Main| matches!(main, Main::Other { token: at, .. } if *at == token);
        let running = self.by_id.get_mut(&run);
        let main = running.and_then(|running| running.main.take_if(is_it));
        if let Some(main) = &main {
            self.abandon(main.pid(), token, run);
        }
        main.is_some()
    }

    /// The process is reaped; what it said last counts until [`Runs::is_told`].
    pub(crate) fn has_ended(&mut self, pid: i32, run: RunId, part: CommandKind) {
        self.ended.insert(pid, (run, part));
    }

    /// Its last words are heard, and what follows from its end comes now: its pid means nothing any more.
    pub(crate) fn is_told(&mut self, pid: i32) {
        self.ended.remove(&pid);
    }

    /// For whom a process spoke that was reaped just now.
    fn last_spoke(&self, pid: i32) -> Option<(RunId, CommandKind)> {
        self.ended.get(&pid).copied()
    }

    /// For which run a process may have spoken, and in which part if init has started it. `whose`: in
    /// whose cgroup it is by now.
    pub(crate) fn speaker(
        &self,
        pid: i32,
        whose: impl FnOnce() -> Option<RunId>,
    ) -> Option<(RunId, Option<CommandKind>)> {
        if let Some(run) = self.made(pid) {
            return Some((run, self.get(run)?.line(pid)));
        }
        if let Some((run, part)) = self.last_spoke(pid) {
            return Some((run, Some(part)));
        }
        // One that was found may have ended, and its pid be a stranger's: where it is says more.
        let found = || self.by_main.get(&pid).copied().filter(|run| !self.is_strangers(pid, *run));
        let run = whose().or_else(found)?;
        Some((run, None))
    }

    /// The main process that was found under that pid has ended, and another has it.
    fn is_strangers(&self, pid: i32, run: RunId) -> bool {
        let main = self.get(run).and_then(|running| running.main.as_ref());
        main.is_none_or(Main::is_gone)
            && procfs::stat(Pid::from_raw(pid)).is_some_and(|stat| !stat.ended)
    }

    /// It is over.
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

    /// It has something due in time from now on.
    pub(crate) fn time(&mut self, run: RunId) {
        self.timed.insert(run);
    }

    /// When the first thing of any run is due.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let looks = self.looks.values().map(|look| look.until);
        self.timed.iter().filter_map(|run| self.by_id.get(run)?.due()).chain(looks).min()
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

/// That pid may be another run's by now.
fn take_of(map: &mut BTreeMap<i32, RunId>, pid: i32, run: RunId) {
    if map.get(&pid) == Some(&run) {
        map.remove(&pid);
    }
}

// One run that is up: what it was started with, its processes, how far it is, what it waits for.
// Facts only, part of the state.

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
    pub(crate) fn is_not_reaped(&self) -> bool {
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
    pub(crate) part: CommandKind,
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
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) notify_access: NotifyAccess,
    /// Where its main process will be named.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) pid_file: Option<Box<str>>,
    /// Its unit's targets when it was started, for the log.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) targets: Arc<[Name]>,
    /// How far it is.
    pub(crate) procedure: CommandSequence,
    /// Processes init started for it that are not reaped yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) lines: Vec<(i32, CommandKind)>,
    /// The process of the line under way.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) current: Option<i32>,
    /// Its main process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) main: Option<Main>,
    /// The pid its main process has or had; 0: none so far.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) last_main: i32,
    /// Children not known to have become their program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) reports: Vec<Started>,
    /// The write end of its output, while lines of its start are still to be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<KeptFd<Rc<OwnedFd>>>,
    /// Its first process was started, which checked the conditions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) has_started: bool,
    /// What it waits for in time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) alarms: BTreeMap<Alarm, Time>,
    /// The pipe of its `ready-fd`, and its token of the poll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ready_pipe: Option<ReadyPipe>,
    /// Under way while its pid file is looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) search: Option<Box<Search>>,
    /// Until when the logger may take to read the last lines.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) drains_until: Option<Time>,
}

impl Running {
    /// One of which nothing has happened yet.
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
    pub(crate) fn line(&self, pid: i32) -> Option<CommandKind> {
        self.lines.iter().find(|(of, _)| *of == pid).map(|(_, part)| *part)
    }

    /// When it has something due that the machine does not know of.
    pub(super) fn due(&self) -> Option<Time> {
        let search = self.search.as_ref().map(|search| search.at);
        let alarm = self.alarms.values().min().copied();
        [search, self.drains_until, alarm].into_iter().flatten().min()
    }
}

impl Runs {
    /// Takes the process out of the tables; nothing if it is no unit's.
    pub(crate) fn reap(&mut self, pid: Pid, exit: Exit) -> Option<Reaped> {
        let run = self.of(pid.as_raw())?;
        let running = self.get_mut(run)?;
        let started = running.reported(|started| started.pid == pid.as_raw());
        if let Some(started) = &started {
            self.unwatch(started.token);
        }
        let verdict = started.map(|mut started| started.report.at_exit());
        let (run, part) = self.disown(pid.as_raw())?;
        let has_handed_on = self.has_handed_on(run, part);
        let name = self.get(run)?.name.clone();
        self.has_ended(pid.as_raw(), run, part);
        Some(Reaped { name, pid: pid.as_raw(), run, part, exit, verdict, has_handed_on })
    }
}

/// A process of a run that was reaped. It is part of the state until the run is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reaped {
    pub(crate) name: Name,
    pub(crate) pid: i32,
    pub(crate) run: RunId,
    pub(crate) part: CommandKind,
    pub(crate) exit: Exit,
    pub(crate) verdict: Option<ExecResult>,
    /// To another process, before it was reaped.
    #[serde(default)]
    pub(crate) has_handed_on: bool,
}

/// How the last run of a unit ended that brings others in by its end.
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
    use groundstate_units::spec::{Kind, Live, Run};
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
    fn nothing_is_watched_for_a_run_that_is_over() {
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
    fn a_main_process_of_whose_end_nobody_has_heard_shares_its_pid_with_a_child_and_takes_nothing()
    {
        let (mut runs, one, other) = (Runs::default(), RunId(7), RunId(8));
        found(&mut runs, one, 42, 2);
        let mut next = running(other, "next");
        next.main = Some(Main::Child(42));
        runs.insert(other, next);
        runs.own(42, other, CommandKind::Start(0));
        assert_eq!(runs.of(42), Some(other));
        assert!(runs.lose_main(one, 2) && !runs.lose_main(one, 2));
        assert!(runs.get(one).is_some_and(|running| running.main.is_none()));
        assert_eq!(runs.get(other).and_then(|of| of.line(42)), Some(CommandKind::Start(0)));
        assert_eq!(runs.disown(42), Some((other, CommandKind::Start(0))));
        assert!(runs.by_pid.is_empty() && runs.by_main.is_empty() && runs.by_token.is_empty());
    }

    #[test]
    fn the_end_of_a_child_is_not_that_of_a_main_process_that_had_its_pid() {
        let (mut runs, run, other) = (Runs::default(), RunId(7), RunId(8));
        found(&mut runs, run, 42, 2);
        // A line of its own, and then somebody's whose run ends before the other is heard of.
        runs.own(42, run, CommandKind::Reload(0));
        assert_eq!(runs.disown(42), Some((run, CommandKind::Reload(0))));
        runs.insert(other, running(other, "next"));
        runs.own(42, other, CommandKind::Start(0));
        runs.remove(other);
        assert_eq!((runs.made(42), runs.of(42)), (None, Some(run)));
        // It had come to init, which reaps it.
        assert_eq!(runs.disown(42), Some((run, CommandKind::Main)));
        assert!(runs.watched(2).is_none() && runs.of(42).is_none());
    }

    #[test]
    fn a_start_line_that_is_the_main_process_may_hand_on_and_no_other() {
        let (one, other, line) = (RunId(7), RunId(8), CommandKind::Start(0));
        let mut runs = Runs::default();
        for (kind, run) in [(Kind::ForegroundNotified, one), (Kind::BackgroundPidfile, other)] {
            let pid = i32::try_from(run.0).unwrap() * 10;
            let mut running = of_kind(kind, run, &format!("of-{}", run.0));
            running.main = Some(Main::Other { pid, pidfd: null().into(), token: 1 });
            runs.insert(run, running);
            runs.own(pid + 1, run, line);
            assert_eq!(runs.disown(pid + 1), Some((run, line)));
        }
        assert!(runs.has_handed_on(one, line) && !runs.has_handed_on(other, line));
        assert!(!runs.has_handed_on(one, CommandKind::Post(0)));
        assert!(runs.lose_main(one, 1) && !runs.has_handed_on(one, line));
    }

    #[test]
    fn of_two_main_processes_that_had_a_pid_each_is_its_own_runs() {
        let (mut runs, one, other) = (Runs::default(), RunId(7), RunId(8));
        found(&mut runs, one, 42, 2);
        found(&mut runs, other, 42, 3);
        assert!(runs.lose_main(one, 2));
        assert_eq!((runs.of(42), runs.watched(3)), (Some(other), Some(other)));
        assert!(runs.lose_main(other, 3));
        assert_eq!(runs.of(42), None);
    }

    #[test]
    fn last_words_are_of_who_was_reaped_whatever_main_process_had_its_pid_before() {
        // Nobody has it by now (proc(5), pid_max).
        const NOBODYS: i32 = 5_000_000;
        let (mut runs, one, other) = (Runs::default(), RunId(7), RunId(8));
        found(&mut runs, one, NOBODYS, 2);
        let speaker = |runs: &Runs, whose: Option<RunId>| runs.speaker(NOBODYS, || whose);
        assert_eq!(speaker(&runs, None), Some((one, None)));
        assert_eq!(speaker(&runs, Some(RunId(9))), Some((RunId(9), None)));
        runs.insert(other, running(other, "next"));
        runs.own(NOBODYS, other, CommandKind::Start(0));
        assert_eq!(speaker(&runs, Some(one)), Some((other, Some(CommandKind::Start(0)))));
        runs.disown(NOBODYS);
        runs.has_ended(NOBODYS, other, CommandKind::Start(0));
        assert_eq!(speaker(&runs, Some(one)), Some((other, Some(CommandKind::Start(0)))));
        runs.is_told(NOBODYS);
        assert_eq!(speaker(&runs, None), Some((one, None)));
    }

    #[test]
    fn what_is_kept_of_each_run_stays_small() {
        assert!(size_of::<Running>() <= 408, "{}", size_of::<Running>());
    }
}
