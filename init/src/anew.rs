//! The rung between going on where it was and giving up: an init that has crashed, and whose state is
//! lost, begins anew, with the unit files as they are now, and takes up what lives. Nothing is
//! ended for its state being lost, and nothing is started beside itself.
//!
//! What lives is told by its cgroup, and where there are none by the notes that are left
//! ([`crate::journal::remains`]). For the machine it is a start like any other, with the number
//! the run had; the processes are there already ([`crate::takeover`]). Scripts of the goal that had been
//! run are not run again. What is needed by nobody any more, for what was wished is lost too, is
//! wished for.
//!
//! Until all that lives is taken up no state is kept: a crash meanwhile looks again.

use crate::begin::Before;
use crate::boot::Mode;
use crate::cgroup::Tracker;
use crate::event_loop::Init;
use crate::foreign;
use crate::found::{Found, Stage, asked_end};
use crate::journal::notes::{self, What};
use crate::journal::remains::Remains;
use crate::limit;
use crate::lineage::Lineage;
use crate::options::Options;
use crate::paths::Paths;
use crate::pipes;
use crate::replay::Started;
use crate::sys::bell::Bell;
use crate::sys::{inherit, notes as writer};
use crate::voice::Level;
use groundstate_units::generation::{Generation, UnitId};
use groundstate_units::machine::event::Event;
use groundstate_units::machine::reason::State;
use groundstate_units::name::Name;
use std::io;
use std::os::fd::AsFd;

impl Init {
    /// Begins anew after a crash, beside what lives. `notes` are those that are left; `why` is why
    /// there is no going on. The error is for people.
    pub(crate) fn begin_anew(
        options: Options,
        mode: Mode,
        notes: &[u8],
        crashed: (u32, u32),
        why: &str,
    ) -> io::Result<Init> {
        let remains = Remains::read(notes);
        let lineage = Lineage::anew(notes, crashed);
        let end = asked_end(&remains);
        let opened = |note: &&notes::Note| matches!(note.what, What::Opened(_));
        let opened: Vec<notes::Note> = remains.past.notes.iter().filter(opened).cloned().collect();
        let started = Started::among(&opened);
        let (paths, _) = Paths::find(&options);
        let told = paths.runtime_dir.map(|dir| format!("{dir}/notify.sock"));
        let told = told.and_then(|path| inherit::take_socket_at(&path));
        let outputs = pipes::of_services();
        outputs.iter().for_each(|(_, pipe)| inherit::is_new(pipe.as_fd()));
        let tracker = Tracker::again();
        foreign::close_rest();
        let cgroups = tracker.as_ref().map(Tracker::left).unwrap_or_default();
        let stage = Stage::BeforeBoot;
        let found = Found { remains, cgroups, outputs, end, stage, ..Found::default() };
        if let Some(keeper) = &lineage.keeper {
            // Said when it is armed again, if it can not be.
            let _ = writer::go_on(keeper.notes().as_fd(), &found.remains.past, 0);
        }
        let rung = found.remains.rung;
        let lineage = Some(Lineage { started, found, ..lineage });
        let mut init = Init::begin(options, mode, Before { lineage, tracker })?;
        Bell::ring_again(rung);
        if let (Some(notify), Some(told)) = (&mut init.notify, told) {
            notify.hear_first(told);
        }
        init.lineage.resumed = Some(init.now);
        init.lineage.steady_at = Some(init.now.after(limit::STEADY_ANEW));
        let text = "init has crashed and begins anew, beside what lives";
        init.say(Level::Error, format_args!("{text}: {why}"));
        Ok(init)
    }

    /// Before the first generation is taken: what lives of it keeps its numbers.
    pub(crate) fn meet_found(&mut self, generation: &Generation) {
        if !self.lineage.found.is_before_boot() {
            return;
        }
        let (highest, runs) = self.lineage.found.meet(generation);
        self.machine.found_alive(highest, runs);
    }

    /// After it: what lives and nobody needs is wished for, as it must have been; what is of no
    /// unit any more is left alone.
    pub(crate) fn keep_found(&mut self) {
        for left in std::mem::take(&mut self.lineage.found.cgroups) {
            let text = "is of no unit now: what lives in it is left alone";
            self.say(Level::Warning, format_args!("{} {text}", left.name));
            self.tracker.leave(&left.name);
        }
        if let Some(how) = self.lineage.found.end.take() {
            return self.shut_down(how);
        }
        let names: Vec<Name> = self.lineage.found.units.keys().cloned().collect();
        for name in names {
            self.need_found(&name);
        }
        if self.lineage.found.stage == Stage::Meeting {
            self.lineage.found.stage = Stage::Waiting;
        }
    }

    /// A trigger had fired, or somebody had wished for it.
    fn need_found(&mut self, name: &Name) {
        let Some(unit) = self.machine.generation().find_unit(name.as_str()) else { return };
        let is_needed = |init: &Init| init.machine.state(unit) != State::Disabled;
        if is_needed(self) {
            return;
        }
        let units = &self.machine.generation().units;
        let ids = (0..).map(UnitId).zip(units);
        let triggers = ids.filter(|(id, _)| self.machine.activates(*id) == Some(unit));
        let mut fires: Vec<Name> = triggers.map(|(_, trigger)| trigger.name.clone()).collect();
        // A connection had been accepted for it.
        fires.extend(self.machine.is_place(unit).then(|| name.clone()));
        self.facts.extend(fires.into_iter().map(Event::Fire));
        self.settle();
        if is_needed(self) {
            return;
        }
        if let Err(refusal) = self.wish(Event::Want { target: name.clone(), until: None }) {
            let text = "lives, and can not be taken up";
            self.say(Level::Warning, format_args!("{name} {text}: {}", refusal.message));
            let alive = self.lineage.found.units.remove(name);
            if let Some(cgroup) = alive.and_then(|alive| alive.cgroup) {
                self.tracker.leave(&cgroup);
            }
        }
    }

    /// What the first goal needs, as soon as the machine knows it.
    pub(crate) fn note_first(&mut self) {
        let generation = self.machine.generation();
        let needed = (0..).zip(&generation.units);
        let needed = needed.filter(|(id, _)| self.machine.state(UnitId(*id)) != State::Disabled);
        self.lineage.found.first = Some(needed.map(|(_, unit)| unit.name.clone()).collect());
    }
}
