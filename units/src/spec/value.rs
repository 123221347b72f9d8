//! Values of unit files, settings and command lines, in one grammar: durations, sizes, numbers,
//! booleans, signals, limits. Arithmetic is checked: no value wraps or is silently rounded. A text
//! with two readings (`010`, `1e9`) is refused, and the hint says how to write either.

use crate::limit;
use crate::spec::SuccessStatus;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The reason why a text is not a valid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The problem.
    pub message: String,
    /// The correction.
    pub hint: &'static str,
}

pub(crate) fn mistake<T>(message: String, hint: &'static str) -> Result<T, Mistake> {
    Err(Mistake { message, hint })
}

const DURATION_HINT: &str =
    "durations look like `500ms`, `5s`, `2min`, `1min 30s`, `1h`; a bare number is seconds";

/// Nanoseconds of each unit of time.
const TIME_UNITS: [(&[&str], u64); 6] = [
    (&["us", "usec"], 1_000),
    (&["ms", "msec"], 1_000_000),
    (&["s", "sec", "second", "seconds"], 1_000_000_000),
    (&["m", "min", "minute", "minutes"], 60_000_000_000),
    (&["h", "hour", "hours"], 3_600_000_000_000),
    (&["d"], 86_400_000_000_000),
];

/// Parses a duration. A bare decimal number is seconds. Otherwise it is a list of numbers with
/// units (`us ms s min h d`), with or without white space between. The maximum is a hundred years.
pub fn duration(text: &str) -> Result<Duration, Mistake> {
    let wrong = || mistake(format!("`{text}` is not a duration"), DURATION_HINT);
    let mut rest = text;
    let mut nanos = 0u64;
    let mut parts = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Some((number, behind)) = rest.split_at_checked(end) else { return wrong() };
        let spaced = behind.trim_start_matches(' ');
        let end = spaced.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(spaced.len());
        let Some((unit, behind)) = spaced.split_at_checked(end) else { return wrong() };
        let scale = if unit.is_empty()
            && parts == 0
            && behind.is_empty()
            && spaced.len() == rest.len() - number.len()
        {
            1_000_000_000
        } else {
            match TIME_UNITS.iter().find(|(names, _)| names.contains(&unit)) {
                Some((_, scale)) => *scale,
                None => return wrong(),
            }
        };
        let Some(part) = scaled(number, scale) else { return wrong() };
        nanos = nanos.saturating_add(part);
        parts += 1;
        rest = behind.trim_start_matches(' ');
        if rest.is_empty() && behind.ends_with(' ') {
            return wrong();
        }
    }
    if parts == 0 {
        return wrong();
    }
    if nanos > limit::SPAN_SECONDS.saturating_mul(1_000_000_000) {
        return mistake(
            format!("`{text}` is longer than a hundred years"),
            "`none` means without limit, where it is allowed",
        );
    }
    Ok(Duration::from_nanos(nanos))
}

/// Returns `number` times `scale`, saturating. `number` is decimal, with or without a fraction.
/// Only `0.…` may start with a zero.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if !is_plain_number(whole) || fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole = whole.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(scale);
    let tens = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = u128::from(fraction.parse::<u64>().ok()?).checked_mul(u128::from(scale))?;
    let part = part.checked_div(tens)?;
    Some(whole.saturating_add(u64::try_from(part).unwrap_or(u64::MAX)))
}

pub(crate) fn is_plain_number(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'))
}

/// Parses a duration, or `none` for no limit. Zero is refused, because it could mean "at once" or
/// "never".
pub fn timeout(text: &str) -> Result<Option<Duration>, Mistake> {
    if text == "none" {
        return Ok(None);
    }
    if matches!(text, "infinity" | "never") {
        return mistake(format!("`{text}` is not a duration"), "write `none` for no limit");
    }
    match duration(text)? {
        Duration::ZERO => mistake(
            "a timeout of zero".to_string(),
            "write `none` for no limit, or a short time like `1ms`",
        ),
        span => Ok(Some(span)),
    }
}

/// Parses a decimal whole number from `least` to `most`.
pub fn count(text: &str, least: u32, most: u32) -> Result<u32, Mistake> {
    let number = if is_plain_number(text) { text.parse::<u32>().ok() } else { None };
    match number.filter(|number| (least..=most).contains(number)) {
        Some(number) => Ok(number),
        None => mistake(
            format!("`{text}` is not a whole number from {least} to {most}"),
            "write it in decimal digits, without a sign or leading zeros",
        ),
    }
}

/// Parses a size in bytes: a whole number with or without K, M, G, T. The base is 1024; `KiB`,
/// `MiB` … mean the same.
pub fn size(text: &str) -> Result<u64, Mistake> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end).unwrap_or(("", ""));
    let shift = match unit {
        "" | "B" => Some(0),
        "K" | "KiB" => Some(10),
        "M" | "MiB" => Some(20),
        "G" | "GiB" => Some(30),
        "T" | "TiB" => Some(40),
        _ => None,
    };
    let number = if is_plain_number(number) { number.parse::<u64>().ok() } else { None };
    match (number, shift) {
        (Some(number), Some(shift)) => number.checked_mul(1 << shift).map_or_else(
            || mistake(format!("`{text}` is too large"), "sizes end below 16 EiB"),
            Ok,
        ),
        _ => mistake(
            format!("`{text}` is not a size"),
            "sizes look like `4096`, `64K`, `16MiB`, `1G`",
        ),
    }
}

/// Parses true, false, yes, no, on, off.
pub fn boolean(text: &str) -> Result<bool, Mistake> {
    match text {
        "true" | "yes" | "on" => Ok(true),
        "false" | "no" | "off" => Ok(false),
        _ => mistake(format!("`{text}` is neither yes nor no"), "write `yes` or `no`"),
    }
}

/// Parses a signal: `TERM`, `SIGTERM`, `RTMIN+3`, `RTMAX-1` or a number from 1 to 64.
pub fn signal(text: &str) -> Result<u8, Mistake> {
    let named = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let known =
        if named || is_plain_number(text) { crate::text::signal::number(text) } else { None };
    match known {
        Some(number) => Ok(number),
        None => mistake(
            format!("`{text}` is not a signal"),
            "signals look like `TERM`, `SIGUSR1`, `RTMIN+3`, `15`",
        ),
    }
}

/// Parses one entry of `success-status`: an exit status from 0 to 255, or the name of a signal.
pub fn status(text: &str, into: &mut SuccessStatus) -> Result<(), Mistake> {
    if text.starts_with(|c: char| c.is_ascii_alphabetic())
        && let Some(signal) = crate::text::signal::number(text)
    {
        into.signals.push(signal);
        return Ok(());
    }
    let code = if is_plain_number(text) { text.parse::<u8>().ok() } else { None };
    match code {
        Some(code) => into.codes.push(code),
        None => {
            return mistake(
                format!("`{text}` is neither an exit status nor a signal"),
                "a number from 0 to 255, or a name like `TERM`",
            );
        }
    }
    Ok(())
}

/// Reads an octal number of at most `most`. `digits` is the range of its length.
pub(crate) fn octal(text: &str, digits: RangeInclusive<usize>, most: u32) -> Option<u32> {
    let fits = digits.contains(&text.len()) && text.bytes().all(|b| (b'0'..=b'7').contains(&b));
    let number = if fits { u32::from_str_radix(text, 8).ok() } else { None };
    number.filter(|number| *number <= most)
}

/// Parses a umask in octal: `022`.
pub fn umask(text: &str) -> Result<u32, Mistake> {
    match octal(text, 1..=4, 0o777) {
        Some(mask) => Ok(mask),
        None => {
            mistake(format!("`{text}` is not a umask"), "up to three octal digits: `022`, `0077`")
        }
    }
}

/// Parses the permission bits of a file in octal: `0660`.
pub fn mode(text: &str) -> Result<u32, Mistake> {
    match octal(text, 3..=5, 0o7777) {
        Some(mode) => Ok(mode),
        None => mistake(format!("`{text}` is not a file mode"), "octal digits: `0660`, `1777`"),
    }
}

/// Checks an absolute path: no `..` and no NUL.
pub fn path(text: &str) -> Result<String, Mistake> {
    if !text.starts_with('/') {
        return mistake(format!("`{text}` is not an absolute path"), "start it with `/`");
    }
    if text.split('/').any(|part| part == "..") {
        return mistake(format!("`{text}` goes up with `..`"), "write the path it leads to");
    }
    if text.len() > limit::PATH || text.contains(['\0', '\n']) {
        return mistake("a path that is too long or holds a line break".to_string(), "");
    }
    Ok(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that other programs read differently; every parser refuses them.
    const ODD: [&str; 22] = [
        "",
        " ",
        "-1",
        "+1",
        "1e9",
        "∞",
        "0x10",
        " 5",
        "5 ",
        "010",
        "00",
        "1_000",
        "1,5",
        "٣",
        "--",
        "1 000",
        "9223372036854775808x",
        "5.",
        ".5",
        "NaN",
        "inf",
        "5\n",
    ];

    #[test]
    fn ambiguous_numbers_are_refused_by_every_parser() {
        for odd in ODD {
            assert!(duration(odd).is_err(), "duration {odd:?}");
            assert!(timeout(odd).is_err(), "timeout {odd:?}");
            assert!(count(odd, 0, u32::MAX).is_err(), "count {odd:?}");
            assert!(size(odd).is_err(), "size {odd:?}");
            assert!(signal(odd).is_err(), "signal {odd:?}");
            assert!(status(odd, &mut SuccessStatus::default()).is_err(), "status {odd:?}");
            assert!(crate::unit::resource::resource_limit("nofile", odd).is_err(), "limit {odd:?}");
            assert!(boolean(odd).is_err(), "boolean {odd:?}");
        }
    }

    #[test]
    fn durations_are_read_as_documented() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("0", ms(0)),
            ("5", ms(5000)),
            ("1.50", ms(1500)),
            ("0.2", ms(200)),
            ("500ms", ms(500)),
            ("5s", ms(5000)),
            ("5 s", ms(5000)),
            ("5m", ms(300_000)),
            ("2min", ms(120_000)),
            ("1min 30s", ms(90_000)),
            ("1min30s", ms(90_000)),
            ("1h", ms(3_600_000)),
            ("1d", ms(86_400_000)),
            ("1us", Duration::from_micros(1)),
            ("2147483648ms", ms(2_147_483_648)),
        ] {
            assert_eq!(duration(text), Ok(expected), "{text}");
        }
        for bad in [
            "5 5",
            "s",
            "5x",
            "1min 30",
            "9223372036854775808",
            "18446744073709551616s",
            "infinity",
            "5S",
            "none",
            "1h x",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert_eq!(timeout("none"), Ok(None));
        assert!(timeout("0").is_err() && timeout("infinity").is_err());
    }

    #[test]
    fn counts_outside_their_range_are_refused() {
        assert_eq!(count("0", 0, 5), Ok(0));
        assert_eq!(count("2147483648", 0, u32::MAX), Ok(1 << 31));
        for bad in ["6", "4294967296", "9223372036854775808", "5m"] {
            assert!(count(bad, 1, 5).is_err(), "{bad}");
        }
        assert!(count("0", 1, 5).is_err());
    }

    #[test]
    fn sizes_use_base_1024_and_are_bounded() {
        assert_eq!(size("16MiB"), Ok(16 << 20));
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("1K"), Ok(1024));
        assert_eq!(size("9223372036854775808"), Ok(1 << 63));
        for bad in ["16777216T", "18446744073709551616", "1k", "1KB", "1 M", "M"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn booleans_signals_statuses_and_umasks_are_read_as_documented() {
        assert_eq!((boolean("yes"), boolean("off")), (Ok(true), Ok(false)));
        assert!(boolean("1").is_err() && boolean("True").is_err());
        for (text, number) in [
            ("TERM", 15),
            ("SIGKILL", 9),
            ("RTMIN+3", 37),
            ("RTMAX", 64),
            ("RTMAX-30", 34),
            ("15", 15),
        ] {
            assert_eq!(signal(text), Ok(number), "{text}");
        }
        for bad in ["0", "65", "RTMIN+31", "RTMIN-1", "SIG", "RTMIN3"] {
            assert!(signal(bad).is_err(), "{bad}");
        }
        let mut success = SuccessStatus::default();
        for text in ["0", "255", "TERM"] {
            status(text, &mut success).unwrap();
        }
        assert_eq!((success.codes, success.signals), (vec![0, 255], vec![15]));
        assert!(status("256", &mut SuccessStatus::default()).is_err());
        assert_eq!((umask("022"), umask("0077"), umask("0")), (Ok(0o22), Ok(0o77), Ok(0)));
        for bad in ["", "8", "1777", "0o22", "-1", "00222"] {
            assert!(umask(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn relative_paths_and_paths_with_dot_dot_are_refused() {
        assert!(path("/run/x.pid").is_ok());
        for bad in ["", "run/x", "./x", "/run/../etc", "~", "/a\0"] {
            assert!(path(bad).is_err(), "{bad:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "([0-9.]|min|s|h|d|ms|K|M|:|SIG|RTMIN|\\+|-| |.){0,12}") {
            let _ = (duration(&text), timeout(&text), size(&text), signal(&text), umask(&text), path(&text));
            let _ = (count(&text, 0, 9), boolean(&text), crate::unit::resource::resource_limit("core", &text));
        }
    }
}
