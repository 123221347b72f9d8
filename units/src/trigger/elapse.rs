//! Computes the next match of a calendar expression. Pure: time and zone are arguments.
//!
//! As in systemd, a local time that is skipped when clocks go forward does not match that day. A
//! local time that occurs twice matches the first time, unless that is past.

use super::calendar::{Calendar, Field, SECOND, YEARS};
use super::zone::{Zone, civil, days};

const DAY: i64 = 86_400;
const MICROS: i64 = 1_000_000;
/// Limit of steps of one search: a 29th of February on a Monday takes about sixty.
const STEPS: usize = 1_000;
/// Limit of matches that do not exist, or are past, in one search.
const GAPS: usize = 1_000;

/// A local date and time; the second in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Civil {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Calendar {
    /// Returns the first match after `after`, both in microseconds since 1970. Returns `None` if
    /// there is none before the year 2200.
    pub fn next(&self, after: i64, zone: &Zone) -> Option<i64> {
        let start = after.checked_add(1)?;
        let utc = start.div_euclid(MICROS);
        let local = utc.checked_add(zone.offset(utc))?;
        let mut from = Civil::of(local, start.rem_euclid(MICROS));
        for _ in 0..GAPS {
            let found = self.find(from)?;
            let (local, micros) = found.seconds();
            let instants = zone.instants(local).into_iter().flatten();
            let micros = |utc: i64| Some(utc.checked_mul(MICROS)? + micros);
            if let Some(at) = instants.filter_map(micros).find(|at| *at > after) {
                return Some(at);
            }
            from = Civil { second: found.second + 1, ..found };
        }
        None
    }

    /// Returns the first local time that matches, including `from`.
    fn find(&self, from: Civil) -> Option<Civil> {
        let mut now = from;
        for _ in 0..STEPS {
            now = now.tidy();
            if now.year > i64::from(YEARS.1) {
                return None;
            }
            let year = pick(&self.year, now.year).filter(|year| *year <= i64::from(YEARS.1))?;
            if year != now.year {
                now = Civil { year, ..Civil::START };
            }
            let Some(month) = pick(&self.month, now.month).filter(|month| *month <= 12) else {
                now = Civil { year: now.year + 1, ..Civil::START };
                continue;
            };
            if month != now.month {
                now = Civil { year: now.year, month, ..Civil::START };
            }
            let last = month_days(now.year, now.month);
            let day = if self.from_end {
                pick_from_end(&self.day, now.day, last)
            } else {
                pick(&self.day, now.day)
            };
            let Some(day) = day.filter(|day| *day <= last) else {
                now = Civil { year: now.year, month: now.month + 1, ..Civil::START };
                continue;
            };
            if day != now.day {
                now = now.at_day(day);
            }
            if !self.on_weekday(now) {
                now = now.at_day(now.day + 1);
                continue;
            }
            let Some(hour) = pick(&self.hour, now.hour).filter(|hour| *hour < 24) else {
                now = now.at_day(now.day + 1);
                continue;
            };
            if hour != now.hour {
                now = Civil { hour, minute: 0, second: 0, ..now };
            }
            let Some(minute) = pick(&self.minute, now.minute).filter(|minute| *minute < 60) else {
                now = Civil { hour: now.hour + 1, minute: 0, second: 0, ..now };
                continue;
            };
            if minute != now.minute {
                now = Civil { minute, second: 0, ..now };
            }
            let minute_ends = 60 * i64::from(SECOND);
            match pick(&self.second, now.second).filter(|second| *second < minute_ends) {
                Some(second) => return Some(Civil { second, ..now }),
                None => now = Civil { minute: now.minute + 1, second: 0, ..now },
            }
        }
        None
    }

    fn on_weekday(&self, now: Civil) -> bool {
        // The first of January 1970 was a Thursday; bit 0 is Monday.
        let weekday = (days(now.year, now.month, now.day) + 3).rem_euclid(7);
        self.weekdays == 0 || self.weekdays & (1 << weekday) != 0
    }
}

impl Civil {
    const START: Civil = Civil { year: 0, month: 1, day: 1, hour: 0, minute: 0, second: 0 };

    fn of(local: i64, micros: i64) -> Civil {
        let (year, month, day) = civil(local.div_euclid(DAY));
        let of_day = local.rem_euclid(DAY);
        let second = of_day % 60 * MICROS + micros;
        Civil { year, month, day, hour: of_day / 3_600, minute: of_day / 60 % 60, second }
    }

    /// Returns the seconds since 1970 on that clock, and the remaining microseconds.
    fn seconds(self) -> (i64, i64) {
        let day = days(self.year, self.month, self.day);
        let of_day = self.hour * 3_600 + self.minute * 60 + self.second.div_euclid(MICROS);
        (day * DAY + of_day, self.second.rem_euclid(MICROS))
    }

    fn at_day(self, day: i64) -> Civil {
        Civil { year: self.year, month: self.month, day, ..Civil::START }
    }

    /// Carries overflowing fields over.
    fn tidy(self) -> Civil {
        let fits = (1..=12).contains(&self.month)
            && self.day <= month_days(self.year, self.month)
            && self.hour < 24
            && self.minute < 60
            && self.second < 60 * MICROS;
        if fits {
            return self;
        }
        let year = self.year + (self.month - 1).div_euclid(12);
        let month = (self.month - 1).rem_euclid(12) + 1;
        let (seconds, micros) = Civil { year, month, ..self }.seconds();
        Civil::of(seconds, micros)
    }
}

fn month_days(year: i64, month: i64) -> i64 {
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days(next_year, next, 1) - days(year, month, 1)
}

/// Returns the first value of the field that is not below `value`.
fn pick(field: &Field, value: i64) -> Option<i64> {
    let parts = field.iter().map(|part| {
        let stop = part.stop.map(i64::from);
        (i64::from(part.start), stop, i64::from(part.step))
    });
    first(field.is_empty(), parts, value)
}

/// Like [`pick`], for days counted from the end of a month of `last` days.
fn pick_from_end(field: &Field, value: i64, last: i64) -> Option<i64> {
    let from_end = |day: u32| last + 1 - i64::from(day);
    let parts = field.iter().map(|part| {
        let step = i64::from(part.step);
        match part.stop {
            Some(stop) => (from_end(stop), Some(from_end(part.start)), step),
            None => (from_end(part.start), None, step),
        }
    });
    first(field.is_empty(), parts, value)
}

fn first(
    every: bool,
    parts: impl Iterator<Item = (i64, Option<i64>, i64)>,
    value: i64,
) -> Option<i64> {
    if every {
        return Some(value);
    }
    let next = |(start, stop, step): (i64, Option<i64>, i64)| {
        if start >= value {
            return Some(start);
        }
        let steps = (value - start).checked_add(step - 1)?.checked_div(step)?;
        let found = start + steps * step;
        (step > 0 && stop.is_none_or(|stop| found <= stop)).then_some(found)
    };
    parts.filter_map(next).min()
}
