//! The simulator's own record of every run: start, end, actions and facts. It is separate from both
//! the machine and the oracle, so that an invariant checks the events themselves, not the view of
//! either.

use crate::machine::event::{Event, RunId};
use crate::simulator::graph::{Graph, Universe};
use crate::simulator::set::Set;
use crate::spec::{DependencyKind, Exit, Kind};
use crate::text::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// The record of one run.
#[derive(Clone, Debug)]
pub struct Record {
    /// The unit.
    pub unit: usize,
    /// The type of the unit.
    pub kind: Kind,
    /// The time of the start.
    pub started: Time,
    /// Providers of its ordering edges at the start.
    pub behind: Set,
    /// Providers of its depends-on edges at the start.
    pub hard: Set,
    /// The time it was told to stop.
    pub told: Option<Time>,
    /// It was told to stop because it had succeeded.
    pub done: bool,
    /// The time it was killed.
    pub killed: Option<Time>,
    /// The main process exited, or the run violated its protocol, by itself.
    pub died: bool,
    /// The time it was first active.
    pub active: Option<Time>,
    /// The run succeeded and does not remain.
    pub ended_well: bool,
    /// A condition was not met: nothing was started.
    pub skipped: bool,
    /// The run requested more time.
    pub extended: bool,
    /// The time of STOPPING=1.
    pub leaving: Option<Time>,
    /// The deadline of the exit after STOPPING=1, from the stop-timeout at that time, if the run
    /// was active.
    pub leave_by: Option<Time>,
    /// The time at which nothing of the run was left.
    pub over: Option<Time>,
}

/// Time spans of a run's definition when a fact comes.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The least delay of the next run if this one fails.
    pub delay: Duration,
    /// The stop timeout.
    pub stop_timeout: Option<Duration>,
}

/// The ledger.
#[derive(Clone, Debug, Default)]
pub struct RunLedger {
    /// Every run.
    pub runs: BTreeMap<RunId, Record>,
    /// The last run, by unit.
    pub last: BTreeMap<usize, RunId>,
    /// Units that failed by themselves and were not active since.
    pub failing: Set,
    /// Units whose last run ended with an exit in their restart-except. Emptied by a restart, a
    /// retry, a reload or a trigger that fires. A unit is also removed when it is not needed, when
    /// its run is told to stop, or when a provider of it is replaced or lost.
    pub barred: Set,
    /// Units whose run stops promptly.
    pub prompt: Set,
    /// Units that an event [`Event::Fire`] named since their last start.
    pub called: Set,
    /// The earliest next start after a failure, by unit.
    pub quiet_until: BTreeMap<usize, Time>,
    /// The deadline of a shutdown in progress.
    pub end: Option<Time>,
    /// The shutdown has finished.
    pub finished: bool,
    /// Number of actions.
    pub orders: u64,
    /// Number of facts about runs.
    pub facts: u64,
    /// Number of facts about runs that were over.
    pub late_facts: u64,
}

impl RunLedger {
    /// Returns the last run of `unit`.
    pub fn of(&self, unit: usize) -> Option<&Record> {
        self.last.get(&unit).and_then(|run| self.runs.get(run))
    }

    /// Returns units of whose last run something may be left.
    pub fn alive(&self) -> Set {
        let alive = |unit: &usize| self.of(*unit).is_some_and(|run| run.over.is_none());
        self.last.keys().copied().filter(alive).collect()
    }

    /// Records a fact before the machine receives it. `expected` means that an end of the run is no
    /// failure.
    pub fn fact(&mut self, now: Time, event: &Event, expected: bool, times: &Times) {
        let Some(id) = event.run() else { return };
        self.facts += 1;
        let Some(run) = self.runs.get_mut(&id) else { return };
        if run.over.is_some() {
            self.late_facts += 1;
            return;
        }
        let scripted = run.kind == Kind::BackgroundScripted;
        let bad = match event {
            Event::Exited(_, exit) | Event::Ended(_, exit) => {
                *exit != Exit::Code(0) || run.kind != Kind::Oneshot && !scripted
            }
            Event::StartFailed(..) | Event::Protocol(..) | Event::WatchdogTrigger(_) => true,
            Event::Gone(_) => scripted || !run.died,
            _ => false,
        };
        let first =
            run.told.is_none() && (!run.died || scripted && matches!(event, Event::Gone(_)));
        if bad && first {
            self.failing.add(run.unit);
        }
        let zero =
            matches!(event, Event::Exited(_, Exit::Code(0)) | Event::Ended(_, Exit::Code(0)));
        match event {
            Event::Exited(..) | Event::Protocol(..) => run.died = true,
            Event::Gone(_) | Event::Ended(..) | Event::StartFailed(..) | Event::Skipped(..) => {
                run.died |= !matches!(event, Event::Gone(_));
                run.over = Some(now);
                run.skipped |= matches!(event, Event::Skipped(..));
                if bad && first && !expected && !zero {
                    self.quiet_until.insert(run.unit, now.after(times.delay));
                }
            }
            Event::ExtendTimeout(..) => run.extended = true,
            Event::Stopping(_) if run.leaving.is_none() => {
                run.leaving = Some(now);
                let is_active = run.active.is_some();
                run.leave_by = times.stop_timeout.filter(|_| is_active).map(|span| now.after(span));
            }
            _ => {}
        }
    }

    /// Records an exit that is in restart-except.
    pub fn bar(&mut self, event: &Event) {
        let run = event.run().and_then(|id| self.runs.get(&id));
        // The exit of a script is not the end of its run.
        let own = |run: &&Record| run.told.is_none() && run.kind != Kind::BackgroundScripted;
        if let Some(run) = run.filter(own) {
            self.barred.add(run.unit);
        }
    }

    /// Records a possible connection.
    pub fn call(&mut self, event: &Event, universe: &Universe) {
        if let Event::Fire(name) = event {
            self.called = self.called.or(universe.unit(name).into_iter().collect());
        }
    }

    /// Ends an event. `prompt`: see [`RunLedger::prompt`].
    pub fn after(&mut self, event: &Event, prompt: Set) {
        self.prompt = prompt;
        if matches!(event, Event::Restart(_) | Event::Retry(_) | Event::Reload { .. }) {
            self.quiet_until.clear();
            self.barred = Set::EMPTY;
        }
    }

    /// Records a start.
    pub fn start(&mut self, now: Time, id: RunId, unit: usize, kind: Kind, graph: &Graph) {
        let to = |kinds: fn(DependencyKind) -> bool| -> Set { graph.to(unit, kinds) };
        self.orders += 1;
        self.called = self.called.less(Set::EMPTY.with(unit));
        self.last.insert(unit, id);
        self.runs.insert(
            id,
            Record {
                unit,
                kind,
                started: now,
                behind: to(DependencyKind::orders),
                hard: to(|kind| kind == DependencyKind::DependsOn),
                told: None,
                done: false,
                killed: None,
                died: false,
                active: None,
                ended_well: false,
                skipped: false,
                extended: false,
                leaving: None,
                leave_by: None,
                over: None,
            },
        );
    }

    /// Records a stop.
    pub fn stop(&mut self, now: Time, id: RunId, nothing_left: bool, done: bool) {
        self.orders += 1;
        if let Some(run) = self.runs.get_mut(&id) {
            run.told.get_or_insert(now);
            run.done |= done;
            // A run with remaining work, at least an exec-stop, is not over.
            run.over = nothing_left.then_some(now);
        }
    }

    /// Records an active run, or one that has succeeded and does not remain.
    pub fn seen_active(&mut self, now: Time, unit: usize, ended_well: bool) {
        let run = self.last.get(&unit).and_then(|run| self.runs.get_mut(run));
        if let Some(run) = run {
            run.active.get_or_insert(now);
            run.ended_well |= ended_well;
        }
    }

    /// Records a kill: a failure, even of a run that had succeeded.
    pub fn kill(&mut self, now: Time, id: RunId) {
        self.orders += 1;
        if let Some(run) = self.runs.get_mut(&id) {
            run.killed.get_or_insert(now);
            if run.done {
                self.failing.add(run.unit);
            }
        }
    }
}
