//! The machine under test, seen only through its public face. The one file of the
//! simulator that names [`crate::machine::Machine`].

use crate::control::answer;
use crate::control::answer::System;
use crate::control::view;
use crate::machine::Machine;
use crate::machine::action::Action;
use crate::machine::event::{Event, Goal, Shutdown};
use crate::machine::mutant::Mutant;
use crate::machine::record::{Changes, UnitRecord};
use crate::simulator::digest::Digest;
use crate::simulator::graph::Universe;
use crate::simulator::view::{Asked, Seen};
use crate::text::time::Time;
use crate::unit::generation::UnitId;
use std::time::Duration;

/// A machine that has not booted.
#[derive(Clone, Debug)]
pub struct Subject {
    machine: Machine,
    /// Numbers of the units of that generation.
    places: (u32, Vec<Option<usize>>),
    /// Its own check of itself is not asked: the simulator must see the mistake from outside.
    sound: bool,
    /// [`Mutant::AskingActs`]: the type of the machine's questions leaves no other place for it.
    acts: bool,
    /// [`Mutant::NotRecorded`], [`Mutant::ChangeNotListed`].
    records_lack: bool,
    /// It goes on with the machine that a resume would give. A mutant does not: the derived fields of the resumed
    /// machine have no mistake.
    resumes: bool,
    /// The unit records as a store has them that writes changes alone.
    written: Vec<UnitRecord>,
}

impl Default for Subject {
    fn default() -> Subject {
        let machine = Machine::new(Duration::from_secs(90));
        Subject {
            machine,
            places: Default::default(),
            sound: true,
            acts: false,
            records_lack: false,
            resumes: true,
            written: Vec::new(),
        }
    }
}

impl Subject {
    /// One that breaks a rule.
    pub fn planted(mutant: Mutant) -> Subject {
        let mut subject = Subject::default();
        subject.machine.plant(mutant);
        subject.sound = false;
        subject.acts = mutant == Mutant::AskingActs;
        subject.resumes = mutant == Mutant::ResumeForgetsFailures;
        subject.records_lack = matches!(mutant, Mutant::NotRecorded(_) | Mutant::ChangeNotListed);
        subject
    }

    /// What was kept up event by event is what would be derived from nothing.
    pub fn audit(&self) -> Result<(), String> {
        if self.sound { self.machine.audit() } else { Ok(()) }
    }

    /// Errors with what differs in the machine that is built from the records of this one. Of the
    /// mutants only those of the records are asked: the built machine has no other mistake.
    pub fn rebuilt(&self) -> Result<(), String> {
        if !self.sound && !self.records_lack {
            return Ok(());
        }
        let generation = self.machine.generation().clone();
        let rebuilt =
            Machine::from_records(self.machine.records_with(self.written.clone()), generation)?;
        self.machine.same(&rebuilt)
    }

    /// One event: what is ordered, and whether it was refused.
    pub fn step(&mut self, now: Time, event: Event) -> (Vec<Action>, bool) {
        let outcome = self.machine.step(now, event);
        self.write();
        (outcome.actions, outcome.refused.is_some())
    }

    /// Writes the unit records that the machine says have changed, and no others.
    fn write(&mut self) {
        match self.machine.take_changes() {
            Changes::All => {
                let all = 0..self.machine.record_count();
                self.written = all.map(|place| self.machine.unit_record(place)).collect();
            }
            Changes::Units(changed) => {
                for place in changed {
                    if let Some(written) = self.written.get_mut(place as usize) {
                        *written = self.machine.unit_record(place);
                    }
                }
            }
        }
    }

    /// Asks it all it can be asked, then goes on with the machine that a resume would give.
    pub fn ask(&mut self, now: Time) -> Asked {
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
        let after = Digest::of(machine);
        let resumed = if self.resumes { self.resume() } else { Ok(()) };
        Asked { before, after, resumed }
    }

    /// Goes on with the machine that a resume would give. Errors with what differs.
    fn resume(&mut self) -> Result<(), String> {
        let resumed = self.machine.resumed().ok_or("it cannot be built from its records")?;
        let differs = self.machine.same(&resumed);
        self.machine = resumed;
        differs
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
