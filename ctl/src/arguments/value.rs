//! Values of arguments: each text is parsed once, here, or refused with what it should be.

use groundstate_units::text::name::Name;
use std::time::Duration;

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    crate::span::parse(text)
        .ok_or_else(|| "not a duration, as 500ms, 5s, 2min, 1h 30min".to_string())
}

/// A span in which something can happen.
pub(super) fn lasting(text: &str) -> Result<Duration, String> {
    let span = duration(text)?;
    if span.is_zero() {
        Err("no time at all; leave it out for always".to_string())
    } else {
        Ok(span)
    }
}

pub(super) fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "not a number of lines, as 50".to_string())
}

pub(super) fn signal(text: &str) -> Result<u8, String> {
    groundstate_units::text::signal::number(text)
        .ok_or_else(|| "no signal; a name as HUP, TERM, RTMIN+3, or a number".to_string())
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
