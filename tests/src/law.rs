//! Invariants of every record: the rules of the simulator's law that can be checked on a machine
//! and its actions alone. A run is one life of one unit, one at a time; every state follows from
//! the events; derived values equal freshly derived ones. The full law is in
//! `units/src/simulator/invariant`, with an oracle. Used by [`crate::replay`].

use groundstate_units::machine::Machine;
use groundstate_units::machine::action::{Action, Note};
use groundstate_units::machine::event::{Event, RunId};
use groundstate_units::machine::reason::State;
use groundstate_units::text::name::Name;
use std::collections::{BTreeMap, BTreeSet};

/// With up to this many units, the whole machine is checked after each event. With more units, it
/// is checked once in this many events.
const LOOK: usize = 32;

/// The facts of a record so far.
#[derive(Debug, Default)]
pub struct Book {
    /// The unit of each run.
    runs: BTreeMap<RunId, Name>,
    /// Runs that may have processes.
    alive: BTreeSet<RunId>,
    /// The previous run of each unit.
    last: BTreeMap<Name, RunId>,
    /// The states according to the notes.
    states: BTreeMap<Name, State>,
    events: usize,
}

impl Book {
    /// Checks the machine's actions for an event.
    ///
    /// # Errors
    /// The violated rule.
    pub fn take(
        &mut self,
        machine: &Machine,
        event: &Event,
        actions: &[Action],
    ) -> Result<(), String> {
        if let Event::Ended(run, _)
        | Event::Gone(run)
        | Event::Skipped(run, _)
        | Event::StartFailed(run, _) = event
        {
            self.alive.remove(run);
        }
        for action in actions {
            match action {
                Action::Start { name, run, .. } => self.begins(name, *run)?,
                Action::Stop { name, run, nothing_left, .. } => {
                    self.is_of(name, *run)?;
                    if *nothing_left {
                        self.alive.remove(run);
                    }
                }
                Action::Kill { name, run } | Action::ReloadUnit { name, run } => {
                    self.is_of(name, *run)?;
                }
                Action::Note(note) => self.tell(note)?,
                Action::Emergency | Action::Finish(_) => {}
            }
        }
        self.events += 1;
        let units = machine.generation().units.len();
        if units <= LOOK || self.events.is_multiple_of(LOOK) { self.look(machine) } else { Ok(()) }
    }

    /// L3 and the first half of L20.
    fn begins(&mut self, name: &Name, run: RunId) -> Result<(), String> {
        if let Some(before) = self.last.insert(name.clone(), run)
            && self.alive.contains(&before)
        {
            return Err(format!("{name} starts beside its run {}", before.0));
        }
        if self.runs.insert(run, name.clone()).is_some() {
            return Err(format!("run {} is minted twice", run.0));
        }
        self.alive.insert(run);
        Ok(())
    }

    /// The second half of L20.
    fn is_of(&self, name: &Name, run: RunId) -> Result<(), String> {
        match self.runs.get(&run) {
            Some(of) if of == name => Ok(()),
            Some(of) => Err(format!("an order to {name} about run {}, which is {of}'s", run.0)),
            None => Err(format!("an order about run {}, which never began", run.0)),
        }
    }

    fn tell(&mut self, note: &Note) -> Result<(), String> {
        let before = self.states.insert(note.unit.clone(), note.to).unwrap_or(State::Disabled);
        if before != note.from {
            return Err(format!("{} was {before:?}: {note:?}", note.unit));
        }
        // An ordered stop has its reason in the order.
        if note.reason.is_none() && matches!(note.to, State::Failed | State::Waiting) {
            return Err(format!("nothing says why: {note:?}"));
        }
        Ok(())
    }

    /// Checks the whole machine.
    ///
    /// # Errors
    /// The violated rule.
    pub fn look(&self, machine: &Machine) -> Result<(), String> {
        let generation = machine.generation();
        for unit in &generation.units {
            let Some(id) = generation.find_unit(unit.name.as_str()) else { continue };
            let told = self.states.get(&unit.name).copied().unwrap_or(State::Disabled);
            let is = machine.state(id);
            if is != told {
                return Err(format!("{} is {is:?}, and its last event says {told:?}", unit.name));
            }
        }
        machine.audit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::machine::reason::Reason;
    use groundstate_units::unit::generation::UnitId;
    use std::time::Duration;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn start(unit: &str, run: u64) -> Action {
        Action::Start { unit: UnitId(0), name: name(unit), run: RunId(run) }
    }

    fn note(from: State, to: State, reason: Option<Reason>) -> Action {
        Action::Note(Note { unit: name("web"), run: None, from, to, reason })
    }

    /// The verdict on these actions, each for its event.
    fn judged(answers: &[(Event, Action)]) -> Result<(), String> {
        let (machine, mut book) = (Machine::new(Duration::from_secs(9)), Book::default());
        answers.iter().try_for_each(|(event, action)| {
            book.take(&machine, event, std::slice::from_ref(action))
        })
    }

    #[test]
    fn run_belongs_to_one_unit_and_a_unit_has_one_run_at_a_time() {
        let first = || (Event::Tick, start("web", 1));
        let gone = Event::Gone(RunId(1));
        let kill = |unit: &str, run| Action::Kill { name: name(unit), run: RunId(run) };
        assert_eq!(judged(&[first(), (gone.clone(), start("web", 2))]), Ok(()));
        let beside = judged(&[first(), (Event::Tick, start("web", 2))]);
        assert!(beside.is_err_and(|what| what.contains("beside")));
        let twice = judged(&[first(), (gone, start("web", 1))]);
        assert!(twice.is_err_and(|what| what.contains("minted twice")));
        let foreign = judged(&[first(), (Event::Tick, kill("db", 1))]);
        assert!(foreign.is_err_and(|what| what.contains("web's")));
        let never = judged(&[first(), (Event::Tick, kill("web", 2))]);
        assert!(never.is_err_and(|what| what.contains("never began")));
    }

    #[test]
    fn each_state_follows_from_the_previous_one_and_a_failure_has_a_reason() {
        let starts = || (Event::Tick, note(State::Disabled, State::Starting, None));
        assert_eq!(judged(&[starts()]), Ok(()));
        let gap = judged(&[starts(), (Event::Tick, note(State::Running, State::Stopping, None))]);
        assert!(gap.is_err_and(|what| what.contains("was Starting")));
        let fails = judged(&[starts(), (Event::Tick, note(State::Starting, State::Failed, None))]);
        assert!(fails.is_err_and(|what| what.contains("nothing says why")));
    }
}
