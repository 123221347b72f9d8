//! Builds the tree of [`crate::text::yaml`] from the parser's events, with an explicit stack
//! (nothing here recurses), and enforces the limits.

use crate::limit;
use crate::text::diagnostic::Diagnostic;
use crate::text::yaml::{Document, Limits, Node, Pair, Reading, Scalar, Spot, Value};
use granit_parser::{ErrorKind, Event, Parser, Placement, ScalarStyle, ScanError, Span, StrInput};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A list or map that is not closed yet.
enum Open {
    List(Spot, Vec<Node>),
    Map { at: Spot, pairs: Vec<Pair>, keys: BTreeSet<String>, key: Option<(String, Spot)> },
}

pub(crate) struct Reader<'a> {
    file: &'a Arc<str>,
    text: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    limits: &'a Limits,
    nodes: usize,
    open: Vec<Open>,
    root: Option<Node>,
    comments: Vec<(Spot, bool)>,
    diagnostics: Vec<Diagnostic>,
    /// The present document has errors.
    faulty: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a Arc<str>, text: &'a str, limits: &'a Limits) -> Reader<'a> {
        let options = granit_parser::options! {
            disallow_directives: true,
            max_buffered_comment_events: limits.bytes,
            flow_nesting_limit: limits.depth,
            block_nesting_limit: limits.depth,
        };
        Reader {
            file,
            text,
            parser: Parser::new_from_str_with_options(text, options),
            limits,
            nodes: 0,
            open: Vec::new(),
            root: None,
            comments: Vec::new(),
            diagnostics: Vec::new(),
            faulty: false,
        }
    }

    pub(crate) fn run(mut self, reading: &mut Reading) {
        loop {
            match self.parser.next_event() {
                None => break,
                Some(Ok((event, span))) => {
                    self.split(&event, span, reading);
                    if matches!(event, Event::DocumentEnd) {
                        self.end_document(reading);
                    } else if !self.take(event, span) && !self.next_document(reading) {
                        break;
                    }
                }
                Some(Err(error)) => {
                    self.scan_error(&error);
                    if !self.next_document(reading) {
                        break;
                    }
                }
            }
        }
        self.end_document(reading);
        reading.diagnostics.append(&mut self.diagnostics);
    }

    /// Skips the present document. Returns false if there is no other one, or enough errors were
    /// reported.
    fn next_document(&mut self, reading: &mut Reading) -> bool {
        self.end_document(reading);
        self.diagnostics.len() < limit::DIAGNOSTICS_PER_FILE
            && self.nodes <= self.limits.nodes
            && matches!(self.parser.proceed_next_document(), Ok(true))
    }

    /// Ends the document before a second `unit`, where a `---` is missing.
    fn split(&mut self, event: &Event<'_>, span: Span, reading: &mut Reading) {
        if let (Event::Scalar(text, ..), [Open::Map { keys, key: None, .. }]) =
            (event, self.open.as_slice())
            && text == "unit"
            && keys.contains("unit")
        {
            let message = "a second `unit` in one document".to_string();
            let hint = "put a line `---` before it: each unit is a document of its own";
            self.report("second-unit", spot(span), message, hint);
            self.end_document(reading);
            let (pairs, keys) = (Vec::new(), BTreeSet::new());
            self.open.push(Open::Map { at: spot(span), pairs, keys, key: None });
            self.faulty = true;
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the parser's list of events may grow")]
    /// Handles one event. Returns false if the rest of the document must be skipped.
    fn take(&mut self, event: Event<'_>, span: Span) -> bool {
        let at = spot(span);
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(_, anchor, tag)
            | Event::MappingStart(_, anchor, tag) => (*anchor != 0, tag.is_some()),
            _ => (false, false),
        };
        if anchor || tag {
            return self.refuse(at, if anchor { "an anchor (`&name`)" } else { "a tag (`!name`)" });
        }
        match event {
            Event::Scalar(text, style, ..) => {
                self.scalar(at, text.into_owned(), !matches!(style, ScalarStyle::Plain));
            }
            Event::SequenceStart(..) if self.value_is_next() => {
                self.open.push(Open::List(at, Vec::new()));
            }
            Event::MappingStart(..) if self.value_is_next() => {
                let (pairs, keys) = (Vec::new(), BTreeSet::new());
                self.open.push(Open::Map { at, pairs, keys, key: None });
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                return self.refuse(at, "a list or map as a key");
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(_) => return self.refuse(at, "an alias (`*name`)"),
            Event::Comment(text, Placement::Right) => {
                self.comments.push((at, text.starts_with(char::is_whitespace) || text.is_empty()));
            }
            _ => {}
        }
        self.nodes += 1;
        if self.nodes > self.limits.nodes {
            let message = format!("more than {} values", self.limits.nodes);
            self.report("too-large", at, message, "");
            return false;
        }
        true
    }

    /// Returns true if no open map waits for a key.
    fn value_is_next(&self) -> bool {
        !matches!(self.open.last(), Some(Open::Map { key: None, .. }))
    }

    fn refuse(&mut self, at: Spot, what: &str) -> bool {
        let hint = "write the value out; if the text itself is meant, quote it";
        self.report("yaml", at, format!("{what} is not allowed here"), hint);
        false
    }

    fn report(&mut self, code: &str, at: Spot, message: String, hint: &str) {
        self.faulty = true;
        if self.diagnostics.len() < limit::DIAGNOSTICS_PER_FILE {
            let diagnostic = Diagnostic::error(code, at.of(self.file), message).with_hint(hint);
            self.diagnostics.push(diagnostic);
        }
    }

    fn scan_error(&mut self, error: &ScanError) {
        let at = Spot {
            line: number(error.marker().line()),
            column: number(error.marker().col()).saturating_add(1),
        };
        let (message, hint) = yaml_mistake(error.kind());
        let kind = error.kind();
        let at = match is_about_a_tab(kind) {
            true => self.tab(at),
            // The parser reports the line that would end the quote; the key tells where it starts.
            false if matches!(kind, ErrorKind::InvalidQuotedScalarIndent) => {
                self.last_key().unwrap_or(at)
            }
            false => at,
        };
        self.report("yaml", at, message, hint);
    }

    /// Returns the place of the key whose value is being read.
    fn last_key(&self) -> Option<Spot> {
        let Some(Open::Map { key: Some((_, at)), .. }) = self.open.last() else { return None };
        Some(*at)
    }

    /// Returns the place of the tab in the indentation of this line or the next. The parser reports
    /// the line before the tab if a value ends there.
    fn tab(&self, at: Spot) -> Spot {
        let first = (at.line as usize).saturating_sub(1);
        let mut lines = self.text.lines().zip(1_u32..).skip(first).take(2);
        let found = lines.find_map(|(text, line)| {
            let indent = text.chars().take_while(|c| matches!(c, ' ' | '\t'));
            let tab = indent.zip(1_u32..).find(|(c, _)| *c == '\t')?;
            Some(Spot { line, column: tab.1 })
        });
        found.unwrap_or(at)
    }

    fn scalar(&mut self, at: Spot, text: String, quoted: bool) {
        if text.contains('\0') {
            let hint = "no value can contain it, because the kernel ends texts with it";
            self.report("control-character", at, "a NUL character".to_string(), hint);
        }
        if let Some(Open::Map { keys, key: key @ None, .. }) = self.open.last_mut() {
            let double = !keys.insert(text.clone());
            let message = format!("the key `{text}` is given twice");
            *key = Some((text, at));
            if double {
                let hint = "keep one; several values are written as a list";
                self.report("duplicate-key", at, message, hint);
            }
            return;
        }
        self.put(Node { at, value: Value::Scalar(Scalar { text, quoted }) });
    }

    fn close(&mut self) {
        match self.open.pop() {
            Some(Open::List(at, list)) => self.put(Node { at, value: Value::List(list) }),
            Some(Open::Map { at, pairs, .. }) => self.put(Node { at, value: Value::Map(pairs) }),
            None => {}
        }
    }

    fn put(&mut self, node: Node) {
        match self.open.last_mut() {
            Some(Open::List(_, list)) => list.push(node),
            Some(Open::Map { pairs, key, .. }) => {
                if let Some((key, at)) = key.take() {
                    pairs.push(Pair { key, at, node });
                }
            }
            None => self.root = Some(node),
        }
    }

    fn end_document(&mut self, reading: &mut Reading) {
        while !self.open.is_empty() {
            self.close();
        }
        let comments = std::mem::take(&mut self.comments);
        let broken = std::mem::take(&mut self.faulty);
        let Some(root) = self.root.take() else { return };
        if root.scalar().is_some_and(Scalar::is_null) && !broken {
            return;
        }
        reading.documents.push(Document { root, broken, comments });
    }
}

fn spot(span: Span) -> Spot {
    Spot { line: number(span.start.line()), column: number(span.start.col()).saturating_add(1) }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns true if the parser met a tab where it expects spaces.
fn is_about_a_tab(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::TabInBlockIndentation
            | ErrorKind::TabInIndentation
            | ErrorKind::TabNotAllowed
            | ErrorKind::TabInPlainScalar
            | ErrorKind::TabAtBlockScalarStart
    )
}

/// Returns the message and the hint for a mistake of the YAML parser.
#[allow(clippy::wildcard_enum_match_arm, reason = "other errors keep the parser's own words")]
fn yaml_mistake(kind: &ErrorKind) -> (String, &'static str) {
    let (message, hint) = match kind {
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
            ("`: ` within a value", "quote the whole value: 'echo a: b'")
        }
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            ("a line that is no `key: value`", "put `: ` behind the key, or quote the value")
        }
        kind if is_about_a_tab(kind) => ("a tab as indentation", "indent with spaces"),
        ErrorKind::InvalidIndentation
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedDocumentStart
        | ErrorKind::BlockSequenceEntryNotAllowed => {
            ("this does not fit the lines above it", "check the indentation")
        }
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::DocumentIndicatorInQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent => {
            ("a quote is opened and never closed", "close it on the same line")
        }
        ErrorKind::UnknownQuotedScalarEscape => (
            "an unknown escape within double quotes",
            "write `\\\\` for a backslash, or use single quotes",
        ),
        ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            ("text behind the closing quote", "quote the whole value, or nothing of it")
        }
        ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::ExpectedFlowSequenceSeparator
        | ErrorKind::ExpectedFlowMappingSeparator => {
            ("a bracket is opened and never closed", "close it, or quote the value")
        }
        ErrorKind::RecursionLimitExceeded => {
            ("lists and maps nest too deeply", "no key needs that")
        }
        ErrorKind::MissingAnchorOrAliasName => {
            ("a value that begins with `*` or `&`", "quote the value: '*'")
        }
        ErrorKind::DirectiveDisallowed => ("a YAML directive (`%…`)", "delete it"),
        ErrorKind::UnknownAnchor => (
            "an alias (`*name`) is not allowed here",
            "write the value out; if the text itself is meant, quote it",
        ),
        ErrorKind::UnexpectedCharacter { .. } => {
            ("a value may not begin with this character", "quote the value")
        }
        ErrorKind::CommentInterceptedScalar => {
            ("a comment within a value of several lines", "quote the value, or move the comment")
        }
        ErrorKind::InvalidDocumentEnd => (
            "text behind the `...` that ends a document",
            "begin the next document on its own line",
        ),
        other => return (other.to_string(), ""),
    };
    (message.to_string(), hint)
}
