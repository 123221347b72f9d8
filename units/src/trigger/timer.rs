//! Computes when a timer unit is due, from all its keys. Pure: clocks, past events and zones are
//! arguments, and random delays are a function of a seed.

use super::Timer;
use super::calendar::ZoneName;
use super::zone::Zone;
use crate::limit;
use crate::text::fields::is_default;
use crate::text::time::Time;
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::time::Duration;

/// Past events that a timer needs.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    /// The start of init.
    pub startup: Time,
    /// The time at which the timer unit became active.
    pub active: Time,
    /// The same time on the wall clock, in microseconds since 1970.
    pub active_wall: i64,
    /// The last start of the activated unit.
    pub unit_active: Option<Time>,
    /// The last end of the activated unit; `None` if it is up or never ran.
    pub unit_inactive: Option<Time>,
    /// The last firing of the timer in this activation.
    pub fired: Option<Time>,
    /// The last firing on the wall clock, possibly before this boot.
    pub fired_wall: Option<i64>,
}

/// The next due times on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Due {
    /// On the wall clock, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wall: Option<i64>,
    /// On the monotonic clock.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mono: Option<Time>,
}

impl Timer {
    /// Returns the next due times; a time in the past means at once. `wall` is the present
    /// wall-clock time. `zone` returns a zone by name; a time in an unknown zone never comes.
    /// `seed` determines random delays.
    pub fn due<'z>(
        &self,
        wall: i64,
        history: &History,
        zone: impl Fn(&ZoneName) -> Option<&'z Zone>,
        seed: u64,
    ) -> Due {
        // Missed times fire only once, because the next search starts at the firing. If the clock
        // was set back, the timer does not wait until it reaches that time again.
        let base = history.fired_wall.unwrap_or(history.active_wall).min(wall);
        let pace = history.fired_wall.map_or(Duration::ZERO, |_| limit::TIMER_PACE);
        let earliest = base.saturating_add(micros(pace));
        // The random delay of a missed time counts from the start of init. Otherwise all machines
        // would catch up at the same moment after a power failure.
        let since = micros(history.active.since(history.startup));
        let startup = history.active_wall.saturating_sub(since);
        let startup = if startup <= wall { startup } else { i64::MIN };
        let next = |calendar: &super::calendar::Calendar| {
            let at = calendar.next(base, zone(&calendar.zone)?)?.max(earliest).max(startup);
            let late = micros(self.late(seed, at));
            Some(at.saturating_add(late))
        };
        Due {
            wall: self.calendar.iter().filter_map(next).min(),
            mono: self.due_mono(history, seed),
        }
    }

    fn due_mono(&self, history: &History, seed: u64) -> Option<Time> {
        let once = [
            (&self.boot, Time::ZERO),
            (&self.startup, history.startup),
            (&self.active, history.active),
        ];
        let once = once
            .into_iter()
            .flat_map(|(spans, base)| spans.iter().map(move |span| base.after(*span)))
            .map(|at| self.delayed(at.max(history.startup), seed))
            .filter(|at| history.fired.is_none_or(|fired| *at > fired));
        // Counts from the last firing if that is later. So the timer repeats even if the unit does
        // not start or end again.
        let since = |at: Option<Time>| match (at, history.fired) {
            (Some(at), Some(fired)) => Some(at.max(fired)),
            (at, fired) => at.or(fired),
        };
        let ended = match (history.unit_active, history.unit_inactive) {
            // The unit is up, so its end is unknown.
            (Some(_), None) => None,
            (_, ended) => since(ended),
        };
        let again = [(&self.unit_active, since(history.unit_active)), (&self.unit_inactive, ended)];
        let again = again
            .into_iter()
            .filter_map(|(spans, base)| Some((spans, base?)))
            .flat_map(|(spans, base)| spans.iter().map(move |span| base.after(*span)))
            .map(|at| self.delayed(at, seed));
        let earliest = history.fired.map_or(Time::ZERO, |fired| fired.after(limit::TIMER_PACE));
        once.chain(again).min().map(|at| at.max(earliest))
    }

    fn delayed(&self, at: Time, seed: u64) -> Time {
        at.after(self.late(seed, i64::try_from(at.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// Returns the random delay of the firing at `at`, always the same.
    fn late(&self, seed: u64, at: i64) -> Duration {
        let at = if self.jitter_fixed { 0 } else { at };
        let range = u64::try_from(self.jitter.as_micros()).unwrap_or(u64::MAX);
        if range == 0 {
            return Duration::ZERO;
        }
        Duration::from_micros(mixed(seed ^ at.cast_unsigned()) % range)
    }
}

/// Converts a span to microseconds.
pub fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Mixes the bits of a number (the finish of splitmix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trigger::calendar;

    const HOUR: i64 = 3_600_000_000;

    fn at(seconds: u64) -> Time {
        Time::ZERO.after(Duration::from_secs(seconds))
    }

    fn span(seconds: u64) -> Vec<Duration> {
        vec![Duration::from_secs(seconds)]
    }

    fn due(timer: &Timer, wall: i64, history: &History) -> Due {
        let utc = Zone::utc();
        timer.due(wall, history, |_| Some(&utc), 7)
    }

    #[test]
    fn missed_calendar_times_fire_only_once() {
        let calendar = vec![calendar::parse("hourly").unwrap()];
        let timer = Timer { calendar, ..Timer::default() };
        let mut history = History { fired_wall: Some(HOUR), ..History::default() };
        let now = 10 * HOUR + 5;
        assert_eq!(due(&timer, now, &history).wall, Some(2 * HOUR), "in the past: at once");
        history.fired_wall = Some(now);
        assert_eq!(due(&timer, now, &history).wall, Some(11 * HOUR));
        // The clock is set back by eight hours.
        assert_eq!(due(&timer, 2 * HOUR + 5, &history).wall, Some(3 * HOUR));
    }

    #[test]
    fn random_delay_of_a_missed_time_counts_from_the_start_of_init() {
        let calendar = vec![calendar::parse("hourly").unwrap()];
        let jitter = Duration::from_secs(600);
        let timer = Timer { calendar, jitter, ..Timer::default() };
        // Init started at 10:00:00. The timer is active since 10:00:05 and last fired at 01:00.
        let mut history = History {
            startup: at(100),
            active: at(105),
            active_wall: 10 * HOUR + 5_000_000,
            fired_wall: Some(HOUR),
            ..History::default()
        };
        let found = due(&timer, 10 * HOUR + 5_000_000, &history).wall.unwrap();
        let late = found - 10 * HOUR;
        assert!((1..600_000_000).contains(&late), "{late}");
        assert_eq!(due(&timer, 10 * HOUR + 9_000_000, &history).wall, Some(found));
        // After the clock is set back, the timer does not wait for the time at which init started.
        history.fired_wall = Some(HOUR);
        let found = due(&timer, 2 * HOUR + 1, &history).wall.unwrap();
        assert!((2 * HOUR..2 * HOUR + 600_000_000).contains(&found), "{found}");
    }

    #[test]
    fn timer_is_due_at_the_first_of_all_its_times() {
        let calendar = vec![calendar::parse("hourly").unwrap()];
        let active = [span(30), span(20)].concat();
        let timer = Timer { calendar, active, startup: span(40), ..Timer::default() };
        let mut history = History { startup: at(2), active: at(5), ..History::default() };
        let found = due(&timer, 1, &history);
        assert_eq!((found.wall, found.mono), (Some(HOUR), Some(at(25))));
        history.fired = Some(at(25));
        assert_eq!(due(&timer, 1, &history).mono, Some(at(35)), "the second of the same kind");
        history.fired = Some(at(35));
        assert_eq!(due(&timer, 1, &history).mono, Some(at(42)));
        history.fired = Some(at(42));
        assert_eq!(due(&timer, 1, &history).mono, None, "each of them comes once");
    }

    #[test]
    fn past_time_since_the_boot_is_due_at_once() {
        let timer = Timer { boot: span(60), startup: span(30), ..Timer::default() };
        let history = History { startup: at(2), active: at(500), ..History::default() };
        let found = due(&timer, 0, &history).mono.unwrap();
        assert!(found < at(500), "{found:?}");
    }

    #[test]
    fn boot_span_fires_once_and_unit_active_span_repeats() {
        let timer = Timer { boot: span(60), unit_active: span(10), ..Timer::default() };
        let mut history = History { active: at(5), ..History::default() };
        assert_eq!(due(&timer, 0, &history).mono, Some(at(60)));
        history.fired = Some(at(60));
        history.unit_active = Some(at(61));
        assert_eq!(due(&timer, 0, &history).mono, Some(at(71)));
        // The unit was still up, so the firing had no effect; the timer repeats.
        history.fired = Some(at(71));
        assert_eq!(due(&timer, 0, &history).mono, Some(at(81)));
    }

    #[test]
    fn tiny_spans_fire_at_most_once_per_timer_pace() {
        let nothing = || vec![Duration::from_micros(1)];
        let timer = Timer { active: nothing(), unit_active: nothing(), ..Timer::default() };
        let mut history = History { active: at(5), ..History::default() };
        let first = due(&timer, 0, &history).mono.unwrap();
        assert_eq!(first, at(5).after(Duration::from_micros(1)), "the first is not held back");
        // The unit is always up, so no firing has an effect.
        (history.fired, history.unit_active) = (Some(first), Some(first));
        assert_eq!(due(&timer, 0, &history).mono, Some(first.after(limit::TIMER_PACE)));
        let calendar = vec![calendar::parse("*:*:0/0.001").unwrap()];
        let timer = Timer { calendar, ..Timer::default() };
        let fired = HOUR;
        let history = History { fired_wall: Some(fired), ..History::default() };
        let pace = micros(limit::TIMER_PACE);
        assert_eq!(due(&timer, fired, &history).wall, Some(fired + pace));
        assert_eq!(due(&timer, fired - HOUR / 2, &history).wall, Some(fired - HOUR / 2 + pace));
    }

    #[test]
    fn unit_inactive_span_does_not_count_while_the_unit_is_up() {
        let timer = Timer { unit_inactive: span(10), active: span(1), ..Timer::default() };
        let mut history = History { active: at(5), ..History::default() };
        assert_eq!(due(&timer, 0, &history).mono, Some(at(6)));
        history.fired = Some(at(6));
        history.unit_active = Some(at(6));
        assert_eq!(due(&timer, 0, &history).mono, None);
        history.unit_inactive = Some(at(20));
        assert_eq!(due(&timer, 0, &history).mono, Some(at(30)));
    }

    #[test]
    fn random_delay_is_stable_per_firing_and_within_its_range() {
        let calendar = vec![calendar::parse("hourly").unwrap()];
        let jitter = Duration::from_secs(600);
        let mut timer = Timer { calendar, jitter, ..Timer::default() };
        let mut seen = std::collections::BTreeSet::new();
        for hour in 0..50 {
            let history = History { fired_wall: Some(hour * HOUR), ..History::default() };
            let found = due(&timer, hour * HOUR, &history).wall.unwrap();
            assert_eq!(due(&timer, hour * HOUR + 9, &history).wall, Some(found));
            let late = found - (hour + 1) * HOUR;
            assert!((0..600_000_000).contains(&late), "{late}");
            seen.insert(late);
        }
        assert!(seen.len() > 45);
        timer.jitter_fixed = true;
        let late = |hour: i64| {
            let history = History { fired_wall: Some(hour * HOUR), ..History::default() };
            due(&timer, hour * HOUR, &history).wall.unwrap() - (hour + 1) * HOUR
        };
        assert_eq!(late(3), late(4));
    }
}
