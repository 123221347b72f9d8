//! The state of converting a script that only declares; [`super::declare`] has the steps.

use super::reading::Reading;
use super::unit::Unit;
use super::variables::Why;
use crate::import::import_outcome::Outcome;
use crate::text::diagnostic::Place;
use std::collections::BTreeMap;

/// A reason why the script cannot be expressed as a unit.
#[derive(Debug)]
pub(super) struct Reason {
    pub(super) at: Place,
    pub(super) what: String,
}

/// A script under conversion.
pub(super) struct Declaration<'a> {
    pub(super) reading: &'a mut Reading,
    pub(super) unit: &'a mut Unit,
    /// Outcomes by variable.
    pub(super) outcomes: BTreeMap<String, Outcome>,
    /// Options of the daemon's starter: name, value and outcome.
    pub(super) options: Vec<(String, String, Place, Outcome)>,
    pub(super) reasons: Vec<Reason>,
    pub(super) supervised: bool,
}

impl Declaration<'_> {
    /// Returns the place of the variable's assignment, or the start of the script.
    pub(super) fn place(&self, name: &str) -> Place {
        self.reading.place(name).unwrap_or_else(|| self.unit.start())
    }

    pub(super) fn reason(&mut self, at: Place, what: String) {
        self.reasons.push(Reason { at, what });
    }

    /// Returns the value of a variable; an unreadable value becomes a reason.
    pub(super) fn got<T>(&mut self, name: &str, found: Result<T, Why>) -> Option<T> {
        match found {
            Ok(found) => Some(found),
            Err(why) => {
                let at = self.place(name);
                self.reason(at, format!("{name}: {why}"));
                None
            }
        }
    }

    pub(super) fn word(&mut self, name: &str) -> Option<String> {
        let found = self.reading.word(name);
        self.got(name, found).flatten()
    }

    pub(super) fn words(&mut self, name: &str) -> Vec<String> {
        let found = self.reading.words(name);
        self.got(name, found).unwrap_or_default()
    }

    pub(super) fn kept(&mut self, name: &str, key: &str) {
        self.outcomes.insert(name.to_string(), Outcome::Kept(key.to_string()));
    }

    pub(super) fn needless(&mut self, name: &str, why: &str) {
        self.outcomes.insert(name.to_string(), Outcome::ByDesign(why.to_string()));
    }

    pub(super) fn lost(&mut self, name: &str, how: &str) {
        self.outcomes.insert(name.to_string(), Outcome::Lost(how.to_string()));
    }
}
