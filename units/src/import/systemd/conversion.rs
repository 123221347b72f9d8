//! One systemd unit as a native manifest. The table says what becomes of a directive;
//! here values are turned, collected, checked against the native key table, and what is
//! left out is told. What takes more than one directive is in the files beside this one.

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

/// What a unit is imported with.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// For specifiers.
    pub facts: Facts,
    /// A sandbox that can not be given makes the unit unusable.
    pub strict_sandbox: bool,
}

/// A unit, imported.
#[derive(Clone, Debug)]
pub struct Imported {
    /// As the native loader takes it; its diagnostics are those of the import.
    pub manifest: Manifest,
    /// Of each directive.
    pub outcomes: Vec<ImportOutcome>,
    /// `DefaultInstance=`.
    pub default_instance: Option<String>,
    /// `Also=`.
    pub also: Vec<String>,
    /// How many assignments were looked at, each as often as it was.
    #[cfg(test)]
    pub(crate) walked: usize,
}

impl From<Imported> for super::import_outcome::Imported {
    fn from(unit: Imported) -> Self {
        super::import_outcome::Imported { manifest: unit.manifest, outcomes: unit.outcomes }
    }
}

/// What the lists and maps of a manifest hold, to look it up without a walk.
#[derive(Default)]
pub(super) struct Held {
    /// Texts in lists, by key.
    pub(super) texts: BTreeMap<&'static str, BTreeSet<String>>,
    /// Of each name in a map: which pair it is.
    pub(super) pairs: BTreeMap<(&'static str, String), usize>,
}

pub(super) struct Conversion<'a> {
    pub(super) name: &'a UnitName,
    pub(super) options: Vec<&'a UnitOption>,
    /// The same by section and name, in order.
    pub(super) by_directive: BTreeMap<(&'a str, &'a str), Vec<&'a UnitOption>>,
    pub(super) around: &'a Surroundings,
    pub(super) kind: Kind,
    pub(super) manifest: Manifest,
    /// What lists and maps of the manifest hold already.
    pub(super) held: Held,
    pub(super) outcomes: Vec<ImportOutcome>,
    /// Where those of which there is an outcome stand.
    pub(super) told: BTreeSet<Place>,
    pub(super) weaker: Vec<&'a UnitOption>,
    pub(super) default_instance: Option<String>,
    pub(super) also: Vec<String>,
    /// Assignments that were looked at, each time counted.
    #[cfg(test)]
    pub(super) walked: std::cell::Cell<usize>,
}

impl<'a> Conversion<'a> {
    /// Its name in its own values: a template's are filled in for each instance.
    pub(super) fn own(&self) -> UnitName {
        if self.name.is_template() { self.name.with_instance("%i") } else { self.name.clone() }
    }

    pub(super) fn read_name(&mut self) {
        match Name::new(&self.name.to_string()) {
            Ok(name) => self.manifest.name = Some(name),
            Err(error) => {
                let hint = "units are named as their files are";
                self.manifest.tell_at(
                    Severity::Error,
                    "name",
                    self.manifest.at,
                    &error.to_string(),
                    hint,
                );
            }
        }
    }

    /// All assignments of a directive that count: those behind the last empty one.
    pub(super) fn all(&self, section: &str, name: &str) -> Vec<&'a UnitOption> {
        let mut found = self.all_with_resets(section, name);
        if let Some(reset) = found.iter().rposition(|option| option.value.is_empty()) {
            found.drain(..=reset);
        }
        found
    }

    /// All assignments of a directive, empty ones too.
    pub(super) fn all_with_resets(&self, section: &str, name: &str) -> Vec<&'a UnitOption> {
        let found = self.by_directive.get(&(section, name)).cloned().unwrap_or_default();
        #[cfg(test)]
        self.walked.set(self.walked.get() + found.len());
        found
    }

    /// The assignment of a directive that counts: the last.
    pub(super) fn last(&self, section: &str, name: &str) -> Option<&'a UnitOption> {
        let last = self.by_directive.get(&(section, name))?.last().copied();
        last.filter(|option| !option.value.is_empty())
    }

    /// Its value.
    pub(super) fn text(&self, section: &str, name: &str) -> Option<&'a str> {
        self.last(section, name).map(|option| option.value.as_str())
    }

    /// A boolean directive.
    pub(super) fn flag(&self, section: &str, name: &str, otherwise: bool) -> bool {
        self.text(section, name).and_then(span::boolean).unwrap_or(otherwise)
    }

    /// Replaces specifiers; None: one can not be replaced, which is told. A template's stay.
    pub(super) fn expand(&mut self, option: &'a UnitOption, text: &str) -> Option<String> {
        if self.name.is_template() {
            return Some(text.to_string());
        }
        match specifier::expand(text, self.name, &self.around.facts) {
            Ok(text) => Some(text),
            Err(mistake) => {
                let message = format!("{}: the specifier {}", option.name, mistake.message);
                self.refuse(option, &message, "");
                None
            }
        }
    }

    /// The words of a directive over all its assignments, specifiers replaced.
    pub(super) fn words(
        &mut self,
        options: &[&'a UnitOption],
    ) -> Vec<(String, &'a UnitOption, Spot)> {
        self.parts(options, word::split)
    }

    /// The unit names of a directive: their backslashes are part of them.
    pub(super) fn names(
        &mut self,
        options: &[&'a UnitOption],
    ) -> Vec<(String, &'a UnitOption, Spot)> {
        self.parts(options, word::split_names)
    }

    fn parts(
        &mut self,
        options: &[&'a UnitOption],
        split: fn(&str) -> Result<Vec<Word>, Unbalanced>,
    ) -> Vec<(String, &'a UnitOption, Spot)> {
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
