//! Names of units and targets. Every input (file, socket, policy, command line) is checked by this
//! one rule, because a name becomes a file name, a cgroup name and an etcd key.

use crate::limit;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The hint for a template's name, which no unit provides.
pub(crate) fn template_hint(text: &str) -> Option<String> {
    text.ends_with('@')
        .then(|| format!("a template is not a unit yet: name an instance, as `{text}x`"))
}

/// Returns the number of wrong letters that still count as a typo in a name of this length. It is 0
/// for one or two letters, because all such names are close.
pub fn slips(length: usize) -> usize {
    (length / 3).min(3)
}

/// Returns the known name that was probably meant. The cost is bounded ([`limit::HINT_NAME`],
/// [`limit::HINT_CANDIDATES`]), because unit files choose the names and PID 1 gives such hints too.
#[cfg(feature = "text")]
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a Name>) -> Option<&'a Name> {
    let slips = slips(name.len());
    if name.len() > limit::HINT_NAME || slips == 0 {
        return None;
    }
    let own = letters(name);
    // A typo adds, drops or changes a letter, and so changes two bits at most.
    let is_like = |other: &&Name| {
        other.as_str().len().abs_diff(name.len()) <= slips
            && (letters(other.as_str()) ^ own).count_ones() as usize <= 2 * slips
    };
    let compared = known.filter(is_like).take(limit::HINT_CANDIDATES);
    compared
        .map(|other| (strsim::osa_distance(other.as_str(), name), other))
        .filter(|(slipped, _)| *slipped <= slips)
        .min()
        .map(|(_, near)| near)
}

/// Returns a bit set of the letters of the name.
#[cfg(feature = "text")]
fn letters(name: &str) -> u64 {
    name.bytes().fold(0, |set, byte| set | 1 << (byte % 64))
}

/// The error of a text that is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The text is empty.
    Empty,
    /// The text has more than [`limit::NAME`] bytes.
    TooLong,
    /// The text starts with `-` or `.`.
    Start(char),
    /// The text contains this character.
    Character(char),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => write!(f, "a name is empty"),
            NameError::TooLong => write!(f, "a name is longer than {} bytes", limit::NAME),
            NameError::Start(c) => write!(f, "a name may not start with {c:?}"),
            NameError::Character(c) => write!(f, "a name may not hold {c:?}"),
        }
    }
}

impl std::error::Error for NameError {}

/// The name of a unit or target: 1–255 of `[A-Za-z0-9:_.@\\\-]`, not starting with `-` or `.` (and
/// so never `..` or a path). The backslash is for escapes in systemd unit names. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks the text and creates a name.
    pub fn new(text: &str) -> Result<Name, NameError> {
        let Some(first) = text.chars().next() else { return Err(NameError::Empty) };
        if text.len() > limit::NAME {
            return Err(NameError::TooLong);
        }
        if let Some(bad) = text.chars().find(|c| !allowed(*c)) {
            return Err(NameError::Character(bad));
        }
        if matches!(first, '-' | '.') {
            return Err(NameError::Start(first));
        }
        Ok(Name(text.into()))
    }

    /// Creates a name from a literal of the program; a test checks that it follows the rule.
    pub(crate) fn literal(text: &'static str) -> Name {
        Name(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '.' | '@' | '-' | '\\')
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        Name::new(&text).map_err(serde::de::Error::custom)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Name, NameError> {
        Name::new(text)
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_are_refused() {
        for good in ["a", "0", "web", "getty@tty1.service", "a:b_c-d.e", r"srv-a\x2db.mount"] {
            assert!(Name::new(good).is_ok(), "{good}");
        }
        let long = "x".repeat(limit::NAME + 1);
        for bad in ["", ".", "..", "-rf", ".x", "a/b", "a b", "a\0", "ä", "a\n", long.as_str()] {
            assert!(Name::new(bad).is_err(), "{bad:?}");
        }
    }
    #[cfg(feature = "text")]
    #[test]
    fn typo_finds_the_nearest_name_among_a_bounded_number_of_candidates() {
        let names = |texts: &[&str]| texts.iter().map(|text| Name::new(text).unwrap()).collect();
        let known: Vec<Name> = names(&["database", "datebase2", "web", "network-online"]);
        let near = |text: &str| nearest(text, known.iter()).map(Name::as_str);
        for (slip, meant) in [
            ("databse", Some("database")),
            ("databaes", Some("database")),
            ("netwrok-onlin", Some("network-online")),
            ("wbe", Some("web")),
            ("we", None),
            ("mail", None),
        ] {
            assert_eq!(near(slip), meant, "{slip}");
        }
        let long = "x".repeat(limit::HINT_NAME + 1);
        assert_eq!(nearest(&long, names(&[&long]).iter()), None, "its cost grows with the square");
        let mut many: Vec<Name> = (0..limit::HINT_CANDIDATES)
            .map(|n| Name::new(&format!("ijklmn{n:04}opqrs")).unwrap())
            .collect();
        many.push(Name::new("zzzz-abcdefgh").unwrap());
        assert_eq!(
            nearest("zzzzz-abcdefgh", many.iter()),
            Some(many.last().unwrap()),
            "unlike names do not count"
        );
    }
}
