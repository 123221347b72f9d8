//! What the fuzz target `calendar` holds of any text: as a calendar expression its normal form is
//! read back the same; what comes next comes later, matches the expression, and nothing that
//! matches is passed over (asked again from just before it, it is the same); as a zone, of a
//! file or of a rule, a second that has a local time is found from it again.
//!
//! The first eight bytes are the time asked from; a NUL ends the expression, behind it stands a
//! zone. Where the expression would begin with a byte above 127, bytes choose its parts.

use super::composed::Composed;
use groundstate_units::trigger::calendar::{Calendar, parse};
use groundstate_units::trigger::zone::Zone;

/// The expression, if it is one. Panics where one of the promises is broken.
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
    // What a clock can say; what it can not say only has to end.
    let sane = after.rem_euclid(4_102_444_800_000_000);
    let _ = calendar.next(after, &zone);
    for zone in [&zone, &Zone::utc()] {
        let Some(next) = calendar.next(sane, zone) else { continue };
        assert!(next > sane, "{written}: {next} after {sane}");
        assert_eq!(calendar.next(next - 1, zone), Some(next), "{written}: not found again");
    }
    Some(calendar)
}

/// Weekdays, a date, a time, a zone, each perhaps.
fn composed(bytes: &[u8]) -> String {
    let mut from = Composed::of(bytes);
    let days = ["", "", "Mon ", "Sat,Sun ", "Mon..Fri ", "Tue-Thu,Sun ", "Fri..Mon "];
    let zones = ["", "", " UTC", " Europe/Berlin"];
    let (_, days, zone) = (from.byte(), from.pick(&days), from.pick(&zones));
    let year = field(&mut from, 1970, 2199);
    let month = field(&mut from, 1, 12);
    let (sign, day) = (from.pick(&["-", "-", "-", "~"]), field(&mut from, 1, 31));
    let (hour, minute) = (field(&mut from, 0, 23), field(&mut from, 0, 59));
    let second = field(&mut from, 0, 59);
    let fraction = from.pick(&["", "", "", "", "", "", ".5", "/0.25"]);
    format!("{days}{year}-{month}{sign}{day} {hour}:{minute}:{second}{fraction}{zone}")
}

fn field(from: &mut Composed<'_>, least: u32, most: u32) -> String {
    let mut one = || {
        let value = least + u32::from(from.byte()) % (most - least + 1);
        (value, value + u32::from(from.byte()) % (most - value + 1), from.byte() % 16 + 1)
    };
    let (start, stop, step) = one();
    match step % 6 {
        0 => "*".to_string(),
        1 => format!("{start}..{stop}"),
        2 => format!("{start}/{step}"),
        3 => format!("{start}..{stop}/{step}"),
        4 => format!("{start},{stop}"),
        _ => format!("{start:02}"),
    }
}

/// UTC where it is none.
fn zone(bytes: &[u8], at: i64) -> Zone {
    let of_rule = || std::str::from_utf8(bytes).ok().and_then(Zone::of_rule);
    let Some(zone) = Zone::parse(bytes).or_else(of_rule) else { return Zone::utc() };
    let utc = at.rem_euclid(6_000_000_000);
    let offset = zone.offset(utc);
    assert!(offset.abs() < 26 * 3_600, "{offset} s from UTC");
    let found = zone.instants(utc + offset);
    // Where clocks are put back again and again it may be the third.
    assert!(found.contains(&Some(utc)) || found[1].is_some(), "{utc}: {found:?}");
    zone
}
