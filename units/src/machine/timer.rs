//! What the machine waits for in time. A timer is armed by a phase that has the
//! deadline and disarmed with it, so none ever fires in vain. Timers of one moment
//! fire in the order of the units' names.

use super::Ix;
use crate::text::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Which deadline. Of one unit and one moment the earlier in this list comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum TimerKind {
    /// `ready-wait` is over.
    ReadyWait,
    /// The backoff is over.
    Retry,
    /// `restart: always` of an exited oneshot.
    Again,
    /// The start gives its slot back.
    Slot,
    /// A reload of itself has taken too long.
    Reload,
    /// No ping in time.
    Watchdog,
    /// Active for too long.
    RunTimeout,
    /// Not ready in time.
    StartTimeout,
    /// Not gone in time.
    Kill,
    /// Not gone after KILL.
    Hopeless,
    /// Not ended by itself, as it had said.
    Leaving,
}

/// Where a unit stands in the order of names; see [`super::Machine::key`].
pub(super) type Key = (u32, u32, Ix);

/// All that is armed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Timers(BTreeSet<(Time, Key, TimerKind)>);

impl Timers {
    pub(super) fn arm(&mut self, key: Key, deadlines: [Option<(Time, TimerKind)>; 3]) {
        for (at, kind) in deadlines.into_iter().flatten().filter(|(at, _)| *at != Time::NEVER) {
            self.0.insert((at, key, kind));
        }
    }

    pub(super) fn disarm(&mut self, key: Key, deadlines: [Option<(Time, TimerKind)>; 3]) {
        for (at, kind) in deadlines.into_iter().flatten() {
            self.0.remove(&(at, key, kind));
        }
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _, _)| *at)
    }

    pub(super) fn take_due(&mut self, now: Time) -> Option<(Ix, TimerKind)> {
        let (at, (_, _, ix), kind) = *self.0.first()?;
        if at > now {
            return None;
        }
        self.0.pop_first();
        Some((ix, kind))
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
