//! One moment as the invariants see it: the event, the orders that answered it, and
//! the machine's public answers before and after. Holds nothing that can change.

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
    /// By unit number; disabled where the generation has no such unit and nothing of it runs.
    pub states: Vec<Option<State>>,
    /// Failures in a row, verdict, needed; by unit number.
    pub rows: Vec<(u32, bool, bool)>,
    /// With the flag.
    pub degraded: Set,
    /// Target numbers with the flag.
    pub coincidental: Vec<usize>,
    /// The whole.
    pub system: Option<System>,
    /// The next timer.
    pub deadline: Option<Time>,
}

impl Seen {
    /// Its state, disabled where it has none.
    pub fn state(&self, unit: usize) -> State {
        self.states.get(unit).copied().flatten().unwrap_or(State::Disabled)
    }

    /// Failures in a row, verdict, needed.
    pub fn row(&self, unit: usize) -> (u32, bool, bool) {
        self.rows.get(unit).copied().unwrap_or_default()
    }
}

/// An order about one unit's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Begins.
    Start(usize, RunId),
    /// Told to stop.
    Stop(usize, RunId, StopReason, bool),
    /// Killed.
    Kill(usize, RunId),
    /// exec-reload.
    Reload(usize, RunId),
    /// The end.
    Finish,
}

impl Order {
    /// Whom it is about.
    pub fn unit(&self) -> Option<usize> {
        match self {
            Order::Start(unit, _) | Order::Kill(unit, _) | Order::Reload(unit, _) => Some(*unit),
            Order::Stop(unit, ..) => Some(*unit),
            Order::Finish => None,
        }
    }
}

/// What of the law held before an event.
#[derive(Clone, Debug)]
pub struct Past {
    /// Who provides what.
    pub graph: Arc<Graph>,
    /// N.
    pub needed: Set,
    /// Units that N has only for the unfinished run of a handler.
    pub unfinished: Set,
}

/// See the module.
pub struct View<'a> {
    /// When.
    pub now: Time,
    /// What the machine was told.
    pub event: &'a Event,
    /// The event was about a run already over.
    pub late: bool,
    /// It was refused.
    pub refused: bool,
    /// What it ordered.
    pub orders: &'a [Order],
    /// All it answered.
    pub actions: &'a [Action],
    /// Before.
    pub before: &'a Seen,
    /// After.
    pub after: &'a Seen,
    /// The law before the event.
    pub was: &'a Past,
    /// The oracle after it: graph, N.
    pub is: &'a Oracle,
    /// What was seen up to before the event's orders.
    pub ledger: &'a RunLedger,
    /// What became of the machine when it was asked all it can be asked.
    pub asked: Option<Asked>,
    /// The difference of the machine that is built from the records of this one.
    pub rebuilt: Result<(), String>,
}

/// The whole of the machine, as digests, and what a crash would have made of it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Before it was asked.
    pub before: u64,
    /// After it was asked.
    pub after: u64,
    /// After a resume.
    pub resumed: u64,
}

/// What an invariant says: nothing, or what is wrong.
pub type Verdict = Result<(), String>;

impl View<'_> {
    /// Units started, in order.
    pub fn started(&self) -> impl Iterator<Item = usize> {
        self.orders.iter().filter_map(|order| match order {
            Order::Start(unit, _) => Some(*unit),
            _ => None,
        })
    }

    /// The name of a unit.
    pub fn name(&self, unit: usize) -> &str {
        self.is.universe.units.get(unit).map_or("?", |name| name.as_str())
    }

    /// The event is an operator's wish.
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
