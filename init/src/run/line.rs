//! One line of a unit becomes a process: prepared, cloned, watched until it is known
//! whether the program was executed.

use super::procedure::{Deed, Part, Procedure};
use super::table::{Main, Started};
use crate::event_loop::Init;
use crate::limit;
use crate::logger;
use crate::spawn::{Prepared, Request, Verdict};
use crate::sys::Pid;
use groundstate_units::machine::event::{ExecFailure, RunId, Stage};
use groundstate_units::name::Name;
use groundstate_units::spec::{ExecLine, Kind, Log, NotifyAccess, Readiness, Run};
use mio::Interest;
use mio::unix::SourceFd;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;

impl Init {
    pub(super) fn spawn_line(&mut self, run: RunId, part: Part) -> Vec<Deed> {
        match self.try_spawn(run, part) {
            Ok(()) => Vec::new(),
            Err(failure) => match self.runs.get_mut(run) {
                Some(running) => running.procedure.not_executed(part, failure),
                None => Vec::new(),
            },
        }
    }

    pub(super) fn try_spawn(&mut self, run: RunId, part: Part) -> Result<(), ExecFailure> {
        let Some(running) = self.runs.get_mut(run) else { return Ok(()) };
        let Some(spec) = running.spec() else { return Ok(()) };
        let Some(line) = line_of(&spec, part) else { return Ok(()) };
        let name = running.name.clone();
        let fail = |stage, error: &std::io::Error| ExecFailure {
            stage,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
            path: name.to_string(),
        };
        // The write end is kept for the lines of the start alone: a table of descriptors that
        // grew with the number of units would make each clone dearer.
        let last = part == Part::Start(spec.exec_start.len().saturating_sub(1));
        let kept = if last { running.output.take() } else { running.output.clone() };
        if last {
            running.spec = None;
        }
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
        // The main process alone is to take them, and each start of it.
        let listen =
            if matches!(part, Part::Start(_)) { self.sockets_of(&name) } else { Vec::new() };
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
            listen,
            place,
            take_terminal: false,
            is_awaited: matches!(part, Part::Start(_))
                && matches!(spec.readiness, Readiness::Exec | Readiness::Wait(_)),
        })?;
        let child = self.spawner.spawn(prepared)?;
        let (pid, token) = (child.pid.as_raw(), self.tokens.next());
        self.tracker.started(run, child.pid);
        self.runs.own(pid, run, part);
        self.runs.watch(token.0, run);
        if let Some(pipe) = child.report.pipe() {
            // Without the poll the verdict comes with the exit.
            let _ = self.poll.registry().register(
                &mut SourceFd(&pipe.as_raw_fd()),
                token,
                Interest::READABLE,
            );
        }
        if let Some(running) = self.runs.get_mut(run) {
            let report = child.report;
            running.reports.push(Started { token: token.0, pid, part, report });
            if matches!(part, Part::Pre(_) | Part::Start(_)) {
                running.current = Some(pid);
            }
            let foreground =
                matches!(spec.kind, Kind::ForegroundNotified | Kind::ForegroundSupervised);
            if foreground && matches!(part, Part::Start(_)) {
                running.main = Some(Main::Child(pid));
            }
        }
        self.remember_report(token.0);
        Ok(())
    }

    /// A report of a child is readable: whether it became its program. False: not known yet.
    pub(crate) fn report_ready(&mut self, token: usize) -> bool {
        let Some(run) = self.runs.watched(token) else { return true };
        let Some(running) = self.runs.get_mut(run) else { return true };
        let found = running.reports.iter_mut().enumerate().find(|(_, s)| s.token == token);
        let Some((at, started)) = found else { return true };
        let part = started.part;
        match started.report.verdict() {
            Verdict::Pending => return false,
            Verdict::Executed => {
                running.reports.swap_remove(at);
                self.runs.unwatch(token);
                self.course(run, |procedure| procedure.executed(part));
            }
            // Its process has not been reaped: the failure is told with its end.
            Verdict::Failed(_) => {}
        }
        true
    }

    /// In a burst of starts the first children have become their programs long before the
    /// last is cloned. Looking after them on the way keeps small what is kept for each child,
    /// and the table of descriptors, which each clone copies.
    fn remember_report(&mut self, latest: usize) {
        self.reports.push_back(latest);
        if self.reports.len() > limit::CHILDREN_UNKNOWN {
            self.look_at_reports(limit::CHILDREN_LOOKED_AT);
        }
    }

    /// Looks at the oldest that are not known: nobody need tell of most of them.
    pub(crate) fn look_at_reports(&mut self, most: usize) {
        for _ in 0..most.min(self.reports.len()) {
            let Some(token) = self.reports.pop_front() else { return };
            if !self.report_ready(token) && self.reports.len() < limit::CHILDREN_UNKNOWN_MOST {
                self.reports.push_back(token);
            }
        }
    }

    /// What says that it is ready has been executed: that comes first.
    pub(crate) fn ready(&mut self, run: RunId) {
        let reports = self.runs.get(run).map(|running| running.reports.as_slice());
        let tokens: Vec<usize> = reports.into_iter().flatten().map(|s| s.token).collect();
        for token in tokens {
            self.report_ready(token);
        }
        self.course(run, Procedure::ready);
    }

    /// Where a run's output goes.
    pub(super) fn output(
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
                let pipe = logger.pipe_for(log).map(Rc::new);
                // A table that grew in a burst of starts would make each clone dearer.
                logger.pass_on(self.now);
                pipe
            }
            (Log::Inherit, _) => Ok(Rc::new(std::io::stdout().as_fd().try_clone_to_owned()?)),
            (Log::Null | Log::File | Log::Kmsg | Log::Syslog | Log::Console, _) => {
                Ok(self.null.output.clone())
            }
        }
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
