//! Runs: what the machine orders, done; what becomes of it, told.
//!
//! [`procedure`] decides line by line and calls no kernel; here its deeds are carried
//! out on processes. Nothing waits: each deed either is done or fails at once, and
//! what happens later comes back through the loop.

pub(crate) mod notice;
pub(crate) mod pid_file;
pub(crate) mod procedure;
pub(crate) mod table;

use crate::event_loop::Init;
use crate::limit;
use crate::logger;
use crate::spawn::{Prepared, Request, Verdict};
use crate::sys::{Pid, signal, wait};
use crate::voice::Level;
use groundstate_units::generation::UnitId;
use groundstate_units::machine::action::StopReason;
use groundstate_units::machine::event::{Event, ExecFailure, RunId, Stage};
use groundstate_units::name::Name;
use groundstate_units::spec::{ExecLine, Exit, Kind, Log, NotifyAccess, Run};
use groundstate_units::time::Time;
use mio::Interest;
use mio::unix::SourceFd;
use procedure::{Deed, Part, Procedure, Whom};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;
use table::{Main, Running, Search};

/// SIGCONT: a stopped process can not act on any other signal but KILL.
const CONT: u8 = 18;
/// SIGKILL.
const KILL: u8 = 9;

/// What was reaped in one turn.
struct Reaped {
    name: Name,
    run: RunId,
    part: Part,
    exit: Exit,
    verdict: Option<Verdict>,
}

impl Init {
    /// Starts a run of a unit of the present generation.
    pub(crate) fn start_run(&mut self, unit: UnitId, name: &Name, run: RunId) {
        let generation = self.machine.generation().clone();
        let Some(unit) = generation.unit(unit) else { return };
        if unit.kind.is_instant() {
            return;
        }
        let fail = |stage, errno| {
            let path = name.to_string();
            Event::StartFailed(run, ExecFailure { stage, errno, path })
        };
        let Some(spec) = Run::decode(&unit.run) else {
            self.facts.push_back(fail(Stage::ExecLine, libc::EBADMSG));
            return;
        };
        if spec.kind == Kind::ForegroundNotified && self.notify.is_none() {
            self.facts.push_back(fail(Stage::Notify, libc::EROFS));
            return;
        }
        self.forget_runs_of(name);
        let target = |id| generation.target(id).map(|target| target.name.clone());
        let targets: Vec<Name> = unit.provides.iter().filter_map(|id| target(*id)).collect();
        let procedure =
            Procedure::new(run, &spec, unit.live.stop_signal, &unit.live.success_status);
        let output = match self.output(run, name, &targets, &spec) {
            Ok(output) => output,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                self.facts.push_back(fail(Stage::Stdio, errno));
                return;
            }
        };
        let running = Running {
            name: name.clone(),
            spec: Rc::new(spec),
            targets,
            procedure,
            lines: BTreeMap::new(),
            current: None,
            main: None,
            reports: BTreeMap::new(),
            output: Some(output),
            search: None,
            drains_until: None,
        };
        self.runs.insert(run, running);
        self.course(run, Procedure::begin);
    }

    /// Where a run's output goes.
    fn output(
        &mut self,
        run: RunId,
        name: &Name,
        targets: &[Name],
        spec: &Run,
    ) -> std::io::Result<Rc<OwnedFd>> {
        match (spec.log, &mut self.logger) {
            (Log::File | Log::Kmsg | Log::Syslog | Log::Console, Some(logger)) => {
                let log = logger::RunLog {
                    run,
                    unit: name.clone(),
                    targets: targets.to_vec(),
                    log: spec.log,
                    ready_grep: spec.ready_grep.clone(),
                };
                logger.pipe_for(log).map(Rc::new)
            }
            (Log::Inherit, _) => Ok(Rc::new(std::io::stdout().as_fd().try_clone_to_owned()?)),
            (Log::Null | Log::File | Log::Kmsg | Log::Syslog | Log::Console, _) => {
                Ok(self.null.output.clone())
            }
        }
    }

    /// Runs of this unit that are over, and were kept for a stop that never came.
    fn forget_runs_of(&mut self, name: &Name) {
        let old: Vec<RunId> = self
            .runs
            .iter()
            .filter(|(_, running)| running.name == *name && running.procedure.has_ended())
            .map(|(run, _)| run)
            .collect();
        for run in old {
            self.forget_run(run);
        }
    }

    /// Puts a question or a fact to a run's procedure, and does what it says.
    pub(crate) fn course(&mut self, run: RunId, ask: impl FnOnce(&mut Procedure) -> Vec<Deed>) {
        let Some(running) = self.runs.get_mut(run) else { return };
        let mut deeds: VecDeque<Deed> = ask(&mut running.procedure).into();
        while let Some(deed) = deeds.pop_front() {
            deeds.extend(self.carry(run, deed));
        }
    }

    /// One deed; what follows from it at once.
    fn carry(&mut self, run: RunId, deed: Deed) -> Vec<Deed> {
        match deed {
            Deed::Spawn(part) => return self.spawn_line(run, part),
            Deed::Signal(whom, number) => self.signal_run(run, whom, number),
            Deed::Kill => self.kill_run(run),
            Deed::Tell(event) => self.facts.push_back(event),
            Deed::RemovePidFile => self.remove_pid_file(run),
            Deed::SeekPidFile => self.seek_pid_file(run),
            Deed::Drain => return self.drain(run),
            Deed::Look => {
                let something = !self.tracker.is_empty(run);
                let Some(running) = self.runs.get_mut(run) else { return Vec::new() };
                let lines = !running.lines.is_empty();
                return running.procedure.looked(something, lines);
            }
            Deed::Forget => self.forget_run(run),
        }
        Vec::new()
    }

    /// The run is over.
    fn forget_run(&mut self, run: RunId) {
        if self.runs.remove(run).is_some() {
            self.tracker.forget(run);
            self.history.forget(run);
        }
    }

    fn spawn_line(&mut self, run: RunId, part: Part) -> Vec<Deed> {
        match self.try_spawn(run, part) {
            Ok(()) => Vec::new(),
            Err(failure) => match self.runs.get_mut(run) {
                Some(running) => running.procedure.not_executed(part, failure),
                None => Vec::new(),
            },
        }
    }

    fn try_spawn(&mut self, run: RunId, part: Part) -> Result<(), ExecFailure> {
        let Some(running) = self.runs.get_mut(run) else { return Ok(()) };
        let (spec, name) = (running.spec.clone(), running.name.clone());
        let Some(line) = line_of(&spec, part) else { return Ok(()) };
        let fail = |stage, error: &std::io::Error| ExecFailure {
            stage,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
            path: name.to_string(),
        };
        // The write end is kept for the lines of the start alone: a table of descriptors that
        // grew with the number of units would make each clone dearer.
        let last = part == Part::Start(spec.exec_start.len().saturating_sub(1));
        let kept = if last { running.output.take() } else { running.output.clone() };
        let (targets, main_pid) =
            (running.targets.clone(), running.main.as_ref().map(|main| Pid::from_raw(main.pid())));
        let output = match kept {
            Some(output) => output,
            None => {
                let number = self.helper_outputs;
                self.helper_outputs = number.saturating_sub(1);
                self.output(RunId(number), &name, &targets, &spec)
                    .map_err(|error| fail(Stage::Stdio, &error))?
            }
        };
        let notify = self.notify.as_ref().map(|notify| notify.path().to_string());
        let place = self.tracker.place(run, name.as_str())?;
        self.base.limits = self.open_files.of_children();
        let prepared = Prepared::new(Request {
            unit: name.as_str(),
            run: &spec,
            line,
            main_pid,
            base: &self.base,
            notify_socket: notify.as_deref().filter(|_| spec.notify_access != NotifyAccess::None),
            extra: &[],
            stdio: [self.null.input.clone(), output.clone(), output],
            listen: Vec::new(),
            place,
            take_terminal: false,
        })?;
        let child = self.spawner.spawn(prepared)?;
        let (pid, token) = (child.pid.as_raw(), self.tokens.next());
        self.tracker.started(run, child.pid);
        self.runs.own(pid, run, part);
        self.runs.watch(token.0, run);
        // Without the poll the verdict comes with the exit.
        let _ = self.poll.registry().register(
            &mut SourceFd(&child.report.as_fd().as_raw_fd()),
            token,
            Interest::READABLE,
        );
        if let Some(running) = self.runs.get_mut(run) {
            running.reports.insert(token.0, (pid, part, child.report));
            if matches!(part, Part::Pre(_) | Part::Start(_)) {
                running.current = Some(pid);
            }
            let foreground =
                matches!(spec.kind, Kind::ForegroundNotified | Kind::ForegroundSupervised);
            if foreground && matches!(part, Part::Start(_)) {
                running.main = Some(Main::Child(pid));
            }
        }
        Ok(())
    }

    /// A report of a child is readable.
    pub(crate) fn report_ready(&mut self, token: usize) {
        let Some(run) = self.runs.watched(token) else { return };
        let Some(running) = self.runs.get_mut(run) else { return };
        let Some((_, part, report)) = running.reports.get_mut(&token) else { return };
        let part = *part;
        match report.verdict() {
            Verdict::Pending => {}
            Verdict::Executed => {
                running.reports.remove(&token);
                self.runs.unwatch(token);
                self.course(run, |procedure| procedure.executed(part));
            }
            // Its process has not been reaped: the failure is told with its end.
            Verdict::Failed(_) => {}
        }
    }

    fn signal_run(&mut self, run: RunId, whom: Whom, number: u8) {
        match whom {
            Whom::All => {
                self.tracker.signal(run, number, None);
                self.tracker.signal(run, CONT, None);
            }
            Whom::Main => {
                self.signal_main(run, number);
                self.signal_main(run, CONT);
            }
        }
    }

    /// Sends a signal to the main process, or to that of the line under way. False: there
    /// is none.
    pub(crate) fn signal_main(&self, run: RunId, number: u8) -> bool {
        let Some(running) = self.runs.get(run) else { return false };
        let sent = match &running.main {
            // Our own child that is not reaped: the pid is its own.
            Some(Main::Child(pid)) => signal::kill(Pid::from_raw(*pid), number),
            Some(Main::Other { pidfd, .. }) => signal::pidfd_kill(pidfd.as_fd(), number),
            None => match running.current {
                Some(pid) => signal::kill(Pid::from_raw(pid), number),
                None => return false,
            },
        };
        sent.is_ok()
    }

    fn kill_run(&mut self, run: RunId) {
        self.tracker.kill(run);
        let Some(running) = self.runs.get(run) else { return };
        // Those that are still on their way into the cgroup.
        for pid in running.lines.keys() {
            let _ = signal::kill(Pid::from_raw(*pid), KILL);
        }
        if let Some(Main::Other { pidfd, .. }) = &running.main {
            let _ = signal::pidfd_kill(pidfd.as_fd(), KILL);
        }
    }

    fn remove_pid_file(&mut self, run: RunId) {
        let Some(running) = self.runs.get(run) else { return };
        let (name, path) = (running.name.clone(), running.spec.pid_file.clone());
        if let Some(path) = path
            && let Err(error) = pid_file::remove(&path)
        {
            self.say(Level::Warning, format_args!("{name}: cannot remove the old {path}: {error}"));
        }
    }

    fn seek_pid_file(&mut self, run: RunId) {
        let at = self.now;
        if let Some(running) = self.runs.get_mut(run) {
            running.current = None;
            let pause = Duration::from_millis(5);
            running.search = Some(Search { at, pause, wrong_since: None });
        }
        self.look_for_pid_file(run);
    }

    /// One look, and when to look again.
    fn look_for_pid_file(&mut self, run: RunId) {
        let now = self.now;
        let Some(running) = self.runs.get_mut(run) else { return };
        let (Some(path), Some(search)) = (running.spec.pid_file.clone(), &mut running.search)
        else {
            return;
        };
        search.at = now.after(search.pause);
        search.pause = (search.pause * 2).min(limit::PID_FILE_PAUSE);
        let since = search.wrong_since;
        let wrong = match pid_file::look(&path) {
            pid_file::Said::Nothing => {
                self.course(run, |_| vec![Deed::Look]);
                return;
            }
            pid_file::Said::Wrong(how) => format!("its pid file {path} {how}"),
            pid_file::Said::Pid(pid) => match self.adopt(run, pid) {
                Ok(()) => {
                    self.course(run, Procedure::main_found);
                    return;
                }
                Err(how) => format!("process {pid} of its pid file {path} {how}"),
            },
        };
        // A file that is being written may be wrong for a moment.
        let since = since.unwrap_or(now);
        if now.since(since) >= limit::PID_FILE_WAIT {
            if let Some(running) = self.runs.get_mut(run) {
                running.search = None;
            }
            self.course(run, |procedure| procedure.main_not_found(wrong));
        } else if let Some(search) = self.runs.get_mut(run).and_then(|r| r.search.as_mut()) {
            search.wrong_since = Some(since);
        }
    }

    /// Makes a process that init did not start the run's main process, if it belongs to
    /// the run; asked again once a descriptor holds it, for pids are used again.
    pub(crate) fn adopt(&mut self, run: RunId, pid: i32) -> Result<(), &'static str> {
        const FOREIGN: &str = "does not belong to the unit";
        if pid <= 1 || Pid::from_raw(pid) == nix::unistd::getpid() {
            return Err(FOREIGN);
        }
        if self.runs.of(pid).is_some_and(|of| of != run) {
            return Err(FOREIGN);
        }
        let pidfd = signal::pidfd(Pid::from_raw(pid)).map_err(|_| "is not there")?;
        if self.tracker.whose(Pid::from_raw(pid)) != Some(run) {
            return Err(FOREIGN);
        }
        let token = self.tokens.next();
        let Some(running) = self.runs.get_mut(run) else { return Err(FOREIGN) };
        running.search = None;
        running.main = Some(if running.lines.contains_key(&pid) {
            Main::Child(pid)
        } else {
            // Where it can not be watched, its end is seen when it is reaped.
            let _ = self.poll.registry().register(
                &mut SourceFd(&pidfd.as_raw_fd()),
                token,
                Interest::READABLE,
            );
            Main::Other { pid, pidfd, token: token.0 }
        });
        self.runs.adopt(pid, run);
        self.runs.watch(token.0, run);
        Ok(())
    }

    /// The process behind a watched descriptor has ended. A child of ours is left to the
    /// reaping, which knows how it ended; of another's child nobody tells us.
    pub(crate) fn pidfd_ready(&mut self, token: usize) {
        let Some(run) = self.runs.watched(token) else { return };
        let pid = match self.runs.get(run).and_then(|running| running.main.as_ref()) {
            Some(Main::Other { pid, token: at, .. }) if *at == token => *pid,
            _ => return,
        };
        let ours = crate::process::stat(Pid::from_raw(pid))
            .is_some_and(|stat| stat.parent == nix::unistd::getpid().as_raw());
        if !ours && self.runs.disown(pid).is_some() {
            self.course(run, |procedure| procedure.exited(Part::Main, Exit::Code(0)));
        }
    }

    fn drain(&mut self, run: RunId) -> Vec<Deed> {
        let now = self.now;
        let asked = self.logger.as_mut().is_some_and(|logger| logger.drain(run, now));
        let Some(running) = self.runs.get_mut(run) else { return Vec::new() };
        if !asked {
            return running.procedure.drained();
        }
        running.drains_until = Some(now.after(limit::LAST_LINES));
        Vec::new()
    }

    /// Reaps what has ended: whose it was is told in order of the units' names.
    pub(crate) fn reap(&mut self) {
        let mut reaped: Vec<Reaped> = Vec::new();
        let mut strangers = false;
        self.more_to_reap = true;
        for _ in 0..limit::REAPS_A_TURN {
            let Ok(Some(ended)) = wait::peek() else {
                self.more_to_reap = false;
                break;
            };
            self.tracker.ended(ended.pid);
            match self.owned(ended.pid, ended.exit) {
                Some(one) => reaped.push(one),
                None => strangers = true,
            }
            if !matches!(wait::reap(ended.pid), Ok(Some(_))) {
                self.more_to_reap = false;
                break;
            }
            self.child_ended(ended.pid, ended.exit);
        }
        reaped.sort_by(|a, b| (&a.name, a.run).cmp(&(&b.name, b.run)));
        for Reaped { run, part, exit, verdict, .. } in reaped {
            match verdict {
                Some(Verdict::Failed(failure)) => {
                    self.course(run, |procedure| procedure.not_executed(part, failure));
                    continue;
                }
                Some(Verdict::Executed) => self.course(run, |procedure| procedure.executed(part)),
                Some(Verdict::Pending) | None => {}
            }
            self.course(run, |procedure| procedure.exited(part, exit));
        }
        if strangers {
            self.look_at_all();
        }
    }

    /// Takes the process out of the tables; nothing if it is no unit's.
    fn owned(&mut self, pid: Pid, exit: Exit) -> Option<Reaped> {
        let run = self.runs.of(pid.as_raw())?;
        let running = self.runs.get_mut(run)?;
        let token = running.reports.iter().find(|(_, (of, ..))| *of == pid.as_raw());
        let token = token.map(|(token, _)| *token);
        let report = token.and_then(|token| running.reports.remove(&token));
        if let Some(token) = token {
            self.runs.unwatch(token);
        }
        let verdict = report.map(|(_, _, mut report)| report.at_exit());
        let (run, part) = self.runs.disown(pid.as_raw())?;
        let name = self.runs.get(run)?.name.clone();
        Some(Reaped { name, run, part, exit, verdict })
    }

    /// Runs that wait for their last process: where the kernel does not tell when a
    /// cgroup empties, each reaped orphan may have been it.
    fn look_at_all(&mut self) {
        let waiting: Vec<RunId> = self
            .runs
            .iter()
            .filter(|(_, running)| running.procedure.waits_for_the_last())
            .map(|(run, _)| run)
            .collect();
        for run in waiting {
            self.course(run, |_| vec![Deed::Look]);
        }
    }

    /// Cgroups have emptied.
    pub(crate) fn emptied(&mut self) {
        for run in self.tracker.emptied() {
            self.course(run, |_| vec![Deed::Look]);
        }
    }

    /// What the logger has said.
    pub(crate) fn logger_reports(&mut self) {
        let now = self.now;
        let Some(logger) = &mut self.logger else { return };
        for report in logger.reports(now) {
            match report {
                logger::Report::Ready(run) => self.course(run, Procedure::ready),
                logger::Report::Drained(run) => self.drained(run),
                logger::Report::Ended(_) | logger::Report::Pong(_) => {}
                logger::Report::Finished => self.log_is_finished = true,
            }
        }
    }

    fn drained(&mut self, run: RunId) {
        if let Some(running) = self.runs.get_mut(run) {
            running.drains_until = None;
        }
        self.course(run, Procedure::drained);
    }

    /// When a run has something due that the machine does not know of.
    pub(crate) fn runs_deadline(&self) -> Option<Time> {
        self.runs
            .iter()
            .filter_map(|(_, running)| {
                let search = running.search.map(|search| search.at);
                [search, running.drains_until].into_iter().flatten().min()
            })
            .min()
    }

    /// Does it.
    pub(crate) fn runs_due(&mut self) {
        let now = self.now;
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let (mut seek, mut drained) = (Vec::new(), Vec::new());
        for (run, running) in self.runs.iter() {
            if due(running.search.map(|search| search.at)) {
                seek.push(run);
            }
            if due(running.drains_until) {
                drained.push(run);
            }
        }
        seek.into_iter().for_each(|run| self.look_for_pid_file(run));
        drained.into_iter().for_each(|run| self.drained(run));
    }

    /// The machine tells a run to stop.
    pub(crate) fn stop_run(&mut self, run: RunId, reason: &StopReason, nothing_left: bool) {
        if let Some(running) = self.runs.get_mut(run) {
            running.search = None;
        }
        self.course(run, |procedure| procedure.stop(reason, nothing_left));
    }
}

/// The line of a unit.
fn line_of(spec: &Run, part: Part) -> Option<&ExecLine> {
    match part {
        Part::Pre(n) => spec.exec_start_pre.get(n),
        Part::Start(n) => spec.exec_start.get(n),
        Part::Stop(n) => spec.exec_stop.get(n),
        Part::Reload(n) => spec.exec_reload.get(n),
        Part::Main => None,
    }
}
