//! `check`, and the report of a refused reload. See [`super`].

use super::SCHEMA;
use crate::text::diagnostic::{Diagnostic, Severity};
use serde::{Deserialize, Serialize};

/// Answer of `check`, and the report of a refused reload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// Number of errors.
    #[serde(default)]
    pub errors: usize,
    /// Number of warnings.
    #[serde(default)]
    pub warnings: usize,
    /// All diagnostics.
    #[serde(default)]
    pub diagnostics: Vec<Said>,
}

/// One diagnostic of a [`Report`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// The severity.
    pub severity: Severity,
    /// The code, a short stable word.
    #[serde(default)]
    pub code: String,
    /// The path as given.
    #[serde(default)]
    pub file: String,
    /// The line, from 1; 0 for the whole file.
    #[serde(default)]
    pub line: u32,
    /// The column, from 1; 0 for the whole line.
    #[serde(default)]
    pub column: u32,
    /// The message.
    #[serde(default)]
    pub message: String,
    /// The hint: what to do; may be empty.
    #[serde(default)]
    pub hint: String,
    /// Related places.
    #[serde(default)]
    pub related: Vec<Spot>,
    /// The line of the file, shortened; empty if not available.
    #[serde(default)]
    pub excerpt: String,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spot {
    /// The path as given.
    #[serde(default)]
    pub file: String,
    /// The line, from 1; 0 for the whole file.
    #[serde(default)]
    pub line: u32,
    /// The column, from 1; 0 for the whole line.
    #[serde(default)]
    pub column: u32,
}

impl Report {
    /// Creates a report from diagnostics.
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
