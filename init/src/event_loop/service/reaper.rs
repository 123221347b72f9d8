//! Children that have ended: reaped and at once taken out of the tables, for from that moment
//! the pid may be somebody else's (nothing is cloned in between). Orphans that came to init are
//! reaped like all others and belong to nobody.

use crate::base::limit;
use crate::event_loop::Init;
use crate::service::run_table::Reaped;
use crate::service::sequence::{CommandKind, Effect};
use crate::spawn::ExecResult;
use crate::sys::inbox;
use crate::sys::wait::{self, Ended};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;

impl Init {
    /// Reaps children that have ended, and tells their runs.
    pub(crate) fn reap(&mut self) {
        self.commit_clones();
        let (mut has_reaped, mut strangers) = (false, false);
        self.more_to_reap = true;
        for _ in 0..limit::REAPS_A_TURN {
            // Without room for the end in the inbox the child waits for the next commit.
            if !inbox::has_room() {
                break;
            }
            let Ok(Some(ended)) = wait::reap_any() else {
                self.more_to_reap = false;
                break;
            };
            has_reaped = true;
            strangers |= !self.let_go_of(ended);
        }
        if has_reaped {
            self.tracker.adopt_left();
        }
        self.tell_ends();
        if strangers {
            self.look_at_all();
        }
    }

    /// Takes a process out of all tables. True: the process was a run's, and the run is told of the end.
    fn let_go_of(&mut self, ended: Ended) -> bool {
        let is_runs = self.disown(&ended);
        self.child_ended(ended.pid, ended.exit);
        is_runs
    }

    /// Takes a process out of the tables of runs, without a commit. True: the process was a run's.
    pub(crate) fn disown(&mut self, ended: &Ended) -> bool {
        self.tracker.ended(ended.pid);
        let owned = self.runs.reap(ended.pid, ended.exit);
        let is_runs = owned.is_some();
        self.reaped.extend(owned);
        is_runs
    }

    /// Tells runs the ends of their processes, in order of the units' names.
    fn tell_ends(&mut self) {
        if self.reaped.is_empty() {
            return;
        }
        let mut reaped: Vec<Reaped> = std::mem::take(&mut self.reaped).into();
        reaped.sort_by(|a, b| (&a.name, a.run).cmp(&(&b.name, b.run)));
        reaped.retain_mut(|one| self.was_executed(one));
        self.reaped = reaped.into();
        if !self.reaped.is_empty() {
            // A message that a process sent before its end counts before the end.
            self.hear_out();
            self.settle();
        }
        while let Some(Reaped { pid, run, part, exit, has_handed_on, .. }) = self.reaped.pop_front()
        {
            self.runs.is_told(pid);
            // The last message of the process may have named another main process.
            if has_handed_on || self.runs.has_handed_on(run, part) {
                self.advance(run, |_| vec![Effect::Look]);
                continue;
            }
            // The kernel may have killed it for want of memory.
            let killed = matches!(exit, Exit::Signal { signal: 9, .. });
            if killed
                && matches!(part, CommandKind::Start(_) | CommandKind::Main)
                && self.tracker.has_killed(run)
            {
                self.advance(run, |procedure| procedure.main_out_of_memory());
            }
            self.part_ended(run, pid, part, exit);
            self.settle_if_full();
        }
    }

    /// What its report says of its beginning is told first. False: it was not executed at all.
    fn was_executed(&mut self, one: &mut Reaped) -> bool {
        let (run, part) = (one.run, one.part);
        match one.verdict.take() {
            Some(ExecResult::Failed(failure)) => {
                self.runs.is_told(one.pid);
                self.say_not_executed(run, part, &failure);
                self.advance(run, |procedure| procedure.not_executed(part, failure));
                return false;
            }
            Some(ExecResult::Executed) => self.advance(run, |procedure| procedure.executed(part)),
            Some(ExecResult::Pending) | None => {}
        }
        true
    }

    /// Carries out effects in a burst of them: each start that is prepared holds descriptors. For loops whose rest
    /// an image that goes on after a crash finds again.
    pub(crate) fn settle_if_full(&mut self) {
        if self.effects.is_full() {
            self.settle();
        }
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
            self.advance(run, |_| vec![Effect::Look]);
            self.settle_if_full();
        }
    }

    /// Cgroups have emptied.
    pub(crate) fn emptied(&mut self) {
        if !self.tracker.may_have_news() {
            return;
        }
        for run in self.tracker.emptied() {
            self.advance(run, |_| vec![Effect::Look]);
            self.settle_if_full();
        }
        for run in self.tracker.short_of_memory() {
            self.advance(run, |procedure| procedure.out_of_memory());
        }
    }
}
