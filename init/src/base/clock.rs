//! The two clocks of init. Decisions use the monotonic clock; the wall clock, which may jump, is
//! only shown.

use groundstate_units::text::time::Time;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::time::Duration;

/// Jumps of the wall clock up to this size do not change how times are shown.
const SLACK: Duration = Duration::from_millis(20);

/// CLOCK_MONOTONIC, which every Linux has; zero if it cannot be read.
pub(crate) fn now() -> Time {
    Time::from_nanos(nanos(ClockId::CLOCK_MONOTONIC))
}

/// Sleeps for `span`. It sleeps until an absolute time: a relative sleep would restart with each
/// signal and never end in a stream of signals.
pub(crate) fn pause(span: Duration) {
    let until = now().after(span);
    let point = TimeSpec::from_duration(until.since(Time::ZERO));
    let how = ClockNanosleepFlags::TIMER_ABSTIME;
    while now() < until && clock_nanosleep(ClockId::CLOCK_MONOTONIC, how, &point).is_err() {}
}

/// CLOCK_BOOTTIME in the ticks of the start times in /proc/PID/stat.
pub(crate) fn ticks() -> u64 {
    /// USER_HZ: 100 on all architectures except alpha.
    const TICKS_A_SECOND: u64 = 100;
    nanos(ClockId::CLOCK_BOOTTIME) / (1_000_000_000 / TICKS_A_SECOND)
}

/// CLOCK_REALTIME, since 1970.
pub(crate) fn wall() -> Duration {
    Duration::from_nanos(nanos(ClockId::CLOCK_REALTIME))
}

/// The wall clock at the monotonic time `then`, by the present offset of the clocks.
pub(crate) fn wall_at(then: Time) -> Duration {
    let now = now();
    wall().saturating_add(then.since(now)).saturating_sub(now.since(then))
}

/// Converts monotonic times to wall times with a cached offset. An offset that is computed for each
/// call varies by the time between the two readings of the clocks. Then two lines would show the
/// same time with different values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WallClock {
    difference: Cell<Duration>,
}

impl WallClock {
    /// The wall clock at `point`, which is close to the present.
    pub(crate) fn at(&self, point: Time) -> Duration {
        let since_zero = point.since(Time::ZERO);
        // Both clocks are read here, because the turn may have started long ago.
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
