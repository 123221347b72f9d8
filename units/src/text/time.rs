//! Time as the core knows it: an argument. No clock is read here; `init` passes
//! CLOCK_MONOTONIC, the simulator a virtual clock.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A point on CLOCK_MONOTONIC (or on the virtual clock), in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(u64);

impl Time {
    /// The clock's zero.
    pub const ZERO: Time = Time(0);
    /// A deadline that never comes.
    pub const NEVER: Time = Time(u64::MAX);

    /// The first point that a signed number of 64 bits does not hold: 292 years.
    pub const HALF: Time = Time(1 << 63);

    /// From nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This point and `span` later; stays at [`Time::NEVER`] rather than wrap.
    pub fn after(self, span: Duration) -> Time {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }

    /// How long after `earlier` this is; zero when it is before.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
