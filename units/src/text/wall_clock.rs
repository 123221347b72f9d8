//! Wall-clock time for people and files: milliseconds since 1970 in UTC, written as RFC 3339
//! (`2026-11-21T05:12:26.123Z`). Decisions use [`crate::text::time::Time`] only.

use jiff::SignedDuration;
use jiff::civil::DateTime;
use std::fmt;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
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
        let then: DateTime = text.strip_suffix('Z')?.parse().ok()?;
        let millis = u64::try_from(then.duration_since(EPOCH).as_millis()).ok()?;
        Some(WallTime::from_millis(millis)).filter(|time| time.to_string() == text)
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = SignedDuration::from_millis(self.0.cast_signed());
        let then = EPOCH.checked_add(millis).unwrap_or(DateTime::MAX);
        write!(f, "{then:.3}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times_are_written_as_rfc_3339() {
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
    fn malformed_wall_clock_time_is_refused() {
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
        fn written_time_is_parsed_back_unchanged(millis in 0..=LAST) {
            let wall = WallTime::from_millis(millis);
            prop_assert_eq!(WallTime::parse(&wall.to_string()), Some(wall));
        }

        #[test]
        fn wall_clock_texts_sort_chronologically(a in 0..=LAST, b in 0..=LAST) {
            let (x, y) = (WallTime::from_millis(a).to_string(), WallTime::from_millis(b).to_string());
            prop_assert_eq!(a.cmp(&b), x.cmp(&y));
        }
    }
}
