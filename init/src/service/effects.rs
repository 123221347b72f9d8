//! The queue of effects that wait for a commit: starts, signals, and every later effect of the same run.
//!
//! A start or a signal is carried out only once the state that asks for it is committed. After a crash the
//! effects of the committed state are carried out again: a start finds its child by its serial number, and a
//! signal may arrive twice.

use super::sequence::{CommandKind, Effect};
use crate::base::limit;
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
    /// Of a start that is prepared; 0: of no such start.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) serial: u64,
}

/// The effects that wait, oldest first.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Effects {
    pub(crate) queue: VecDeque<Queued>,
    /// The serial number of the latest start. None is used twice.
    latest: u64,
    /// Starts, by serial number. They are prepared again after a crash.
    #[serde(skip)]
    prepared: BTreeMap<u64, Prepared>,
    /// Children of a crashed image were adopted: no pipe tells when they become their programs.
    #[serde(skip)]
    pub(crate) has_adopted: bool,
    /// Children were cloned that the committed state does not know.
    #[serde(skip)]
    pub(crate) has_cloned: bool,
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
        self.queue.iter().any(|queued| queued.run == run)
    }

    /// The serial numbers of starts that are prepared.
    pub(crate) fn serials(&self) -> impl Iterator<Item = u64> {
        self.queue.iter().map(|queued| queued.serial).filter(|serial| *serial > 0)
    }

    /// This effect waits.
    pub(crate) fn push(&mut self, run: RunId, effect: Effect) {
        self.queue.push_back(Queued { run, effect, serial: 0 });
    }

    /// When init looks at adopted children again.
    pub(crate) fn deadline(&self, now: Time) -> Option<Time> {
        self.has_adopted.then(|| now.after(limit::ADOPTED_LOOK))
    }

    /// The start of this line waits.
    pub(crate) fn push_start(&mut self, run: RunId, part: CommandKind, prepared: Prepared) {
        self.latest = self.latest.saturating_add(1);
        self.prepared.insert(self.latest, prepared);
        self.queue.push_back(Queued { run, effect: Effect::Spawn(part), serial: self.latest });
    }

    /// All that was carried out is committed.
    pub(crate) fn committed(&mut self) {
        self.has_cloned = false;
    }

    /// The prepared start with this number. None: a crashed image had prepared it.
    pub(crate) fn take_prepared(&mut self, serial: u64) -> Option<Prepared> {
        self.prepared.remove(&serial)
    }
}
