//! Timers of the machine. A phase with a deadline arms its timer and disarms it when it ends, so no
//! timer of an old phase fires. Timers of one moment fire in the order of the units' names.

use super::Ix;
use crate::text::time::Time;
use std::collections::BTreeSet;

/// The kind of a deadline. Of two deadlines of one unit at one moment, the earlier in this list
/// fires first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimerKind {
    /// End of `ready-wait`.
    ReadyWait,
    /// End of a backoff.
    Retry,
    /// Next run of an exited unit whose success `restart` repeats.
    Again,
    /// A start releases its slot.
    Slot,
    /// A reload timed out.
    Reload,
    /// A watchdog ping is overdue.
    Watchdog,
    /// `run-timeout` has passed.
    RunTimeout,
    /// `start-timeout` has passed.
    StartTimeout,
    /// `stop-timeout` has passed.
    Kill,
    /// The run survived SIGKILL.
    Hopeless,
    /// The run sent STOPPING=1 but did not exit.
    Leaving,
}

/// Position of a unit in the order of names; see [`super::Machine::key`].
pub(super) type Key = (u32, u32, Ix);

/// All armed timers.
#[derive(Clone, Debug, Default, PartialEq)]
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
