//! Parses a systemd unit file into an ordered list of assignments with places. Nothing is
//! interpreted, merged or lost. The syntax is systemd.syntax(7):
//!
//! - `#` and `;` start comment lines, also within a continued line.
//! - A backslash at the end of a line is a space and continues the line.
//! - Blanks around names and values are removed.

use crate::limit;
use crate::text::diagnostic::{Diagnostic, Place};
use crate::text::encoding;
use crate::text::yaml::Spot;
use std::sync::Arc;

/// One assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitOption {
    /// The name of its `[Section]`, shared by all assignments of the section.
    pub section: Arc<str>,
    /// The text before the `=`.
    pub name: String,
    /// The text after it, with continued lines joined and without the blanks around it.
    pub value: String,
    /// The file.
    pub file: Arc<str>,
    /// The place of the name.
    pub at: Spot,
    /// The starts of the lines of the value: byte offset and place.
    parts: Vec<(usize, Spot)>,
}

impl UnitOption {
    /// Returns the place of byte `offset` of the value in the file.
    pub fn spot(&self, offset: usize) -> Spot {
        self.spots().at(offset)
    }

    /// Returns a lookup of places for many bytes of the value.
    pub fn spots(&self) -> Spots<'_> {
        Spots { text: &self.value, parts: &self.parts, reached: None }
    }

    /// Returns the place of the value.
    pub fn value_at(&self) -> Spot {
        self.spot(0)
    }

    /// Returns the place of the name, with the file.
    pub fn place(&self) -> Place {
        self.at.of(&self.file)
    }
}

/// A lookup of places in a text joined from lines. Bytes requested in ascending order need one pass
/// over parts and characters.
#[derive(Clone, Debug)]
pub struct Spots<'a> {
    text: &'a str,
    parts: &'a [(usize, Spot)],
    /// A byte and its place; `parts` starts with the part that contains it.
    reached: Option<(usize, Spot)>,
}

impl Spots<'_> {
    /// Returns the place of byte `offset`. Offsets must not decrease: a smaller offset gets the
    /// place of the previous one.
    pub fn at(&mut self, offset: usize) -> Spot {
        while let [_, next, ..] = self.parts
            && next.0 <= offset
        {
            self.parts = self.parts.get(1..).unwrap_or_default();
            self.reached = None;
        }
        let first = self.parts.first().copied().unwrap_or((0, Spot { line: 1, column: 1 }));
        let (from, spot) = self.reached.unwrap_or(first);
        let between = self.text.get(from..offset).unwrap_or_default();
        let column = spot.column.saturating_add(number(between.chars().count()));
        let spot = Spot { line: spot.line, column };
        self.reached = Some((offset.max(from), spot));
        spot
    }
}

/// The content of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitText {
    /// The assignments in the order of the text.
    pub options: Vec<UnitOption>,
    /// The `[Section]` lines.
    pub sections: Vec<(String, Spot)>,
    /// Warnings about lines that are no section, assignment or comment.
    pub found: Vec<Diagnostic>,
}

/// Parses a file. Invalid lines are reported and skipped, as in systemd.
///
/// # Errors
/// The error that makes the whole file unusable. The file is too large, has too many assignments or
/// control characters, or is not UTF-8. Or a section line is not closed.
pub fn parse(file: &Arc<str>, bytes: &[u8]) -> Result<UnitText, Vec<Diagnostic>> {
    if bytes.len() > limit::IMPORTED_FILE {
        let place = Spot { line: 1, column: 1 }.of(file);
        let message = format!("larger than {} KiB", limit::IMPORTED_FILE / 1024);
        return Err(vec![Diagnostic::error("too-large", place, message)]);
    }
    let (text, _) = encoding::decode(file, bytes, false)?;
    let mut reader = Reader { file, section: None, read: UnitText::default(), fatal: None };
    let mut line = Line::default();
    for (index, raw) in text.split('\n').enumerate() {
        let raw = raw.trim_end_matches('\r');
        let bare = raw.trim_start_matches(is_blank);
        if bare.starts_with(['#', ';']) {
            continue;
        }
        // A continuation line keeps its indentation, which matters within quotes.
        let part = if line.parts.is_empty() { bare } else { raw };
        let column = raw.chars().count() - part.chars().count() + 1;
        line.add(part, Spot { line: number(index + 1), column: number(column) });
        if !line.is_continued() {
            reader.line(&std::mem::take(&mut line));
        }
    }
    reader.line(&line);
    match reader.fatal {
        Some(diagnostic) => Err(vec![diagnostic]),
        None => Ok(reader.read),
    }
}

/// Returns true for the white space of systemd.syntax(7).
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r')
}

/// A line with its continuation lines.
#[derive(Default)]
struct Line {
    text: String,
    parts: Vec<(usize, Spot)>,
}

impl Line {
    fn add(&mut self, part: &str, at: Spot) {
        self.parts.push((self.text.len(), at));
        self.text.push_str(part);
    }

    /// Returns true if the line ends in an unescaped backslash, which becomes a space.
    fn is_continued(&mut self) -> bool {
        let slashes = self.text.bytes().rev().take_while(|byte| *byte == b'\\').count();
        if slashes % 2 == 1 {
            self.text.pop();
            self.text.push(' ');
        }
        slashes % 2 == 1
    }

    fn spot(&self, offset: usize) -> Spot {
        Spots { text: &self.text, parts: &self.parts, reached: None }.at(offset)
    }
}

struct Reader<'a> {
    file: &'a Arc<str>,
    section: Option<Arc<str>>,
    read: UnitText,
    fatal: Option<Diagnostic>,
}

impl Reader<'_> {
    fn line(&mut self, line: &Line) {
        let text = line.text.trim_matches(is_blank);
        let start = line.text.len() - line.text.trim_start_matches(is_blank).len();
        let at = line.spot(start);
        if text.is_empty() || self.fatal.is_some() {
            return;
        }
        if let Some(inner) = text.strip_prefix('[') {
            match inner.strip_suffix(']') {
                Some(name) => {
                    self.section = Some(Arc::from(name));
                    self.read.sections.push((name.to_string(), at));
                }
                None => {
                    let message = "a section line without its `]`".to_string();
                    self.fatal = Some(Diagnostic::error("section", at.of(self.file), message));
                }
            }
            return;
        }
        let Some((name, value)) = text.split_once('=') else {
            return self.warn(at, "a line without `=` is passed over");
        };
        let name = name.trim_end_matches(is_blank);
        let Some(section) = self.section.clone() else {
            return self.warn(at, "an assignment before any [Section] is passed over");
        };
        if name.is_empty() {
            return self.warn(at, "an assignment to nothing is passed over");
        }
        if self.read.options.len() >= limit::IMPORTED_OPTIONS {
            let message = format!("more than {} assignments", limit::IMPORTED_OPTIONS);
            self.fatal = Some(Diagnostic::error("too-large", at.of(self.file), message));
            return;
        }
        let from = start + text.len() - value.len();
        let from = from + value.len() - value.trim_start_matches(is_blank).len();
        let value = value.trim_matches(is_blank).to_string();
        let mut parts = vec![(0, line.spot(from))];
        let inside = line.parts.iter().filter(|(start, _)| *start > from);
        parts.extend(inside.map(|(start, spot)| (*start - from, *spot)));
        let option = UnitOption {
            section,
            name: name.to_string(),
            value,
            file: self.file.clone(),
            at,
            parts,
        };
        self.read.options.push(option);
    }

    fn warn(&mut self, at: Spot, message: &str) {
        if self.read.found.len() < limit::DIAGNOSTICS_PER_FILE {
            self.read.found.push(Diagnostic::warning("syntax", at.of(self.file), message));
        }
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> UnitText {
        parse(&Arc::from("a.service"), text.as_bytes()).unwrap()
    }

    fn triples(text: &str) -> Vec<(String, String, String)> {
        let options = read(text).options.into_iter();
        options.map(|option| (option.section.to_string(), option.name, option.value)).collect()
    }

    #[track_caller]
    fn values(text: &str, expected: &[&str]) {
        let found: Vec<String> = triples(text).into_iter().map(|(_, _, value)| value).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn sections_assignments_and_comments_are_distinguished() {
        let text = "\u{feff}# c\n; d\n[Unit]\r\nA = b\n\n[X-Own]\nC=d=e\n [Unit]\n  F=\n";
        let expected = [("Unit", "A", "b"), ("X-Own", "C", "d=e"), ("Unit", "F", "")];
        let expected = expected.map(|(a, b, c)| (a.to_string(), b.to_string(), c.to_string()));
        assert_eq!(triples(text), expected);
    }

    #[test]
    fn line_continues_after_a_backslash_across_comments() {
        values("[S]\nA=one \\\n  two\\\n# no\n;no\n three\nB=x\n", &["one    two  three", "x"]);
        values("[S]\nA=one\\\n\nB=x\n", &["one", "x"]);
        values("[S]\nA=even \\\\\nB=x\n", &["even \\\\", "x"]);
        values("[S]\nA=end\\", &["end"]);
        values("[S]\nA=blank behind \\ \nB=x\n", &["blank behind \\", "x"]);
    }

    #[test]
    fn each_line_of_a_continued_value_keeps_its_place() {
        let option = &read("[S]\n  Exec = one \\\n\n[S]\nE=a \\\n# c\n   bcd\n").options;
        assert_eq!((option[0].at, option[0].value_at()), (at(2, 3), at(2, 10)));
        let offset = option[1].value.find("cd").unwrap();
        assert_eq!(option[1].spot(offset), at(7, 5));
        let mut spots = option[1].spots();
        assert_eq!(
            [0, 1, offset, offset + 1].map(|at| spots.at(at)),
            [at(5, 3), at(5, 4), at(7, 5), at(7, 6)]
        );
    }

    fn at(line: u32, column: u32) -> Spot {
        Spot { line, column }
    }

    #[test]
    fn invalid_lines_are_reported_and_skipped() {
        let read = read("X=1\n[S]\nnonsense\n=2\nA=b\n");
        let lines: Vec<u32> = read.found.iter().map(|found| found.at.line).collect();
        assert_eq!((lines, read.options.len()), (vec![1, 3, 4], 1));
    }

    #[test]
    fn unclosed_section_line_makes_the_file_unusable() {
        let found = parse(&Arc::from("a"), b"[Unit\nA=b\n").unwrap_err();
        assert_eq!((found[0].at.line, found[0].code.as_str()), (1, "section"));
        let long = vec![b'#'; limit::IMPORTED_FILE + 1];
        assert_eq!(parse(&Arc::from("a"), &long).unwrap_err()[0].code, "too-large");
        assert_eq!(parse(&Arc::from("a"), b"[S]\nA=\xff\n").unwrap_err()[0].code, "encoding");
    }
}
