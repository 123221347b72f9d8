//! Parses times as in systemd.time(7): `today`, `-1h`, `5min ago`, `@1700000000`, `2026-11-21
//! 05:12`, in the local time zone.

use crate::span;
use groundstate_units::text::wall_clock::WallTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// Returns the time, or `None` if the text is invalid.
pub(super) fn point(text: &str, now: WallTime) -> Option<WallTime> {
    let text = text.trim();
    let here = Timestamp::from_millisecond(i64::try_from(now.as_millis()).ok()?)
        .ok()?
        .to_zoned(TimeZone::system());
    let day = |days: i64| {
        let at = here.start_of_day().ok()?.checked_add(days.days()).ok()?;
        wall(at.timestamp())
    };
    match text {
        "now" => return Some(now),
        "today" => return day(0),
        "yesterday" => return day(-1),
        "tomorrow" => return day(1),
        _ => {}
    }
    if let Some(seconds) = text.strip_prefix('@') {
        let seconds: f64 = seconds.parse().ok()?;
        return (seconds >= 0.0).then(|| WallTime::from_millis((seconds * 1000.0) as u64));
    }
    let ago = text.strip_suffix("ago").or_else(|| text.strip_prefix('-'));
    if let Some(span) = ago.map(str::trim).and_then(long_span) {
        return Some(WallTime::from_millis(now.as_millis().saturating_sub(span)));
    }
    if let Some(span) = text.strip_prefix('+').and_then(long_span) {
        return Some(WallTime::from_millis(now.as_millis().saturating_add(span)));
    }
    // A time of today.
    let whole = match text.contains(':') && !text.contains('-') {
        true => format!("{} {text}", here.date()),
        false => text.trim_end_matches(" UTC").to_string(),
    };
    if let Ok(stamp) = whole.parse::<Timestamp>() {
        return wall(stamp);
    }
    let civil = whole.parse::<jiff::civil::DateTime>().ok()?;
    let zone = if text.ends_with(" UTC") { TimeZone::UTC } else { TimeZone::system() };
    wall(civil.to_zoned(zone).ok()?.timestamp())
}

fn wall(stamp: Timestamp) -> Option<WallTime> {
    Some(WallTime::from_millis(u64::try_from(stamp.as_millisecond()).ok()?))
}

/// Parses a span with long unit names, in milliseconds.
fn long_span(text: &str) -> Option<u64> {
    let mut short = String::new();
    for word in text.split_whitespace() {
        let word = match word {
            "hour" | "hours" => "h",
            "minute" | "minutes" => "min",
            "second" | "seconds" | "sec" => "s",
            "day" | "days" => "d",
            "week" | "weeks" => "w",
            other => other,
        };
        let joined = word.starts_with(|c: char| c.is_alphabetic());
        if !joined && !short.is_empty() {
            short.push(' ');
        }
        short.push_str(word);
    }
    u64::try_from(span::parse(&short)?.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_as_in_systemd() {
        let now = WallTime::parse("2026-11-21T05:12:26.123Z").unwrap();
        for (text, want) in [
            ("now", "2026-11-21T05:12:26.123Z"),
            ("-1h", "2026-11-21T04:12:26.123Z"),
            ("5 minutes ago", "2026-11-21T05:07:26.123Z"),
            ("5min ago", "2026-11-21T05:07:26.123Z"),
            ("@1795238746", "2026-11-21T05:25:46.000Z"),
            ("2026-11-21 05:00:00 UTC", "2026-11-21T05:00:00.000Z"),
            ("2026-11-21T05:00:00Z", "2026-11-21T05:00:00.000Z"),
        ] {
            assert_eq!(point(text, now).map(|p| p.to_string()).as_deref(), Some(want), "{text}");
        }
        assert_eq!(point("whenever", now), None);
    }
}
