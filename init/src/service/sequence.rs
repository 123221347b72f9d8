//! The course of one run: which line is run when, what its end means. Pure: facts in,
//! deeds out; [`super`] carries the deeds out. How it begins is in [`start`], how it is ended
//! in [`ending`].
//!
//! | type | the lines | main process | told ready by |
//! |---|---|---|---|
//! | foreground-* | condition…, pre…, start, post… | the start line | READY=1, a line, a descriptor, ready-exec, the exec, a time (the last two by the machine, where no post follows) |
//! | background-pidfile | condition…, pre…, start, post… | the pid in the file, once accepted; or the one that is left | that |
//! | background-scripted | condition…, pre…, start, post… | none | the end of the last (by the machine) |
//! | oneshot | condition…, pre…, start… in order, post… | none to speak of | the end of the last (by the machine) |
//!
//! `Gone` is told once, after the exit was told and when no process is left; `Ended` is
//! both in one. Before either, what the unit wants done at the very end is done.

mod deed;
mod ending;
mod plan;
mod start;

pub(crate) use deed::{Alarm, Deed, Part, Whom};
pub(crate) use ending::{Outcome, result_of};

use crate::state::carried;
use plan::Plan;

use groundstate_units::machine::event::{Event, ExecFailure, RunId};
use groundstate_units::spec::{Exit, Kind, Live, Particular, Run};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One of a known few.
type Word = &'static str;

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    /// Others start first.
    Idle,
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
    /// What is done when nothing is left.
    Last,
}

/// The course of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Procedure {
    run: RunId,
    plan: Plan,
    stop_signal: u8,
    /// As at its start.
    live: Arc<Live>,
    step: Step,
    main_alive: bool,
    /// It is up without a main process.
    headless: bool,
    reloading: bool,
    /// Commands of reloads that have not ended.
    reloads: u8,
    /// The main process has ended during a reload, which may name another one.
    ended_in_reload: Option<Exit>,
    was_ready: bool,
    /// exec-start-post has begun.
    posted: bool,
    executed_told: bool,
    exit_told: bool,
    gone_told: bool,
    stopping: bool,
    failure: Option<Box<ExecFailure>>,
    /// Why it is skipped.
    skipped: Option<Box<str>>,
    /// The main process has ended; whether it left something is being looked at.
    ended: Option<Exit>,
    /// How the main process ended, for those who ask at the very end.
    exit: Option<Exit>,
    /// Why it ended, where its exit does not tell.
    #[serde(deserialize_with = "carried::word::maybe")]
    result: Option<Word>,
    /// A oneshot that does not remain has done its work, and is ending by itself.
    closing: bool,
    /// What lives on is none of its business any more.
    abandoned: bool,
    /// Lines of exec-stop-post that were begun.
    last: usize,
    /// What the unit leaves has been removed.
    cleaned: bool,
    /// It is started again after this stop.
    again: bool,
    /// Its stop has taken too long.
    killed: bool,
}

type Deeds = Vec<Deed>;

impl Procedure {
    /// Of a unit with a process.
    pub(crate) fn new(run: RunId, spec: &Run, live: &Arc<Live>) -> Self {
        Procedure {
            run,
            plan: Plan::new(spec),
            stop_signal: live.stop_signal,
            live: live.clone(),
            step: Step::Up,
            main_alive: false,
            headless: false,
            reloading: false,
            reloads: 0,
            ended_in_reload: None,
            was_ready: false,
            posted: false,
            executed_told: false,
            exit_told: false,
            gone_told: false,
            stopping: false,
            failure: None,
            skipped: None,
            ended: None,
            exit: None,
            result: None,
            closing: false,
            abandoned: false,
            last: 0,
            cleaned: false,
            again: false,
            killed: false,
        }
    }

    fn particular(&self) -> Option<&Particular> {
        self.plan.particular.as_deref()
    }

    /// The exit of the main process was told.
    pub(crate) fn has_ended(&self) -> bool {
        self.exit_told
    }

    /// The machine wants it to end.
    pub(crate) fn is_told_to_stop(&self) -> bool {
        self.stopping
    }

    /// It is on its way to being ready.
    pub(crate) fn is_starting(&self) -> bool {
        !self.was_ready && !self.exit_told && !self.stopping && self.step != Step::Idle
    }

    /// It lets others start first.
    pub(crate) fn is_idle(&self) -> bool {
        self.step == Step::Idle
    }

    /// It may be over as soon as its last process has ended.
    pub(crate) fn waits_for_the_last(&self) -> bool {
        let ends = self.exit_told
            || self.stopping
            || self.closing
            || self.failure.is_some()
            || self.skipped.is_some()
            || self.headless;
        // One that stayed up though nothing was left of it is over once more as it is stopped.
        (ends && (!self.gone_told || self.stopping)) || self.step == Step::Seeking
    }

    fn main_ended(&mut self, exit: Exit) -> Deeds {
        self.main_alive = false;
        if self.reloads > 0 && self.was_ready && !self.stopping && !self.exit_told {
            self.ended_in_reload = Some(exit);
            let limit = self.live.start_timeout.map(|span| Deed::Wake(Alarm::Reload, span));
            return limit.into_iter().collect();
        }
        if self.plan.has_grep && !self.was_ready && !self.posted && !self.stopping {
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
            self.exit = Some(exit);
        }
        // After a start that failed beside it, the exit is still that of the main process.
        self.exit = self.exit.or(Some(exit).filter(|_| self.executed_told));
        if self.step == Step::StopMain { self.stop_rest() } else { vec![Deed::Look] }
    }

    /// It has no main process that anything waits for.
    pub(crate) fn is_script(&self) -> bool {
        matches!(self.plan.kind, Kind::Oneshot | Kind::BackgroundScripted)
    }

    fn protocol(&mut self, message: String) -> Deeds {
        self.exit_told = true;
        self.result.get_or_insert("protocol");
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
        let mut deeds: Deeds = self.first_ping().into_iter().collect();
        deeds.extend(self.ready());
        deeds
    }

    /// There is no telling which process is the main one: it is up as long as any is.
    pub(crate) fn main_unknown(&mut self) -> Deeds {
        if self.step != Step::Seeking {
            return Vec::new();
        }
        self.step = Step::Up;
        self.headless = true;
        let mut deeds = self.ready();
        deeds.push(Deed::Look);
        deeds
    }

    /// There will be no acceptable pid file.
    pub(crate) fn main_not_found(&mut self, message: String) -> Deeds {
        if self.step == Step::Seeking { self.protocol(message) } else { Vec::new() }
    }

    /// Told ready by what the run said or wrote.
    pub(crate) fn ready(&mut self) -> Deeds {
        if self.stopping || self.exit_told || self.is_ready_by_itself() {
            return Vec::new();
        }
        if !self.plan.has(Part::Post(0)) || self.was_ready {
            return self.told_ready();
        }
        if std::mem::replace(&mut self.posted, true) {
            return Vec::new();
        }
        vec![self.line(Part::Post(0))]
    }

    /// Whatever it says: by the end of its last line, or once its main process is known.
    fn is_ready_by_itself(&self) -> bool {
        let is_launched = matches!(self.step, Step::Line(_) | Step::Seeking);
        self.is_script() || (self.plan.kind == Kind::BackgroundPidfile && is_launched)
    }

    fn told_ready(&mut self) -> Deeds {
        self.was_ready = true;
        self.reloading = false;
        vec![Deed::Tell(Event::Ready(self.run))]
    }

    /// The machine counts it as active: by its exec, by time.
    pub(crate) fn counts_as_ready(&mut self) {
        self.was_ready = true;
    }

    /// What it waited for has come.
    pub(crate) fn alarm(&mut self, alarm: Alarm) -> Deeds {
        match alarm {
            Alarm::Idle if self.step == Step::Idle => self.go(),
            Alarm::ReadyWait => self.ready(),
            Alarm::ReadyAgain if self.is_starting() => vec![Deed::Spawn(Part::Ready)],
            Alarm::Kill => vec![self.last_kill(), Deed::Look],
            Alarm::Reload => match self.ended_in_reload.take() {
                Some(exit) => self.told_exit(exit),
                None => Vec::new(),
            },
            Alarm::Idle | Alarm::ReadyAgain => Vec::new(),
        }
    }

    /// RELOADING=1 came.
    pub(crate) fn reloading(&mut self) -> Deeds {
        if self.stopping || self.exit_told || self.is_ready_by_itself() {
            return Vec::new();
        }
        self.reloading = true;
        vec![Deed::Tell(Event::Reloading(self.run))]
    }

    /// A new main process has been named.
    pub(crate) fn main_changed(&mut self) -> Deeds {
        if self.is_script() {
            return Vec::new();
        }
        self.main_alive = true;
        self.headless = false;
        self.ended_in_reload = None;
        if self.stopping && self.step == Step::StopMain {
            // The one before it was told to stop, and this one was not.
            return self.signal_main();
        }
        // There is nothing to look for any more.
        self.main_found()
    }

    /// Let it reload its own configuration.
    pub(crate) fn reload(&mut self) -> Deeds {
        let told = |well| vec![Deed::Tell(Event::Reloaded(self.run, well))];
        if self.stopping {
            return told(false);
        }
        // The machine may have given up one that was announced.
        self.reloading = false;
        if self.plan.has(Part::Reload(0)) {
            self.reloads = self.reloads.saturating_add(1);
            return vec![Deed::Spawn(Part::Reload(0))];
        }
        let Some(signal) = self.particular().and_then(|p| p.ending.reload_signal) else {
            return told(false);
        };
        let mut deeds = vec![Deed::Signal(Whom::Main, signal)];
        // Who speaks says RELOADING=1, and READY=1 at the end; the others say nothing.
        if self.plan.kind != Kind::ForegroundNotified {
            deeds.extend(told(true));
        }
        deeds
    }

    /// The last command of a reload has ended. The daemon may have replaced itself meanwhile.
    fn reload_commands_ended(&mut self, well: bool) -> Deeds {
        self.reloads = self.reloads.saturating_sub(1);
        let names_main = self.plan.has_pid_file && !self.stopping && !self.exit_told;
        match names_main {
            true => vec![Deed::RereadPidFile(well)],
            false => self.reload_settled(well),
        }
    }

    /// Which process is the main one after a reload is known. Without any, the run has ended.
    pub(crate) fn reload_settled(&mut self, well: bool) -> Deeds {
        let ended = self.ended_in_reload.filter(|_| self.reloads == 0);
        let mut deeds = self.reload_ended(well && ended.is_none());
        if ended.is_some() {
            self.ended_in_reload = None;
        }
        if let Some(exit) = ended.filter(|_| !self.main_alive && !self.exit_told) {
            deeds.extend(self.told_exit(exit));
        }
        deeds
    }

    /// A run that said RELOADING=1 by itself will say READY=1 too: that ends the reload.
    fn reload_ended(&mut self, well: bool) -> Deeds {
        if self.stopping || (well && self.reloading) {
            return Vec::new();
        }
        self.reloading = false;
        vec![Deed::Tell(Event::Reloaded(self.run, well))]
    }
}

#[cfg(test)]
mod tests;
