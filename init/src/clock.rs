//! The two clocks init reads: the monotonic one to decide by, the wall clock to show.
//! No decision is ever taken by the wall clock: it jumps.

use groundstate_units::time::Time;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// CLOCK_MONOTONIC. Zero where the kernel has none, which no Linux does.
pub(crate) fn now() -> Time {
    Time::from_nanos(nanos(ClockId::CLOCK_MONOTONIC))
}

/// CLOCK_REALTIME, since 1970.
pub(crate) fn wall() -> Duration {
    Duration::from_nanos(nanos(ClockId::CLOCK_REALTIME))
}

fn nanos(clock: ClockId) -> u64 {
    let Ok(read) = clock_gettime(clock) else { return 0 };
    let seconds = u64::try_from(read.tv_sec()).unwrap_or(0);
    let rest = u64::try_from(read.tv_nsec()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}
