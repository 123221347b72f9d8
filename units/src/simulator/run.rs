//! Plays one schedule: the machine and the oracle get the same events, and after each one their
//! answers are compared and every invariant is checked. Read on in [`crate::simulator::invariant`]
//! and [`crate::simulator::oracle`].

use crate::machine::action::StopReason;
use crate::machine::event::Event;
use crate::simulator::compare;
use crate::simulator::coverage::Coverage;
use crate::simulator::fact;
use crate::simulator::fault::Fault;
use crate::simulator::graph::Universe;
use crate::simulator::invariant::{self, whole};
use crate::simulator::oracle::Oracle;
use crate::simulator::process::Processes;
use crate::simulator::rng::Rng;
use crate::simulator::run_ledger::RunLedger;
use crate::simulator::schedule::{Schedule, Wish, WishKind};
use crate::simulator::set::Set;
use crate::simulator::shape::World;
use crate::simulator::subject::Subject;
use crate::simulator::unit_model::{UnitModel, universe};
use crate::simulator::view::{Order, Past, Seen, View};
use crate::spec::DependencyKind;
use crate::text::time::Time;
use std::time::Duration;

/// The least number of events of a schedule, and the limit of rounds of its wishes to reach it.
const ENOUGH: u64 = 100;
const ROUNDS: u64 = 16;
/// All queries are made after this many events.
const ASKED: u64 = 128;
/// Every drawn schedule has at least this many wishes.
const SHRUNK: usize = 25;

/// A failure of a schedule.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The invariant, or the answer of the oracle that differs.
    pub what: String,
    /// The description.
    pub detail: String,
    /// The number of the event.
    pub event: u64,
    /// Events, actions and answers up to it, if requested.
    pub log: Vec<String>,
}

/// Runs a schedule without the comparison and with one invariant only. Returns whether the
/// invariant fails, for planted bugs; it never fails for a correct machine.
pub fn objects(world: &World, schedule: &Schedule, subject: &Subject, judge: &'static str) -> bool {
    let play = || {
        let mut coverage = Coverage::default();
        let mut runner = Runner::new(world, schedule, subject.clone(), &mut coverage, false);
        runner.judge = Some(judge);
        runner.play(world, schedule).err().map(|(what, _)| what).ok_or(runner.trace)
    };
    match play() {
        Ok(what) => what == judge,
        Err(trace) if judge == whole::L15 => {
            play().err().is_none_or(|again| whole::l15_determinism(trace, again).is_err())
        }
        Err(_) => false,
    }
}

/// Runs a schedule twice; errors unless both runs are equal and every check passes.
pub fn twice(world: &World, schedule: &Schedule, subject: &Subject) -> Result<(), Failure> {
    let once = || run(world, schedule, subject.clone(), &mut Coverage::default(), false);
    let (one, other) = (once()?, once()?);
    whole::l15_determinism(one, other).map_err(|(what, detail)| Failure {
        what: what.to_string(),
        detail,
        event: 0,
        log: Vec::new(),
    })
}

/// A schedule in progress.
pub struct Runner<'a> {
    universe: Universe,
    model: UnitModel,
    subject: Subject,
    oracle: Oracle,
    processes: Processes,
    ledger: RunLedger,
    seen: Seen,
    now: Time,
    generations: u32,
    coverage: &'a mut Coverage,
    events: u64,
    log: Option<Vec<String>>,
    trace: u64,
    /// The only invariant that is checked; `None` for all and the comparison with the oracle.
    judge: Option<&'static str>,
}

/// Runs a schedule in a world. Errors with the first failure.
pub fn run(
    world: &World,
    schedule: &Schedule,
    subject: Subject,
    coverage: &mut Coverage,
    log: bool,
) -> Result<u64, Failure> {
    let mut runner = Runner::new(world, schedule, subject, coverage, log);
    let done = runner.play(world, schedule);
    match done {
        Ok(()) => {
            let Runner { events, trace, coverage, .. } = runner;
            coverage.schedules += 1;
            coverage.shapes[world.shape] += 1;
            coverage.sizes[world.model.units.len().min(31)] += 1;
            coverage.shortest = coverage.shortest.min(events);
            coverage.lively += u64::from(schedule.lively);
            Ok(trace)
        }
        Err((what, detail)) => {
            Err(Failure { what, detail, event: runner.events, log: runner.log.unwrap_or_default() })
        }
    }
}

type Held = Result<(), (String, String)>;

impl<'a> Runner<'a> {
    fn new(
        world: &World,
        schedule: &Schedule,
        subject: Subject,
        coverage: &'a mut Coverage,
        log: bool,
    ) -> Runner<'a> {
        let universe = universe();
        Runner {
            oracle: Oracle::new(universe.clone()),
            seen: Seen::default(),
            universe,
            model: world.model.clone(),
            subject,
            processes: Processes::new(schedule.seed, schedule.rates),
            ledger: RunLedger::default(),
            now: schedule.begin,
            generations: 1,
            coverage,
            events: 0,
            log: log.then(Vec::new),
            trace: 0,
            judge: None,
        }
    }

    fn play(&mut self, world: &World, schedule: &Schedule) -> Held {
        let generation = self.model.generation(&self.universe, 1);
        let top = self.universe.targets.get(world.top).cloned();
        self.step(Event::Boot { generation, targets: top.into_iter().collect() }, None)?;
        // A quiet world gets its wishes again with another rng until enough has happened; a shrunk
        // schedule makes each wish once.
        let rounds = if schedule.wishes.len() < SHRUNK { 1 } else { ROUNDS };
        for round in 0..rounds {
            for wish in &schedule.wishes {
                self.pass(self.now.after(wish.gap))?;
                self.wish(Wish { rng: wish.rng ^ round, ..*wish })?;
            }
            if self.events >= ENOUGH {
                break;
            }
        }
        self.pass(self.now.after(Duration::from_secs(120)))?;
        if schedule.lively { self.converge() } else { Ok(()) }
    }

    fn wish(&mut self, wish: Wish) -> Held {
        self.generations += 1;
        let as_event =
            |wish: Wish| wish.event(&self.model, &self.universe, self.now, self.generations);
        // Without triggers or preferences, sets another goal.
        let wished = as_event(wish).or_else(|| as_event(Wish { kind: WishKind::SetGoal, ..wish }));
        let Some((event, model)) = wished else { return Ok(()) };
        if !self.step(event, None)? {
            self.model = model;
        }
        Ok(())
    }

    /// Advances time to `until`: facts in their order, then timers.
    fn pass(&mut self, until: Time) -> Held {
        loop {
            let fact = self.processes.next_time();
            let timer = self.seen.deadline;
            let next = fact.into_iter().chain(timer).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            while let Some((fact, fault)) = self.processes.next_fact(self.now) {
                // A repeated fact about a live run must at least be harmless.
                let harmless =
                    matches!(fact, Event::Ready(_) | Event::Reloaded(..) | Event::Gone(_))
                        && fact.run().is_none_or(|run| self.processes.whose(run).is_some());
                if fault == Some(Fault::Stale) && !harmless && !self.is_late(&fact) {
                    continue;
                }
                self.step(fact, fault)?;
            }
            if self.seen.deadline.is_some_and(|at| at <= self.now) {
                self.step(Event::Tick, None)?;
            }
            self.whole(whole::l17_convergence(self.events, 20_000))?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// Stops faults and checks L16 and L17: the machine rests at the fixed point.
    fn converge(&mut self) -> Held {
        self.processes.calm(self.now);
        let before = self.events;
        for _ in 0..10 {
            self.pass(self.now.after(Duration::from_secs(60)))?;
        }
        let bound = 400 * self.oracle.stored.len() as u64;
        self.whole(whole::l17_convergence(self.events - before, bound))?;
        self.whole(whole::l16_confluence(&self.oracle, &self.seen))
    }

    /// Checks an invariant over whole schedules, if it is selected; L17 always counts.
    fn whole(&self, held: whole::Held) -> Held {
        let asked = |what: &str| self.judge.is_none_or(|judge| judge == what || what == whole::L17);
        match held {
            Err((what, detail)) if asked(what) => Err((what.to_string(), detail)),
            _ => Ok(()),
        }
    }

    /// Applies one event to machine and oracle. Returns true if it was refused.
    fn step(&mut self, event: Event, fault: Option<Fault>) -> Result<bool, (String, String)> {
        self.events += 1;
        let was = Past {
            graph: self.oracle.graph.clone(),
            needed: self.oracle.needed,
            unfinished: self.oracle.unfinished(),
        };
        let about = event.run().and_then(|run| self.ledger.runs.get(&run)).map(|run| run.unit);
        let late = self.is_late(&event);
        fact::hear(&mut self.ledger, &self.oracle, self.now, &event, late);
        let (actions, refused) = self.subject.step(self.now, event.clone());
        let orders = compare::orders(&self.universe, &actions);
        let after = self.subject.see(&self.universe);
        let (deeds, oracle_refused) = self.oracle.step(self.now, &event);
        self.note(&event, &orders, refused, &after);
        if refused != oracle_refused && self.judge.is_none() {
            let detail = format!("refused {refused}, the oracle says {oracle_refused}: {event:?}");
            return Err(("oracle: refusal".into(), detail));
        }
        if self.judge.is_none() {
            compare::same_orders(&orders, &deeds)?;
            compare::same_states(&self.oracle, &after)?;
        }
        let asked = self.events.is_multiple_of(ASKED).then(|| self.subject.ask(self.now));
        let view = View {
            now: self.now,
            event: &event,
            late,
            refused,
            orders: &orders,
            actions: &actions,
            before: &self.seen,
            after: &after,
            was: &was,
            is: &self.oracle,
            ledger: &self.ledger,
            asked,
            rebuilt: self.subject.rebuilt(),
        };
        self.coverage.count(&view, about, fault);
        let asked = |what: &str| self.judge.is_none_or(|judge| judge == what);
        let broken = invariant::broken(&view).find(|(what, _)| asked(what));
        if let Some((what, detail)) = broken {
            return Err((what.to_string(), detail));
        }
        if self.events.is_multiple_of(32) {
            self.subject.audit().map_err(|what| ("audit".to_string(), what))?;
        }
        if let (Event::Shutdown(_), false) = (&event, refused) {
            let span = self.model.settings.shutdown_deadline.unwrap_or_default();
            self.ledger.end = Some(self.now.after(span));
        }
        self.carry_out(&event, &orders, &after);
        self.seen = after;
        Ok(refused)
    }

    /// Returns true if the fact is about a run of which nothing is left, in the world or by the
    /// rules.
    fn is_late(&self, fact: &Event) -> bool {
        let over = |id| self.ledger.runs.get(&id).is_none_or(|run| run.over.is_some());
        let unknown = |id| self.oracle.whose(|run| run.id == id).is_empty();
        fact.run().is_some_and(|id| over(id) && unknown(id))
    }

    /// Carries out actions in the world.
    fn carry_out(&mut self, event: &Event, orders: &[Order], after: &Seen) {
        self.ledger.call(event, &self.universe);
        for order in orders {
            match order {
                Order::Start(unit, id) => {
                    let Some(run) = self.oracle.unit(*unit).cloned() else { continue };
                    self.ledger.quiet_until.remove(unit);
                    self.ledger.start(self.now, *id, *unit, run.kind, &self.oracle.graph);
                    self.processes.start(self.now, *unit, *id, run.kind, run.readiness);
                }
                Order::Stop(unit, id, reason, left) => {
                    self.ledger.stop(self.now, *id, *left, *reason == StopReason::Done);
                    if !matches!(reason, StopReason::Leftovers | StopReason::Done) {
                        let replaces = |other: &usize| {
                            let with = |kind| kind == DependencyKind::RestartWith;
                            other == unit || self.oracle.graph.to(*other, with).has(*unit)
                        };
                        let replaced: Set = self.ledger.barred.iter().filter(replaces).collect();
                        self.ledger.barred = self.ledger.barred.less(replaced);
                    }
                    if matches!(
                        reason,
                        StopReason::StartTimeout | StopReason::Watchdog | StopReason::RunTimeout
                    ) {
                        self.ledger.failing.add(*unit);
                    }
                    if *left {
                        self.processes.forget(*id);
                    } else {
                        self.processes.stop(self.now, *unit, *id);
                    }
                }
                Order::Kill(_, id) => {
                    self.ledger.kill(self.now, *id);
                    self.processes.kill(self.now, *id);
                }
                Order::Reload(_, id) => self.processes.reload(self.now, *id),
                Order::Finish => self.ledger.finished = true,
            }
        }
        self.ledger.after(event, self.oracle.whose(|run| run.unit.live.stop_promptly));
        if matches!(event, Event::Fire(_)) {
            self.ledger.barred = Set::EMPTY;
        }
        // A run that loses a provider while it stops is replaced without another stop action.
        let loses = |unit: &usize| {
            self.ledger.of(*unit).is_some_and(|run| {
                let is_active = |provider| after.state(provider).is_active();
                run.told.is_some() && !run.hard.iter().all(is_active)
            })
        };
        let lost: Set = self.ledger.barred.iter().filter(loses).collect();
        self.ledger.barred = self.ledger.barred.less(lost);
        let needed = self.oracle.needed;
        self.ledger.barred = self.ledger.barred.and(needed);
        self.ledger.quiet_until.retain(|unit, _| needed.has(*unit));
        for unit in 0..after.states.len() {
            if after.state(unit).is_active() {
                self.ledger.failing = self.ledger.failing.less(Set::EMPTY.with(unit));
                let over = self.oracle.run(unit).is_some_and(|run| run.over);
                self.ledger.seen_active(self.now, unit, over);
            }
        }
    }

    /// Adds one line to the log, and to the trace that makes two runs comparable.
    fn note(&mut self, event: &Event, orders: &[Order], refused: bool, after: &Seen) {
        let word = orders.iter().fold(self.events ^ u64::from(refused), |word, order| {
            let number = match order {
                Order::Start(unit, run) => (1, *unit as u64, run.0),
                Order::Stop(unit, run, _, left) => (2 + u64::from(*left), *unit as u64, run.0),
                Order::Kill(unit, run) => (4, *unit as u64, run.0),
                Order::Reload(unit, run) => (5, *unit as u64, run.0),
                Order::Finish => (6, 0, 0),
            };
            word.wrapping_mul(31).wrapping_add(number.0 + 8 * number.1 + 512 * number.2)
        });
        let states = after.states.iter().fold(word, |word, state| {
            word.wrapping_mul(31).wrapping_add(state.map_or(0, |state| 1 + state as u64))
        });
        self.trace = Rng::new(self.trace ^ states).draw();
        if let Some(log) = &mut self.log {
            let event = match event {
                Event::Boot { targets, .. } => format!("Boot {targets:?}"),
                Event::Reload { no_restart, tolerant, .. } => {
                    format!("Reload no_restart={no_restart} tolerant={tolerant}")
                }
                other => format!("{other:?}"),
            };
            let states: Vec<String> = after
                .states
                .iter()
                .enumerate()
                .filter_map(|(unit, state)| Some((unit, (*state)?)))
                .filter(|(_, state)| *state != crate::machine::reason::State::Disabled)
                .map(|(unit, state)| format!("{}={}", self.universe.units[unit], state.as_str()))
                .collect();
            log.push(format!(
                "{:>9.3}s {event}{}\n            → {orders:?}\n            {}",
                self.now.as_nanos() as f64 / 1e9,
                if refused { " REFUSED" } else { "" },
                states.join(" ")
            ));
        }
    }
}
