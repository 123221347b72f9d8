//! Checks of the fuzz target `calendar` for any text:
//!
//! - The normal form of a calendar expression is read back unchanged.
//! - The next time is later and matches the expression. No match is skipped: a query just before it
//!   gives the same.
//! - In a time zone from a file or a rule, the conversion of a second to local time and back finds
//!   that second.
//!
//! The first eight bytes are the start time; a NUL ends the expression, and a zone follows. If the
//! expression would start with a byte above 127, bytes choose its parts.

use super::composed::Composed;
use groundstate_units::trigger::calendar::{Calendar, parse};
use groundstate_units::trigger::zone::Zone;

/// The expression, if it is one. Panics if a promise is broken.
pub fn calendar(bytes: &[u8]) -> Option<Calendar> {
    let (after, rest) = bytes.split_first_chunk::<8>()?;
    let after = i64::from_le_bytes(*after);
    let at = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    let zone = zone(rest.get(at + 1..).unwrap_or_default(), after);
    let text = rest.get(..at)?;
    let text = match text.first() {
        Some(first) if *first > 127 => composed(text),
        Some(_) | None => std::str::from_utf8(text).ok()?.to_string(),
    };
    let calendar = parse(&text).ok()?;
    let written = calendar.to_string();
    assert_eq!(parse(&written).as_ref(), Ok(&calendar), "{written}");
    // A time of a real clock; for other times the search only has to end.
    let sane = after.rem_euclid(4_102_444_800_000_000);
    let _ = calendar.next(after, &zone);
    for zone in [&zone, &Zone::utc()] {
        let Some(next) = calendar.next(sane, zone) else { continue };
        assert!(next > sane, "{written}: {next} after {sane}");
        assert_eq!(calendar.next(next - 1, zone), Some(next), "{written}: not found again");
    }
    Some(calendar)
}

/// Weekdays, a date, a time, a zone, each optional; one in eight may have mistakes.
fn composed(bytes: &[u8]) -> String {
    let mut from = Composed::of(bytes);
    let (_, is_odd) = (from.byte(), from.one_in(8));
    let days = ["", "", "Mon ", "Sat,Sun ", "Mon..Fri ", "Tue-Thu,Sun ", "wed "];
    let days = if is_odd { from.pick(&["Fri..Mon ", "Mon,", "", ""]) } else { from.pick(&days) };
    let zone = from.pick(&["", "", " UTC", " Europe/Berlin"]);
    let mut field = |least, most, is_down| field(&mut from, is_odd, (least, most), is_down);
    let (year, month) = (field(1970, 2199, false), field(1, 12, false));
    let (day, last_day) = (field(1, 31, false), field(1, 28, true));
    let (hour, minute) = (field(0, 23, false), field(0, 59, false));
    let second = field(0, 59, false);
    let day = if from.one_in(4) { format!("~{last_day}") } else { format!("-{day}") };
    let is_plain = is_odd || second.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = if is_plain { from.pick(&["", "", "", ".5", "/0.25"]) } else { "" };
    format!("{days}{year}-{month}{day} {hour}:{minute}:{second}{fraction}{zone}")
}

/// A field of the expression. With `is_down`, steps lead down from the last value.
fn field(from: &mut Composed<'_>, is_odd: bool, range: (u32, u32), is_down: bool) -> String {
    let mut up_to = |most: u32| u32::from(from.byte()) % (most + 1);
    let (least, most) = range;
    let start = least + up_to(most - least - 1);
    let more = 1 + up_to(most - start - 1);
    let (stop, step) = (start + more, 1 + up_to(if is_odd { 15 } else { more - 1 }));
    let first = if is_down { stop } else { start };
    match up_to(5) {
        0 => "*".to_string(),
        1 => format!("{start}..{stop}"),
        2 => format!("{first}/{step}"),
        3 => format!("{start}..{stop}/{step}"),
        4 => format!("{start},{stop}"),
        _ => format!("{start:02}"),
    }
}

/// The zone, or UTC if the bytes are none.
fn zone(bytes: &[u8], at: i64) -> Zone {
    let of_rule = || std::str::from_utf8(bytes).ok().and_then(Zone::of_rule);
    let Some(zone) = Zone::parse(bytes).or_else(of_rule) else { return Zone::utc() };
    let utc = at.rem_euclid(6_000_000_000);
    let offset = zone.offset(utc);
    assert!(offset.abs() < 26 * 3_600, "{offset} s from UTC");
    let found = zone.instants(utc + offset);
    // If clocks are put back repeatedly it may be the third.
    assert!(found.contains(&Some(utc)) || found[1].is_some(), "{utc}: {found:?}");
    zone
}
