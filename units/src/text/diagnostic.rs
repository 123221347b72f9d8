//! How a mistake in a file is said: a place, a fact, a hint; all of them at once.
//!
//! `initctl check`, a refused reload and the boot log print the same diagnostics
//! from the same code. This file only holds and prints them; who finds them is in
//! the parsers and in [`crate::unit::generation`].

use serde::{Deserialize, Serialize};
use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The unit (or the whole load) can not be used.
    Error,
    /// It can be used, and is probably not what was meant.
    Warning,
    /// Good to know.
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

/// A place in a file, `line` and `column` from 1, the column counted in characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The file as it was given on the command line or in the settings.
    pub file: std::sync::Arc<str>,
    /// From 1; 0 where the file as a whole is meant.
    pub line: u32,
    /// From 1; 0 where the line as a whole is meant.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// How bad.
    pub severity: Severity,
    /// A short stable word for programs: `unknown-key`, `ring`, `double-claim` …
    pub code: String,
    /// Where.
    pub at: Place,
    /// The fact, in lower case, without a full stop.
    pub message: String,
    /// What to do about it; empty when there is nothing to say.
    pub hint: String,
    /// Other places that belong to it (each link of a ring, each claim).
    pub related: Vec<Place>,
    /// The line of the file, cut short; empty when it is not at hand.
    pub excerpt: String,
}

/// One line, as it stands in a boot log: `FILE:LINE:COL: error: fact (hint)`.
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
    /// A diagnostic about a whole file, without line and column.
    pub fn of_file(severity: Severity, code: &str, path: &str, message: String) -> Self {
        Diagnostic::new(severity, code, Place { file: path.into(), line: 1, column: 1 }, message)
    }

    /// One with nothing but the fact.
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

    /// An error.
    pub fn error(code: &str, at: Place, message: impl Into<String>) -> Self {
        Diagnostic::new(Severity::Error, code, at, message)
    }

    /// A warning.
    pub fn warning(code: &str, at: Place, message: impl Into<String>) -> Self {
        Diagnostic::new(Severity::Warning, code, at, message)
    }

    /// A note.
    pub fn note(code: &str, at: Place, message: impl Into<String>) -> Self {
        Diagnostic::new(Severity::Note, code, at, message)
    }

    /// The same with a hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// The same with other places that belong to it.
    pub fn with_related(mut self, related: Vec<Place>) -> Self {
        self.related = related;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_is_one_line_with_as_much_of_a_place_as_there_is() {
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
