//! The whole machine as bytes, and back: for an init that goes on as another image of its
//! program. Everything goes along but the generation, which the shell keeps, and the graph,
//! which follows from it. How the bytes are kept is not decided here.

use super::Machine;
#[cfg(feature = "sim")]
use super::action::Action;
#[cfg(feature = "sim")]
use super::event::Event;
use super::event::RunId;
use super::mutant::Mutant;
use crate::graph::Graph;
#[cfg(feature = "sim")]
use crate::text::time::Time;
use crate::unit::generation::{Generation, UnitId};
use std::sync::Arc;

impl Machine {
    /// All of it but its generation. Empty: it can not be written, which is a bug.
    pub fn keep(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// The machine of [`Machine::keep`]'s bytes, with the generation it had then. None: the bytes
    /// are damaged, or are about another generation.
    pub fn from_kept(bytes: &[u8], generation: Arc<Generation>) -> Option<Machine> {
        let (mut machine, rest) = postcard::take_from_bytes::<Machine>(bytes).ok()?;
        let places = generation.units.len().checked_add(machine.removed_units.len())?;
        if !rest.is_empty() || (machine.booted && machine.cells.len() != places) {
            return None;
        }
        // As it was resolved: what the overlay drops is masked too.
        let effective = Machine::effective(&machine.policy, &machine.wish);
        let (graph, faults) = Graph::resolve(&generation, &effective);
        machine.generation = generation;
        machine.share_live();
        machine.all_changed = true;
        machine.graph = Arc::new(graph);
        machine.faults = Arc::new(faults);
        Some(machine)
    }

    /// After a crash: these runs were begun since this machine was kept, and are there. The next starts
    /// of their units get their numbers, in this order, and no other start does: whatever was not
    /// noted, and is decided otherwise now, shifts the number of no run that is there.
    pub fn begun_before(&mut self, runs: impl IntoIterator<Item = (UnitId, RunId)>) {
        let kept = RunId(self.next_run);
        let (none, one) = (Mutant::RunsGetOtherNumbers, Mutant::OneRunBegunBefore);
        let (none, one) = (self.planted(none), self.planted(one));
        for (unit, run) in runs.into_iter().filter(|(_, run)| *run >= kept) {
            if one {
                self.begun_before.remove(&unit.0);
            }
            if !none {
                self.begun_before.entry(unit.0).or_default().insert(run);
            }
            self.next_run = self.next_run.max(run.0.saturating_add(1));
        }
    }

    /// Numbers up to this one were given out, whatever this machine knows of: no run that begins gets one of them.
    pub fn numbered_before(&mut self, highest: RunId) {
        self.next_run = self.next_run.max(highest.0.saturating_add(1));
    }

    /// What had happened before the crash has happened again: what is begun from now on is new.
    pub fn nothing_begun_before(&mut self) {
        self.begun_before.clear();
    }

    /// The same after a crash or an upgrade, as the simulator has it; None: it can not be had.
    #[cfg(feature = "sim")]
    pub fn resumed(&self) -> Option<Machine> {
        let mut bytes = self.clone();
        if self.planted(Mutant::ResumeForgetsFailures) {
            bytes.cells.iter_mut().for_each(|cell| cell.failures = 0);
        }
        let mut machine = self.gone_back(&bytes.keep())?;
        // The records that were written before the resume still hold.
        machine.take_changes();
        Some(machine)
    }

    /// The machine of these bytes, kept under the present generation, with this one's mistake.
    #[cfg(feature = "sim")]
    pub fn gone_back(&self, kept: &[u8]) -> Option<Machine> {
        let mut machine = Machine::from_kept(kept, self.generation.clone())?;
        machine.mutant = self.mutant;
        Some(machine)
    }

    /// After a crash, as the simulator has it: these runs were begun since this machine was kept, what
    /// was noted since is put to it again, and something that nobody noted shifts the numbers of
    /// runs by so many. Hands back what was ordered.
    #[cfg(feature = "sim")]
    pub fn go_back_to_now(
        &mut self,
        noted: &[(Time, Event)],
        begun: &[(UnitId, RunId)],
        shift: u64,
    ) -> Vec<Action> {
        self.begun_before(begun.iter().copied());
        self.next_run = self.next_run.saturating_add(shift);
        let steps = noted.iter().map(|(at, event)| self.step(*at, event.clone()).actions);
        let actions = steps.collect::<Vec<_>>().concat();
        self.nothing_begun_before();
        // Nothing else may differ: what was begun has its number.
        self.next_run = self.next_run.saturating_sub(shift);
        actions
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{Event, Goal};
    use super::super::tests::{at, boot, id, name, run, service};
    use super::*;
    use crate::spec::Exit;

    #[test]
    fn a_run_that_was_begun_before_a_crash_gets_its_number_again_whatever_else_is_decided_now() {
        let drafts = || vec![service("db", &[]), service("web", &[]), service("new", &[])];
        let goal = |all: &[&str]| {
            let targets = all.iter().map(|text| name(text)).collect();
            Event::SetGoal(Goal { targets, ..Goal::default() })
        };
        let (mut machine, _) = boot(drafts(), "db");
        let kept = machine.keep();
        // Something that nobody noted has let `new` begin too, before `web`.
        machine.step(at(1), goal(&["db", "new"]));
        machine.step(at(2), goal(&["db", "new", "web"]));
        let (db, web) = (run(&machine, "db"), run(&machine, "web"));
        let mut again = Machine::from_kept(&kept, machine.generation().clone()).unwrap();
        again.begun_before([(id(&again, "web"), web), (id(&again, "db"), db)]);
        again.step(at(2), goal(&["db", "web", "new"]));
        assert_eq!((run(&again, "db"), run(&again, "web")), (db, web));
        assert!(run(&again, "new") > web, "a number that nobody has had");
        again.step(at(3), Event::Ended(web, Exit::Code(1)));
        again.step(at(60), Event::Tick);
        assert!(run(&again, "web") > run(&again, "new"), "each number once");
        // What is not begun again by the end of it does not get the number of what is gone.
        let mut again = Machine::from_kept(&kept, machine.generation().clone()).unwrap();
        again.begun_before([(id(&again, "web"), web)]);
        again.nothing_begun_before();
        again.step(at(2), goal(&["web"]));
        assert!(run(&again, "web") > web);
        // Nor does anybody get that of what nobody noted.
        let mut again = Machine::from_kept(&kept, machine.generation().clone()).unwrap();
        again.begun_before([(id(&again, "web"), web)]);
        again.numbered_before(RunId(web.0 + 5));
        again.numbered_before(RunId(0));
        again.step(at(2), goal(&["db", "web", "new"]));
        assert_eq!((run(&again, "web"), run(&again, "new").0), (web, web.0 + 6));
    }
}
