//! Carries out effects after the commit that asks for them ([`crate::service::effects`]).

use crate::event_loop::Init;
use crate::service::effects::Queued;
use crate::service::sequence::Effect;
use crate::sys::inbox;
use crate::sys::inbox::unit;

impl Init {
    /// Commits before init reaps a process that the committed state does not name. After a crash
    /// the exit of such a process would belong to no run, and its run would wait for ever.
    pub(super) fn commit_before_reaping(&mut self) {
        if self.effects.is_ahead {
            self.commit();
        }
    }

    /// Commits, then carries out the effects that the commit asks for.
    pub(crate) fn carry_out_effects(&mut self) {
        self.commit();
        // No commit happens until all of them are carried out.
        for queued in std::mem::take(&mut self.effects.queue) {
            if self.effects.has(queued.run) {
                // Effects that an earlier effect of this run led to come first.
                self.effects.queue.push_back(queued);
                continue;
            }
            let Queued { run, effect, serial } = queued;
            let name = self.runs.get(run).map_or(0, |running| unit(running.name.as_str()));
            let before = inbox::about(name);
            let effects = match effect {
                Effect::Spawn(part) if serial > 0 => {
                    self.effects.is_ahead = true;
                    self.start_line(run, part, serial)
                }
                Effect::Signal(whom, number) => {
                    self.signal_run(run, whom, number);
                    Vec::new()
                }
                Effect::Kill => {
                    self.kill_run(run);
                    Vec::new()
                }
                Effect::KillMain => {
                    self.runs.kill_lines(run);
                    Vec::new()
                }
                // These effects only waited behind a start or a signal of the same run.
                effect @ (Effect::Spawn(_)
                | Effect::Tell(_)
                | Effect::RemovePidFile
                | Effect::SeekPidFile
                | Effect::RereadPidFile(_)
                | Effect::GuessMain
                | Effect::Drain
                | Effect::Look
                | Effect::Wake(..)
                | Effect::Forget) => vec![effect],
            };
            self.follow(run, effects);
            inbox::about(before);
        }
        // Passes read ends to the logger now: kept here, they would slow down each clone in a burst
        // of starts.
        self.logger.pass_on(self.now);
    }
}
