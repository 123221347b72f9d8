//! Points in time, which the core gets as arguments. `init` passes CLOCK_MONOTONIC, the simulator a
//! virtual clock.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A point on CLOCK_MONOTONIC (or on the virtual clock), in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(u64);

impl Time {
    /// Zero of the clock.
    pub const ZERO: Time = Time(0);
    /// A deadline that never comes.
    pub const NEVER: Time = Time(u64::MAX);

    /// The first point beyond a signed 64-bit number: 292 years.
    pub const HALF: Time = Time(1 << 63);

    /// Creates a point from nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Returns the point in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the point `span` later, at most [`Time::NEVER`].
    pub fn after(self, span: Duration) -> Time {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }

    /// Returns the time since `earlier`; zero if it is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
