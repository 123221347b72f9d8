//! A run that is to begin and is there already: its processes are taken up, and it goes on from where it
//! is. Whose they are was found out before ([`crate::found`]).

use crate::event_loop::Init;
use crate::found::{Alive, Found, Stage, last_line};
use crate::journal::notes;
use crate::run::pid_file::{self, By};
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
        if self.lineage.found.stage < Stage::Meeting {
            return false;
        }
        let Some(spec) = self.runs.get(run).and_then(|running| running.spec()) else {
            return false;
        };
        if self.lineage.found.first.is_none() {
            self.note_first();
        }
        let is_taken = self.take_one(run, name, &spec);
        let found = &mut self.lineage.found;
        found.units.remove(name);
        if let Some(first) = &mut found.first {
            first.remove(name);
            if first.is_empty() && found.units.is_empty() {
                self.lineage.found = Found::default();
            }
        }
        is_taken
    }

    fn take_one(&mut self, run: RunId, name: &Name, spec: &Run) -> bool {
        let pids = self.living_of(name, spec);
        if pids.is_empty() {
            let is_done = self.lineage.found.has_done(name, spec);
            if is_done {
                self.say(Level::Info, format_args!("{name}: it had been run before the crash"));
                self.course(run, |procedure| procedure.found_done(last_line(spec)));
            }
            return is_done;
        }
        if let Some(Alive { run: was, cgroup: Some(cgroup) }) =
            self.lineage.found.units.get(name).cloned()
        {
            if was != run {
                // Other unit files have come meanwhile: it can not be told from another run's.
                let text = "can not be taken up any more: it is killed";
                self.say(Level::Warning, format_args!("{cgroup} {text}"));
                self.tracker.kill_unknown(&cgroup);
                return false;
            }
            self.tracker.take_over(run, &cgroup);
        }
        self.say(Level::Info, format_args!("{name}: it is there, and is taken up"));
        self.go_on_with(run, spec, &pids);
        true
    }

    /// Processes of the unit.
    fn living_of(&self, name: &Name, spec: &Run) -> BTreeSet<i32> {
        match self.lineage.found.units.get(name).map(|alive| &alive.cgroup) {
            Some(Some(cgroup)) => self.tracker.living_in(cgroup),
            Some(None) => self.noted_of(name).into_keys().collect(),
            None => self.by_pid_file(spec).into_iter().collect(),
        }
    }

    /// What the unit that is about to begin writes into already.
    pub(crate) fn found_output(&mut self, name: &Name, spec: &Run) -> Option<OwnedFd> {
        if !self.lineage.found.units.contains_key(name) {
            return None;
        }
        let pids = self.living_of(name, spec);
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
        let alive = self.lineage.found.remains.alive();
        let of_it = alive.into_iter().filter(|(pid, begun)| {
            let is_line = matches!(begun.part, Part::Condition(_) | Part::Pre(_) | Part::Start(_));
            begun.unit == unit && is_line && wait::is_child(Pid::from_raw(*pid))
        });
        of_it.map(|(pid, begun)| (pid, begun.part)).collect()
    }

    /// Without cgroups: the daemon that the unit's pid file names.
    fn by_pid_file(&self, spec: &Run) -> Option<i32> {
        let path = spec.pid_file.as_deref().filter(|_| !self.tracker.has_cgroups())?;
        match pid_file::look(path, By::Init) {
            pid_file::Said::Pid(pid) => wait::is_child(Pid::from_raw(pid)).then_some(pid),
            pid_file::Said::Nothing | pid_file::Said::Wrong(_) => None,
        }
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
