//! Carries out effects after the commit that asks for them ([`crate::service::effects`]).

use crate::event_loop::Init;
use crate::service::effects::Effect;
use crate::service::sequence::Deed;
use crate::sys::inbox;
use crate::sys::inbox_layout::unit;

impl Init {
    /// The committed state knows all children that were cloned. The end of one that it does not know would be
    /// lost by a crash: its run would wait for it for ever.
    pub(super) fn commit_clones(&mut self) {
        if self.effects.has_cloned {
            self.commit();
        }
    }

    /// Commits, and carries out the effects that the commit asks for.
    pub(crate) fn carry_out_effects(&mut self) {
        self.commit();
        // Nothing commits before the last of them.
        for effect in std::mem::take(&mut self.effects.queue) {
            if self.effects.has(effect.run) {
                // Deeds that an earlier effect led to come first.
                self.effects.queue.push_back(effect);
                continue;
            }
            let Effect { run, deed, serial } = effect;
            let name = self.runs.get(run).map_or(0, |running| unit(running.name.as_str()));
            let before = inbox::about(name);
            let deeds = match deed {
                Deed::Spawn(part) if serial > 0 => {
                    self.effects.has_cloned = true;
                    self.start_line(run, part, serial)
                }
                Deed::Signal(whom, number) => {
                    self.signal_run(run, whom, number);
                    Vec::new()
                }
                Deed::Kill => {
                    self.kill_run(run);
                    Vec::new()
                }
                Deed::KillMain => {
                    self.runs.kill_lines(run);
                    Vec::new()
                }
                // The deed has waited behind an effect.
                deed @ (Deed::Spawn(_)
                | Deed::Tell(_)
                | Deed::RemovePidFile
                | Deed::SeekPidFile
                | Deed::RereadPidFile(_)
                | Deed::GuessMain
                | Deed::Drain
                | Deed::Look
                | Deed::Wake(..)
                | Deed::Forget) => vec![deed],
            };
            self.follow(run, deeds);
            inbox::about(before);
        }
        if let Some(logger) = &mut self.logger {
            // Read ends that stayed here in a burst of starts would make each clone dearer.
            logger.pass_on(self.now);
        }
    }
}
