//! Parses and formats time spans and times of the command line.

use groundstate_units::spec::value;
use groundstate_units::text::wall_clock::WallTime;
use std::time::Duration;

/// Parses `500ms`, `5s`, `1min 30s`; a bare number is seconds.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    value::duration(text).ok()
}

/// Parses `--since`: a span before now, or an RFC 3339 time; fraction, seconds and zone (default
/// UTC) may be missing.
pub(crate) fn point(text: &str, now: WallTime) -> Option<WallTime> {
    if let Some(ago) = parse(text) {
        let millis = u64::try_from(ago.as_millis()).ok()?;
        return Some(WallTime::from_millis(now.as_millis().saturating_sub(millis)));
    }
    let stamp = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let civil = text.parse::<jiff::civil::DateTime>().ok()?;
        Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    })?;
    Some(WallTime::from_millis(u64::try_from(stamp.as_millisecond()).ok()?))
}

/// Returns the time since an RFC 3339 time, or zero if it is in the future.
pub(crate) fn since(text: &str, now: WallTime) -> Duration {
    let then = WallTime::parse(text).unwrap_or(now);
    Duration::from_millis(now.as_millis().saturating_sub(then.as_millis()))
}

/// Returns the time until an RFC 3339 time, or zero if it is in the past.
pub(crate) fn until(text: &str, now: WallTime) -> Duration {
    let then = WallTime::parse(text).unwrap_or(now);
    Duration::from_millis(then.as_millis().saturating_sub(now.as_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_accepts_a_span_or_a_time() {
        let now = WallTime::parse("2026-11-21T05:12:26.123Z").unwrap();
        for (text, want) in [
            ("26s", "2026-11-21T05:12:00.123Z"),
            ("10min", "2026-11-21T05:02:26.123Z"),
            ("2026-11-21T05:00:00Z", "2026-11-21T05:00:00.000Z"),
            ("2026-11-21T06:00:00+01:00", "2026-11-21T05:00:00.000Z"),
            ("2026-11-21 05:00", "2026-11-21T05:00:00.000Z"),
            ("2026-11-21", "2026-11-21T00:00:00.000Z"),
        ] {
            assert_eq!(point(text, now).map(|p| p.to_string()).as_deref(), Some(want), "{text}");
        }
        assert_eq!(point("yesterday-ish", now), None);
    }
}
