//! The course of one run: which line is run when, what its end means, how it is
//! stopped. Pure: facts in, deeds out; [`super`] carries the deeds out.
//!
//! | type | the lines | main process | told ready by |
//! |---|---|---|---|
//! | foreground-* | pre…, start | the start line | READY=1, a line, the exec, a time (the last two by the machine) |
//! | background-pidfile | pre…, start | the pid in the file, once accepted | that |
//! | background-scripted | pre…, start | none | the end of the line (by the machine) |
//! | oneshot | pre…, start… in order | none to speak of | the end of the last (by the machine) |
//!
//! A stop: exec-stop where the run has been ready and there is one, else the stop
//! signal to the main process; when that has ended, TERM to the rest of the cgroup;
//! KILL when the machine says so. An exec-stop that fails is followed by the signal.
//! `Gone` is told once, after the exit was told and when no process is left; `Ended` is both in one.

use groundstate_units::machine::action::StopReason;
use groundstate_units::machine::event::{Event, ExecFailure, RunId};
use groundstate_units::spec::{Exit, Kind, Run, SuccessStatus};

/// SIGTERM, for the rest.
const TERM: u8 = 15;

/// Which line of the unit a process runs. Counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    /// exec-start-pre.
    Pre(usize),
    /// exec-start.
    Start(usize),
    /// exec-stop.
    Stop(usize),
    /// exec-reload.
    Reload(usize),
    /// No line: a main process that init did not start itself.
    Main,
}

/// Whom a signal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// The main process; while starting, the process of the line under way.
    Main,
    /// Every process of the run.
    All,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Deed {
    /// Start this line.
    Spawn(Part),
    /// Send this signal, and CONT after it: a stopped process can not end.
    Signal(Whom, u8),
    /// SIGKILL to everything, however often.
    Kill,
    /// Report to the machine.
    Tell(Event),
    /// Remove the pid file of an earlier run.
    RemovePidFile,
    /// Look for the pid file, now and again until told a verdict.
    SeekPidFile,
    /// Let the logger read the last lines, then call [`Procedure::drained`].
    Drain,
    /// Look whether anything is left, then call [`Procedure::looked`].
    Look,
    /// The run is over; forget it.
    Forget,
}

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A line of the start is running.
    Line(Part),
    /// The launcher has ended well; its pid file is looked for.
    Seeking,
    /// The main process has ended; its last lines may still make it ready.
    Draining(Exit),
    /// Started, as far as init's part goes; or ended.
    Up,
    /// exec-stop is running.
    StopLine(usize),
    /// Waiting for the main process (or the line under way) to end.
    StopMain,
    /// Waiting for the rest.
    StopRest,
}

/// The course of one run.
#[derive(Clone, Debug)]
pub(crate) struct Procedure {
    run: RunId,
    kind: Kind,
    pre: usize,
    start: usize,
    stop: usize,
    reload: usize,
    stop_signal: u8,
    success: SuccessStatus,
    has_grep: bool,
    step: Step,
    main_alive: bool,
    reloading: bool,
    was_ready: bool,
    executed_told: bool,
    exit_told: bool,
    gone_told: bool,
    stopping: bool,
    failure: Option<ExecFailure>,
    /// The main process has ended; whether it left something is being looked at.
    ended: Option<Exit>,
}

type Deeds = Vec<Deed>;

impl Procedure {
    /// Of a unit with a process.
    pub(crate) fn new(run: RunId, spec: &Run, stop_signal: u8, success: &SuccessStatus) -> Self {
        Procedure {
            run,
            kind: spec.kind,
            pre: spec.exec_start_pre.len(),
            start: spec.exec_start.len(),
            stop: spec.exec_stop.len(),
            reload: spec.exec_reload.len(),
            stop_signal,
            success: success.clone(),
            has_grep: spec.ready_grep.is_some(),
            step: Step::Up,
            main_alive: false,
            reloading: false,
            was_ready: false,
            executed_told: false,
            exit_told: false,
            gone_told: false,
            stopping: false,
            failure: None,
            ended: None,
        }
    }

    /// The exit of the main process was told.
    pub(crate) fn has_ended(&self) -> bool {
        self.exit_told
    }

    /// It may be over as soon as its last process has ended.
    pub(crate) fn waits_for_the_last(&self) -> bool {
        let ends = self.exit_told || self.stopping || self.failure.is_some();
        (ends && !self.gone_told) || self.step == Step::Seeking
    }

    /// The beginning.
    pub(crate) fn begin(&mut self) -> Deeds {
        let mut deeds = Vec::new();
        if self.kind == Kind::BackgroundPidfile {
            deeds.push(Deed::RemovePidFile);
        }
        let first = if self.pre > 0 { Part::Pre(0) } else { Part::Start(0) };
        deeds.push(self.line(first));
        deeds
    }

    fn line(&mut self, part: Part) -> Deed {
        self.step = Step::Line(part);
        Deed::Spawn(part)
    }

    /// The line's program was executed.
    pub(crate) fn executed(&mut self, part: Part) -> Deeds {
        let main = matches!(part, Part::Start(_));
        if !main || std::mem::replace(&mut self.executed_told, true) {
            return Vec::new();
        }
        self.main_alive |= self.is_foreground();
        vec![Deed::Tell(Event::Executed(self.run))]
    }

    fn is_foreground(&self) -> bool {
        matches!(self.kind, Kind::ForegroundNotified | Kind::ForegroundSupervised)
    }

    /// The line's program could not be executed. Its process, if any, has ended.
    pub(crate) fn not_executed(&mut self, part: Part, failure: ExecFailure) -> Deeds {
        match part {
            Part::Pre(_) | Part::Start(_) if self.executed_told => {
                // A later line of a oneshot: the run had begun, so it ends.
                self.protocol(format!("{}: {}", failure.stage.as_str(), failure.path))
            }
            Part::Pre(_) | Part::Start(_) => {
                self.failure = Some(failure);
                self.main_alive = false;
                self.step = Step::Up;
                vec![Deed::Kill, Deed::Look]
            }
            Part::Stop(_) => self.stop_by_signal(),
            Part::Reload(_) => self.reload_ended(false),
            Part::Main => Vec::new(),
        }
    }

    /// The line's process has ended.
    pub(crate) fn exited(&mut self, part: Part, exit: Exit) -> Deeds {
        match part {
            Part::Pre(n) => self.pre_ended(n, exit),
            Part::Start(n) => self.start_ended(n, exit),
            Part::Stop(n) => self.stop_ended(n, exit),
            Part::Reload(n) if exit == Exit::Code(0) && n + 1 < self.reload && !self.stopping => {
                vec![Deed::Spawn(Part::Reload(n + 1))]
            }
            Part::Reload(n) => self.reload_ended(exit == Exit::Code(0) && n + 1 == self.reload),
            Part::Main => self.main_ended(exit),
        }
    }

    fn pre_ended(&mut self, n: usize, exit: Exit) -> Deeds {
        if self.stopping {
            return self.told_exit(exit);
        }
        if exit != Exit::Code(0) {
            if self.success.lists(exit) {
                return self.protocol(format!("exec-start-pre ended with {exit:?}"));
            }
            return self.told_exit(exit);
        }
        let next = if n + 1 < self.pre { Part::Pre(n + 1) } else { Part::Start(0) };
        vec![self.line(next)]
    }

    fn start_ended(&mut self, n: usize, exit: Exit) -> Deeds {
        let well = exit == Exit::Code(0) || self.success.lists(exit);
        match self.kind {
            Kind::Oneshot if well && n + 1 < self.start && !self.stopping => {
                vec![self.line(Part::Start(n + 1))]
            }
            Kind::BackgroundPidfile if well && !self.stopping => {
                self.step = Step::Seeking;
                vec![Deed::SeekPidFile]
            }
            Kind::ForegroundNotified
            | Kind::ForegroundSupervised
            | Kind::BackgroundPidfile
            | Kind::BackgroundScripted
            | Kind::Oneshot => self.main_ended(exit),
            Kind::Virtual | Kind::Socket | Kind::Timer | Kind::Path => Vec::new(),
        }
    }

    fn main_ended(&mut self, exit: Exit) -> Deeds {
        self.main_alive = false;
        if self.has_grep && !self.was_ready && !self.stopping {
            self.step = Step::Draining(exit);
            return vec![Deed::Drain];
        }
        self.told_exit(exit)
    }

    /// The logger has read the last lines of a run that has ended, or did not in time.
    pub(crate) fn drained(&mut self) -> Deeds {
        if let Step::Draining(exit) = self.step { self.told_exit(exit) } else { Vec::new() }
    }

    fn told_exit(&mut self, exit: Exit) -> Deeds {
        self.main_alive = false;
        if matches!(self.step, Step::Line(_) | Step::Draining(_) | Step::Seeking) {
            self.step = Step::Up;
        }
        if !std::mem::replace(&mut self.exit_told, true) {
            self.was_ready |= exit == Exit::Code(0) && self.is_script();
            self.ended = Some(exit);
        }
        if self.step == Step::StopMain { self.stop_rest() } else { vec![Deed::Look] }
    }

    fn is_script(&self) -> bool {
        matches!(self.kind, Kind::Oneshot | Kind::BackgroundScripted)
    }

    fn protocol(&mut self, message: String) -> Deeds {
        self.exit_told = true;
        self.step = Step::Up;
        vec![Deed::Tell(Event::Protocol(self.run, message)), Deed::Look]
    }

    /// The pid file holds this run's main process; it is watched from now on.
    pub(crate) fn main_found(&mut self) -> Deeds {
        if self.step != Step::Seeking {
            return Vec::new();
        }
        self.step = Step::Up;
        self.main_alive = true;
        self.ready()
    }

    /// There will be no acceptable pid file.
    pub(crate) fn main_not_found(&mut self, message: String) -> Deeds {
        if self.step == Step::Seeking { self.protocol(message) } else { Vec::new() }
    }

    /// Told ready by what the run said or wrote.
    pub(crate) fn ready(&mut self) -> Deeds {
        if self.stopping || self.exit_told {
            return Vec::new();
        }
        self.was_ready = true;
        self.reloading = false;
        vec![Deed::Tell(Event::Ready(self.run))]
    }

    /// The machine counts it as active: by its exec, by time.
    pub(crate) fn counts_as_ready(&mut self) {
        self.was_ready = true;
    }

    /// RELOADING=1 came.
    pub(crate) fn reloading(&mut self) -> Deeds {
        if self.stopping || self.exit_told {
            return Vec::new();
        }
        self.reloading = true;
        vec![Deed::Tell(Event::Reloading(self.run))]
    }

    /// A new main process has been named.
    pub(crate) fn main_changed(&mut self) {
        self.main_alive = true;
    }

    /// Let it reload its own configuration.
    pub(crate) fn reload(&mut self) -> Deeds {
        if self.reload == 0 || self.stopping {
            return vec![Deed::Tell(Event::Reloaded(self.run, false))];
        }
        vec![Deed::Spawn(Part::Reload(0))]
    }

    /// A run that said RELOADING=1 by itself will say READY=1 too: that ends the reload.
    fn reload_ended(&mut self, well: bool) -> Deeds {
        if self.stopping || (well && self.reloading) {
            return Vec::new();
        }
        self.reloading = false;
        vec![Deed::Tell(Event::Reloaded(self.run, well))]
    }

    /// Stop it.
    pub(crate) fn stop(&mut self, reason: &StopReason, nothing_left: bool) -> Deeds {
        if nothing_left {
            return vec![Deed::Forget];
        }
        if self.stopping {
            return Vec::new();
        }
        self.stopping = true;
        if let Step::Line(_) = self.step
            && (!self.is_foreground() || !self.was_ready)
        {
            self.step = Step::StopMain;
            return self.signal_main();
        }
        let broken = matches!(reason, StopReason::Leftovers | StopReason::StartTimeout);
        if self.stop > 0 && self.was_ready && !broken {
            self.step = Step::StopLine(0);
            return vec![Deed::Spawn(Part::Stop(0))];
        }
        self.stop_by_signal()
    }

    fn signal_main(&self) -> Deeds {
        vec![Deed::Signal(Whom::Main, self.stop_signal)]
    }

    fn stop_by_signal(&mut self) -> Deeds {
        let draining = matches!(self.step, Step::Draining(_));
        if self.main_alive {
            self.step = Step::StopMain;
            return self.signal_main();
        }
        if draining {
            return self.drained().into_iter().chain(self.stop_rest()).collect();
        }
        if self.exit_told {
            return self.stop_rest();
        }
        // No main process is known: all are asked the way the unit wants to be asked.
        self.step = Step::StopRest;
        vec![Deed::Signal(Whom::All, self.stop_signal), Deed::Look]
    }

    fn stop_ended(&mut self, n: usize, exit: Exit) -> Deeds {
        if self.step != Step::StopLine(n) {
            return vec![Deed::Look];
        }
        if exit != Exit::Code(0) {
            return self.stop_by_signal();
        }
        if n + 1 < self.stop {
            self.step = Step::StopLine(n + 1);
            return vec![Deed::Spawn(Part::Stop(n + 1))];
        }
        if self.main_alive {
            // It was told to end; the machine's stop-timeout watches over it.
            self.step = Step::StopMain;
            return Vec::new();
        }
        self.stop_rest()
    }

    fn stop_rest(&mut self) -> Deeds {
        self.step = Step::StopRest;
        vec![Deed::Signal(Whom::All, TERM), Deed::Look]
    }

    /// Kill it.
    pub(crate) fn kill(&mut self) -> Deeds {
        self.stopping = true;
        self.step = Step::StopRest;
        vec![Deed::Kill, Deed::Look]
    }

    /// What a look at the cgroup gave: something, or nothing, is left. `lines`: a process
    /// init started for the run has not been reaped yet.
    pub(crate) fn looked(&mut self, something: bool, lines: bool) -> Deeds {
        let left = something || lines;
        if let Some(exit) = self.ended.take() {
            self.gone_told = !left;
            let told = if left { Event::Exited } else { Event::Ended };
            return vec![Deed::Tell(told(self.run, exit))];
        }
        if left {
            return Vec::new();
        }
        if let Some(failure) = self.failure.take() {
            return vec![Deed::Tell(Event::StartFailed(self.run, failure)), Deed::Forget];
        }
        if self.step == Step::Seeking {
            return self.main_not_found(
                "its launcher ended, no process of it is left, and there is no pid file"
                    .to_string(),
            );
        }
        let over = self.exit_told || (self.stopping && !self.main_alive);
        let waits = matches!(self.step, Step::StopLine(_) | Step::Line(_) | Step::Draining(_));
        // A run that lives on without a process, until it is stopped, is told Gone twice: as it
        // ended, and as its exec-stop did.
        if !over || waits || (self.gone_told && !self.stopping) {
            return Vec::new();
        }
        self.gone_told = true;
        vec![Deed::Tell(Event::Gone(self.run)), Deed::Forget]
    }
}

#[cfg(test)]
#[path = "procedure_tests.rs"]
mod tests;
