//! The native unit under construction: its keys with places, and the outcome of each item. Items
//! that are left out are reported as diagnostics too.

use crate::import::import_outcome::{ImportOutcome, Imported, Outcome};
use crate::limit;
use crate::spec::Kind;
use crate::text::diagnostic::{Diagnostic, Place};
use crate::text::name::Name;
use crate::text::yaml::{Node, Pair, Spot, Value};
use crate::unit::key_table;
use crate::unit::manifest::Manifest;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The unit under construction.
pub(super) struct Unit {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Number of entries in all lists of targets.
    pub(super) edges: usize,
    manifest: Manifest,
    outcomes: Vec<ImportOutcome>,
    /// Entries that lists contain already.
    held: BTreeSet<(&'static str, String)>,
    /// Names of sections, shared.
    sections: Vec<Arc<str>>,
}

impl Unit {
    /// Creates an empty unit for the script in that file.
    pub(super) fn of(name: &str, file: &Arc<str>, kind: Kind) -> Unit {
        let mut manifest = Manifest::imported(file.clone(), Spot { line: 1, column: 1 });
        let wrong = match Name::new(name) {
            Ok(name) if !name.as_str().ends_with('@') => {
                manifest.name = Some(name);
                None
            }
            Ok(_) => Some("a name that ends with `@` is a template's".to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(wrong) = wrong {
            let said = Diagnostic::error("name", manifest.at.of(file), wrong);
            manifest.diagnostics.push(said.with_hint("units are named as their scripts are"));
        }
        let mut unit = Unit {
            name: name.to_string(),
            kind,
            edges: 0,
            manifest,
            outcomes: Vec::new(),
            held: BTreeSet::new(),
            sections: Vec::new(),
        };
        unit.put("type", kind.as_str(), &unit.start());
        unit
    }

    /// Returns the place of the start of the script.
    pub(super) fn start(&self) -> Place {
        self.manifest.place()
    }

    /// Returns the present manifest.
    pub(super) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Sets a value, replacing an earlier one.
    pub(super) fn put(&mut self, key: &str, text: &str, at: &Place) {
        self.manifest.entries.retain(|entry| entry.key.name != key);
        if let Some(key) = key_table::find(key) {
            self.manifest.enter(key, at, Node::quoted(spot(at), text));
        }
    }

    /// Sets a value if there is none yet.
    pub(super) fn put_default(&mut self, key: &str, text: &str) {
        if self.manifest.entry(key).is_none() {
            self.put(key, text, &self.start());
        }
    }

    /// Adds an entry to a list; duplicates count once.
    pub(super) fn add(&mut self, key: &str, text: &str, at: &Place) {
        let Some(known) = key_table::find(key) else { return };
        if !self.held.insert((known.name, text.to_string())) {
            return;
        }
        self.edges += usize::from(known.dependency().is_some());
        if key == "provides" && self.manifest.entry(key).is_none() {
            self.held.insert((known.name, self.name.clone()));
            self.manifest.append(known, at, Node::quoted(spot(at), &self.name));
        }
        self.manifest.append(known, at, Node::quoted(spot(at), text));
    }

    /// Adds a pair to a map; a later one replaces one of the same name. Returns false if there are
    /// too many.
    pub(super) fn pair(&mut self, key: &str, name: &str, text: &str, at: &Place) -> bool {
        let Some(known) = key_table::find(key) else { return true };
        let at_spot = spot(at);
        if self.manifest.entry(key).is_none() {
            let value = Value::Map(Vec::new());
            self.manifest.enter(known, at, Node { at: at_spot, value });
        }
        if let Some(Value::Map(pairs)) = self.manifest.value_mut(key) {
            pairs.retain(|pair| pair.key != name);
            if pairs.len() >= limit::ENVIRONMENT {
                return false;
            }
            let node = Node::quoted(at_spot, text);
            pairs.push(Pair { key: name.to_string(), at: at_spot, node });
        }
        true
    }

    /// Returns true if the unit's type accepts the key.
    pub(super) fn takes(&self, key: &str) -> bool {
        key_table::find(key).is_some_and(|key| key.types.has(self.kind))
    }

    /// Records the outcome of one item.
    pub(super) fn record_outcome(
        &mut self,
        section: &str,
        name: &str,
        value: &str,
        at: &Place,
        outcome: Outcome,
    ) {
        if let Outcome::Lost(how) | Outcome::Weaker(how) = &outcome {
            let message = format!("{name} {value:.60}: {how}");
            self.warn("dropped", at, message);
        }
        let section = match self.sections.iter().find(|known| known.as_ref() == section) {
            Some(known) => known.clone(),
            None => {
                self.sections.push(section.into());
                section.into()
            }
        };
        let (name, value) = (name.to_string(), value.to_string());
        self.outcomes.push(ImportOutcome { section, name, value, at: at.clone(), outcome });
    }

    /// Adds a warning for the reader of the unit.
    pub(super) fn warn(&mut self, code: &str, at: &Place, message: String) {
        self.tell(Diagnostic::warning(code, at.clone(), message));
    }

    /// Adds a diagnostic of any severity.
    pub(super) fn tell(&mut self, said: Diagnostic) {
        self.manifest.tell(said);
    }

    /// Returns the finished import.
    pub(super) fn imported(mut self) -> Imported {
        self.outcomes.sort_by(|a, b| (&a.at, &a.name).cmp(&(&b.at, &b.name)));
        self.manifest.diagnostics.sort_by(|a, b| (&a.at, &a.code).cmp(&(&b.at, &b.code)));
        Imported { manifest: self.manifest, outcomes: self.outcomes }
    }
}

fn spot(at: &Place) -> Spot {
    Spot { line: at.line, column: at.column }
}
