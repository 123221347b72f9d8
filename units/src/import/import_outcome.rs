//! The outcome of each directive, for every format: the report of `initctl convert`.

use crate::text::diagnostic::Place;
use crate::unit::manifest::Manifest;
use std::sync::Arc;

/// An imported file: a native unit, and the outcome of its directives.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The native manifest; its diagnostics are those of the import.
    pub manifest: Manifest,
    /// The outcome of each directive.
    pub outcomes: Vec<ImportOutcome>,
}

/// The outcome of one directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The directive became this native key.
    Kept(String),
    /// The directive has no effect here.
    Silent,
    /// Left out on purpose, with the reason.
    ByDesign(String),
    /// Left out, and the unit behaves differently; the text says how.
    Lost(String),
    /// Left out, and the unit runs with less isolation than requested.
    Weaker(String),
    /// The directive makes the unit unusable, with the reason.
    Refused(String),
}

/// One directive and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOutcome {
    /// The section.
    pub section: Arc<str>,
    /// The name.
    pub name: String,
    /// The value as written.
    pub value: String,
    /// The place.
    pub at: Place,
    /// The outcome.
    pub outcome: Outcome,
}

/// The share of a file that is honoured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Number of directives that became native, have no effect here, or are left out on purpose.
    pub honoured: usize,
    /// Number of directives.
    pub all: usize,
}

impl Score {
    /// Computes the score of these outcomes.
    pub fn of(outcomes: &[ImportOutcome]) -> Score {
        let honoured = |directive: &&ImportOutcome| {
            matches!(directive.outcome, Outcome::Kept(_) | Outcome::Silent | Outcome::ByDesign(_))
        };
        Score { honoured: outcomes.iter().filter(honoured).count(), all: outcomes.len() }
    }

    /// Returns the score in percent; 100 for a file without directives.
    pub fn percent(self) -> usize {
        self.honoured.saturating_mul(100).checked_div(self.all).unwrap_or(100)
    }
}
