//! Decodes the bytes of a file into text, and makes text safe to show on a terminal.
//!
//! Files are UTF-8. A byte order mark at the start is skipped; lines end in LF or CRLF. A lone
//! CR, NUL, other control characters, Unicode line separators and bidirectional marks are refused:
//! an editor would show another text than the parser reads.

use crate::limit;
use crate::text::diagnostic::{Diagnostic, Place};
use std::borrow::Cow;
use std::sync::Arc;

/// Limit of characters of a line in a diagnostic.
const EXCERPT: usize = 160;

/// Decodes the bytes of a file. The second value reports a truncated last line, only if
/// `whole_lines` is set.
///
/// # Errors
/// Every invalid place, up to [`limit::DIAGNOSTICS_PER_FILE`].
pub fn decode<'a>(
    file: &Arc<str>,
    bytes: &'a [u8],
    whole_lines: bool,
) -> Result<(&'a str, Option<Diagnostic>), Vec<Diagnostic>> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let offset = error.valid_up_to();
            let before = bytes.get(..offset).unwrap_or_default();
            let before = std::str::from_utf8(before).unwrap_or_default();
            let message = format!("not UTF-8 (byte {offset})");
            let mut diagnostic = Diagnostic::error("encoding", end_of(file, before), message);
            diagnostic.hint = "save the file as UTF-8".to_string();
            return Err(vec![diagnostic]);
        }
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let found = forbidden(file, text);
    if !found.is_empty() {
        return Err(found);
    }
    let cut = whole_lines && !text.is_empty() && !text.ends_with('\n');
    Ok((text, cut.then(|| unfinished(file, text))))
}

fn unfinished(file: &Arc<str>, text: &str) -> Diagnostic {
    Diagnostic::error("truncated", end_of(file, text), "the file does not end with a line break")
        .with_hint("it may have been saved in part; end its last line")
}

/// Returns the place after the last character of `text`.
fn end_of(file: &Arc<str>, text: &str) -> Place {
    let line = text.matches('\n').count() + 1;
    let column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Place { file: file.clone(), line: number(line), column: number(column) }
}

fn forbidden(file: &Arc<str>, text: &str) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let (mut line, mut column) = (1u32, 0u32);
    let mut characters = text.char_indices().peekable();
    while let Some((offset, character)) = characters.next() {
        column = column.saturating_add(1);
        if character == '\n' {
            (line, column) = (line.saturating_add(1), 0);
            continue;
        }
        let lone_return = character == '\r' && characters.peek().is_none_or(|(_, c)| *c != '\n');
        if !lone_return && !is_forbidden(character) {
            continue;
        }
        let at = Place { file: file.clone(), line, column };
        let code = u32::from(character);
        let message = format!("{} (U+{code:04X}, byte {offset})", describe(character));
        found.push(Diagnostic::error("control-character", at, message).with_hint("delete it"));
        if found.len() >= limit::DIAGNOSTICS_PER_FILE {
            break;
        }
    }
    found
}

/// Returns true for a character that controls a terminal, ends a line, changes the writing
/// direction or has no width. Text chosen by a unit, a service or another machine is never shown
/// with it.
pub fn is_unprintable(c: char) -> bool {
    c.is_control() || is_forbidden(c) || has_no_width(c)
}

/// Makes text safe for a terminal: each byte of a character that [`is_unprintable`] becomes `\xNN`.
/// Tabs and line breaks stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| is_unprintable(c) && !matches!(c, '\t' | '\n');
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_odd(c) {
            true => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| {
                shown.push_str(&format!("\\x{byte:02x}"));
            }),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Makes JSON safe for a terminal: a character that [`is_unprintable`] becomes `\uNNNN`, which
/// means the same. Line breaks and tabs between values stay; strings in JSON contain none.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    let is_odd = |c: char| is_unprintable(c) && !matches!(c, '\t' | '\n' | '\r');
    if !json.contains(is_odd) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match is_odd(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                shown.push_str(&format!("\\u{unit:04x}"));
            }),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Returns true for soft hyphen, Mongolian vowel separator, zero-width and invisible characters,
/// and tags.
fn has_no_width(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}'
        | '\u{206a}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn is_forbidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\t' | '\n' | '\r'))
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
        || turns_writing(c)
}

fn turns_writing(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn describe(c: char) -> &'static str {
    match c {
        '\0' => "a NUL character",
        '\r' => "a carriage return without a line feed",
        '\u{feff}' => "a byte order mark inside the text",
        '\u{2028}' | '\u{2029}' => "a Unicode line separator",
        c if turns_writing(c) => "a character that turns the writing direction",
        _ => "a control character",
    }
}

/// Returns line `line` (from 1) of a text, shortened for display; empty if it does not exist.
pub fn excerpt(text: &str, line: u32) -> String {
    let Some(index) = (line as usize).checked_sub(1) else { return String::new() };
    let line = text.split('\n').nth(index).unwrap_or_default().trim_end_matches('\r');
    line.chars().take(EXCERPT).map(|c| if is_forbidden(c) || c == '\t' { ' ' } else { c }).collect()
}

/// Adds the line of the file to each of its diagnostics.
pub fn add_excerpts(found: &mut [Diagnostic], file: &Arc<str>, text: &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let missing = |d: &&mut Diagnostic| d.excerpt.is_empty() && d.at.file == *file;
    for diagnostic in found.iter_mut().filter(missing) {
        diagnostic.excerpt = excerpt(text, diagnostic.at.line);
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
