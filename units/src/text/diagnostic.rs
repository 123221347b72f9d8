//! Diagnostics: errors in files, with place, message and hint.
//!
//! `initctl check`, a refused reload and the boot log print the same diagnostics. This file only
//! defines and prints them; the parsers, the graph and the loader create them.

use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::fmt;

/// The severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The unit, or the whole load, is unusable.
    Error,
    /// The text is valid but probably not intended.
    Warning,
    /// Information.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

/// A place in a file. `line` and `column` count from 1, the column in characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The file as given on the command line or in the settings.
    pub file: std::sync::Arc<str>,
    /// The line, from 1; 0 for the whole file.
    pub line: u32,
    /// The column, from 1; 0 for the whole line.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One diagnostic.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// The severity.
    #[serde_with(skip_apply)]
    pub severity: Severity,
    /// The code, a short stable word for programs: `unknown-key`, `ring`, `double-claim` …
    pub code: String,
    /// The place.
    pub at: Place,
    /// The message, in lower case without a full stop.
    pub message: String,
    /// The hint; may be empty.
    pub hint: String,
    /// Related places: each link of a ring, each claim.
    pub related: Vec<Place>,
    /// The line of the file, shortened; empty if not available.
    pub excerpt: String,
}

/// Writes one line, as in the boot log: `FILE:LINE:COL: error: fact (hint)`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.at.line, self.at.column) {
            (0, _) => write!(f, "{}: ", self.at.file)?,
            (line, 0) => write!(f, "{}:{line}: ", self.at.file)?,
            (line, column) => write!(f, "{}:{line}:{column}: ", self.at.file)?,
        }
        write!(f, "{}: {}", self.severity, self.message)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, " ({})", self.hint) }
    }
}

impl Diagnostic {
    /// Creates a diagnostic about a whole file, placed at its first character.
    pub fn of_file(severity: Severity, code: &str, path: &str, message: String) -> Self {
        Diagnostic::new(severity, code, Place { file: path.into(), line: 1, column: 1 }, message)
    }

    /// Creates a diagnostic with only a message.
    pub fn new(severity: Severity, code: &str, at: Place, message: impl Into<String>) -> Self {
        Diagnostic {
            severity,
            code: code.to_string(),
            at,
            message: message.into(),
            hint: String::new(),
            related: Vec::new(),
            excerpt: String::new(),
        }
    }

    /// Creates an error.
    pub fn error(code: &str, at: Place, message: impl Into<String>) -> Self {
        Diagnostic::new(Severity::Error, code, at, message)
    }

    /// Creates a warning.
    pub fn warning(code: &str, at: Place, message: impl Into<String>) -> Self {
        Diagnostic::new(Severity::Warning, code, at, message)
    }

    /// Creates a note.
    pub fn note(code: &str, at: Place, message: impl Into<String>) -> Self {
        Diagnostic::new(Severity::Note, code, at, message)
    }

    /// Adds a hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Adds related places.
    pub fn with_related(mut self, related: Vec<Place>) -> Self {
        self.related = related;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagnostic_is_printed_as_one_line_with_the_known_parts_of_its_place() {
        let place = |line, column| Place { file: "a.yaml".into(), line, column };
        let said = |line, column| Diagnostic::error("x", place(line, column), "no").to_string();
        assert_eq!(said(3, 4), "a.yaml:3:4: error: no");
        assert_eq!(
            (said(3, 0), said(0, 0)),
            ("a.yaml:3: error: no".into(), "a.yaml: error: no".into())
        );
        let hinted = Diagnostic::warning("x", place(1, 1), "no").with_hint("do");
        assert_eq!(hinted.to_string(), "a.yaml:1:1: warning: no (do)");
    }
}
