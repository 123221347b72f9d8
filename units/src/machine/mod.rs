//! The machine: facts in, deeds out. The only place where anything is decided.
//!
//! # The story
//!
//! [`Machine::step`] takes one event at one point in time and answers with orders.
//! It works in two halves. *Apply* changes the one unit the event speaks of, or the
//! one wish ([`fact`], [`run_notifications`], [`trigger`], [`wish`], [`restart_ops`],
//! [`ending`]). *Settle* carries out what
//! follows ([`settle`]): tell all that may stop, until nothing moves; then start all
//! that may start, in order. Between the two, a change travels from neighbour to
//! neighbour as one-step changes of counters ([`propagation`]). What is needed at all is
//! found by one search per change of goal, policy or generation ([`needed_set`],
//! [`recompute`]); a generation is exchanged by one flip ([`apply_generation`]). All of it but the generation
//! goes into bytes and comes back from them ([`kept`]), or into records ([`record`]); where these are lost too, it begins
//! beside what is there ([`there`]).
//!
//! There is no clock, no recursion, no I/O, and nothing that depends on the order of
//! memory: the same events give the same orders. Timers fire at [`Event::Tick`] only.
//!
//! # What an operator sees ([`shown`]), the first row that fits
//!
//! | state | when |
//! |---|---|
//! | stopping | told to stop, or up and in must_stop |
//! | starting | its run is not ready |
//! | running, reloading, exited | its run is active |
//! | failed | its own failure is final, or its verdict stands |
//! | disabled | not needed |
//! | failed (dependency) | a hard provider is failed, past its verdict, masked or missing |
//! | waiting | for targets, a slot, or a backoff |
//!
//! # Order of authority
//!
//! The end (shutdown) · the policy's masks · the goal, the overlay, the sources'
//! roots, what triggers fired · the dependencies of what these need · slots. A unit
//! of a weaker root gives way in a conflict.
//!
//! # Decisions
//!
//! Where the rules leave a choice:
//! - *Optional hard dependencies*: `depends-on: t?` is no dependency while nobody
//!   provides `t` or it is masked.
//! - *A mask names a target*; it masks a whole unit where it is the unit's own name, where all
//!   the unit's targets are masked, or where these are names of one thing (an imported unit's are).
//! - *Failed is the shown state*: a provider on its way down makes its dependents wait; only
//!   once it is down and failed are they failed (dependency).
//! - *An unkillable run* is shown failed, opens waits-for and restart-with, and makes hard
//!   dependents failed (dependency); it still keeps conflicting units and its own next run away.
//! - *The floor of the delay* (from the 10th failure on) is capped by `restart-delay-max`, but
//!   is never under 100 ms.
//! - *`restart: always`* of a oneshot: it is exited (active) until the delay is over.
//! - *A firing* of a failed unit keeps its failures and verdict and only sets the time of the next
//!   try; a firing on an up unit that is not to stop does nothing.
//! - *One root needing both sides of a conflict* at boot: the first by name stays.
//! - *A lost milestone* (a depends-ms target of a run that nobody provides any more) degrades the
//!   unit and, like all that is amiss, what reaches it.
//! - *A run kept as stale* stays so until its definition changes again or it is restarted.
//! - *requires-active* is `after` with a condition: while the provider is on its way the unit
//!   waits, where nothing brings it up it is failed (dependency); latched from its start on.
//! - *on-failure, on-success* work like triggers: the verdict, or being exited (not skipped), of a
//!   unit in N brings the target in as the weakest root, for as long as it stands. They follow what
//!   is stored of the unit itself, never failed (dependency), so N stays a least set and no ring of
//!   them is a loop (each further final failure runs again what has exited): each unit is in N once, and retries have their delays. A unit that is retried
//!   with its verdict standing keeps its alarm; a success ends it, and stops what it had started.
//! - *reload-with* follows `reload-unit`, not a reload by `on-change`, which is about the changed
//!   unit alone; who is not running or has no way to reload is passed by.
//! - *A restart class* asks for the reason of the failure; a final failure has its verdict at once,
//!   as with `restart: never`. restart-except and restart-also ask for the end of the main process
//!   and come before the class, in this order. An exec error is final whatever they say.
//! - *A run-timeout* counts from when the run became active, EXTEND_TIMEOUT_USEC puts it off; an
//!   exited run has none.
//! - *Without `remain`* a run that ends well is over: it is stopped like any other (`StopReason::Done`)
//!   and the unit then rests as exited, with nothing left to stop. The success opens waits-for and
//!   depends-ms. For depends-on and requires-active the unit is not active: what depends on it loses
//!   it and is failed (dependency). A firing, a restart or a changed definition runs it again; it does
//!   not run again by itself. A oneshot does its exec-stop before it reports its end.
//! - *A failed assert* is an exec error (stage assert): final until retry or a new definition.
//! - *A skipped* main unit of `exit-with` ends init with 0.
//! - *At boot* the goal counts as broken too when a hard dependency of it can not be had. Beside what
//!   lives ([`there`]) no emergency takes its place.

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
mod kept;
pub mod mutant;
pub mod needed_set;
mod phase;
pub mod plan;
mod propagation;
pub mod reason;
mod recompute;
pub mod record;
mod restart_ops;
#[cfg(feature = "sim")]
pub mod rule;
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
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use timer::{Key, Timers};

/// A unit's place: its [`crate::unit::generation::UnitId`], or for an up run of a removed unit one behind them all.
type Ix = u32;

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// A mistake made on purpose, for the simulator to find.
    #[cfg(feature = "sim")]
    #[serde(skip)]
    mutant: Option<Mutant>,
    #[serde(skip)]
    generation: Arc<Generation>,
    #[serde(skip)]
    graph: Arc<Graph>,
    /// Mistakes in the present graph.
    #[serde(skip)]
    faults: Arc<Vec<Fault>>,
    policy: Policy,
    wish: Wish,
    booted: bool,
    /// Used where the settings name no shutdown-deadline.
    shutdown_deadline: Duration,
    ending: Option<Ending>,
    /// `exit-with` has come true.
    exit_code: Option<u8>,

    cells: Vec<Cell>,
    /// Names of the removed units that are still up, behind the generation's.
    removed_units: Vec<crate::text::name::Name>,
    /// Stands in for a cell that is not there.
    #[serde(skip, default = "Cell::empty")]
    empty: Cell,
    runs: BTreeMap<RunId, Ix>,
    next_run: u64,
    /// Numbers that runs had before a crash, lowest first, for the next starts of their units.
    #[serde(skip)]
    begun_before: BTreeMap<Ix, BTreeSet<RunId>>,
    timers: Timers,

    /// Worklist of [`propagation`].
    queue: Vec<Ix>,
    /// Units whose shown state may have changed in this step.
    touched: Vec<Ix>,
    /// Units whose record may have changed since [`Machine::take_changes`].
    #[serde(skip)]
    changed: Vec<Ix>,
    /// All records may have.
    #[serde(skip)]
    all_changed: bool,
    visited: usize,
    may_stop: BTreeSet<Key>,
    may_start: BTreeSet<(Reverse<u32>, Ix)>,
    /// Those of them that take no place.
    may_start_freely: BTreeSet<(Reverse<u32>, Ix)>,
    /// `max-starting`; 0: no limit.
    slots: u32,
    slots_used: u32,
    /// N has to be searched anew.
    search_due: bool,
    triggers: Vec<Ix>,
    /// Stop order of old runs: dependent → providers.
    stop_order: BTreeMap<Ix, Vec<Ix>>,
    /// Edges were left out of it that would have closed a ring.
    stop_order_cut: bool,
    /// Who gives back a target another unit waits for: holder → waiting.
    holders: BTreeMap<Ix, Vec<Ix>>,
    /// Units that restart with who provides a target, by the run that still holds it: told with it, and
    /// not begun while it is stopping.
    followers: BTreeMap<Ix, Vec<Ix>>,
}

impl Machine {
    /// One that waits for [`Event::Boot`]. `shutdown_deadline` holds where the settings name none.
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
            begun_before: BTreeMap::new(),
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

    /// The only way in.
    pub fn step(&mut self, now: Time, event: Event) -> Outcome {
        let mut out = Vec::new();
        self.visited = 0;
        let refused = self.apply(now, event, &mut out).err();
        self.settle(now, &mut out);
        self.notes(now, &mut out);
        Outcome { actions: out, refused }
    }

    /// When the next [`Event::Tick`] is due; None: nothing is awaited in time.
    pub fn next_deadline(&self) -> Option<Time> {
        let wish = self.wish.want.values().flatten().min().copied();
        let wish = wish.filter(|_| !self.planted(Mutant::WantNeverEnds));
        let end = self.ending.and_then(|ending| ending.deadline);
        [self.timers.next(), wish, end].into_iter().flatten().min()
    }

    fn apply(&mut self, now: Time, event: Event, out: &mut Vec<Action>) -> Result<(), Refusal> {
        match event {
            Event::Boot { .. }
            | Event::SetGoal(_)
            | Event::Want { .. }
            | Event::Unwant(_)
            | Event::SetPolicy(_)
            | Event::Reload { .. }
            | Event::Restart(_)
            | Event::ReloadUnit(_)
            | Event::Retry(_)
            | Event::Shutdown(_) => self.grant(now, event, out),
            Event::Tick => {
                self.tick(now, out);
                Ok(())
            }
            Event::Fire(name) => {
                if let Some(unit) = self.generation.find_unit(name.as_str()) {
                    self.fired(now, unit.0);
                }
                Ok(())
            }
            Event::Executed(run)
            | Event::Ready(run)
            | Event::Reloading(run)
            | Event::Reloaded(run, _)
            | Event::Stopping(run)
            | Event::Status(run, _)
            | Event::ExtendTimeout(run, _)
            | Event::WatchdogEvery(run, _)
            | Event::WatchdogPing(run)
            | Event::WatchdogTrigger(run)
            | Event::Exited(run, _)
            | Event::Ended(run, _)
            | Event::Gone(run)
            | Event::Skipped(run, _)
            | Event::StartFailed(run, _)
            | Event::Protocol(run, _)
            | Event::StopFailed(run, _)
            | Event::OutOfMemory(run) => {
                if let Some(ix) = self.unit_of(run).filter(|ix| self.can_report(*ix, &event)) {
                    self.report(now, ix, event, out);
                }
                Ok(())
            }
        }
    }

    fn grant(&mut self, now: Time, event: Event, out: &mut Vec<Action>) -> Result<(), Refusal> {
        if self.ending.is_some() && !self.planted(Mutant::ShutdownTakesWishes) {
            return Err(Refusal {
                kind: "stopping".to_string(),
                message: "everything is being stopped".to_string(),
                hint: String::new(),
            });
        }
        match event {
            Event::Boot { generation, targets } => self.boot(now, generation, targets, out),
            Event::SetGoal(goal) => self.set_goal(now, goal, out),
            Event::Want { target, until } => self.want(now, target, until, out),
            Event::Unwant(target) => self.unwant(now, &target, out),
            Event::SetPolicy(policy) => self.set_policy(now, policy, out),
            Event::Reload { generation, no_restart, tolerant } => {
                self.reload(now, &generation, (no_restart, tolerant), out)
            }
            Event::Restart(names) => self.restart(&names),
            Event::ReloadUnit(names) => self.reload_unit(now, &names, out),
            Event::Retry(names) => self.retry(&names),
            Event::Shutdown(how) => {
                self.end(now, how);
                Ok(())
            }
            Event::Executed(_)
            | Event::Ready(_)
            | Event::Reloading(_)
            | Event::Reloaded(_, _)
            | Event::Stopping(_)
            | Event::Status(_, _)
            | Event::ExtendTimeout(_, _)
            | Event::WatchdogEvery(_, _)
            | Event::WatchdogPing(_)
            | Event::WatchdogTrigger(_)
            | Event::Exited(_, _)
            | Event::Ended(_, _)
            | Event::Gone(_)
            | Event::Skipped(_, _)
            | Event::StartFailed(_, _)
            | Event::Protocol(_, _)
            | Event::StopFailed(_, _)
            | Event::OutOfMemory(_)
            | Event::Fire(_)
            | Event::Tick => Ok(()),
        }
    }

    fn report(&mut self, now: Time, ix: Ix, event: Event, out: &mut Vec<Action>) {
        match event {
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
            Event::Boot { .. }
            | Event::SetGoal(_)
            | Event::Want { .. }
            | Event::Unwant(_)
            | Event::SetPolicy(_)
            | Event::Reload { .. }
            | Event::Restart(_)
            | Event::ReloadUnit(_)
            | Event::Retry(_)
            | Event::Shutdown(_)
            | Event::Fire(_)
            | Event::Tick => {}
        }
    }

    /// All that is due by now, each followed by what follows from it, in order of time and name;
    /// the end's own deadline after the units', for it is about what still remains.
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

    /// One line for each unit that is shown differently now.
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
