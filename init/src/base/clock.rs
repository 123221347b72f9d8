//! The two clocks init reads: the monotonic one to decide by, the wall clock to show.
//! No decision is ever taken by the wall clock: it jumps.

use groundstate_units::text::time::Time;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::time::Duration;

/// As long as the wall clock has not jumped by more, points of time are shown as before.
const SLACK: Duration = Duration::from_millis(20);

/// CLOCK_MONOTONIC. Zero where the kernel has none, which no Linux does.
pub(crate) fn now() -> Time {
    Time::from_nanos(nanos(ClockId::CLOCK_MONOTONIC))
}

/// Nothing is done for so long. To a point of time: what is told how long is told so anew with each signal
/// that comes, and gets nowhere while they come as fast as it can be told.
pub(crate) fn pause(span: Duration) {
    let until = now().after(span);
    let point = TimeSpec::from_duration(until.since(Time::ZERO));
    let how = ClockNanosleepFlags::TIMER_ABSTIME;
    while now() < until && clock_nanosleep(ClockId::CLOCK_MONOTONIC, how, &point).is_err() {}
}

/// CLOCK_BOOTTIME, in the ticks by which /proc says when a process began.
pub(crate) fn ticks() -> u64 {
    /// USER_HZ: the same on all the kernel runs on but alpha.
    const A_SECOND: u64 = 100;
    nanos(ClockId::CLOCK_BOOTTIME) / (1_000_000_000 / A_SECOND)
}

/// CLOCK_REALTIME, since 1970.
pub(crate) fn wall() -> Duration {
    Duration::from_nanos(nanos(ClockId::CLOCK_REALTIME))
}

/// CLOCK_REALTIME at that point, as it goes now.
pub(crate) fn wall_at(then: Time) -> Duration {
    let now = now();
    wall().saturating_add(then.since(now)).saturating_sub(now.since(then))
}

/// The monotonic clock on the wall. The difference of the two is kept: read anew each time
/// it would vary with what passes between the readings, and the same point would be shown
/// a millisecond sooner or later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OnTheWall {
    difference: Cell<Duration>,
}

impl OnTheWall {
    /// The wall clock at that point, which is about now.
    pub(crate) fn at(&self, point: Time) -> Duration {
        let since_zero = point.since(Time::ZERO);
        // Both are read here: a turn may have begun long ago.
        let fresh = wall().saturating_sub(now().since(Time::ZERO));
        if fresh.abs_diff(self.difference.get()) > SLACK {
            self.difference.set(fresh);
        }
        self.difference.get().saturating_add(since_zero)
    }
}

fn nanos(clock: ClockId) -> u64 {
    let Ok(read) = clock_gettime(clock) else { return 0 };
    let seconds = u64::try_from(read.tv_sec()).unwrap_or(0);
    let rest = u64::try_from(read.tv_nsec()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}
