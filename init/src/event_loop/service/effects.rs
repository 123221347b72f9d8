//! Carries out effects after the commit that asks for them ([`crate::service::effects`]).

#[cfg(debug_assertions)]
use crate::base::crash_test;
use crate::event_loop::Init;
use crate::service::effects::Queued;
use crate::service::sequence::Effect;
use crate::sys::inbox;
use crate::sys::inbox::unit;

impl Init {
    /// Commits, then carries out the effects that the commit asks for.
    pub(crate) fn carry_out_effects(&mut self) {
        #[cfg(debug_assertions)]
        if crash_test::makes("act-before-commit") {
            return self.act();
        }
        self.commit();
        self.act();
    }

    fn act(&mut self) {
        let mut committed = std::mem::take(&mut self.pending.effects.queue);
        // The commands that follow a signal are new starts, which wait for the next commit.
        while !self.pending.effects.is_full()
            && let Some(queued) = committed.pop_front()
        {
            if self.pending.effects.has(queued.run) {
                // An earlier effect of this run has queued further ones, which come first.
                self.pending.effects.queue.push_back(queued);
                continue;
            }
            let Queued { run, effect, serial } = queued;
            let name = self.runs.get(run).map_or(0, |running| unit(running.name.as_str()));
            let before = inbox::record_unit(name);
            let mut effects = Vec::new();
            #[expect(clippy::wildcard_enum_match_arm, reason = "the others were only queued")]
            match effect {
                Effect::Spawn(part) if serial > 0 => {
                    self.pending.effects.is_ahead = true;
                    effects = self.start_line(run, part, serial);
                }
                Effect::Signal(whom, number) => self.signal_run(run, whom, number),
                Effect::Kill => {
                    self.tracker.kill(run);
                    // Processes that have not joined the cgroup yet.
                    self.runs.kill_lines(run);
                }
                Effect::KillMain => self.runs.kill_lines(run),
                effect => effects.push(effect),
            }
            self.follow(run, effects);
            inbox::record_unit(before);
        }
        self.pending.effects.queue.append(&mut committed);
        // Passes read ends to the logger now: kept here, they would slow down each clone in a burst
        // of starts.
        self.logger.pass_on(self.now);
    }
}
