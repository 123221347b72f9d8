//! Spans of time and other numbers as systemd writes them (systemd.time(7), "PARSING TIME
//! SPANS"), turned into the spelling of native files.

/// Microseconds in each unit of time.
const UNITS: [(&[&str], u64); 9] = [
    (&["seconds", "second", "sec", "s"], SECOND),
    (&["minutes", "minute", "min", "m"], MINUTE),
    (&["months", "month", "M"], MONTH),
    (&["msec", "ms"], 1_000),
    (&["hours", "hour", "hr", "h"], HOUR),
    (&["days", "day", "d"], DAY),
    (&["weeks", "week", "w"], 7 * DAY),
    (&["years", "year", "y"], YEAR),
    (&["usec", "us", "µs", "μs", "µsec", "μsec"], 1),
];

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// 30.44 days.
const MONTH: u64 = 2_629_800 * SECOND;
/// 365.25 days.
const YEAR: u64 = 31_557_600 * SECOND;

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// Microseconds.
    Micros(u64),
    /// `infinity`.
    Infinite,
}

/// Parses a span; a bare number means seconds. Returns `None` if it is none.
pub(crate) fn parse(text: &str) -> Option<Span> {
    if text == "infinity" {
        return Some(Span::Infinite);
    }
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut micros = 0u64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, behind) = rest.split_at_checked(end)?;
        let behind = behind.trim_start();
        let end = behind.find(|c: char| c.is_ascii_digit() || c.is_whitespace());
        let (unit, behind) = behind.split_at_checked(end.unwrap_or(behind.len()))?;
        let scale = match unit {
            "" => SECOND,
            unit => UNITS.iter().find(|(names, _)| names.contains(&unit))?.1,
        };
        micros = micros.checked_add(scaled(number, scale)?)?;
        rest = behind.trim_start();
    }
    Some(Span::Micros(micros))
}

fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    let fraction: String = fraction.chars().take(9).collect();
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? };
    let tens = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = u128::from(part).checked_mul(u128::from(scale))?.checked_div(tens)?;
    let part = u64::try_from(part).ok()?;
    whole.checked_mul(scale)?.checked_add(part)
}

/// Writes a span in the native form.
pub(crate) fn native(micros: u64) -> String {
    const PARTS: [(u64, &str); 6] =
        [(DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"), (1_000, "ms"), (1, "us")];
    let mut rest = micros;
    let mut words = Vec::new();
    for (scale, unit) in PARTS {
        if rest >= scale {
            words.push(format!("{}{unit}", rest.checked_div(scale).unwrap_or(0)));
            rest = rest.checked_rem(scale).unwrap_or(0);
        }
    }
    match (words.as_slice(), micros) {
        ([], _) => "0s".to_string(),
        // The form that people write: 90s, not 1min 30s.
        (_, micros) if micros % SECOND == 0 && micros < 2 * MINUTE => {
            format!("{}s", micros / SECOND)
        }
        (words, _) => words.join(" "),
    }
}

/// Parses a systemd boolean. Returns `None` if it is none.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Some(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native_of(text: &str) -> Option<String> {
        match parse(text)? {
            Span::Micros(micros) => Some(native(micros)),
            Span::Infinite => Some("none".to_string()),
        }
    }

    // Expected values: `systemd-analyze timespan` of systemd 252.
    #[test]
    fn spans_are_parsed_as_in_systemd() {
        for (text, micros) in [
            ("5", 5_000_000),
            ("5min 20s", 320_000_000),
            ("5min20s", 320_000_000),
            ("1h", 3_600_000_000),
            ("0", 0),
            (".5", 500_000),
            ("1.5h", 5_400_000_000),
            ("2 h", 7_200_000_000),
            ("2hours", 7_200_000_000),
            ("300ms20s 5day", 432_020_300_000),
            ("1y 12month", 63_115_200_000_000),
            ("55s500ms", 55_500_000),
            ("1w", 604_800_000_000),
            ("5 5", 10_000_000),
        ] {
            assert_eq!(parse(text), Some(Span::Micros(micros)), "{text}");
        }
        assert_eq!(parse("infinity"), Some(Span::Infinite));
        for bad in ["", "x", "5x", "-5", "s", "1..5", "99999999999999999999"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn span_is_written_in_the_native_form() {
        for (text, native) in [
            ("90", "90s"),
            ("100ms", "100ms"),
            ("0", "0s"),
            ("1h", "1h"),
            ("1500ms", "1s 500ms"),
            ("8 days", "8d"),
            ("5min", "5min"),
        ] {
            assert_eq!(native_of(text).as_deref(), Some(native));
            let Some(Span::Micros(micros)) = parse(text) else { panic!("{text}") };
            let read = crate::spec::value::duration(native).unwrap();
            assert_eq!(read.as_micros(), u128::from(micros));
        }
    }

    proptest::proptest! {
        #[test]
        fn written_span_is_parsed_back_unchanged(micros in 0u64..3_000_000_000_000_000) {
            let read = crate::spec::value::duration(&native(micros)).unwrap();
            proptest::prop_assert_eq!(read.as_micros(), u128::from(micros));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "([0-9.]|min|s|h|d|µs|w| |.){0,12}") {
            let _ = (parse(&text), boolean(&text));
        }
    }
}
