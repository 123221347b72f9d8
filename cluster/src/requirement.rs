//! The requirements of a unit: its `[X-Fleet]` section, including the forms before fleet 0.8, and
//! the combinations that are refused. [`crate::placement`] matches them with machines.

use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use groundstate_units::text::glob;
use groundstate_units::unit::key::nearest;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Name of the section.
pub const SECTION: &str = "X-Fleet";

/// Maximum number of MachineOf units and MachineMetadata keys of one unit. Each is a condition of
/// the write that moves the unit, and etcd accepts 128 of those.
pub const MOST_PEERS: usize = 16;
/// See [`MOST_PEERS`].
pub const MOST_KEYS: usize = 16;
/// Maximum number of patterns of one kind: each is matched against all unit names on a machine.
pub const MOST_PATTERNS: usize = 64;

/// Words that mean false for `Global` and `Exclusive`.
const FALSE: [&str; 6] = ["", "false", "no", "0", "off", "f"];

/// The keys of fleet, and our additions.
const KNOWN: [&str; 12] = [
    "MachineID",
    "MachineOf",
    "MachineMetadata",
    "Conflicts",
    "Global",
    "Replaces",
    "Exclusive",
    "X-ConditionMachineID",
    "X-ConditionMachineBootID",
    "X-ConditionMachineOf",
    "X-ConditionMachineMetadata",
    "X-Conflicts",
];

/// The requirements, with specifiers expanded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirement {
    /// The required machine id; an empty value counts as given.
    pub machine_id: Option<String>,
    /// Units whose machine it must share.
    pub peers: BTreeSet<String>,
    /// For each key, the accepted values.
    pub metadata: BTreeMap<String, BTreeSet<String>>,
    /// Patterns of units that may not share its machine.
    pub conflicts: Vec<String>,
    /// Patterns of units that it displaces.
    pub replaces: Vec<String>,
    /// The unit runs on every machine that meets its requirements; the engine does not place it.
    pub global: bool,
    /// Never runs on two machines at once, at the cost of availability.
    pub exclusive: bool,
}

/// Why the section is refused; API clients get the `Display` text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequirementError {
    /// A unit of MachineOf matches a pattern of Conflicts.
    PeerConflict {
        /// The unit of MachineOf.
        peer: String,
        /// The matching pattern.
        pattern: String,
    },
    /// A unit of MachineOf matches a pattern of Replaces.
    PeerReplaced {
        /// The unit of MachineOf.
        peer: String,
        /// The matching pattern.
        pattern: String,
    },
    /// Two options that exclude each other.
    Together(&'static str, &'static str),
    /// More entries of one kind than allowed.
    TooMany(&'static str, usize),
}

impl fmt::Display for RequirementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequirementError::PeerConflict { peer, pattern } => write!(
                f,
                "unresolvable requirements: peer \"{peer}\" matches conflict \"{pattern}\""
            ),
            RequirementError::PeerReplaced { peer, pattern } => write!(
                f,
                "unresolvable requirements: peer \"{peer}\" matches replace \"{pattern}\""
            ),
            RequirementError::Together(one, other) => {
                write!(f, "{one} cannot be used with {other}")
            }
            RequirementError::TooMany(what, most) => {
                write!(f, "too many {what} (max {most})")
            }
        }
    }
}

impl std::error::Error for RequirementError {}

impl Requirement {
    /// Reads the requirements of a unit file. Specifiers (`%n %N %p %i`) are expanded from `name`.
    /// Without a name they stay as written, as in the check of a submitted file.
    pub fn of(file: &UnitFile, name: Option<&UnitName>) -> Requirement {
        let values = |key: &str| -> Vec<String> {
            let lines = file.values(SECTION, key);
            lines.flat_map(words).map(|word| expand(&word, name)).collect()
        };
        let all = |keys: &[&str]| keys.iter().flat_map(|key| values(key)).collect::<Vec<_>>();
        let newest = |keys: &[&str]| keys.iter().find_map(|key| values(key).into_iter().next());
        let split =
            |value: &String| value.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        let mut metadata: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for pair in all(&["MachineMetadata", "X-ConditionMachineMetadata"]) {
            if let Some((key, value)) = self::pair(&pair) {
                metadata.entry(key.to_string()).or_default().insert(value.to_string());
            }
        }
        Requirement {
            machine_id: newest(&["MachineID", "X-ConditionMachineID", "X-ConditionMachineBootID"]),
            peers: all(&["MachineOf", "X-ConditionMachineOf"]).into_iter().collect(),
            metadata,
            conflicts: all(&["Conflicts", "X-Conflicts"]).iter().flat_map(split).collect(),
            replaces: values("Replaces"),
            global: values("Global").last().is_some_and(|value| is_true(value)),
            exclusive: values("Exclusive").last().is_some_and(|value| is_true(value)),
        }
    }

    /// Checks for refused combinations.
    ///
    /// # Errors
    /// The first refused combination, in fleet's order of checks.
    pub fn check(&self) -> Result<(), RequirementError> {
        let counts = [
            ("units in MachineOf", self.peers.len(), MOST_PEERS),
            ("keys in MachineMetadata", self.metadata.len(), MOST_KEYS),
            ("patterns in Conflicts", self.conflicts.len(), MOST_PATTERNS),
            ("patterns in Replaces", self.replaces.len(), MOST_PATTERNS),
        ];
        if let Some((what, _, most)) = counts.into_iter().find(|(_, count, most)| count > most) {
            return Err(RequirementError::TooMany(what, most));
        }
        for peer in &self.peers {
            if let Some(pattern) = self.conflicts.iter().find(|glob| glob::matches(glob, peer)) {
                let (peer, pattern) = (peer.clone(), pattern.clone());
                return Err(RequirementError::PeerConflict { peer, pattern });
            }
            if let Some(pattern) = self.replaces.iter().find(|glob| glob::matches(glob, peer)) {
                let (peer, pattern) = (peer.clone(), pattern.clone());
                return Err(RequirementError::PeerReplaced { peer, pattern });
            }
        }
        let given = [
            ("MachineID", self.machine_id.is_some()),
            ("Peers", !self.peers.is_empty()),
            ("Conflicts", !self.conflicts.is_empty()),
            ("Global", self.global),
            ("Replaces", !self.replaces.is_empty()),
            ("Exclusive", self.exclusive),
        ];
        let is_given = |name: &str| given.iter().any(|(own, given)| *own == name && *given);
        let refused = [
            ("MachineID", "Peers"),
            ("MachineID", "Conflicts"),
            ("MachineID", "Global"),
            ("MachineID", "Replaces"),
            ("Global", "Peers"),
            ("Global", "Replaces"),
            ("Conflicts", "Replaces"),
            ("Global", "Exclusive"),
        ];
        match refused.iter().find(|(one, other)| is_given(one) && is_given(other)) {
            Some((one, other)) => Err(RequirementError::Together(one, other)),
            None => Ok(()),
        }
    }

    /// Returns the conflict pattern that matches `other`.
    pub fn conflict_with(&self, other: &str) -> Option<&str> {
        self.conflicts.iter().map(String::as_str).find(|pattern| glob::matches(pattern, other))
    }

    /// Returns true if `other` gives way to this unit.
    pub fn drives_away(&self, other: &str) -> bool {
        self.replaces.iter().any(|pattern| glob::matches(pattern, other))
    }
}

/// Returns a warning for each part of the section that has no effect. A typing error there would
/// place the unit on the wrong machine.
pub fn warnings(file: &UnitFile) -> BTreeSet<String> {
    let own = |section: &str| {
        section.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let others = file.options.iter().map(|option| option.section.as_str());
    let others = others.filter(|section| *section != SECTION && own(section) == own(SECTION));
    let sections =
        others.map(|other| format!("section [{other}] has no effect (did you mean [{SECTION}]?)"));
    let in_section = file.options.iter().filter(|option| option.section == SECTION);
    sections.chain(in_section.flat_map(|option| warnings_of(&option.name, &option.value))).collect()
}

fn warnings_of(key: &str, value: &str) -> Vec<String> {
    match key {
        "MachineMetadata" | "X-ConditionMachineMetadata" => {
            let words = words(value).into_iter().filter(|word| pair(word).is_none());
            words
                .map(|word| {
                    format!(
                        "{key}={word} has no effect: it is not KEY=VALUE \
                         (several pairs on a line: {key}=\"a=1\" \"b=2\")"
                    )
                })
                .collect()
        }
        "Global" | "Exclusive" => {
            let word = words(value).pop().unwrap_or_default();
            let known = is_true(&word) || FALSE.contains(&word.to_ascii_lowercase().as_str());
            let warning =
                || format!("{key}={value} is neither true nor false; it is treated as false");
            (!known).then(warning).into_iter().collect()
        }
        known if KNOWN.contains(&known) => Vec::new(),
        _ => {
            let lower = KNOWN.map(str::to_ascii_lowercase);
            let near = nearest(key, lower.iter().map(String::as_str));
            let near =
                near.and_then(|near| KNOWN.iter().find(|own| own.eq_ignore_ascii_case(near)));
            let hint = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
            vec![format!("unrecognized requirement in [{SECTION}] section: \"{key}\"{hint}")]
        }
    }
}

/// Splits one value. A value that begins and ends with `"` is a list of quoted words. Blanks
/// separate words outside the quotes. A backslash is an ordinary character.
fn words(line: &str) -> Vec<String> {
    if line.len() < 2 || !line.starts_with('"') || !line.ends_with('"') {
        return vec![line.to_string()];
    }
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Splits a word of MachineMetadata. Returns `None` if it has no effect.
fn pair(word: &str) -> Option<(&str, &str)> {
    let (key, value) = word.split_once('=')?;
    (!key.is_empty() && !value.is_empty() && !value.contains('=')).then_some((key, value))
}

fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "true" | "yes" | "1" | "on" | "t")
}

/// Expands `%n %N %p %i`, in this order; a literal `%` before these letters is not possible.
fn expand(value: &str, name: Option<&UnitName>) -> String {
    let Some(name) = name else { return value.to_string() };
    let pairs = [
        ("%n", name.as_str()),
        ("%N", name.stem()),
        ("%p", name.prefix()),
        ("%i", name.instance().unwrap_or_default()),
    ];
    pairs.iter().fold(value.to_string(), |value, (from, to)| value.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, name: &str) -> Requirement {
        let file = UnitFile::parse(&format!("[X-Fleet]\n{text}\n")).unwrap();
        Requirement::of(&file, UnitName::new(name).ok().as_ref())
    }

    #[test]
    fn a_line_may_hold_several_quoted_words() {
        let table: [(&str, &[&str]); 8] = [
            ("bar", &["bar"]),
            ("\"bar\"", &["bar"]),
            ("\"a\" \"b\"", &["a", "b"]),
            ("\"a\"   \"b c\"", &["a", "b c"]),
            ("\"bar", &["\"bar"]),
            ("\"bar\" \"", &["bar", ""]),
            ("\"foo\\\"bar\"", &["foo\\bar"]),
            ("a b", &["a b"]),
        ];
        for (line, expected) in table {
            assert_eq!(words(line), expected, "{line}");
        }
    }

    #[test]
    fn metadata_values_of_a_key_are_alternatives() {
        let read = read(
            "MachineMetadata=\"region=us-east-1\" \"disk=SSD\"\nMachineMetadata=region=us-west-1\nMachineMetadata=a=b=c\nMachineMetadata=x=\nX-ConditionMachineMetadata=old=1",
            "a.service",
        );
        let keys: Vec<_> = read.metadata.keys().map(String::as_str).collect();
        assert_eq!(keys, ["disk", "old", "region"]);
        assert_eq!(read.metadata["region"].len(), 2);
    }

    #[test]
    fn option_without_effect_is_reported_with_a_hint() {
        let warnings_for = |text: &str| -> String {
            let found = warnings(&UnitFile::parse(text).unwrap());
            found.into_iter().collect::<Vec<_>>().join("\n")
        };
        for (text, hint) in [
            ("[X-Fleet]\nMachineMetdata=a=b\n", "did you mean MachineMetadata?"),
            ("[X-Fleet]\nglobal=true\n", "did you mean Global?"),
            ("[X-Fleet]\nConflict=a*\n", "did you mean Conflicts?"),
            ("[X-fleet]\nGlobal=true\n", "did you mean [X-Fleet]?"),
            ("[XFleet]\nGlobal=true\n", "did you mean [X-Fleet]?"),
            ("[X-Fleet]\nMachineMetadata=a=1 b=2\n", "has no effect"),
            ("[X-Fleet]\nMachineMetadata=\"a=1\" \"b\"\n", "MachineMetadata=b has no effect"),
            ("[X-Fleet]\nGlobal=ture\n", "neither true nor false"),
            ("[X-Fleet]\nExclusive=si\n", "neither true nor false"),
        ] {
            assert!(warnings_for(text).contains(hint), "{text}: {}", warnings_for(text));
        }
        let good = "[Service]\nExecStart=/bin/a\n[X-Fleet]\nMachineMetadata=\"a=1\" \"b=2\"\n\
                    Global=yes\nX-Conflicts=a* b*\nExclusive=no\n[X-Own]\nGlobl=1\n";
        assert_eq!(warnings_for(good), "");
    }

    #[test]
    fn specifiers_take_the_units_own_name() {
        let text = "MachineOf=%p.socket\nConflicts=%p@*.%i %N\nReplaces=%n";
        let read = read(text, "web@3.service");
        assert_eq!(read.peers.into_iter().collect::<Vec<_>>(), ["web.socket"]);
        assert_eq!(read.conflicts, ["web@*.3", "web@3"]);
        assert_eq!(read.replaces, ["web@3.service"]);
    }

    #[test]
    fn the_newest_form_of_the_machine_id_wins() {
        let text = "X-ConditionMachineBootID=c\nX-ConditionMachineID=b\nMachineID=a\nMachineID=z";
        assert_eq!(read(text, "a.service").machine_id.as_deref(), Some("a"));
        assert_eq!(
            read("X-ConditionMachineBootID=c", "a.service").machine_id.as_deref(),
            Some("c")
        );
        assert_eq!(read("MachineID=", "a.service").machine_id.as_deref(), Some(""));
    }

    #[test]
    fn former_option_names_equal_the_new_ones() {
        for (former, new) in [
            ("X-ConditionMachineID=a", "MachineID=a"),
            ("X-ConditionMachineBootID=a", "MachineID=a"),
            ("X-ConditionMachineOf=%p.socket", "MachineOf=%p.socket"),
            ("X-ConditionMachineMetadata=\"a=1\" \"b=2\"", "MachineMetadata=\"a=1\" \"b=2\""),
            ("X-Conflicts=b@*.service c.*", "Conflicts=b@*.service c.*"),
        ] {
            let requirement = read(former, "a.service");
            assert_ne!(requirement, Requirement::default(), "{former}");
            assert_eq!(requirement, read(new, "a.service"), "{former}");
            let file = UnitFile::parse(&format!("[X-Fleet]\n{former}\n")).unwrap();
            assert!(warnings(&file).is_empty(), "{former}");
        }
        let both =
            read("X-ConditionMachineOf=a\nMachineOf=b\nX-Conflicts=c\nConflicts=d", "e.service");
        assert_eq!(both.peers.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(both.conflicts, ["d", "c"]);
    }

    #[test]
    fn last_global_option_counts() {
        for (text, global) in [
            ("Global=true", true),
            ("Global=YES", true),
            ("Global=1", true),
            ("Global=t", true),
            ("Global=on", true),
            ("Global=truer", false),
            ("Global=true\nGlobal=no", false),
            ("Global=no\nGlobal=true", true),
            ("global=true", false),
            ("X-Global=true", false),
        ] {
            assert_eq!(read(text, "a.service").global, global, "{text}");
        }
    }

    #[test]
    fn invalid_combinations_are_refused_with_fleets_messages() {
        let table = [
            ("MachineID=a\nMachineOf=b", Some("MachineID cannot be used with Peers")),
            ("MachineID=a\nConflicts=b", Some("MachineID cannot be used with Conflicts")),
            ("MachineID=\nGlobal=true", Some("MachineID cannot be used with Global")),
            ("MachineID=a\nReplaces=b", Some("MachineID cannot be used with Replaces")),
            ("Global=1\nMachineOf=b", Some("Global cannot be used with Peers")),
            ("Global=1\nReplaces=b", Some("Global cannot be used with Replaces")),
            ("Conflicts=a\nReplaces=b", Some("Conflicts cannot be used with Replaces")),
            ("Global=1\nExclusive=1", Some("Global cannot be used with Exclusive")),
            (
                "MachineOf=b.service\nConflicts=b.*",
                Some("unresolvable requirements: peer \"b.service\" matches conflict \"b.*\""),
            ),
            (
                "MachineOf=b.service\nReplaces=b.*",
                Some("unresolvable requirements: peer \"b.service\" matches replace \"b.*\""),
            ),
            ("MachineID=a\nMachineMetadata=b=c", None),
            ("Global=1\nConflicts=a", None),
            ("Global=1\nMachineMetadata=a=b", None),
            ("Replaces=a\nMachineOf=b", None),
        ];
        for (text, words) in table {
            let error = read(text, "a.service").check().err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), words, "{text}");
        }
    }

    #[test]
    fn more_peers_keys_or_patterns_than_one_write_can_hold_are_refused() {
        let lines = |line: fn(usize) -> String, count| -> String {
            (0..count).map(line).collect::<Vec<_>>().join("\n")
        };
        type Line = fn(usize) -> String;
        let table: [(Line, usize, &str); 4] = [
            (|n| format!("MachineOf=u{n}.service"), MOST_PEERS, "units in MachineOf"),
            (|n| format!("MachineMetadata=k{n}=1"), MOST_KEYS, "keys in MachineMetadata"),
            (|n| format!("Conflicts=u{n}.*"), MOST_PATTERNS, "patterns in Conflicts"),
            (|n| format!("Replaces=u{n}.*"), MOST_PATTERNS, "patterns in Replaces"),
        ];
        for (line, most, what) in table {
            assert_eq!(read(&lines(line, most), "a.service").check(), Ok(()), "{what}");
            let one_more = read(&lines(line, most + 1), "a.service").check();
            assert_eq!(one_more, Err(RequirementError::TooMany(what, most)));
        }
    }

    #[test]
    fn unknown_keys_are_reported() {
        let file = UnitFile::parse("[X-Fleet]\nX-Peers=a\nglobal=1\nGlobal=1\n").unwrap();
        assert_eq!(warnings(&file).len(), 2, "{:?}", warnings(&file));
    }
}
