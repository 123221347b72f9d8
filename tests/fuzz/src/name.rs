//! Checks of the fuzz target `name` for any text as a part of names and values:
//!
//! - A name cannot become a path or an option.
//! - A systemd name is escaped and unescaped unchanged.
//! - A pattern match ends and matches what it must.
//! - A value written in its plain form is read back.
//! - Specifiers are replaced within their limit.
//!
//! The pattern comes before the first NUL, the name after it. After a first byte above 127 the
//! bytes choose pieces of both.

use super::composed::Composed;
use groundstate_units::import::systemd::UnitName;
use groundstate_units::limit;
use groundstate_units::spec::SuccessStatus;
use groundstate_units::spec::value;
use groundstate_units::text::glob;
use groundstate_units::text::name::Name;
use groundstate_units::text::signal;
use groundstate_units::text::specifier::{self, Facts};
use groundstate_units::text::unit_name;
use std::time::Duration;

/// The name, if it is one. Panics if a promise is broken.
pub fn name(bytes: &[u8]) -> Option<Name> {
    let composed = bytes.split_first().filter(|(first, _)| **first > 127);
    let composed = composed.map(|(_, rest)| composed_of(rest));
    let bytes = composed.as_deref().unwrap_or(bytes);
    let at = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let pattern = std::str::from_utf8(bytes.get(..at)?).ok()?;
    let text = std::str::from_utf8(bytes.get(at + 1..).unwrap_or_default()).ok()?;
    patterns(pattern, text);
    for text in [pattern, text] {
        values(text);
        systemd(text);
    }
    let name = Name::new(text).ok()?;
    let is_plain = !name.as_str().contains(['/', '\0', '\n', ' ']) && name.as_str() != "..";
    assert!(is_plain && !name.as_str().starts_with(['-', '.']), "{name}");
    assert!(name.as_str().len() <= limit::NAME && Name::new(name.as_str()) == Ok(name.clone()));
    Some(name)
}

fn patterns(pattern: &str, text: &str) {
    // The cost is the product of both lengths.
    let (pattern, text) = (short(pattern), short(text));
    let matches = glob::matches(pattern, text);
    assert!(!glob::matches_file(pattern, text) || matches);
    assert!(glob::matches("*", text), "a star matches all");
    if !pattern.contains(['*', '?', '[', '\\']) {
        assert_eq!(matches, pattern == text, "{pattern:?} {text:?}");
    }
    let literal: String = text.chars().flat_map(|c| ['\\', c]).collect();
    assert!(glob::matches(&literal, text), "{text:?} does not match itself");
}

fn short(text: &str) -> &str {
    text.char_indices().nth(64).map_or(text, |(at, _)| text.split_at(at).0)
}

fn values(text: &str) {
    if let Ok(span) = value::duration(text) {
        assert!(span.as_secs() <= limit::SPAN_SECONDS);
        let whole = Duration::from_micros(u64::try_from(span.as_micros()).unwrap_or(u64::MAX));
        let written = format!("{}us", whole.as_micros());
        assert_eq!(value::duration(&written), Ok(whole), "{written}");
    }
    if let Ok(Some(span)) = value::timeout(text) {
        assert!(span > Duration::ZERO, "a time-out of nothing");
    }
    if let Ok(size) = value::size(text) {
        assert_eq!(value::size(&size.to_string()), Ok(size));
    }
    if let Some(number) = signal::number(text) {
        assert_eq!(signal::number(&signal::name(number)), Some(number));
    }
    if let Ok(mask) = value::umask(text) {
        assert!(mask <= 0o777 && value::umask(&format!("{mask:04o}")) == Ok(mask));
    }
    if let Ok(mode) = value::mode(text) {
        assert!(mode <= 0o7777, "{mode:o}");
    }
    if let Ok(path) = value::path(text) {
        assert!(path.starts_with('/') && !path.split('/').any(|part| part == ".."), "{path}");
        assert!(value::path(&path).as_deref() == Ok(path.as_str()) && !path.contains('\0'));
    }
    let mut status = SuccessStatus::default();
    if value::status(text, &mut status).is_ok() {
        assert_eq!(status.codes.len() + status.signals.len(), 1, "{text}");
    }
}

fn systemd(text: &str) {
    assert_eq!(unit_name::unescape(&unit_name::escape(text)).as_deref(), Some(text));
    let unit = UnitName::of(text);
    if let Ok(expanded) = specifier::expand(text, &unit, &Facts::default()) {
        assert!(expanded.len() <= limit::IMPORTED_FILE + text.len(), "{} bytes", expanded.len());
    }
}

const PIECES: [&str; 40] = [
    "a",
    "b",
    "web",
    "0",
    "1",
    "9",
    "65536",
    "18446744073709551616",
    ".",
    "-",
    "_",
    ":",
    "@",
    "min",
    "ms",
    "s",
    "h",
    "d",
    "us",
    "MiB",
    "G",
    "%",
    "1.5",
    " ",
    "*",
    "?",
    "[a-c]",
    "[!",
    "]",
    "\\",
    "/",
    "/..",
    "SIG",
    "RTMIN",
    "RTMAX",
    "TERM",
    "%i",
    "%%",
    "\\x2f",
    ".service",
];

fn composed_of(bytes: &[u8]) -> Vec<u8> {
    let mut from = Composed::of(bytes);
    let mut text = String::new();
    for end in ["\0", ""] {
        // In half of the cases only characters that a name may have.
        let most = if from.one_in(2) { PIECES.len() } else { 13 };
        for _ in 0..=from.byte() % 6 {
            text.push_str(from.pick(PIECES.get(..most).unwrap_or(&PIECES)));
        }
        text.push_str(end);
    }
    text.into_bytes()
}
