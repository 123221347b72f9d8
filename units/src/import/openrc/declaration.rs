//! What is known so far of a script that only declares, on its way from the reading into the unit.
//! The steps are [`super::declare`]'s.

use super::reading::Reading;
use super::unit::Unit;
use super::variables::Why;
use crate::import::import_outcome::Outcome;
use crate::text::diagnostic::Place;
use std::collections::BTreeMap;

/// Why the script can not be said in a unit.
#[derive(Debug)]
pub(super) struct Reason {
    pub(super) at: Place,
    pub(super) what: String,
}

/// On its way from the reading into the unit.
pub(super) struct Declaration<'a> {
    pub(super) reading: &'a mut Reading,
    pub(super) unit: &'a mut Unit,
    /// By variable.
    pub(super) outcomes: BTreeMap<String, Outcome>,
    /// Options of the daemon's starter: name, value, and what became of them.
    pub(super) options: Vec<(String, String, Place, Outcome)>,
    pub(super) reasons: Vec<Reason>,
    pub(super) supervised: bool,
}

impl Declaration<'_> {
    /// Where the variable was assigned, or the beginning of the script.
    pub(super) fn place(&self, name: &str) -> Place {
        self.reading.place(name).unwrap_or_else(|| self.unit.start())
    }

    pub(super) fn reason(&mut self, at: Place, what: String) {
        self.reasons.push(Reason { at, what });
    }

    /// What was read; that it could not be is a reason.
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
