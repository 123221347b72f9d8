//! Converts one systemd unit to a native manifest. The table has the rule of each directive; here
//! values are converted, collected and checked against the native key table, and losses are
//! reported. Combinations of directives are in the files beside this one.

use super::import_outcome::ImportOutcome;
use super::span;
use super::unit_name::UnitName;
use super::unit_text::UnitOption;
use super::word::{self, Unbalanced, Word};
use crate::spec::Kind;
use crate::text::diagnostic::{Place, Severity};
use crate::text::name::Name;
use crate::text::specifier::{self, Facts};
use crate::text::yaml::Spot;
use crate::unit::manifest::Manifest;
use std::collections::{BTreeMap, BTreeSet};

/// The inputs of an import.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Values of specifiers.
    pub facts: Facts,
    /// A sandbox that cannot be provided makes the unit unusable.
    pub strict_sandbox: bool,
}

/// An imported unit.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The native manifest; its diagnostics are those of the import.
    pub manifest: Manifest,
    /// The outcome of each directive.
    pub outcomes: Vec<ImportOutcome>,
    /// `DefaultInstance=`.
    pub default_instance: Option<String>,
    /// `Also=`.
    pub also: Vec<String>,
    /// Number of assignments that were examined, repetitions included.
    #[cfg(test)]
    pub(crate) walked: usize,
}

impl From<Imported> for super::import_outcome::Imported {
    fn from(unit: Imported) -> Self {
        super::import_outcome::Imported { manifest: unit.manifest, outcomes: unit.outcomes }
    }
}

/// Index of the lists and maps of a manifest.
#[derive(Default)]
pub(super) struct Held {
    /// Texts in lists, by key.
    pub(super) texts: BTreeMap<&'static str, BTreeSet<String>>,
    /// Index of the pair of each name in a map.
    pub(super) pairs: BTreeMap<(&'static str, String), usize>,
}

pub(super) struct Conversion<'a> {
    pub(super) name: &'a UnitName,
    pub(super) options: Vec<&'a UnitOption>,
    /// The assignments by section and name, in order.
    pub(super) by_directive: BTreeMap<(&'a str, &'a str), Vec<&'a UnitOption>>,
    pub(super) around: &'a Surroundings,
    pub(super) kind: Kind,
    pub(super) manifest: Manifest,
    /// Index of the manifest's lists and maps.
    pub(super) held: Held,
    pub(super) outcomes: Vec<ImportOutcome>,
    /// Places of directives with an outcome.
    pub(super) told: BTreeSet<Place>,
    pub(super) weaker: Vec<&'a UnitOption>,
    pub(super) default_instance: Option<String>,
    pub(super) also: Vec<String>,
    /// Number of assignments that were examined, repetitions included.
    #[cfg(test)]
    pub(super) walked: std::cell::Cell<usize>,
}

/// A word with its assignment and place.
type Part<'a> = (String, &'a UnitOption, Spot);

impl<'a> Conversion<'a> {
    /// Returns the name for expanding the unit's own values. In a template it has the instance `%i`,
    /// which each instance expands.
    pub(super) fn own(&self) -> UnitName {
        if self.name.is_template() { self.name.with_instance("%i") } else { self.name.clone() }
    }

    pub(super) fn read_name(&mut self) {
        match Name::new(&self.name.to_string()) {
            Ok(name) => self.manifest.name = Some(name),
            Err(error) => {
                let hint = "units are named as their files are";
                let (at, error) = (self.manifest.at, error.to_string());
                self.manifest.tell_at(Severity::Error, "name", at, &error, hint);
            }
        }
    }

    /// Returns the assignments of a directive that count: those after the last empty one.
    pub(super) fn all(&self, section: &str, name: &str) -> Vec<&'a UnitOption> {
        let mut found = self.all_with_resets(section, name);
        if let Some(reset) = found.iter().rposition(|option| option.value.is_empty()) {
            found.drain(..=reset);
        }
        found
    }

    /// Returns all assignments of a directive, including empty ones.
    pub(super) fn all_with_resets(&self, section: &str, name: &str) -> Vec<&'a UnitOption> {
        let found = self.by_directive.get(&(section, name)).cloned().unwrap_or_default();
        #[cfg(test)]
        self.walked.set(self.walked.get() + found.len());
        found
    }

    /// Returns the assignment of a directive that counts: the last.
    pub(super) fn last(&self, section: &str, name: &str) -> Option<&'a UnitOption> {
        let last = self.by_directive.get(&(section, name))?.last().copied();
        last.filter(|option| !option.value.is_empty())
    }

    /// Returns the value of a directive.
    pub(super) fn text(&self, section: &str, name: &str) -> Option<&'a str> {
        self.last(section, name).map(|option| option.value.as_str())
    }

    /// Returns the value of a boolean directive.
    pub(super) fn flag(&self, section: &str, name: &str, otherwise: bool) -> bool {
        self.text(section, name).and_then(span::boolean).unwrap_or(otherwise)
    }

    /// Replaces specifiers. Returns `None`, and reports, if one cannot be replaced. Those of a
    /// template stay.
    pub(super) fn expand(&mut self, option: &'a UnitOption, text: &str) -> Option<String> {
        if self.name.is_template() {
            return Some(text.to_string());
        }
        if self.name.instance.is_none() && specifier::has(text, "iI") {
            let (key, name) = (&option.name, &self.name);
            let message = format!("{key}=: {name} is no instance: %i and %I are empty");
            self.warn(option, "specifier", &message, "name the file as a template: `web@.service`");
        }
        match specifier::expand(text, self.name, &self.around.facts) {
            Ok(text) => Some(text),
            Err(mistake) => {
                let message = format!("{}: the specifier {mistake}", option.name);
                self.refuse(option, &message, "");
                None
            }
        }
    }

    /// Returns the words of all assignments of a directive, with specifiers replaced.
    pub(super) fn words(&mut self, options: &[&'a UnitOption]) -> Vec<Part<'a>> {
        self.parts(options, word::split)
    }

    /// Returns the unit names of a directive, in which backslashes are literal.
    pub(super) fn names(&mut self, options: &[&'a UnitOption]) -> Vec<Part<'a>> {
        self.parts(options, word::split_names)
    }

    fn parts(
        &mut self,
        options: &[&'a UnitOption],
        split: fn(&str) -> Result<Vec<Word>, Unbalanced>,
    ) -> Vec<Part<'a>> {
        let mut words = Vec::new();
        for option in options {
            match split(&option.value) {
                Ok(found) => {
                    let mut spots = option.spots();
                    for word in found {
                        let at = spots.at(word.offset);
                        let text = self.expand(option, &word.text);
                        words.extend(text.map(|text| (text, *option, at)));
                    }
                }
                Err(_) => self.lose(option, "its quotes are not closed, so it is passed over"),
            }
        }
        words
    }
}
