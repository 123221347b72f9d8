//! `check`, and what a refused reload comes with.
//! See [`super`].

use super::SCHEMA;
use crate::text::diagnostic::{Diagnostic, Severity};
use serde::{Deserialize, Serialize};

/// Answer of `check`, and what a refused reload comes with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// How many.
    #[serde(default)]
    pub errors: usize,
    /// How many.
    #[serde(default)]
    pub warnings: usize,
    /// All of them.
    #[serde(default)]
    pub diagnostics: Vec<Said>,
}

/// One diagnostic of a [`Report`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// How bad.
    pub severity: Severity,
    /// A short stable word.
    #[serde(default)]
    pub code: String,
    /// As given.
    #[serde(default)]
    pub file: String,
    /// From 1; 0: the whole file.
    #[serde(default)]
    pub line: u32,
    /// From 1; 0: the whole line.
    #[serde(default)]
    pub column: u32,
    /// The fact.
    #[serde(default)]
    pub message: String,
    /// What to do; may be empty.
    #[serde(default)]
    pub hint: String,
    /// Other places that belong to it.
    #[serde(default)]
    pub related: Vec<Spot>,
    /// The line of the file, cut short; empty when it is not at hand.
    #[serde(default)]
    pub excerpt: String,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spot {
    /// As given.
    #[serde(default)]
    pub file: String,
    /// From 1; 0: the whole file.
    #[serde(default)]
    pub line: u32,
    /// From 1; 0: the whole line.
    #[serde(default)]
    pub column: u32,
}

impl Report {
    /// Counts and copies.
    pub fn new(diagnostics: &[Diagnostic]) -> Report {
        let count = |severity| diagnostics.iter().filter(|d| d.severity == severity).count();
        Report {
            schema: SCHEMA,
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            diagnostics: diagnostics.iter().map(Said::from).collect(),
        }
    }
}

impl From<&Diagnostic> for Said {
    fn from(diagnostic: &Diagnostic) -> Said {
        let spot = |place: &crate::text::diagnostic::Place| Spot {
            file: place.file.to_string(),
            line: place.line,
            column: place.column,
        };
        Said {
            severity: diagnostic.severity,
            code: diagnostic.code.clone(),
            file: diagnostic.at.file.to_string(),
            line: diagnostic.at.line,
            column: diagnostic.at.column,
            message: diagnostic.message.clone(),
            hint: diagnostic.hint.clone(),
            related: diagnostic.related.iter().map(spot).collect(),
            excerpt: diagnostic.excerpt.clone(),
        }
    }
}
