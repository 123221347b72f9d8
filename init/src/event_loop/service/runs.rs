//! Carries out the machine's orders about runs and reports the outcome to the machine.

use crate::base::{Level, limit};
use crate::event_loop::Init;
use crate::logger;
use crate::output::event_log::{Entry, Said};
use crate::service::run_table::{LastEnd, Running, exit_words};
use crate::service::sequence::{Alarm, CommandKind, CommandSequence, Effect, Outcome, result_of};
use crate::sys::inbox;
use crate::sys::inbox::unit;
use groundstate_units::machine::action::StopReason;
use groundstate_units::machine::event::{Event, ExecFailure, RunId, Stage};
use groundstate_units::machine::reason::{Reason, State};
use groundstate_units::spec::{DependencyKind, Kind, Run};
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::unit::generation::UnitId;
use mio::unix::SourceFd;
use mio::{Interest, Token};
use nix::errno::Errno;
use nix::fcntl::{OFlag, SpliceFFlags, tee};
use nix::unistd::pipe2;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

impl Init {
    /// Starts a run of a unit of the present generation.
    pub(crate) fn start_run(&mut self, unit: UnitId, name: &Name, run: RunId) {
        let generation = self.machine.generation().clone();
        let Some(unit) = generation.unit(unit) else { return };
        if unit.kind.is_trigger() {
            return self.start_trigger(unit, run);
        }
        if unit.kind.is_instant() {
            return;
        }
        let Some(spec) = Run::decode(&unit.run) else {
            return self.start_failed(run, Stage::ExecLine, libc::EBADMSG, name.to_string());
        };
        if spec.kind == Kind::ForegroundNotified && self.notify.is_none() {
            return self.start_failed(run, Stage::Notify, libc::EROFS, name.to_string());
        }
        self.forget_runs_of(name);
        let target = |id| generation.target(id).map(|target| target.name.clone());
        let targets: Arc<[Name]> = unit.provides.iter().filter_map(|id| target(*id)).collect();
        let procedure = CommandSequence::new(run, &spec, &unit.live);
        let output = match self.output_to(run, name, &targets, &spec, spec.log) {
            Ok(output) => output,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                return self.start_failed(run, Stage::Stdio, errno, name.to_string());
            }
        };
        let running =
            Running::new(name.clone(), unit.run.clone(), spec, targets, procedure, output);
        self.runs.insert(run, running);
        self.advance(run, CommandSequence::begin);
    }

    /// Reports that a run could not be started.
    pub(crate) fn start_failed(&mut self, run: RunId, stage: Stage, errno: i32, path: String) {
        let failure = ExecFailure { stage, errno, path };
        self.pending.facts.push_back(Event::StartFailed(run, failure));
    }

    /// Drops an earlier run of this unit that has ended and was kept for a stop that never came.
    fn forget_runs_of(&mut self, name: &Name) {
        let Some(run) = self.runs.latest(name) else { return };
        if self.runs.get(run).is_some_and(|running| running.procedure.has_ended()) {
            self.follow(run, vec![Effect::Forget]);
        }
    }

    /// Advances the command sequence of a run and applies the resulting effects.
    pub(crate) fn advance(
        &mut self,
        run: RunId,
        ask: impl FnOnce(&mut CommandSequence) -> Vec<Effect>,
    ) {
        let Some(running) = self.runs.get_mut(run) else { return };
        let before = inbox::record_unit(unit(running.name.as_str()));
        let effects = ask(&mut running.procedure);
        self.follow(run, effects);
        inbox::record_unit(before);
    }

    /// Applies these effects and those that they lead to. While an effect of the run waits for a
    /// commit, later ones queue behind it.
    pub(crate) fn follow(&mut self, run: RunId, effects: Vec<Effect>) {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            if self.pending.effects.has(run) {
                self.pending.effects.push(run, effect);
            } else {
                effects.extend(self.apply(run, effect));
            }
        }
    }

    /// Applies one effect and returns the effects that it leads to at once.
    fn apply(&mut self, run: RunId, effect: Effect) -> Vec<Effect> {
        match effect {
            Effect::Spawn(CommandKind::Clean) => return self.clean_up(run),
            Effect::Spawn(part) => return self.prepare_line(run, part),
            Effect::Signal(..) | Effect::Kill | Effect::KillMain => {
                self.pending.effects.push(run, effect)
            }
            Effect::GuessMain => return self.guess_main(run),
            Effect::Wake(alarm, span) => self.set_alarm(run, alarm, span),
            Effect::Tell(event) => {
                self.say_failed_command(run, &event);
                if matches!(
                    event,
                    Event::Exited(..) | Event::Ended(..) | Event::Gone(_) | Event::StartFailed(..)
                ) {
                    self.note_end(run);
                }
                self.pending.facts.push_back(event);
            }
            Effect::RemovePidFile => return self.remove_pid_file(run),
            Effect::SeekPidFile => self.seek_pid_file(run),
            Effect::RereadPidFile(well) => return self.reread_pid_file(run, well),
            Effect::Drain => return self.drain(run),
            Effect::Look => {
                let something = !self.tracker.is_empty(run);
                let Some(running) = self.runs.get_mut(run) else { return Vec::new() };
                let lines = !running.lines.is_empty();
                return running.procedure.looked(something, lines);
            }
            Effect::Forget => self.forget_run(run),
        }
        Vec::new()
    }

    /// Forgets a run that is over.
    pub(crate) fn forget_run(&mut self, run: RunId) {
        if self.runs.remove(run).is_some() {
            self.tracker.forget(run);
            self.history.forget(run);
        }
    }

    fn drain(&mut self, run: RunId) -> Vec<Effect> {
        let now = self.now;
        let asked = self.logger.drain(run, now);
        let Some(running) = self.runs.get_mut(run) else { return Vec::new() };
        if !asked {
            return running.procedure.drained();
        }
        running.drains_until = Some(now.after(limit::LAST_LINES));
        self.runs.note_deadline(run);
        Vec::new()
    }

    /// Handles the reports of the logger.
    pub(crate) fn logger_reports(&mut self) {
        if !self.logger.may_report() {
            return;
        }
        for report in self.logger.reports(self.now) {
            match report {
                logger::Report::Ready(run) => self.make_ready(run),
                logger::Report::Drained(run) => self.drained(run),
                logger::Report::Ended(_) | logger::Report::Pong(_) => {}
                logger::Report::Finished => self.basics.log_is_finished = true,
                logger::Report::Lost(lines) => {
                    let lost = &mut self.dropped.lines_not_shown;
                    *lost = lost.saturating_add(lines);
                }
                logger::Report::Trouble(unit, why) => {
                    let text = format_args!("cannot write log files (first for {unit}): {why}");
                    self.say(Level::Warning, text);
                }
                logger::Report::Crowded(unit) => {
                    let text = "too many finished runs still have open output";
                    let then = "closing the oldest";
                    self.say(Level::Warning, format_args!("{unit}: {text}; {then}"));
                }
            }
        }
    }

    /// Handles the logger's deadline.
    pub(crate) fn logger_due(&mut self) {
        if self.logger.deadline().is_none_or(|at| at > self.now) {
            return;
        }
        match self.logger.tick(self.now) {
            logger::Ticked::Started => self.watch_logger(),
            logger::Ticked::DoesNotEnd(pid) => {
                let dir = self.paths.log_dir(&self.machine.generation().settings);
                let what = format!("the logger (pid {pid}) was killed and does not exit");
                let why =
                    format!("the disk of {dir} may not answer: `cat /proc/{pid}/task/*/stack`");
                let then = "until it exits, services with a full output pipe block";
                self.say(Level::Error, format_args!("{what}: {why}; {then}"));
            }
            logger::Ticked::Nothing => {}
        }
    }

    fn drained(&mut self, run: RunId) {
        if let Some(running) = self.runs.get_mut(run) {
            running.drains_until = None;
        }
        self.advance(run, CommandSequence::drained);
    }

    /// The earliest of the runs' own deadlines. The machine has others, which are not included.
    pub(crate) fn runs_deadline(&self) -> Option<Time> {
        let idle = (!self.idle_due().is_empty()).then_some(self.now);
        idle.or_else(|| self.runs.next_due())
    }

    /// Handles the deadlines of runs.
    pub(crate) fn runs_due(&mut self) {
        self.looks_due();
        let now = self.now;
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let due = self.runs.due(now);
        for run in &due {
            let search = self.runs.get(*run).and_then(|running| running.search.as_ref());
            if is_due(search.map(|search| search.at)) {
                self.look_for_pid_file(*run);
            }
        }
        for run in due {
            if is_due(self.runs.get(run).and_then(|running| running.drains_until)) {
                self.drained(run);
            }
        }
        self.alarms_due();
    }

    /// Stops a run.
    pub(crate) fn stop_run(&mut self, run: RunId, reason: &StopReason, nothing_left: bool) {
        if self.stop_trigger(run, nothing_left) {
            return;
        }
        if let Some(running) = self.runs.get_mut(run) {
            running.search = None;
            // If the run was already being stopped, its end completes that stop.
            if !nothing_left && !running.procedure.is_told_to_stop() {
                drop_pending_end(&mut self.pending.facts, run);
            }
        }
        self.advance(run, |procedure| procedure.stop(reason, nothing_left));
    }
}

/// Removes a pending end of the run that arrived before the decision to stop it. Processed now, it
/// would end the stop early and the next run could start beside it. The stop reports its own end.
fn drop_pending_end(facts: &mut VecDeque<Event>, run: RunId) {
    facts.retain(|event| !matches!(event, Event::Ended(of, _) | Event::Gone(of) if *of == run));
}

// Timers and readiness of runs
//
// `ready-wait`, the next `ready-exec`, run-timeout, the grace period after the last signal,
// start-idle, and the line on a `ready-fd`.

/// Read size for a `ready-fd`.
const READ: usize = 1024;

impl Init {
    /// Makes the run ready: the crashed image had read its readiness line but had not committed it.
    pub(crate) fn ready_before(&mut self, run: RunId) {
        let pipe = self.runs.get_mut(run).and_then(|running| running.ready_pipe.take());
        if let Some(pipe) = pipe {
            self.runs.unwatch(pipe.token);
        }
        self.make_ready(run);
    }

    fn set_alarm(&mut self, run: RunId, alarm: Alarm, span: Duration) {
        let at = self.now.after(span);
        if let Some(running) = self.runs.get_mut(run) {
            running.alarms.insert(alarm, at);
            self.runs.note_deadline(run);
        }
    }

    /// Handles alarms that are due, and releases idle runs once no other run is starting.
    fn alarms_due(&mut self) {
        let now = self.now;
        let mut due = Vec::new();
        for run in self.runs.due(now) {
            let Some(running) = self.runs.get(run) else { continue };
            let come = running.alarms.iter().filter(|(_, at)| **at <= now);
            due.extend(come.map(|(alarm, _)| (run, *alarm)));
        }
        due.extend(self.idle_due());
        for (run, alarm) in due {
            if let Some(running) = self.runs.get_mut(run) {
                running.alarms.remove(&alarm);
            }
            self.advance(run, |procedure| procedure.alarm(alarm));
            self.settle_if_full();
        }
    }

    fn idle_due(&self) -> Vec<(RunId, Alarm)> {
        let waits = |running: &Running| {
            running.alarms.contains_key(&Alarm::Idle) && running.procedure.is_idle()
        };
        let idle = self.runs.timed().filter(|(_, running)| waits(running));
        let idle: Vec<_> = idle.map(|(run, _)| (run, Alarm::Idle)).collect();
        let busy = || self.runs.iter().any(|(_, running)| running.procedure.is_starting());
        if idle.is_empty() || busy() { Vec::new() } else { idle }
    }

    /// Handles data in a `ready-fd` pipe, or its end.
    pub(crate) fn ready_pipe(&mut self, token: usize) {
        let Some(run) = self.runs.watched(token) else { return };
        let Some(running) = self.runs.get_mut(run) else { return };
        let Some(ready) = running.ready_pipe.take_if(|ready| ready.token == token) else { return };
        // Recorded before the line leaves the pipe, because the program writes it only once.
        let is_stored = has_unread_line(&ready.pipe);
        if is_stored {
            inbox::record_ready(run);
        }
        match line_in(&ready.pipe) {
            Some(true) => {
                if !is_stored {
                    inbox::record_ready(run);
                }
                self.runs.unwatch(token);
                self.advance(run, CommandSequence::ready);
            }
            // Closed without a line: the run cannot become ready by it, and its start timeout will
            // report that.
            Some(false) => self.runs.unwatch(token),
            None => {
                // Registering again makes the poll report remaining data.
                let source = &mut SourceFd(&ready.pipe.as_raw_fd());
                let registry = self.poll.registry();
                // It fails only for a descriptor that the poll does not know.
                let _ = registry.reregister(source, Token(token), Interest::READABLE);
                running.ready_pipe = Some(ready);
            }
        }
    }
}

/// Returns true if the pipe holds the end of a line that was not read yet. Returns false also if
/// that cannot be checked.
fn has_unread_line(pipe: &OwnedFd) -> bool {
    let Ok((copy, to)) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK) else { return false };
    let most = limit::READY_READS_A_TURN.saturating_mul(READ);
    let copied = tee(pipe, &to, most, SpliceFFlags::SPLICE_F_NONBLOCK);
    copied.is_ok() && line_in(&copy) == Some(true)
}

/// Reads the pipe. Returns true for the end of a line, false for the end of the stream, and `None`
/// if neither has arrived. The poll reports each arrival once, so the pipe is read until it is
/// empty, up to a share of the turn.
fn line_in(pipe: &OwnedFd) -> Option<bool> {
    let mut bytes = [0u8; READ];
    for _ in 0..limit::READY_READS_A_TURN {
        match nix::unistd::read(pipe, &mut bytes) {
            Ok(0) => return Some(false),
            Ok(length) if bytes.get(..length).is_some_and(|read| read.contains(&b'\n')) => {
                return Some(true);
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
    None
}

// The MONITOR_ variables of a unit that `on-failure` or `on-success` starts, as in
// systemd.exec(5), `$MONITOR_SERVICE_RESULT`.

fn starts_a_reaction(kind: DependencyKind) -> bool {
    matches!(kind, DependencyKind::OnFailure | DependencyKind::OnSuccess)
}

impl Init {
    /// Records the end of a run or of its main process, before the machine starts the units that
    /// react to it.
    pub(crate) fn note_end(&mut self, run: RunId) {
        let Some(running) = self.runs.get(run) else { return };
        let (name, outcome) = (running.name.clone(), running.procedure.outcome());
        let unit = self.machine.generation().find_unit(name.as_str());
        let brings_in = |unit: UnitId| {
            let mut edges = self.machine.graph().edges(unit).iter();
            edges.any(|edge| starts_a_reaction(edge.kind))
        };
        if unit.is_some_and(brings_in) {
            self.ends.insert(name, LastEnd { run, outcome });
        }
        let generation = self.machine.generation();
        if self.ends.len() > generation.units.len() {
            self.ends.retain(|name, _| generation.find_unit(name.as_str()).is_some());
        }
    }

    /// The variables for the start commands of unit `name` about the one unit that triggers it.
    /// With several triggering units there are none, as in systemd.
    pub(crate) fn monitor_variables(
        &self,
        name: &Name,
        part: CommandKind,
    ) -> Option<Vec<(String, String)>> {
        if !matches!(part, CommandKind::Pre(_) | CommandKind::Start(_)) {
            return None;
        }
        let unit = self.machine.generation().find_unit(name.as_str())?;
        let back =
            self.machine.graph().back(unit).iter().filter(|back| starts_a_reaction(back.kind));
        let mut causes = back.map(|back| back.dependent);
        let cause = causes.next()?;
        if causes.any(|other| other != cause) {
            return None;
        }
        let of = self.machine.generation().unit(cause)?.name.clone();
        let end = self.last_end(cause, &of)?;
        let mut told = vec![
            ("MONITOR_SERVICE_RESULT", end.outcome.result.to_string()),
            ("MONITOR_UNIT", of.to_string()),
        ];
        if let Some(exit) = end.outcome.exit {
            let (code, status) = exit_words(exit);
            told.extend([("MONITOR_EXIT_CODE", code.to_string()), ("MONITOR_EXIT_STATUS", status)]);
        }
        if end.run != RunId(0) {
            told.push(("MONITOR_INVOCATION_ID", format!("{:032x}", end.run.0)));
        }
        Some(told.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
    }

    /// The last end of a unit. It comes from the first of these that has it: the unit, if it is
    /// `exited`; the runs whose end this image saw; the machine and the event log.
    fn last_end(&self, unit: UnitId, name: &Name) -> Option<LastEnd> {
        let run = self.machine.run(unit);
        if self.machine.state(unit) == State::Exited {
            let (run, exit) = (run.unwrap_or(RunId(0)), self.machine.exit(unit));
            return Some(LastEnd { run, outcome: Outcome { result: "success".into(), exit } });
        }
        if let Some(LastEnd { run, outcome }) = self.ends.get(name) {
            return Some(LastEnd { run: *run, outcome: outcome.clone() });
        }
        let outcome = outcome_of(self.machine.last_failure(unit)?);
        let run_of_it = |(_, entry): (&u64, &Entry)| match &entry.said {
            Said::Unit(change) if change.name == *name && change.run != 0 => Some(change.run),
            Said::Unit(_) | Said::Own(_) | Said::Fired(_) => None,
        };
        let last = self.history.after(0).filter_map(run_of_it).last();
        Some(LastEnd { run: RunId(last.unwrap_or(0)), outcome })
    }
}

/// The outcome, as far as the reason of a failure tells it.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others come from init, not from a process")]
fn outcome_of(reason: &Reason) -> Outcome {
    let (result, exit) = match reason {
        Reason::Exit(exit) => (result_of(*exit), Some(*exit)),
        Reason::StartTimeout | Reason::StopTimeout | Reason::RunTimeout => ("timeout", None),
        Reason::Watchdog => ("watchdog", None),
        Reason::OutOfMemory => ("oom-kill", None),
        Reason::Protocol { .. } => ("protocol", None),
        _ => ("resources", None),
    };
    Outcome { result: result.into(), exit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::spec::Exit;
    use std::io::Write;

    #[test]
    fn unprocessed_end_of_a_run_is_dropped_when_a_stop_is_ordered() {
        let ended = |run| Event::Ended(RunId(run), Exit::Code(0));
        let (gone, executed) = (|run| Event::Gone(RunId(run)), Event::Executed(RunId(7)));
        let mut facts: VecDeque<Event> =
            [gone(7), ended(7), executed.clone(), ended(8), gone(8)].into();
        drop_pending_end(&mut facts, RunId(7));
        assert_eq!(facts, [executed, ended(8), gone(8)]);
    }

    #[test]
    fn line_end_on_a_ready_fd_is_found_after_more_bytes_than_one_read() {
        let (read, mut write) = std::io::pipe().unwrap();
        let read = OwnedFd::from(read);
        nix::fcntl::fcntl(&read, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))
            .unwrap();
        assert_eq!(line_in(&read), None);
        write.write_all(&[b'x'; 3_000]).unwrap();
        write.write_all(b"\n").unwrap();
        assert_eq!(line_in(&read), Some(true));
        write.write_all(&[b'x'; 3_000]).unwrap();
        assert_eq!(line_in(&read), None);
        drop(write);
        assert_eq!(line_in(&read), Some(false));
    }
}
