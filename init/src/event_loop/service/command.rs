//! Runs one command of a unit: prepares and clones the process and waits for the exec result.

use crate::base::{Level, limit, token};
use crate::event_loop::Init;
use crate::logger;
use crate::process_tracking::{Place, Wish};
use crate::service::run_table::{Main, ReadyPipe, Started, exit_words};
use crate::service::sequence::{CommandKind, CommandSequence, Effect};
use crate::spawn::{Prepared, Report, Request, failure};
use crate::sys::Pid;
use groundstate_units::machine::event::{Event, ExecFailure, RunId, Stage};
use groundstate_units::spec::{Input, Kind, Log, NotifyAccess, Output, Readiness, Run};
use groundstate_units::text::name::Name;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::pipe2;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

impl Init {
    /// Prepares the start of a command. Its pipes and its cgroup become part of the next commit;
    /// the child is cloned after that ([`super::effects`]).
    pub(crate) fn prepare_line(&mut self, run: RunId, part: CommandKind) -> Vec<Effect> {
        match self.prepared(run, part) {
            Ok(Some(prepared)) => {
                self.pending.effects.push_start(run, part, prepared);
                Vec::new()
            }
            Ok(None) => Vec::new(),
            Err(failure) => self.not_started(run, part, failure),
        }
    }

    /// Starts a prepared command. After a crash, its child may already exist; then it is adopted.
    pub(crate) fn start_line(&mut self, run: RunId, part: CommandKind, serial: u64) -> Vec<Effect> {
        let prepared = self.pending.effects.prepared.remove(&serial);
        let Some(running) = self.runs.get(run) else { return Vec::new() };
        let (name, Some(spec)) = (running.name.clone(), running.spec()) else { return Vec::new() };
        let adopted = if prepared.is_none() { self.spawner.adopt(serial) } else { None };
        self.pending.effects.has_adopted |= adopted.is_some();
        let child = match (adopted, prepared) {
            (Some(child), _) => Ok(child),
            (None, Some(prepared)) => self.spawner.spawn(prepared, serial),
            (None, None) => match self.prepared(run, part) {
                Ok(Some(prepared)) => self.spawner.spawn(prepared, serial),
                Ok(None) => return Vec::new(),
                Err(failure) => return self.not_started(run, part, failure),
            },
        };
        let child = match child {
            Ok(child) => child,
            Err(broken) => {
                let failure = failure(name.as_str(), &spec, part.of(&spec), broken);
                return self.not_started(run, part, failure);
            }
        };
        let is_last = part == CommandKind::Start(spec.exec_start.len().saturating_sub(1));
        if is_last {
            self.triggers.close_handed_connection(&name);
        }
        if let Some(running) = self.runs.get_mut(run) {
            running.has_started = true;
            if is_last {
                (running.output, running.spec) = (None, None);
            }
        }
        self.register_child(run, part, &spec, child);
        Vec::new()
    }

    fn not_started(&mut self, run: RunId, part: CommandKind, failure: ExecFailure) -> Vec<Effect> {
        self.say_not_executed(run, part, &failure);
        match self.runs.get_mut(run) {
            Some(running) => {
                running.has_started = true;
                running.procedure.not_executed(part, failure)
            }
            None => Vec::new(),
        }
    }

    /// Logs a reload command that could not be executed, because the reason has no other record.
    /// Also logs the command of `init -- CMD`, with which init ends.
    pub(crate) fn say_not_executed(
        &mut self,
        run: RunId,
        part: CommandKind,
        failure: &ExecFailure,
    ) {
        let Some(running) = self.runs.get(run) else { return };
        let (name, key) = (running.name.clone(), part.key());
        // In a shutdown, the stop may have killed the command before its exec. Init does not log
        // that.
        let is_sole = self.paths.command.is_some() && !self.ending.is_under_way();
        if matches!(part, CommandKind::Reload(_)) || is_sole {
            self.say(Level::Warning, format_args!("{name}: {key}: {failure}"));
        }
    }

    /// Logs a failed command that does not end the run.
    pub(crate) fn say_failed_command(&mut self, run: RunId, event: &Event) {
        let Some(running) = self.runs.get(run) else { return };
        let name = running.name.clone();
        if let Event::Reloaded(_, false) = event {
            self.say(Level::Warning, format_args!("{name}: reload failed"));
        } else if let Event::StopFailed(_, reason) = event {
            let text = format_args!("{name}: a stop command failed: {reason}");
            self.say(Level::Warning, text);
        }
    }

    /// Prepares everything that the child of a command needs. Returns `None` if the command does
    /// not exist.
    fn prepared(&mut self, run: RunId, part: CommandKind) -> Result<Option<Prepared>, ExecFailure> {
        let Some(running) = self.runs.get(run) else { return Ok(None) };
        let Some(spec) = running.spec() else { return Ok(None) };
        let Some(line) = part.of(&spec) else { return Ok(None) };
        let name = running.name.clone();
        let fail = |stage, error: &std::io::Error| ExecFailure {
            stage,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
            path: name.to_string(),
        };
        let stdio = |error: std::io::Error| fail(Stage::Stdio, &error);
        let starts = matches!(part, CommandKind::Start(_));
        let first = !running.has_started;
        let targets = running.targets.clone();
        let output = running.output.as_deref().cloned();
        // Stop and reload commands get no pid of a main process that has exited, even if it is not
        // reaped yet. Its pid may be reused before the command sends a signal.
        let signals = matches!(part, CommandKind::Stop(_) | CommandKind::Reload(_));
        let is_it = |main: &&Main| main.lives() || (!signals && main.is_not_reaped());
        let main = running.main.as_ref().filter(is_it);
        let main_pid = main.map(|main| Pid::from_raw(main.pid()));
        let mut extra = extra(run, &running.procedure, part);
        extra.extend(self.triggers.remote_of(&name));
        extra.extend(self.monitor_variables(&name, part).into_iter().flatten());
        // Init keeps the write end only for the commands of the start. Each clone copies the
        // descriptor table, so the table must not grow with the number of units.
        let log = match output {
            Some(output) => output,
            None => self.helper_output(&name, &targets, &spec, spec.log, starts).map_err(stdio)?,
        };
        let ready = if starts { self.pipe_for_ready(run, &spec).map_err(stdio)? } else { None };
        // Only the main process gets the sockets, at each of its starts.
        let listen = if starts { self.sockets_of(&name) } else { Vec::new() };
        if starts && listen.is_empty() && self.serves_one_connection(&name) {
            // The start was requested without a connection.
            return Err(fail(Stage::Listen, &std::io::Error::from_raw_os_error(libc::ENOTCONN)));
        }
        let stdio =
            self.stdio(&name, &targets, &spec, log, starts.then_some(&listen)).map_err(stdio)?;
        let mut listen = listen;
        if starts {
            listen.extend(self.runs.store.kept_for(&name, run));
        }
        let notify = self.notify.as_ref().map(|notify| notify.path().to_string());
        let place = self.place(run, &name, &spec, part.is_helper())?;
        (self.base.limits, self.base.score) =
            (self.basics.own_limits.child_limits(), self.basics.own_limits.score());
        self.base.limits.extend(self.tracker.mark(run, &spec.limits));
        let prepared = Prepared::new(Request {
            unit: name.as_str(),
            run: &spec,
            line,
            first,
            main_pid,
            base: &self.base,
            notify_socket: notify.as_deref().filter(|_| spec.notify_access != NotifyAccess::None),
            extra: &extra,
            stdio,
            listen,
            ready,
            place,
            is_awaited: starts
                && (matches!(spec.readiness, Readiness::Exec | Readiness::Wait(_))
                    || spec.particular.is_some()
                    || !spec.exec_start_post.is_empty()),
        })?;
        Ok(Some(prepared))
    }

    fn place(
        &mut self,
        run: RunId,
        name: &Name,
        spec: &Run,
        helper: bool,
    ) -> Result<Option<Place>, ExecFailure> {
        let ids = spec.credentials.as_ref().and_then(|c| c.ids.as_ref().ok());
        let owner = (ids.and_then(|ids| ids.uid), ids.and_then(|ids| ids.gid));
        let wish = Wish { particular: spec.particular.as_deref(), owner, helper };
        let place = self.tracker.place(run, name.as_str(), wish);
        for complaint in self.tracker.complaints() {
            self.say(Level::Warning, format_args!("{complaint}"));
        }
        place
    }

    /// Registers the new child with its run, the tracker and the poll.
    pub(crate) fn register_child(
        &mut self,
        run: RunId,
        part: CommandKind,
        spec: &Run,
        child: Report,
    ) {
        let (pid, token) = (child.pid.as_raw(), self.tokens.next());
        self.tracker.add_child(run, child.pid);
        self.runs.own(pid, run, part);
        self.runs.watch(token.0, run);
        if let Some(pipe) = child.pipe() {
            // Without the poll, init reads the exec result when the child exits.
            let _ = token::watch(self.poll.registry(), pipe, token.0);
        }
        if let Some(running) = self.runs.get_mut(run) {
            running.reports.push(Started { token: token.0, pid, part, report: child });
            if matches!(
                part,
                CommandKind::Condition(_)
                    | CommandKind::Pre(_)
                    | CommandKind::Start(_)
                    | CommandKind::Post(_)
            ) {
                running.current = Some(pid);
            }
            let foreground =
                matches!(spec.kind, Kind::ForegroundNotified | Kind::ForegroundSupervised);
            if foreground && matches!(part, CommandKind::Start(_)) {
                running.main = Some(Main::Child(pid));
                running.last_main = pid;
            }
        }
        self.remember_report(token.0);
    }

    /// Opens an output with a log id of its own: of a helper command, or the second one of a start.
    fn helper_output(
        &mut self,
        name: &Name,
        targets: &Arc<[Name]>,
        spec: &Run,
        log: Log,
        of_a_start: bool,
    ) -> std::io::Result<Rc<OwnedFd>> {
        let number = self.basics.helper_outputs;
        self.basics.helper_outputs = number.saturating_sub(1);
        self.output_to(logger::helper_log_id(number, of_a_start), name, targets, spec, log)
    }

    /// The child's descriptors 0, 1 and 2. The child itself opens files and terminals.
    fn stdio(
        &mut self,
        name: &Name,
        targets: &Arc<[Name]>,
        spec: &Run,
        log: Rc<OwnedFd>,
        listen: Option<&Vec<(String, Rc<OwnedFd>)>>,
    ) -> std::io::Result<[Rc<OwnedFd>; 3]> {
        let null = self.null.clone();
        let Some(particular) = spec.particular.as_deref() else {
            return Ok([null.input, log.clone(), log]);
        };
        let asked = &particular.stdio;
        if asked.input == Input::Inherit {
            let own = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map(Rc::new);
            return Ok([
                own(std::io::stdin().as_fd())?,
                own(std::io::stdout().as_fd())?,
                own(std::io::stderr().as_fd())?,
            ]);
        }
        let socket = || match listen.map(|listen| listen.first()) {
            Some(Some((_, fd))) => Ok(fd.clone()),
            // Only the main process gets the socket.
            None => Ok(null.output.clone()),
            Some(None) => Err(std::io::Error::from_raw_os_error(libc::ENOTCONN)),
        };
        let input = match asked.input {
            Input::Socket => socket()?,
            Input::Null | Input::Terminal { .. } | Input::File(_) | Input::Inherit => null.input,
        };
        let mut place = |output: &Output| match output {
            Output::Log => Ok(log.clone()),
            Output::As(log) => self.helper_output(name, targets, spec, *log, listen.is_some()),
            Output::Terminal | Output::File { .. } => Ok(null.output.clone()),
            Output::Socket => socket(),
        };
        let output = place(&asked.output)?;
        let error = if asked.error == asked.output { output.clone() } else { place(&asked.error)? };
        Ok([input, output, error])
    }

    /// Creates the pipe whose write end becomes the program's `ready-fd`.
    fn pipe_for_ready(&mut self, run: RunId, spec: &Run) -> std::io::Result<Option<Rc<OwnedFd>>> {
        if spec.particular.as_ref().is_none_or(|p| p.ready_fd.is_none()) {
            return Ok(None);
        }
        let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&read, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let write = Some(Rc::new(write));
        let Some(running) = self.runs.get_mut(run) else { return Ok(write) };
        let token = self.tokens.next();
        token::watch(self.poll.registry(), &read, token.0)?;
        let ready = ReadyPipe { token: token.0, pipe: read.into() };
        // The previous pipe belongs to an earlier command of the same start and no longer counts.
        if let Some(before) = running.ready_pipe.replace(ready) {
            self.runs.unwatch(before.token);
        }
        self.runs.watch(token.0, run);
        Ok(write)
    }

    /// Removes the files of a run in a child of init.
    pub(crate) fn clean_up(&mut self, run: RunId) -> Vec<Effect> {
        let Some(running) = self.runs.get(run) else { return Vec::new() };
        let particular = running.spec().and_then(|spec| spec.particular.clone());
        let Some(particular) = particular else { return vec![Effect::Look] };
        let main = running.last_main;
        match crate::sys::process::fork(&[], || crate::spawn::remove_run_files(&particular, main)) {
            Ok(pid) => {
                self.tracker.add_child(run, pid);
                self.runs.own(pid.as_raw(), run, CommandKind::Clean);
                Vec::new()
            }
            // The next run creates the directories again or uses the existing ones.
            Err(_) => vec![Effect::Look],
        }
    }

    /// Handles a readable exec report. Returns false if the exec result is not known yet.
    pub(crate) fn report_ready(&mut self, token: usize) -> bool {
        let Some(run) = self.runs.watched(token) else { return true };
        let Some(running) = self.runs.get_mut(run) else { return true };
        let found = running.reports.iter_mut().find(|started| started.token == token);
        let Some(started) = found else { return true };
        let part = started.part;
        match started.report.verdict() {
            None => return false,
            Some(Ok(())) => {
                running.take_report(|started| started.token == token);
                self.runs.unwatch(token);
                self.advance(run, |procedure| procedure.executed(part));
            }
            // The child is not reaped yet; its exit delivers the failure.
            Some(Err(_)) => {}
        }
        true
    }

    /// Tracks a new report. In a burst of starts, the first children have executed before the last
    /// is cloned. Checking them on the way bounds the per-child state and the descriptor table,
    /// which each clone copies.
    fn remember_report(&mut self, latest: usize) {
        self.runs.reports.push_back(latest);
        if latest.is_multiple_of(limit::STARTS_BETWEEN_FETCHES)
            && let Some(notify) = &mut self.notify
        {
            notify.fetch();
        }
        if self.runs.reports.len() > limit::CHILDREN_UNKNOWN {
            self.look_at_reports(limit::CHILDREN_LOOKED_AT);
        }
    }

    /// Checks the oldest pending reports, because the poll does not watch most of them.
    pub(crate) fn look_at_reports(&mut self, most: usize) {
        self.pending.effects.has_adopted &= !self.runs.reports.is_empty();
        for _ in 0..most.min(self.runs.reports.len()) {
            let Some(token) = self.runs.reports.pop_front() else { return };
            if !self.report_ready(token) && self.runs.reports.len() < limit::CHILDREN_UNKNOWN_MOST {
                self.runs.reports.push_back(token);
            }
        }
    }

    /// Makes a run ready. Pending exec results are handled first, because a ready process has
    /// executed.
    pub(crate) fn make_ready(&mut self, run: RunId) {
        self.handle_exec_results(run);
        self.advance(run, CommandSequence::ready);
    }

    /// Handles the pending exec results of a run. Returns false if one is not known yet.
    pub(crate) fn handle_exec_results(&mut self, run: RunId) -> bool {
        let reports = self.runs.get(run).map(|running| running.reports.as_slice());
        let tokens: Vec<usize> = reports.into_iter().flatten().map(|s| s.token).collect();
        let unknown = tokens.into_iter().filter(|token| !self.report_ready(*token));
        unknown.count() == 0
    }
}

/// The environment variables of a command of this run, see systemd.exec(5). INVOCATION_ID is the
/// run id, as in the log and in MONITOR_INVOCATION_ID.
fn extra(run: RunId, procedure: &CommandSequence, part: CommandKind) -> Vec<(String, String)> {
    let mut said = vec![("INVOCATION_ID".to_string(), format!("{:032x}", run.0))];
    if !matches!(part, CommandKind::StopPost(_) | CommandKind::Stop(_)) {
        return said;
    }
    let outcome = procedure.outcome();
    said.push(("SERVICE_RESULT".to_string(), outcome.result.to_string()));
    let Some(exit) = outcome.exit else { return said };
    let (code, status) = exit_words(exit);
    said.push(("EXIT_CODE".to_string(), code.to_string()));
    said.push(("EXIT_STATUS".to_string(), status));
    said
}

// Output of a run: a pipe to the logger, /dev/null, or init's own output

impl Init {
    /// Opens the output of a run or of a helper command.
    pub(crate) fn output_to(
        &mut self,
        run: RunId,
        name: &Name,
        targets: &Arc<[Name]>,
        spec: &Run,
        log: Log,
    ) -> std::io::Result<Rc<OwnedFd>> {
        match log {
            Log::File | Log::Kmsg | Log::Syslog | Log::Console => {
                let told = logger::RunLog::of(run, name, targets, spec, log);
                let pipe = self.logger.pipe_for(told)?;
                self.logger.hold();
                Ok(Rc::new(pipe))
            }
            Log::Inherit => Ok(Rc::new(std::io::stdout().as_fd().try_clone_to_owned()?)),
            Log::Null => Ok(self.null.output.clone()),
        }
    }
}
