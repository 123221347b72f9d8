//! One key of a unit file: name, form of the value, types, default, and meaning. The parser, the
//! diagnostics, `initctl explain`, the man page and the editor schema all use the same table of
//! keys, [`crate::unit::key_table`].
//!
//! [`crate::unit::semantics`] interprets the values.

use crate::spec::{DependencyKind, Kind};

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One name.
    Name,
    /// Names: `a, b` or a YAML list.
    Names,
    /// Targets, each with or without a `?`: `a, b?` or a YAML list.
    Targets,
    /// Any text of one line.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A boolean: yes or no.
    Boolean,
    /// A whole number in a range.
    Count(u32, u32),
    /// A duration.
    Duration,
    /// A duration above zero, or `none`.
    Timeout,
    /// A signal.
    Signal,
    /// A list of exit statuses and signals.
    Statuses,
    /// `5`, or `5/10s`.
    RestartLimit,
    /// One exec line; a oneshot may have a list.
    ExecStart,
    /// An exec line or a list of them.
    ExecLines,
    /// An absolute path.
    Path,
    /// An absolute path or a list of them.
    Paths,
    /// A regular expression.
    Pattern,
    /// A user or group, by name or number.
    Account,
    /// A list of groups.
    Accounts,
    /// A map, or a list of `NAME=value`.
    Environment,
    /// A path or a list of paths, a leading `-` meaning that it may be missing.
    EnvFiles,
    /// Octal permission bits.
    Umask,
    /// A map from resource to limit.
    Limits,
    /// One value of this form, in words.
    Form(&'static str),
    /// One or a list of values of this form, in words.
    Forms(&'static str),
}

impl Shape {
    /// Describes the form.
    pub fn words(self) -> String {
        match self {
            Shape::Name => "a name".to_string(),
            Shape::Names => "names: `a, b` or a list".to_string(),
            Shape::Targets => "targets: `a, b` or a list; `a?` if it may be missing".to_string(),
            Shape::Text => "a line of text".to_string(),
            Shape::Choice(words) => format!("one of {}", words.join(", ")),
            Shape::Boolean => "yes or no".to_string(),
            Shape::Count(least, u32::MAX) => format!("a whole number, {least} or more"),
            Shape::Count(least, most) => format!("a whole number from {least} to {most}"),
            Shape::Duration => {
                "a duration: `500ms`, `5s`, `1min 30s`; a bare number is seconds".to_string()
            }
            Shape::Timeout => "a duration above zero, or `none`".to_string(),
            Shape::Signal => "a signal: `TERM`, `SIGUSR1`, `RTMIN+3`, `15`".to_string(),
            Shape::Statuses => "a list of exit statuses and signal names".to_string(),
            Shape::RestartLimit => {
                "a number of failures in a row, or `5/10s`, or `none`".to_string()
            }
            Shape::ExecStart => "an exec line; for a oneshot also a list, run in order".to_string(),
            Shape::ExecLines => "an exec line, or a list of them, run in order".to_string(),
            Shape::Path => "an absolute path".to_string(),
            Shape::Paths => "an absolute path, or a list of them".to_string(),
            Shape::Pattern => "a regular expression".to_string(),
            Shape::Account => "a name or a number".to_string(),
            Shape::Accounts => "a list of names or numbers".to_string(),
            Shape::Environment => "a map, or a list of `NAME=value`".to_string(),
            Shape::EnvFiles => {
                "an absolute path or a list of them; `-/path` may be missing".to_string()
            }
            Shape::Umask => "octal permission bits: `022`".to_string(),
            Shape::Form(words) => words.to_string(),
            Shape::Forms(words) => format!("{words}, or a list of them"),
            Shape::Limits => "a map such as `nofile: 1024:4096`".to_string(),
        }
    }
}

/// When a changed value takes effect at a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The key identifies the unit: another value means another unit.
    Identity,
    /// The change applies to the present run.
    Live,
    /// The change applies to the next run: an up unit is restarted, as `on-change` says.
    Run,
}

impl Class {
    /// Describes the class.
    pub fn words(self) -> &'static str {
        match self {
            Class::Identity => "identifies the unit",
            Class::Live => "a reload changes it in place",
            Class::Run => "a reload restarts a running unit (see on-change)",
        }
    }
}

/// A set of the nine types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(pub u16);

impl Kinds {
    /// The empty set.
    pub const NONE: Kinds = Kinds(0);
    /// All types.
    pub const ALL: Kinds = Kinds((1 << Kind::ALL.len()) - 1);

    /// The set of these types.
    pub const fn of(kinds: &[Kind]) -> Kinds {
        let mut bits = 0;
        let mut rest = kinds;
        while let [first, others @ ..] = rest {
            bits |= 1 << *first as u16;
            rest = others;
        }
        Kinds(bits)
    }

    /// Returns the union.
    pub const fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// Returns true if the set contains this type.
    pub const fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u16) != 0
    }

    /// Describes the set: `all types`, or their names.
    pub fn words(self) -> String {
        if self == Kinds::ALL {
            return "all types".to_string();
        }
        let names = Kind::ALL.iter().filter(|kind| self.has(**kind)).map(|kind| kind.as_str());
        names.collect::<Vec<_>>().join(", ")
    }
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name in a unit file.
    pub name: &'static str,
    /// The form of the value.
    pub shape: Shape,
    /// The class: when a change takes effect.
    pub class: Class,
    /// The types that accept the key.
    pub types: Kinds,
    /// The types that require the key.
    pub required: Kinds,
    /// The default, in words.
    pub default: &'static str,
    /// The documentation, one paragraph.
    pub doc: &'static str,
    /// An example of one or a few lines.
    pub example: &'static str,
}

impl Key {
    /// Returns the dependency kind of the key, if it is a dependency list.
    pub fn dependency(&self) -> Option<DependencyKind> {
        DependencyKind::ALL.into_iter().find(|kind| kind.as_str() == self.name)
    }
}

/// Prefix of keys for users, which nothing reads.
pub const PRIVATE: &str = "x-";

/// Returns the known name that was probably meant.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // The cost of the distance is the product of both lengths, and a key may be as long as a file.
    let swapped = name.to_ascii_lowercase().replace('_', "-");
    known
        .filter(|candidate| candidate.len().abs_diff(swapped.len()) <= 1 + candidate.len() / 4)
        .map(|candidate| (strsim::damerau_levenshtein(&swapped, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(name.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
