//! The name of a fleet unit, `string.suffix` or `string@instance.suffix`, and what is
//! wrong with a text that is none. The rules and the words are those of fleet 1.0
//! (API clients show them to people). What a unit *is* follows from its options:
//! [`crate::unit_file`], [`crate::requirement`].

use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Bytes a name may have.
pub const LONGEST: usize = 256;

/// What may stand behind the last dot.
const TYPES: [&str; 13] = [
    "automount",
    "busname",
    "device",
    "mount",
    "path",
    "scope",
    "service",
    "slice",
    "snapshot",
    "socket",
    "swap",
    "target",
    "timer",
];
/// Those of them that may have instances.
const TEMPLATE_TYPES: [&str; 5] = ["path", "service", "socket", "target", "timer"];
/// What fleetctl takes as a suffix that is there; anything else gets `.service`.
const MANGLED: [&str; 7] = ["service", "socket", "timer", "path", "device", "mount", "automount"];

/// A name that keeps the rules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UnitName(Arc<str>);

/// Why a text is no unit name; its `Display` is what API clients are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Nothing there.
    Empty,
    /// Over [`LONGEST`] bytes.
    TooLong,
    /// No dot.
    NoDot,
    /// Nothing behind the last dot.
    EndsInDot,
    /// What stands there is no type of unit.
    Type(String),
    /// Units of that type have no instances.
    TemplateType(String),
    /// A character that names do not have.
    Character(char),
    /// Nothing before the `@`.
    StartsWithAt,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => f.write_str("unit name cannot be empty"),
            NameError::TooLong => write!(f, "unit name exceeds maximum length ({LONGEST})"),
            NameError::NoDot => f.write_str("unit name must contain \".\""),
            NameError::EndsInDot => f.write_str("unit name cannot end in \".\""),
            NameError::Type(suffix) => write!(f, "invalid unit type: \"{suffix}\""),
            NameError::TemplateType(suffix) => {
                write!(f, "invalid unit type for template: \"{suffix}\"")
            }
            NameError::Character(c) => write!(f, "invalid character '{c}' in unit name"),
            NameError::StartsWithAt => f.write_str("unit name cannot start in \"@\""),
        }
    }
}

impl std::error::Error for NameError {}

impl UnitName {
    /// # Errors
    /// The first rule that `text` breaks, in the order fleet checks them.
    pub fn new(text: &str) -> Result<UnitName, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > LONGEST {
            return Err(NameError::TooLong);
        }
        let (stem, suffix) = text.rsplit_once('.').ok_or(NameError::NoDot)?;
        if suffix.is_empty() {
            return Err(NameError::EndsInDot);
        }
        if !TYPES.contains(&suffix) {
            return Err(NameError::Type(suffix.to_string()));
        }
        if text.contains('@') && !TEMPLATE_TYPES.contains(&suffix) {
            return Err(NameError::TemplateType(suffix.to_string()));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || ":_.@\\-".contains(c);
        if let Some(c) = stem.chars().find(|c| !allowed(*c)) {
            return Err(NameError::Character(c));
        }
        if text.starts_with('@') {
            return Err(NameError::StartsWithAt);
        }
        Ok(UnitName(Arc::from(text)))
    }

    /// All of it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without the suffix: `%N`.
    pub fn stem(&self) -> &str {
        self.0.rsplit_once('.').map_or(&self.0, |(stem, _)| stem)
    }

    /// Behind the last dot.
    pub fn suffix(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(_, suffix)| suffix)
    }

    /// Before the first `@`, or the stem: `%p`.
    pub fn prefix(&self) -> &str {
        self.stem().split_once('@').map_or(self.stem(), |(prefix, _)| prefix)
    }

    /// Between the first `@` and the suffix; empty in a template, `None` without an `@`.
    pub fn instance(&self) -> Option<&str> {
        self.stem().split_once('@').map(|(_, instance)| instance)
    }

    /// `prefix@.suffix`: a file to make units of, never a unit that runs.
    pub fn is_template(&self) -> bool {
        self.instance() == Some("")
    }

    /// The template this name is an instance of.
    pub fn template(&self) -> Option<UnitName> {
        let instance = self.instance().filter(|instance| !instance.is_empty());
        instance.map(|_| UnitName(format!("{}@.{}", self.prefix(), self.suffix()).into()))
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for UnitName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for UnitName {
    type Error = NameError;

    fn try_from(text: String) -> Result<UnitName, NameError> {
        UnitName::new(&text)
    }
}

impl From<UnitName> for String {
    fn from(name: UnitName) -> String {
        name.0.to_string()
    }
}

/// What fleetctl makes of an argument: the last part of the path, and `.service` behind it
/// unless it ends in a suffix that fleetctl knows.
pub fn mangle(argument: &str) -> String {
    let base = argument.rsplit('/').next().unwrap_or(argument);
    match base.rsplit_once('.') {
        Some((_, suffix)) if MANGLED.contains(&suffix) => base.to_string(),
        _ => format!("{base}.service"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_broken_rule_has_the_words_clients_know() {
        let long = format!("{}.service", "a".repeat(249));
        let table = [
            ("", "unit name cannot be empty"),
            (long.as_str(), "unit name exceeds maximum length (256)"),
            ("foo", "unit name must contain \".\""),
            ("foo.", "unit name cannot end in \".\""),
            ("foo.bar", "invalid unit type: \"bar\""),
            ("foo.Service", "invalid unit type: \"Service\""),
            ("foo@1.mount", "invalid unit type for template: \"mount\""),
            ("a%b.service", "invalid character '%' in unit name"),
            ("a/b.service", "invalid character '/' in unit name"),
            ("ä.service", "invalid character 'ä' in unit name"),
            ("@a.service", "unit name cannot start in \"@\""),
        ];
        for (name, words) in table {
            assert_eq!(
                UnitName::new(name).map_err(|e| e.to_string()),
                Err(words.to_string()),
                "{name}"
            );
        }
    }

    #[test]
    fn odd_names_that_fleet_took_are_names() {
        let longest = format!("{}.service", "a".repeat(248));
        for name in [".service", "foo..service", "foo@bar@baz.service", "a\\x2db.mount", &longest] {
            assert!(UnitName::new(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_name_has_parts() {
        let parts = |text: &str| {
            let name = UnitName::new(text).unwrap();
            let template = name.template().map(String::from);
            (name.prefix().to_string(), name.instance().map(str::to_string), template)
        };
        let some = |text: &str| Some(text.to_string());
        assert_eq!(parts("web.service"), ("web".into(), None, None));
        assert_eq!(parts("web@.service"), ("web".into(), some(""), None));
        assert_eq!(parts("web@1.service"), ("web".into(), some("1"), some("web@.service")));
        assert_eq!(parts("a@b@c.d.service"), ("a".into(), some("b@c.d"), some("a@.service")));
    }

    #[test]
    fn an_argument_becomes_a_name() {
        let table = [
            ("foo", "foo.service"),
            ("foo.1", "foo.1.service"),
            ("foo.target", "foo.target.service"),
            ("a/foo.socket", "foo.socket"),
            ("foo@1", "foo@1.service"),
        ];
        for (argument, name) in table {
            assert_eq!(mangle(argument), name);
        }
    }
}
