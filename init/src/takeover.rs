//! A run that is to begin and is there already: its processes are taken up, and it goes on from where it
//! is. Whose they are was found out before ([`crate::found`]).

use crate::event_loop::Init;
use crate::found::{Alive, last_line};
use crate::journal::notes;
use crate::run::procedure::Part;
use crate::sys::{Pid, wait};
use crate::voice::Level;
use groundstate_units::machine::event::RunId;
use groundstate_units::name::Name;
use groundstate_units::spec::{Kind, Run};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

impl Init {
    /// The run that is to begin is there already, or has been: true, and it goes on from there.
    pub(crate) fn take_found(&mut self, run: RunId, name: &Name) -> bool {
        let found = &mut self.lineage.found;
        if found.units.is_empty() && found.done.is_empty() {
            return false;
        }
        if let Some(exit) = found.done.remove(name) {
            self.say(Level::Info, format_args!("{name}: it had been run before the crash"));
            self.course(run, |procedure| procedure.found_over(exit));
            return true;
        }
        let Some(alive) = found.units.get(name).cloned() else { return false };
        let spec = self.runs.get(run).and_then(|running| running.spec());
        let pids = self.living_of(name);
        self.lineage.found.units.remove(name);
        match (alive, spec) {
            (alive, Some(spec)) if !pids.is_empty() => {
                if let Alive::In(cgroup) = alive {
                    self.tracker.take_over(run, &cgroup);
                }
                self.say(Level::Info, format_args!("{name}: it is there, and is taken up"));
                self.go_on_with(run, &spec, &pids);
                true
            }
            // All of it has ended meanwhile.
            (Alive::In(cgroup), _) => {
                self.tracker.leave(&cgroup);
                false
            }
            (Alive::Noted(_), _) => false,
        }
    }

    /// Processes of the unit.
    fn living_of(&self, name: &Name) -> BTreeSet<i32> {
        match self.lineage.found.units.get(name) {
            Some(Alive::In(cgroup)) => self.tracker.living_in(cgroup),
            Some(Alive::Noted(daemon)) => self.noted_of(name).into_keys().chain(*daemon).collect(),
            None => BTreeSet::new(),
        }
    }

    /// What the unit that is about to begin writes into already.
    pub(crate) fn found_output(&mut self, name: &Name) -> Option<OwnedFd> {
        if !self.lineage.found.units.contains_key(name) {
            return None;
        }
        let pids = self.living_of(name);
        self.lineage.found.output_of(&pids)
    }

    fn go_on_with(&mut self, run: RunId, spec: &Run, pids: &BTreeSet<i32>) {
        let Some(name) = self.runs.get(run).map(|running| running.name.clone()) else { return };
        let begun = self.noted_of(&name);
        let mut line = begun.iter().find(|(pid, _)| pids.contains(pid));
        let is_foreground =
            matches!(spec.kind, Kind::ForegroundNotified | Kind::ForegroundSupervised);
        let main = oldest(pids).filter(|_| is_foreground && line.is_none());
        let main = main.map(|pid| (pid, Part::Start(last_line(spec))));
        line = line.or(main.as_ref().map(|(pid, part)| (pid, part)));
        let Some((pid, part)) = line.map(|(pid, part)| (*pid, *part)) else {
            return self.go_on_without_main(run, spec, pids);
        };
        let was_ready = self.lineage.found.was_ready(pid, run);
        wait::made_before([pid]);
        let child = self.spawner.take_up(Pid::from_raw(pid), u32::MAX, name.as_str());
        self.keep(run, part, spec, child);
        let starts = part == Part::Start(last_line(spec));
        if let Some(running) = self.runs.get_mut(run) {
            running.begun = true;
            running.procedure.found_at(part);
            if starts {
                (running.output, running.spec) = (None, None);
            }
        }
        if starts && is_foreground && was_ready {
            self.course(run, |procedure| procedure.found_up());
        }
    }

    /// Its launcher or script has ended; or nobody knows which process is the main one.
    fn go_on_without_main(&mut self, run: RunId, spec: &Run, pids: &BTreeSet<i32>) {
        if !self.tracker.has_cgroups() {
            pids.iter().for_each(|pid| self.tracker.was_left(run, Pid::from_raw(*pid)));
        }
        if let Some(running) = self.runs.get_mut(run) {
            (running.begun, running.output, running.spec) = (true, None, None);
        }
        self.course(run, |procedure| procedure.found_done(last_line(spec)));
    }

    /// Lines of the unit that were begun, and are children still.
    fn noted_of(&self, name: &Name) -> BTreeMap<i32, Part> {
        let unit = notes::unit(name.as_str());
        let alive = &self.lineage.found.remains.alive;
        let of_it = alive.iter().filter(|(pid, begun)| {
            let is_line = matches!(begun.part, Part::Condition(_) | Part::Pre(_) | Part::Start(_));
            begun.unit == unit && is_line && wait::is_child(Pid::from_raw(**pid))
        });
        of_it.map(|(pid, begun)| (*pid, begun.part)).collect()
    }
}

/// The child of init that began first: what it was started as, before what that has left.
fn oldest(pids: &BTreeSet<i32>) -> Option<i32> {
    let own = nix::unistd::getpid().as_raw();
    let stats = pids.iter().filter_map(|pid| crate::process::stat(Pid::from_raw(*pid)));
    let children =
        stats.filter(|stat| stat.parent == own && stat.session == stat.pid && !stat.ended);
    children.min_by_key(|stat| (stat.began, stat.pid)).map(|stat| stat.pid)
}
