//! The name of a fleet unit, `string.suffix` or `string@instance.suffix`, and the errors of invalid
//! names. Rules and messages are those of fleet 1.0, because API clients show them to users.

use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Maximum length of a name in bytes.
pub const LONGEST: usize = 256;

/// Allowed suffixes.
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
/// Suffixes of units that may have instances.
const TEMPLATE_TYPES: [&str; 5] = ["path", "service", "socket", "target", "timer"];
/// Suffixes that fleetctl leaves as they are. It appends `.service` to all other arguments.
const KEPT_SUFFIXES: [&str; 7] =
    ["service", "socket", "timer", "path", "device", "mount", "automount"];

/// A valid unit name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UnitName(Arc<str>);

/// Why a text is not a unit name; API clients get the `Display` text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The text is empty.
    Empty,
    /// The text exceeds [`LONGEST`] bytes.
    TooLong,
    /// The text has no dot.
    NoDot,
    /// Nothing follows the last dot.
    EndsInDot,
    /// The suffix is not a unit type.
    Type(String),
    /// The unit type does not allow instances.
    TemplateType(String),
    /// The character is not allowed in names.
    Character(char),
    /// Nothing precedes the `@`.
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
    /// Checks and creates a unit name.
    ///
    /// # Errors
    /// The first violated rule, in fleet's order of checks.
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

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without the suffix: `%N`.
    pub fn stem(&self) -> &str {
        self.0.rsplit_once('.').map_or(&self.0, |(stem, _)| stem)
    }

    /// The text after the last dot.
    pub fn suffix(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(_, suffix)| suffix)
    }

    /// The text before the first `@`, or the stem: `%p`.
    pub fn prefix(&self) -> &str {
        self.stem().split_once('@').map_or(self.stem(), |(prefix, _)| prefix)
    }

    /// The text between the first `@` and the suffix: empty for a template, `None` without an `@`.
    pub fn instance(&self) -> Option<&str> {
        self.stem().split_once('@').map(|(_, instance)| instance)
    }

    /// Returns true for `prefix@.suffix`, a file that makes instances and never runs itself.
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

/// Turns a fleetctl argument into a unit name: the last part of the path, plus `.service` unless it
/// ends in a suffix that fleetctl knows.
pub fn mangle(argument: &str) -> String {
    let base = argument.rsplit('/').next().unwrap_or(argument);
    match base.rsplit_once('.') {
        Some((_, suffix)) if KEPT_SUFFIXES.contains(&suffix) => base.to_string(),
        _ => format!("{base}.service"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_broken_rule_has_fleets_message() {
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
    fn odd_names_that_fleet_accepts_are_valid() {
        let longest = format!("{}.service", "a".repeat(248));
        for name in [".service", "foo..service", "foo@bar@baz.service", "a\\x2db.mount", &longest] {
            assert!(UnitName::new(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn name_is_split_into_prefix_instance_and_template() {
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
    fn argument_without_a_known_suffix_gets_service() {
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
