//! Reads the value of one key as the type that the key needs, and reports errors at its place. Unit
//! files, settings and policy use it.

use crate::limit;
use crate::spec::value::Mistake;
use crate::text::diagnostic::{Diagnostic, Place};
use crate::text::name::Name;
use crate::text::words::Words;
use crate::text::yaml::{Node, Pair, Scalar, Spot, Value};
use std::sync::Arc;

/// The value of a key, with its place.
#[derive(Clone, Copy)]
pub(crate) struct Field<'n> {
    /// The file.
    pub(crate) file: &'n Arc<str>,
    /// The name of the key.
    pub(crate) key: &'n str,
    /// The value.
    pub(crate) node: &'n Node,
}

/// A name in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The name.
    pub(crate) name: Name,
    /// The name has a trailing `?`.
    pub(crate) optional: bool,
    /// The place of the name.
    pub(crate) at: Spot,
}

type Found = Vec<Diagnostic>;

impl<'n> Field<'n> {
    /// Returns the place of the value.
    pub(crate) fn place(self) -> Place {
        self.node.at.of(self.file)
    }

    pub(crate) fn error(self, found: &mut Found, code: &str, message: String, hint: &str) {
        found.push(Diagnostic::error(code, self.place(), message).with_hint(hint));
    }

    /// Returns the same key with another node: an entry of its list or map.
    pub(crate) fn within(self, node: &'n Node) -> Field<'n> {
        Field { node, ..self }
    }

    /// Returns the text; reports null, a list or a map.
    pub(crate) fn text(self, found: &mut Found) -> Option<&'n Scalar> {
        let scalar = self.node.scalar().filter(|scalar| !scalar.is_null());
        if scalar.is_none() {
            let (message, hint) = match self.node.kind() {
                "nothing" => (
                    format!("`{}` has no value", self.key),
                    "give one, or leave the key out; quote it if a word like null is meant",
                ),
                kind => (
                    format!("`{}` is {kind} where one value is expected", self.key),
                    "write it as `key: value`",
                ),
            };
            self.error(found, "shape", message, hint);
        }
        scalar
    }

    /// Returns the parsed text.
    pub(crate) fn value<T>(
        self,
        found: &mut Found,
        parse: impl FnOnce(&str) -> Result<T, Mistake>,
    ) -> Option<T> {
        match parse(&self.text(found)?.text) {
            Ok(value) => Some(value),
            Err(mistake) => {
                self.error(
                    found,
                    "value",
                    format!("{}: {}", self.key, mistake.message),
                    mistake.hint,
                );
                None
            }
        }
    }

    /// Returns the index of one of these words.
    pub(crate) fn choice(self, found: &mut Found, words: &[&str]) -> Option<usize> {
        let text = &self.text(found)?.text;
        let index = words.iter().position(|word| word == text);
        if index.is_none() {
            let hint = match crate::unit::key::nearest(text, words.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("one of {}", words.join(", ")),
            };
            self.error(found, "value", format!("`{text}` is not a value of `{}`", self.key), &hint);
        }
        index
    }

    /// Reads one of the words of `T`.
    pub(crate) fn word<T: Words>(self, found: &mut Found) -> Option<T> {
        T::VALUES.get(self.choice(found, T::NAMES)?).copied()
    }

    /// Returns a list; reports anything else.
    pub(crate) fn list(self, found: &mut Found) -> &'n [Node] {
        if let Value::List(list) = &self.node.value {
            return list;
        }
        let message = format!("`{}` is {} where a list is expected", self.key, self.node.kind());
        self.error(found, "shape", message, "write `[a, b]`, or one `- a` a line");
        &[]
    }

    /// Returns a list, or a single value as a list of one.
    pub(crate) fn one_or_list(self) -> &'n [Node] {
        match &self.node.value {
            Value::List(list) => list,
            Value::Scalar(_) | Value::Map(_) => std::slice::from_ref(self.node),
        }
    }

    /// Returns a map; reports anything else.
    pub(crate) fn map(self, found: &mut Found) -> &'n [Pair] {
        if let Value::Map(map) = &self.node.value {
            return map;
        }
        let message = format!("`{}` is {} where a map is expected", self.key, self.node.kind());
        self.error(found, "shape", message, "write `name: value` lines, indented");
        &[]
    }

    /// Returns one name.
    pub(crate) fn name(self, found: &mut Found) -> Option<Name> {
        let text = &self.text(found)?.text;
        self.name_at(found, text, self.node.at)
    }

    fn name_at(self, found: &mut Found, text: &str, at: Spot) -> Option<Name> {
        match Name::new(text) {
            Ok(name) => Some(name),
            Err(error) => {
                let message = format!("{}: {error}", self.key);
                let hint = "names are letters, digits and : _ . @ -, not beginning with - or .";
                found.push(Diagnostic::error("name", at.of(self.file), message).with_hint(hint));
                None
            }
        }
    }

    /// Returns names: `a, b` or a list. With `optional`, each may have a trailing `?`. A repeated
    /// name is reported and counts once.
    pub(crate) fn names(self, found: &mut Found, optional: bool) -> Vec<Named> {
        let mut names: Vec<Named> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        let mut take = |found: &mut Found, text: &str, at: Spot| {
            let (bare, mark) = match text.strip_suffix('?') {
                Some(bare) if optional => (bare, true),
                Some(_) | None => (text, false),
            };
            let Some(name) = self.name_at(found, bare, at) else { return };
            if seen.insert(name.clone()) {
                names.push(Named { name, optional: mark, at });
            } else {
                let message = format!("`{name}` occurs twice in `{}`", self.key);
                found.push(Diagnostic::warning("twice", at.of(self.file), message));
            }
        };
        match &self.node.value {
            Value::List(list) => {
                for node in list {
                    if let Some(scalar) = self.within(node).text(found) {
                        take(found, &scalar.text, node.at);
                    }
                }
            }
            Value::Scalar(_) | Value::Map(_) => {
                let Some(scalar) = self.text(found) else { return names };
                let mut column = self.node.at.column + u32::from(scalar.quoted);
                for part in scalar.text.split(',') {
                    let blank = part.len() - part.trim_start().len();
                    let at = Spot { line: self.node.at.line, column: column + number(blank) };
                    take(found, part.trim(), at);
                    column += number(part.chars().count()) + 1;
                }
            }
        }
        if names.len() > limit::DEPENDENCIES {
            let message = format!("{} names in `{}`", names.len(), self.key);
            self.error(found, "too-large", message, "4096 at most");
            names.clear();
        }
        names
    }

    /// Returns environment variables: a map, or a list of `NAME=value`.
    pub(crate) fn environment(self, found: &mut Found) -> Vec<(String, String)> {
        let mut variables: Vec<(String, String)> = Vec::new();
        let mut take = |found: &mut Found, name: &str, value: &str, at: Spot| {
            if !crate::unit::exec_line::is_variable(name) {
                let message = format!("`{name}` is not a valid name of a variable");
                let hint = "letters, digits and _, not beginning with a digit";
                found.push(Diagnostic::error("value", at.of(self.file), message).with_hint(hint));
            } else if variables.iter().any(|(known, _)| known == name) {
                let message = format!("the variable `{name}` is given twice");
                found.push(Diagnostic::error("value", at.of(self.file), message));
            } else {
                variables.push((name.to_string(), value.to_string()));
            }
        };
        let entries =
            self.node.map().map_or(0, <[Pair]>::len).max(self.node.list().map_or(0, <[Node]>::len));
        if entries > limit::ENVIRONMENT {
            self.error(
                found,
                "too-large",
                format!("{entries} variables in `{}`", self.key),
                "1024 at most",
            );
            return Vec::new();
        }
        match &self.node.value {
            Value::Map(pairs) => {
                for pair in pairs {
                    let field = Field { key: &pair.key, ..self.within(&pair.node) };
                    if let Some(value) = field.text(found) {
                        take(found, &pair.key, &value.text, pair.at);
                    }
                }
            }
            Value::List(list) => {
                for node in list {
                    let Some(entry) = self.within(node).text(found) else { continue };
                    match entry.text.split_once('=') {
                        Some((name, value)) => take(found, name, value, node.at),
                        None => self.within(node).error(
                            found,
                            "value",
                            format!("`{}` has no `=`", entry.text),
                            "write `NAME=value`",
                        ),
                    }
                }
            }
            Value::Scalar(_) => {
                let message =
                    format!("`{}` is {} where a map is expected", self.key, self.node.kind());
                self.error(found, "shape", message, "write `NAME: value` lines, indented");
            }
        }
        variables
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
