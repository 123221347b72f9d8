//! A unit file as written: one manifest for each document, with known keys and their places; values
//! are still text. Drop-ins are merged here, key by key. [`crate::unit::semantics`] interprets the
//! values and checks whether they fit together.

use crate::limit;
use crate::text::diagnostic::{Diagnostic, Place, Severity};
use crate::text::name::Name;
use crate::text::specifier;
use crate::text::unit_name::UnitName;
use crate::text::yaml::{Document, Node, Pair, Spot, Value};
use crate::unit::key::{self, Key, Shape};
use crate::unit::key_table::{self, SANDBOX};
use std::sync::Arc;

/// A key and its value as written.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: &'static Key,
    /// The file, one of those merged.
    pub file: Arc<str>,
    /// The place of the key.
    pub at: Spot,
    /// The value.
    pub node: Node,
}

impl Entry {
    /// The place of the key.
    pub fn place(&self) -> Place {
        self.at.of(&self.file)
    }
}

/// One unit as written.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The file.
    pub file: Arc<str>,
    /// The place of its `unit:` line, or of its first line if there is none.
    pub at: Spot,
    /// The name, if it can be recognized.
    pub name: Option<Name>,
    /// The keys except `unit` and `name`, each once.
    pub entries: Vec<Entry>,
    /// The diagnostics so far.
    pub diagnostics: Vec<Diagnostic>,
    /// Parts of the unit may be missing.
    pub broken: bool,
    /// The unit comes from a file of another init system: its order-only edges give way in a ring.
    pub imported: bool,
}

impl Manifest {
    /// Adds a diagnostic, up to [`limit::DIAGNOSTICS_PER_FILE`].
    pub fn tell(&mut self, said: Diagnostic) {
        if self.diagnostics.len() < limit::DIAGNOSTICS_PER_FILE {
            self.diagnostics.push(said);
        }
    }

    /// Adds a diagnostic at a place in its own file; an empty hint means none.
    pub fn tell_at(&mut self, severity: Severity, code: &str, at: Spot, message: &str, hint: &str) {
        let place = at.of(&self.file);
        self.tell(Diagnostic::new(severity, code, place, message).with_hint(hint));
    }

    /// Reads one document of a unit file.
    pub fn read(file: &Arc<str>, document: &Document) -> Manifest {
        let mut manifest =
            Manifest { broken: document.broken, ..Manifest::new(file.clone(), document.root.at) };
        let pairs = manifest.pairs(document);
        manifest.read_name(pairs);
        manifest.read_entries(document, pairs);
        manifest
    }

    fn new(file: Arc<str>, at: Spot) -> Manifest {
        let (entries, diagnostics) = (Vec::new(), Vec::new());
        Manifest { file, at, name: None, entries, diagnostics, broken: false, imported: false }
    }

    /// Creates an empty manifest for a file of another init system.
    pub fn imported(file: Arc<str>, at: Spot) -> Manifest {
        Manifest { imported: true, ..Manifest::new(file, at) }
    }

    /// Merges a drop-in: each key of the drop-in replaces the whole key here.
    pub fn merge(&mut self, file: &Arc<str>, document: &Document) {
        let mut over =
            Manifest { broken: document.broken, ..Manifest::new(file.clone(), document.root.at) };
        let pairs = over.pairs(document);
        over.read_entries(document, pairs);
        if let Some(pair) = pairs.iter().find(|pair| matches!(pair.key.as_str(), "unit" | "name")) {
            let same = pair.node.scalar().map(|scalar| scalar.text.as_str())
                == self.name.as_ref().map(Name::as_str);
            if !same {
                let message = "a drop-in cannot rename a unit".to_string();
                over.report("drop-in", pair.at, message, "leave the line out");
            }
        }
        self.broken |= over.broken;
        self.entries.retain(|entry| over.entries.iter().all(|new| new.key.name != entry.key.name));
        self.entries.append(&mut over.entries);
        self.diagnostics.append(&mut over.diagnostics);
    }

    /// Warns of specifiers, for a unit that is no template.
    pub(crate) fn tell_specifiers(&mut self) {
        let Some(name) = self.name.as_ref().filter(|_| !self.imported) else { return };
        let template = UnitName::of(name.as_str()).prefix + "@";
        let message = format!("`%i` and the like stay as they are: `{name}` is no template");
        let hint = format!(
            "only a template replaces it: write `unit: {template}`, and name an instance, as `{template}x`"
        );
        for entry in &self.entries {
            // date(1) and strftime(3) use the other letters.
            let shape = entry.key.shape;
            let dates = matches!(shape, Shape::ExecStart | Shape::ExecLines | Shape::Environment);
            let letters = if dates { "i" } else { "iIj" };
            if let Some(node) = entry.node.find(&|text| specifier::has(text, letters)) {
                let place = node.at.of(&entry.file);
                let warning = Diagnostic::warning("specifier", place, &message);
                self.diagnostics.push(warning.with_hint(&hint));
            }
        }
    }

    /// Returns the entry of that key.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key.name == key)
    }

    /// Returns the value of that key, for a change.
    pub(crate) fn value_mut(&mut self, key: &str) -> Option<&mut Value> {
        let mut entries = self.entries.iter_mut();
        Some(&mut entries.find(|entry| entry.key.name == key)?.node.value)
    }

    /// Appends to the list of that key. The first value starts the list, at a place of its own.
    pub(crate) fn append(&mut self, key: &'static Key, at: &Place, node: Node) {
        match self.value_mut(key.name) {
            Some(Value::List(list)) => list.push(node),
            Some(Value::Scalar(_) | Value::Map(_)) => {}
            None => {
                let node = Node { at: node.at, value: Value::List(vec![node]) };
                self.enter(key, at, node);
            }
        }
    }

    /// Adds an entry behind all others.
    pub(crate) fn enter(&mut self, key: &'static Key, at: &Place, node: Node) {
        let (file, at) = (at.file.clone(), Spot { line: at.line, column: at.column });
        self.entries.push(Entry { key, file, at, node });
    }

    /// Returns the place of its `unit:` line.
    pub fn place(&self) -> Place {
        self.at.of(&self.file)
    }

    fn report(&mut self, code: &str, at: Spot, message: String, hint: &str) {
        self.tell_at(Severity::Error, code, at, &message, hint);
    }

    fn pairs<'d>(&mut self, document: &'d Document) -> &'d [Pair] {
        if let Value::Map(pairs) = &document.root.value {
            return pairs;
        }
        if !document.broken {
            let message = format!("a unit is a map of keys, this is {}", document.root.kind());
            let hint = match is_section(&document.root) {
                true => "init recognizes a systemd unit file by its name: name it like web.service",
                false => "write `key: value` lines",
            };
            self.report("shape", document.root.at, message, hint);
        }
        &[]
    }

    fn read_name(&mut self, pairs: &[Pair]) {
        let mut given: Option<&Pair> = None;
        for pair in pairs.iter().filter(|pair| matches!(pair.key.as_str(), "unit" | "name")) {
            let text = pair.node.scalar().map(|scalar| scalar.text.as_str());
            let first =
                given.and_then(|first| first.node.scalar()).map(|scalar| scalar.text.as_str());
            if given.is_some() && first != text {
                let message = "`unit` and `name` are one key, and say different things".to_string();
                self.report("two-names", pair.at, message, "keep one of them");
                self.name = None;
                continue;
            }
            if given.is_some() {
                continue;
            }
            given = Some(pair);
            self.at = pair.at;
            match pair
                .node
                .scalar()
                .filter(|scalar| !scalar.is_null())
                .map(|scalar| Name::new(&scalar.text))
            {
                Some(Ok(name)) => self.name = Some(name),
                Some(Err(error)) => {
                    let hint = "1 to 255 of A-Z a-z 0-9 : _ . @ -, not beginning with - or .";
                    self.report("name", pair.node.at, error.to_string(), hint);
                }
                None => {
                    let message = format!("`{}` is {}, not a name", pair.key, pair.node.kind());
                    self.report("name", pair.node.at, message, "quote it if it is meant as text");
                }
            }
        }
        if given.is_none() && !self.broken {
            let hint = "begin the file with `unit: NAME`";
            self.report("missing-key", self.at, "the unit has no name".to_string(), hint);
        }
    }

    fn read_entries(&mut self, document: &Document, pairs: &[Pair]) {
        for pair in pairs {
            if self.diagnostics.len() >= limit::DIAGNOSTICS_PER_FILE {
                return;
            }
            if matches!(pair.key.as_str(), "unit" | "name") || pair.key.starts_with(key::PRIVATE) {
                continue;
            }
            if SANDBOX.binary_search(&pair.key.as_str()).is_ok() {
                let message = format!("`{}` is not in this release", pair.key);
                let hint =
                    "the unit would run without this isolation; remove the key to allow that";
                self.report("not-yet", pair.at, message, hint);
                continue;
            }
            let Some(key) = key_table::find(&pair.key) else {
                let hint = match key_table::meant(&pair.key) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "`initctl explain` lists all keys; keys of your own begin with x-"
                        .to_string(),
                };
                let message = format!("unknown key `{}`", pair.key);
                self.report("unknown-key", pair.at, message, &hint);
                continue;
            };
            if matches!(key.shape, Shape::ExecStart | Shape::ExecLines) {
                self.look_for_comments(key, document, &pair.node);
            }
            let (file, node) = (self.file.clone(), pair.node.clone());
            self.entries.push(Entry { key, file, at: pair.at, node });
        }
    }

    /// Warns if ` #x` ends an unquoted command line early.
    fn look_for_comments(&mut self, key: &Key, document: &Document, node: &Node) {
        let one = std::slice::from_ref(node);
        for line in node.list().unwrap_or(one) {
            let bare = line.scalar().is_some_and(|scalar| !scalar.quoted);
            let comment = document
                .comments
                .iter()
                .find(|(at, spaced)| bare && !spaced && at.line == line.at.line && *at > line.at);
            if let Some((at, _)) = comment {
                let message =
                    format!("the value of `{}` ends here: ` #` begins a comment", key.name);
                let warning = Diagnostic::warning("comment", at.of(&self.file), message)
                    .with_hint("quote the whole value; for a comment put a space after the #");
                self.diagnostics.push(warning);
            }
        }
    }
}

/// Returns true for `[Unit]` and similar headers, which YAML reads as a list.
fn is_section(root: &Node) -> bool {
    let Value::List(items) = &root.value else { return false };
    let [Node { value: Value::Scalar(only), .. }] = items.as_slice() else { return false };
    ["Unit", "Service", "Socket", "Timer", "Path", "Mount", "Install"].contains(&only.text.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::yaml;

    fn manifests(text: &str) -> Vec<Manifest> {
        let file = Arc::from("x.yaml");
        let documents = yaml::parse("x.yaml", text.as_bytes(), &yaml::Limits::UNIT_FILE).unwrap();
        documents.iter().map(|document| Manifest::read(&file, document)).collect()
    }

    fn codes(manifest: &Manifest) -> Vec<(u32, u32, &str)> {
        let tell = |d: &'_ Diagnostic| (d.at.line, d.at.column);
        manifest.diagnostics.iter().map(|d| (tell(d).0, tell(d).1, d.code.as_str())).collect()
    }

    #[test]
    fn name_key_is_accepted_as_a_synonym_of_unit() {
        for text in ["unit: a\n", "name: a\n", "name: a\nunit: a\n"] {
            let manifest = &manifests(text)[0];
            assert_eq!(manifest.name.as_ref().unwrap().as_str(), "a");
            assert!(manifest.diagnostics.is_empty());
        }
        let manifest = &manifests("unit: a\nname: b\n")[0];
        assert_eq!((&manifest.name, codes(manifest)), (&None, vec![(2, 1, "two-names")]));
    }

    #[test]
    fn invalid_unit_name_is_reported_at_its_place() {
        for text in [
            "unit: ..\n",
            "unit: a/b\n",
            "unit: -rf\n",
            "unit:\n",
            "unit: ~\n",
            "unit: [a]\n",
            "unit: ä\n",
        ] {
            assert_eq!(codes(&manifests(text)[0])[0].2, "name", "{text}");
        }
        assert_eq!(codes(&manifests("# c\ntype: virtual\n")[0]), [(2, 1, "missing-key")]);
    }

    #[test]
    fn unknown_key_is_an_error_with_a_suggestion() {
        let manifest = &manifests("unit: a\nexec_start: /bin/x\nx-owner: me\n")[0];
        assert_eq!(codes(manifest), [(2, 1, "unknown-key")]);
        assert!(manifest.diagnostics[0].hint.contains("`exec-start`"));
    }

    #[test]
    fn document_that_is_no_map_is_reported() {
        assert_eq!(codes(&manifests("just text\n")[0])[0].2, "shape");
        assert_eq!(codes(&manifests("- a\n- b\n")[0])[0].2, "shape");
        let hint = |text: &str| manifests(text)[0].diagnostics[0].hint.clone();
        assert!(hint("[Unit]\n").contains("web.service"));
        assert!(hint("[unit]\n").contains("key: value"));
    }

    #[test]
    fn command_cut_by_a_comment_gets_a_warning() {
        let manifest = &manifests("unit: a\nexec-start: echo #x\nexec-stop: echo # fine\n")[0];
        assert_eq!(codes(manifest), [(2, 18, "comment")]);
        let manifest = &manifests("unit: a\nexec-stop:\n- echo 'a' #x\n- 'echo #x'\n")[0];
        assert_eq!(codes(manifest), [(3, 12, "comment")]);
    }

    #[test]
    fn drop_in_replaces_whole_keys() {
        let mut manifest = manifests("unit: a\nuser: x\ndepends-on: b, c\n").remove(0);
        let over = "depends-on: d\nlog: null\n";
        let document = &yaml::parse("d", over.as_bytes(), &yaml::Limits::UNIT_FILE).unwrap()[0];
        manifest.merge(&Arc::from("a.d/1.yaml"), document);
        let keys: Vec<_> = manifest.entries.iter().map(|entry| entry.key.name).collect();
        assert_eq!(keys, ["user", "depends-on", "log"]);
        assert_eq!(&*manifest.entry("depends-on").unwrap().file, "a.d/1.yaml");
        let other = &yaml::parse("d", b"unit: b\n", &yaml::Limits::UNIT_FILE).unwrap()[0];
        manifest.merge(&Arc::from("a.d/2.yaml"), other);
        assert_eq!(codes(&manifest), [(1, 1, "drop-in")]);
    }
}
