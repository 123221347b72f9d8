//! Parsers of argument values, with messages about the expected form.

use groundstate_units::text::name::Name;
use std::time::Duration;

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    crate::span::parse(text)
        .ok_or_else(|| "not a duration such as 500ms, 5s, 2min or 1h 30min".to_string())
}

/// Parses a time span that is not zero.
pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    let span = duration(text)?;
    if span.is_zero() {
        Err("the time is zero; leave the option out for no limit".to_string())
    } else {
        Ok(span)
    }
}

pub(super) fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "not a number of lines such as 50".to_string())
}

pub(super) fn signal(text: &str) -> Result<u8, String> {
    groundstate_units::text::signal::number(text).ok_or_else(|| {
        "not a signal; use a name such as HUP, TERM or RTMIN+3, or a number".to_string()
    })
}

pub(super) fn choice(text: &str) -> Result<(Name, Option<Name>), String> {
    let Some((target, unit)) = text.split_once('=') else {
        return Err("not TARGET=UNIT".to_string());
    };
    let target = Name::new(target).map_err(|error| error.to_string())?;
    if unit.is_empty() {
        return Ok((target, None));
    }
    let unit = Name::new(unit).map_err(|error| error.to_string())?;
    Ok((target, Some(unit)))
}
