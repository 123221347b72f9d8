//! The effects of a wish, computed on a copy of the machine. Each start succeeds, each stop ends,
//! and each backoff ends.

use super::phase::Phase;
use super::{Ix, Machine};
use crate::machine::action::Action;
use crate::machine::event::{Event, RunId};
use crate::machine::reason::Refusal;
use crate::spec::{Exit, Kind, Readiness};
use crate::text::name::Name;
use crate::text::time::Time;
use crate::unit::generation::UnitId;
use std::collections::{BTreeMap, BTreeSet};

/// Names of units, with stops and starts in waves in the order in which they will happen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Each wave is told to stop when the previous one is down.
    pub stop: Vec<Vec<Name>>,
    /// Each wave starts when the previous one is ready.
    pub start: Vec<Vec<Name>>,
    /// Units that are both stopped and started, by name.
    pub restart: Vec<Name>,
    /// Units that stay up unchanged, by name.
    pub keep: Vec<Name>,
}

/// A plan under construction.
#[derive(Default)]
struct Draft {
    stops: Vec<Vec<Name>>,
    starts: Vec<Vec<Name>>,
    ending: Vec<RunId>,
    beginning: Vec<(RunId, Kind)>,
    /// Runs that triggers started and that end by themselves; the plan lists them as kept.
    fired: BTreeMap<RunId, Name>,
    over: BTreeSet<RunId>,
}

impl Machine {
    /// Returns the plan of a wish, or its refusal. The machine itself does not change.
    pub fn plan(&self, now: Time, wish: Event) -> Result<Plan, Refusal> {
        self.plan_all(now, vec![wish])
    }

    /// Returns the plan of wishes that are made one after the other at once, or the first refusal.
    pub fn plan_all(&self, now: Time, wishes: Vec<Event>) -> Result<Plan, Refusal> {
        let mut dry = self.clone();
        let was_up = dry.names_up();
        let mut draft = Draft::default();
        // Starts and stops in progress succeed, too.
        draft.take_up(&dry);
        for wish in wishes {
            let outcome = dry.step(now, wish);
            if let Some(refusal) = outcome.refused {
                return Err(refusal);
            }
            draft.note(&dry, outcome.actions);
        }
        let mut bound = dry.cells.len().saturating_mul(4).saturating_add(16);
        loop {
            let events = draft.events();
            bound = bound.saturating_sub(1);
            if bound == 0 || (events.is_empty() && !dry.skip_backoffs(now, &mut draft)) {
                break;
            }
            draft.next_wave();
            for event in events {
                let outcome = dry.step(now, event);
                draft.note(&dry, outcome.actions);
            }
        }
        Ok(draft.finish(&was_up, &dry.names_up()))
    }

    /// Returns the units that are up and not told to stop.
    fn names_up(&self) -> BTreeSet<Name> {
        let stays = |ix: &Ix| !self.cell(*ix).phase.is_told();
        let up = |ix: &Ix| stays(ix) && self.cell(*ix).phase.run().is_some();
        self.all().into_iter().filter(up).map(|ix| self.name(ix)).collect()
    }

    /// Ends every backoff of a needed unit at once. Returns false if there was none.
    fn skip_backoffs(&mut self, now: Time, draft: &mut Draft) -> bool {
        let due =
            |ix: &Ix| self.cell(*ix).needed && matches!(self.cell(*ix).phase, Phase::Backoff(_));
        let waiting: Vec<Ix> = self.all().into_iter().filter(due).collect();
        for ix in &waiting {
            self.set_phase(*ix, Phase::Idle);
        }
        let mut actions = Vec::new();
        self.settle(now, &mut actions);
        draft.next_wave();
        draft.note(self, actions);
        !waiting.is_empty()
    }
}

impl Draft {
    fn take_up(&mut self, machine: &Machine) {
        for ix in machine.all() {
            match &machine.cell(ix).phase {
                Phase::Starting(run, _) => {
                    self.beginning.push((run.id, run.definition.kind));
                    if machine.was_fired(ix) && Machine::ends_by_itself(run.definition.kind) {
                        self.fired.insert(run.id, machine.name(ix));
                    }
                }
                Phase::Stopping(run, _) => self.ending.push(run.id),
                Phase::Ready(_, _, _) | Phase::Idle | Phase::Backoff(_) | Phase::Failed(_) => {}
            }
        }
    }

    /// Returns the events that complete every start and stop in progress.
    fn events(&mut self) -> Vec<Event> {
        let gone = std::mem::take(&mut self.ending).into_iter().map(Event::Gone);
        let ready = std::mem::take(&mut self.beginning).into_iter().map(|(run, kind)| {
            if Machine::ends_by_itself(kind) {
                self.over.extend(self.fired.contains_key(&run).then_some(run));
                Event::Ended(run, Exit::Code(0))
            } else {
                Event::Ready(run)
            }
        });
        gone.chain(ready).collect()
    }

    fn next_wave(&mut self) {
        for waves in [&mut self.stops, &mut self.starts] {
            if waves.last().is_none_or(|wave| !wave.is_empty()) {
                waves.push(Vec::new());
            }
        }
    }

    fn note(&mut self, machine: &Machine, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Start { unit, name, run } => {
                    let providers = machine.names_of(unit, true);
                    push(&mut self.starts, name, &providers);
                    if let Some(unit) =
                        machine.unit(unit.0).filter(|unit| unit.readiness != Readiness::Instant)
                    {
                        self.beginning.push((run, unit.kind));
                    }
                }
                Action::Stop { name, run, nothing_left, .. } => {
                    let unit = machine.generation.find_unit(name.as_str());
                    let dependents = unit.map(|unit| machine.names_of(unit, false));
                    if !self.over.contains(&run) {
                        push(&mut self.stops, name, &dependents.unwrap_or_default());
                    }
                    self.beginning.retain(|(starting, _)| *starting != run);
                    if !nothing_left {
                        self.ending.push(run);
                    }
                }
                Action::Kill { .. }
                | Action::ReloadUnit { .. }
                | Action::Note(_)
                | Action::Emergency
                | Action::Finish(_) => {}
            }
        }
    }

    fn finish(self, was_up: &BTreeSet<Name>, is_up: &BTreeSet<Name>) -> Plan {
        let tidy = |mut waves: Vec<Vec<Name>>| {
            waves.retain(|wave| !wave.is_empty());
            waves.iter_mut().for_each(|wave| wave.sort());
            waves
        };
        let (stop, start) = (tidy(self.stops), tidy(self.starts));
        let stopped: BTreeSet<&Name> = stop.iter().flatten().collect();
        let started: BTreeSet<&Name> = start.iter().flatten().collect();
        let restart = stopped.intersection(&started).copied().cloned().collect();
        let touched = |name: &Name| stopped.contains(name) || started.contains(name);
        let over = self.fired.iter().filter(|(run, _)| self.over.contains(run));
        let kept = was_up.intersection(is_up).chain(over.map(|(_, name)| name));
        let keep: BTreeSet<Name> = kept.filter(|name| !touched(name)).cloned().collect();
        Plan { restart, keep: keep.into_iter().collect(), stop, start }
    }
}

/// Adds a unit to the present wave, or to the next if the present wave holds one of `before`.
fn push(waves: &mut Vec<Vec<Name>>, name: Name, before: &BTreeSet<Name>) {
    match waves.last_mut() {
        Some(wave) if !wave.iter().any(|other| before.contains(other)) => wave.push(name),
        Some(_) | None => waves.push(vec![name]),
    }
}

impl Machine {
    /// Returns the names of the units that an ordering edge leads to, or comes from.
    fn names_of(&self, unit: UnitId, providers: bool) -> BTreeSet<Name> {
        let units: Vec<UnitId> = if providers {
            let edges = self.graph.edges(unit).iter().filter(|edge| edge.kind.orders());
            edges.filter_map(|edge| edge.provider).collect()
        } else {
            let back = self.graph.back(unit).iter().filter(|back| back.kind.orders());
            back.map(|back| back.dependent).collect()
        };
        units.into_iter().filter_map(|u| Some(self.generation.unit(u)?.name.clone())).collect()
    }
}
