//! The machine under test, seen only through its public face. The one file of the
//! simulator that names [`crate::machine::Machine`].

use crate::control::answer;
use crate::control::answer::System;
use crate::generation::{Dependency, Fault, Generation, UnitId};
use crate::machine::Machine;
use crate::machine::action::Action;
use crate::machine::event::{Event, Goal, RunId, Shutdown};
use crate::machine::mutant::Mutant;
use crate::machine::reason::State;
use crate::machine::there::{Ends, There};
use crate::name::Name;
use crate::sim::beginning::{begun, follows_due, forgotten, out_of_turn};
use crate::sim::digest::Digest;
use crate::sim::graph::Universe;
use crate::sim::view::{Asked, Seen};
use crate::spec::DependencyKind;
use crate::time::Time;
use crate::view;
use std::collections::BTreeMap;
use std::sync::Arc;
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
    /// [`Mutant::NotRecorded`].
    records_lack: bool,
}

/// What a crash goes back to, and what was noted since.
#[derive(Clone, Debug, Default)]
struct Journal {
    /// Of this generation: what was noted under one means nothing under another.
    generation: u32,
    kept: Vec<u8>,
    records: Vec<Record>,
}

/// One of its notes.
#[derive(Clone, Debug)]
enum Record {
    Heard(Time, Event),
    Begun(UnitId, RunId),
}

/// The state is kept after so many records.
const KEPT_AFTER: usize = 24;
/// So far what nobody has noted shifts the numbers of runs.
const SHIFT: u64 = 3;

impl Default for Subject {
    fn default() -> Subject {
        let machine = Machine::new(Duration::from_secs(90));
        let journal = Journal::default();
        Subject {
            machine,
            places: Default::default(),
            sound: true,
            journal,
            acts: false,
            records_lack: false,
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
        subject.records_lack = matches!(mutant, Mutant::NotRecorded(_));
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
        let rebuilt = Machine::from_records(self.machine.records(), generation)?;
        self.machine.same(&rebuilt)
    }

    /// One event: what is ordered, and whether it was refused.
    pub fn step(&mut self, now: Time, event: Event) -> (Vec<Action>, bool) {
        let outcome = self.machine.step(now, event.clone());
        self.note(now, event, &outcome.actions);
        (outcome.actions, outcome.refused.is_some())
    }

    fn note(&mut self, now: Time, event: Event, actions: &[Action]) {
        let generation = self.machine.generation().number;
        if self.journal.generation != generation || self.journal.records.len() >= KEPT_AFTER {
            let kept = self.machine.keep();
            self.journal = Journal { generation, kept, records: Vec::new() };
            return;
        }
        self.journal.records.push(Record::Heard(now, event));
        self.journal.records.extend(begun(actions).map(|(unit, run)| Record::Begun(unit, run)));
    }

    /// At which record the journal can be cut off by a crash so that the machine that goes back is not
    /// the one of that moment, or something else is begun on its way; None: at none.
    fn bad_cut(&self) -> Option<usize> {
        let Journal { kept, records, .. } = &self.journal;
        if kept.is_empty() {
            return None;
        }
        // The same life without a crash.
        let Some(mut live) = self.machine.gone_back(kept) else { return Some(0) };
        let mut then = live.keep();
        let (mut heard, mut noted, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (at, record) in records.iter().enumerate() {
            match record {
                Record::Heard(now, event) => {
                    all.extend(begun(&live.step(*now, event.clone()).actions));
                    then = live.keep();
                    heard.push((*now, event.clone()));
                }
                Record::Begun(unit, run) => noted.push((*unit, *run)),
            }
            // A start that was not noted is one of now, with the next number.
            let shift = if noted.len() == all.len() { SHIFT } else { 0 };
            let again = self.machine.gone_back(kept).is_some_and(|mut machine| {
                let actions = machine.go_back_to_now(&heard, &noted, shift);
                begun(&actions).eq(all.iter().copied()) && machine.keep() == then
            });
            if !again {
                return Some(at);
            }
        }
        (then != self.machine.keep()).then_some(records.len())
    }

    /// What an init finds of it whose state is lost.
    fn there(&self) -> BTreeMap<Name, There> {
        let (machine, generation) = (&self.machine, self.machine.generation());
        let units = generation.unit_ids().zip(&generation.units);
        let there = units.filter_map(|(id, unit)| {
            let run =
                machine.run(id).filter(|_| unit.kind.has_process() && unit.fault.is_none())?;
            let lives = machine.state(id) != State::Exited && machine.exit(id).is_none();
            let ends = match (machine.is_told(id), machine.is_due(run)) {
                (true, _) => Ends::Told,
                (false, true) => Ends::Due,
                (false, false) => Ends::No,
            };
            Some((unit.name.clone(), There { run, lives, ends }))
        });
        there.collect()
    }

    /// What a machine does wrong that is to begin anew beside all that is up; None: nothing.
    fn bad_beginning(&self, now: Time) -> Option<String> {
        let (machine, generation) = (&self.machine, self.machine.generation().clone());
        let units = || generation.unit_ids().zip(&generation.units);
        let (there, intent) = (self.there(), machine.intent());
        if intent.wish.goal.is_empty() {
            return None;
        }
        let mut anew = machine.as_lost();
        let highest = there.values().map(|there| there.run).max().unwrap_or(RunId(0));
        anew.found_alive(highest, there.clone());
        let (targets, before) = (Vec::new(), Some(Box::new(intent.clone())));
        let boot = Event::Boot { generation: generation.clone(), targets, before };
        let actions = anew.step(now, boot).actions;
        let lives = there.values().any(|there| there.lives);
        let forgotten = forgotten(&intent.wish, anew.wish(), &actions, lives);
        if forgotten.is_some() {
            return forgotten;
        }
        if let Some(how) = intent.end {
            anew.step(now, Event::Shutdown(how));
        }
        let is_calm = machine.policy() == anew.policy()
            && units().all(|(_, unit)| {
                let at_odds = |d: &Dependency| d.kind == DependencyKind::Conflicts;
                !unit.dependencies.iter().any(at_odds)
            });
        let (wished, follows) = (&intent.wish.want, follows_due(machine, &there));
        for (id, unit) in units() {
            let of_it = begun(&actions).filter(|(of, _)| *of == id);
            let of_it: Vec<RunId> = of_it.map(|(_, run)| run).collect();
            let name = &unit.name;
            match there.get(name) {
                Some(there) if there.lives && of_it != [there.run] => {
                    return Some(format!("{name} lives as {:?}, begun are {of_it:?}", there.run));
                }
                None if intent.end.is_some() && !of_it.is_empty() => {
                    return Some(format!("everything ends, and {name} is begun"));
                }
                None if of_it.iter().any(|run| *run <= highest) => {
                    return Some(format!("{name} is begun as {of_it:?}, which was given before"));
                }
                Some(_) | None => {}
            }
            let wish = anew.wish().want.keys().any(|it| it == name && !wished.contains_key(name));
            if let Some(there) = there.get(name).filter(|there| there.ends != Ends::No)
                && (!anew.must_stop(id) || anew.run(id) != Some(there.run) || wish)
            {
                return Some(format!("{name} ends ({:?}), and is to go on", there.ends));
            }
            let was_to_be = machine.is_needed(id) && !machine.must_stop(id);
            let lives = there.get(name).is_some_and(|there| there.lives);
            let stays = lives && was_to_be && !follows.contains(&id);
            if is_calm && stays && (anew.must_stop(id) || !anew.is_up(id)) {
                return Some(format!("{name} lives, and is told to stop"));
            }
        }
        let audit = || anew.audit().err().filter(|_| self.sound);
        if let Some(why) = out_of_turn(&anew, &there, &actions).or_else(audit) {
            return Some(why);
        }
        // Nothing is left that another generation could take amiss.
        let mut next = Generation::clone(&generation);
        next.number = next.number.wrapping_add(1);
        let generation = Arc::new(next);
        let reload = Event::Reload { generation, no_restart: false, tolerant: true };
        let is_order = |action: &Action| !matches!(action, Action::Note(_));
        let actions = anew.step(now, reload).actions;
        let order = actions.into_iter().find(is_order).filter(|_| is_calm);
        order.map(|order| format!("the same units once more: {order:?}"))
    }

    /// What a machine does wrong that is to begin anew while all unit files are away, and then are back;
    /// None: nothing. What ends takes no other generation.
    fn bad_return(&self, now: Time) -> Option<String> {
        let (there, intent) = (self.there(), self.machine.intent());
        if intent.wish.goal.is_empty() || intent.end.is_some() {
            return None;
        }
        let generation = self.machine.generation();
        let mut anew = self.machine.as_lost();
        let highest = there.values().map(|there| there.run).max().unwrap_or(RunId(0));
        anew.found_alive(highest, there.clone());
        let settings = generation.settings.clone();
        let none = Generation { settings, ..Generation::default() };
        let (targets, before) = (Vec::new(), Some(Box::new(intent.clone())));
        let boot = Event::Boot { generation: Arc::new(none), targets, before };
        let mut actions = anew.step(now, boot).actions;
        let lives = there.values().any(|there| there.lives);
        let forgotten = forgotten(&intent.wish, anew.wish(), &actions, lives);
        if forgotten.is_some() {
            return forgotten.map(|why| format!("without files: {why}"));
        }
        let mut back = Generation::clone(generation);
        back.number = back.number.wrapping_add(1);
        let generation = Arc::new(back);
        let reload =
            Event::Reload { generation: generation.clone(), no_restart: false, tolerant: true };
        actions.extend(anew.step(now, reload).actions);
        for (id, unit) in generation.unit_ids().zip(&generation.units) {
            let Some(there) = there.get(&unit.name).filter(|there| there.lives) else { continue };
            let of_it = begun(&actions).filter(|(of, _)| *of == id);
            let of_it: Vec<RunId> = of_it.map(|(_, run)| run).collect();
            let (name, run) = (&unit.name, there.run);
            if of_it != [run] {
                return Some(format!("{name} lives as {run:?}, its file is back: {of_it:?}"));
            }
            let is_wished = anew.wish().want.contains_key(name);
            if there.ends != Ends::No && is_wished && !intent.wish.want.contains_key(name) {
                return Some(format!("{name} was to end, its file is back: it is wished for"));
            }
        }
        anew.audit().err().filter(|_| self.sound)
    }

    /// What a machine does wrong that is to begin anew while the file of one unit that lives can not be used,
    /// and then is corrected; None: nothing.
    fn bad_sparing(&self, now: Time) -> Option<String> {
        let (there, intent) = (self.there(), self.machine.intent());
        let (broken, _) = there.iter().find(|(_, there)| there.lives && there.ends == Ends::No)?;
        let mut due = there.iter().filter(|(_, there)| there.ends == Ends::Due);
        if intent.wish.goal.is_empty() || intent.end.is_some() || due.clone().next().is_none() {
            return None;
        }
        let mut bad = Generation::clone(self.machine.generation());
        for unit in bad.units.iter_mut().filter(|unit| unit.name == *broken) {
            let fault = Fault { at: unit.at.clone(), message: "it can not be read".to_string() };
            unit.fault = Some(Box::new(fault));
        }
        let mut good = Generation::clone(self.machine.generation());
        good.number = good.number.wrapping_add(1);
        let mut anew = self.machine.as_lost();
        let highest = there.values().map(|there| there.run).max().unwrap_or(RunId(0));
        anew.found_alive(highest, there.clone());
        let (targets, before) = (Vec::new(), Some(Box::new(intent.clone())));
        anew.step(now, Event::Boot { generation: Arc::new(bad), targets, before });
        let generation = Arc::new(good);
        anew.step(now, Event::Reload { generation, no_restart: false, tolerant: true });
        let is_wished = |name: &Name| {
            anew.wish().want.contains_key(name) && !intent.wish.want.contains_key(name)
        };
        let wished = due.find(|(name, _)| is_wished(name));
        let wished = wished.map(|(name, _)| format!("{name} was due, and is wished for still"));
        wished.or_else(|| anew.audit().err().filter(|_| self.sound))
    }

    /// Asks it all it can be asked, cuts the journal at each record, then goes on with the machine that
    /// a resume would give.
    pub fn ask(&mut self, now: Time) -> Asked {
        let bad_beginning = self.bad_beginning(now);
        let bad_beginning = bad_beginning.or_else(|| self.bad_return(now));
        let bad_beginning = bad_beginning.or_else(|| self.bad_sparing(now));
        let bad_cut = self.bad_cut();
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
        let (after, machine) = (Digest::of(machine), self.machine.resumed());
        let resumed = machine.as_ref().map_or(0, Digest::of);
        self.machine = machine.unwrap_or_else(|| self.machine.clone());
        Asked { before, after, resumed, bad_cut, bad_beginning }
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
