//! Reaps children that have exited. A reaped pid may be reused, so init removes it from all tables
//! at once and clones no process in between. Init also reaps orphans, which no table of runs names.

use crate::base::limit;
use crate::event_loop::Init;
use crate::service::run_table::Reaped;
use crate::service::sequence::{CommandKind, Effect};
use crate::sys::inbox;
use crate::sys::wait::{self, Ended};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;

impl Init {
    /// Reaps children that have exited and reports the exits to their runs.
    pub(crate) fn reap(&mut self) {
        let (mut has_reaped, mut strangers) = (false, false);
        self.more_to_reap = true;
        for _ in 0..limit::REAPS_A_TURN {
            // A process that the committed state does not name must not be reaped. After a crash
            // its exit would belong to no run, and its run would wait for ever. The exit of the
            // loader, handled in this loop, may have started such processes.
            if self.pending.effects.is_ahead {
                self.commit();
            }
            // Without room in the inbox the child stays a zombie until the next commit.
            if !inbox::has_room() {
                break;
            }
            let Ok(Some(ended)) = wait::reap_any() else {
                self.more_to_reap = false;
                break;
            };
            has_reaped = true;
            strangers |= !self.remove_from_tables(&ended);
            self.child_ended(ended.pid, ended.exit);
        }
        if has_reaped {
            self.tracker.adopt_left();
        }
        self.tell_ends();
        if strangers {
            self.check_awaited_runs();
        }
    }

    /// Removes a process from the tables of runs, without a commit. Returns true if it belonged to
    /// a run.
    pub(crate) fn remove_from_tables(&mut self, ended: &Ended) -> bool {
        self.tracker.remove_child(ended.pid);
        let owned = self.runs.reap(ended.pid, ended.exit);
        let is_runs = owned.is_some();
        self.pending.reaped.extend(owned);
        is_runs
    }

    /// Reports exits to the runs, in the order of the unit names.
    fn tell_ends(&mut self) {
        if self.pending.reaped.is_empty() {
            return;
        }
        let mut reaped: Vec<Reaped> = std::mem::take(&mut self.pending.reaped).into();
        reaped.sort_by(|a, b| (&a.name, a.run).cmp(&(&b.name, b.run)));
        reaped.retain_mut(|one| self.was_executed(one));
        self.pending.reaped = reaped.into();
        if !self.pending.reaped.is_empty() {
            // Messages that a process sent before its exit are handled before the exit.
            self.receive_all();
            self.settle();
        }
        while let Some(Reaped { pid, run, part, exit, has_handed_on, .. }) =
            self.pending.reaped.pop_front()
        {
            self.runs.forget_reaped(pid);
            // The last message of the process may have announced another main process.
            if has_handed_on || self.runs.has_handed_on(run, part) {
                self.advance(run, |_| vec![Effect::Look]);
                continue;
            }
            // The kernel's OOM killer may have killed it.
            let killed = matches!(exit, Exit::Signal { signal: 9, .. });
            if killed
                && matches!(part, CommandKind::Start(_) | CommandKind::Main)
                && self.tracker.has_new_oom_kill(run)
            {
                self.advance(run, |procedure| procedure.main_out_of_memory());
            }
            self.part_ended(run, pid, part, exit);
            self.settle_if_full();
        }
    }

    /// Reports the exec result first. Returns false if the process never executed its program.
    fn was_executed(&mut self, one: &mut Reaped) -> bool {
        let (run, part) = (one.run, one.part);
        match one.verdict.take() {
            Some(Err(failure)) => {
                self.runs.forget_reaped(one.pid);
                self.say_not_executed(run, part, &failure);
                self.advance(run, |procedure| procedure.not_executed(part, failure));
                return false;
            }
            Some(Ok(())) => self.advance(run, |procedure| procedure.executed(part)),
            None => {}
        }
        true
    }

    /// Carries out effects when the queue is full. Only for loops whose remaining work a new image
    /// finds again after a crash.
    pub(crate) fn settle_if_full(&mut self) {
        if self.pending.effects.is_full() {
            self.settle();
        }
    }

    /// Checks runs that wait for their last process. Where the kernel does not report an empty
    /// cgroup, any reaped orphan may have been the last one.
    pub(crate) fn check_awaited_runs(&mut self) {
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

    /// Handles cgroups that have become empty.
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
