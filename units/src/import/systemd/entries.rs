//! Adds values, lists and maps under native keys to the manifest. The native key table decides
//! whether a key exists and whether the unit's type accepts it.

use super::conversion::Conversion;
use super::import_outcome::Outcome;
use super::table::partly;
use super::unit_text::UnitOption;
use crate::limit;
use crate::text::diagnostic::Severity;
use crate::text::yaml::{Node, Pair, Scalar, Spot, Value};
use crate::unit::key::{Key, Shape};
use crate::unit::key_table;
use crate::unit::manifest::Entry;
use std::collections::BTreeSet;

impl<'a> Conversion<'a> {
    /// Returns the native key of that name if it exists and this type accepts it. The directive's
    /// grade gives the effect of a missing key.
    pub(super) fn native(
        &mut self,
        key: &str,
        option: Option<&'a UnitOption>,
    ) -> Option<&'static Key> {
        let found = key_table::find(key);
        match (found, option) {
            (Some(known), option) if !known.types.has(self.kind) => {
                if let Some(option) = option
                    && (key.starts_with("condition-") || key.starts_with("assert-"))
                {
                    self.lose(option, partly::CONDITIONS);
                } else if let Some(option) = option {
                    let why = format!("it has no meaning for a {} unit", self.kind.as_str());
                    self.record_outcome(option, Outcome::ByDesign(why));
                }
                None
            }
            (None, Some(option)) => {
                self.unsupported(option);
                None
            }
            (found, _) => found,
        }
    }

    /// Sets a value. Returns false, and reports, if there is no such key here.
    pub(super) fn put(&mut self, key: &str, text: &str, option: &'a UnitOption) -> bool {
        let Some(known) = self.native(key, Some(option)) else { return false };
        if let Shape::Choice(words) = known.shape
            && !words.contains(&text)
        {
            let message = format!("{}={} is not supported yet: dropped", option.name, option.value);
            self.record_outcome(option, Outcome::Lost("not supported yet".to_string()));
            self.manifest.tell_at(Severity::Warning, "not-supported", option.at, &message, "");
            self.file_of_last(option);
            return false;
        }
        let node = scalar(option.value_at(), text);
        self.take_away(known);
        self.manifest.entries.push(Entry {
            key: known,
            file: option.file.clone(),
            at: option.at,
            node,
        });
        self.record_outcome(option, Outcome::Kept(key.to_string()));
        true
    }

    /// Sets a value that no line of the file has.
    pub(super) fn put_default(&mut self, key: &str, text: &str) {
        if self.manifest.entry(key).is_some() {
            return;
        }
        let Some(known) = self.native(key, None) else { return };
        let (file, at) = (self.manifest.file.clone(), self.manifest.at);
        self.manifest.entries.push(Entry { key: known, file, at, node: scalar(at, text) });
    }

    /// Adds an entry to a list; duplicates count once.
    pub(super) fn add(
        &mut self,
        key: &str,
        text: &str,
        option: Option<&'a UnitOption>,
        at: Spot,
    ) -> bool {
        let Some(known) = self.native(key, option) else { return false };
        if let Some(option) = option {
            self.record_outcome(option, Outcome::Kept(key.to_string()));
        }
        let node = scalar(at, text);
        let (file, key_at) = match option {
            Some(option) => (option.file.clone(), option.at),
            None => (self.manifest.file.clone(), self.manifest.at),
        };
        match self.manifest.entries.iter_mut().find(|entry| entry.key.name == key) {
            Some(Entry { node: Node { value: Value::List(list), .. }, .. }) => {
                let held = self.held.texts.entry(known.name).or_default();
                if list.len() < limit::DEPENDENCIES && held.insert(text.to_string()) {
                    list.push(node);
                }
            }
            Some(_) => {}
            None => {
                self.held.texts.insert(known.name, BTreeSet::from([text.to_string()]));
                let node = Node { at, value: Value::List(vec![node]) };
                self.manifest.entries.push(Entry { key: known, file, at: key_at, node });
            }
        }
        true
    }

    /// Removes all entries of this key.
    fn take_away(&mut self, key: &'static Key) {
        self.manifest.entries.retain(|entry| entry.key.name != key.name);
        self.held.texts.remove(key.name);
        self.held.pairs.retain(|(name, _), _| *name != key.name);
    }

    /// Sets a whole list; it may be empty.
    pub(super) fn put_list(&mut self, key: &str, texts: &[String], option: &'a UnitOption) {
        let Some(known) = self.native(key, Some(option)) else { return };
        let at = option.value_at();
        let list = texts.iter().map(|text| scalar(at, text)).collect();
        let node = Node { at, value: Value::List(list) };
        self.take_away(known);
        self.held.texts.insert(known.name, texts.iter().cloned().collect());
        let (file, key_at) = (option.file.clone(), option.at);
        self.manifest.entries.push(Entry { key: known, file, at: key_at, node });
        self.record_outcome(option, Outcome::Kept(key.to_string()));
    }

    /// Adds an entry to a list of commands or similar, where duplicates stay.
    pub(super) fn add_line(&mut self, key: &str, text: &str, option: &'a UnitOption) -> bool {
        let Some(known) = self.native(key, Some(option)) else { return false };
        self.record_outcome(option, Outcome::Kept(key.to_string()));
        let node = scalar(option.value_at(), text);
        let entry = self.manifest.entries.iter_mut().find(|entry| entry.key.name == key);
        if let Some(Entry { node: Node { value: Value::List(list), .. }, .. }) = entry {
            list.push(node);
        } else {
            let (file, at) = (option.file.clone(), option.at);
            let node = Node { at: node.at, value: Value::List(vec![node]) };
            self.manifest.entries.push(Entry { key: known, file, at, node });
        }
        true
    }

    /// Writes a list of one as a single value. `refused` means that additional entries were
    /// reported.
    pub(super) fn unlist(&mut self, key: &str, refused: bool) {
        let Some(entry) = self.manifest.entries.iter_mut().find(|entry| entry.key.name == key)
        else {
            return;
        };
        if let Value::List(list) = &mut entry.node.value
            && (refused || list.len() == 1)
            && !list.is_empty()
        {
            entry.node = list.swap_remove(0);
        }
    }

    /// Adds a pair to a map; a later one replaces one of the same name.
    pub(super) fn add_pair(&mut self, key: &str, name: &str, text: &str, option: &'a UnitOption) {
        let Some(known) = self.native(key, Some(option)) else { return };
        self.record_outcome(option, Outcome::Kept(key.to_string()));
        let node = scalar(option.value_at(), text);
        let pair = Pair { key: name.to_string(), at: option.at, node };
        let entry = self.manifest.entries.iter_mut().find(|entry| entry.key.name == key);
        if let Some(Entry { node: Node { value: Value::Map(pairs), .. }, .. }) = entry {
            let index = self.held.pairs.get(&(known.name, name.to_string())).copied();
            if let Some(old) = index.and_then(|index| pairs.get_mut(index)) {
                *old = pair;
            } else {
                self.held.pairs.insert((known.name, name.to_string()), pairs.len());
                pairs.push(pair);
            }
        } else {
            self.held.pairs.insert((known.name, name.to_string()), 0);
            let node = Node { at: option.value_at(), value: Value::Map(vec![pair]) };
            let (file, at) = (option.file.clone(), option.at);
            self.manifest.entries.push(Entry { key: known, file, at, node });
        }
    }
}

fn scalar(at: Spot, text: &str) -> Node {
    Node { at, value: Value::Scalar(Scalar { text: text.to_string(), quoted: true }) }
}
