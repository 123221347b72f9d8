//! Parses and formats time spans and times of the command line.

use groundstate_units::spec::value;
use groundstate_units::text::wall_clock::WallTime;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::time::Duration;

/// Parses `500ms`, `5s`, `1min 30s`; a bare number is seconds.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    value::duration(text).ok()
}

/// Parses `--since`: a span before now, or an RFC 3339 time; fraction, seconds and zone (default: the
/// local one) may be missing.
pub(crate) fn point(text: &str, now: WallTime) -> Option<WallTime> {
    point_in(&TimeZone::system(), text, now)
}

fn point_in(zone: &TimeZone, text: &str, now: WallTime) -> Option<WallTime> {
    if let Some(ago) = parse(text) {
        let millis = u64::try_from(ago.as_millis()).ok()?;
        return Some(WallTime::from_millis(now.as_millis().saturating_sub(millis)));
    }
    let stamp = text.parse::<Timestamp>().ok().or_else(|| {
        let civil = text.parse::<DateTime>().ok()?;
        Some(civil.to_zoned(zone.clone()).ok()?.timestamp())
    })?;
    Some(WallTime::from_millis(u64::try_from(stamp.as_millisecond()).ok()?))
}

/// Formats a time of init for a person: RFC 3339 with the offset of the local time zone. Returns any
/// other text as it is.
pub(crate) fn local(text: &str) -> String {
    local_in(&TimeZone::system(), text).unwrap_or_else(|| text.to_string())
}

fn local_in(zone: &TimeZone, text: &str) -> Option<String> {
    let stamp = text.parse::<Timestamp>().ok()?;
    let offset = zone.to_offset(stamp);
    let is_utc = offset.is_zero();
    (!is_utc).then(|| format!("{:.3}", stamp.display_with_offset(offset)))
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
            let at = point_in(&TimeZone::UTC, text, now).map(|at| at.to_string());
            assert_eq!(at.as_deref(), Some(want), "{text}");
        }
        assert_eq!(point("yesterday-ish", now), None);
    }

    #[test]
    fn times_for_people_have_the_local_offset_and_since_accepts_them() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let now = WallTime::default();
        for (text, want) in [
            ("2026-11-21T05:12:26.123Z", "2026-11-21T06:12:26.123+01:00"),
            ("2026-07-21T23:00:00.000Z", "2026-07-22T01:00:00.000+02:00"),
        ] {
            let local = local_in(&berlin, text).unwrap();
            assert_eq!(local, want);
            assert_eq!(point(&local, now), WallTime::parse(text));
            assert_eq!(point_in(&berlin, &want[..19], now), WallTime::parse(text).map(whole));
        }
        assert_eq!(local_in(&TimeZone::UTC, "2026-11-21T05:12:26.123Z"), None);
        assert_eq!(local("-"), "-");
    }

    fn whole(time: WallTime) -> WallTime {
        WallTime::from_millis(time.as_millis() / 1000 * 1000)
    }
}
