//! What became of each directive, of whichever format: the report of `initctl convert`.

use crate::text::diagnostic::Place;
use crate::unit::manifest::Manifest;
use std::sync::Arc;

/// A file as a native unit, and what became of what it says.
#[derive(Clone, Debug)]
pub struct Imported {
    /// As the native loader takes it; its diagnostics are those of the import.
    pub manifest: Manifest,
    /// Of each directive.
    pub outcomes: Vec<ImportOutcome>,
}

/// What became of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in this native key.
    Kept(String),
    /// Nothing is lost without it.
    Silent,
    /// Left out on purpose: why.
    ByDesign(String),
    /// Left out, and the unit behaves differently: how.
    Lost(String),
    /// Left out, and the unit runs weaker than asked.
    Weaker(String),
    /// It makes the unit unusable: why.
    Refused(String),
}

/// One directive and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOutcome {
    /// Its section.
    pub section: Arc<str>,
    /// Its name.
    pub name: String,
    /// As written.
    pub value: String,
    /// Where.
    pub at: Place,
    /// What became of it.
    pub outcome: Outcome,
}

/// How much of a file is honoured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Directives that have a native meaning, or lose none.
    pub honoured: usize,
    /// All.
    pub all: usize,
}

impl Score {
    /// Of these.
    pub fn of(outcomes: &[ImportOutcome]) -> Score {
        let honoured = |directive: &&ImportOutcome| {
            matches!(directive.outcome, Outcome::Kept(_) | Outcome::Silent | Outcome::ByDesign(_))
        };
        Score { honoured: outcomes.iter().filter(honoured).count(), all: outcomes.len() }
    }

    /// In hundredths; a file that asks for nothing has all it asked for.
    pub fn percent(self) -> usize {
        self.honoured.saturating_mul(100).checked_div(self.all).unwrap_or(100)
    }
}
