//! Patterns of `ready-grep`: decides which are expensive to compile.
//!
//! A small pattern can need a large program: `\w{500}`. The size of one program is limited, but
//! thousands of units may each have one. So an expensive pattern is compiled once for all units
//! that share it, after all files are read, and their number is limited.

use crate::limit;
use crate::text::diagnostic::{Diagnostic, Place};
use std::iter::Peekable;
use std::str::Chars;

/// Returns an estimate of the states of a pattern's program, rather too high than too low.
pub(crate) fn cost(pattern: &str) -> usize {
    // With `(?x)` a comment may precede a repetition.
    if pattern.contains("(?") && pattern.contains('#') {
        return limit::READY_GREP_MOST;
    }
    let (mut states, mut last, mut times) = (0usize, 0usize, 1usize);
    let (mut class, mut after_group) = (None, false);
    let mut chars = pattern.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '{' => {
                let count = repetition(&mut chars);
                if after_group {
                    // The content of the group is unknown here, so the whole pattern counts.
                    times = times.saturating_mul(count);
                } else {
                    states = states.saturating_add(last.saturating_mul(count - 1));
                    last = last.saturating_mul(count);
                }
                continue;
            }
            ']' if class.is_some() => {
                last = states.saturating_sub(class.take().unwrap_or(0));
                continue;
            }
            '*' | '+' => continue,
            // A flag such as `(?i)` turns letters into classes. Blanks are ignored with `(?x)`.
            '?' | ' ' | '\t' | '\n' => {
                states = states.saturating_add(if char == '?' { 30 } else { 1 });
                continue;
            }
            '[' if class.is_none() => class = Some(states),
            _ => {}
        }
        after_group = char == ')';
        last = match char {
            '\\' => escaped(&mut chars),
            '[' => 30,
            '.' => 10,
            char => char.len_utf8(),
        };
        states = states.saturating_add(last);
    }
    states.saturating_mul(times)
}

/// Returns the number of states of the escape after a backslash.
fn escaped(chars: &mut Peekable<Chars<'_>>) -> usize {
    match chars.next() {
        Some('p' | 'P') => {
            if chars.peek() == Some(&'{') {
                chars.find(|char| *char == '}');
            }
            1_000
        }
        Some('w' | 'W' | 'b' | 'B') => 1_000,
        Some('d' | 'D') => 150,
        Some('s' | 'S') => 40,
        _ => 1,
    }
}

/// Returns the largest number in the braces of a repetition.
fn repetition(chars: &mut Peekable<Chars<'_>>) -> usize {
    let (mut number, mut most) = (0usize, 1usize);
    while let Some(next) = chars.next_if(|next| matches!(next, '0'..='9' | ',' | ' ' | '}')) {
        if next == '}' {
            break;
        }
        let digit = next.to_digit(10).and_then(|digit| usize::try_from(digit).ok());
        number = digit.map_or(0, |digit| number.saturating_mul(10).saturating_add(digit));
        most = most.max(number);
    }
    most
}

/// Returns true if the pattern is compiled once for all units that share it.
pub(crate) fn is_expensive(pattern: &str) -> bool {
    cost(pattern) > limit::READY_GREP_CHEAP
}

/// Compiles a pattern and returns its error or warning, if any.
pub(crate) fn mistake(pattern: &str, place: &Place) -> Option<Diagnostic> {
    let compiled =
        regex::bytes::RegexBuilder::new(pattern).size_limit(limit::READY_GREP_PROGRAM).build();
    match compiled {
        Ok(regex) if regex.is_match(b"") => {
            let message = "`ready-grep` matches an empty line, so any line makes the unit ready";
            Some(Diagnostic::warning("value", place.clone(), message))
        }
        Ok(_) => None,
        Err(error) => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let message = format!("`ready-grep` is not a regular expression: {last}");
            let hint = "quote it in single quotes; look-around and back-references are not known";
            Some(Diagnostic::error("value", place.clone(), message).with_hint(hint))
        }
    }
}

/// Returns the message about a pattern over the limit.
pub(crate) fn too_many(place: &Place) -> Diagnostic {
    let message =
        "`ready-grep`: the patterns of all units are too expensive to compile".to_string();
    Diagnostic::error("too-large", place.clone(), message)
        .with_hint("leave out `\\w`, `\\p`, and repetitions with numbers; use `(?-u:\\w)`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_patterns_are_cheap_and_patterns_with_large_programs_are_expensive() {
        for cheap in [
            "ready to accept connections",
            r"listening on \d+\.\d+\.\d+\.\d+:\d+",
            "^(?i)[a-z]+ started$",
            r"\w+: up",
            r"^\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}: [a-z]{2,40} up$",
        ] {
            assert!(!is_expensive(cheap), "{cheap}");
        }
        for expensive in [
            r"\w{500}",
            "(a{100}){100}",
            "x{9999}",
            "x{100}{100}",
            r"[\w\d]{9}",
            r"(\w\w)?{50}",
            r"(?x)(\w\w) {50}",
            "(?x)(\\w)#\n{50}",
            r"\p{L}{20}",
            r"(?i:\w\w\w\w\w)",
        ] {
            assert!(is_expensive(expensive), "{expensive}");
        }
    }

    #[test]
    fn every_pattern_with_a_large_program_is_classified_as_expensive() {
        for pattern in [r"\w", r"\W", r"\b", r"\d", r"\s", ".", "[a-z]", "(?i)k", "é"] {
            for count in 1..40 {
                let text = pattern.repeat(count);
                let built = regex::bytes::RegexBuilder::new(&text).size_limit(256 * 1024).build();
                assert!(built.is_ok() || is_expensive(&text), "{text}");
            }
        }
    }
}
