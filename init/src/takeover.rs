//! A run that is to begin and is there already: its processes are taken up, and it goes on from where it
//! is. Whose they are was found out before ([`crate::found`]).

use crate::cgroup::mark;
use crate::event_loop::Init;
use crate::found::{Alive, Daemon, last_line};
use crate::journal::notes;
use crate::journal::standing::Standing;
use crate::run::procedure::{Part, Procedure, UNKNOWN};
use crate::sys::{Pid, wait};
use crate::voice::Level;
use groundstate_units::machine::event::RunId;
use groundstate_units::name::Name;
use groundstate_units::spec::{Exit, Kind, Run};
use std::collections::{BTreeMap, BTreeSet};

impl Init {
    /// The run that is to begin is there already, or has been: true, and it goes on from there.
    pub(crate) fn take_found(&mut self, run: RunId, name: &Name) -> bool {
        let found = &mut self.lineage.found;
        if found.units.is_empty() && found.done.is_empty() {
            return false;
        }
        if let Some((_, exit)) = found.done.remove(name).filter(|(of, _)| *of == run) {
            self.say(Level::Info, format_args!("{name}: it had been run before the crash"));
            if let Some(running) = self.runs.get_mut(run) {
                (running.begun, running.output, running.spec) = (true, None, None);
            }
            self.course(run, |procedure| procedure.found_over(exit));
            return true;
        }
        if !found.units.contains_key(name) {
            return false;
        }
        let spec = self.runs.get(run).and_then(|running| running.spec());
        let pids = self.living_of(name);
        let Some(living) = self.lineage.found.units.remove(name) else { return false };
        let ends = &self.lineage.found.remains.ends;
        let standing = living.standing.as_ref();
        let goes_on = !pids.is_empty() || standing.is_some_and(|it| it.goes_on_alone(ends));
        match (living.alive, spec) {
            (alive, Some(spec)) if goes_on => {
                if let Alive::In(cgroup) = alive {
                    self.tracker.take_over(run, &cgroup);
                }
                self.say(Level::Info, format_args!("{name}: it is there, and is taken up"));
                self.found_asides(run, &spec, &pids);
                self.found_ready_pipe(run, &spec, living.standing.as_ref(), &pids);
                match living.standing {
                    Some(standing) => {
                        self.takes_left(run, &standing, &pids);
                        self.go_on_as(run, &spec, &standing);
                    }
                    None => self.go_on_with(run, &spec, &pids),
                }
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
    pub(crate) fn living_of(&self, name: &Name) -> BTreeSet<i32> {
        let found = &self.lineage.found;
        let Some(living) = found.units.get(name) else { return BTreeSet::new() };
        let standing = living.standing.as_ref();
        let mut pids: BTreeSet<i32> = standing.into_iter().flat_map(Standing::living).collect();
        match &living.alive {
            Alive::In(cgroup) => pids.extend(self.tracker.living_in(cgroup)),
            Alive::Noted(_) if let Some(standing) = standing => {
                let left = standing.has_left(&found.marked).into_iter().flatten();
                let is_it = |pid: &&i32| mark::on(Pid::from_raw(**pid)) == Some(standing.run);
                pids.extend(left.filter(is_it));
            }
            Alive::Noted(daemon) => {
                let daemon = daemon.filter(Daemon::lives).map(|daemon| daemon.pid);
                pids.extend(self.noted_of(name).into_keys().chain(daemon));
            }
        }
        pids
    }

    /// What it has left to init is the run's.
    fn takes_left(&mut self, run: RunId, standing: &Standing, pids: &BTreeSet<i32>) {
        let known: BTreeSet<i32> = standing.pids().collect();
        if !self.tracker.has_cgroups() {
            let left = pids.difference(&known).copied().map(Pid::from_raw);
            left.for_each(|pid| self.tracker.was_left(run, pid));
        }
    }

    /// It is as far as that was written; what has ended since has ended so.
    fn go_on_as(&mut self, run: RunId, spec: &Run, standing: &Standing) {
        let Some(name) = self.runs.get(run).map(|running| running.name.clone()) else { return };
        let (living, course) = (standing.living().collect::<BTreeSet<i32>>(), standing.course);
        let mut ended = Vec::new();
        for (pid, part) in standing.lines.iter().copied() {
            let of = Pid::from_raw(pid);
            // Nobody hears what the helper of another image has to say.
            match living.contains(&pid) && wait::is_child(of) && part != Part::Look {
                true => {
                    let child = self.spawner.take_up(of, u32::MAX, name.as_str());
                    self.keep(run, part, spec, child);
                }
                false => ended.push((pid, part)),
            }
        }
        let is_line = standing.lines.iter().any(|(pid, _)| *pid == standing.main);
        let is_part = |of: fn(&Part) -> bool| standing.lines.iter().any(|(_, part)| of(part));
        let has_start = is_part(|part| matches!(part, Part::Start(_)));
        if !is_line && living.contains(&standing.main) {
            // It may have left its cgroup since it was named.
            let is_adopted = self.adopt_if(run, standing.main, |_| true).is_ok();
            let main = Pid::from_raw(standing.main);
            if is_adopted && !self.tracker.has_cgroups() && wait::is_child(main) {
                self.tracker.was_left(run, main);
            }
        }
        let Some(running) = self.runs.get_mut(run) else { return };
        let has_main = running.main.is_some();
        // A script has none; of what is known by its note alone it is the line.
        let is_over = course.has_main() && !has_main && !is_line;
        if is_over && (standing.main > 0 || !has_start) {
            ended.push((standing.main, Part::Main));
        }
        // Nothing follows from there being none before their ends are told.
        running.lines.extend(&ended);
        running.begun = true;
        if !course.has_lines_to_start(last_line(spec)) {
            (running.output, running.spec) = (None, None);
        }
        let is_ready = has_main && self.lineage.found.says_ready(standing.main, run);
        self.course(run, |procedure| procedure.found(&course, has_main, is_ready));
        let line = course.line().filter(|line| !standing.lines.iter().any(|(_, of)| of == line));
        for (pid, part) in ended {
            if let Some(running) = self.runs.get_mut(run) {
                running.lines.retain(|one| *one != (pid, part));
            }
            if part != Part::Look {
                self.part_ended(run, pid, part, self.end_of(pid));
            }
        }
        let is_main = |part: &Part| course.has_main() && matches!(part, Part::Start(_));
        if let Some(part) = line.filter(|part| !is_main(part)) {
            let noted = self.lineage.found.remains.ended.get(&notes::unit(name.as_str()));
            let exit = noted.filter(|(begun, _)| (begun.run, begun.part) == (run, part));
            let exit = exit.map_or(UNKNOWN, |(_, exit)| *exit);
            self.part_ended(run, 0, part, exit);
        }
    }

    /// How this process has ended.
    fn end_of(&self, pid: i32) -> Exit {
        self.lineage.found.remains.ends.get(&pid).copied().unwrap_or(UNKNOWN)
    }

    fn go_on_with(&mut self, run: RunId, spec: &Run, pids: &BTreeSet<i32>) {
        let Some(name) = self.runs.get(run).map(|running| running.name.clone()) else { return };
        let begun = self.noted_of(&name);
        let mut line = begun.iter().find(|(pid, _)| pids.contains(pid));
        let is_foreground =
            matches!(spec.kind, Kind::ForegroundNotified | Kind::ForegroundSupervised);
        let main = only(pids).filter(|_| is_foreground && line.is_none());
        let main = main.map(|pid| (pid, Part::Start(last_line(spec))));
        line = line.or(main.as_ref().map(|(pid, part)| (pid, part)));
        let Some((pid, part)) = line.map(|(pid, part)| (*pid, *part)) else {
            return self.go_on_without_main(run, pids);
        };
        let was_ready = self.lineage.found.was_ready(pid, run);
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
    fn go_on_without_main(&mut self, run: RunId, pids: &BTreeSet<i32>) {
        if !self.tracker.has_cgroups() {
            pids.iter().for_each(|pid| self.tracker.was_left(run, Pid::from_raw(*pid)));
        }
        if let Some(running) = self.runs.get_mut(run) {
            (running.begun, running.output, running.spec) = (true, None, None);
        }
        self.course(run, Procedure::found_somewhere);
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

/// The child of init that leads a session of its own, where there is one alone: what the unit was started
/// as. Of several one may be what an earlier line has left.
fn only(pids: &BTreeSet<i32>) -> Option<i32> {
    let own = nix::unistd::getpid().as_raw();
    let stats = pids.iter().filter_map(|pid| crate::process::stat(Pid::from_raw(*pid)));
    let mut children =
        stats.filter(|stat| stat.parent == own && stat.session == stat.pid && !stat.ended);
    let first = children.next();
    first.filter(|_| children.next().is_none()).map(|stat| stat.pid)
}
