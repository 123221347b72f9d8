//! The state machine: events in, actions out. All decisions about units are made here.
//!
//! # A step
//!
//! [`Machine::step`] takes one event at one point in time and returns actions. It has two halves.
//! *Apply* changes the unit that the event is about, or the operator's wish ([`fact`],
//! [`run_notifications`], [`trigger`], [`wish`], [`restart_ops`], [`ending`]). *Settle* carries out
//! the consequences ([`settle`]): it tells every unit to stop that may stop, until nothing changes,
//! and then starts every unit that may start, in order. Between the halves a change travels from
//! neighbour to neighbour as one-step changes of counters ([`propagation`]). One search per change
//! of goal, policy or generation finds the needed set ([`needed_set`], [`recompute`]).
//! [`apply_generation`] exchanges the generation at once. [`record`] turns everything but the
//! generation into records and back.
//!
//! There is no clock, no recursion and no I/O, and no result depends on the order of memory: equal
//! events give equal actions. Timers fire only at [`Event::Tick`].
//!
//! # Shown states ([`shown`]): the first row that fits
//!
//! | state | when |
//! |---|---|
//! | stopping | told to stop, or up and in must_stop |
//! | starting | its run is not ready |
//! | running, reloading, exited | its run is active |
//! | failed | broken, lost a conflict, its own failure is final, or its verdict stands |
//! | disabled | not needed |
//! | failed (dependency) | a hard provider is failed, past its verdict, masked or missing |
//! | waiting | for targets, a slot, or a backoff |
//!
//! # Order of authority
//!
//! Shutdown · the policy's masks · the goal, the overlay, the sources' roots, fired triggers · the
//! dependencies of these · slots. In a conflict the unit of the weaker root gives way.
//!
//! # Decisions
//!
//! Choices that the rules leave open:
//! - *Optional hard dependencies*: `depends-on: t?` is no dependency while no unit provides `t` or
//!   `t` is masked.
//! - *A mask names a target*. It masks a whole unit if it is the unit's own name, if all targets of
//!   the unit are masked, or if the targets are names of one thing (as with imported units).
//! - *Failed is the shown state*: dependents of a stopping provider wait; they are failed
//!   (dependency) only once the provider is down and failed.
//! - *An unkillable run* is shown as failed, opens waits-for and restart-with, and makes hard
//!   dependents failed (dependency). It still blocks conflicting units and the unit's own next run.
//! - *The floor of the delay* (from the 10th failure on) is capped by `restart-delay-max`, but is
//!   never under 100 ms.
//! - *`restart: always`* or *on-success* of a oneshot: it is exited (active) until the delay ends.
//! - *A firing* of a failed unit keeps its failures and verdict and only sets the time of the next
//!   try. A firing of an exited unit runs it again. A firing of another up unit that does not have
//!   to stop does nothing.
//! - *One root that needs both sides of a conflict* at boot: the first unit by name stays.
//! - *A lost milestone* (a depends-ms target of a run that no unit provides any more) degrades the
//!   unit and everything that reaches it.
//! - *A stale run* stays stale until its definition changes again or it is restarted.
//! - *requires-active* is `after` with a condition. The unit waits while the provider is starting,
//!   and is failed (dependency) if nothing starts the provider. The condition is latched when the
//!   unit starts.
//! - *on-failure, on-success* work like triggers. A needed unit with a verdict, or one that exited
//!   (and was not skipped), pulls its target in as the weakest root while that state lasts. They
//!   follow the stored state of the unit, never the computed state failed (dependency), so N
//!   remains the least set. A ring of them is no loop: each unit is in N once, retries have delays,
//!   and a further final failure runs only exited units again. While a unit is retried with a
//!   verdict, its `on-failure` target stays needed. A success ends the verdict, and the units that
//!   `on-failure` started are stopped.
//! - *reload-with* follows `reload-unit`, not a reload by `on-change`, which concerns the changed
//!   unit alone. Units that are not running or cannot reload are passed over.
//! - *A restart class* looks at the reason of the failure. A final failure has its verdict at once,
//!   as with `restart: never`. restart-except and restart-also look at the exit of the main process
//!   and come before the class, in this order. An exec error is final in any case.
//! - *A run-timeout* counts from the time at which the run became active; EXTEND_TIMEOUT_USEC
//!   postpones it. An exited run has none.
//! - *Without `remain`* a run that succeeds is over: it is stopped like any other
//!   (`StopReason::Done`), and the unit then rests as exited with nothing left to stop. The success
//!   opens waits-for and depends-ms. For depends-on and requires-active the unit is not active, so
//!   its dependents lose it and are failed (dependency). The unit runs again after a firing, a
//!   restart, a changed definition, the loss of a depends-on provider, or a new need. A oneshot runs
//!   its exec-stop before it reports its end.
//! - *A failed assert* is an exec error (stage assert): final until retry or a new definition.
//! - *A skipped* main unit of `exit-with` ends init with 0.
//! - *At boot* the goal counts as broken too if a hard dependency of it cannot be satisfied.

pub mod action;
mod apply_generation;
#[cfg(any(test, feature = "sim"))]
mod audit;
mod cell;
mod ending;
pub mod event;
mod fact;
mod failure;
mod health;
mod held_targets;
mod index;
pub mod mutant;
pub mod needed_set;
mod phase;
pub mod plan;
mod propagation;
pub mod reason;
mod recompute;
pub mod record;
mod restart_ops;
mod run;
mod run_notifications;
mod settle;
mod shown;
mod stop_order;
pub mod timer;
mod trigger;
pub mod view;
pub mod why;
mod wish;

#[cfg(test)]
mod tests;

use crate::graph::{Fault, Graph};
use crate::text::time::Time;
use crate::unit::generation::Generation;
use crate::unit::policy::Policy;
use action::{Action, Note, Outcome};
use cell::Cell;
use ending::Ending;
use event::{Event, RunId};
use mutant::Mutant;
use needed_set::Wish;
use reason::Refusal;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use timer::{Key, Timers};

/// Index of a cell: the [`crate::unit::generation::UnitId`] of its unit. Up runs of removed units
/// have the indices behind the last unit.
type Ix = u32;

/// See the module.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The planted bug that the simulator must find.
    #[cfg(feature = "sim")]
    mutant: Option<Mutant>,
    generation: Arc<Generation>,
    graph: Arc<Graph>,
    /// Errors in the present graph.
    faults: Arc<Vec<Fault>>,
    policy: Policy,
    wish: Wish,
    booted: bool,
    /// Used if the settings have no shutdown-deadline.
    shutdown_deadline: Duration,
    ending: Option<Ending>,
    /// Set once the unit of `exit-with` is over for good.
    exit_code: Option<u8>,

    cells: Vec<Cell>,
    /// Names of removed units that are still up; their cells follow those of the generation.
    removed_units: Vec<crate::text::name::Name>,
    /// Returned for an index that has no cell.
    empty: Cell,
    runs: BTreeMap<RunId, Ix>,
    next_run: u64,
    timers: Timers,

    /// Worklist of [`propagation`].
    queue: Vec<Ix>,
    /// Units whose shown state may have changed in this step.
    touched: Vec<Ix>,
    /// Units whose record may have changed since [`Machine::take_changes`].
    changed: Vec<Ix>,
    /// All records may have changed.
    all_changed: bool,
    visited: usize,
    may_stop: BTreeSet<Key>,
    may_start: BTreeSet<(Reverse<u32>, Ix)>,
    /// The units among them that need no slot.
    may_start_freely: BTreeSet<(Reverse<u32>, Ix)>,
    /// `max-starting`; 0 means no limit.
    slots: u32,
    slots_used: u32,
    /// The needed set N must be searched again.
    search_due: bool,
    triggers: Vec<Ix>,
    /// Stop order of runs started under an earlier graph: dependent → providers.
    stop_order: BTreeMap<Ix, Vec<Ix>>,
    /// Some of these edges were left out because they would close a ring.
    stop_order_cut: bool,
    /// Runs that hold a target which other units wait for: holder → waiting units.
    holders: BTreeMap<Ix, Vec<Ix>>,
    /// Units that restart with the run that still holds a target: holder → followers. They are told
    /// to stop with the holder, and do not start while it is stopping.
    followers: BTreeMap<Ix, Vec<Ix>>,
}

impl Machine {
    /// Creates a machine that waits for [`Event::Boot`]. `shutdown_deadline` is used if the
    /// settings have none.
    pub fn new(shutdown_deadline: Duration) -> Machine {
        Machine {
            #[cfg(feature = "sim")]
            mutant: None,
            generation: Arc::default(),
            graph: Arc::default(),
            faults: Arc::default(),
            policy: Policy::default(),
            wish: Wish::default(),
            booted: false,
            shutdown_deadline,
            ending: None,
            exit_code: None,
            cells: Vec::new(),
            removed_units: Vec::new(),
            empty: Cell::empty(),
            runs: BTreeMap::new(),
            next_run: 1,
            timers: Timers::default(),
            queue: Vec::new(),
            touched: Vec::new(),
            changed: Vec::new(),
            all_changed: true,
            visited: 0,
            may_stop: BTreeSet::new(),
            may_start: BTreeSet::new(),
            may_start_freely: BTreeSet::new(),
            slots: 0,
            slots_used: 0,
            search_due: false,
            triggers: Vec::new(),
            stop_order: BTreeMap::new(),
            stop_order_cut: false,
            holders: BTreeMap::new(),
            followers: BTreeMap::new(),
        }
    }

    /// Processes one event and returns the resulting actions. Nothing else changes the machine.
    pub fn step(&mut self, now: Time, event: Event) -> Outcome {
        let mut out = Vec::new();
        self.visited = 0;
        let refused = self.apply(now, event, &mut out).err();
        self.settle(now, &mut out);
        self.notes(now, &mut out);
        Outcome { actions: out, refused }
    }

    /// Returns the time at which the next [`Event::Tick`] is due, or `None` if no timer is armed.
    pub fn next_deadline(&self) -> Option<Time> {
        let wish = self.wish.want.values().flatten().min().copied();
        let wish = wish.filter(|_| !self.planted(Mutant::WantNeverEnds));
        let end = self.ending.and_then(|ending| ending.deadline);
        [self.timers.next(), wish, end].into_iter().flatten().min()
    }

    fn apply(&mut self, now: Time, event: Event, out: &mut Vec<Action>) -> Result<(), Refusal> {
        let is_wish = event.run().is_none() && !matches!(event, Event::Tick | Event::Fire(_));
        if is_wish && self.ending.is_some() && !self.planted(Mutant::ShutdownTakesWishes) {
            return Err(Refusal {
                kind: "stopping".to_string(),
                message: "a shutdown is in progress".to_string(),
                hint: String::new(),
            });
        }
        // The unit of a fact. An event about no run does not use it.
        let ix = match event.run() {
            None => Ix::MAX,
            Some(run) => match self.unit_of(run).filter(|ix| self.can_report(*ix, &event)) {
                Some(ix) => ix,
                None => return Ok(()),
            },
        };
        match event {
            Event::Boot { generation, targets } => return self.boot(now, generation, targets, out),
            Event::SetGoal(goal) => return self.set_goal(now, goal, out),
            Event::Want { target, until } => return self.want(now, target, until, out),
            Event::Unwant(target) => return self.unwant(now, &target, out),
            Event::SetPolicy(policy) => return self.set_policy(now, policy, out),
            Event::Reload { generation, no_restart, tolerant } => {
                return self.reload(now, &generation, (no_restart, tolerant), out);
            }
            Event::Restart(names) => return self.restart(&names),
            Event::ReloadUnit(names) => return self.reload_unit(now, &names, out),
            Event::Retry(names) => return self.retry(&names),
            Event::Shutdown(how) => self.end(now, how),
            Event::Tick => self.tick(now, out),
            Event::Fire(name) => {
                if let Some(unit) = self.generation.find_unit(name.as_str()) {
                    self.fired(now, unit.0);
                }
            }
            Event::Executed(_) => self.executed(now, ix),
            Event::Ready(_) => self.ready(now, ix),
            Event::Reloading(_) => self.reloading(now, ix, true),
            Event::Reloaded(_, done) => self.reloaded(ix, done),
            Event::Status(_, text) => {
                if let Some(run) = self.cell_mut(ix).phase.run_mut() {
                    run.status = text;
                }
            }
            Event::ExtendTimeout(_, span) => self.extend(now, ix, span),
            Event::WatchdogEvery(_, every) => self.ping(now, ix, Some(every)),
            Event::WatchdogPing(_) => self.ping(now, ix, None),
            Event::WatchdogTrigger(_) => self.watchdog(now, ix, out),
            Event::Exited(_, exit) => self.exited(now, ix, exit, false, out),
            Event::Ended(_, exit) => self.exited(now, ix, exit, true, out),
            Event::Gone(_) => self.nothing_left(now, ix, out),
            Event::Skipped(_, condition) => self.skipped(now, ix, condition),
            Event::StartFailed(_, failure) => self.start_failed(now, ix, failure, out),
            Event::Protocol(_, message) => self.broke_protocol(now, ix, message, out),
            Event::StopFailed(_, reason) => self.stop_failed(ix, reason),
            Event::OutOfMemory(_) => {
                if let Some(run) = self.cell_mut(ix).phase.run_mut() {
                    run.out_of_memory = true;
                }
            }
            Event::Stopping(_) => self.leaving(now, ix),
        }
        Ok(())
    }

    /// Fires all timers that are due, in order of time and name, and settles after each. The
    /// shutdown deadline comes after the units' timers, because it is about what still runs.
    fn tick(&mut self, now: Time, out: &mut Vec<Action>) {
        while let Some(due) = self.next_deadline().filter(|due| *due <= now) {
            if let Some((ix, timer)) = self.timers.take_due(due) {
                self.fire_timer(now, ix, timer, out);
            } else if self.ending.and_then(|ending| ending.deadline) == Some(due) {
                self.end_deadline(now, out);
            } else {
                self.expire(now);
            }
            self.settle(now, out);
            if self.planted(Mutant::OneTimerATick) {
                break;
            }
        }
    }

    /// Emits one note for each unit whose shown state has changed.
    fn notes(&mut self, now: Time, out: &mut Vec<Action>) {
        let mut touched = std::mem::take(&mut self.touched);
        self.visited += touched.len();
        touched.sort_unstable_by_key(|ix| self.key(*ix));
        for ix in touched.drain(..) {
            let to = self.shown(ix);
            let cell = self.cell_mut(ix);
            cell.touched = false;
            let from = std::mem::replace(&mut cell.shown, to);
            if from != to {
                cell.since = now;
                let run = self.cell(ix).phase.run().map(|run| run.id);
                let (unit, reason) = (self.name(ix), self.reason_of(ix));
                let note = Note { unit, run, from, to, reason };
                if self.planted(Mutant::NotedTwice) {
                    out.push(Action::Note(note.clone()));
                }
                out.push(Action::Note(note));
            }
        }
        self.touched = touched;
    }
}
