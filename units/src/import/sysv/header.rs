//! Reads the header comments of a script into a list of lines with their places. These are the
//! block `INIT INFO`, and Red Hat's comments at the top of the file. This module does not
//! interpret the lines and drops none. It accepts any bytes; invalid UTF-8 is shown with
//! replacement characters.

use super::table::{self, Word};
use crate::limit;
use crate::text::diagnostic::Diagnostic;
use crate::text::yaml::Spot;
use std::sync::Arc;

/// The name of the block's lines in a report.
const BLOCK: &str = "INIT INFO";

/// A header line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// The section of the report that lists the line.
    pub(super) section: Arc<str>,
    /// The keyword before the colon. A continuation line has the keyword of its first line. Empty
    /// if the line has none.
    pub(super) name: String,
    /// The meaning of the keyword; `None` if it is unknown.
    pub(super) word: Option<Word>,
    /// The text after the colon.
    pub(super) value: String,
    /// The place of the keyword.
    pub(super) at: Spot,
    /// The number of the line's block. Only the first block has an effect.
    pub(super) block: usize,
}

/// The header of a script.
#[derive(Debug, Default)]
pub(super) struct Header {
    /// The lines in the order of the text.
    pub(super) lines: Vec<Line>,
    /// The script has a block `INIT INFO`.
    pub(super) has_block: bool,
    /// Errors that concern the whole header.
    pub(super) found: Vec<Diagnostic>,
}

/// Reads the header comments.
pub(super) fn read(file: &Arc<str>, text: &str) -> Header {
    let mut reader = Reader {
        file,
        header: Header::default(),
        sections: [Arc::from(BLOCK), Arc::from("chkconfig")],
        open_at: None,
        blocks: 0,
        at_head: true,
        is_open: false,
    };
    for (index, line) in text.trim_start_matches('\u{feff}').split('\n').enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        if !reader.line(line.trim_end(), number) {
            break;
        }
    }
    reader.end_block();
    reader.header
}

struct Reader<'a> {
    file: &'a Arc<str>,
    header: Header,
    /// The section names of the two kinds of lines.
    sections: [Arc<str>; 2],
    /// The start of the open block, if the current line is in one.
    open_at: Option<Spot>,
    /// The number of blocks so far.
    blocks: usize,
    /// The file has had only comments so far.
    at_head: bool,
    /// The previous line may have a continuation.
    is_open: bool,
}

impl Reader<'_> {
    /// Reads one line. Returns false when the header has too many lines.
    fn line(&mut self, line: &str, number: u32) -> bool {
        if self.header.lines.len() >= limit::IMPORTED_OPTIONS {
            let message = format!("more than {} lines of a header", limit::IMPORTED_OPTIONS);
            self.fail("too-large", Spot { line: number, column: 1 }, &message, "");
            self.open_at = None;
            return false;
        }
        let Some(comment) = line.strip_prefix('#') else {
            self.is_open = false;
            if !line.is_empty() {
                self.at_head = false;
                self.end_block();
            }
            return true;
        };
        match (marker(line), self.open_at) {
            (Some(Marker::Begin), _) => {
                self.end_block();
                self.open_at = Some(Spot { line: number, column: 1 });
                self.blocks += 1;
                self.header.has_block = true;
                self.is_open = false;
            }
            (Some(Marker::End), Some(_)) => {
                self.open_at = None;
                self.is_open = false;
            }
            (_, Some(_)) => self.of_block(comment, number),
            (_, None) if self.at_head => self.of_head(comment, number),
            (_, None) => {}
        }
        true
    }

    /// Reports a block that has no end.
    fn end_block(&mut self) {
        if let Some(at) = self.open_at.take() {
            let message = "the header that begins here is not closed";
            let hint = "write `### END INIT INFO` behind its last line";
            self.fail("header", at, message, hint);
        }
    }

    fn fail(&mut self, code: &str, at: Spot, message: &str, hint: &str) {
        if self.header.found.len() < limit::DIAGNOSTICS_PER_FILE {
            let error = Diagnostic::error(code, at.of(self.file), message).with_hint(hint);
            self.header.found.push(error);
        }
    }

    fn of_block(&mut self, comment: &str, number: u32) {
        let text = comment.trim();
        if text.is_empty() {
            return;
        }
        let is_indented = comment.starts_with('\t') || comment.starts_with("  ");
        let keyword = text.split_once(':').filter(|(keyword, _)| is_keyword(keyword));
        // In the LSB only a description may continue, and only on an indented line.
        if self.is_open && (is_indented || keyword.is_none()) {
            return self.go_on(comment, text, number);
        }
        let (name, value) = keyword.unwrap_or(("", text));
        let known = table::find(&table::LSB, name);
        self.is_open = known.is_some_and(|(_, word)| word == Word::Long);
        let name = known.map_or(name, |(name, _)| name);
        self.push(0, name, known.map(|(_, word)| word), value, column(comment), number);
    }

    fn of_head(&mut self, comment: &str, number: u32) {
        let text = comment.trim();
        if std::mem::take(&mut self.is_open) {
            self.is_open = text.ends_with('\\');
            return self.go_on(comment, text.trim_end_matches('\\'), number);
        }
        let Some((keyword, value)) = text.split_once(':') else { return };
        let Some((name, word)) = table::find(&table::CHKCONFIG, keyword) else { return };
        self.is_open = word == Word::Long && value.ends_with('\\');
        let value = value.trim_end_matches('\\');
        self.push(1, name, Some(word), value, column(comment), number);
    }

    fn push(
        &mut self,
        section: usize,
        name: &str,
        word: Option<Word>,
        value: &str,
        column: u32,
        line: u32,
    ) {
        let [block, chkconfig] = &self.sections;
        self.header.lines.push(Line {
            section: if section == 0 { block.clone() } else { chkconfig.clone() },
            name: name.to_string(),
            word,
            value: value.trim().to_string(),
            at: Spot { line, column },
            block: if section == 0 { self.blocks } else { 0 },
        });
    }

    fn go_on(&mut self, comment: &str, text: &str, line: u32) {
        let Some(before) = self.header.lines.last() else { return };
        let more = Line {
            value: text.trim().to_string(),
            at: Spot { line, column: column(comment) },
            ..before.clone()
        };
        self.header.lines.push(more);
    }
}

/// Returns the column at which the text of a comment starts; the comment has text.
fn column(comment: &str) -> u32 {
    let blanks = comment.chars().take_while(|c| c.is_whitespace()).count();
    u32::try_from(blanks + 2).unwrap_or(u32::MAX)
}

fn is_keyword(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

enum Marker {
    Begin,
    End,
}

fn marker(line: &str) -> Option<Marker> {
    let mut words = line.split_whitespace();
    let four = [words.next()?, words.next()?, words.next()?, words.next()?];
    match (four, words.next()) {
        (["###", "BEGIN", "INIT", "INFO"], None) => Some(Marker::Begin),
        (["###", "END", "INIT", "INFO"], None) => Some(Marker::End),
        _ => None,
    }
}
