//! The machine under test, seen only through its public face. The one file of the
//! simulator that names [`crate::machine::Machine`].

use crate::control::answer;
use crate::generation::UnitId;
use crate::machine::Machine;
use crate::machine::action::Action;
use crate::machine::event::Event;
use crate::machine::mutant::Mutant;
use crate::oracle::graph::Universe;
use crate::oracle::law::System;
use crate::sim::view::Seen;
use crate::time::Time;
use std::time::Duration;

/// A machine that has not booted.
#[derive(Clone, Debug)]
pub struct Subject {
    machine: Machine,
    /// Its own check of itself is not asked: the simulator must see the mistake from outside.
    sound: bool,
}

impl Default for Subject {
    fn default() -> Subject {
        Subject { machine: Machine::new(Duration::from_secs(90)), sound: true }
    }
}

impl Subject {
    /// One that breaks a rule.
    pub fn planted(mutant: Mutant) -> Subject {
        let mut subject = Subject::default();
        subject.machine.plant(mutant);
        subject.sound = false;
        subject
    }

    /// What was kept up event by event is what would be derived from nothing.
    pub fn audit(&self) -> Result<(), String> {
        if self.sound { self.machine.audit() } else { Ok(()) }
    }

    /// One event: what is ordered, and whether it was refused.
    pub fn step(&mut self, now: Time, event: Event) -> (Vec<Action>, bool) {
        let outcome = self.machine.step(now, event);
        (outcome.actions, outcome.refused.is_some())
    }

    /// Its public answers.
    pub fn see(&self, universe: &Universe) -> Seen {
        let machine = &self.machine;
        let generation = machine.generation();
        let mut states = vec![None; universe.units.len()];
        let mut rows = vec![Default::default(); universe.units.len()];
        for (id, unit) in generation.unit_ids().zip(&generation.units) {
            let Some(place) = universe.unit(&unit.name) else { continue };
            states[place] = Some(machine.state(id));
            rows[place] = (machine.failures(id), machine.has_verdict(id), machine.is_needed(id));
        }
        for (name, _, state) in machine.removed() {
            if let Some(slot) = universe.unit(&name).and_then(|unit| states.get_mut(unit)) {
                *slot = Some(state);
            }
        }
        let number = |id: UnitId| universe.unit(&generation.unit(id)?.name);
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
