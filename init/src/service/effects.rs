//! The queue of effects that wait for a commit: starts, signals, and every later effect of the same
//! run.
//!
//! Init carries out a start or a signal only after committing the state that asks for it. After a
//! crash it carries out the effects of the committed state again. A start finds its child by its
//! serial number, and a signal may arrive twice.

use crate::base::limit;
use crate::service::sequence::{CommandKind, Effect};
use crate::spawn::Prepared;
use groundstate_units::machine::event::RunId;
use groundstate_units::text::fields::is_default;
use groundstate_units::text::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// One effect in the queue.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Queued {
    pub(crate) run: RunId,
    pub(crate) effect: Effect,
    /// Serial number of a prepared start; 0 for other effects.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) serial: u64,
}

/// The waiting effects, oldest first.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Effects {
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) queue: VecDeque<Queued>,
    /// The serial number of the latest start. Numbers are never reused.
    latest: u64,
    /// Starts by serial number. They are prepared again after a crash.
    #[serde(skip)]
    pub(crate) prepared: BTreeMap<u64, Prepared>,
    /// True after children of a crashed image were adopted: no pipe reports their exec.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) has_adopted: bool,
    /// True after a start until the next commit: the committed state does not name the started
    /// process. Init commits before it reaps another process.
    #[serde(skip)]
    pub(crate) is_ahead: bool,
}

impl Effects {
    /// Returns true if no effect waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns true if enough effects wait for a commit.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= limit::EFFECTS_A_COMMIT
            || self.serials().nth(limit::STARTS_A_COMMIT - 1).is_some()
    }

    /// Returns true if an effect of this run waits.
    pub(crate) fn has(&self, run: RunId) -> bool {
        self.queue.iter().any(|queued| queued.run == run)
    }

    /// The serial numbers of prepared starts.
    pub(crate) fn serials(&self) -> impl Iterator<Item = u64> {
        self.queue.iter().map(|queued| queued.serial).filter(|serial| *serial > 0)
    }

    /// Queues an effect.
    pub(crate) fn push(&mut self, run: RunId, effect: Effect) {
        self.queue.push_back(Queued { run, effect, serial: 0 });
    }

    /// The time of the next check of adopted children.
    pub(crate) fn deadline(&self, now: Time) -> Option<Time> {
        self.has_adopted.then(|| now.after(limit::ADOPTED_LOOK))
    }

    /// Queues the start of a command.
    pub(crate) fn push_start(&mut self, run: RunId, part: CommandKind, prepared: Prepared) {
        self.latest = self.latest.saturating_add(1);
        self.prepared.insert(self.latest, prepared);
        self.queue.push_back(Queued { run, effect: Effect::Spawn(part), serial: self.latest });
    }

    /// Records that all effects carried out so far are committed.
    pub(crate) fn note_commit(&mut self) {
        self.is_ahead = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of starts, followed by other effects.
    fn queue(starts: usize, others: usize) -> Effects {
        let mut effects = Effects::default();
        for serial in 1..=starts {
            let serial = serial as u64;
            let effect = Effect::Spawn(CommandKind::Main);
            effects.queue.push_back(Queued { run: RunId(serial), effect, serial });
        }
        (0..others).for_each(|_| effects.push(RunId(1), Effect::Kill));
        effects
    }

    #[test]
    fn queue_is_full_at_the_limit_of_starts_or_of_effects() {
        assert!(queue(limit::STARTS_A_COMMIT, 0).is_full());
        assert!(!queue(limit::STARTS_A_COMMIT - 1, 100).is_full());
        assert!(!queue(0, limit::EFFECTS_A_COMMIT - 1).is_full());
        assert!(queue(0, limit::EFFECTS_A_COMMIT).is_full());
    }
}
