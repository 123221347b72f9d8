//! Effects on processes: starts and signals that wait for a commit.
//!
//! An effect is carried out only once the state that asks for it is committed. After a crash the effects of
//! the committed state are carried out again: a start finds its child by its serial number, and a signal
//! may arrive twice. What a run's procedure asks for behind an effect of the same run waits behind it.

use super::sequence::{Deed, Part};
use crate::base::limit;
use crate::event_loop::Init;
use crate::spawn::Prepared;
use crate::sys::inbox;
use crate::sys::inbox_layout::unit;
use groundstate_units::machine::event::RunId;
use groundstate_units::text::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// One effect, or a deed behind one.
#[derive(Debug, Serialize, Deserialize)]
struct Effect {
    run: RunId,
    deed: Deed,
    /// Of a start that is prepared; 0: of no such start.
    serial: u64,
}

/// The effects that wait, oldest first.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Effects {
    queue: VecDeque<Effect>,
    /// The serial number of the latest start. None is used twice.
    latest: u64,
    /// Starts, by serial number. They are prepared again after a crash.
    #[serde(skip)]
    prepared: BTreeMap<u64, Prepared>,
    /// Children of a crashed image were adopted: no pipe tells when they become their programs.
    #[serde(skip)]
    pub(super) has_adopted: bool,
}

impl Effects {
    /// No effect waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// So many wait that a commit is worth its cost. What is prepared for starts holds descriptors, and each
    /// clone copies their table.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= limit::EFFECTS_A_COMMIT
    }

    /// An effect of this run waits.
    pub(crate) fn has(&self, run: RunId) -> bool {
        self.queue.iter().any(|effect| effect.run == run)
    }

    /// The serial numbers of starts that are prepared.
    pub(crate) fn serials(&self) -> impl Iterator<Item = u64> {
        self.queue.iter().map(|effect| effect.serial).filter(|serial| *serial > 0)
    }

    /// This deed waits.
    pub(super) fn push(&mut self, run: RunId, deed: Deed) {
        self.queue.push_back(Effect { run, deed, serial: 0 });
    }

    /// When init looks at adopted children again.
    pub(crate) fn deadline(&self, now: Time) -> Option<Time> {
        self.has_adopted.then(|| now.after(limit::ADOPTED_LOOK))
    }

    /// The start of this line waits.
    pub(super) fn push_start(&mut self, run: RunId, part: Part, prepared: Prepared) {
        self.latest = self.latest.saturating_add(1);
        self.prepared.insert(self.latest, prepared);
        self.queue.push_back(Effect { run, deed: Deed::Spawn(part), serial: self.latest });
    }

    /// The prepared start with this number. None: a crashed image had prepared it.
    pub(super) fn take_prepared(&mut self, serial: u64) -> Option<Prepared> {
        self.prepared.remove(&serial)
    }
}

impl Init {
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
                Deed::Spawn(part) if serial > 0 => self.start_line(run, part, serial),
                Deed::Signal(whom, number) => {
                    self.signal_run(run, whom, number);
                    Vec::new()
                }
                Deed::Kill => {
                    self.kill_run(run);
                    Vec::new()
                }
                Deed::KillMain => {
                    self.kill_lines(run);
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
