//! The machine under test, through its public interface only. No other file of the simulator names
//! [`crate::machine::Machine`].

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
use crate::text::fields;
use crate::text::time::Time;
use crate::unit::generation::UnitId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The machine under test, with the faults of the mutant that is planted in it.
#[derive(Clone, Debug)]
pub struct Subject {
    machine: Machine,
    /// Unit numbers of the present generation.
    places: (u32, Vec<Option<usize>>),
    /// No bug is planted. Only then the machine's own audit runs, because the simulator must find a
    /// planted bug from outside.
    sound: bool,
    /// [`Mutant::AskingActs`]. It is planted here, because a query of the machine cannot change the
    /// machine.
    acts: bool,
    /// [`Mutant::NotRecorded`], [`Mutant::ChangeNotListed`].
    records_lack: bool,
    /// Continue with the machine that a resume would give. A mutant does only if its bug is in
    /// the resume, because the derived fields of the resumed machine have no other bug.
    resumes: bool,
    /// The unit records as read back from a store that writes only changes.
    written: Vec<UnitRecord<'static>>,
    /// The first error of such a write or read.
    broken: Option<String>,
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
            broken: None,
        }
    }
}

impl Subject {
    /// Creates a subject with a planted bug.
    pub fn planted(mutant: Mutant) -> Subject {
        let mut subject = Subject::default();
        subject.machine.plant(mutant);
        subject.sound = false;
        subject.acts = mutant == Mutant::AskingActs;
        subject.resumes = mutant == Mutant::ResumeForgetsFailures;
        subject.records_lack = matches!(mutant, Mutant::NotRecorded(_) | Mutant::ChangeNotListed);
        subject
    }

    /// Checks that the incrementally updated fields equal the derived ones.
    pub fn audit(&self) -> Result<(), String> {
        if self.sound { self.machine.audit() } else { Ok(()) }
    }

    /// Returns true if records are written and compared. Only mutants of the records need it,
    /// because the built machine has no other bug.
    fn writes(&self) -> bool {
        self.sound || self.records_lack
    }

    /// Errors with the first difference of the machine that is built from the records of this one.
    pub fn rebuilt(&self) -> Result<(), String> {
        if !self.writes() {
            return Ok(());
        }
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let generation = self.machine.generation().clone();
        let mut records = self.machine.records_with(self.written.clone());
        records.machine = coded(&records.machine)?;
        let rebuilt = Machine::from_records(records, generation)?;
        self.machine.same(&rebuilt)
    }

    /// Applies one event. Returns the actions, and whether it was refused.
    pub fn step(&mut self, now: Time, event: Event) -> (Vec<Action>, bool) {
        let outcome = self.machine.step(now, event);
        self.write();
        (outcome.actions, outcome.refused.is_some())
    }

    /// Writes only the unit records that the machine reports as changed.
    fn write(&mut self) {
        if !self.writes() {
            return;
        }
        let changes = self.machine.take_changes();
        let read_back = |place| coded(&self.machine.unit_record(place).into_owned());
        let done = match changes {
            Changes::All => (0..self.machine.record_count())
                .map(read_back)
                .collect::<Result<_, _>>()
                .map(|all| self.written = all),
            Changes::Units(changed) => changed.into_iter().try_for_each(|place| {
                let record = read_back(place)?;
                if let Some(written) = self.written.get_mut(place as usize) {
                    *written = record;
                }
                Ok(())
            }),
        };
        self.broken = self.broken.take().or(done.err());
    }

    /// Makes all queries, then continues with the machine that a resume would give.
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

    /// Continues with the machine that a resume would give. Errors with the difference.
    fn resume(&mut self) -> Result<(), String> {
        let resumed = self.machine.resumed().ok_or("it cannot be built from its records")?;
        let differs = self.machine.same(&resumed);
        self.machine = resumed;
        differs
    }

    /// Returns the public answers of the machine.
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

/// Encodes the record and decodes it again, so that a field that is not encoded is missing.
fn coded<T: Serialize + DeserializeOwned>(record: &T) -> Result<T, String> {
    let bytes = fields::encode(record);
    let bytes = bytes.map_err(|error| format!("the record cannot be encoded: {error}"))?;
    fields::decode(&bytes).map_err(|error| format!("the record cannot be decoded: {error}"))
}
