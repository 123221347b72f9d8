//! What the simulator itself has seen: every run from its start to its end, every
//! order given for it, every fact reported of it. Kept apart from both the machine
//! and the oracle, so that an invariant judges by what happened and not by what
//! either of them believes.

use crate::machine::event::{Event, RunId};
use crate::simulator::graph::{Graph, Universe};
use crate::simulator::set::Set;
use crate::spec::{DependencyKind, Exit, Kind};
use crate::text::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// One run, as seen.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its unit.
    pub unit: usize,
    /// Its type.
    pub kind: Kind,
    /// When.
    pub started: Time,
    /// Providers of its ordering edges then.
    pub behind: Set,
    /// Providers of its depends-on edges then.
    pub hard: Set,
    /// Stop was ordered.
    pub told: Option<Time>,
    /// It was told to stop because it had ended well.
    pub done: bool,
    /// KILL was ordered.
    pub killed: Option<Time>,
    /// Its main process ended, or it broke its protocol, by itself.
    pub died: bool,
    /// First seen active.
    pub active: Option<Time>,
    /// It ended with a success that does not remain.
    pub ended_well: bool,
    /// A condition was not met: nothing of it was begun.
    pub skipped: bool,
    /// It asked for more time.
    pub extended: bool,
    /// It said that it ends.
    pub leaving: Option<Time>,
    /// By when it has to, where it was active, by what its stop-timeout was as it said so.
    pub leave_by: Option<Time>,
    /// Nothing of it is left.
    pub over: Option<Time>,
}

/// What a run's definition gives it, as a fact of it comes.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// How long the next run waits at least, should this one have failed.
    pub delay: Duration,
    /// How long it has to end.
    pub stop_timeout: Option<Duration>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct RunLedger {
    /// Every run.
    pub runs: BTreeMap<RunId, Record>,
    /// The last run, by unit.
    pub last: BTreeMap<usize, RunId>,
    /// Units seen to fail by themselves and not active since.
    pub failing: Set,
    /// Units whose last run ended as their restart-except says, and to whom nothing happened since.
    pub barred: Set,
    /// Units whose run stops promptly.
    pub prompt: Set,
    /// Units for which a connection came since they were last started.
    pub called: Set,
    /// After a failure, when it may start again at the earliest.
    pub quiet_until: BTreeMap<usize, Time>,
    /// By when all must be over, once the end has been asked for; and that it is.
    pub end: Option<Time>,
    /// See [`RunLedger::end`].
    pub finished: bool,
    /// Orders given.
    pub orders: u64,
    /// Facts reported of runs.
    pub facts: u64,
    /// Facts of runs already over.
    pub late_facts: u64,
    /// Ends reported a second time.
    pub twice: u64,
}

impl RunLedger {
    /// The last run of `unit`.
    pub fn of(&self, unit: usize) -> Option<&Record> {
        self.last.get(&unit).and_then(|run| self.runs.get(run))
    }

    /// Units of whose last run something may be left.
    pub fn alive(&self) -> Set {
        let alive = |unit: &usize| self.of(*unit).is_some_and(|run| run.over.is_none());
        self.last.keys().copied().filter(alive).collect()
    }

    /// Before the machine hears of it. `expected`: the run is in must_stop.
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

    /// The end of a run is on its restart-except.
    pub fn bar(&mut self, event: &Event) {
        let run = event.run().and_then(|id| self.runs.get(&id));
        // The end of a script is not that of its run.
        let own = |run: &&Record| run.told.is_none() && run.kind != Kind::BackgroundScripted;
        if let Some(run) = run.filter(own) {
            self.barred.add(run.unit);
        }
    }

    /// A connection may have come.
    pub fn call(&mut self, event: &Event, universe: &Universe) {
        if let Event::Fire(name) = event {
            self.called = self.called.or(universe.unit(name).into_iter().collect());
        }
    }

    /// All of the event is done. `prompt`: see [`RunLedger::prompt`].
    pub fn after(&mut self, event: &Event, prompt: Set) {
        self.prompt = prompt;
        if matches!(event, Event::Restart(_) | Event::Retry(_) | Event::Reload { .. }) {
            self.quiet_until.clear();
            self.barred = Set::EMPTY;
        }
    }

    /// A run begins.
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

    /// A run is told to stop.
    pub fn stop(&mut self, now: Time, id: RunId, nothing_left: bool, done: bool) {
        self.orders += 1;
        if let Some(run) = self.runs.get_mut(&id) {
            run.told.get_or_insert(now);
            run.done |= done;
            // With something left to do, exec-stop if nothing else, it is not over.
            run.over = nothing_left.then_some(now);
        }
    }

    /// Its run is active; or it has ended well and does not remain.
    pub fn seen_active(&mut self, now: Time, unit: usize, ended_well: bool) {
        let run = self.last.get(&unit).and_then(|run| self.runs.get_mut(run));
        if let Some(run) = run {
            run.active.get_or_insert(now);
            run.ended_well |= ended_well;
        }
    }

    /// A run is killed: a failure, even of one that had ended well.
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
