//! Parses YAML into a small tree with places. Nothing here knows what a unit is, except that a
//! document has one key `unit`: a second one begins a document that lacks its `---`.
//!
//! A scalar stays the written text, with a flag for quotes: the key, not a YAML schema, decides
//! what `022`, `1.50` and `8080` mean. Anchors, aliases, tags, directives and keys that are not
//! plain text are refused with their place, so no text expands to more than what is written. Both
//! `---` and `...` end a document.
//!
//! Users of the tree: [`crate::unit::manifest`], [`crate::unit::settings_file`],
//! [`crate::unit::policy_file`], and the scenario files.

mod reader;

use crate::limit;
use crate::text::diagnostic::{Diagnostic, Place};
use crate::text::encoding;
use reader::Reader;
use std::sync::Arc;

/// Limits of one text.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Limit of bytes.
    pub bytes: usize,
    /// Limit of nested maps and lists.
    pub depth: usize,
    /// Limit of scalars, lists and maps in all documents together.
    pub nodes: usize,
    /// The text must end with a line break, so that truncation by a crash is noticed.
    pub whole_lines: bool,
}

impl Limits {
    /// The limits of a native unit file.
    pub const UNIT_FILE: Limits = Limits {
        bytes: limit::UNIT_FILE,
        depth: limit::YAML_DEPTH,
        nodes: limit::YAML_NODES,
        whole_lines: true,
    };
}

/// A place in a text. Line and column count from 1, the column in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl Spot {
    /// Returns the place in a file.
    pub fn of(self, file: &Arc<str>) -> Place {
        Place { file: file.clone(), line: self.line, column: self.column }
    }
}

/// A scalar as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// The text without quotes, with escapes resolved and folded lines joined.
    pub text: String,
    /// The scalar is quoted, or a `|` or `>` block, and so cannot mean null.
    pub quoted: bool,
}

impl Scalar {
    /// Returns true for an unquoted null of YAML: nothing, `~`, `null`.
    pub fn is_null(&self) -> bool {
        !self.quoted && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }
}

/// The value of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Scalar(Scalar),
    /// `- a` or `[a]`.
    List(Vec<Node>),
    /// `k: v` or `{k: v}`, in the order of the text. Only a broken document has a key twice.
    Map(Vec<Pair>),
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The place.
    pub at: Spot,
    /// The value.
    pub value: Value,
}

/// One entry of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The key.
    pub key: String,
    /// The place of the key.
    pub at: Spot,
    /// The value.
    pub node: Node,
}

impl Node {
    /// A quoted text.
    pub fn quoted(at: Spot, text: &str) -> Node {
        Node { at, value: Value::Scalar(Scalar { text: text.to_string(), quoted: true }) }
    }

    /// Returns the text of a scalar.
    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            Value::List(_) | Value::Map(_) => None,
        }
    }

    /// Returns the entries of a list.
    pub fn list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(list) => Some(list),
            Value::Scalar(_) | Value::Map(_) => None,
        }
    }

    /// Returns the entries of a map.
    pub fn map(&self) -> Option<&[Pair]> {
        match &self.value {
            Value::Map(map) => Some(map),
            Value::Scalar(_) | Value::List(_) => None,
        }
    }

    /// Returns the first scalar that meets the condition, within this node.
    pub(crate) fn find(&self, is: &dyn Fn(&str) -> bool) -> Option<&Node> {
        match &self.value {
            Value::Scalar(scalar) => is(&scalar.text).then_some(self),
            Value::List(list) => list.iter().find_map(|node| node.find(is)),
            Value::Map(pairs) => pairs.iter().find_map(|pair| pair.node.find(is)),
        }
    }

    /// Returns the value of `key` in a map.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.map()?.iter().find(|pair| pair.key == key).map(|pair| &pair.node)
    }

    /// Returns the words for messages: `a text`, `a list`, `a map`, `nothing`.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Scalar(scalar) if scalar.is_null() => "nothing",
            Value::Scalar(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

/// One document of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The value; of a broken document, the part before the error.
    pub root: Node,
    /// The document ended in an error and may be incomplete.
    pub broken: bool,
    /// The place of each comment that follows something on its line, and whether a space follows
    /// its `#`.
    pub comments: Vec<(Spot, bool)>,
}

/// The result of parsing a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The documents that are not empty, in order.
    pub documents: Vec<Document>,
    /// All errors; empty if every document is complete.
    pub diagnostics: Vec<Diagnostic>,
}

/// Parses all documents, or returns all errors.
pub fn parse(file: &str, bytes: &[u8], limits: &Limits) -> Result<Vec<Document>, Vec<Diagnostic>> {
    let reading = read(&Arc::from(file), bytes, limits);
    if reading.diagnostics.is_empty() { Ok(reading.documents) } else { Err(reading.diagnostics) }
}

/// Parses as much as possible: a document with an error is kept up to the error and marked, and
/// parsing continues at the next.
pub fn read(file: &Arc<str>, bytes: &[u8], limits: &Limits) -> Reading {
    let mut reading = Reading::default();
    if bytes.len() > limits.bytes {
        let message = format!("larger than {} KiB", limits.bytes / 1024);
        let place = Spot::default().of(file);
        reading.diagnostics.push(Diagnostic::error("too-large", place, message));
        return reading;
    }
    let (text, cut) = match encoding::decode(file, bytes, limits.whole_lines) {
        Ok(decoded) => decoded,
        Err(diagnostics) => {
            reading.diagnostics = diagnostics;
            return reading;
        }
    };
    Reader::new(file, text, limits).run(&mut reading);
    if let Some(diagnostic) = cut {
        if let Some(last) = reading.documents.last_mut() {
            last.broken = true;
        }
        reading.diagnostics.push(diagnostic);
    }
    for diagnostic in &mut reading.diagnostics {
        diagnostic.excerpt = encoding::excerpt(text, diagnostic.at.line);
    }
    reading
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Reading {
        read(&Arc::from("x.yaml"), text.as_bytes(), &Limits::UNIT_FILE)
    }

    #[track_caller]
    fn one(text: &str) -> Node {
        let reading = read_text(text);
        assert_eq!(reading.diagnostics, Vec::new(), "{text}");
        reading.documents.into_iter().next().unwrap().root
    }

    #[track_caller]
    fn mistakes(text: &str) -> Vec<(u32, u32, String)> {
        let reading = read_text(text);
        assert!(!reading.diagnostics.is_empty(), "{text}");
        let tell = |d: Diagnostic| (d.at.line, d.at.column, d.code);
        reading.diagnostics.into_iter().map(tell).collect()
    }

    #[test]
    fn unclosed_yaml_quote_is_reported_at_its_start() {
        for text in ["a: b\nc: \"d\n", "a: b\nc: 'd\ne: f\n", "a: b\nc: \"d\n\ne: f\n"] {
            let told = read_text(text).diagnostics.remove(0);
            assert_eq!((told.at.line, told.at.column), (2, 1), "{text}: {told}");
            assert_eq!(told.message, "a quote is opened and never closed", "{text}");
        }
    }

    #[test]
    fn scalar_keeps_its_text_as_written() {
        let node = one("umask: 022\nrestart-delay: 1.50\nprovides: 8080\nflag: yes\nq: '007'\n");
        for (key, text) in [("umask", "022"), ("restart-delay", "1.50"), ("provides", "8080")] {
            assert_eq!(node.get(key).unwrap().scalar().unwrap().text, text);
        }
        assert!(!node.get("flag").unwrap().scalar().unwrap().quoted);
        assert!(node.get("q").unwrap().scalar().unwrap().quoted);
    }

    #[test]
    fn null_is_distinguished_from_a_quoted_empty_text() {
        let node = one("a:\nb: ~\nc: null\nd: ''\ne: 'null'\n");
        for (key, null) in [("a", true), ("b", true), ("c", true), ("d", false), ("e", false)] {
            assert_eq!(node.get(key).unwrap().scalar().unwrap().is_null(), null, "{key}");
        }
    }

    #[test]
    fn keys_and_values_have_their_places() {
        let node = one("# ä\nunit:  maddy\nenv:\n  A: ä\n  B: [x, yy]\n");
        let pairs = node.map().unwrap();
        let unit = &pairs[0];
        assert_eq!((unit.at, unit.node.at), (at(2, 1), at(2, 8)));
        let env = pairs[1].node.map().unwrap();
        assert_eq!((env[0].at, env[0].node.at), (at(4, 3), at(4, 6)));
        assert_eq!(env[1].node.list().unwrap()[1].at, at(5, 10));
    }

    fn at(line: u32, column: u32) -> Spot {
        Spot { line, column }
    }

    #[test]
    fn both_document_markers_end_a_document() {
        let reading = read_text("a: 1\n...\nb: 2\n---\nc: 3\n...\n---\n...\n# end\n");
        assert_eq!(reading.diagnostics, Vec::new());
        let keys: Vec<_> =
            reading.documents.iter().map(|d| d.root.map().unwrap()[0].key.clone()).collect();
        assert_eq!(keys, ["a", "b", "c"]);
    }

    #[test]
    fn error_ends_its_document_and_parsing_continues_at_the_next() {
        let reading = read_text("unit: a\nx: b: c\n---\nunit: b\n");
        assert_eq!(reading.diagnostics.len(), 1);
        let broken: Vec<_> = reading.documents.iter().map(|d| d.broken).collect();
        assert_eq!(broken, [true, false]);
        assert_eq!(reading.documents[0].root.get("unit").unwrap().scalar().unwrap().text, "a");
    }

    #[test]
    fn colon_within_a_value_is_reported_with_a_hint() {
        let reading = read_text("exec-start: echo a: b\n");
        let diagnostic = &reading.diagnostics[0];
        assert_eq!((diagnostic.at.line, diagnostic.at.column), (1, 19));
        assert!(diagnostic.hint.contains("quote"), "{diagnostic:?}");
        assert_eq!(diagnostic.excerpt, "exec-start: echo a: b");
    }

    #[test]
    fn duplicate_key_is_refused_at_its_second_place() {
        assert_eq!(mistakes("a: 1\nb: 2\na: 3\n"), [(3, 1, "duplicate-key".to_string())]);
        assert_eq!(mistakes("e:\n  A: 1\n  A: 2\n"), [(3, 3, "duplicate-key".to_string())]);
    }

    #[test]
    fn anchors_aliases_tags_directives_and_non_text_keys_are_refused() {
        for text in [
            "a: &x 1\n",
            "a: *x\n",
            "a: !!int 1\n",
            "%YAML 1.2\n---\na: 1\n",
            "[a, b]: 1\n",
            "{a: b}: 1\n",
            "? [a]\n: 1\n",
            "a: &x [*x]\n",
        ] {
            assert_eq!(mistakes(text)[0].2, "yaml", "{text}");
        }
    }

    #[test]
    fn file_without_a_final_line_break_is_reported_and_its_last_document_broken() {
        let reading = read_text("unit: a\n---\nunit: b\nexec-start: /bin/rm -r /tm");
        assert_eq!(reading.diagnostics[0].code, "truncated");
        let broken: Vec<_> = reading.documents.iter().map(|d| d.broken).collect();
        assert_eq!(broken, [false, true]);
    }

    #[test]
    fn carriage_returns_and_a_byte_order_mark_change_nothing() {
        let node = one("\u{feff}a: 1\r\nb:\r\n- x\r\n");
        assert_eq!(node.get("a").unwrap().scalar().unwrap().text, "1");
        assert_eq!(node.map().unwrap()[1].at, at(2, 1));
        assert_eq!(node.get("b").unwrap().list().unwrap()[0].scalar().unwrap().text, "x");
    }

    #[test]
    fn invisible_characters_are_refused_at_their_place() {
        let cases = [
            ("a: x\0y\n", 1, 5),
            ("a: 1\nb: \u{202e}x\n", 2, 4),
            ("a: 1\u{2028}\n", 1, 5),
            ("a: 1\rb: 2\n", 1, 5),
            ("a: \u{1b}[31m\n", 1, 4),
            ("a: 1\n\u{feff}b: 2\n", 2, 1),
        ];
        for (text, line, column) in cases {
            assert_eq!(mistakes(text), [(line, column, "control-character".to_string())]);
        }
        let reading = read(&Arc::from("x"), b"a: 1\nb: \xff\n", &Limits::UNIT_FILE);
        assert_eq!((reading.diagnostics[0].at.line, reading.diagnostics[0].at.column), (2, 4));
        assert_eq!(mistakes("a: \"x\\0y\"\n")[0].2, "control-character");
    }

    #[test]
    fn depth_and_size_limits_apply_before_the_tree_is_built() {
        let deep = "{a: ".repeat(50_000);
        assert!(deep.len() < limit::UNIT_FILE);
        let reading = read_text(&format!("{deep}\n"));
        assert!(reading.diagnostics[0].message.contains("deep"), "{:?}", reading.diagnostics);
        let wide = format!("a: [{}]\n", "x,".repeat(100_000));
        assert_eq!(mistakes(&wide)[0].2, "too-large");
        let long = "a".repeat(limit::UNIT_FILE + 1);
        assert_eq!(mistakes(&long)[0].2, "too-large");
    }

    #[test]
    fn many_comments_are_accepted() {
        let node = one(&format!("{}a:\n{}  - x\n", "# c\n".repeat(2000), "  # c\n".repeat(2000)));
        assert_eq!(node.get("a").unwrap().list().unwrap().len(), 1);
    }

    #[test]
    fn comment_after_a_value_is_recorded_with_its_place() {
        let reading = read_text("a: echo #x\nb: 1 # fine\n# above\nc: 2\n");
        assert_eq!(reading.documents[0].comments, [(at(1, 9), false), (at(2, 6), true)]);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            read(&Arc::from("x"), &bytes, &Limits::UNIT_FILE);
        }

        #[test]
        fn any_yaml_like_text_is_read_without_a_panic(
            text in "([a-c]: |- |\\[|\\{|\\]|\\}|'|\"|\n|  |\\.\\.\\.\n|---\n|&a |\\*a |#|,|x|\\?|\\|\n)*"
        ) {
            let reading = read_text(&text);
            let whole = reading.documents.iter().all(|document| !document.broken);
            proptest::prop_assert!(!reading.diagnostics.is_empty() || whole);
        }
    }
}
