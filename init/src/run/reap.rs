//! Children that have ended: reaped and at once taken out of the tables, for from that moment
//! the pid may be somebody else's (nothing is cloned in between). Orphans that came to init are
//! reaped like all others and belong to nobody.

use super::procedure::{Deed, Part};
use crate::cgroup::Look;
use crate::event_loop::Init;
use crate::journal::learnt::Learnt;
use crate::limit;
use crate::spawn::Verdict;
use crate::sys::wait::Ended;
use crate::sys::{Pid, notes, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;
use groundstate_units::text::name::Name;

/// What was reaped in one turn.
pub(crate) struct Reaped {
    name: Name,
    pid: i32,
    run: RunId,
    part: Part,
    exit: Exit,
    verdict: Option<Verdict>,
    /// To another process, before it was reaped.
    has_handed_on: bool,
}

impl Init {
    /// Reaps what has ended.
    pub(crate) fn reap(&mut self) {
        let mut ends = Vec::new();
        self.more_to_reap = true;
        for _ in 0..limit::REAPS_A_TURN {
            let Ok(Some(ended)) = wait::reap_any() else {
                self.more_to_reap = false;
                break;
            };
            self.lineage.undisturbed = false;
            ends.push(self.let_go_of(ended));
        }
        // Who wrote the state has left nobody.
        if !ends.is_empty() {
            self.find_left(Look::Now, None);
        }
        notes::looked();
        self.tell_ends(ends, true);
    }

    /// Whose what those have left is who were reaped. `turn`: that of the notes that are put again.
    pub(crate) fn find_left(&mut self, look: Look, turn: Option<u32>) {
        for left in self.tracker.adopt_left(look).into_iter().map(Learnt::Left) {
            match turn {
                Some(turn) => left.note_late(turn),
                None => left.note(),
            }
        }
    }

    /// Takes a process out of all tables; gives whose it was, if it was a unit's.
    pub(crate) fn let_go_of(&mut self, ended: Ended) -> Option<Reaped> {
        self.tracker.ended(ended.pid);
        let owned = self.owned(ended.pid, ended.exit);
        self.child_ended(ended.pid, ended.exit);
        owned
    }

    /// Whose they were is told in order of the units' names. `listens`: others may still have
    /// something to say that counts before.
    pub(crate) fn tell_ends(&mut self, ends: Vec<Option<Reaped>>, listens: bool) {
        let strangers = ends.iter().any(Option::is_none);
        let mut reaped: Vec<Reaped> = ends.into_iter().flatten().collect();
        reaped.sort_by(|a, b| (&a.name, a.run).cmp(&(&b.name, b.run)));
        reaped.retain_mut(|one| self.was_executed(one));
        if listens && !reaped.is_empty() {
            // Some ended after this turn has listened: what they said before counts before.
            self.hear_out();
            self.settle();
        }
        for Reaped { pid, run, part, exit, has_handed_on, .. } in reaped {
            self.runs.is_told(pid);
            // Or with its last words.
            if has_handed_on || self.runs.has_handed_on(run, part) {
                self.course(run, |_| vec![Deed::Look]);
                continue;
            }
            // Perhaps by the kernel, for want of memory.
            let killed = matches!(exit, Exit::Signal { signal: 9, .. });
            if killed && matches!(part, Part::Start(_) | Part::Main) && self.tracker.has_killed(run)
            {
                self.course(run, |procedure| procedure.main_out_of_memory());
            }
            self.part_ended(run, pid, part, exit);
        }
        if strangers {
            self.look_at_all();
        }
    }

    /// What its report says of its beginning is told first. False: it was not executed at all.
    fn was_executed(&mut self, one: &mut Reaped) -> bool {
        let (run, part) = (one.run, one.part);
        match one.verdict.take() {
            Some(Verdict::Failed(failure)) => {
                self.runs.is_told(one.pid);
                self.say_not_executed(run, part, &failure);
                self.course(run, |procedure| procedure.not_executed(part, failure));
                return false;
            }
            Some(Verdict::Executed) => self.course(run, |procedure| procedure.executed(part)),
            Some(Verdict::Pending) | None => {}
        }
        true
    }

    /// Takes the process out of the tables; nothing if it is no unit's.
    fn owned(&mut self, pid: Pid, exit: Exit) -> Option<Reaped> {
        let run = self.runs.of(pid.as_raw())?;
        let running = self.runs.get_mut(run)?;
        let started = running.reported(|started| started.pid == pid.as_raw());
        if let Some(started) = &started {
            self.runs.unwatch(started.token);
        }
        let verdict = started.map(|mut started| started.report.at_exit());
        let (run, part) = self.runs.disown(pid.as_raw())?;
        let has_handed_on = self.runs.has_handed_on(run, part);
        let name = self.runs.get(run)?.name.clone();
        self.runs.has_ended(pid.as_raw(), run, part);
        Some(Reaped { name, pid: pid.as_raw(), run, part, exit, verdict, has_handed_on })
    }

    /// Runs that wait for their last process: where the kernel does not tell when a
    /// cgroup empties, each reaped orphan may have been it.
    pub(crate) fn look_at_all(&mut self) {
        let waiting: Vec<RunId> = self
            .runs
            .iter()
            .filter(|(_, running)| running.procedure.waits_for_the_last())
            .map(|(run, _)| run)
            .collect();
        for run in waiting {
            self.course(run, |_| vec![Deed::Look]);
        }
    }

    /// Cgroups have emptied.
    pub(crate) fn emptied(&mut self) {
        for run in self.tracker.emptied() {
            self.course(run, |_| vec![Deed::Look]);
        }
        for run in self.tracker.short_of_memory() {
            self.course(run, |procedure| procedure.out_of_memory());
        }
    }
}
