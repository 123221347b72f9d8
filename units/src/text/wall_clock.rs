//! Wall-clock time for people and files: milliseconds since 1970 in UTC, written as RFC 3339
//! (`2026-11-21T05:12:26.123Z`). Decisions use [`crate::text::time::Time`] only.

use std::fmt;

const DAY: u64 = 86_400_000;
/// The last millisecond of the year 9999, the limit of a four-digit year.
const LAST: u64 = 253_402_300_799_999;

/// A point of UTC, in milliseconds since the epoch. Never after the year 9999.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(u64);

impl WallTime {
    /// Creates a time from milliseconds since 1970, at most the end of the year 9999.
    pub fn from_millis(millis: u64) -> WallTime {
        WallTime(millis.min(LAST))
    }

    /// Returns milliseconds since 1970.
    pub fn as_millis(self) -> u64 {
        self.0
    }

    /// Parses exactly the form of [`fmt::Display`]: 24 characters, `Z`, three digits of fraction.
    /// Returns `None` for anything else.
    pub fn parse(text: &str) -> Option<WallTime> {
        let bytes = text.as_bytes();
        let digits = |from: usize, to: usize| -> Option<u64> {
            let field = bytes.get(from..to)?;
            field.iter().try_fold(0, |sum: u64, byte| match byte {
                b'0'..=b'9' => Some(sum * 10 + u64::from(byte - b'0')),
                _ => None,
            })
        };
        let marks =
            [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
        if bytes.len() != 24 || marks.iter().any(|(at, mark)| bytes.get(*at) != Some(mark)) {
            return None;
        }
        let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
        let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
        if year < 1970 || !(1..=12).contains(&month) || day < 1 || day > month_days(year, month) {
            return None;
        }
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let days = days_before_year(year) + days_before_month(year, month) + day - 1;
        let seconds = (hour * 60 + minute) * 60 + second;
        Some(WallTime::from_millis(days * DAY + seconds * 1000 + digits(20, 23)?))
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut days, millis) = (self.0 / DAY, self.0 % DAY);
        let mut year = 1970 + days / 366;
        while days >= days_before_year(year + 1) {
            year += 1;
        }
        days -= days_before_year(year);
        let month = (1..=12).rev().find(|m| days_before_month(year, *m) <= days).unwrap_or(1);
        let day = days - days_before_month(year, month) + 1;
        let (hour, minute) = (millis / 3_600_000, millis / 60_000 % 60);
        let (second, milli) = (millis / 1000 % 60, millis % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Returns the days from 1970-01-01 to the first of January of `year` (≥ 1970).
fn days_before_year(year: u64) -> u64 {
    let before = year - 1;
    let leaps = before / 4 - before / 100 + before / 400;
    (year - 1970) * 365 + leaps - 477
}

fn days_before_month(year: u64, month: u64) -> u64 {
    (1..month).map(|m| month_days(year, m)).sum()
}

fn month_days(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_points_are_written_as_everyone_writes_them() {
        // date -u -d @N +%FT%T.000Z
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_795_238_746_123, "2026-11-21T05:25:46.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (LAST, "9999-12-31T23:59:59.999Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(WallTime::from_millis(millis).to_string(), text);
            assert_eq!(WallTime::parse(text), Some(WallTime::from_millis(millis)));
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026-11-21",
            "2026-11-21T05:25:46Z",
            "2026-11-21T05:25:46.123+",
            "2026-02-29T05:25:46.123Z",
            "2026-13-01T05:25:46.123Z",
            "2026-11-00T05:25:46.123Z",
            "1969-11-01T05:25:46.123Z",
            "2026-11-01T24:25:46.123Z",
            "2026-11-01T2x:25:46.123Z",
        ] {
            assert_eq!(WallTime::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(millis in 0..=LAST) {
            let wall = WallTime::from_millis(millis);
            prop_assert_eq!(WallTime::parse(&wall.to_string()), Some(wall));
        }

        #[test]
        fn later_sorts_after_earlier_as_text(a in 0..=LAST, b in 0..=LAST) {
            let (x, y) = (WallTime::from_millis(a).to_string(), WallTime::from_millis(b).to_string());
            prop_assert_eq!(a.cmp(&b), x.cmp(&y));
        }
    }
}
