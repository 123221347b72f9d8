//! The machine under test, seen only through its public face. The one file of the
//! simulator that names [`crate::machine::Machine`].

use crate::control::answer;
use crate::control::answer::System;
use crate::generation::UnitId;
use crate::machine::Machine;
use crate::machine::action::Action;
use crate::machine::event::{Event, Goal, RunId, Shutdown};
use crate::machine::mutant::Mutant;
use crate::sim::digest::Digest;
use crate::sim::graph::Universe;
use crate::sim::view::Seen;
use crate::time::Time;
use crate::view;
use std::time::Duration;

/// A machine that has not booted.
#[derive(Clone, Debug)]
pub struct Subject {
    machine: Machine,
    /// Numbers of the units of that generation.
    places: (u32, Vec<Option<usize>>),
    /// Its own check of itself is not asked: the simulator must see the mistake from outside.
    sound: bool,
    journal: Journal,
    /// [`Mutant::AskingActs`]: the type of the machine's questions leaves no other place for it.
    acts: bool,
}

/// What a crash goes back to, and what was noted since.
#[derive(Clone, Debug, Default)]
struct Journal {
    /// Of this generation: what was noted under one means nothing under another.
    generation: u32,
    kept: Vec<u8>,
    noted: Vec<(Time, Event)>,
    begun: Vec<(UnitId, RunId)>,
}

/// The state is kept after so many events; no multiple of it is a round number of events, so a
/// crash cuts the journal at each of its records in turn.
const KEPT_EVERY: usize = 37;
/// So far what nobody has noted shifts the numbers of runs.
const SHIFT: u64 = 3;

impl Default for Subject {
    fn default() -> Subject {
        let machine = Machine::new(Duration::from_secs(90));
        let journal = Journal::default();
        Subject { machine, places: Default::default(), sound: true, journal, acts: false }
    }
}

impl Subject {
    /// One that breaks a rule.
    pub fn planted(mutant: Mutant) -> Subject {
        let mut subject = Subject::default();
        subject.machine.plant(mutant);
        subject.sound = false;
        subject.acts = mutant == Mutant::AskingActs;
        subject
    }

    /// What was kept up event by event is what would be derived from nothing.
    pub fn audit(&self) -> Result<(), String> {
        if self.sound { self.machine.audit() } else { Ok(()) }
    }

    /// One event: what is ordered, and whether it was refused.
    pub fn step(&mut self, now: Time, event: Event) -> (Vec<Action>, bool) {
        let outcome = self.machine.step(now, event.clone());
        self.note(now, event, &outcome.actions);
        (outcome.actions, outcome.refused.is_some())
    }

    fn note(&mut self, now: Time, event: Event, actions: &[Action]) {
        let generation = self.machine.generation().number;
        if self.journal.generation != generation || self.journal.noted.len() >= KEPT_EVERY {
            self.journal = Journal { generation, kept: self.machine.keep(), ..Journal::default() };
            return;
        }
        self.journal.noted.push((now, event));
        self.journal.begun.extend(actions.iter().filter_map(|action| match action {
            Action::Start { unit, run, .. } => Some((*unit, *run)),
            Action::Stop { .. }
            | Action::Kill { .. }
            | Action::ReloadUnit { .. }
            | Action::Note(_)
            | Action::Emergency
            | Action::Finish(_) => None,
        }));
    }

    /// The machine after a crash at this very event; None: it is not the one before it.
    fn crashed(&self) -> Option<Machine> {
        let Journal { kept, noted, begun, .. } = &self.journal;
        if kept.is_empty() {
            return self.machine.resumed();
        }
        let same = |machine: &Machine| Digest::of(machine) == Digest::of(&self.machine);
        let shifted = self.machine.crashed(kept, noted, begun, SHIFT);
        shifted.filter(same).and_then(|_| self.machine.resumed())
    }

    /// Asks it all it can be asked, then goes on with the machine that a crash and a resume would
    /// give; hands back the whole of it before, after the questions, and resumed, as digests.
    pub fn ask(&mut self, now: Time) -> (u64, u64, u64) {
        let before = Digest::of(&self.machine);
        if self.acts {
            self.machine.step(now, Event::Shutdown(Shutdown::Halt));
        }
        let machine = &self.machine;
        let goal = Goal { targets: machine.wish().goal.clone(), ..Goal::default() };
        let wishes = [Event::SetGoal(goal), Event::Shutdown(Shutdown::Halt)];
        wishes.into_iter().for_each(|wish| _ = machine.plan(now, wish));
        let generation = machine.generation();
        for id in generation.unit_ids() {
            _ = (machine.why(id), machine.reason(id), machine.next_try(id), machine.since(id));
        }
        _ = (
            view::graph(machine, &view::Facts::default()),
            machine.degraded(),
            machine.coincidental(),
            machine.system(),
        );
        let (asked, resumed) = (Digest::of(machine), self.crashed());
        let after = resumed.as_ref().map_or(0, Digest::of);
        self.machine = resumed.unwrap_or_else(|| self.machine.clone());
        (before, asked, after)
    }

    /// Its public answers.
    pub fn see(&mut self, universe: &Universe) -> Seen {
        let machine = &self.machine;
        let generation = machine.generation();
        if self.places.0 != generation.number {
            let places = generation.units.iter().map(|unit| universe.unit(&unit.name)).collect();
            self.places = (generation.number, places);
        }
        let mut states = vec![None; universe.units.len()];
        let mut rows = vec![Default::default(); universe.units.len()];
        for (id, place) in generation.unit_ids().zip(&self.places.1) {
            let Some(place) = *place else { continue };
            states[place] = Some(machine.state(id));
            rows[place] = (machine.failures(id), machine.has_verdict(id), machine.is_needed(id));
        }
        for (name, _, state) in machine.removed() {
            if let Some(slot) = universe.unit(&name).and_then(|unit| states.get_mut(unit)) {
                *slot = Some(state);
            }
        }
        let number = |id: UnitId| self.places.1.get(id.index()).copied().flatten();
        let targets = machine.coincidental().into_iter().filter_map(|id| generation.target(id));
        let mut coincidental: Vec<usize> =
            targets.filter_map(|target| universe.target(&target.name)).collect();
        coincidental.sort_unstable();
        Seen {
            states,
            rows,
            degraded: machine.degraded().into_iter().filter_map(number).collect(),
            coincidental,
            system: Some(match machine.system() {
                answer::System::Stopping => System::Stopping,
                answer::System::Failed => System::Failed,
                answer::System::Starting => System::Starting,
                answer::System::Degraded => System::Degraded,
                answer::System::Running => System::Running,
            }),
            deadline: machine.next_deadline(),
        }
    }
}
