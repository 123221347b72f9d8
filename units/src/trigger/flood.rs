//! Flood protection for triggers, for example if a service exits at once and leaves the data that
//! activated it. Firings are counted, and a flooding trigger is paused, longer each time. Time is
//! an argument.

use crate::limit;
use crate::text::time::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The firings of one trigger.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Flood {
    /// The number of firings that is a flood.
    most: u32,
    since: Time,
    count: u32,
    rests_until: Option<Time>,
    /// Consecutive pauses.
    rests: u32,
}

impl Default for Flood {
    fn default() -> Flood {
        Flood::of(limit::FIRINGS)
    }
}

impl Flood {
    /// Creates a counter; this many firings within [`limit::FIRING_SPAN`] are a flood.
    pub fn of(most: u32) -> Flood {
        Flood { most, since: Time::ZERO, count: 0, rests_until: None, rests: 0 }
    }

    /// Counts a firing. Returns true if the trigger must pause from now on.
    pub fn fired(&mut self, now: Time) -> bool {
        if now.since(self.since) > limit::FIRING_SPAN {
            // The last span had no flood, so earlier pauses are forgotten.
            if self.count < self.most {
                self.rests = 0;
            }
            (self.since, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
        if self.count < self.most {
            return false;
        }
        self.rests = self.rests.saturating_add(1);
        self.rests_until = Some(now.after(self.rest()));
        true
    }

    /// Returns the length of the present pause.
    pub fn rest(&self) -> Duration {
        let doubled = limit::FIRING_REST.saturating_mul(1 << self.rests.saturating_sub(1).min(16));
        doubled.min(limit::FIRING_REST_MAX)
    }

    /// Returns the end of the present pause, or `None` if there is none.
    pub fn rests_until(&self, now: Time) -> Option<Time> {
        self.rests_until.filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn flooding_trigger_pauses_longer_each_time_until_a_span_without_a_flood() {
        let mut flood = Flood::default();
        let mut now = 1_000;
        let mut rests = Vec::new();
        for _ in 0..6 {
            let fired = (1..).find(|_| flood.fired(at(now))).unwrap();
            assert_eq!(fired, limit::FIRINGS);
            let until = flood.rests_until(at(now)).unwrap();
            rests.push(until.since(at(now)).as_secs());
            now = until.as_nanos() / 1_000_000;
            assert_eq!(flood.rests_until(at(now)), None);
            now += 3_000;
        }
        assert_eq!(rests, [2, 4, 8, 16, 32, 60]);
        assert!(!flood.fired(at(now)));
        now += 3_000;
        for _ in 1..limit::FIRINGS {
            assert!(!flood.fired(at(now)));
        }
        assert!(flood.fired(at(now)));
        assert_eq!(flood.rest().as_secs(), 2);
    }
}
