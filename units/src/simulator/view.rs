//! One moment for the invariants: the event, its actions, and the machine's public answers before
//! and after. Immutable.

use crate::control::answer::System;
use crate::machine::action::{Action, StopReason};
use crate::machine::event::{Event, RunId};
use crate::machine::reason::State;
use crate::simulator::graph::Graph;
use crate::simulator::oracle::Oracle;
use crate::simulator::run_ledger::RunLedger;
use crate::simulator::set::Set;
use crate::text::time::Time;
use std::sync::Arc;

/// The machine's public answers at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Seen {
    /// States by unit number; disabled if the generation has no such unit and nothing of it runs.
    pub states: Vec<Option<State>>,
    /// Consecutive failures, verdict and needed, by unit number.
    pub rows: Vec<(u32, bool, bool)>,
    /// Degraded units.
    pub degraded: Set,
    /// Coincidental targets.
    pub coincidental: Vec<usize>,
    /// The state of the system.
    pub system: Option<System>,
    /// The next timer.
    pub deadline: Option<Time>,
}

impl Seen {
    /// Returns the state, or disabled if there is none.
    pub fn state(&self, unit: usize) -> State {
        self.states.get(unit).copied().flatten().unwrap_or(State::Disabled)
    }

    /// Returns consecutive failures, verdict and needed.
    pub fn row(&self, unit: usize) -> (u32, bool, bool) {
        self.rows.get(unit).copied().unwrap_or_default()
    }
}

/// An action, with the unit number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The run starts.
    Start(usize, RunId),
    /// The run is told to stop.
    Stop(usize, RunId, StopReason, bool),
    /// The run is killed.
    Kill(usize, RunId),
    /// The run reloads.
    Reload(usize, RunId),
    /// The shutdown finishes.
    Finish,
}

impl Order {
    /// Returns the unit concerned.
    pub fn unit(&self) -> Option<usize> {
        match self {
            Order::Start(unit, _) | Order::Kill(unit, _) | Order::Reload(unit, _) => Some(*unit),
            Order::Stop(unit, ..) => Some(*unit),
            Order::Finish => None,
        }
    }
}

/// The oracle's sets before an event.
#[derive(Clone, Debug)]
pub struct Past {
    /// The graph.
    pub graph: Arc<Graph>,
    /// The needed set N.
    pub needed: Set,
    /// Units that are needed only because the run that another unit's failure or exit started has
    /// not ended.
    pub unfinished: Set,
}

/// One moment.
pub struct View<'a> {
    /// The time.
    pub now: Time,
    /// The event.
    pub event: &'a Event,
    /// The run of the event was over already.
    pub late: bool,
    /// The event was refused.
    pub refused: bool,
    /// The actions of the machine, with unit numbers.
    pub orders: &'a [Order],
    /// The actions of the machine.
    pub actions: &'a [Action],
    /// The answers before the event.
    pub before: &'a Seen,
    /// The answers after the event.
    pub after: &'a Seen,
    /// The oracle's sets before the event.
    pub was: &'a Past,
    /// The oracle after the event: graph and N.
    pub is: &'a Oracle,
    /// The ledger before the event's actions.
    pub ledger: &'a RunLedger,
    /// Digests of the machine before and after all queries, if they were made.
    pub asked: Option<Asked>,
    /// The difference of the machine that is built from the records of this one.
    pub rebuilt: Result<(), String>,
}

/// Digests of the whole machine, and the difference that a resume makes.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The digest before all queries.
    pub before: u64,
    /// The digest after all queries.
    pub after: u64,
    /// The difference after a resume, if there is one.
    pub resumed: Result<(), String>,
}

/// The result of an invariant; errors with the violation.
pub type Verdict = Result<(), String>;

impl View<'_> {
    /// Returns the units that were started, in order.
    pub fn started(&self) -> impl Iterator<Item = usize> {
        self.orders.iter().filter_map(|order| match order {
            Order::Start(unit, _) => Some(*unit),
            _ => None,
        })
    }

    /// Returns the name of a unit.
    pub fn name(&self, unit: usize) -> &str {
        self.is.universe.units.get(unit).map_or("?", |name| name.as_str())
    }

    /// Returns true if the event is an operator's wish.
    pub fn is_wish(&self) -> bool {
        matches!(
            self.event,
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
        )
    }
}
