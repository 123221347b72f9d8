//! How far each run is, written where it survives a crash ([`crate::journal::standing`]).

use crate::clock;
use crate::event_loop::Init;
use crate::journal::notes;
use crate::journal::standing::{self, Standing};
use crate::pipes;
use crate::run::procedure::Part;
use crate::voice::Level;
use groundstate_units::machine::action::Note;
use groundstate_units::machine::event::RunId;
use groundstate_units::machine::reason::State;
use groundstate_units::name::Name;
use std::collections::BTreeSet;

impl Init {
    /// Of one, once it has begun.
    pub(crate) fn stand(&mut self, run: RunId) {
        let Some(running) = self.runs.get(run).filter(|running| running.begun) else { return };
        let mut lines = running.lines.clone();
        let main = running.main.as_ref().filter(|main| !main.is_gone());
        let mut main = main.map_or(0, |main| main.pid());
        for (pid, part) in self.runs.untold(run) {
            if part == Part::Main {
                main = pid;
            } else {
                lines.push((pid, part));
            }
        }
        let mut course = running.procedure.standing();
        if self.machine.is_due(run) {
            course.is_due();
        }
        let it = Standing {
            run,
            at: clock::ticks(),
            ahead: self.tracker.made_ahead_for(run),
            main,
            lines,
            course,
            ready: running.ready_pipe.as_ref().and_then(|ready| pipes::inode(&ready.pipe)),
        };
        if !standing::stands(notes::unit(running.name.as_str()), &it) {
            let name = running.name.clone();
            let text = "there is no room to write down how far it is, nor others that come";
            let then = "after a crash over which the state is lost less is known of them";
            self.say(Level::Warning, format_args!("{name}: {text}: {then}"));
        }
    }

    /// What is to be stopped from now on, told or not, or is not any more, whoever it waits for. `spared`
    /// was due before.
    pub(crate) fn stand_due(&mut self, notes: &[Note], spared: &BTreeSet<Name>) {
        let is_due = |note: &&Note| [note.from, note.to].contains(&State::Stopping);
        notes.iter().filter(is_due).filter_map(|note| note.run).for_each(|run| self.stand(run));
        let (graph, generation) = (self.machine.graph(), self.machine.generation());
        let unit = |name| generation.unit(graph.meant(generation, name).unit()?);
        let wished = spared.difference(self.machine.spared()).filter_map(unit);
        let runs: Vec<RunId> = wished.filter_map(|unit| self.runs.latest(&unit.name)).collect();
        runs.into_iter().for_each(|run| self.stand(run));
    }

    /// The unit has no run any more.
    pub(super) fn stands_no_more(&self, name: &Name) {
        if self.runs.latest(name).is_none() {
            standing::stands_no_more(notes::unit(name.as_str()));
        }
    }

    /// Of all: an image before this one has written nothing, or what was so then.
    pub(crate) fn stand_all(&mut self) {
        let found = &self.lineage.found;
        let runs = self.runs.iter().map(|(_, running)| &running.name).chain(found.units.keys());
        let units = runs.map(|name| notes::unit(name.as_str()));
        let units = units.chain(found.remains.standings.of.keys().copied()).collect();
        standing::stand_alone(&units);
        let runs: Vec<RunId> = self.runs.iter().map(|(run, _)| run).collect();
        runs.into_iter().for_each(|run| self.stand(run));
        self.stand_away();
    }
}
