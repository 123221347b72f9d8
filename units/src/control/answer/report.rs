//! `check`, and the report of a refused reload. See [`super`].

use super::SCHEMA;
use crate::text::diagnostic::{Diagnostic, Severity};
use serde::{Deserialize, Serialize};
use serde_with::apply;

/// Answer of `check`, and the report of a refused reload.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Number of errors.
    pub errors: usize,
    /// Number of warnings.
    pub warnings: usize,
    /// All diagnostics.
    pub diagnostics: Vec<Said>,
}

/// One diagnostic of a [`Report`].
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// The severity.
    #[serde_with(skip_apply)]
    pub severity: Severity,
    /// The code, a short stable word.
    pub code: String,
    /// The path as given.
    pub file: String,
    /// The line, from 1; 0 for the whole file.
    pub line: u32,
    /// The column, from 1; 0 for the whole line.
    pub column: u32,
    /// The message.
    pub message: String,
    /// The hint: what to do; may be empty.
    pub hint: String,
    /// Related places.
    pub related: Vec<Spot>,
    /// The line of the file, shortened; empty if not available.
    pub excerpt: String,
}

/// A place in a file.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spot {
    /// The path as given.
    pub file: String,
    /// The line, from 1; 0 for the whole file.
    pub line: u32,
    /// The column, from 1; 0 for the whole line.
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
