//! Adds values, lists and maps under native keys to the manifest. The native key table decides
//! whether a key exists and whether the unit's type accepts it.

use super::conversion::Conversion;
use super::import_outcome::Outcome;
use super::table::partly;
use super::unit_text::UnitOption;
use crate::limit;
use crate::text::yaml::{Node, Pair, Spot, Value};
use crate::unit::key::{Key, Shape};
use crate::unit::key_table;

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

    /// Sets a value. Reports if there is no such key here.
    pub(super) fn put(&mut self, key: &str, text: &str, option: &'a UnitOption) {
        let Some(known) = self.native(key, Some(option)) else { return };
        if let Shape::Choice(words) = known.shape
            && !words.contains(&text)
        {
            let message = format!("{}={} is not supported yet: dropped", option.name, option.value);
            self.record_outcome(option, Outcome::Lost("not supported yet".to_string()));
            return self.warn(option, "not-supported", &message, "");
        }
        self.take_away(known);
        self.manifest.enter(known, &option.place(), Node::quoted(option.value_at(), text));
        self.record_outcome(option, Outcome::Kept(key.to_string()));
    }

    /// Sets a value. `said` is the line of the file that has it, or `None` if no line does.
    pub(super) fn put_said(&mut self, key: &str, text: &str, said: Option<&'a UnitOption>) {
        match said {
            Some(option) => self.put(key, text, option),
            None => self.put_default(key, text),
        }
    }

    /// Sets a value that no line of the file has.
    pub(super) fn put_default(&mut self, key: &str, text: &str) {
        if self.manifest.entry(key).is_some() {
            return;
        }
        let Some(known) = self.native(key, None) else { return };
        let node = Node::quoted(self.manifest.at, text);
        self.manifest.enter(known, &self.manifest.place(), node);
    }

    /// Adds an entry to a list; duplicates count once.
    pub(super) fn add(&mut self, key: &str, text: &str, option: Option<&'a UnitOption>, at: Spot) {
        let Some(known) = self.native(key, option) else { return };
        if let Some(option) = option {
            self.record_outcome(option, Outcome::Kept(key.to_string()));
        }
        let held = self.held.texts.entry(known.name).or_default();
        if held.len() < limit::DEPENDENCIES && held.insert(text.to_string()) {
            let place = option.map_or_else(|| self.manifest.place(), UnitOption::place);
            self.manifest.append(known, &place, Node::quoted(at, text));
        }
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
        let list = texts.iter().map(|text| Node::quoted(at, text)).collect();
        let node = Node { at, value: Value::List(list) };
        self.take_away(known);
        self.held.texts.insert(known.name, texts.iter().cloned().collect());
        self.manifest.enter(known, &option.place(), node);
        self.record_outcome(option, Outcome::Kept(key.to_string()));
    }

    /// Adds an entry to a list of commands or similar, where duplicates stay.
    pub(super) fn add_line(&mut self, key: &str, text: &str, option: &'a UnitOption) {
        let Some(known) = self.native(key, Some(option)) else { return };
        self.record_outcome(option, Outcome::Kept(key.to_string()));
        let node = Node::quoted(option.value_at(), text);
        self.manifest.append(known, &option.place(), node);
    }

    /// Writes a list of one as a single value. `refused` means that additional entries were
    /// reported.
    pub(super) fn unlist(&mut self, key: &str, refused: bool) {
        let Some(value) = self.manifest.value_mut(key) else { return };
        if let Value::List(list) = value
            && (refused || list.len() == 1)
            && !list.is_empty()
        {
            *value = list.swap_remove(0).value;
        }
    }

    /// Adds a pair to a map; a later one replaces one of the same name.
    pub(super) fn add_pair(&mut self, key: &str, name: &str, text: &str, option: &'a UnitOption) {
        let Some(known) = self.native(key, Some(option)) else { return };
        self.record_outcome(option, Outcome::Kept(key.to_string()));
        let at = option.value_at();
        if self.manifest.entry(key).is_none() {
            self.manifest.enter(known, &option.place(), Node { at, value: Value::Map(Vec::new()) });
        }
        let pair = Pair { key: name.to_string(), at: option.at, node: Node::quoted(at, text) };
        if let Some(Value::Map(pairs)) = self.manifest.value_mut(key) {
            let held = self.held.pairs.entry((known.name, name.to_string()));
            let index = *held.or_insert(pairs.len());
            match pairs.get_mut(index) {
                Some(old) => *old = pair,
                None => pairs.push(pair),
            }
        }
    }
}
