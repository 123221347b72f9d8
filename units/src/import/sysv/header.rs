//! The comments of a script that say something about it, as a list of lines with their places: those
//! of the block `INIT INFO`, and those of Red Hat's among the comments at its head. Nothing is
//! interpreted or lost here; any bytes are a text, what is not UTF-8 in them is shown as such.

use super::table::{self, Word};
use crate::limit;
use crate::text::diagnostic::Diagnostic;
use crate::text::yaml::Spot;
use std::sync::Arc;

/// The name of the block's lines in a report.
const BLOCK: &str = "INIT INFO";

/// A line that says something.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Where it belongs.
    pub(super) section: Arc<str>,
    /// The word before the colon; of a line that goes on the one of the first; empty: there is none.
    pub(super) name: String,
    /// What it says; None: nobody knows.
    pub(super) word: Option<Word>,
    /// Behind the colon.
    pub(super) value: String,
    /// Where its word begins.
    pub(super) at: Spot,
    /// The place of its block among the blocks: only the first counts.
    pub(super) block: usize,
}

/// What is said about a script.
#[derive(Debug, Default)]
pub(super) struct Header {
    /// In the order of the text.
    pub(super) lines: Vec<Line>,
    /// There is a block `INIT INFO`.
    pub(super) has_block: bool,
    /// What is wrong with it as a whole.
    pub(super) found: Vec<Diagnostic>,
}

/// Reads the header comments.
pub(super) fn read(file: &Arc<str>, text: &str) -> Header {
    let mut reader = Reader {
        file,
        header: Header::default(),
        sections: [Arc::from(BLOCK), Arc::from("chkconfig")],
        begun: None,
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
    /// The names of both kinds of lines.
    sections: [Arc<str>; 2],
    /// Where the block begins that this line is in.
    begun: Option<Spot>,
    /// How many have begun.
    blocks: usize,
    /// Nothing but comments so far.
    at_head: bool,
    /// The line before can go on.
    is_open: bool,
}

impl Reader<'_> {
    /// False: there are too many.
    fn line(&mut self, line: &str, number: u32) -> bool {
        if self.header.lines.len() >= limit::IMPORTED_OPTIONS {
            let message = format!("more than {} lines of a header", limit::IMPORTED_OPTIONS);
            self.fail("too-large", Spot { line: number, column: 1 }, &message, "");
            self.begun = None;
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
        match (marker(line), self.begun) {
            (Some(Marker::Begin), _) => {
                self.end_block();
                self.begun = Some(Spot { line: number, column: 1 });
                self.blocks += 1;
                self.header.has_block = true;
                self.is_open = false;
            }
            (Some(Marker::End), Some(_)) => {
                self.begun = None;
                self.is_open = false;
            }
            (_, Some(_)) => self.of_block(comment, number),
            (_, None) if self.at_head => self.of_head(comment, number),
            (_, None) => {}
        }
        true
    }

    /// A block that nothing has closed.
    fn end_block(&mut self) {
        if let Some(at) = self.begun.take() {
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
        // The Standard lets nothing but a description go on, and only indented.
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
