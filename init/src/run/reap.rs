//! Children that have ended: looked at first, taken out of the tables, then reaped, for
//! from that moment the pid may be somebody else's. Orphans that came to init are reaped
//! like all others and belong to nobody.

use super::procedure::{Deed, Part};
use crate::event_loop::Init;
use crate::limit;
use crate::spawn::Verdict;
use crate::sys::{Pid, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::name::Name;
use groundstate_units::spec::Exit;

/// What was reaped in one turn.
struct Reaped {
    name: Name,
    run: RunId,
    part: Part,
    exit: Exit,
    verdict: Option<Verdict>,
}

impl Init {
    /// Reaps what has ended: whose it was is told in order of the units' names.
    pub(crate) fn reap(&mut self) {
        let mut reaped: Vec<Reaped> = Vec::new();
        let mut strangers = false;
        self.more_to_reap = true;
        for _ in 0..limit::REAPS_A_TURN {
            let Ok(Some(ended)) = wait::peek() else {
                self.more_to_reap = false;
                break;
            };
            self.tracker.ended(ended.pid);
            match self.owned(ended.pid, ended.exit) {
                Some(one) => reaped.push(one),
                None => strangers = true,
            }
            if !matches!(wait::reap(ended.pid), Ok(Some(_))) {
                self.more_to_reap = false;
                break;
            }
            self.child_ended(ended.pid, ended.exit);
        }
        reaped.sort_by(|a, b| (&a.name, a.run).cmp(&(&b.name, b.run)));
        for Reaped { run, part, exit, verdict, .. } in reaped {
            match verdict {
                Some(Verdict::Failed(failure)) => {
                    self.course(run, |procedure| procedure.not_executed(part, failure));
                    continue;
                }
                Some(Verdict::Executed) => self.course(run, |procedure| procedure.executed(part)),
                Some(Verdict::Pending) | None => {}
            }
            // Perhaps by the kernel, for want of memory.
            let killed = matches!(exit, Exit::Signal { signal: 9, .. });
            if killed && matches!(part, Part::Start(_) | Part::Main) && self.tracker.has_killed(run)
            {
                self.course(run, |procedure| procedure.main_out_of_memory());
            }
            if part != Part::Main || !self.has_moved(run) {
                self.course(run, |procedure| procedure.exited(part, exit));
            }
        }
        if strangers {
            self.look_at_all();
        }
    }

    /// Takes the process out of the tables; nothing if it is no unit's.
    fn owned(&mut self, pid: Pid, exit: Exit) -> Option<Reaped> {
        let run = self.runs.of(pid.as_raw())?;
        let running = self.runs.get_mut(run)?;
        let at = running.reports.iter().position(|started| started.pid == pid.as_raw());
        let started = at.map(|at| running.reports.swap_remove(at));
        if let Some(started) = &started {
            self.runs.unwatch(started.token);
        }
        let verdict = started.map(|mut started| started.report.at_exit());
        let (run, part) = self.runs.disown(pid.as_raw())?;
        let name = self.runs.get(run)?.name.clone();
        Some(Reaped { name, run, part, exit, verdict })
    }

    /// Runs that wait for their last process: where the kernel does not tell when a
    /// cgroup empties, each reaped orphan may have been it.
    fn look_at_all(&mut self) {
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
